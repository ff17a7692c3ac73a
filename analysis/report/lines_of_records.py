"""Lines over time, and curves of latency, from the records of replications."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.report.content import AroundRebalances, Latency, Lines
from analysis.report.parts import Curve
from analysis.runs.checkpoints import delay_series
from analysis.runs.elasticity import host_utilisation
from analysis.runs.histograms import latency_histogram, survival
from analysis.runs.memory import host_memory
from analysis.runs.rebalances import expected_per_s
from analysis.runs.run_summary import Rebalance
from analysis.runs.timelines import (
    LatencyTimeline,
    Series,
    fitting_interval,
    fullest_queues,
    held_back,
    kept_bytes,
    lags,
    latency_timeline,
    queues,
    throughput,
)
from models.records.histogram import merge
from models.records.tables import RunRecords
from models.scenario.scenario import Scenario

_NS = 1e9
_SECOND_NS = 1_000_000_000
_LATENCY_POINTS, _POINTS, _MEMORY_POINTS = 1200, 200, 4000  # most of a line over time
MOST_HOSTS = 8  # with a line of delays, or of memory
_POINTS_AROUND, _ROOM_S = 150, 20.0  # of lines around rebalances: points, and the least time before and after
_MOST_TAILS = 6  # replications with a line each
_WIDER = (1, 2, 5, 10, 20, 50, 100)


def latency(one: RunRecords) -> Latency:
    """Return quantiles of latency, in intervals so long that something is delivered in most of them.

    What is behind a window comes in bursts, which in intervals of a second would be dots.
    """
    shortest = _interval_ns(one, _LATENCY_POINTS)
    for factor in _WIDER:
        length_ns = fitting_interval(one, factor * shortest)
        line = latency_timeline(one, length_ns)
        if _dense(line):
            break

    def seconds(column: np.ndarray) -> np.ndarray:
        return np.where(column < 0, np.nan, column / _NS)

    return Latency(
        line.at_ns / _NS,
        seconds(line.p50_ns),
        seconds(line.p99_ns),
        seconds(line.max_ns),
        interval_s=length_ns / _NS,
    )


def _dense(line: LatencyTimeline) -> bool:
    """Return whether there are deliveries in two thirds of the intervals from the first with any to the last."""
    seen = np.flatnonzero(line.count)
    return not seen.size or 3 * seen.size >= 2 * (seen[-1] - seen[0] + 1)


def latency_ccdfs(records: Sequence[RunRecords]) -> tuple[Curve, ...]:
    """Return the share of tuples that took at least each time, of all replications, and of each if they are few."""
    each = [(f"replication {one.replication}", latency_histogram(one)) for one in records]
    parts = [("all tuples", merge(*(own for _, own in each)))]
    parts += each if 1 < len(each) <= _MOST_TAILS else []
    found = [(name, *survival(own)) for name, own in parts]
    return tuple(Curve(name, at_ns / _NS, share) for name, at_ns, share in found if at_ns.size)


def processed(one: RunRecords) -> Lines:
    """Return the tuples per second whose service ended, for each operator."""
    length_ns = interval_ns(one)
    series = throughput(one, length_ns)
    return Lines(series.at_ns / _NS, series.names, series.values * (_NS / length_ns))


def around_rebalances(scenario: Scenario, one: RunRecords, rebalances: Sequence[Rebalance]) -> AroundRebalances | None:
    """Return what went in and out around the rebalances of the replication; None without any.

    From a quarter of their time before the first request until as long as they took after their last phase.
    """
    own = [again for again in rebalances if again.replication == one.replication]
    if not own:
        return None
    first = min(again.requested_s for again in own)
    last = max(again.requested_s + max((end for _, _, end in again.ends()), default=0.0) for again in own)
    begin = max(0.0, first - max(_ROOM_S, (last - first) / 4))
    end = min(one.duration_ns / _NS, last + max(_ROOM_S, last - first))
    length_ns = fitting_interval(one, -(-int(end - begin) // _POINTS_AROUND) * _SECOND_NS)
    series = throughput(one, length_ns)
    kinds = [scenario.operators[name].kind for name in series.names]
    shown = _within(series.at_ns / _NS, begin, end)
    ends = [series.values[[own == kind for own in kinds]].sum(axis=0)[shown] for kind in ("source", "sink")]
    flow = Lines(series.at_ns[shown] / _NS, ("input", "output"), np.array(ends) * (_NS / length_ns), one.replication)
    return AroundRebalances(flow, expected_per_s(scenario), _cut(latency(one), begin, end), _replayed(one, begin, end))


def _replayed(one: RunRecords, begin_s: float, end_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Return when tuples were emitted again between two times [s], and how many."""
    rows = one.tables["replays"]
    at_ns, which = np.unique(rows["at_ns"], return_inverse=True)
    counts = np.bincount(which, weights=rows["count"], minlength=at_ns.size)
    shown = _within(at_ns / _NS, begin_s, end_s)
    return at_ns[shown] / _NS, counts[shown]


def _within(at_s: np.ndarray, begin_s: float, end_s: float) -> np.ndarray:
    return (at_s >= begin_s) & (at_s <= end_s)


def _cut(line: Latency, begin_s: float, end_s: float) -> Latency:
    """Return the line between two times."""
    shown = _within(line.at_s, begin_s, end_s)
    parts = (line.at_s[shown], line.p50_s[shown], line.p99_s[shown], line.max_s[shown])
    return Latency(*parts, interval_s=line.interval_s, replication=line.replication)


def waiting(one: RunRecords) -> Lines:
    """Return the tuples in the queues of each operator."""
    return _means(one, queues(one))


def lag(one: RunRecords) -> Lines | None:
    """Return the tuples that wait at each source; None where none ever did."""
    series = lags(one)
    return _means(one, series) if series.values.any() else None


def filled(scenario: Scenario, one: RunRecords) -> Lines | None:
    """Return the places taken in the fullest bounded queue of each operator [%]; None where no queue is bounded."""
    places = [operator.buffer for operator in scenario.operators.values()]
    return _percent(_means(one, fullest_queues(one, places))) if any(places) else None


def blocked(scenario: Scenario, one: RunRecords) -> Lines | None:
    """Return the time for which operators waited for room [%], if they ever did; None where no queue is bounded."""
    if not any(operator.buffer for operator in scenario.operators.values()):
        return None
    return _percent(_means(one, held_back(one)))


def kept(scenario: Scenario, one: RunRecords) -> Lines | None:
    """Return the outputs that operators keep until acks or age trim them [kB]; None where neither does."""
    tolerance = scenario.fault_tolerance
    if not tolerance.trims_by_acks and tolerance.kept_history is None:
        return None
    line = _means(one, kept_bytes(one))
    keep = [k for k, values in enumerate(line.values) if values.any()]
    return Lines(line.at_s, tuple(line.names[k] for k in keep), line.values[keep] / 1e3, line.replication)


def hosts(scenario: Scenario, one: RunRecords) -> Lines | None:
    """Return the CPU in use of each host [%], in the period that begins at each time; None where nobody checked."""
    series = host_utilisation(scenario, one)
    if not series.at_ns.size:
        return None
    begins = np.concatenate(([0], series.at_ns[:-1]))
    return Lines(begins / _NS, series.names, 100 * series.values)


def memory(one: RunRecords) -> Lines | None:
    """Return what the fullest hosts hold [MB], from each instant to the next; None where nothing is known.

    Of very many instants neighbours are one, with the most that was held at any of them.
    """
    series = host_memory(one)
    if not series.at_ns.size:
        return None
    fullest = sorted(np.argsort(-series.values.max(axis=1), kind="stable")[:MOST_HOSTS].tolist())
    first = np.arange(0, series.at_ns.size, -(-series.at_ns.size // _MEMORY_POINTS))
    most = np.maximum.reduceat(series.values[fullest], first, axis=1)
    return Lines(series.at_ns[first] / _NS, tuple(series.names[k] for k in fullest), most / 1e6, one.replication)


def upload_delays(one: RunRecords) -> Lines | None:
    """Return the mean delay [ms] of records by uploads in each interval, of the hosts with most; None without any."""
    series = delay_series(one, interval_ns(one), MOST_HOSTS)
    if not series.names:
        return None
    return Lines(series.at_ns / _NS, series.names, series.values * 1e3, one.replication)


def _percent(line: Lines) -> Lines:
    return Lines(line.at_s, line.names, 100 * line.values, line.replication)


def interval_ns(one: RunRecords) -> int:
    """Return the length [ns] of the intervals of most lines."""
    return _interval_ns(one, _POINTS)


def _interval_ns(one: RunRecords, points: int) -> int:
    """Return whole seconds, so long that a line gets no more points than this."""
    return fitting_interval(one, -(-one.duration_ns // (points * _SECOND_NS)) * _SECOND_NS)


def _means(one: RunRecords, series: Series) -> Lines:
    """Return means of the samples in each interval."""
    length_ns = interval_ns(one)
    interval, first = np.unique(series.at_ns // length_ns, return_index=True)
    if not interval.size:
        return Lines(series.at_ns / _NS, series.names, series.values)
    sizes = np.diff(np.append(first, series.at_ns.size))
    return Lines(interval * length_ns / _NS, series.names, np.add.reduceat(series.values, first, axis=1) / sizes)
