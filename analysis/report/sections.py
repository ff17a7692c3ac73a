"""The sections of the page, from its content: each is there only where there is something to show."""

from __future__ import annotations

from dataclasses import replace

from analysis.report import ccdf, designs, event_marks, figures, lines, tables, text
from analysis.report.claims_sections import charts, claims, grids
from analysis.report.content import ReportContent
from analysis.report.moves_sections import cost, decisions, load_checks, migrations, placement
from analysis.report.parts import Curve, Design
from analysis.report.section import Section
from analysis.report.topology import draw
from analysis.report.uploads import uploads

_SHORT = 0.15  # a recovery below this share of the run gets a figure of its own
_MOST_HOSTS = 60
_UNITS = {
    "tuples per second": ("tuples per second", "tuples/s"),
    "waiting tuples": ("waiting tuples", "tuples"),
    "arrived, not emitted": ("tuples", "tuples"),
    "places taken [%]": ("% of the places", "%"),
    "share of time [%]": ("% of the time", "%"),
}
"""Axis -> the unit in a sentence, and in a hover text."""
_LAG = "A source is behind while its host is down, and while bounded queues have no room for what it emits."
_FILLED = "Of each operator the task whose queue has the fewest places left; under way to it counts as taken."
_FREE = f"{_FILLED} No task ever had to wait for a place."
_BLOCKED = "The mean over the tasks of each operator: outputs wait for room at their receivers, and nothing is started."


def sections_of(content: ReportContent) -> list[Section]:
    """The sections in the order of the page."""
    made = (
        _topology(content),
        _load(content),
        _allocation(content),
        _designs(content),
        _latency(content),
        _latency_ccdf(content),
        _flow(content),
        migrations(content),
        load_checks(content),
        placement(content),
        _replicas(content),
        uploads(content),
        _recovery(content),
        _guarantee(content),
        _targets(content),
        _operators(content),
        decisions(content),
        cost(content),
        claims(content),
        charts(content),
        grids(content),
    )
    return [section for section in made if section is not None]


def _topology(content: ReportContent) -> Section | None:
    if content.topology is None:
        return None
    hosts = tables.placement(list(content.topology.placement.items()))
    return Section(
        "topology",
        "What runs where",
        "Topology",
        drawings=(draw(content.topology, upright=False), draw(content.topology, upright=True)),
        hosts=tuple(hosts[:_MOST_HOSTS]),
        left_out=max(0, len(hosts) - _MOST_HOSTS),
    )


def _load(content: ReportContent) -> Section | None:
    drawn = [figures.key_group_load(load, k) for k, load in enumerate(content.loads) if load.counts.size]
    if content.correlation is not None and content.correlation.values.size:
        drawn.append(figures.correlation(content.correlation))
    return Section("load", "Load of the key groups", "Load", figures=tuple(drawn)) if drawn else None


def _allocation(content: ReportContent) -> Section | None:
    if not content.allocation and not content.reasons:
        return None
    drawn = figures.allocation(content.allocation)
    listed = [tables.allocation(content.allocation)] if content.allocation else []
    listed += [tables.reasons(content.reasons)] if content.reasons else []
    words = ""
    if content.allocation:
        words = (
            "The gap is the distance between the objective and a proven bound, relative to the bound: "
            "at 0 % no better allocation exists. A dash means that nothing is known."
        )
        if any(row.usable is not None for row in content.allocation):
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


def _latency(content: ReportContent) -> Section | None:
    line = content.latency
    if line is None or not len(line.at_s):
        return None
    whole = event_marks.with_marks(
        lines.latency(line, content.recoveries),
        recoveries=content.recoveries,
        moves=content.migrations,
        decisions=content.decisions,
        replication=line.replication,
    )
    drawn = [whole]
    known = [one for one in lines.same_replication(content.recoveries, line.replication) if one.ends()]
    if known:
        longest = max(known, key=lambda one: one.ends()[-1][2] - one.failed_s)
        length = longest.ends()[-1][2] - longest.failed_s
        if length < _SHORT * (float(line.at_s[-1]) - float(line.at_s[0])):
            drawn.append(lines.latency(line, content.recoveries, around=longest))
    words = "Half of the tuples are faster than the median, one in a hundred is slower than the p99."
    if whole.events:
        words += " Look whether the lines rise where a mark stands below them."
    return Section("latency", "Latency from source to sink", "Latency", words, figures=tuple(drawn))


def _flow(content: ReportContent) -> Section | None:
    bounded, blocked = content.filled is not None, content.blocked
    never = bounded and (blocked is None or not blocked.names)
    given = (
        (content.throughput, "throughput", "Tuples processed by each operator", "tuples per second", ""),
        (content.queue, "queue", "Tuples that wait at each operator", "waiting tuples", ""),
        (content.lag, "lag", "Tuples that wait at the sources", "arrived, not emitted", _LAG),
        (content.filled, "filled", "The fullest bounded queue", "places taken [%]", _FREE if never else _FILLED),
        (blocked, "blocked", "Time in which operators were held back", "share of time [%]", _BLOCKED),
    )
    drawn = [
        lines.lines(
            line,
            content.recoveries,
            name=name,
            title=title,
            axis=axis,
            unit=_UNITS[axis][1],
            caption=f"{lines.highest(line, _UNITS[axis][0])} {words}".strip(),
            steps=name in ("throughput", "blocked"),
            order=content.operator_order,
        )
        for line, name, title, axis, words in given
        if line is not None and len(line.at_s) and line.names
    ]
    return Section("flow", "Throughput and queues", "Flow", figures=tuple(drawn)) if drawn else None


def _replicas(content: ReportContent) -> Section | None:
    if not content.replicas:
        return None
    return Section(
        "replicas",
        "Active replicas",
        "Replicas",
        content.replicas_said,
        tables=(tables.replicas(content.replicas),),
    )


def _recovery(content: ReportContent) -> Section | None:
    if not content.recoveries:
        return None
    drawn = figures.phases(content.recoveries)
    return Section(
        "recovery",
        "Recovery",
        "Recovery",
        figures=(drawn,) if drawn else (),
        tables=(tables.recoveries(content.recoveries),),
        definitions=tables.MEANING,
    )


def _guarantee(content: ReportContent) -> Section | None:
    given = content.guarantee
    if given is None:
        return None
    words = f"Guarantee: {text.plain(given.guarantee)}. " if given.guarantee else ""
    counts = (given.lost, given.duplicated, given.state_lost, given.state_duplicated)
    if None not in counts:
        words += (
            "Nothing was lost and nothing was duplicated."
            if not any(counts)
            else "Compared with what must follow from the tuples that the sources emitted."
        )
    elif given.lost is None:
        words += "Loss at sinks was not counted: there is none, or every one follows a window or a timer."
    return Section("guarantee", "Lost and duplicated", "Guarantee", words, tables=(tables.guarantee(given),))


def _targets(content: ReportContent) -> Section | None:
    if not content.targets:
        return None
    return Section("targets", "Targets", "Targets", tables=(tables.targets(content.targets),))


def _operators(content: ReportContent) -> Section | None:
    if not content.operators:
        return None
    words = (
        "After the warm-up. Waiting excludes service; the queue is the time average of waiting tuples "
        "without those in service; utilisation is per server."
    )
    return Section("operators", "Operators", "Operators", words, tables=(tables.operators(content.operators),))


def _designs(content: ReportContent) -> Section | None:
    if not content.designs:
        return None
    given = content.designs
    latency = designs.measured(given, "latency_p99_s", name="designs-latency", title="p99 latency", axis="p99 latency")
    pause = designs.measured(
        given, "pause_s", name="designs-pause", title="Pause of a move, mean of each run", axis="pause"
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
    made = (latency, recoveries, pause, by_latency, by_pause, latency_ccdf)
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
    """The curves of the designs, with the numbers of the table: names alone may be cut."""
    return [
        replace(one.latency_ccdf, name=_number(number, one))
        for number, one in enumerate(given)
        if one.latency_ccdf is not None
    ]


def _number(number: int, one: Design) -> str:
    return f"{number} {one.label if one.latency_ccdf is None else one.latency_ccdf.name}"


def _latency_ccdf(content: ReportContent) -> Section | None:
    drawn = ccdf.ccdf_figure(content.latency_ccdfs, whole=True)
    if drawn is None:
        return None
    words = (
        "Read from the left: how often a tuple took longer than that. "
        "A line that falls steeply has no surprises; one that runs flat to the right has rare tuples that wait long."
    )
    return Section("tail", "The slowest tuples", "Tail", words, figures=(drawn,))
