"""Blocks of rows binned into counts and exact sums, compiled: nothing here depends on the order of the rows.

A sum is a pair (high, low) of 64-bit integers that stands for high * 2^32 + low: each value gives its upper bits to
the one and its lower 32 bits to the other, so that neither overflows within 2^31 rows.
"""

from __future__ import annotations

import numpy as np

from models.records.histogram import MANTISSA_BITS
from models.records.tables import NEVER
from sim.kernel.tools.cache import allocating

# Columns of the sums of an operator: visits that count for no wait, and pairs.
OTHERS, WAIT, SOJOURN, WAITING, BUSY = 0, 1, 3, 5, 7
SUMS = 9
# Extremes of an operator: least and greatest wait, least and greatest sojourn.
# Columns of an interval of a sink.
COUNT, HIGH, LOW, GREATEST = range(4)
PAGE = 128  # bins that are kept or not as one
PAGES = 64  # in a histogram

_PAGE_BITS, _WITHIN = np.uint64(7), np.uint64(PAGE - 1)
_SHIFT = 52 - MANTISSA_BITS
_FIRST = 1023 << MANTISSA_BITS
_EXACT_FLOAT = 2**53
_CUT = ~1023
_LOW_BITS = 0xFFFFFFFF
_NOTHING = 2**63 - 1  # the least of no values


@allocating
def bin_of_one(value: int) -> int:
    """Return `models.records.histogram.bin_of` of one value [ns] that is not negative."""
    in_bin = bin_of_more(value)  # first, so that it is chosen and not jumped over: 0 is as frequent as not
    return in_bin if value > 0 else 0


@allocating
def bin_of_more(value: int) -> int:
    """Return `bin_of_one` of a value above 0; of 0 some number that is no bin."""
    if value >= _EXACT_FLOAT:
        value &= _CUT
    return int((np.float64(value).view(np.int64) >> _SHIFT) - _FIRST + 1)


@allocating
def bin_visits(
    rows: np.ndarray,
    window: tuple[int, int, int],
    sums: np.ndarray,
    extremes: np.ndarray,
    waits: np.ndarray,
    sojourns: np.ndarray,
    ended: np.ndarray,
) -> int:
    """Add rows of visits to sums, extremes and histograms by operator.

    `rows` (n, 5) int64: operator, task, arrival, start, end [ns]; an end is NEVER where the service did not end.
    `window`: warm-up, duration, length of an interval [ns]. Added to: `sums` (operators, SUMS), `extremes` (operators,
    4), `waits` and `sojourns` (operators, BINS), `ended` (operators, intervals).

    Returns -1, or the first row that cannot be; then nothing of what was added means anything.
    """
    inner = np.zeros((sums.shape[0], 2), np.int64)
    # No part of a visit within the window is longer than the run: so many of them fit into 64 bits.
    step = max(1, 2**62 // window[1])
    for first in range(0, rows.shape[0], step):
        wrong = _bin_visits(rows[first : first + step], window, inner, sums, extremes, waits, sojourns, ended)
        if wrong >= 0:
            return first + wrong
        for operator in range(sums.shape[0]):
            wait, sojourn = inner[operator, 0], inner[operator, 1]
            _add(sums, operator, WAIT, wait)
            _add(sums, operator, SOJOURN, sojourn)
            _add(sums, operator, WAITING, wait)
            _add(sums, operator, BUSY, sojourn - wait)
            inner[operator] = 0
    return -1


@allocating
def _bin_visits(
    rows: np.ndarray,
    window: tuple[int, int, int],
    inner: np.ndarray,
    sums: np.ndarray,
    extremes: np.ndarray,
    waits: np.ndarray,
    sojourns: np.ndarray,
    ended: np.ndarray,
) -> int:
    """Do as `bin_visits`, but add waits and sojourns of visits within the window to `inner` (operators, 2)."""
    warmup, duration, length = window
    bucket, begin, end_of = 0, 0, length
    for k in range(rows.shape[0]):
        arrival, start, end = rows[k, 2], rows[k, 3], rows[k, 4]
        if rows[k, 0] < 0 or rows[k, 0] >= sums.shape[0] or arrival < 0 or start < arrival:
            return k
        if end < start and end != NEVER:
            return k
        # Unsigned indices: numba then does not look whether they count from the end.
        operator = np.uint64(rows[k, 0])
        wait, sojourn = start - arrival, end - arrival
        counts = warmup <= arrival < duration
        if counts:
            _count(waits, extremes, operator, 0, wait)
        else:
            sums[operator, OTHERS] += 1
        if counts and end != NEVER:
            _count(sojourns, extremes, operator, 2, sojourn)
        if counts and end != NEVER and end <= duration:
            inner[operator, 0] += wait
            inner[operator, 1] += sojourn
        else:
            _add_outer(sums, operator, arrival, start, end, warmup, duration)
        if end != NEVER and end < duration:
            if end < begin or end >= end_of:
                bucket = end // length
                begin = bucket * length
                end_of = begin + length
            ended[operator, np.uint64(bucket)] += 1
    return -1


@allocating
def bin_deliveries(
    rows: np.ndarray,
    first: int,
    window: tuple[int, int, int],
    sink_of: np.ndarray,
    sums: np.ndarray,
    extremes: np.ndarray,
    latencies: np.ndarray,
    intervals: np.ndarray,
    directory: np.ndarray,
    pages: np.ndarray,
    used: np.ndarray,
) -> tuple[int, bool]:
    """Add rows of deliveries to sums, extremes and histograms by sink and interval.

    `rows` (n, 3) int64: operator, created, delivered [ns], of which those before `first` are done. `sink_of`
    (operators,) is -1 for operators that are no sinks. Of tuples created in the window: `sums`, `extremes` (sinks, 2)
    and `latencies` (sinks, BINS). Of all tuples: `intervals` (sinks, intervals, 4), and the histograms of intervals,
    whose pages (n, PAGE) `directory` (sinks, intervals, PAGES) names. Page 0 is nobody's, `used[0]` says how many pages
    are in use.

    Returns the first row that was not added, and whether that is because it cannot be; else there are no more pages, or
    no more rows. The caller adds pages, and calls again from that row on.
    """
    warmup, duration, length = window
    last = intervals.shape[1] - 1
    begin, end_of, of = 0, 0, -1
    sink, bucket = np.uint64(0), np.uint64(0)
    # Of one sink in one interval: how many, their sum in two parts, the greatest; of those created in the window the
    # same.
    count, high, low, greatest = 0, 0, 0, 0
    window_high, window_low, least, most = 0, 0, _NOTHING, -1
    done, wrong = rows.shape[0], False
    for k in range(first, rows.shape[0]):
        operator, created, at = rows[k, 0], rows[k, 1], rows[k, 2]
        if operator < 0 or operator >= sink_of.shape[0] or sink_of[operator] < 0 or created < 0 or at < created:
            done, wrong = k, True
            break
        if used[0] == pages.shape[0]:
            done = k
            break
        if operator != of or at < begin or at >= end_of:
            _add_deliveries(intervals[sink, bucket], count, high, low, greatest)
            _add_in_window(sums, extremes, sink, window_high, window_low, least, most)
            count, high, low, greatest = 0, 0, 0, 0
            window_high, window_low, least, most = 0, 0, _NOTHING, -1
            of, sink = operator, np.uint64(sink_of[operator])
            bucket = np.uint64(min(at // length, last))
            begin = at // length * length
            end_of = begin + length
        latency = at - created
        in_bin = np.uint64(bin_of_one(latency))
        count += 1
        high += latency >> 32
        low += latency & _LOW_BITS
        greatest = max(greatest, latency)
        if warmup <= created < duration:
            latencies[sink, in_bin] += 1
            window_high += latency >> 32
            window_low += latency & _LOW_BITS
            least, most = min(least, latency), max(most, latency)
        octave = in_bin >> _PAGE_BITS
        page = directory[sink, bucket, octave]
        if page == 0:
            page = used[0]
            used[0] += 1
            directory[sink, bucket, octave] = page
        pages[page, in_bin & _WITHIN] += 1
    _add_deliveries(intervals[sink, bucket], count, high, low, greatest)
    _add_in_window(sums, extremes, sink, window_high, window_low, least, most)
    return done, wrong


@allocating
def _add_deliveries(interval: np.ndarray, count: int, high: int, low: int, greatest: int) -> None:
    """Add the deliveries of one sink in one interval."""
    if count > 0:
        interval[COUNT] += count
        interval[HIGH] += high
        interval[LOW] += low
        interval[GREATEST] = max(interval[GREATEST], greatest)


@allocating
def _add_in_window(
    sums: np.ndarray, extremes: np.ndarray, sink: np.uint64, high: int, low: int, least: int, most: int
) -> None:
    """Add the latencies of one sink that count; nothing if there was none (most < 0)."""
    if most >= 0:
        sums[sink, 0] += high
        sums[sink, 1] += low
        extremes[sink, 0] = min(extremes[sink, 0], least)
        extremes[sink, 1] = max(extremes[sink, 1], most)


@allocating
def _count(bins: np.ndarray, extremes: np.ndarray, row: np.uint64, column: int, value: int) -> None:
    """Count a value in the histogram of a row, and in its least and greatest value, which stand at `column`."""
    bins[row, np.uint64(bin_of_one(value))] += 1
    # Written seldom: a write each time would make the next value wait for it.
    if value < extremes[row, column]:  # noqa: PLR1730
        extremes[row, column] = value
    if value > extremes[row, column + 1]:  # noqa: PLR1730
        extremes[row, column + 1] = value


@allocating
def _add_outer(
    sums: np.ndarray, row: np.uint64, arrival: int, start: int, end: int, warmup: int, duration: int
) -> None:
    """Add a visit that reaches out of the window: as a whole where it counts, and what of it is in the window."""
    if warmup <= arrival < duration:
        _add(sums, row, WAIT, start - arrival)
        if end != NEVER:
            _add(sums, row, SOJOURN, end - arrival)
    _add_clipped(sums, row, WAITING, arrival, start, warmup, duration)
    _add_clipped(sums, row, BUSY, start, duration if end == NEVER else end, warmup, duration)


@allocating
def _add(sums: np.ndarray, row: int | np.uint64, column: int, value: int) -> None:
    """Add a value to a sum in two parts; a negative one too, since its upper bits carry the sign."""
    sums[row, column] += value >> 32
    sums[row, column + 1] += value & _LOW_BITS


@allocating
def _add_clipped(sums: np.ndarray, row: np.uint64, column: int, begin: int, end: int, low: int, high: int) -> None:
    """Add the part of [begin, end) that is in [low, high)."""
    begin, end = max(begin, low), min(end, high)
    if begin < end:
        _add(sums, row, column, end - begin)


@allocating
def cells(directory: np.ndarray, pages: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return (interval, sink, bin, count) of all counts of the histograms of intervals, (n,) each, sorted by these.

    `directory`, `pages`: as `bin_deliveries` leaves them.
    """
    n = 0
    for page in range(1, pages.shape[0]):
        for within in range(PAGE):
            n += pages[page, within] > 0
    interval, sink = np.empty(n, np.int32), np.empty(n, np.int16)
    in_bin, count = np.empty(n + 1, np.int16), np.empty(n + 1, np.int32)  # what is not counted is written over
    found = 0
    for at in range(directory.shape[1]):
        for row in range(directory.shape[0]):
            for octave in range(PAGES):
                page = directory[row, at, octave]
                if page == 0:
                    continue
                first = found
                for within in range(PAGE):
                    in_bin[found] = octave * PAGE + within
                    count[found] = pages[page, within]
                    found += pages[page, within] > 0
                interval[first:found] = at
                sink[first:found] = row
    return interval, sink, in_bin[:n], count[:n]


@allocating
def split_visits(rows: np.ndarray, first: int, columns: tuple[np.ndarray, ...]) -> None:
    """Write rows (n, 5) into the columns of `visits` from place `first` on."""
    operator, task, arrival, start, end = columns
    for k in range(rows.shape[0]):
        operator[first + k] = rows[k, 0]
        task[first + k] = rows[k, 1]
        arrival[first + k] = rows[k, 2]
        start[first + k] = rows[k, 3]
        end[first + k] = rows[k, 4]


@allocating
def split_deliveries(rows: np.ndarray, first: int, columns: tuple[np.ndarray, ...]) -> None:
    """Write rows (n, 3) into the columns of `deliveries` from place `first` on."""
    operator, created, delivered = columns
    for k in range(rows.shape[0]):
        operator[first + k] = rows[k, 0]
        created[first + k] = rows[k, 1]
        delivered[first + k] = rows[k, 2]
