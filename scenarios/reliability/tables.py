"""Tables of an answer of `holdfast availability`: the terminal shows their brief form, pages the whole.

A cell is a `Figure`, a probability: its value if that is exact, `~` and the estimate if it is sampled, and both ends
where only bounds are known. `reading_notes` explains these forms to the reader of a table that has them.
"""

from __future__ import annotations

from collections.abc import Sequence

from models import display
from models.reliability.times import downtime_s
from models.table import Column, Table, rows_of
from scenarios.reliability.availability import Answer, Figure, weakest
from scenarios.reliability.importance import Element, Importance, Replica

MOST_SETTINGS = 5  # of which a table of queries has a column
_MOST_NAMED = 8  # queries that a single point of failure breaks
_SHORT = 0.95  # share of queries of which also a terminal says how likely it is that fewer run


def settings_table(found: Answer) -> Table:
    """Return a row for each setting: how often the mean query, and at least one of all, is broken."""
    columns = (
        Column("setting", of="label", number=False),
        Column("mean query broken", figure_text, "mean"),
        Column("a month", month_text, "mean"),
        Column("some query broken", figure_text, "some"),
        Column("method", of="mean.method", number=False),
    )
    return Table("All queries, by setting", columns, rows_of(found.lines, columns), "settings")


def known_table(found: Answer) -> Table | None:
    """Return both ends of the figures that are sampled or have bounds; None where all are exact."""
    lines = [
        line
        for line in found.lines
        if any(one is not None and one.low < one.high for one in (line.mean, line.some, *line.short.values()))
    ]
    if not lines:
        return None
    shares = tuple(lines[0].short)
    columns = (
        Column("setting", number=False),
        Column("mean query broken", ends_text),
        Column("some query broken", ends_text),
        *(Column(_fewer(share), ends_text, wide=share != _SHORT) for share in shares),
    )
    rows = tuple((line.label, line.mean, line.some, *map(line.short.get, shares)) for line in lines)
    return Table("Known to lie in (sampled: with 95 %)", columns, rows, "known")


def fewer_table(found: Answer) -> Table | None:
    """Return how likely it is that fewer than a share of the queries run; None where no setting has it."""
    lines = [line for line in found.lines if line.short]
    if not lines:
        return None
    shares = tuple(lines[0].short)
    columns = (Column("setting", number=False), *(Column(_fewer(share), figure_text) for share in shares))
    rows = tuple((line.label, *map(line.short.get, shares)) for line in lines)
    return Table("Probability that fewer queries run", columns, rows, "fewer")


def _fewer(share: float) -> str:
    return f"< {percent(share)} run"


def queries_table(found: Answer) -> Table:
    """Return the unavailability of each query in the last settings, the worst in the last setting first."""
    names, last = tuple(found.description.queries), found.lines[-1]
    uncertain = any(one.low < one.high for one in last.queries)
    lines = found.lines[-MOST_SETTINGS:]
    narrow = settings_on_terminal(found)
    columns = (
        Column("query", number=False),
        *(Column(line.label, figure_text, wide=k < len(lines) - narrow) for k, line in enumerate(lines)),
        *((Column("known to lie in", ends_text),) if uncertain else ()),
        Column(f"a month, {last.label}", month_text, wide=True),
        Column("method", number=False),
    )
    order = worst_first(found)
    rows = tuple(
        (
            names[k],
            *(line.queries[k] for line in lines),
            *((last.queries[k],) if uncertain else ()),
            last.queries[k],
            last.queries[k].method,
        )
        for k in order
    )
    missed = set(found.missed)
    met, short = f"has it{every_setting(found)}", "misses it" + " in some setting" * (len(found.lines) > 1)
    facets = tuple(short if names[k] in missed else met if found.target else "" for k in order)
    return Table("Unavailability by query, worst first", columns, rows, "queries", facet="target", facets=facets)


def worst_first(found: Answer) -> list[int]:
    """Return the positions of all queries, by their unavailability in the last setting."""
    last = found.lines[-1]
    return sorted(range(len(last.queries)), key=lambda query: (-last.queries[query].high, query))


def every_setting(found: Answer) -> str:
    """Return to which settings the verdict on a target applies, where there are several."""
    return " in every setting" if len(found.lines) > 1 else ""


def settings_on_terminal(found: Answer) -> int:
    """Return of how many settings a terminal has room in the table of queries."""
    return MOST_SETTINGS - 2 * any(one.low < one.high for one in found.lines[-1].queries)


def single_points_table(found: Answer) -> Table | None:
    """Return hosts and domains whose failure alone breaks queries; None without any.

    They follow from the structure, and are the same in all settings.
    """
    alone, _ = weakest(found.description)
    if not alone:
        return None
    columns = (
        Column("host or domain", of="name", number=False),
        Column("kind", of="kind", number=False),
        Column("breaks", lambda names: display.count(len(names)), "queries"),
        Column("queries", _few, "queries", number=False),
    )
    return Table("Single points of failure", columns, rows_of(alone, columns), "alone")


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")


def importance_table(found: Importance) -> Table:
    """Return the importance of each host and domain: the probability that it decides whether the mean query runs.

    Source: Birnbaum, On the Importance of Different Components in a Multicomponent System, 1969.
    """
    columns = (Column("host or domain", number=False), Column("importance", between_text))
    rows = tuple((one.name, one) for one in found.elements)
    facets = ("",) * len(rows)
    return Table(f"Importance (Birnbaum), {found.label}", columns, rows, "elements", facet="host", facets=facets)


def gains_table(found: Importance) -> Table:
    """Return what the mean share of running queries gains from one more replica of an operator on a host."""
    columns = (
        Column("operator", number=False),
        Column("host", number=False),
        Column("mean query gains", between_text),
    )
    rows = tuple((one.operator, one.host, one) for one in found.replicas)
    left = f", {found.left_out} operators not tried" if found.left_out else ""
    facets = tuple(one.operator for one in found.replicas)
    title = f"One more replica, {found.label}{left}"
    return Table(title, columns, rows, "replicas", facet="operator", facets=facets)


# -- cells


def figure_text(figure: Figure | None) -> str:
    """Return a probability: `~` marks an estimate, and both ends stand where only bounds are known."""
    if figure is None:
        return display.NONE
    value = figure.value
    if value is None:
        return display.between(figure.low, figure.high, display.share)
    if figure.estimate == 0:
        return display.at_most(figure.high, display.share)
    return f"{'~' if figure.estimate is not None else ''}{display.share(value)}"


def ends_text(figure: Figure | None) -> str:
    """Return both ends of a probability; `exact` where they are one."""
    if figure is None:
        return display.NONE
    return "exact" if figure.low == figure.high else display.between(figure.low, figure.high, display.share)


def month_text(figure: Figure) -> str:
    """Return the time broken in a month; the upper end where there are only bounds, or nothing was seen."""
    value = None if figure.estimate == 0 else figure.value
    return display.at_most(downtime_s(figure.high)) if value is None else display.duration(downtime_s(value))


def between_text(one: Element | Replica) -> str:
    """Return the bounds of an importance or of a gain."""
    return display.between(one.low, one.high, display.share, 4)


def percent(share: float | None) -> str:
    """Return a share in percent with all the digits that were written; nothing for None."""
    return "" if share is None else display.share(share, 10)


def reading_notes(found: Answer) -> list[str]:
    """Return what `~`, `≤` and ranges mean, where the answer has such figures."""
    given = (one for line in found.lines for one in (*line.queries, line.mean, line.some, *line.short.values()))
    shown = [one for one in given if one is not None]
    notes = []
    if any(one.estimate is not None for one in shown):
        notes.append("~: sampled; an interval or a ≤ of such a value holds with 95 %, and --json has all of them.")
    if any(one.value is None for one in shown):
        notes.append("LOW–HIGH: the exact value lies between these bounds.")
    return notes
