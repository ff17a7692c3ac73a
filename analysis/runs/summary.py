"""Summarise a run from the records of its replications.

Which rows count, for a window [warm-up, duration):
- wait, sojourn, processed: tuples that entered the queue in the window and whose service began (for wait)
  or ended;
- `queue_mean`: time average of waiting tuples, without those in service: waiting times clipped to the
  window, those of tuples that still wait at the end, or were dropped from the queue, included;
- `utilisation`: service time clipped to the window, that of services cut off by a crash included, per server
  and second of the window; where cores are shared evenly or used by others, not the time in service counts but the
  CPU time that was used in it;
- latency: source to sink of tuples created in the window; messages: seconds that begin in the window;
- checkpoints, recoveries and guarantee: the whole run.
Where a replication was recorded as histograms its quantiles are off by at most 0.4 %, which `recording` says; counts,
means, greatest values, `queue_mean` and `utilisation` are exact either way.
Replications are pooled; `ci95` = [low, high] over replications (see `analysis.statistics.ratio_mean`). What
was not seen is None, never NaN. Where a simulated tuple stands for several (`resolution`), numbers of tuples are those
of the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from analysis.runs.checkpoints import checkpoints
from analysis.runs.elasticity import elasticity, hosts_in_use, maintenance, rescales
from analysis.runs.histograms import latencies_of, times_of, total_of
from analysis.runs.memory import memory
from analysis.runs.migration_kinds import migrations
from analysis.runs.rebalances import rebalances
from analysis.runs.reconfigurations import reconfigurations
from analysis.runs.recoveries import broken, recoveries, recovery_means, replicas
from analysis.runs.run_summary import (
    Durations,
    EngineBehaviour,
    EngineMilestone,
    EngineUsed,
    Guarantee,
    KernelUsed,
    Latency,
    Messages,
    OperatorSummary,
    Recording,
    Replication,
    Resources,
    RunSummary,
    Verdict,
    Visible,
)
from analysis.runs.timelines import busy_cores, kept_outputs
from analysis.runs.visibility import commits, visible_ns, visible_times
from analysis.statistics import Times, count_of, described, mean_of
from models.records.histogram import QUANTILE_ERROR, Floats, Ints, exact_sum
from models.records.tables import NEVER, RunRecords
from models.scenario.scenario import Scenario
from models.steady_state.checkpoint_traffic import link_sharing
from models.topology.layout import output_bytes

_SHARES = (0.5, 0.9, 0.95, 0.99)


def summarise(scenario: Scenario, records: Sequence[RunRecords]) -> RunSummary:
    """Return the summary of all replications; a section is None where nothing was seen.

    Raises ValueError when the replications do not have the same operators.
    """
    names = tuple(scenario.operators)
    if any(one.operators != records[0].operators for one in records):
        raise ValueError("replications of one scenario have the same operators")
    latencies = [_latencies(one) for one in records]
    shown = None
    if commits(scenario) and not any(one.detail == "histograms" for one in records):
        shown = [visible_ns(scenario, one) for one in records]
    tolerance = scenario.fault_tolerance
    # A driver takes all executors with it, and a rollback all tasks that are connected.
    ends_others = tolerance.rolls_back or tolerance.batches is not None
    recovered = recoveries(records, shown, tolerance.acking, ends_others=ends_others)
    numbers = [one.replication for one in records]
    summary = RunSummary(
        scenario=scenario.name,
        seed=scenario.seed,
        duration_s=scenario.duration_s,
        warmup_s=scenario.warmup_s,
        resolution=scenario.resolution,
        operators={name: _operator(scenario, name, records) for name in names},
        latency_s=_latency(latencies, scenario.resolution),
        visible=None if shown is None else _visible(scenario, *visible_times(scenario, shown, records)),
        recording=_recording(records),
        engine=_engine(scenario),
        kernel=_kernel(records),
        network=link_sharing(scenario),
        checkpoints=checkpoints(scenario, records),
        migrations=migrations(records),
        rebalances=rebalances(scenario, records),
        rescales=rescales(records),
        reconfigurations=reconfigurations(records),
        elasticity=elasticity(records),
        maintenance=maintenance(records),
        hosts=hosts_in_use(scenario, records),
        resources=_resources(scenario, records),
        memory=memory(scenario, records),
        recoveries=recovered,
        recovery_means=recovery_means(scenario, recovered, numbers),
        rescaling_means=recovery_means(scenario, recovered, numbers, "rescaling"),
        restart_means=recovery_means(scenario, recovered, numbers, "restart"),
        replicas=replicas(records),
        broken=broken(records),
        messages=_messages(records),
        guarantee=_guarantee(scenario, records),
        replications=tuple(
            Replication(
                one.replication, _latency([own], scenario.resolution).without_interval(), _guarantee(scenario, [one])
            )
            for one, own in zip(records, latencies, strict=True)
        ),
        targets=None,
    )
    return replace(summary, targets=verdicts(scenario, summary))


@dataclass(frozen=True)
class OperatorTimes:
    """The times of one operator in one replication: waits and sojourns [ns], each or as histograms, and clipped totals.

    `waiting_ns` and `busy_ns` are sums over tuples of the time within the window.
    """

    waits: Times
    sojourns: Times
    waiting_ns: int
    busy_ns: int
    seen: bool


def operator_times(one: RunRecords, index: int) -> OperatorTimes:
    """Return the times of the operator with this index, by the rules of this module."""
    low, high = one.warmup_ns, one.duration_ns
    visited = _binned_visits(one, index) if one.detail == "histograms" else _visits(one, index)
    left, dropped = one.tables["waiting"], one.tables["dropped"]
    in_queue = left["arrival_ns"][left["operator"] == index]
    gone = (dropped["operator"] == index) & (dropped["arrival_ns"] != NEVER)
    entered, begun, lost = (dropped[name][gone] for name in ("arrival_ns", "start_ns", "at_ns"))
    # Of dropped tuples some were in service: they waited until it began, the others until they were lost.
    served = begun != NEVER
    return replace(
        visited,
        waiting_ns=visited.waiting_ns
        # Tuples that still wait at the end, and those that a crash dropped, were in the queue too: without them the
        # mean is too low.
        + clipped(in_queue, np.full(in_queue.shape, high, np.int64), low, high)
        + clipped(entered, np.where(served, begun, lost), low, high),
        busy_ns=visited.busy_ns + clipped(begun[served], lost[served], low, high) - _not_used(one, index),
        seen=bool(visited.seen or in_queue.size),
    )


def _not_used(one: RunRecords, index: int) -> int:
    """Return the time in service [ns] in which the operator's tuples had no core because others had it."""
    cpu = one.tables["cpu"]
    own = np.asarray(one.task_operator, np.int64)[cpu["task"]] == index
    return exact_sum(cpu["served_ns"][own]) - exact_sum(cpu["used_ns"][own])


def _visits(one: RunRecords, index: int) -> OperatorTimes:
    """Return the times of the operator from its visits."""
    low, high = one.warmup_ns, one.duration_ns
    visits = one.tables["visits"]
    own = visits["operator"] == index
    arrival, start, end = (visits[name][own] for name in ("arrival_ns", "start_ns", "end_ns"))
    counts = (arrival >= low) & (arrival < high)
    ended = counts & (end != NEVER)
    # A service that has not ended keeps its server busy to the end of the run.
    until = np.where(end == NEVER, high, end)
    return OperatorTimes(
        waits=(start - arrival)[counts],
        sojourns=(end - arrival)[ended],
        waiting_ns=clipped(arrival, start, low, high),
        busy_ns=clipped(start, until, low, high),
        seen=bool(arrival.size),
    )


def _binned_visits(one: RunRecords, index: int) -> OperatorTimes:
    """Return the times of the operator from histograms."""
    visits, waiting_ns = total_of(one, "waiting", index)
    return OperatorTimes(
        waits=times_of(one, "wait", index),
        sojourns=times_of(one, "sojourn", index),
        waiting_ns=waiting_ns,
        busy_ns=total_of(one, "busy", index)[1],
        seen=visits > 0,
    )


def clipped(begin: Ints, end: Ints, low: int, high: int) -> int:
    """Return the total length [ns] of the intervals [begin, end) within [low, high)."""
    return exact_sum(np.maximum(np.minimum(end, high) - np.maximum(begin, low), 0))


def _operator(scenario: Scenario, name: str, records: Sequence[RunRecords]) -> OperatorSummary:
    """Return the summary of an operator, pooled over replications; None where nothing was seen."""
    found = [one for one in records if name in one.operators]
    times = [operator_times(one, one.operators.index(name)) for one in found]
    # A source or sink that never queues has no queue and no server to speak of.
    serves = scenario.operators[name].service is not None or any(one.seen for one in times)
    windows = [one.duration_ns - one.warmup_ns for one in found]
    w = scenario.resolution
    queue = mean_of(
        [w * t.waiting_ns / window for t, window in zip(times, windows, strict=True) if serves and window > 0]
    )
    capacity = [one.servers[one.operators.index(name)] * window for one, window in zip(found, windows, strict=True)]
    busy = mean_of([t.busy_ns / room for t, room in zip(times, capacity, strict=True) if serves and room > 0])
    return OperatorSummary(
        w * sum(count_of(t.sojourns) for t in times) if found else None,
        _durations([t.waits for t in times]),
        _durations([t.sojourns for t in times]),
        queue.mean,
        queue.ci95,
        busy.mean,
        busy.ci95,
    )


def _durations(parts: Sequence[Times]) -> Durations:
    found = described(parts, _SHARES)
    p50, p90, p95, p99 = found.quantiles
    return Durations(found.mean, p50, p90, p95, p99, found.max, found.ci95)


def _latency(parts: Sequence[Times], resolution: int) -> Latency:
    """Return the latency of tuples, of which each that was simulated stands for `resolution`."""
    found = described(parts, (*_SHARES, 0.999))
    p50, p90, p95, p99, p999 = found.quantiles
    return Latency(found.mean, p50, p90, p95, p99, p999, found.max, found.count * resolution, found.ci95)


def _visible(scenario: Scenario, latencies: Sequence[Times], delays: Sequence[Times], hidden: int) -> Visible:
    w = scenario.resolution
    return Visible(_latency(latencies, w), _durations(delays), hidden * w)


def _latencies(one: RunRecords) -> Times:
    """Return the latencies [ns] of tuples that were created after the warm-up, as values or a histogram."""
    if one.detail == "histograms":
        return latencies_of(one)
    created, delivered = (one.tables["deliveries"][name] for name in ("created_ns", "delivered_ns"))
    # By creation, not by delivery: a tuple of the warm-up that comes late belongs to the warm-up.
    counts = (created >= one.warmup_ns) & (created < one.duration_ns)
    return np.asarray((delivered - created)[counts], dtype=np.int64)


def _recording(records: Sequence[RunRecords]) -> Recording | None:
    """Return what was kept of the tuples, and how far off a quantile can be; None without records."""
    if not records:
        return None
    binned = any(one.detail == "histograms" for one in records)
    return Recording("histograms" if binned else "tuples", QUANTILE_ERROR if binned else 0.0)


def _engine(scenario: Scenario) -> EngineUsed | None:
    """Return the engine that the scenario names, with its behaviours; None without one."""
    engine = scenario.engine
    if engine is None:
        return None
    behaviours = tuple(EngineBehaviour(one.name, one.status.value, one.text) for one in engine.behaviours)
    milestones = tuple(EngineMilestone(*one) for one in engine.milestones)
    rescalings = tuple(EngineMilestone(*one) for one in engine.rescaling_milestones)
    return EngineUsed(engine.name, engine.version, behaviours, milestones, rescalings)


def _kernel(records: Sequence[RunRecords]) -> KernelUsed | None:
    """Return what did the steps of the tuples, the scan or the event loop, and why; None where that is not known."""
    kernel = records[0].kernel if records else None
    return KernelUsed(kernel.name, kernel.why) if kernel else None


def _resources(scenario: Scenario, records: Sequence[RunRecords]) -> Resources:
    """Return what tasks use after the warm-up: means of the replications, and the greatest of their maxima."""
    size, cores, kept = output_bytes(scenario), list[Floats](), list[Floats]()
    for one in records:
        each = np.array([size.get(name, 0.0) for name in one.operators])
        for series, weight, found in ((busy_cores(one), 1.0, cores), (kept_outputs(one), each[:, None], kept)):
            total = (series.values * weight).sum(axis=0)[series.at_ns >= one.warmup_ns]
            if total.size:
                found.append(total)
    used, memory = (mean_of([float(one.mean()) for one in found]).mean for found in (cores, kept))
    return Resources(used, memory, max((float(one.max()) for one in kept), default=None))


def _messages(records: Sequence[RunRecords]) -> dict[str, Messages]:
    """Return kind -> number and bytes of messages between hosts in seconds that begin in the window."""
    totals: dict[str, np.ndarray] = {}
    for one in records:
        rows = one.tables["messages"]
        counts = rows["second_ns"] >= one.warmup_ns
        for kind in np.unique(rows["kind"]).tolist():
            own = counts & (rows["kind"] == kind)
            total = totals.setdefault(kind, np.zeros(2, np.int64))
            total += [rows["count"][own].sum(), rows["bytes"][own].sum()]
    return {kind: Messages(*total.tolist()) for kind, total in sorted(totals.items())}


def _guarantee(scenario: Scenario, records: Sequence[RunRecords]) -> Guarantee:
    """Return what was lost and duplicated at the sinks, and in the state of other operators; None without a ledger.

    What an operator without a state has processed before a crash leaves nothing behind that could be lost.
    """
    totals: dict[str, int | None] = {one.name: None for one in fields(Guarantee)}
    for one in records:
        rows = one.tables["ledger"]
        for position, index in enumerate(rows["operator"].tolist()):
            operator = scenario.operators[one.operators[index]]
            prefix, counts = ("", True) if operator.kind == "sink" else ("state_", operator.state is not None)
            for what in ("lost", "duplicated"):
                totals[prefix + what] = (totals[prefix + what] or 0) + counts * int(rows[what][position])
    return Guarantee(**totals)


def verdicts(scenario: Scenario, summary: RunSummary) -> dict[str, Verdict] | None:
    """Return a verdict for the name of each target; None without targets.

    Every target is a highest value; `recovery_s` is that of the slowest recovery, and one that did not end
    before the run did misses it.
    """
    if scenario.targets is None:
        return None
    limits = scenario.targets.model_dump(mode="python")
    return {
        name: _verdict(name, getattr(scenario.targets, name), summary)
        for name in limits
        if getattr(scenario.targets, name) is not None
    }


def _verdict(name: str, limit: float, summary: RunSummary) -> Verdict:
    """Return whether a target was met; None where nothing was seen that could tell."""
    value, unfinished = _reached(name, summary)
    nothing_failed = name == "recovery_s" and value is None
    # Nothing failed: a target for recoveries is met. Nothing seen: no verdict on latency or load.
    met = False if unfinished else True if nothing_failed else None if value is None else value <= limit
    return Verdict(limit, value, met)


def _reached(name: str, summary: RunSummary) -> tuple[float | None, bool]:
    """Return the value that a target is held against, and whether something it needs did not end."""
    if name.startswith("latency_"):
        return getattr(summary.latency_s, name.removeprefix("latency_").removesuffix("_s")), False
    if name == "lost":
        lost, in_state = summary.guarantee.lost, summary.guarantee.state_lost or 0
        # A tuple that is missing in a state is often missing at a sink, too: the sum would count it twice. Of sinks
        # that cannot be checked, a state that lacks nothing says nothing.
        return (in_state or None) if lost is None else max(lost, in_state), False
    if name == "utilisation":
        values = [one.utilisation for one in summary.operators.values() if one.utilisation is not None]
        return max(values, default=None), False
    if name == "recovery_s":
        totals = [one.total_s for one in summary.recoveries]
        ended = [total for total in totals if total is not None]
        # A recovery that did not end is longer than any limit that the run could show.
        return (None, True) if None in totals else (max(ended, default=None), False)
    raise KeyError(name)
