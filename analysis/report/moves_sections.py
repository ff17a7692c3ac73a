"""The sections about moves, what they were decided by, where they led and what the hosts cost."""

from __future__ import annotations

from analysis.report import event_marks, lines, moves_figures, tables, text
from analysis.report.content import ReportContent
from analysis.report.figure import Figure
from analysis.report.heat import heat
from analysis.report.parts import Moved
from analysis.report.placement import before_after
from analysis.report.section import Section


def migrations(content: ReportContent) -> Section | None:
    """What moves took, by kind and one by one."""
    if not content.migrations and content.hosts is None:
        return None
    given = content.migrations
    drawn = moves_figures.pauses(given)
    listed = [tables.move_kinds(content.move_kinds)] if content.move_kinds else []
    listed += [tables.migrations(given)] if given else []
    kinds = {kind: said for kind, said in tables.KINDS.items() if any(one.kind == kind for one in given)}
    words = ""
    if given:
        words = "An assisted move finds the state already there: look whether its marks stand left of direct ones."
    return Section(
        "migrations",
        "Migrations",
        "Migrations",
        words,
        figures=((drawn,) if drawn else ()) + _hosts(content),
        tables=tuple(listed),
        definitions={**kinds, **(tables.MOVING if given else {})},
    )


def load_checks(content: ReportContent) -> Section | None:
    """Which checkpoints would have helped, each time the load was checked."""
    drawn = moves_figures.load_checks(content.load_checks) if content.load_checks else None
    if drawn is None:
        return None
    words = (
        "A checkpoint is usable if its key group is on an overloaded host and would fit where the checkpoint is. "
        "The closer the two areas, the more moves can be assisted."
    )
    return Section("checks", "Checkpoints that could help", "Usable", words, figures=(drawn,))


def placement(content: ReportContent) -> Section | None:
    """Where key groups were before and after."""
    given = content.moved
    if given is None or not given.moved:
        return None
    who = (
        "1 key group is not where it was" if given.moved == 1 else f"{given.moved:,} key groups are not where they were"
    )
    words = f"{who} at the start.{_busiest(given)}"
    return Section(
        "placement", "Before and after", "Placement", words, placed=before_after(given, content.operator_order)
    )


def _busiest(given: Moved) -> str:
    """How busy the busiest host was before and after, where that is known."""
    before = [one.load_before for one in given.hosts if one.load_before is not None]
    after = [one.load_after for one in given.hosts if one.load_after is not None]
    if not before or not after:
        return ""
    first, last = text.share(max(before)), text.share(max(after))
    return f" Look whether the bars are more even after than before: the busiest host was at {first}, and is at {last}."


def decisions(content: ReportContent) -> Section | None:
    """What was decided, and why."""
    if not content.decisions:
        return None
    words = "Every decision has its reason beside it, with the numbers that it was taken on."
    return Section("decisions", "Decisions", "Decisions", words, tables=(tables.decisions(content.decisions),))


def cost(content: ReportContent) -> Section | None:
    """What the hosts cost."""
    given = content.cost
    used = content.hosts_used
    if given is None and used is None:
        return None
    drawn: tuple[Figure, ...] = ()
    if used is not None and len(used.at_s):
        least, most = (text.number(float(value)) for value in (used.values.min(), used.values.max()))
        drawn = (
            lines.lines(
                used,
                content.recoveries,
                name="hosts-used",
                title="Hosts in use",
                axis="hosts",
                unit="hosts",
                caption=f"At least {least}, at most {most}.",
                steps=False,
            ),
        )
    if given is not None:
        money = given.currency
        words = f"The run cost {text.number(given.total)} {money}, {text.number(given.per_hour)} {money} an hour"
        words += f"; a million tuples {text.number(given.per_million)} {money}." if given.per_million else "."
        words += " A host costs from when it is acquired to when it is released."
        return Section("cost", "Cost", "Cost", words, figures=drawn, tables=(tables.costs(given),))
    return Section("cost", "Hosts in use", "Hosts", "How many hosts are there as the load changes.", figures=drawn)


def _hosts(content: ReportContent) -> tuple[Figure, ...]:
    """How busy hosts were, with what happened to them below."""
    given = content.hosts
    if given is None or not len(given.at_s) or not given.names:
        return ()
    idle = len(set(content.host_order) - set(given.names))
    said = f" {text.number(idle)} hosts never had anything to do and are left out." if idle > 1 else ""
    said = " One host never had anything to do and is left out." if idle == 1 else said
    drawn = heat(
        given,
        name="hosts",
        title="How busy each host is",
        axis="CPU in use [%]",
        unit="%",
        caption=f"{lines.highest(given, '%')}{said}".strip(),
    )
    marked = event_marks.with_marks(
        lines.with_failures(drawn, lines.same_replication(content.recoveries, given.replication)),
        recoveries=content.recoveries,
        moves=content.migrations,
        decisions=content.decisions,
        replication=given.replication,
    )
    return (marked,)
