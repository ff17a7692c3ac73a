"""Tables and lines of runs that only the terminal has; they fit 80 columns. `analysis.runs.tables` has the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from analysis.runs.tables import (
    batch_checkpoints_said,
    checkpoints_of_operators,
    job_checkpoints_said,
    mean_with_interval,
    memory_table,
    migrations_table,
    reconfigurations_table,
    recovery_means_table,
)
from analysis.runs.visibility import commits
from analysis.statistics import Mean
from holdfast.terminal import facts, in_parts, table
from models import display
from models.engines.behaviours import Status
from models.topology import layout

if TYPE_CHECKING:
    from analysis.runs.checkpoint_summary import Checkpoints
    from analysis.runs.recovery_summary import Outages, Replicas
    from analysis.runs.run_summary import (
        Elasticity,
        HostsInUse,
        Latency,
        Maintenance,
        Migration,
        Reconfiguration,
        RunSummary,
    )
    from analysis.runs.timelines import Held
    from models.scenario.scenario import Scenario
    from models.table import Table


_STATUS = 14  # width of the name of a status, with what is around it
_MOST_REPLICAS = 24  # that took over, were lost or made anew, one by one


def latency_table(summary: RunSummary) -> Table:
    """Return latency from source to sink."""
    return _latencies(f"Latency, source to sink ({summary.latency_s.count:,} tuples)", summary.latency_s)


def visible_said(scenario: Scenario, summary: RunSummary) -> list[Table | str]:
    """Return the time from source until tuples are visible, where sinks commit them at checkpoints."""
    visible = summary.visible
    if visible is None:
        known = "When committed output is visible is known where recording.detail is tuples."
        return [known] if commits(scenario) else []
    waiting = f"; {visible.hidden:,} not by the end" if visible.hidden else ""
    title = f"Latency, source to committed output ({visible.latency_s.count:,} tuples{waiting})"
    return [_latencies(title, visible.latency_s)]


def _latencies(title: str, latency: Latency) -> Table:
    columns = ("mean", "p50", "p90", "p95", "p99", "p999", "max")
    return table(title, columns, [[display.duration(getattr(latency, column)) for column in columns]], text_columns=0)


def checkpoints_said(one: Checkpoints) -> list[Table | str]:
    """Return what to show of checkpoints: a line, a table of operators if some were late or skipped, and their cost."""
    many, word = ("Commits", "commit") if one.taken == "commits" else ("Checkpoints", "checkpoint")
    shown: list[Table | str] = [
        job_checkpoints_said(one.job, one.interval_s)
        if one.job is not None
        else batch_checkpoints_said(one)
        if one.taken == "batches"
        else f"{many} every {display.duration(one.interval_s)}: "
        f"{one.begun:,} begun, {one.completed:,} completed, "
        f"{one.late:,} of them late, {one.skipped:,} skipped because the one before was under way; "
        f"at most {display.duration(one.longest_between_s)} without a completed one."
    ]
    if one.late or one.skipped:
        # Only operators that could not keep up: a table of zeros says nothing.
        late = {name: own for name, own in one.operators.items() if own.late or own.skipped}
        shown.append(replace(checkpoints_of_operators(late), title="Checkpoints that could not keep up"))
    age, delayed = one.age_at_failure_s, one.delayed
    if age.max is not None:
        shown.append(
            f"State that was recovered: the {word} was {display.duration(age.mean)} old on average, "
            f"{display.duration(age.max)} at most; what was processed since was replayed."
        )
    if delayed is not None:
        shown.append(
            f"Uploads delayed records: {delayed.records:,} of the {delayed.carried:,} that "
            f"{display.count(len(delayed.hosts), 'host')} sent left later, by "
            f"{display.duration(delayed.mean_s)} on average, {display.duration(delayed.max_s)} at most."
        )
    return shown


def replicas_table(one: Replicas) -> Table:
    """Return the history of active replicas: those of the start by operator and host, all others one by one."""
    still: dict[tuple[str, str], int] = {}
    rows: list[tuple[str, ...]] = []
    for found in one.each:
        # Replicas that were there all the time are the usual case: counted, so that the others are seen.
        if found.why == "start" and found.end is None:
            key = (found.operator, found.host)
            still[key] = still.get(key, 0) + 1
        else:
            name = f"{found.operator}[{found.key_group}]"
            begin, end = (display.instant(getattr(found, key)) for key in ("from_s", "until_s"))
            pause = display.duration(found.pause_s)
            rows.append((name, found.host, begin, end, found.end or "in step", pause))
    none = display.NONE
    kept = [
        (f"{operator} ({count:,})", host, "0 s", none, "in step", none) for (operator, host), count in still.items()
    ]
    title = f"Active replicas (one was in step {display.share(one.protected_share)} of the time)"
    more = [(f"{len(rows) - _MOST_REPLICAS:,} more", "", "", "", "", "")] if len(rows) > _MOST_REPLICAS else []
    columns = ("of", "host", "from", "until", "end", "pause")
    return table(title, columns, [*kept, *rows[:_MOST_REPLICAS], *more], text_columns=2)


def broken_line(one: Outages) -> str:
    """Return how often and how long some key group or task had no live owner."""
    if not one.times:
        return "Outages: none, every key group and task had a live owner all the time."
    return (
        f"Outages: {display.count(one.times)}, {display.share(one.share)} of the time, the longest "
        f"{display.duration(one.longest_s)} (some key group or task had no live owner)."
    )


def rescales_table(summary: RunSummary) -> Table:
    """Return what each change of an operator's number of tasks took."""
    rows = [
        (
            one.operator,
            display.instant(one.requested_s),
            f"{one.before}",
            f"{one.after}",
            f"{one.moves}",
            display.duration(one.completion_s),
        )
        for one in summary.rescales
    ]
    return table("Rescaling", ("operator", "at", "tasks before", "after", "key groups moved", "complete"), rows)


def reconfigurations_said(summary: RunSummary) -> list[Table | str]:
    """Return what each reconfiguration took, which were not done, and the latency of the frontier; [] without any."""
    given = summary.reconfigurations
    if not given:
        return []
    parts = in_parts(reconfigurations_table(given).brief, 3)  # operator, strategy and instant say which it is
    undone = _undone_line("reconfiguration", [(one.duration_s, one.cancelled_s) for one in given])
    return [*parts, *undone, _frontier_line(given)]


def migrations_said(given: Sequence[Migration]) -> list[Table | str]:
    """Return what each migration of a key group took, and how many were not done."""
    undone = _undone_line("migration", [(one.completion_s, one.cancelled_s) for one in given])
    return [migrations_table(given).brief, *undone]


def _undone_line(noun: str, given: Sequence[tuple[float | None, float | None]]) -> list[str]:
    """Return how many moves were cancelled, and how many did not end, in a line; [] where all are done.

    `given`: how long each took, and when it was cancelled [s].
    """
    cancelled = sum(cancelled_s is not None for _, cancelled_s in given)
    unfinished = sum(length_s is None for length_s, _ in given) - cancelled
    ends = {"cancelled after a crash": cancelled, "not over at the end of the run": unfinished}
    said = ", ".join(f"{display.count(count)} {words}" for words, count in ends.items() if count)
    return [f"Of {display.count(len(given), noun)}: {said}."] if said else []


def _frontier_line(given: Sequence[Reconfiguration]) -> str:
    """Return the latency of the frontier by strategy; of several reconfigurations the longest."""
    found: dict[str, float] = {}
    for one in given:
        if one.frontier_latency_p99_s is not None:
            found[one.strategy] = max(found.get(one.strategy, 0.0), one.frontier_latency_p99_s)
    if not found:
        return 'Latency is known where recording.detail is "tuples", and some that were born meanwhile came to a sink.'
    said = ", ".join(f"{display.duration(p99_s)} ({strategy})" for strategy, p99_s in found.items())
    return f"Latency of the frontier (all of that millisecond and before is answered): 99 % within {said}."


def memory_said(scenario: Scenario, summary: RunSummary) -> list[Table]:
    """Return what the fullest hosts held in memory; nothing where the scenario does not ask for it."""
    if summary.memory is None:
        return []
    return [memory_table(summary.memory, layout.host_group_names(scenario)).brief]


def elasticity_table(one: Elasticity, hosts: HostsInUse) -> Table:
    """Return what the adaptation manager did, and how far checkpoints were of use."""
    counts = (f"{getattr(one, key):,}" for key in ("checks", "assisted", "direct", "drained", "unplaced"))
    row = (
        *counts,
        display.share(one.usable_share),
        display.share(one.assisted_share),
        display.duration(hosts.total_s),
    )
    columns = ("checks", "assisted", "direct", "drained", "unplaced", "usable", "assisted share", "hosts in use")
    return table("Moves by themselves", columns, [row], text_columns=0)


def maintenance_table(one: Maintenance, replications: int) -> Table:
    """Return when checkpoints moved because a fresh allocation was better, and what that took."""
    several = replications > 1
    rows = [
        (
            *((f"{found.replication}",) if several else ()),
            display.instant(found.at_s),
            *(display.number(getattr(found, key), 4) for key in ("current", "fresh", "left")),
            f"{found.moved:,}",
            f"{found.stored:,}",
            display.size(found.bytes),
        )
        for found in one.rounds
    ]
    title = f"Allocation of checkpoints ({one.moved:,} moved in {one.comparisons:,} comparisons)"
    columns = ("at", "score", "fresh", "left above it", "moved", "stored", "sent")
    return table(title, (*(("run",) if several else ()), *columns), rows, text_columns=1 + several)


def acquisitions_table(rows: list[tuple[str, str, str]]) -> Table:
    """Return hosts that came and went, and why."""
    return table("Hosts that came and went", ("at", "decision", "why"), rows, text_columns=3)


def backpressure_table(found: Mapping[str, Held]) -> Table:
    """Return how full bounded queues were, who was held back, and how far the sources were behind, by samples."""
    rows = [
        (
            name,
            display.count(one.places),
            display.share(one.fullest),
            display.share(one.held_back),
            display.number(one.lag_mean),
            display.count(one.lag_max),
        )
        for name, one in found.items()
    ]
    columns = ("operator", "places", "fullest", "held back", "lag mean", "lag max")
    return table("Bounded queues", columns, rows)


def guarantee_line(summary: RunSummary) -> str:
    """Return what was lost or duplicated, in one sentence."""
    counts = summary.guarantee
    if counts.lost is None:
        return "Loss was not counted: there is no sink, or every one follows a window or timer."
    return (
        f"Tuples at the sinks: {counts.lost:,} lost, {counts.duplicated:,} duplicated; "
        f"in state: {counts.state_lost or 0:,} lost, {counts.state_duplicated or 0:,} duplicated."
    )


def recovery_means_said(summary: RunSummary) -> Iterator[Table | str]:
    """Yield the means of the phases of recoveries, and a line on their total with its interval over replications.

    There is nothing to say of one replication without an engine. Recoveries that did not end are named.
    """
    several = len(summary.replications) > 1
    for given, kind, names in (
        (summary.recovery_means, "failure", ("recovery", "recoveries")),
        (summary.rescaling_means, "rescaling", ("rescaling", "rescalings")),
        (summary.restart_means, "restart", ("restart", "restarts")),
    ):
        if not given or not (several or summary.engine):
            continue
        yield recovery_means_table(given, summary.engine, kind).brief
        if several:
            total = next(one for one in given if one.phase == "total")
            own = [one for one in summary.recoveries if one.kind == kind and one.within_s is None]
            lost = sum(one.total_s is None for one in own)
            left = f"; {display.count(lost, *names)} did not end" if lost else ""
            said = mean_with_interval(Mean(total.mean_s, total.ci95))
            yield f"{names[1].capitalize()} take {said} on average{left}."


def engine_lines(summary: RunSummary) -> Iterator[str]:
    """Yield what of the engine that the scenario names is modelled, simplified or absent; nothing without one."""
    engine = summary.engine
    if engine is None:
        return
    yield f"Modelled on {engine.title}; `holdfast show --defaults` says what it brings."
    names = {status: [one.name.lower() for one in engine.behaviours if one.status == status] for status in Status}
    yield from facts(((f"  {status.value}: ", ", ".join(named)) for status, named in names.items() if named), _STATUS)
