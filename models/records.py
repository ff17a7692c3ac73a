"""What the simulator emits: rows with units, no statistic. The schema of every table stands here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

NEVER = -1  # an instant that did not come before the end of the run


@dataclass(frozen=True)
class Column:
    """One column: numpy dtype, unit ("" for plain numbers and text) and meaning."""

    name: str
    dtype: str
    unit: str
    meaning: str


def _time(name: str, meaning: str) -> Column:
    return Column(name, "int64", "ns", meaning)


def _index(name: str, meaning: str) -> Column:
    return Column(name, "int32", "", meaning)


_OPERATOR = _index("operator", "index into `operators`")
_TASK = _index("task", "index into `tasks`")
_HOST = _index("host", "index into `hosts`")
_GROUP = _index("key_group", "key group, or task index where the operator is not keyed")

TABLES: dict[str, tuple[Column, ...]] = {
    "visits": (
        _OPERATOR,
        _TASK,
        _time("arrival_ns", "entered the queue of the task"),
        _time("start_ns", "service began"),
        _time("end_ns", "service ended, -1 if it had not at the end of the run"),
    ),
    "waiting": (
        _OPERATOR,
        _TASK,
        _time("arrival_ns", "entered the queue, or was held back, and was still there at the end of the run"),
    ),
    "deliveries": (
        _OPERATOR,
        _time("birth_ns", "the source tuple was born"),
        _time("delivered_ns", "accepted by the sink"),
    ),
    "dropped": (
        _OPERATOR,
        _TASK,
        _time("arrival_ns", "entered the queue of the task, -1 if it never did"),
        _time("start_ns", "service began, -1 if it never did"),
        _time("at_ns", "when it was dropped"),
        Column("reason", "str", "", "crash (queue, service or wire of a dead host) | duplicate"),
    ),
    "samples": (
        _time("at_ns", "when it was looked at, before the events of that instant"),
        _TASK,
        _HOST,
        Column("queue", "int64", "tuples", "in the queue or held back, without those in service"),
        Column(
            "busy_ns",
            "int64",
            "ns",
            "completed work on tuples, snapshots and installs so far",
        ),
        Column("buffered", "int64", "tuples", "kept in the output buffers for replay"),
    ),
    "lag": (
        _time("at_ns", "when it was looked at"),
        _OPERATOR,
        Column("lag", "int64", "tuples", "born at the source and not yet emitted"),
    ),
    "checkpoints": (
        _OPERATOR,
        _GROUP,
        Column("owner", "int32", "", "host index of the owner"),
        Column("holder", "int32", "", "host index of the holder, -1 for the remote store"),
        _time("taken_ns", "snapshot"),
        _time("stored_ns", "stored at the holder, -1 if it never was"),
        Column("bytes", "int64", "B", "sent to the holder"),
        Column("full", "bool", "", "full, or what changed since the one before"),
    ),
    "failures": (
        _HOST,
        _time("failed_ns", "the host died"),
        _time("detected_ns", "the detector noticed, -1 if not"),
        _time("repaired_ns", "the host was back, -1 if not"),
        Column("lost_units", "int64", "", "key groups and tasks that were on it"),
        _time("caught_up_ns", "every task from the recovered ones down to the sinks has settled, -1 if not"),
    ),
    "recoveries": (
        _HOST,
        _OPERATOR,
        _GROUP,
        Column("target", "int32", "", "index into `hosts`: where the group resumed"),
        _time("failed_ns", "the host died"),
        _time("detected_ns", "the failure was noticed and recovery began"),
        _time("restored_ns", "state installed"),
        _time("replayed_ns", "last replayed tuple processed or recognised as a duplicate"),
        _time("caught_up_ns", "its task settled: nothing to do, and nothing of the outage on its way to it"),
        Column("replayed", "int64", "tuples", "sent again by upstream tasks"),
        Column("bytes", "int64", "B", "restored state and replayed tuples"),
    ),
    "messages": (
        _time("second_ns", "begin of the second in which it was sent"),
        Column(
            "kind", "str", "", "data (between hosts) | local (inside a host) | checkpoint | trim | restore | replay"
        ),
        Column("count", "int64", "", "messages"),
        Column("bytes", "int64", "B", "bytes"),
    ),
    "decisions": (
        _time("at_ns", "when it was taken"),
        Column("what", "str", "", "the decision"),
        Column("why", "str", "", "its reason"),
    ),
    "ledger": (
        _OPERATOR,
        Column("expected", "int64", "tuples", "inputs that follow from the source tuples"),
        Column("lost", "int64", "tuples", "expected and not in the final state, or not delivered"),
        Column("duplicated", "int64", "tuples", "in the final state, or delivered, more than once"),
    ),
}


@dataclass(frozen=True)
class RunRecords:
    """All rows of one replication; columns are numpy arrays of equal length, read-only.

    `operators`, `tasks` and `hosts` are the names that indices refer to; `tasks` grows when recovery starts a task
    on a host that had none; `task_operator` (n_tasks,) gives each task's operator.
    """

    replication: int
    warmup_ns: int
    duration_ns: int
    operators: tuple[str, ...]
    tasks: tuple[str, ...]
    task_operator: tuple[int, ...]
    hosts: tuple[str, ...]
    servers: tuple[int, ...]  # per operator: threads of all its tasks at the start
    tables: Mapping[str, Mapping[str, np.ndarray]]


def table(name: str, rows: list[tuple[object, ...]] | Mapping[str, object]) -> dict[str, np.ndarray]:
    """The rows as read-only columns of the table's schema; raises KeyError for a table that is not in TABLES."""
    columns = TABLES[name]
    if isinstance(rows, Mapping):
        given = [rows[column.name] for column in columns]
    else:
        given = [list(values) for values in zip(*rows, strict=True)] or [[] for _ in columns]
    made = {}
    for column, values in zip(columns, given, strict=True):
        array = np.asarray(values, dtype=np.str_ if column.dtype == "str" else column.dtype)
        array.setflags(write=False)
        made[column.name] = array
    return made
