"""Tables of the report: cells as text, numbers aligned; long ones are cut and say so."""

from __future__ import annotations

from collections.abc import Sequence
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
    TargetRow,
)

MEANING = {
    "detection": "from the failure until the detector notices it",
    "restoring": "until the state of the last key group is installed at its new task",
    "replay": "until the last replayed tuple is processed or recognised as a duplicate",
    "catching up": "until every task, from those that took over down to the sinks, has come to rest in turn",
}
MOVING = {
    "pause": "for how long the key group was not processed, or not answered for: the latency of the protocol",
    "completion": "from the request until the new owner goes on and the old one holds the checkpoint",
    "worst": "longest time from the arrival of a tuple of the group until it was answered, until one did not wait",
}
_MOST = 60


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
    return _table("operators", "What each operator did", (*heads, "queue, mean", "utilisation"), cells, words=1)


def migrations(rows: Sequence[Migration]) -> Table:
    """What each move of a key group took."""
    heads = ("key group", "protocol", "from", "to", "cause", "replication", "asked for at", *MOVING, "replayed tuples")
    cells = [
        (
            *(text.plain(word) for word in (row.key_group, row.protocol, row.origin, row.target, row.cause)),
            str(row.replication),
            f"{text.number(row.requested_s, 6)} s",
            text.seconds(row.pause_s),
            text.seconds(row.completion_s),
            text.seconds(row.worst_s),
            f"{row.replayed:,}",
        )
        for row in rows
    ]
    return _table("migrations", "What each move took", heads, cells, words=5)


def decisions(rows: Sequence[Decision]) -> Table:
    """What control decided about moves and hosts, and why."""
    cells = [
        (text.plain(row.what), text.plain(row.why), str(row.replication), f"{text.number(row.at_s, 6)} s")
        for row in rows
    ]
    heads = ("decision", "reason", "replication", "at")
    return _table("decisions", "What was decided, and why", heads, cells, words=2, prose=1)


def recoveries(rows: Sequence[Recovery]) -> Table:
    """The phases of each recovery."""
    heads = ("host", "replication", "failed at", *MEANING, "total")
    cells = [
        (
            text.plain(row.host) + (" (suspected)" if row.suspected else ""),
            str(row.replication),
            f"{text.number(row.failed_s, 6)} s",
            *(
                text.seconds(value)
                for value in (row.detect_s, row.restore_s, row.replay_s, row.catch_up_s, row.total_s)
            ),
        )
        for row in rows
    ]
    return _table("recoveries", "The phases of each recovery", heads, cells, words=1)


def allocation(rows: Sequence[AllocationRow]) -> Table:
    """What each method of checkpoint allocation reached; the one in use is marked."""
    shares = ("useable", "assisted", "highest node load [cores]")
    heads = ("method", "status", "objective", "bound", "gap", *shares, "recovery", "p99 latency")
    cells = [
        (
            text.plain(row.method) + (" (used)" if row.used else ""),
            text.plain(row.status),
            text.number(row.objective, 5),
            text.number(row.bound, 5),
            text.share(row.gap),
            text.share(row.useable),
            text.share(row.assisted),
            text.number(row.max_node_load),
            text.seconds(row.recovery_s),
            text.seconds(row.latency_p99_s),
        )
        for row in rows
    ]
    used = next((position for position, row in enumerate(rows) if row.used), None)
    return _table("methods", "Methods of checkpoint allocation", heads, cells, words=2, marked=used)


def reasons(rows: Sequence[Reason]) -> Table:
    """Why the choices fell as they did."""
    # One reason per line: the name that it begins with is then never broken at its hyphen.
    cells = [(text.plain(row.what), text.plain(row.chosen), text.plain(row.why).replace("; ", ";\n")) for row in rows]
    return _table("reasons", "Reasons for choices", ("choice", "chosen", "why"), cells, words=3, prose=2)


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
    return _table("guarantee", "Tuples lost and duplicated", ("where", "lost", "duplicated"), cells, words=1)


def targets(rows: Sequence[TargetRow]) -> Table:
    """What was asked for, and what came out."""
    said = {True: "met", False: "missed", None: "nothing seen"}
    cells = [(text.plain(row.name), text.plain(row.limit), text.plain(row.value), said[row.met]) for row in rows]
    return _table("targets", "What was to be reached", ("target", "at most", "reached", "verdict"), cells, words=1)


def placement(hosts: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, list[str]]]:
    """(host, tasks) with names that are safe to show."""
    return [(text.plain(host), [text.plain(task) for task in tasks]) for host, tasks in hosts]


def _table(
    name: str,
    title: str,
    heads: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    *,
    words: int,
    marked: int | None = None,
    prose: int | None = None,
) -> Table:
    note = f"The first {_MOST} of {len(rows)} rows." if len(rows) > _MOST else ""
    numbers = tuple(position >= words for position in range(len(heads)))
    return Table(name, title, heads, tuple(rows[:_MOST]), numbers, marked, note, prose)
