"""Histograms and exact sums of the tuples of a span, added up batch by batch as `tools.histograms` adds rows.

The arrays are those of `sim.recording.HistogramRecording`, flat: no row is written. What a source or a sink without a
service does takes no time, so that a batch of it is a number to add.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from models.records.histogram import BINS
from sim.kernel.tools.cache import kernel
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
def bin_served(state: State, operator: int, n: int) -> None:
    """Add the services that are done: waits, sojourns, and when they ended."""
    step = max(1, _MOST_SUM // state.span.end)  # nothing took longer: the sum of so many fits into 64 bits
    for first in range(0, n, step):
        _bin_services(state, operator, first, min(n, first + step))
    first = operator * state.binning.intervals
    if _in_one_interval(state):
        state.ended[first + state.span.begin // state.binning.length] += n
    else:
        for k in range(n):
            state.ended[first + state.done[k].end // state.binning.length] += 1


@kernel
def _bin_services(state: State, operator: int, first: int, last: int) -> None:
    """Add waits and sojourns of some services that are done, in short loops: several of them at a time."""
    warmup, row = state.binning.warmup, operator * BINS
    n = 0
    for k in range(first, last):
        e = state.done[k]
        if e.at < warmup:
            _add_early(state, operator, e.at, e.start, e.end)
        else:
            state.drawn[n] = e.start - e.at
            state.keys[n] = e.end - e.at
            n += 1
    least_wait, most_wait, least_sojourn, most_sojourn = _NOTHING, -1, _NOTHING, -1
    wait_sum, sojourn_sum, waits = 0, 0, 0
    for k in range(n):
        wait, sojourn = state.drawn[k], state.keys[k]
        least_wait, most_wait = min(least_wait, wait), max(most_wait, wait)
        least_sojourn, most_sojourn = min(least_sojourn, sojourn), max(most_sojourn, sojourn)
        wait_sum += wait
        sojourn_sum += sojourn
        # As often as not there is no wait. Counting that in one place would make each count wait for the one before,
        # and a branch would be guessed wrong; so nothing is added to one of some other places.
        waited, in_bin = wait > 0, bin_of_more(wait)
        waits += waited
        state.drawn[k] = 2 * in_bin + 1 if waited else 2 * (k & _PLACES)
        state.keys[k] = bin_of_more(sojourn)
    for k in range(n):
        state.waits[row + (state.drawn[k] >> 1)] += state.drawn[k] & 1
        state.sojourns[row + state.keys[k]] += 1
    state.waits[row] += n - waits
    _widen(state, _COLUMNS * operator, least_wait, most_wait)
    _widen(state, _COLUMNS * operator + 2, least_sojourn, most_sojourn)
    _add(state, operator, WAIT, wait_sum)
    _add(state, operator, SOJOURN, sojourn_sum)
    _add(state, operator, WAITING, wait_sum)
    _add(state, operator, BUSY, sojourn_sum - wait_sum)


@kernel
def bin_passed(state: State, operator: int, n: int) -> None:
    """Add n tuples that took no time, at `times`."""
    if state.span.begin >= state.binning.warmup and _in_one_interval(state):
        _pass(state, operator, state.span.begin, n)
    else:
        for k in range(n):
            _pass(state, operator, state.times[k], 1)


@kernel
def bin_arrivals(state: State, operator: int, first: int, n: int) -> None:
    """Add n arrivals from this place on."""
    if state.span.begin >= state.binning.warmup and _in_one_interval(state):
        _pass(state, operator, state.span.begin, n)
    else:
        for k in range(first, first + n):
            _pass(state, operator, state.arrivals[k].time, 1)


@kernel
def bin_delivered(state: State, operator: int, n: int) -> None:
    """Add what a sink delivers at `times`, created at `spare`, which are lost: there must be a page for each."""
    step = max(1, _MOST_SUM // state.span.end)
    earliest = _NOTHING
    for k in range(n):
        earliest = min(earliest, state.spare[k])
    if 0 < n <= step and earliest >= state.binning.warmup and _in_one_interval(state):
        _bin_together(state, operator, n)
        return
    for first in range(0, n, step):
        _bin_latencies(state, operator, first, min(n, first + step))


@kernel
def _bin_together(state: State, operator: int, n: int) -> None:
    """`_bin_latencies` of n tuples in one interval that were created behind the warm-up: several of them at a time."""
    sink = state.sink_of[operator]
    row, interval = sink * BINS, sink * state.binning.intervals + state.span.begin // state.binning.length
    least, most, total = _NOTHING, -1, 0
    for k in range(n):
        latency = state.times[k] - state.spare[k]
        least, most = min(least, latency), max(most, latency)
        total += latency
        in_bin = bin_of_more(latency)
        state.times[k] = in_bin if latency > 0 else 0
    for k in range(n):
        in_bin = state.times[k]
        state.latencies[row + in_bin] += 1
        state.pages[_page(state, interval, in_bin // PAGE) * PAGE + in_bin % PAGE] += 1
    _add_interval(state, interval, n, total, most)
    _add_latencies(state, sink, total, least, most)


@kernel
def _page(state: State, interval: int, octave: int) -> int:
    """Return the page of a part of the histogram of an interval, a new one if it has none."""
    place = interval * PAGES + octave
    page = state.directory[place]
    if page == 0:
        page = state.used[0]
        state.used[0] += 1
        state.directory[place] = page
    return page


@kernel
def _add_latencies(state: State, sink: int, total: int, least: int, most: int) -> None:
    state.latency_sums[2 * sink] += total >> 32
    state.latency_sums[2 * sink + 1] += total & _LOW_BITS
    state.latency_extremes[2 * sink] = min(state.latency_extremes[2 * sink], least)
    state.latency_extremes[2 * sink + 1] = max(state.latency_extremes[2 * sink + 1], most)


@kernel
def _bin_latencies(state: State, operator: int, first: int, last: int) -> None:
    """Add some of what a sink delivers."""
    sink = state.sink_of[operator]
    warmup, length, row = state.binning.warmup, state.binning.length, sink * BINS
    least, most, total = _NOTHING, -1, 0
    interval, begin, end = sink * state.binning.intervals, 0, 0
    count, added, greatest = 0, 0, 0
    for k in range(first, last):
        at, created = state.times[k], state.spare[k]
        latency = at - created
        if at < begin or at >= end:
            _add_interval(state, interval, count, added, greatest)
            count, added, greatest = 0, 0, 0
            interval = sink * state.binning.intervals + at // length
            begin = at // length * length
            end = begin + length
        in_bin = bin_of_one(latency)
        count += 1
        added += latency
        greatest = max(greatest, latency)
        if created >= warmup:
            state.latencies[row + in_bin] += 1
            total += latency
            least, most = min(least, latency), max(most, latency)
        state.pages[_page(state, interval, in_bin // PAGE) * PAGE + in_bin % PAGE] += 1
    _add_interval(state, interval, count, added, greatest)
    _add_latencies(state, sink, total, least, most)


@kernel
def _in_one_interval(state: State) -> bool:
    """Return whether all that happens in the span happens in one interval of the recording."""
    length = state.binning.length
    return state.span.begin // length == (state.span.end - 1) // length


@kernel
def _pass(state: State, operator: Any, at: int, n: int) -> None:
    """Add n tuples that arrive at an instant, or in its interval, and take no time."""
    if at >= state.binning.warmup:
        state.waits[operator * BINS] += n
        state.sojourns[operator * BINS] += n
        _widen(state, _COLUMNS * operator, 0, 0)
        _widen(state, _COLUMNS * operator + 2, 0, 0)
    else:
        state.sums[SUMS * operator + OTHERS] += n
    state.ended[operator * state.binning.intervals + at // state.binning.length] += n


@kernel
def _add_early(state: State, operator: int, arrival: int, start: int, end: int) -> None:
    """A service that came before the end of the warm-up: what of it is behind that."""
    warmup = state.binning.warmup
    state.sums[SUMS * operator + OTHERS] += 1
    waited, served = max(0, start - warmup), max(0, end - max(start, warmup))
    _add(state, operator, WAITING, waited)
    _add(state, operator, BUSY, served)


@kernel
def _add_interval(state: State, interval: Any, count: int, added: int, greatest: int) -> None:
    place = _COLUMNS * interval
    state.intervals[place + COUNT] += count
    state.intervals[place + HIGH] += added >> 32
    state.intervals[place + LOW] += added & _LOW_BITS
    state.intervals[place + GREATEST] = max(state.intervals[place + GREATEST], greatest)


@kernel
def _widen(state: State, place: int, least: int, most: int) -> None:
    state.extremes[place] = min(state.extremes[place], least)
    state.extremes[place + 1] = max(state.extremes[place + 1], most)


@kernel
def _add(state: State, operator: int, column: int, value: int) -> None:
    state.sums[SUMS * operator + column] += value >> 32
    state.sums[SUMS * operator + column + 1] += value & _LOW_BITS
