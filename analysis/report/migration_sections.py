"""Sections about migrations: what they took, which decisions led to them, where they led, and what hosts cost.

First the figures (how long each move stopped its key group, which checkpoints would have helped), then the sections.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.report import event_marks, lines, tables, text
from analysis.report.content import Decision, Lines
from analysis.report.figure import Figure, Section, Spec, header, is_wide, log_ticks, plain_list, time_unit
from analysis.report.gantt import heat
from analysis.report.parts import Cost, LoadChecks, PlacementChange
from analysis.report.placement import before_after
from analysis.runs.migration_kinds import ClassifiedMigration, grouped
from analysis.runs.recovery_summary import Recovery
from analysis.runs.run_summary import Reconfiguration
from analysis.runs.tables import groups_table, migrations_table, reconfigurations_table
from models import display

_MOST_MARKS = 500  # of one protocol and kind
_SPREAD = 30  # marks of a row that may lie beside each other
_GOLDEN = 0.618034
_MOST_LOOKS = 60  # with moves; more marks would hide the areas
_KINDS = {"assisted": ("triangle-up", "var:--c3"), "direct": ("diamond", "var:--c2"), "": ("circle", "var:--c1")}


def pauses(migrations: Sequence[ClassifiedMigration]) -> Figure | None:
    """Draw one mark for each move at its pause, by protocol; None where no move has one.

    Marks of one protocol stand in one row, spread a little in height where there are many. With more than 500 of a
    protocol and kind, some are left out evenly by rank, so that the shortest and the longest stay. The axis is
    logarithmic where the longest pause is more than 30 times the shortest.
    """
    ended = [one for one in migrations if one.pause_s is not None]
    if not ended:
        return None
    lengths = [one.pause_s for one in ended]
    wide = is_wide(lengths)
    unit, size = time_unit(lengths)
    drawn, left = [], 0
    protocols = list(dict.fromkeys(one.protocol for one in ended))
    for kind, (symbol, colour) in _KINDS.items():
        marks: list[tuple[float, ClassifiedMigration]] = []
        for row, protocol in enumerate(protocols):
            own = [one for one in ended if one.kind == kind and one.protocol == protocol]
            chosen = _spread(own)
            left += len(own) - len(chosen)
            marks += zip(_heights(row, len(chosen)), chosen, strict=True)
        if marks:
            drawn.append(_marks(marks, kind, symbol, colour, 1.0 if wide else size))
    axis: Spec = {"title": {"text": "pause (log scale)" if wide else f"pause [{unit}]"}}
    axis |= {"type": "log", **log_ticks(lengths, lengths)} if wide else {"range": _from_zero(lengths, size)}  # type: ignore[arg-type]
    longest = max(ended, key=lambda one: one.pause_s or 0.0)
    caption = (
        f"Each mark is a move. The longest pause, {text.seconds(longest.pause_s)}, is that of "
        f"{text.plain(longest.partition)} by {text.plain(longest.protocol)}."
    )
    caption += f" {left:,} marks between others are left out." if left else ""
    rows = {
        "tickvals": list(range(len(protocols))),
        "ticktext": [text.label(protocol, 20) for protocol in protocols],
        "range": [len(protocols) - 0.5, -0.5],
        "title": {"text": "protocol"},
        "zeroline": False,
    }
    layout = {"xaxis": axis, "yaxis": rows, "showlegend": True}
    height = 150 + 56 * len(protocols)
    return Figure("pauses", "For how long each move stopped its key group", caption, drawn, layout, height)


def _from_zero(lengths: Sequence[float | None], size: float) -> list[float]:
    """Return a linear axis with room for marks at both ends."""
    most = max(length or 0.0 for length in lengths) / size or 1.0
    return [float(f"{edge * most:.4g}") for edge in (-0.03, 1.04)]


def _heights(row: int, count: int) -> list[float]:
    """Return the heights of the marks of a row: all the same, or spread if there are many, so that each is seen."""
    if count <= _SPREAD:
        return [float(row)] * count
    # Multiples of the golden ratio spread evenly for any count, and are the same in every run, as random ones are not.
    return [round(row + 0.6 * ((k * _GOLDEN) % 1.0 - 0.5), 3) for k in range(count)]


def _marks(
    marks: Sequence[tuple[float, ClassifiedMigration]], kind: str, symbol: str, colour: str, size: float
) -> Spec:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{kind} moves".strip(),
        "x": plain_list(np.array([one.pause_s for _, one in marks], dtype=np.float64) / size),
        "y": [height for height, _ in marks],
        "text": [
            f"{text.label(one.partition, 24)}: {text.label(one.origin, 20)} to {text.label(one.target, 20)}, "
            f"{text.seconds(one.pause_s)}"
            for _, one in marks
        ],
        "marker": {"symbol": symbol, "size": 10 if len(marks) <= _SPREAD else 6, "color": colour, "opacity": 0.7},
        "hovertemplate": "%{text}<extra></extra>",
        "cliponaxis": False,
    }


def _spread(migrations: Sequence[ClassifiedMigration]) -> list[ClassifiedMigration]:
    """Return at most so many of them, evenly by rank of their pause, the shortest and the longest among them."""
    if len(migrations) <= _MOST_MARKS:
        return list(migrations)
    ordered = sorted(migrations, key=lambda one: one.pause_s or 0.0)
    # By rank: extremes stay, and the density of marks keeps its shape.
    return [ordered[k] for k in np.linspace(0, len(ordered) - 1, _MOST_MARKS).astype(int).tolist()]


def load_checks(given: LoadChecks) -> Figure | None:
    """Draw key groups at risk, those with a usable checkpoint, and the moves; None where none was at risk.

    Areas are counts of key groups at each check of the adaptation manager, marks are the moves that it asked for. The
    share of the inner area in the outer one is what an allocation of checkpoints is good for (Madsen and Zhou, CIKM
    2015).
    """
    if not np.any(given.at_risk) and not np.any(given.drained):
        return None
    at = np.asarray(given.at_s, dtype=np.float64)
    counts = [
        ("on overloaded hosts", given.at_risk, "var:--c8", "solid", "tozeroy"),
        ("of them with a usable checkpoint", given.usable, "var:--c3", "solid", "tozeroy"),
    ]
    data: list[Spec] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": plain_list(at),
            "y": plain_list(values),
            "line": {"color": colour, "width": 2, "dash": dash, "shape": "hv"},
            "fill": fill,
            "fillpattern": {"shape": "/" if position == 0 else "", "size": 6, "solidity": 0.15, "fgcolor": colour},
            "hovertemplate": "%{y:,} key groups",
        }
        for position, (name, values, colour, dash, fill) in enumerate(counts)
    ]
    asked = [
        ("assisted moves", given.assisted, "triangle-up", "var:--c3"),
        ("direct moves", given.direct, "diamond", "var:--c2"),
        ("moves off a host to be left", given.drained, "square", "var:--c5"),
    ]
    crowded = sum(int(np.count_nonzero(count)) for _, count, _, _ in asked) > _MOST_LOOKS
    data += [_asked(at, *one) for one in asked if np.any(one[1]) and not crowded]
    layout = {
        "xaxis": {"title": {"text": "time [s]"}, "rangemode": "tozero", "unifiedhovertitle": header("s")},
        "yaxis": {"title": {"text": "key groups"}, "rangemode": "tozero"},
        "hovermode": "x unified",
        "showlegend": True,
    }
    columns = (given.at_risk, given.usable, given.assisted, given.direct, given.drained)
    heads = ("at [s]", "at risk", "usable", "assisted", "direct", "drained")
    rows = tuple((text.number(float(at[k]), 6), *(str(int(column[k])) for column in columns)) for k in range(len(at)))
    caption = _load_checks_caption(given) + (" The moves are in the numbers below." if crowded else "")
    return Figure("checks", "Usable checkpoints over time", caption, data, layout, 360, heads, rows)


def _asked(at: np.ndarray, name: str, count: np.ndarray, symbol: str, colour: str) -> Spec:
    seen = np.flatnonzero(count)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": plain_list(at[seen]),
        "y": plain_list(np.asarray(count)[seen]),
        "marker": {"symbol": symbol, "size": 10, "color": colour},
        "hovertemplate": "%{y:,} key groups",
    }


def _load_checks_caption(given: LoadChecks) -> str:
    """Return how often a key group was at risk, and for which share its checkpoint would have helped."""
    risk, usable = int(np.sum(given.at_risk)), int(np.sum(given.usable))
    each = f" Each point is the sum of {given.together} checks." if given.together > 1 else ""
    said = f"Replication {given.replication}."
    if not risk:
        return f"No host was overloaded when the manager checked. {said}{each}"
    return (
        f"{risk:,} times a key group was on an overloaded host when the manager checked; in "
        f"{text.share(usable / risk)} of these it would have fitted where its checkpoint is. {said}{each}"
    )


def reconfigurations_section(given: Sequence[Reconfiguration]) -> Section | None:
    """Return what each reconfiguration took; None without any."""
    if not given:
        return None
    words = (
        "Key groups change their tasks in steps while the operator runs. The fewer move in a step, the shorter is the "
        "longest latency, and the longer it takes. Latencies are those of tuples that were born meanwhile: of each "
        "alone, and of the frontier, which ends when all that was born in the same millisecond or before has come to a "
        "sink. They are known where single tuples are recorded."
    )
    lost = sum(one.lost_groups for one in given)
    if lost:
        size = display.size(sum(one.lost_bytes for one in given))
        words += (
            f" Hosts died, and nothing was kept: {display.count(lost, 'key group')} lost {size} of state before the "
            "new tasks had it, and began empty. What else was on these hosts is among the failures; tuples that are "
            "missing are counted with the guarantee."
        )
    listed = tables.cut(reconfigurations_table(given))
    return Section("reconfigurations", "Reconfigurations", "Reconfigurations", words, tables=(listed,))


def migrations_section(
    given: Sequence[ClassifiedMigration],
    hosts: Lines | None = None,
    recoveries: Sequence[Recovery] = (),
    decisions: Sequence[Decision] = (),
    host_order: Sequence[str] = (),
) -> Section | None:
    """Return what migrations took, by kind and one by one, and how busy hosts were; None without either.

    `hosts` are the CPU shares of hosts over time [%], drawn as a heat map with events below. Hosts that never had
    anything to do are left out, and counted in the caption by `host_order`.
    """
    if not given and hosts is None:
        return None
    drawn = pauses(given)
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
    drawn = load_checks(checks) if checks else None
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
    """Return what the hosts cost, and how many were in use; None where no host has a price and none comes or goes.

    `used` has steps: the number of hosts in use between two changes. With no price in the scenario the section shows
    that figure alone.
    """
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
