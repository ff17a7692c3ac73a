"""Tables of the report: cells as text, numbers aligned; long ones are cut and say so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from analysis.report import text
from analysis.report.content import AllocationRow, Decision, Reason
from analysis.report.parts import Cost, Design
from analysis.statistics import Mean
from models import display
from models.table import Table, columns_of

MEANING = {
    "detect": "from the failure until the detector suspects the host",
    "allocate": "until a host is chosen for the last of what was lost",
    "restart": "until the last of its tasks is up",
    "restore": "until the state of the last key group is installed at its new task",
    "replay": "until the last replayed tuple is processed or recognised as a duplicate",
    "catch up": "until every task, from those that took over down to the sinks, has caught up in turn",
}
MIGRATING = {
    "pause": "for how long the key group was not processed, or not answered for: the latency of the protocol",
    "completion": "from the request until the new owner goes on and the old one holds the checkpoint",
    "worst": "longest time from the arrival of a tuple of the group until it was answered, until one did not wait",
}
KINDS = {
    "assisted": "the target held the key group's checkpoint when the move was asked for",
    "direct": "it did not, so that the state had to come from the host that had the key group",
}
_TIMES = {
    "latency_mean_s": "latency mean",
    "latency_p99_s": "latency p99",
    "pause_s": "pause of a move",
    "output_s": "output after a rebalance",
    "recovery_s": "recovery mean",
}
_EFFORTS = {
    "moves": "moves",
    "assisted_share": "assisted",
    "usable_share": "usable checkpoints",
    "overhead_bytes_per_s": "overhead",
    "overhead_share": "of the network",
    "cost_usd": "cost [USD]",
}
_MOST = 60
_MOST_FOUND = 1000  # rows of a table that can be searched


def decisions(rows: Sequence[Decision]) -> Table:
    """Return what control decided about migrations and hosts, and why."""
    cells = [
        (text.plain(row.what), text.plain(row.why), str(row.replication), display.instant(row.at_s)) for row in rows
    ]
    heads = ("decision", "reason", "replication", "at")
    facets = [text.plain(row.about) for row in rows]
    title = "What was decided, and why"
    return cut_table("reasons-given", title, heads, cells, words=2, prose=1, facet="about", facets=facets)


def designs(rows: Sequence[Design]) -> Table:
    """Return the mean times of each design, each with its difference to the first one where there is one.

    `rows` are in the order of the sweep or study. Columns of measures that no design has are left out. With
    differences, a cell has two lines: the mean, and the relative difference with its verdict.
    """
    columns, compared = _known(rows, _TIMES), any(row.changes for row in rows)
    # Columns that would say the same in every row are left out.
    failed, several = any(row.failed for row in rows), len({row.runs for row in rows}) > 1
    cells = [
        (
            f"{number} {text.plain(row.label)}",
            *((str(row.runs),) if several else ()),
            *((str(row.failed),) if failed else ()),
            *(_beside_first(row, name) if compared else with_interval(row.of(name)) for name in columns),
        )
        for number, row in enumerate(rows)
    ]
    counts = [head for head, there in (("runs", several), ("failed", failed)) if there]
    title = "Means, and differences to design 0" if compared else "What each design came to"
    return cut_table("designs", title, ("design", *counts, *columns.values()), cells, words=1)


def _beside_first(row: Design, measure: str) -> str:
    """Return the mean, and in a line below it the difference to the first design."""
    mean, change = text.seconds(row.of(measure).mean), row.changes.get(measure)
    return mean if change is None else f"{mean}\n{change.relative} {change.shown}"


def efforts(rows: Sequence[Design]) -> Table | None:
    """Return what each design moved, sent and cost; None where nothing is known of that."""
    columns = _known(rows, _EFFORTS)
    cells = [
        (
            f"{number} {text.plain(row.label)}",
            *(_SHOWN.get(name, text.number)(row.of(name).mean) for name in columns),
        )
        for number, row in enumerate(rows)
    ]
    title = "What each design moved, sent and cost"
    return cut_table("efforts", title, ("design", *columns.values()), cells, words=1) if columns else None


def _known(rows: Sequence[Design], heads: Mapping[str, str]) -> dict[str, str]:
    """Return the measures, with their heads, that at least one design has."""
    return {name: head for name, head in heads.items() if any(row.of(name).mean is not None for row in rows)}


def costs(given: Cost) -> Table:
    """Return what the hosts cost, those of one description together."""
    cells = [
        (
            text.plain(row.hosts),
            str(row.count),
            text.seconds(row.used_s),
            display.money(row.price_per_h),
            display.money(row.cost),
        )
        for row in given.rows
    ]
    cells.append(("all", str(sum(row.count for row in given.rows)), text.seconds(sum(r.used_s for r in given.rows)),
                  text.NONE, display.money(given.total)))  # fmt: skip
    money = given.currency
    heads = ("hosts", "how many", "in use, together", f"price [{money}/h]", f"cost [{money}]")
    return cut_table("costs", "What the hosts cost", heads, cells, words=1, marked=len(cells) - 1)


def with_interval(value: Mean) -> str:
    """Return a time with half the width of its interval.

    >>> with_interval(Mean(0.0123, (0.0121, 0.0125)))
    '12.3\\xa0±\\xa00.2\\xa0ms'
    """
    if value.mean is None or value.half is None:
        return text.seconds(value.mean)
    return text.together(display.plus_minus(value.mean, value.half, display.duration))


def rate_of_bytes(value: float | None) -> str:
    """Return bytes per second with the unit that suits them.

    >>> rate_of_bytes(1.25e9)
    '1.25\\xa0GB/s'
    """
    return text.together(display.byte_rate(value))


def allocation(rows: Sequence[AllocationRow]) -> Table:
    """Return what each method of checkpoint allocation reached; the one in use is marked.

    Shares are in [0, 1], times in s, loads in cores. A bound is a proven limit of the objective, and the gap their
    distance relative to the bound.
    """
    shares = ("usable", "assisted", "highest node load [cores]")
    heads = ("method", "status", "objective", "bound", "gap", *shares, "recovery max", "latency p99")
    cells = [
        (
            text.plain(row.method) + (" (used)" if row.used else ""),
            text.plain(row.status),
            text.number(row.objective, 5),
            text.number(row.bound, 5),
            text.share(row.gap),
            text.share(row.usable),
            text.share(row.assisted),
            text.number(row.max_node_load),
            text.seconds(row.recovery_s),
            text.seconds(row.latency_p99_s),
        )
        for row in rows
    ]
    # The row of the method that the run in full has.
    used = next((position for position, row in enumerate(rows) if row.used), None)
    return cut_table("methods", "Methods of checkpoint allocation", heads, cells, words=2, marked=used)


def reasons(rows: Sequence[Reason]) -> Table:
    """Return the reasons for choices."""
    # One reason per line: the name that it begins with is then never broken at its hyphen.
    cells = [(text.plain(row.what), text.plain(row.chosen), text.plain(row.why).replace("; ", ";\n")) for row in rows]
    return cut_table("reasons", "Reasons for choices", ("choice", "chosen", "why"), cells, words=3, prose=2)


def placement(hosts: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, list[str]]]:
    """Return (host, tasks) with names that are safe to show."""
    return [(text.plain(host), [text.plain(task) for task in tasks]) for host, tasks in hosts]


_SHOWN: dict[str, Callable[[float | None], str]] = {
    "assisted_share": text.share,
    "usable_share": text.share,
    "overhead_share": text.share,
    "overhead_bytes_per_s": rate_of_bytes,
}


def cut(given: Table) -> Table:
    """Return the table with as many rows as a page takes.

    Tables that can be searched keep 1,000 rows, all others 60; the note of the table counts those that are left out.
    """
    return given.cut(_MOST_FOUND if given.facet else _MOST)


def cut_table(
    name: str,
    title: str,
    heads: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    *,
    words: int,
    marked: int | None = None,
    prose: int | None = None,
    facet: str = "",
    facets: Sequence[str] = (),
) -> Table:
    """Return a table of texts with as many rows as a page takes; the first `words` columns are no numbers.

    For a table of values that have columns of their own, use `models.table.Table` with `Column` forms; this is for
    cells that several values make together.
    """
    columns = columns_of(heads, texts=words, prose=() if prose is None else (prose,))
    return cut(Table(title, columns, tuple(rows), name, marked=marked, facet=facet, facets=tuple(facets)))


def text_table(
    name: str,
    title: str,
    heads: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    numbers: Sequence[bool],
    *,
    marked: int | None = None,
    note: str = "",
    prose: Sequence[int] = (),
    facet: str = "",
    facets: Sequence[str] = (),
) -> Table:
    """Return a table of texts, whole; `numbers` says which columns are numbers, `prose` which are sentences."""
    columns = columns_of(heads, numbers=numbers, prose=prose)
    return Table(title, columns, tuple(rows), name, note, marked, facet, tuple(facets))
