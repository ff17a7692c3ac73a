"""Sections about migrations: what they took, which decisions led to them, where they led, and what hosts cost."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.report import event_marks, lines, migration_figures, tables, text
from analysis.report.content import Decision, Lines
from analysis.report.figure import Figure
from analysis.report.heat import heat
from analysis.report.parts import Cost, LoadChecks, PlacementChange
from analysis.report.placement import before_after
from analysis.report.section import Section
from analysis.runs.migration_kinds import ClassifiedMigration, grouped
from analysis.runs.run_summary import Recovery
from analysis.runs.tables import groups_table, migrations_table


def migrations_section(
    given: Sequence[ClassifiedMigration],
    hosts: Lines | None = None,
    recoveries: Sequence[Recovery] = (),
    decisions: Sequence[Decision] = (),
    host_order: Sequence[str] = (),
) -> Section | None:
    """Return what migrations took, by kind and one by one, and how busy hosts were; None without either."""
    if not given and hosts is None:
        return None
    drawn = migration_figures.pauses(given)
    listed = [tables.cut(groups_table(grouped(given))), tables.cut(migrations_table(given))] if given else []
    kinds = {kind: said for kind, said in tables.KINDS.items() if any(one.kind == kind for one in given)}
    words = ""
    if given:
        words = "An assisted move finds the state already there: look whether its marks stand left of direct ones."
    return Section(
        "migrations",
        "Migrations",
        "Migrations",
        words,
        figures=((drawn,) if drawn else ()) + _hosts(hosts, given, recoveries, decisions, host_order),
        tables=tuple(listed),
        definitions={**kinds, **(tables.MIGRATING if given else {})},
    )


def load_checks_section(checks: LoadChecks | None) -> Section | None:
    """Return which checkpoints would have helped, each time the load was checked; None where nobody checked."""
    drawn = migration_figures.load_checks(checks) if checks else None
    if drawn is None:
        return None
    words = (
        "A checkpoint is usable if its key group is on an overloaded host and would fit where the checkpoint is. "
        "The closer the two areas, the more moves can be assisted."
    )
    return Section("checks", "Checkpoints that could help", "Usable", words, figures=(drawn,))


def placement_section(given: PlacementChange | None, operator_order: Sequence[str] = ()) -> Section | None:
    """Return where key groups were before and after; None where none moved."""
    if given is None or not given.moved:
        return None
    who = (
        "1 key group is not where it was" if given.moved == 1 else f"{given.moved:,} key groups are not where they were"
    )
    words = f"{who} at the start.{_busiest(given)}"
    return Section("placement", "Before and after", "Placement", words, placed=before_after(given, operator_order))


def _busiest(given: PlacementChange) -> str:
    """Return in words how busy the busiest host was before and after, where that is known."""
    before = [one.load_before for one in given.hosts if one.load_before is not None]
    after = [one.load_after for one in given.hosts if one.load_after is not None]
    if not before or not after:
        return ""
    first, last = text.share(max(before)), text.share(max(after))
    return f" Look whether the bars are more even after than before: the busiest host was at {first}, and is at {last}."


def decisions_section(given: Sequence[Decision]) -> Section | None:
    """Return what was decided, and why; None where nothing was."""
    if not given:
        return None
    words = "Every decision has its reason beside it, with the numbers that it was taken on."
    return Section("decisions", "Decisions", "Decisions", words, tables=(tables.decisions(given),))


def cost_section(given: Cost | None, used: Lines | None = None, recoveries: Sequence[Recovery] = ()) -> Section | None:
    """Return what the hosts cost, and how many were in use; None where no host has a price and none comes or goes."""
    if given is None and used is None:
        return None
    drawn: tuple[Figure, ...] = ()
    if used is not None and len(used.at_s):
        least, most = (text.number(float(value)) for value in (used.values.min(), used.values.max()))
        drawn = (
            lines.lines(
                used,
                recoveries,
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


def _hosts(
    given: Lines | None,
    migrations: Sequence[ClassifiedMigration],
    recoveries: Sequence[Recovery],
    decisions: Sequence[Decision],
    host_order: Sequence[str],
) -> tuple[Figure, ...]:
    """Return how busy hosts were, with what happened to them below."""
    if given is None or not len(given.at_s) or not given.names:
        return ()
    idle = len(set(host_order) - set(given.names))
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
        lines.with_failures(drawn, lines.same_replication(recoveries, given.replication)),
        recoveries=recoveries,
        migrations=migrations,
        decisions=decisions,
        replication=given.replication,
    )
    return (marked,)
