"""Histograms and exact sums of the tuples of a span, added up batch by batch as `tools.histograms` adds rows.

The arrays are those of `sim.recording.HistogramRecording`, flat: no row is written. What a source or a sink without a
service does takes no time, so that a batch of it is a number to add.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from models.records.histogram import BINS
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.histograms import (
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
from sim.kernel.tools.pointer import State

# What the histograms are about: instants from the warm-up on, intervals of a length.
BINNING = np.dtype([("warmup", "i8"), ("length", "i8"), ("intervals", "i8")])

HISTOGRAM_PAGES = ("directory", "pages")

HISTOGRAM_COUNTS = (
    "sums",
    "extremes",
    "waits",
    "sojourns",
    "ended",
    "sink_of",
    "latency_sums",
    "latency_extremes",
    "latencies",
    "intervals",
    "used",
)


_LOW_BITS = 0xFFFFFFFF
_COLUMNS = 4  # of an interval of a sink, and of the extremes of an operator
_NOTHING = 2**63 - 1
_PLACES = 63
_MOST_SUM = 2**62


@kernel
def bin_served(s: State, operator: int, n: int) -> None:
    """Add the services that are done: waits, sojourns, and when they ended."""
    step = max(1, _MOST_SUM // s.span.end)  # nothing took longer: the sum of so many fits into 64 bits
    for first in range(0, n, step):
        _bin_services(s, operator, first, min(n, first + step))
    first = operator * s.binning.intervals
    if _in_one_interval(s):
        s.ended[first + s.span.begin // s.binning.length] += n
    else:
        for k in range(n):
            s.ended[first + s.done[k].end // s.binning.length] += 1


@kernel
def _bin_services(s: State, operator: int, first: int, last: int) -> None:
    """Add waits and sojourns of some services that are done, in short loops: several of them at a time."""
    warmup, row = s.binning.warmup, operator * BINS
    n = 0
    for k in range(first, last):
        e = s.done[k]
        if e.at < warmup:
            _add_early(s, operator, e.at, e.start, e.end)
        else:
            s.drawn[n] = e.start - e.at
            s.keys[n] = e.end - e.at
            n += 1
    least_wait, most_wait, least_sojourn, most_sojourn = _NOTHING, -1, _NOTHING, -1
    wait_sum, sojourn_sum, waits = 0, 0, 0
    for k in range(n):
        wait, sojourn = s.drawn[k], s.keys[k]
        least_wait, most_wait = min(least_wait, wait), max(most_wait, wait)
        least_sojourn, most_sojourn = min(least_sojourn, sojourn), max(most_sojourn, sojourn)
        wait_sum += wait
        sojourn_sum += sojourn
        # As often as not there is no wait. Counting that in one place would make each count wait for the one before,
        # and a branch would be guessed wrong; so nothing is added to one of some other places.
        waited, in_bin = wait > 0, bin_of_more(wait)
        waits += waited
        s.drawn[k] = 2 * in_bin + 1 if waited else 2 * (k & _PLACES)
        s.keys[k] = bin_of_more(sojourn)
    for k in range(n):
        s.waits[row + (s.drawn[k] >> 1)] += s.drawn[k] & 1
        s.sojourns[row + s.keys[k]] += 1
    s.waits[row] += n - waits
    _widen(s, _COLUMNS * operator, least_wait, most_wait)
    _widen(s, _COLUMNS * operator + 2, least_sojourn, most_sojourn)
    _add(s, operator, WAIT, wait_sum)
    _add(s, operator, SOJOURN, sojourn_sum)
    _add(s, operator, WAITING, wait_sum)
    _add(s, operator, BUSY, sojourn_sum - wait_sum)


@kernel
def bin_passed(s: State, operator: int, n: int) -> None:
    """Add n tuples that took no time, at `times`."""
    if s.span.begin >= s.binning.warmup and _in_one_interval(s):
        _pass(s, operator, s.span.begin, n)
    else:
        for k in range(n):
            _pass(s, operator, s.times[k], 1)


@kernel
def bin_arrivals(s: State, operator: int, first: int, n: int) -> None:
    """Add n arrivals from this place on."""
    if s.span.begin >= s.binning.warmup and _in_one_interval(s):
        _pass(s, operator, s.span.begin, n)
    else:
        for k in range(first, first + n):
            _pass(s, operator, s.arrivals[k].time, 1)


@kernel
def bin_delivered(s: State, operator: int, n: int) -> None:
    """Add what a sink delivers at `times`, created at `spare`, which are lost: there must be a page for each."""
    step = max(1, _MOST_SUM // s.span.end)
    earliest = _NOTHING
    for k in range(n):
        earliest = min(earliest, s.spare[k])
    if 0 < n <= step and earliest >= s.binning.warmup and _in_one_interval(s):
        _bin_together(s, operator, n)
        return
    for first in range(0, n, step):
        _bin_latencies(s, operator, first, min(n, first + step))


@kernel
def _bin_together(s: State, operator: int, n: int) -> None:
    """`_bin_latencies` of n tuples in one interval that were created behind the warm-up: several of them at a time."""
    sink = s.sink_of[operator]
    row, interval = sink * BINS, sink * s.binning.intervals + s.span.begin // s.binning.length
    least, most, total = _NOTHING, -1, 0
    for k in range(n):
        latency = s.times[k] - s.spare[k]
        least, most = min(least, latency), max(most, latency)
        total += latency
        in_bin = bin_of_more(latency)
        s.times[k] = in_bin if latency > 0 else 0
    for k in range(n):
        in_bin = s.times[k]
        s.latencies[row + in_bin] += 1
        s.pages[_page(s, interval, in_bin // PAGE) * PAGE + in_bin % PAGE] += 1
    _add_interval(s, interval, n, total, most)
    _add_latencies(s, sink, total, least, most)


@kernel
def _page(s: State, interval: int, octave: int) -> int:
    """The page of a part of the histogram of an interval, a new one if it has none."""
    place = interval * PAGES + octave
    page = s.directory[place]
    if page == 0:
        page = s.used[0]
        s.used[0] += 1
        s.directory[place] = page
    return page


@kernel
def _add_latencies(s: State, sink: int, total: int, least: int, most: int) -> None:
    s.latency_sums[2 * sink] += total >> 32
    s.latency_sums[2 * sink + 1] += total & _LOW_BITS
    s.latency_extremes[2 * sink] = min(s.latency_extremes[2 * sink], least)
    s.latency_extremes[2 * sink + 1] = max(s.latency_extremes[2 * sink + 1], most)


@kernel
def _bin_latencies(s: State, operator: int, first: int, last: int) -> None:
    """Add some of what a sink delivers."""
    sink = s.sink_of[operator]
    warmup, length, row = s.binning.warmup, s.binning.length, sink * BINS
    least, most, total = _NOTHING, -1, 0
    interval, begin, end = sink * s.binning.intervals, 0, 0
    count, added, greatest = 0, 0, 0
    for k in range(first, last):
        at, created = s.times[k], s.spare[k]
        latency = at - created
        if at < begin or at >= end:
            _add_interval(s, interval, count, added, greatest)
            count, added, greatest = 0, 0, 0
            interval = sink * s.binning.intervals + at // length
            begin = at // length * length
            end = begin + length
        in_bin = bin_of_one(latency)
        count += 1
        added += latency
        greatest = max(greatest, latency)
        if created >= warmup:
            s.latencies[row + in_bin] += 1
            total += latency
            least, most = min(least, latency), max(most, latency)
        s.pages[_page(s, interval, in_bin // PAGE) * PAGE + in_bin % PAGE] += 1
    _add_interval(s, interval, count, added, greatest)
    _add_latencies(s, sink, total, least, most)


@kernel
def _in_one_interval(s: State) -> bool:
    """Whether all that happens in the span happens in one interval of the recording."""
    length = s.binning.length
    return s.span.begin // length == (s.span.end - 1) // length


@kernel
def _pass(s: State, operator: Any, at: int, n: int) -> None:
    """Add n tuples that arrive at an instant, or in its interval, and take no time."""
    if at >= s.binning.warmup:
        s.waits[operator * BINS] += n
        s.sojourns[operator * BINS] += n
        _widen(s, _COLUMNS * operator, 0, 0)
        _widen(s, _COLUMNS * operator + 2, 0, 0)
    else:
        s.sums[SUMS * operator + OTHERS] += n
    s.ended[operator * s.binning.intervals + at // s.binning.length] += n


@kernel
def _add_early(s: State, operator: int, arrival: int, start: int, end: int) -> None:
    """A service that came before the end of the warm-up: what of it is behind that."""
    warmup = s.binning.warmup
    s.sums[SUMS * operator + OTHERS] += 1
    waited, served = max(0, start - warmup), max(0, end - max(start, warmup))
    _add(s, operator, WAITING, waited)
    _add(s, operator, BUSY, served)


@kernel
def _add_interval(s: State, interval: Any, count: int, added: int, greatest: int) -> None:
    place = _COLUMNS * interval
    s.intervals[place + COUNT] += count
    s.intervals[place + HIGH] += added >> 32
    s.intervals[place + LOW] += added & _LOW_BITS
    s.intervals[place + GREATEST] = max(s.intervals[place + GREATEST], greatest)


@kernel
def _widen(s: State, place: int, least: int, most: int) -> None:
    s.extremes[place] = min(s.extremes[place], least)
    s.extremes[place + 1] = max(s.extremes[place + 1], most)


@kernel
def _add(s: State, operator: int, column: int, value: int) -> None:
    s.sums[SUMS * operator + column] += value >> 32
    s.sums[SUMS * operator + column + 1] += value & _LOW_BITS
