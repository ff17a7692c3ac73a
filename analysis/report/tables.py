"""Tables of the report: cells as text, numbers aligned; long ones are cut and say so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from analysis.report import text
from analysis.report.content import (
    AllocationRow,
    Decision,
    Guarantee,
    Migration,
    OperatorRow,
    Reason,
    Recovery,
    ReplicaRow,
    TargetRow,
)
from analysis.report.parts import Cost, Design, Interval, MoveKind
from models import display

MEANING = {
    "detection": "from the failure until the detector suspects the host",
    "restoring": "until the state of the last key group is installed at its new task",
    "replay": "until the last replayed tuple is processed or recognised as a duplicate",
    "catching up": "until every task, from those that took over down to the sinks, has caught up in turn",
}
MOVING = {
    "pause": "for how long the key group was not processed, or not answered for: the latency of the protocol",
    "completion": "from the request until the new owner goes on and the old one holds the checkpoint",
    "worst": "longest time from the arrival of a tuple of the group until it was answered, until one did not wait",
}
KINDS = {
    "assisted": "the target held the key group's checkpoint when the move was asked for",
    "direct": "it did not, so that the state had to come from the host that had the key group",
}
_TIMES = {
    "latency_mean_s": "latency, mean",
    "latency_p99_s": "latency, p99",
    "pause_s": "pause of a move",
    "recovery_s": "recovery, mean",
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
_FEW = 12  # rows that need no search


@dataclass(frozen=True)
class Table:
    """Heads, rows of cells, which columns are numbers, which row is marked; `note` says what was left out.

    `prose` is the column of sentences: only its cells, and no names, may be broken into lines.
    """

    name: str
    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[bool, ...]
    marked: int | None = None
    note: str = ""
    prose: int | None = None
    facet: str = ""  # what `facets` say of each row, where the table can be searched
    facets: tuple[str, ...] = ()
    also: tuple[int, ...] = ()  # further columns of sentences

    @property
    def searched(self) -> bool:
        """Whether it is so long that a reader would search it."""
        return bool(self.facet) and len(self.rows) > _FEW

    @property
    def choices(self) -> tuple[tuple[str, int], ...]:
        """What `facets` can be, and how many rows are of it; none where they are all the same."""
        found = {one: self.facets.count(one) for one in dict.fromkeys(self.facets)}
        return tuple(found.items()) if len(found) > 1 else ()


def operators(rows: Sequence[OperatorRow]) -> Table:
    """What each operator did."""
    heads = ("operator", "processed", "wait, mean", "wait, p99", "sojourn, mean", "sojourn, p99")
    cells = [
        (
            text.plain(row.name),
            text.number(row.processed),
            text.seconds(row.wait_mean_s),
            text.seconds(row.wait_p99_s),
            text.seconds(row.sojourn_mean_s),
            text.seconds(row.sojourn_p99_s),
            text.number(row.queue_mean),
            text.share(row.utilisation),
        )
        for row in rows
    ]
    return cut_table("operators", "What each operator did", (*heads, "queue, mean", "utilisation"), cells, words=1)


def migrations(rows: Sequence[Migration]) -> Table:
    """What each move of a key group took."""
    words = ("key group", "kind", "protocol", "from", "to", "cause")
    heads = (*words, "replication", "asked for at", *MOVING, "replayed tuples")
    cells = [
        (
            text.plain(row.key_group),
            row.kind or text.NONE,
            *(text.plain(word) for word in (row.protocol, row.origin, row.target, row.cause)),
            str(row.replication),
            display.instant(row.requested_s),
            text.seconds(row.pause_s),
            text.seconds(row.completion_s),
            text.seconds(row.worst_s),
            f"{row.replayed:,}",
        )
        for row in rows
    ]
    facets = [text.plain(row.protocol) for row in rows]
    return cut_table("moves", "What each move took", heads, cells, words=len(words), facet="protocol", facets=facets)


def decisions(rows: Sequence[Decision]) -> Table:
    """What control decided about moves and hosts, and why."""
    cells = [
        (text.plain(row.what), text.plain(row.why), str(row.replication), display.instant(row.at_s)) for row in rows
    ]
    heads = ("decision", "reason", "replication", "at")
    facets = [text.plain(row.about) for row in rows]
    title = "What was decided, and why"
    return cut_table("reasons-given", title, heads, cells, words=2, prose=1, facet="about", facets=facets)


def move_kinds(rows: Sequence[MoveKind]) -> Table:
    """Moves by kind, protocol and cause."""
    lengths = ("pause, mean", "pause, median", "pause, longest", "completion, median", "replayed tuples")
    cells = [
        (
            row.kind or text.NONE,
            *(text.plain(word) for word in (row.protocol, row.cause)),
            f"{row.moves:,}",
            f"{row.unfinished:,}",
            with_interval(row.pause),
            text.seconds(row.pause_p50_s),
            text.seconds(row.pause_max_s),
            text.seconds(row.completion_p50_s),
            f"{row.replayed:,}",
        )
        for row in rows
    ]
    heads = ("kind", "protocol", "cause", "moves", "not ended", *lengths)
    return cut_table("kinds", "Moves by kind", heads, cells, words=3)


def designs(rows: Sequence[Design]) -> Table:
    """Return the mean times of each design, each with its difference to the first one where there is one."""
    columns, compared = _known(rows, _TIMES), any(row.changes for row in rows)
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
    """What each design moved, sent and cost; None where nothing is known of that."""
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
    """The measures, with their heads, that at least one design has."""
    return {name: head for name, head in heads.items() if any(row.of(name).mean is not None for row in rows)}


def costs(given: Cost) -> Table:
    """What the hosts cost, those of one description together."""
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


def with_interval(value: Interval) -> str:
    """A time with half the width of its interval."""
    if value.mean is None or value.low is None or value.high is None:
        return text.seconds(value.mean)
    return text.together(display.plus_minus(value.mean, (value.high - value.low) / 2, display.duration))


def rate_of_bytes(value: float | None) -> str:
    """Bytes per second with the unit that suits them."""
    return text.together(display.byte_rate(value))


def recoveries(rows: Sequence[Recovery]) -> Table:
    """The phases of each recovery."""
    heads = ("host", "replication", "failed at", *MEANING, "total")
    cells = [
        (
            text.plain(row.host) + (" (suspected)" if row.suspected else ""),
            str(row.replication),
            display.instant(row.failed_s),
            *(
                text.seconds(value)
                for value in (row.detect_s, row.restore_s, row.replay_s, row.catch_up_s, row.total_s)
            ),
        )
        for row in rows
    ]
    return cut_table("recoveries", "The phases of each recovery", heads, cells, words=1)


def replicas(rows: Sequence[ReplicaRow]) -> Table:
    """Each active replica, and what became of it."""
    heads = ("key group", "host", "end", "replication", "in step from", "until", "pause")
    cells = [
        (
            text.plain(row.of),
            text.plain(row.host),
            row.end,
            str(row.replication),
            *(display.instant(at) for at in (row.from_s, row.until_s)),
            "–" if row.pause_s is None else text.seconds(row.pause_s),
        )
        for row in rows
    ]
    return cut_table("replicas", "Active replicas", heads, cells, words=3)


def allocation(rows: Sequence[AllocationRow]) -> Table:
    """What each method of checkpoint allocation reached; the one in use is marked."""
    shares = ("usable", "assisted", "highest node load [cores]")
    heads = ("method", "status", "objective", "bound", "gap", *shares, "recovery, max", "p99 latency")
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
    used = next((position for position, row in enumerate(rows) if row.used), None)
    return cut_table("methods", "Methods of checkpoint allocation", heads, cells, words=2, marked=used)


def reasons(rows: Sequence[Reason]) -> Table:
    """Why the choices fell as they did."""
    # One reason per line: the name that it begins with is then never broken at its hyphen.
    cells = [(text.plain(row.what), text.plain(row.chosen), text.plain(row.why).replace("; ", ";\n")) for row in rows]
    return cut_table("reasons", "Reasons for choices", ("choice", "chosen", "why"), cells, words=3, prose=2)


def guarantee(given: Guarantee) -> Table:
    """Lost and duplicated tuples."""
    cells = [
        ("at the sinks", text.number(given.lost), text.number(given.duplicated)),
        (
            "in state",
            text.number(given.state_lost),
            text.number(given.state_duplicated),
        ),
    ]
    return cut_table("guarantee", "Tuples lost and duplicated", ("where", "lost", "duplicated"), cells, words=1)


def targets(rows: Sequence[TargetRow]) -> Table:
    """What was asked for, and what came out."""
    said = {True: "met", False: "missed", None: "nothing seen"}
    cells = [(text.plain(row.name), text.plain(row.limit), text.plain(row.value), said[row.met]) for row in rows]
    return cut_table("targets", "What was to be reached", ("target", "at most", "reached", "verdict"), cells, words=1)


def placement(hosts: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, list[str]]]:
    """(host, tasks) with names that are safe to show."""
    return [(text.plain(host), [text.plain(task) for task in tasks]) for host, tasks in hosts]


_SHOWN: dict[str, Callable[[float | None], str]] = {
    "assisted_share": text.share,
    "usable_share": text.share,
    "overhead_share": text.share,
    "overhead_bytes_per_s": rate_of_bytes,
}


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
    """The table with as many rows as a page takes; the first `words` columns are no numbers."""
    most = _MOST_FOUND if facet else _MOST
    note = f"The first {most:,} of {len(rows):,} rows." if len(rows) > most else ""
    numbers = tuple(position >= words for position in range(len(heads)))
    kept = tuple(rows[:most])
    return Table(name, title, heads, kept, numbers, marked, note, prose, facet, tuple(facets[:most]))
