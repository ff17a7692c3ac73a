"""Sections of pages about runs: each is one function, and None where there is nothing to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from analysis.report import ccdf, designs, event_marks, figures, lines, tables, text
from analysis.report.content import (
    AllocationRow,
    Correlation,
    Decision,
    KeyGroupLoad,
    Latency,
    Lines,
    Reason,
    Topology,
)
from analysis.report.figure import Section
from analysis.report.parts import Curve, Design
from analysis.report.topology import draw
from analysis.runs.migration_kinds import ClassifiedMigration
from analysis.runs.recovery_summary import Outages, Recovery, RecoveryMean, Replicas
from analysis.runs.run_summary import (
    EngineUsed,
    Guarantee,
    Memory,
    OperatorSummary,
    Reconfiguration,
    Verdict,
    Visible,
)
from analysis.runs.tables import (
    guarantee_table,
    memory_table,
    operators_table,
    recoveries_table,
    recovery_means_table,
    replicas_table,
    targets_table,
)
from models.table import Table

_SHORT = 0.15  # a recovery below this share of the run gets a figure of its own
_MOST_HOSTS = 60
_UNITS = {
    "tuples per second": ("tuples per second", "tuples/s"),
    "waiting tuples": ("waiting tuples", "tuples"),
    "arrived, not emitted": ("tuples", "tuples"),
    "places taken [%]": ("% of the places", "%"),
    "share of time [%]": ("% of the time", "%"),
    "kept outputs [kB]": ("kB", "kB"),
}
"""Axis -> the unit in a sentence, and in a hover text."""
_LAG = "A source is behind while its host is down, and while bounded queues have no room for what it emits."
_FILLED = "Of each operator the task whose queue has the fewest places left; under way to it counts as taken."
_FREE = f"{_FILLED} No task ever had to wait for a place."
_BLOCKED = "The mean over the tasks of each operator: outputs wait for room at their receivers, and nothing is started."
_KEPT = "Upstream can send them again; all tasks of an operator together."


def topology_section(topology: Topology) -> Section:
    """Return the dataflow, and the tasks on each host at the start."""
    hosts = tables.placement(list(topology.placement.items()))
    return Section(
        "topology",
        "What runs where",
        "Topology",
        drawings=(draw(topology, upright=False), draw(topology, upright=True)),
        hosts=tuple(hosts[:_MOST_HOSTS]),
        left_out=max(0, len(hosts) - _MOST_HOSTS),
    )


def load_section(loads: Sequence[KeyGroupLoad], correlation: Correlation | None = None) -> Section | None:
    """Return the loads of key groups over time and how they are correlated; None where there are none."""
    drawn = [figures.key_group_load(load, k) for k, load in enumerate(loads) if load.counts.size]
    if correlation is not None and correlation.values.size:
        drawn.append(figures.correlation(correlation))
    return Section("load", "Load of the key groups", "Load", figures=tuple(drawn)) if drawn else None


def allocation_section(rows: Sequence[AllocationRow], reasons: Sequence[Reason] = ()) -> Section | None:
    """Return what each method of checkpoint allocation reached, and reasons for its choices; None without any."""
    if not rows and not reasons:
        return None
    drawn = figures.allocation(rows)
    listed = [tables.allocation(rows)] if rows else []
    listed += [tables.reasons(reasons)] if reasons else []
    words = ""
    if rows:
        words = (
            "The gap is the distance between the objective and a proven bound, relative to the bound: "
            "at 0 % no better allocation exists. A dash means that nothing is known."
        )
        if any(row.usable is not None for row in rows):
            words += (
                " Usable and assisted are reckoned from the rates alone, each window by itself and from the placement "
                "at the start: runs, where moves last and tuples queue, come to other shares. The highest node load is "
                "that of all key groups whose checkpoints one node holds."
            )
    return Section(
        "allocation",
        "Where checkpoints go",
        "Checkpoints",
        words,
        figures=(drawn,) if drawn else (),
        tables=tuple(listed),
    )


def latency_section(
    line: Latency,
    recoveries: Sequence[Recovery] = (),
    migrations: Sequence[ClassifiedMigration] = (),
    decisions: Sequence[Decision] = (),
    visible: Visible | None = None,
    reconfigurations: Sequence[Reconfiguration] = (),
) -> Section | None:
    """Return latency over time with what happened below, and around the longest recovery; None without deliveries.

    The recovery that is shown alone is the longest of the replication that the lines show, and only if it takes a small
    part of the run: else the whole figure shows it well enough.
    """
    if not len(line.at_s):
        return None
    whole = event_marks.with_marks(
        lines.latency(line, recoveries),
        recoveries=recoveries,
        migrations=migrations,
        decisions=decisions,
        replication=line.replication,
        reconfigurations=reconfigurations,
    )
    drawn = [whole]
    known = [one for one in lines.same_replication(recoveries, line.replication) if one.ends()]
    if known:
        longest = max(known, key=lambda one: one.ends()[-1][2] - one.failed_s)
        length = longest.ends()[-1][2] - longest.failed_s
        if length < _SHORT * (float(line.at_s[-1]) - float(line.at_s[0])):
            drawn.append(lines.latency(line, recoveries, around=longest))
    words = "Half of the tuples are faster than the median, one in a hundred is slower than the p99."
    if whole.events:
        words += " Look whether the lines rise where a mark stands below them."
    if visible is not None:
        half, most = (text.seconds(one) for one in (visible.latency_s.p50, visible.latency_s.p99))
        shown = f"half of the tuples are visible {half} after their creation, 99 % within {most}; "
        words += (
            f" Sinks commit at checkpoints: {shown if visible.latency_s.count else ''}"
            f"{visible.hidden:,} are not visible by the end of the run."
        )
    return Section("latency", "Latency from source to sink", "Latency", words, figures=tuple(drawn))


@dataclass(frozen=True)
class Flow:
    """Lines by operator of one replication; None for those that a run does not have.

    `filled` is in per cent of the places of the fullest bounded queue, `blocked` in per cent of the time.

    Units: tuples per second, tuples, tuples, per cent, per cent, kB. `lag` counts tuples that have arrived at a source
    and were not emitted yet; `kept` are the outputs that are not trimmed.
    """

    throughput: Lines | None = None
    queue: Lines | None = None
    lag: Lines | None = None
    filled: Lines | None = None
    blocked: Lines | None = None
    kept: Lines | None = None


def flow_section(flow: Flow, recoveries: Sequence[Recovery] = (), order: Sequence[str] = ()) -> Section | None:
    """Return throughput and queues over time; `order` gives operators their colours. None where nothing is drawn."""
    bounded, blocked = flow.filled is not None, flow.blocked
    never = bounded and (blocked is None or not blocked.names)
    given = (
        (flow.throughput, "throughput", "Tuples processed by each operator", "tuples per second", ""),
        (flow.queue, "queue", "Tuples that wait at each operator", "waiting tuples", ""),
        (flow.lag, "lag", "Tuples that wait at the sources", "arrived, not emitted", _LAG),
        (flow.filled, "filled", "The fullest bounded queue", "places taken [%]", _FREE if never else _FILLED),
        (blocked, "blocked", "Time in which operators were held back", "share of time [%]", _BLOCKED),
        (flow.kept, "kept", "Outputs that are kept for replay", "kept outputs [kB]", _KEPT),
    )
    drawn = [
        lines.lines(
            line,
            recoveries,
            name=name,
            title=title,
            axis=axis,
            unit=_UNITS[axis][1],
            caption=f"{lines.highest(line, _UNITS[axis][0])} {words}".strip(),
            steps=name in ("throughput", "blocked"),
            order=order,
        )
        for line, name, title, axis, words in given
        if line is not None and len(line.at_s) and line.names
    ]
    return Section("flow", "Throughput and queues", "Flow", figures=tuple(drawn)) if drawn else None


def memory_section(
    given: Memory | None, over_time: Lines | None, groups: Mapping[str, str], recoveries: Sequence[Recovery] = ()
) -> Section | None:
    """Return what hosts hold in memory, over time and at the most; None where it was not asked for."""
    if given is None:
        return None
    above = [name for name, one in given.hosts.items() if one.above_s]
    words = (
        "States, waiting tuples, outputs that are kept for replay, and copies of states that move in steps. "
        "What waits and what is kept is known at samples alone."
    )
    if above:
        said = text.plain(above[0]) if len(above) == 1 else f"{len(above)} hosts"
        words += f" More than its memory was held at {said}: the run went on as if it fitted."
    figure = over_time and lines.lines(
        over_time,
        recoveries,
        name="memory",
        title="What the fullest hosts hold" if len(groups) > len(over_time.names) else "What each host holds",
        axis="memory [MB]",
        unit="MB",
        caption=lines.highest(over_time, "MB"),
        steps=True,
    )
    listed = tables.cut(memory_table(given, groups))
    return Section("memory", "Memory", "Memory", words, figures=(figure,) if figure else (), tables=(listed,))


def replicas_section(replicas: Replicas | None, broken: Outages | None = None) -> Section | None:
    """Return what became of active replicas; None without any."""
    if replicas is None or not replicas.each:
        return None
    listed = tables.cut(replicas_table(replicas.each))
    return Section("replicas", "Active replicas", "Replicas", replicas_worth(replicas, broken), tables=(listed,))


def replicas_worth(one: Replicas, broken: Outages | None = None) -> str:
    """Return in words what replicas were good for.

    `broken` is given where a run has outages, and adds the share of time in which some key group or task had no live
    owner.
    """
    times = {0: "No replica took over", 1: "One replica took over"}
    words = times.get(one.took_over, f"{one.took_over:,} replicas took over")
    if one.took_over:
        words += f"; at most {text.seconds(one.pause_max_s)} passed from a failure until the replica answered"
    words += f". A replica was in step {text.share(one.protected_share)} of the time."
    return words + (f" Some key group or task had no live owner {text.share(broken.share)} of it." if broken else "")


def recovery_section(
    recoveries: Sequence[Recovery],
    means: Sequence[RecoveryMean] = (),
    engine: EngineUsed | None = None,
    planned: Mapping[str, Sequence[RecoveryMean]] = MappingProxyType({}),
) -> Section | None:
    """Return the phases of each recovery, and means, those of what was `planned` by its kind; None without any."""
    if not recoveries:
        return None
    drawn, listed = figures.phases(recoveries), recoveries_table(recoveries)
    averages = tuple(
        recovery_means_table(given, engine, kind) for kind, given in {"failure": means, **planned}.items() if given
    )
    of_job = any(one.cause == "checkpoints" for one in recoveries)
    words = ["Where the job failed no host died: more checkpoints expired in a row than are tolerated."] * of_job
    if any(one.within_s is not None for one in recoveries):
        words.append(
            "A host that died while the job was down is recovered with the failure before, and has the same ends."
        )
    if any(one.cut_off for one in recoveries):
        words.append("A recovery is cut off where a later failure takes something again: it ends when that is back.")
    return Section(
        "recovery",
        "Recovery",
        "Recovery",
        " ".join(words),
        figures=(drawn,) if drawn else (),
        tables=(*averages, tables.cut(listed)),
        definitions={head: said for head, said in tables.MEANING.items() if head in listed.heads},
    )


def guarantee_section(promised: str, counts: Guarantee) -> Section:
    """Return what was lost or duplicated beside the delivery guarantee that was promised.

    Counts are None where nobody could count: at sinks that follow a window or a timer, an output has no single source
    tuple that it must follow from.
    """
    words = f"Guarantee: {text.plain(promised)}. " if promised else ""
    if None not in counts.counts:
        words += (
            "Nothing was lost and nothing was duplicated."
            if not any(counts.counts)
            else "Compared with what must follow from the tuples that the sources emitted."
        )
    elif counts.lost is None:
        words += "Loss at sinks was not counted: there is none, or every one follows a window or a timer."
    return Section("guarantee", "Lost and duplicated", "Guarantee", words, tables=(guarantee_table(counts),))


def targets_section(targets: Mapping[str, Verdict] | None) -> Section | None:
    """Return the targets with their verdicts; None without any."""
    if not targets:
        return None
    return Section("targets", "Targets", "Targets", tables=(tables.cut(targets_table(targets)),))


def operators_section(operators: Mapping[str, OperatorSummary]) -> Section | None:
    """Return what each operator did; None without any."""
    if not operators:
        return None
    words = (
        "After the warm-up. Waiting excludes service; the queue is the time average of waiting tuples "
        "without those in service; utilisation is per server."
    )
    return Section("operators", "Operators", "Operators", words, tables=(tables.cut(operators_table(operators)),))


def best_section(tables: Sequence[Table]) -> Section | None:
    """Return what is best for which settings; None where nobody asked."""
    words = (
        "Means for each setting of the other keys. Best: the lowest mean, and what the interval of the difference "
        "cannot tell from it; one replication gives no interval, and the lowest is best alone. "
        "Next: by how much the lowest of all others is higher."
    )
    return Section("best", "What is best when", "Best", words, tables=tuple(tables)) if tables else None


def designs_section(given: tuple[Design, ...]) -> Section | None:
    """Return the designs of a study or sweep beside each other; None without any.

    Design 0 is the baseline: verdicts, differences and colours are relative to it. A Pareto figure, with the overhead
    of fault tolerance against a time, has the designs filled of which no other has both less.
    """
    if not given:
        return None
    latency = designs.measured(given, "latency_p99_s", name="designs-latency", title="p99 latency", axis="p99 latency")
    pause = designs.measured(
        given, "pause_s", name="designs-pause", title="Pause of a move, mean of each run", axis="pause"
    )
    output = designs.measured(
        given, "output_s", name="designs-output", title="From the request of a rebalance to output", axis="time"
    )
    by_latency = designs.pareto(
        given,
        "latency_p99_s",
        name="pareto-latency",
        title="What overhead buys in latency",
        axis="p99 latency",
    )
    by_pause = designs.pareto(given, "pause_s", name="pareto-pause", title="What overhead buys in pauses", axis="pause")
    latency_ccdf = ccdf.ccdf_figure(_numbered(given), "designs-tail", order=[_number(*one) for one in enumerate(given)])
    recoveries = designs.recoveries(given)
    made = (latency, recoveries, pause, output, by_latency, by_pause, latency_ccdf)
    drawn = [figure for figure in made if figure is not None]
    return Section(
        "designs",
        "Designs compared",
        "Designs",
        designs.explained(given),
        figures=tuple(drawn),
        tables=tuple(table for table in (tables.designs(given), tables.efforts(given)) if table is not None),
    )


def _numbered(given: tuple[Design, ...]) -> list[Curve]:
    """Return the curves of the designs, with the numbers of the table: names alone may be cut."""
    return [
        replace(one.latency_ccdf, name=_number(number, one))
        for number, one in enumerate(given)
        if one.latency_ccdf is not None
    ]


def _number(number: int, one: Design) -> str:
    return f"{number} {one.label if one.latency_ccdf is None else one.latency_ccdf.name}"


def ccdf_section(curves: Sequence[Curve]) -> Section | None:
    """Return the share of tuples that took longer than each time, the first curve of all; None without any.

    The first curve is that of all replications together; the others are those of single ones, and show how far
    replications differ.
    """
    drawn = ccdf.ccdf_figure(curves, whole=True)
    if drawn is None:
        return None
    words = (
        "Read from the left: how often a tuple took longer than that. "
        "A line that falls steeply has no surprises; one that runs flat to the right has rare tuples that wait long."
    )
    return Section("tail", "The slowest tuples", "Tail", words, figures=(drawn,))
