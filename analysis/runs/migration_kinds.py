"""Migrations of key groups from their rows, classified as assisted or direct, and grouped.

A migration is assisted if its target held the key group's checkpoint when it was asked for. `migrations` makes the
entries of a summary, `migration_kinds` decides the kind of each, `grouped` counts by kind, protocol and cause.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from analysis.runs.run_summary import Migration
from analysis.statistics import Mean, ratio_mean, seconds
from models.records.tables import NEVER, RunRecords

ASSISTED, DIRECT = "assisted", "direct"
_REMOTE = -1


@dataclass(frozen=True)
class ClassifiedMigration(Migration):
    """A migration with its kind: assisted, direct, or empty where that is not known.

    Assisted: the target held the key group's checkpoint when the move was asked for, so that only newer changes
    travelled (Madsen and Zhou, CIKM 2015). Direct: it did not.
    """

    kind: str = ""


@dataclass(frozen=True)
class MigrationGroup:
    """All migrations of one kind, protocol and cause; `pause` is the mean over them, with its interval.

    Lengths [s] are None where none has one. `unfinished` ones did not end before the run did; `cancelled` ones never
    will, as a crash took a task.
    """

    kind: str
    protocol: str
    cause: str
    count: int
    unfinished: int
    cancelled: int
    pause: Mean
    pause_p50_s: float | None
    pause_max_s: float | None
    completion_p50_s: float | None
    replayed: int


def classified(migrations: Sequence[Migration], records: Sequence[RunRecords]) -> tuple[ClassifiedMigration, ...]:
    """Return the migrations of a summary, each with its kind."""
    kinds = (kind for one in records for kind in migration_kinds(one))
    return tuple(ClassifiedMigration(**vars(one), kind=kind) for one, kind in zip(migrations, kinds, strict=True))


def grouped(migrations: Sequence[ClassifiedMigration]) -> tuple[MigrationGroup, ...]:
    """Return the groups by kind, protocol and cause, the most frequent first."""
    found: dict[tuple[str, str, str], list[ClassifiedMigration]] = {}
    for one in migrations:
        found.setdefault((one.kind, one.protocol, one.cause), []).append(one)
    groups = [_group(who, own) for who, own in found.items()]
    return tuple(sorted(groups, key=lambda one: (-one.count, one.kind, one.protocol, one.cause)))


def _group(who: tuple[str, str, str], own: Sequence[ClassifiedMigration]) -> MigrationGroup:
    """Return the statistics of one group; the interval of the pause is over replications."""
    pauses = [one.pause_s for one in own if one.pause_s is not None]
    completions = [one.completion_s for one in own if one.completion_s is not None]
    each: dict[int, list[float]] = {}
    for one in own:
        if one.pause_s is not None:
            each.setdefault(one.replication, []).append(one.pause_s)
    return MigrationGroup(
        *who,
        count=len(own),
        unfinished=sum(one.completion_s is None and one.cancelled_s is None for one in own),
        cancelled=sum(one.cancelled_s is not None for one in own),
        pause=ratio_mean([sum(part) for part in each.values()], [len(part) for part in each.values()]),
        pause_p50_s=median(pauses) if pauses else None,
        pause_max_s=max(pauses, default=None),
        completion_p50_s=median(completions) if completions else None,
        replayed=sum(one.replayed for one in own),
    )


_Held = Mapping[tuple[int, int], list[tuple[int, int]]]


def migration_kinds(one: RunRecords) -> list[str]:
    """Return ASSISTED or DIRECT for each row of `migrations`, whatever the protocol was.

    A checkpoint is at a host from the instant at which it is stored there; after a move that was completed it is where
    the key group came from; it is lost with its host. Every host can have the one in the remote store. It is the state
    just before the request that counts.
    """
    table = one.tables["migrations"]
    rows = zip(*(table[name].tolist() for name in ("operator", "key_group", "target", "requested_ns")), strict=True)
    held = _held(one)
    failures = [*zip(*(one.tables["failures"][name].tolist() for name in ("host", "failed_ns")), strict=True)]
    found = []
    for operator, group, target, at_ns in rows:
        known = held.get((operator, group), [])
        # -1 sorts before all hosts: an entry of the same instant is not before the request.
        before = bisect_left(known, (at_ns, _REMOTE)) - 1
        since_ns, checkpoint_host = known[before] if before >= 0 else (NEVER, None)
        # A checkpoint in the memory or on the disk of a host that failed since is gone with it.
        lost = any(host == checkpoint_host and since_ns < failed_ns < at_ns for host, failed_ns in failures)
        found.append(ASSISTED if checkpoint_host in (target, _REMOTE) and not lost else DIRECT)
    return found


def _held(one: RunRecords) -> _Held:
    """Return (operator, key group) -> instants [ns], rising, and who holds the checkpoint from then on."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    stored, moved = one.tables["checkpoints"], one.tables["migrations"]
    remote = bool((stored["checkpoint_host"] == _REMOTE).any())
    for names, table in ((("stored_ns", "checkpoint_host"), stored), (("completed_ns", "origin"), moved)):
        if remote and table is moved:
            continue  # the store keeps it
        for operator, group, at_ns, host in zip(
            *(table[name].tolist() for name in ("operator", "key_group", *names)), strict=True
        ):
            # Aborted moves and checkpoints that were never stored change nobody's holder.
            if at_ns != NEVER:
                found.setdefault((operator, group), []).append((at_ns, host))
    return {who: sorted(rows) for who, rows in found.items()}


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
            cancelled_s=None if row["cancelled_ns"] == NEVER else seconds(row["cancelled_ns"]),
        )
        for row in (dict(zip(table, values, strict=True)) for values in rows)
    ]


def _length(begin_ns: int, end_ns: int) -> float | None:
    return None if NEVER in (begin_ns, end_ns) else seconds(end_ns - begin_ns)
