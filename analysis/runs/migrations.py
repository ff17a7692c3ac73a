"""Migrations of key groups, from their rows."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.runs.run_summary import Migration
from analysis.statistics import seconds
from models.records.tables import NEVER, RunRecords


def migrations(records: Sequence[RunRecords]) -> tuple[Migration, ...]:
    """Return one entry for each migration that began, in the order of replications and beginnings.

    `requested_s` is an instant, `pause_s` and `completion_s` are lengths, None where the end never came. The pause is
    the protocol's latency: for how long the key group was not processed, or not answered for. Completion goes from the
    request until the new owner goes on and the old one holds the checkpoint. `worst_s` is the longest time from the
    arrival of a tuple of the group until it was answered: on a task with one queue that is more than the pause.
    """
    return tuple(entry for one in records for entry in _of_replication(one))


def _of_replication(one: RunRecords) -> list[Migration]:
    table = one.tables["migrations"]
    rows = zip(*(table[name].tolist() for name in table), strict=True)
    return [
        Migration(
            replication=one.replication,
            protocol=row["protocol"],
            operator=one.operators[row["operator"]],
            key_group=row["key_group"],
            origin=one.hosts[row["origin"]],
            target=one.hosts[row["target"]],
            requested_s=seconds(row["requested_ns"]),
            pause_s=_length(row["paused_ns"], row["resumed_ns"]),
            completion_s=_length(row["requested_ns"], row["completed_ns"]),
            worst_s=None if row["worst_ns"] == NEVER else seconds(row["worst_ns"]),
            replayed=row["replayed"],
            bytes=row["bytes"],
            cause=row["cause"],
        )
        for row in (dict(zip(table, values, strict=True)) for values in rows)
    ]


def _length(begin_ns: int, end_ns: int) -> float | None:
    return None if NEVER in (begin_ns, end_ns) else seconds(end_ns - begin_ns)
