"""Histograms and exact sums of the tuples of a span, added up batch by batch as `sim.compiled.folds` adds rows.

The arrays are those of `sim.recording.HistogramRecording`, flat: no row is written. What a source or a sink without a
service does takes no time, so that a batch of it is a number to add.
"""

from __future__ import annotations

from typing import Any

from models.histogram import BINS
from sim.compiled.compiling import kernel
from sim.compiled.folds import (
    BUSY,
    COUNT,
    GREATEST,
    HIGH,
    LOW,
    OTHERS,
    PAGE,
    PAGES,
    SOJOURN,
    SUMS,
    WAIT,
    WAITING,
    bin_of_more,
    bin_of_one,
)
from sim.compiled.scan_state import ScanState

_LOW_BITS = 0xFFFFFFFF
_COLUMNS = 4  # of an interval of a sink, and of the extremes of an operator
_NOTHING = 2**63 - 1
_PLACES = 63
_MOST_SUM = 2**62


@kernel
def fold_served(s: ScanState, operator: int, n: int) -> None:
    """Add the services that are done: waits, sojourns, and when they ended."""
    step = max(1, _MOST_SUM // s.g[0].end)  # nothing took longer: the sum of so many fits into 64 bits
    for first in range(0, n, step):
        _fold_services(s, operator, first, min(n, first + step))
    first = operator * s.folding[0].intervals
    if _in_one_interval(s):
        s.ended[first + s.g[0].begin // s.folding[0].length] += n
    else:
        for k in range(n):
            s.ended[first + s.done[k].end // s.folding[0].length] += 1


@kernel
def _fold_services(s: ScanState, operator: int, first: int, last: int) -> None:
    """Add waits and sojourns of some services that are done."""
    warmup, row = s.folding[0].warmup, operator * BINS
    least_wait, most_wait, least_sojourn, most_sojourn = _NOTHING, -1, _NOTHING, -1
    wait_sum, sojourn_sum, waits, services = 0, 0, 0, 0
    for k in range(first, last):
        e = s.done[k]
        if e.at < warmup:
            _add_early(s, operator, e.at, e.start, e.end)
            continue
        wait, sojourn = e.start - e.at, e.end - e.at
        # As often as not there is no wait. Counting that in one place would make each count wait for the one before,
        # and a branch would be guessed wrong; so nothing is added to one of some other places.
        waited, in_bin = wait > 0, bin_of_more(wait)
        s.waits[row + (in_bin if waited else k & _PLACES)] += waited
        waits += waited
        services += 1
        s.sojourns[row + bin_of_more(sojourn)] += 1
        least_wait, most_wait = min(least_wait, wait), max(most_wait, wait)
        least_sojourn, most_sojourn = min(least_sojourn, sojourn), max(most_sojourn, sojourn)
        wait_sum += wait
        sojourn_sum += sojourn
    s.waits[row] += services - waits
    _widen(s, _COLUMNS * operator, least_wait, most_wait)
    _widen(s, _COLUMNS * operator + 2, least_sojourn, most_sojourn)
    _add(s, operator, WAIT, wait_sum)
    _add(s, operator, SOJOURN, sojourn_sum)
    _add(s, operator, WAITING, wait_sum)
    _add(s, operator, BUSY, sojourn_sum - wait_sum)


@kernel
def fold_passed(s: ScanState, operator: int, n: int) -> None:
    """Add n tuples that took no time, at `times`."""
    if s.g[0].begin >= s.folding[0].warmup and _in_one_interval(s):
        _pass(s, operator, s.g[0].begin, n)
    else:
        for k in range(n):
            _pass(s, operator, s.times[k], 1)


@kernel
def fold_births(s: ScanState, operator: int, first: int, n: int) -> None:
    """Add n births from this place on."""
    if s.g[0].begin >= s.folding[0].warmup and _in_one_interval(s):
        _pass(s, operator, s.g[0].begin, n)
    else:
        for k in range(first, first + n):
            _pass(s, operator, s.births[k].time, 1)


@kernel
def fold_delivered(s: ScanState, operator: int, n: int) -> None:
    """Add what a sink delivers at `times`, born at `spare`: there must be a page for each."""
    f, sink = s.folding[0], s.sink_of[operator]
    warmup, length, row = f.warmup, f.length, sink * BINS
    least, most, total_high, total_low = _NOTHING, -1, 0, 0
    interval, begin, end = sink * f.intervals, 0, 0
    count, high, low, greatest = 0, 0, 0, 0
    for k in range(n):
        at, birth = s.times[k], s.spare[k]
        latency = at - birth
        if at < begin or at >= end:
            _add_interval(s, interval, count, high, low, greatest)
            count, high, low, greatest = 0, 0, 0, 0
            interval = sink * f.intervals + at // length
            begin = at // length * length
            end = begin + length
        in_bin = bin_of_one(latency)
        count += 1
        high += latency >> 32
        low += latency & _LOW_BITS
        greatest = max(greatest, latency)
        if birth >= warmup:
            s.latencies[row + in_bin] += 1
            total_high += latency >> 32
            total_low += latency & _LOW_BITS
            least, most = min(least, latency), max(most, latency)
        place = interval * PAGES + in_bin // PAGE
        page = s.directory[place]
        if page == 0:
            page = s.used[0]
            s.used[0] += 1
            s.directory[place] = page
        s.pages[page * PAGE + in_bin % PAGE] += 1
    _add_interval(s, interval, count, high, low, greatest)
    s.latency_sums[2 * sink] += total_high
    s.latency_sums[2 * sink + 1] += total_low
    s.latency_extremes[2 * sink] = min(s.latency_extremes[2 * sink], least)
    s.latency_extremes[2 * sink + 1] = max(s.latency_extremes[2 * sink + 1], most)


@kernel
def _in_one_interval(s: ScanState) -> bool:
    """Whether all that happens in the span happens in one interval of the recording."""
    length = s.folding[0].length
    return s.g[0].begin // length == (s.g[0].end - 1) // length


@kernel
def _pass(s: ScanState, operator: Any, at: int, n: int) -> None:
    """Add n tuples that arrive at an instant, or in its interval, and take no time."""
    f = s.folding[0]
    if at >= f.warmup:
        s.waits[operator * BINS] += n
        s.sojourns[operator * BINS] += n
        _widen(s, _COLUMNS * operator, 0, 0)
        _widen(s, _COLUMNS * operator + 2, 0, 0)
    else:
        s.sums[SUMS * operator + OTHERS] += n
    s.ended[operator * f.intervals + at // f.length] += n


@kernel
def _add_early(s: ScanState, operator: int, arrival: int, start: int, end: int) -> None:
    """A service that came before the end of the warm-up: what of it is behind that."""
    warmup = s.folding[0].warmup
    s.sums[SUMS * operator + OTHERS] += 1
    waited, served = max(0, start - warmup), max(0, end - max(start, warmup))
    _add(s, operator, WAITING, waited)
    _add(s, operator, BUSY, served)


@kernel
def _add_interval(s: ScanState, interval: Any, count: int, high: int, low: int, greatest: int) -> None:
    place = _COLUMNS * interval
    s.intervals[place + COUNT] += count
    s.intervals[place + HIGH] += high
    s.intervals[place + LOW] += low
    s.intervals[place + GREATEST] = max(s.intervals[place + GREATEST], greatest)


@kernel
def _widen(s: ScanState, place: int, least: int, most: int) -> None:
    s.extremes[place] = min(s.extremes[place], least)
    s.extremes[place + 1] = max(s.extremes[place + 1], most)


@kernel
def _add(s: ScanState, operator: int, column: int, value: int) -> None:
    s.sums[SUMS * operator + column] += value >> 32
    s.sums[SUMS * operator + column + 1] += value & _LOW_BITS
