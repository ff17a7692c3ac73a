"""Tables over time from the records of one replication: latency, throughput, queues, load, bytes.

Interval k is [k, k + 1) x interval_ns; intervals cover the whole run, warm-up included. Latency is filed
under the interval of delivery. An interval without a value holds NEVER (-1) in integer columns. A run recorded as
histograms gives the same tables, but for quantiles, which are off by at most 0.4 %, in intervals that are multiples
of its own (`fitting_interval`).

`backpressure` summarises bounded queues: how full they were, whom they held back, and how far sources were behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from analysis.runs.histograms import delivered_histograms, delivered_sums, intervals_of, quantiles_by_interval
from analysis.statistics import NS_PER_S
from models.records.histogram import Floats, Ints, bin_of
from models.records.tables import NEVER, RunRecords, bucket_ns
from models.scenario.scenario import Scenario


@dataclass(frozen=True)
class LatencyTimeline:
    """Per interval (n_intervals,): begin, deliveries, and mean, median, 99 % quantile and maximum of latency [ns]."""

    at_ns: Ints
    count: Ints
    mean_ns: Ints
    p50_ns: Ints
    p99_ns: Ints
    max_ns: Ints


@dataclass(frozen=True)
class Series:
    """One line for each name: `values` (n_names, n_times) at `at_ns` (n_times,)."""

    names: tuple[str, ...]
    at_ns: Ints
    values: Ints | Floats


@dataclass(frozen=True)
class BinCounts:
    """The latency histogram of each interval, sparse: rows (interval begin, bin, count), sorted."""

    at_ns: Ints
    bin: Ints
    count: Ints


def fitting_interval(one: RunRecords, interval_ns: int) -> int:
    """Return the shortest interval [ns] that is not shorter than this and that the records have tables for."""
    length = 1 if one.detail == "tuples" else bucket_ns(one.duration_ns)
    # Rounded up: an interval that cuts a recorded bucket could not be told apart from its neighbour.
    return -(-interval_ns // length) * length


def latency_timeline(one: RunRecords, interval_ns: int = NS_PER_S) -> LatencyTimeline:
    """Return latency by interval of delivery; quantiles are exact from rows, the mean is rounded down [ns]."""
    at_ns = _grid(one, interval_ns)
    if one.detail == "histograms":
        return _binned_timeline(one, interval_ns, at_ns)
    interval, latency = _delivered(one, interval_ns, at_ns.size)
    # Sorted by interval, then latency: each interval is a run in which a rank is a position.
    order = np.lexsort((latency, interval))
    interval, latency = interval[order], latency[order]
    count = np.bincount(interval, minlength=at_ns.size).astype(np.int64)
    first = np.concatenate(([0], np.cumsum(count)[:-1]))
    seen = count > 0
    sums = _interval_sums(latency, first, seen)

    def read(rank: Ints) -> Ints:
        column = np.full(at_ns.size, NEVER, np.int64)
        column[seen] = latency[(first + rank - 1)[seen]]
        return column

    mean = np.full(at_ns.size, NEVER, np.int64)
    mean[seen] = sums // count[seen]
    return LatencyTimeline(
        at_ns, count * one.resolution, mean, read(_rank("0.5", count)), read(_rank("0.99", count)), read(count)
    )


def _binned_timeline(one: RunRecords, interval_ns: int, at_ns: Ints) -> LatencyTimeline:
    """Return the timeline from histograms; a quantile is never above the exact maximum of its interval."""
    count, mean, greatest = delivered_sums(one, interval_ns, at_ns.size)
    parts = [
        quantiles_by_interval(counts, ("0.5", "0.99"))
        for _, counts in delivered_histograms(one, interval_ns, at_ns.size)
    ]
    p50, p99 = (np.minimum(np.concatenate(columns), greatest) for columns in zip(*parts, strict=True))
    return LatencyTimeline(at_ns, count * one.resolution, mean, p50, p99, greatest)


def latency_bin_parts(one: RunRecords, interval_ns: int = NS_PER_S) -> Iterator[BinCounts]:
    """Yield the histogram of latency by interval of delivery (bins of `models.records.histogram`).

    It comes some intervals at a time where histograms were recorded: those of a large run are large.
    """
    at_ns = _grid(one, interval_ns)
    if one.detail == "tuples":
        interval, latency = _delivered(one, interval_ns, at_ns.size)
        # Sparse: of thousands of bins an interval has a few.
        pairs, count = np.unique(np.stack([interval, bin_of(latency)]), axis=1, return_counts=True)
        yield BinCounts(at_ns[pairs[0]], pairs[1], count.astype(np.int64) * one.resolution)
        return
    for first, counts in delivered_histograms(one, interval_ns, at_ns.size):
        interval, in_bin = np.nonzero(counts)
        yield BinCounts(at_ns[interval + first], in_bin, counts[interval, in_bin] * one.resolution)


def throughput(one: RunRecords, interval_ns: int = NS_PER_S) -> Series:
    """Return tuples whose service ended, per operator and interval (n_operators, n_intervals)."""
    at_ns = _grid(one, interval_ns)
    if one.detail == "histograms":
        intervals_of(one, interval_ns)
        rows = one.tables["ended"]
        when = rows["at_ns"] // interval_ns
        counts = _summed(rows["operator"], when, rows["count"], len(one.operators), at_ns.size)
        return Series(one.operators, at_ns, counts * one.resolution)
    visits = one.tables["visits"]
    ended = (visits["end_ns"] != NEVER) & (visits["end_ns"] < one.duration_ns)
    interval = visits["end_ns"][ended] // interval_ns
    flat = visits["operator"][ended].astype(np.int64) * at_ns.size + interval
    counts = np.bincount(flat, minlength=len(one.operators) * at_ns.size).astype(np.int64)
    return Series(one.operators, at_ns, counts.reshape(len(one.operators), at_ns.size) * one.resolution)


def queues(one: RunRecords) -> Series:
    """Return waiting tuples at each sample, summed over the tasks of each operator.

    The samples are instants at a fixed distance, not averages: short peaks between them are not seen.
    """
    return _sampled(one, "samples", "queue")


def lags(one: RunRecords) -> Series:
    """Return tuples that arrived and are not emitted at each sample, for each operator that is a source."""
    rows = one.tables["lag"]
    sources, which = np.unique(rows["operator"], return_inverse=True)
    at_ns, when = np.unique(rows["at_ns"], return_inverse=True)
    names = tuple(one.operators[index] for index in sources.tolist())
    return Series(names, at_ns, _summed(which, when, rows["lag"], len(names), at_ns.size))


def fullest_queues(one: RunRecords, places: Sequence[int | None]) -> Series:
    """Return share of the places that are taken in the fullest queue of each operator at each sample.

    `places` (n_operators,): of the queue of one task; operators without a bound (None) have no line.
    """
    rows = one.tables["buffers"]
    at_ns, when = np.unique(rows["at_ns"], return_inverse=True)
    owner = np.asarray(one.task_operator, np.int64)[rows["task"]]
    most = np.zeros((len(one.operators), at_ns.size), np.int64)
    np.maximum.at(most, (owner, when), rows["taken"])
    bounded = [index for index, places_each in enumerate(places) if places_each]
    room = np.array([places[index] for index in bounded], np.float64)
    return Series(tuple(one.operators[index] for index in bounded), at_ns, most[bounded] / room[:, None])


def held_back(one: RunRecords) -> Series:
    """Return the share of time, from each instant to the next sample, in which a task of each operator had outputs.

    The mean over its tasks that were alive at that sample; operators that were never held back have no line.
    """
    rows = one.tables["buffers"]
    at_ns, when = np.unique(rows["at_ns"], return_inverse=True)
    owner = np.asarray(one.task_operator, np.int64)[rows["task"]]
    waited = _growth(rows["task"], np.zeros_like(rows["task"]), rows["at_ns"], rows["blocked_ns"])
    shape = (len(one.operators), at_ns.size)
    total = _summed(owner, when, waited, *shape)
    time = _summed(owner, when, np.diff(at_ns, prepend=0)[when], *shape)
    share = np.zeros(shape)
    np.divide(total, time, out=share, where=time > 0)
    ever = np.flatnonzero(total.any(axis=1)).tolist()
    begin_ns = np.concatenate(([0], at_ns[:-1]))[: at_ns.size]
    return Series(tuple(one.operators[index] for index in ever), begin_ns, share[ever])


def busy_cores(one: RunRecords) -> Series:
    """Return the cores that tasks of each operator used, from each instant to the next sample."""
    rows = one.tables["samples"]
    at_ns, when = np.unique(rows["at_ns"], return_inverse=True)
    begin_ns = np.concatenate(([0], at_ns[:-1]))[: at_ns.size]
    owner = np.asarray(one.task_operator, np.int64)[rows["task"]]
    used = _growth(rows["task"], rows["host"], rows["at_ns"], rows["busy_ns"])
    total = _summed(owner, when, used, len(one.operators), at_ns.size)
    return Series(one.operators, begin_ns, total / np.maximum(1, at_ns - begin_ns))


def kept_outputs(one: RunRecords) -> Series:
    """Return the outputs that each operator keeps for replay at each sample, summed over its tasks."""
    return _sampled(one, "samples", "buffered")


def kept_bytes(one: RunRecords) -> Series:
    """Return the bytes of outputs that each operator keeps for replay at each sample, summed over its tasks."""
    return _sampled(one, "buffers", "kept_bytes")


def _sampled(one: RunRecords, table: str, column: str) -> Series:
    """Return a column of samples, summed over the tasks of each operator."""
    rows = one.tables[table]
    owner = np.asarray(one.task_operator, dtype=np.int64)[rows["task"]]
    at_ns, when = np.unique(rows["at_ns"], return_inverse=True)
    return Series(one.operators, at_ns, _summed(owner, when, rows[column], len(one.operators), at_ns.size))


def traffic(one: RunRecords, column: str = "bytes", interval_ns: int = NS_PER_S) -> Series:
    """Return bytes (or, with column 'count', messages) by kind and interval (n_kinds, n_intervals); kinds sorted.

    The rows are per second: intervals shorter than that put a second's bytes into its first interval.
    """
    at_ns = _grid(one, interval_ns)
    rows = one.tables["messages"]
    kinds, kind = np.unique(rows["kind"], return_inverse=True)
    interval = np.minimum(rows["second_ns"] // interval_ns, max(at_ns.size - 1, 0))
    return Series(tuple(kinds.tolist()), at_ns, _summed(kind, interval, rows[column], kinds.size, at_ns.size))


def _grid(one: RunRecords, interval_ns: int) -> Ints:
    """Return the begin of each interval [ns]; raises ValueError for an interval of less than 1 ns."""
    if interval_ns < 1:
        raise ValueError(f"an interval of {interval_ns} ns is too short")
    return np.arange(0, one.duration_ns, interval_ns, dtype=np.int64)


def _delivered(one: RunRecords, interval_ns: int, intervals: int) -> tuple[Ints, Ints]:
    """Return interval and latency [ns] of each delivery."""
    rows = one.tables["deliveries"]
    # What is accepted at the very end of the run belongs to its last interval.
    interval = np.minimum(rows["delivered_ns"] // interval_ns, max(intervals - 1, 0))
    return interval, rows["delivered_ns"] - rows["created_ns"]


def _interval_sums(ordered: Ints, first: Ints, seen: np.ndarray) -> Ints:
    """Return sums of consecutive runs of `ordered` that begin at `first` where `seen`."""
    return np.add.reduceat(ordered, first[seen]) if seen.any() else np.empty(0, np.int64)


def _rank(share: str, count: Ints) -> Ints:
    """Return the rank, from 1, of a quantile among `count` values; the share is exact decimal text."""
    # Exact: in floats 0.07 * 100 is above 7, and rounding up would give a rank that is one too high.
    exact = Fraction(share)
    return np.maximum(-(-exact.numerator * count // exact.denominator), 1)


def _growth(task: np.ndarray, host: np.ndarray, at_ns: Ints, total: Ints) -> Ints:
    """Return what each row's total gained since the row before of that task on that host; a reset starts at 0."""
    order = np.lexsort((at_ns, host, task))
    same = np.zeros(order.size, bool)
    same[1:] = (task[order][1:] == task[order][:-1]) & (host[order][1:] == host[order][:-1])
    before = np.where(same, np.concatenate(([0], total[order][:-1])), 0)
    # Totals of a task begin at zero again after a crash.
    gained = np.where(total[order] >= before, total[order] - before, total[order])
    # Back in the order of the rows, which `_summed` needs beside the other columns.
    back = np.empty(order.size, np.int64)
    back[order] = gained
    return back


def _summed(row: Ints, column: Ints, values: Ints, rows: int, columns: int) -> Ints:
    """Return the sums of values by row and column, (rows, columns)."""
    table = np.zeros((rows, columns), np.int64)
    # `add.at`, since several rows may go to one cell: plain indexing would add the last alone.
    np.add.at(table, (row, column), values)
    return table


@dataclass(frozen=True)
class Held:
    """One operator, by the samples after the warm-up of all replications; None for what it does not have."""

    places: int | None
    """In the queue of one task."""
    fullest: float | None
    """Greatest share of the places that were taken at once."""
    held_back: float
    """Share of time in which a task had outputs that waited for room."""
    lag_mean: float | None
    lag_max: int | None
    """Tuples that arrived and are not emitted."""


def backpressure(scenario: Scenario, records: Sequence[RunRecords]) -> dict[str, Held]:
    """Return what bounded queues did, for operators that have one, were held back or had a lag; in file order."""
    places = {name: operator.buffer for name, operator in scenario.operators.items()}
    full = _by_name(records, [fullest_queues(one, list(places.values())) for one in records])
    held = _by_name(records, [held_back(one) for one in records])
    lag = _by_name(records, [lags(one) for one in records])
    found = {
        name: Held(
            bound,
            float(full[name].max()) if name in full else None,
            float(held[name].sum()) / max(1, _samples(records)) if name in held else 0.0,
            float(lag[name].mean()) if name in lag else None,
            int(lag[name].max()) if name in lag else None,
        )
        for name, bound in places.items()
    }
    return {name: one for name, one in found.items() if one.places or one.held_back or one.lag_max}


def _by_name(records: Sequence[RunRecords], lines: Sequence[Series]) -> dict[str, np.ndarray]:
    """Return the values after warm-up of all replications, for each name that has any."""
    parts: dict[str, list[np.ndarray]] = {}
    for one, line in zip(records, lines, strict=True):
        late = line.at_ns >= one.warmup_ns
        for name, values in zip(line.names, line.values, strict=True):
            parts.setdefault(name, []).append(values[late])
    return {name: np.concatenate(found) for name, found in parts.items() if sum(map(len, found))}


def _samples(records: Sequence[RunRecords]) -> int:
    """Return spans between samples after warm-up; an operator that was never held back in a replication has no line."""
    return sum(int((held_back(one).at_ns >= one.warmup_ns).sum()) for one in records)
