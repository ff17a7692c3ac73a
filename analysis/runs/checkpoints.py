"""Counts of late and skipped checkpoints, and what they cost, from the rows of a run.

The checkpoint of a key group or task is due at every multiple of the interval (later by its share of it where they are
staggered). It is skipped while the one before is under way: a partition has at most one at a time. It is late if it was
completed after the next one was due. All counts are of the whole run; a checkpoint that was never completed was lost
with a host or in a move, or was under way at the end of the run.

Where barriers take checkpoints of the whole job, a snapshot counts as completed when the checkpoint of the job is. None
of them is due at a given instant, nor is one with which a micro-batch ends, so none is late or skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.runs.checkpoint_summary import (
    Checkpoints,
    HostCheckpoints,
    HostDelay,
    JobCheckpoints,
    MeanAndMax,
    OperatorCheckpoints,
    UploadDelay,
)
from analysis.runs.recovery_summary import PLANNED
from analysis.runs.timelines import Series
from analysis.statistics import NS_PER_S, seconds
from models.records.tables import NEVER, THE_JOB, RunRecords
from models.scenario.fault_tolerance import FaultTolerance
from models.scenario.scenario import Scenario
from models.steady_state.checkpoint_traffic import due_every_ns, due_offsets_ns

Rows = dict[str, np.ndarray]


def checkpoints(scenario: Scenario, records: Sequence[RunRecords]) -> Checkpoints | None:
    """Return counts, the longest time without a completed checkpoint, ages at failures and delays; None without any.

    `longest_between_s` is the longest time between two completed checkpoints of one partition, where begin and end of
    the run count as completed. `age_at_failure_s` is how old the newest completed checkpoint of each recovered
    partition was when its host died, or how long the run had lasted if there was none: what was processed since is
    replayed. `upload_s` is the time from a snapshot until it is stored.
    """
    tolerance = scenario.fault_tolerance
    if not tolerance.takes_checkpoints:
        return None
    kept = [_kept_up(scenario, one) for one in records]
    uploads = np.concatenate([one.upload_ns for one in kept]) if kept else np.zeros(0, np.int64)
    ages = [age for one in records for age in _ages_ns(scenario, one)]
    longest = [one.longest_ns for one in kept if one.longest_ns is not None]
    saved = [name for name, operator in scenario.operators.items() if tolerance.saves(operator)]
    return Checkpoints(
        interval_s=tolerance.interval_s,
        **_counts([one.rows for one in kept]),
        longest_between_s=seconds(max(longest)) if longest else None,
        upload_s=_mean_and_max(uploads.tolist()),
        age_at_failure_s=_mean_and_max(ages),
        operators={name: _of_operator(name, records, kept) for name in saved},
        hosts=_by_host(records, kept),
        delayed=upload_delays(records),
        job=_of_job(records) if tolerance.job_checkpoints else None,
        taken=_taken(tolerance),
    )


def _taken(tolerance: FaultTolerance) -> str:
    """Return when checkpoints are taken, or as what: `barriers`, `batches`, `commits` of changelogs, or `interval`."""
    if tolerance.job_checkpoints:
        return "barriers"
    return "batches" if tolerance.batches else "commits" if tolerance.changelogs else "interval"


def _of_job(records: Sequence[RunRecords]) -> JobCheckpoints:
    """Return counts, times and sizes of the checkpoints of the job over all replications."""
    outcomes: Counter[str] = Counter()
    durations, barriers, sizes, in_flight, longest, failed = [], [], [], [], 0, 0
    for one in records:
        table = one.tables["job_checkpoints"]
        outcomes.update(table["outcome"].tolist())
        done = table["completed_ns"] != NEVER
        began, ended = table["triggered_ns"][done], table["completed_ns"][done]
        durations += (ended - began).tolist()
        barriers += (table["aligned_ns"][done] - began).tolist()
        sizes += table["bytes"][done].tolist()
        failed += int((one.tables["failures"]["host"] == THE_JOB).sum())
        in_flight += table["in_flight_bytes"][done].tolist()
        longest = max(longest, int(np.diff(np.concatenate(([0], ended, [one.duration_ns]))).max()))
    return JobCheckpoints(
        begun=outcomes.total(),
        completed=outcomes["completed"],
        aborted=outcomes["aborted"],
        expired=outcomes["expired"],
        subsumed=outcomes["subsumed"],
        duration_s=_mean_and_max(durations),
        barriers_s=_mean_and_max(barriers),
        bytes=_sizes(sizes),
        in_flight_bytes=_sizes(in_flight),
        longest_between_s=seconds(longest),
        failed_job=failed,
    )


def _sizes(sizes: Sequence[int]) -> MeanAndMax:
    return MeanAndMax(sum(sizes) / len(sizes) if sizes else None, max(sizes, default=None))


def _completed_ns(scenario: Scenario, one: RunRecords) -> np.ndarray:
    """Return when each checkpoint was completed, or NEVER [ns], (n_checkpoints,)."""
    table = one.tables["checkpoints"]
    if not scenario.fault_tolerance.job_checkpoints:
        return np.asarray(table["stored_ns"])
    job = one.tables["job_checkpoints"]
    return np.where(table["stored_ns"] != NEVER, job["completed_ns"][table["job"]], NEVER)


@dataclass(frozen=True)
class _KeptUp:
    """The checkpoints of a replication: columns of rows, and times of those that were completed."""

    rows: Rows  # operator, owner, completed, late, skipped
    upload_ns: np.ndarray
    longest_ns: int | None
    longest_by_operator: dict[int, int]


def _kept_up(scenario: Scenario, one: RunRecords) -> _KeptUp:
    """Return the rows of the checkpoints of a replication with late and skipped ones marked."""
    table = one.tables["checkpoints"]
    completed, stored = _completed_ns(scenario, one) != NEVER, table["stored_ns"] != NEVER
    together = scenario.fault_tolerance.completes_checkpoints
    skipped = np.zeros(completed.shape, np.int64) if together else _skipped(scenario, one)
    rows = {
        "operator": table["operator"],
        "owner": table["owner"],
        "completed": completed,
        "late": completed & (skipped > 0),
        "skipped": skipped,
    }
    longest = _longest_between(scenario, one)
    upload_ns = (table["stored_ns"] - table["taken_ns"])[stored]
    return _KeptUp(rows, upload_ns, max(longest.values(), default=None), longest)


def _skipped(scenario: Scenario, one: RunRecords) -> np.ndarray:
    """Return how many checkpoints were due and not begun while each was under way, (n_checkpoints,)."""
    table, every = one.tables["checkpoints"], due_every_ns(scenario)
    offset = _offsets(scenario, one)
    taken, end = table["taken_ns"], _under_way_until(one)
    before, until = ((instant - offset) // every for instant in (taken, end))
    return np.asarray(np.maximum(until, 0) - np.maximum(before, 0))


def _offsets(scenario: Scenario, one: RunRecords) -> np.ndarray:
    """Return how long after each multiple of the interval the partition of each checkpoint is due [ns]."""
    table, described = one.tables["checkpoints"], [scenario.operators[name] for name in one.operators]
    tolerance = scenario.fault_tolerance
    groups = np.array([operator.groups if tolerance.due(operator) else 0 for operator in described], np.int64)
    first = np.cumsum(groups) - groups
    due = np.array(due_offsets_ns(scenario, int(groups.sum())), np.int64)
    return np.asarray(due[first[table["operator"]] + table["key_group"]])


def _under_way_until(one: RunRecords) -> np.ndarray:
    """Return the last instant [ns] at which each checkpoint was under way.

    One that was not completed ended with its owner, or before the next one of its partition, or goes on at the end.
    """
    table, failures = one.tables["checkpoints"], one.tables["failures"]
    taken, stored = table["taken_ns"], table["stored_ns"]
    # By partition, then time: the next row of the same partition is its next checkpoint.
    order = np.lexsort((taken, table["key_group"], table["operator"]))
    following = np.full(taken.shape, one.duration_ns, np.int64)
    same = _same_partition(table, order)
    following[order[:-1][same]] = taken[order[1:][same]]
    # A partition has one checkpoint at a time: one that was lost had ended when the next began.
    end = np.where(stored == NEVER, following - 1, stored)
    for host, failed in zip(failures["host"].tolist(), failures["failed_ns"].tolist(), strict=True):
        cut = (stored == NEVER) & (table["owner"] == host) & (taken <= failed) & (failed < end)
        end[cut] = failed
    return end


def _same_partition(table: Any, order: np.ndarray) -> np.ndarray:
    """Return whether each row in that order is followed by one of the same partition, (n - 1,)."""
    operator, group = table["operator"][order], table["key_group"][order]
    return np.asarray((operator[1:] == operator[:-1]) & (group[1:] == group[:-1]))


def _longest_between(scenario: Scenario, one: RunRecords) -> dict[int, int]:
    """Return the longest time [ns] without a completed checkpoint of a partition, by saved operator."""
    table, found = one.tables["checkpoints"], {}
    completed_ns = _completed_ns(scenario, one)
    for index, name in enumerate(one.operators):
        operator = scenario.operators[name]
        if not scenario.fault_tolerance.saves(operator):
            continue
        own = (table["operator"] == index) & (completed_ns != NEVER)
        partitions = np.arange(operator.groups)
        partition = np.concatenate((partitions, table["key_group"][own], partitions))
        # Begin and end of the run for each partition: one without any checkpoint has a gap as long as the run.
        at_ns = np.concatenate((0 * partitions, completed_ns[own], 0 * partitions + one.duration_ns))
        order = np.lexsort((at_ns, partition))
        same = partition[order[1:]] == partition[order[:-1]]
        found[index] = int(np.diff(at_ns[order])[same].max())
    return found


def _counts(rows: Sequence[Rows]) -> dict[str, int]:
    """Return how many checkpoints were begun, completed, late and skipped."""
    sums = {name: sum(int(own[name].sum()) for own in rows) for name in ("completed", "late", "skipped")}
    return {"begun": sum(own["completed"].size for own in rows), **sums}


def _of_operator(name: str, records: Sequence[RunRecords], kept: Sequence[_KeptUp]) -> OperatorCheckpoints:
    """Return the counts of one operator over all replications."""
    found = [(one.operators.index(name), own) for one, own in zip(records, kept, strict=True)]
    longest = [own.longest_by_operator[index] for index, own in found]
    counts = _counts([_chosen(own.rows, own.rows["operator"] == index) for index, own in found])
    return OperatorCheckpoints(**counts, longest_between_s=seconds(max(longest)) if longest else None)


def _by_host(records: Sequence[RunRecords], kept: Sequence[_KeptUp]) -> tuple[HostCheckpoints, ...]:
    """Return counts of each host that sent checkpoints."""
    names = records[0].hosts if records else ()
    found = []
    for host, name in enumerate(names):
        counts = _counts([_chosen(own.rows, own.rows["owner"] == host) for own in kept])
        if counts["begun"]:
            found.append(HostCheckpoints(name, **counts))
    return tuple(found)


def _chosen(rows: Rows, which: np.ndarray) -> Rows:
    return {name: column[which] for name, column in rows.items()}


def _ages_ns(scenario: Scenario, one: RunRecords) -> list[int]:
    """Return how old [ns] the newest completed checkpoint of each recovered partition was when its host died.

    State that a move left with its origin is a checkpoint, too, of the instant at which the group was paused; with a
    remote store it leaves none. A job that is stopped to be rescaled has not failed.
    """
    recovered, failures = one.tables["recoveries"], one.tables["failures"]
    # In the order of being stored: the last one before the detection is what the recovery found.
    table = {**one.tables["checkpoints"], "stored_ns": _completed_ns(scenario, one)}
    saves = [*_saves(table, "taken_ns", "stored_ns", "checkpoint_host")]
    if scenario.fault_tolerance.store == "nodes":
        saves += _saves(one.tables["migrations"], "paused_ns", "completed_ns", "origin")
    by_partition: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for partition, *save in sorted(saves):
        by_partition.setdefault(partition, []).append((save[0], save[1], save[2]))
    died: dict[int, list[int]] = {}
    for host, failed in zip(failures["host"].tolist(), failures["failed_ns"].tolist(), strict=True):
        if host != THE_JOB:
            died.setdefault(host, []).append(failed)
    on_purpose = np.isin(failures["cause"], [*PLANNED])
    stops = {*zip(failures["host"][on_purpose].tolist(), failures["failed_ns"][on_purpose].tolist(), strict=True)}
    columns = (recovered[name].tolist() for name in ("operator", "key_group", "host", "failed_ns", "detected_ns"))
    ages = []
    tolerance = scenario.fault_tolerance
    for operator, group, host, failed, detected in zip(*columns, strict=True):
        described = scenario.operators[one.operators[operator]]
        goes_back = tolerance.rolls_back or tolerance.batches is not None
        outside = goes_back and described.kind in ("source", "sink")  # goes on from what it was told last
        planned = (host, failed) in stops
        if planned or outside or (tolerance.trims_by_acks and not tolerance.saves(described)):
            continue  # without a state there is nothing to be old
        known = [save for save in by_partition.get((operator, group), ()) if save[0] <= detected]
        stored, taken, checkpoint_host = known[-1] if known else (0, 0, -1)
        # The holder died as well: the partition starts from nothing, as old as the run.
        lost = any(stored <= at <= detected for at in died.get(checkpoint_host, ()))
        ages.append(failed - (0 if lost else taken))
    return ages


def _saves(table: Any, taken: str, stored: str, checkpoint_host: str) -> list[tuple[tuple[int, int], int, int, int]]:
    """Return (partition, stored [ns], taken [ns], checkpoint host) of what came to be stored."""
    done = table[stored] != NEVER
    columns = [table[name][done].tolist() for name in ("operator", "key_group", stored, taken, checkpoint_host)]
    return [((operator, group), *rest) for operator, group, *rest in zip(*columns, strict=True)]


def upload_delays(records: Sequence[RunRecords]) -> UploadDelay | None:
    """Return how many records left a link later because of checkpoints, and by how much; None if none did.

    `carried` counts all records that left these links; means are over those that were delayed.
    """
    totals: dict[str, np.ndarray] = {}
    for one in records:
        table = one.tables["links"]
        # Columns are running totals: the last sample has those of the whole run.
        last = table["at_ns"] == one.duration_ns
        columns = (table[name][last].tolist() for name in ("host", "carried", "delayed", "delay_ns", "longest_ns"))
        for host, *numbers in zip(*columns, strict=True):
            known = totals.setdefault(one.hosts[host], np.zeros(4, np.int64))
            known[:3] += numbers[:3]
            known[3] = max(known[3], numbers[3])
    if not totals:
        return None
    carried, delayed, delay_ns, longest_ns = np.array([*totals.values()]).T
    whole = np.array([carried.sum(), delayed.sum(), delay_ns.sum(), longest_ns.max()])
    hosts = tuple(HostDelay(host, *_delay(one)) for host, one in totals.items())
    return UploadDelay(*_delay(whole), hosts=hosts)


def _delay(numbers: np.ndarray) -> tuple[int, int, float, float]:
    """Return carried and delayed records, and mean and longest delay [s]."""
    carried, delayed, delay_ns, longest_ns = numbers.tolist()
    return carried, delayed, delay_ns / delayed / NS_PER_S, seconds(longest_ns)


def _mean_and_max(times_ns: Sequence[int]) -> MeanAndMax:
    """Return mean and greatest of times [ns] in seconds; None without any."""
    if not times_ns:
        return MeanAndMax(None, None)
    return MeanAndMax(sum(times_ns) / len(times_ns) / NS_PER_S, seconds(max(times_ns)))


def delay_series(one: RunRecords, interval_ns: int, most: int) -> Series:
    """Return the mean delay [s] of the records that uploads delayed in each interval, of the hosts with most delay.

    An interval in which none was delayed has the value 0; `most` is the greatest number of hosts.
    """
    table = one.tables["links"]
    hosts, place = np.unique(table["host"], return_inverse=True)
    intervals = -(-one.duration_ns // interval_ns)
    column = np.minimum((table["at_ns"] - 1) // interval_ns, intervals - 1)
    totals = np.zeros((2, hosts.size, intervals), np.int64)
    for total, name in zip(totals, ("delayed", "delay_ns"), strict=True):
        np.maximum.at(total, (place, column), table[name])
    # Totals never fall: an interval without a sample keeps the total of the one before.
    delayed, delay_ns = np.diff(np.maximum.accumulate(totals, axis=2), prepend=0, axis=2)
    means = delay_ns / np.maximum(delayed, 1) / NS_PER_S
    chosen = np.sort(np.argsort(-delay_ns.sum(axis=1), kind="stable")[:most])
    names = tuple(one.hosts[host] for host in hosts[chosen].tolist())
    return Series(names, np.arange(intervals) * interval_ns, means[chosen])
