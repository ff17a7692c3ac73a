"""Summarise failures of a run from its rows: phases of each recovery, outages, and active replicas."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from analysis.runs.recovery_summary import PHASES, Outages, Recovery, RecoveryMean, Replica, Replicas
from analysis.runs.visibility import commits
from analysis.statistics import ratio_mean, seconds
from models import display
from models.records.decisions import Action, Verdict, decisions
from models.records.tables import NEVER, THE_JOB, RunRecords
from models.scenario.recovery_methods import Acker
from models.scenario.scenario import Scenario

_Table = Mapping[str, np.ndarray]
_ENDS = ("allocated_ns", "started_ns", "restored_ns", "replayed_ns")  # of phases, as the rows have them


def recoveries(
    records: Sequence[RunRecords],
    visible: Sequence[np.ndarray] | None = None,
    acker: Acker | None = None,
    *,
    ends_others: bool = False,
) -> tuple[Recovery, ...]:
    """Return one entry for each failure of a host, by replication, time and host; an instant that never came is None.

    `detect_s` = detected - failed, `allocate_s` = last allocated - detected, `restart_s` = last started - last
    allocated, `restore_s` = last restored - last started, `replay_s` = last replayed - last restored, `catch_up_s` =
    from then until the last task downstream of the recovered ones has caught up, each at least 0; `total_s` is their
    sum. A phase that ended for some key groups only has not ended. A host that had nothing on it is recovered when its
    failure is detected; but where a failure ends tasks of other hosts, too (`ends_others`), one that dies before these
    have a host is a part of the same outage, and recovered when that is over. `key_groups` counts what was lost with
    the host. `cause` is crash, or suspicion where the host lived and was fenced; checkpoints where the job failed, in
    place of a host; rescale where the job was stopped to get other tasks: then detect_s is the time until all of them
    have ended, with the savepoint; stop where the host was stopped on purpose, and rebalance where it has handed key
    groups over to one that has come. `visible` says when each delivery of a replication was visible, where sinks commit
    at checkpoints; `acker` when roots fail, where there is one.
    """
    shown: Sequence[np.ndarray | None] = [None] * len(records) if visible is None else visible
    return tuple(
        entry
        for one, at in zip(records, shown, strict=True)
        for entry in _of_replication(one, at, acker, ends_others=ends_others)
    )


def recovery_means(
    scenario: Scenario, found: Sequence[Recovery], replications: Sequence[int], kind: str = "failure"
) -> tuple[RecoveryMean, ...]:
    """Return the means of the phases of the recoveries that ended, of their total, and of the first output.

    Without any there are none. The phases sum to the total. `kind`: those that are meant (`Recovery.kind`). A failure
    with which nothing was lost has no recovery: it is of a host that was empty, as while a job is down.
    """
    ended = [one for one in found if one.total_s is not None and one.key_groups and one.kind == kind]
    engine = scenario.engine
    milestones = () if engine is None else engine.milestones if kind == "failure" else engine.rescaling_milestones
    words = {one.phase: one.word for one in milestones}

    def mean(phase: str) -> RecoveryMean:
        runs = [
            [length for one in ended if one.replication == run and (length := one.length_s(phase)) is not None]
            for run in replications
        ]
        found = ratio_mean([math.fsum(run) for run in runs], [len(run) for run in runs])
        return RecoveryMean(phase, found.mean, found.ci95, sum(map(len, runs)), words.get(phase))

    outputs = ("first_output", "first_visible") if commits(scenario) else ("first_output",)
    replayed = () if scenario.fault_tolerance.acking is None or kind != "failure" else ("last_replay",)
    return tuple(mean(phase) for phase in (*PHASES, "total", *outputs, *replayed)) if ended else ()


def _of_replication(
    one: RunRecords, visible: np.ndarray | None, acker: Acker | None, *, ends_others: bool
) -> list[Recovery]:
    failures, rows = one.tables["failures"], one.tables["recoveries"]
    keys = {(int(at), int(host)) for at, host in zip(failures["failed_ns"], failures["host"], strict=True)}
    found = []
    for at, host in sorted(keys):
        own = _rows(failures, at, host)
        before = _before(one, at) if ends_others and not own["lost_partitions"].sum() else None
        found.append(_recovery(one, host, at, own, _rows(rows, at, host), visible, acker, before))
    return found


def _rows(table: _Table, at: int, host: int) -> dict[str, np.ndarray]:
    return _chosen(table, (table["failed_ns"] == at) & (table["host"] == host))


def _chosen(table: _Table, which: np.ndarray) -> dict[str, np.ndarray]:
    return {name: column[which] for name, column in table.items()}


class _Before(NamedTuple):
    """Failures before an instant whose tasks had no host then: when the first was, and when their phases end."""

    failed_ns: int
    ends: list[int | None]


def _before(one: RunRecords, at_ns: int) -> _Before | None:
    """Return what was down at an instant and had no host yet; None where there was nothing."""
    failures, rows, outages = one.tables["failures"], one.tables["recoveries"], one.tables["outages"]
    if not ((outages["from_ns"] <= at_ns) & ((outages["until_ns"] > at_ns) | (outages["until_ns"] == NEVER))).any():
        return None
    earlier = _chosen(failures, (failures["failed_ns"] <= at_ns) & (failures["lost_partitions"] > 0))
    waited = _chosen(rows, (rows["failed_ns"] <= at_ns) & (rows["allocated_ns"] > at_ns))
    instants = waited["failed_ns"] if waited["failed_ns"].size else earlier["failed_ns"][-1:]
    if not instants.size:
        return None
    if waited["failed_ns"].size:
        of = _chosen(earlier, np.isin(earlier["failed_ns"], instants))
        return _Before(int(instants.min()), [*(_last(waited[name]) for name in _ENDS), _last(of["caught_up_ns"])])
    # Tasks that all have a host now may be down until they have their state; what has none never had one again.
    assigned = (rows["failed_ns"] == instants[0]).any()
    return None if assigned else _Before(int(instants[0]), [None] * (len(PHASES) - 1))


def _recovery(
    one: RunRecords,
    host: int,
    failed: int,
    failure: _Table,
    rows: _Table,
    visible: np.ndarray | None,
    acker: Acker | None,
    before: _Before | None,
) -> Recovery:
    groups = len(rows["failed_ns"])
    detected = _last(failure["detected_ns"])
    if groups < failure["lost_partitions"].sum():
        ends = [detected, *[None] * (len(PHASES) - 1)]  # nobody has taken over some of what was lost
    elif before is not None:
        ends = [detected, *before.ends]  # nothing was there any more
    elif not groups:
        ends = [detected] * len(PHASES)  # nothing was lost
    else:
        ends = [detected, *(_last(rows[name]) for name in _ENDS), _last(failure["caught_up_ns"])]
    lengths: list[int | None] = []
    last: int | None = failed
    for end in ends:
        known = last is not None and end is not None
        lengths.append(max(0, end - last) if known else None)  # type: ignore[operator]
        # A phase that ends before the one in front of it has length 0: time does not run backwards.
        last = max(last, end) if known else None  # type: ignore[type-var]
    first_output = (
        _watched_output_s(one, failed, rows["restored_ns"])
        if one.detail == "histograms"
        else _first_output_s(one, failed, rows["restored_ns"], one.tables["deliveries"]["delivered_ns"])
    )
    total = None if None in lengths else sum(length for length in lengths if length is not None)
    by_phase = dict(zip(PHASES, (None if length is None else seconds(length) for length in lengths), strict=True))
    return Recovery(
        one.replication,
        "the job" if host == THE_JOB else one.hosts[host],
        seconds(failed),
        by_phase["detect"],
        by_phase["allocate"],
        by_phase["restart"],
        by_phase["restore"],
        by_phase["replay"],
        by_phase["catch_up"],
        None if total is None else seconds(total),
        cause=_cause(failure["cause"]),
        key_groups=int(failure["lost_partitions"].sum()),
        replayed=int(rows["replayed"].sum()),
        bytes=int(rows["bytes"].sum()),
        first_output_s=first_output,
        first_visible_s=None if visible is None else _first_output_s(one, failed, rows["restored_ns"], visible),
        last_replay_s=None if acker is None else _last_replay_s(one, acker, failed, rows),
        within_s=None if before is None else seconds(before.failed_ns),
        cut_off=_lost_again(one.tables["recoveries"], rows),
    )


def _lost_again(table: _Table, rows: _Table) -> bool:
    """Return whether a key group of these recoveries was lost by a later failure before it had caught up."""
    later = _chosen(table, table["failed_ns"] > rows["failed_ns"].max(initial=0))
    names = ("operator", "key_group")
    lost: dict[tuple[int, ...], int] = {}
    for *group, at in zip(*(later[name].tolist() for name in (*names, "failed_ns")), strict=True):
        lost[tuple(group)] = min(at, lost.get(tuple(group), at))
    own = zip(*(rows[name].tolist() for name in (*names, "caught_up_ns")), strict=True)
    return any(tuple(group) in lost and (end == NEVER or lost[tuple(group)] < end) for *group, end in own)


def _last_replay_s(one: RunRecords, acker: Acker, failed: int, rows: _Table) -> float | None:
    """Return the time from a failure until the last root has failed of which it has lost something [s].

    What is sent to a lost task before it has started is lost; roots whose acks wait for a state may fail until it is
    back. Roots that fail for another reason meanwhile count, too. None where none has failed, and where one may fail
    after the end of the run.
    """
    started, restored = _last(rows["started_ns"]), _last(rows["restored_ns"])
    if started is None or restored is None:
        return None
    until = max(acker.expires_ns(started), restored)
    if until >= one.duration_ns:
        return None
    replays = one.tables["replays"]
    at = replays["at_ns"][(replays["at_ns"] > failed) & (replays["at_ns"] <= until) & (replays["count"] > 0)]
    return seconds(int(at.max()) - failed) if at.size else None


def _first_output_s(one: RunRecords, failed: int, restored: np.ndarray, seen: np.ndarray) -> float | None:
    """Return the time from a failure until the first new output after a restore is seen [s]; None if that is not known.

    `restored`: instants at which what was lost had its state [ns]; `seen`: when each delivery is, or NEVER. Between
    failure and restart tasks that live may go on: what they deliver is no sign that the job is back.
    """
    back = restored[restored != NEVER]
    if not back.size:
        return None
    rows = one.tables["deliveries"]
    new = (rows["created_ns"] >= failed) & (rows["delivered_ns"] >= back.min())
    at = seen[new & (seen != NEVER)]
    return seconds(int(at.min()) - failed) if at.size else None


def _watched_output_s(one: RunRecords, failed: int, restored: np.ndarray) -> float | None:
    """Return `_first_output_s` of a run that has histograms in place of single tuples: the run has watched for it."""
    back = restored[restored != NEVER]
    if not back.size:
        return None
    rows = one.tables["first_outputs"]
    chosen = (rows["born_ns"] == failed) & (rows["since_ns"] == back.min())
    (at,) = rows["at_ns"][chosen].tolist() or (None,)
    return None if at is None else seconds(at - failed)


def _cause(causes: np.ndarray) -> str:
    """Return the cause of failures of one host at one instant: a crash, unless all have the same other one."""
    (cause, *others) = np.unique(causes).tolist()
    return "crash" if others else str(cause)


def _last(instants: np.ndarray) -> int | None:
    """Return the last of the instants [ns]; None when there is none or one never came."""
    if not instants.size or (instants == NEVER).any():
        return None
    return int(instants.max())


START, TOOK_OVER = "start", "took over"


def replicas(records: Sequence[RunRecords]) -> Replicas | None:
    """Return counts, pauses and one entry for each replica; None where nothing has one.

    `pause_s` of a replica that took over: from the failure of its owner's host until it answered in its place.
    `protected_share` is the part of the time of all key groups and tasks that have a replica at the start in which one
    was in step and neither of the two hosts was dead.
    """
    rows = [row for one in records for row in _outage_rows(one)]
    if not rows:
        return None
    pauses = [row.pause_s for row in rows if row.pause_s is not None]
    whole = sum(one.duration_ns * int((one.tables["replicas"]["why"] == START).sum()) for one in records)
    return Replicas(
        groups=sum(row.why == START for row in rows) // len(records),
        took_over=sum(row.end == TOOK_OVER for row in rows),
        lost=sum(row.end == "lost" for row in rows),
        renewed=sum(row.why != START and row.from_s is not None for row in rows),
        pause_mean_s=sum(pauses) / len(pauses) if pauses else None,
        pause_max_s=max(pauses, default=None),
        protected_share=sum(map(_in_step_ns, records)) / whole if whole else None,
        each=tuple(rows),
    )


def _outage_rows(one: RunRecords) -> list[Replica]:
    table = one.tables["replicas"]
    found = zip(*(table[name].tolist() for name in table), strict=True)
    return [
        Replica(
            replication=one.replication,
            operator=one.operators[row["operator"]],
            key_group=row["key_group"],
            host=one.hosts[row["host"]],
            why=row["why"],
            requested_s=seconds(row["requested_ns"]),
            from_s=_instant(row["from_ns"]),
            until_s=_instant(row["until_ns"]),
            end=row["end"] or None,
            pause_s=_pause_s(row),
            replayed=row["replayed"],
            bytes=row["bytes"],
        )
        for row in (dict(zip(table, values, strict=True)) for values in found)
    ]


def _instant(at_ns: int) -> float | None:
    return None if at_ns == NEVER else seconds(at_ns)


def _pause_s(row: dict[str, Any]) -> float | None:
    return (
        seconds(row["until_ns"] - row["failed_ns"]) if row["end"] == TOOK_OVER and row["failed_ns"] != NEVER else None
    )


def _in_step_ns(one: RunRecords) -> int:
    """Time [ns] in which replicas were in step, of all together, each until the first of the two hosts died.

    When that was the tables of failures and outages say, also of what nobody had detected before the end.
    """
    table, total = one.tables["replicas"], 0
    died, gone = one.tables["failures"], one.tables["outages"]
    names = ("operator", "key_group", "host", "from_ns", "until_ns")
    for operator, group, host, begin, until in zip(*(table[name].tolist() for name in names), strict=True):
        if begin == NEVER:
            continue
        own = gone["from_ns"][(gone["operator"] == operator) & (gone["key_group"] == group)]
        ends = np.concatenate((died["failed_ns"][died["host"] == host], own))
        last = one.duration_ns if until == NEVER else until
        total += max(0, int(ends[ends >= begin].min(initial=last)) - begin)
    return total


def broken(records: Sequence[RunRecords]) -> Outages | None:
    """Return for how long some key group or task had no live owner; None where no host failed.

    From the failure of a host until what was on it is restored, or taken over, by somebody who lives: that something
    is broken is not detected at once. Times in which several are broken count once. `share` is of the whole time of all
    replications.
    """
    if not any(len(one.tables["failures"]["host"]) for one in records):
        return None
    intervals = [_intervals(one) for one in records]
    total_ns = sum(end - begin for own in intervals for begin, end in own)
    return Outages(
        times=sum(map(len, intervals)),
        total_s=seconds(total_ns),
        longest_s=seconds(max((end - begin for own in intervals for begin, end in own), default=0)),
        share=total_ns / sum(one.duration_ns for one in records),
    )


def still_down(records: Sequence[RunRecords]) -> str:
    """Return what is down at the end of the first run in which control has given something up, or waits, and why.

    Empty where there is none.
    """
    for one in records:
        found = [
            (at, row)
            for at, row in decisions(one.tables["decisions"])
            if row.action in (Action.RESTORE, Action.RESTART)
        ]
        if not found or found[-1][1].verdict != Verdict.REFUSED or (one.tables["outages"]["until_ns"] != NEVER).all():
            continue
        last, reason = found[-1][0], found[-1][1].reason
        subjects = list(dict.fromkeys(row.subject for at, row in found if (at, row.reason) == (last, reason)))
        others = f" and {display.count(len(subjects) - 1, 'other')}" if len(subjects) > 1 else ""
        which = f"run {one.replication}" if len(records) > 1 else "the run"
        since = min(begin for begin, end in _intervals(one) if end == one.duration_ns)  # not when control last tried
        return f"Down at the end of {which}: {subjects[0]}{others}, since {display.instant(seconds(since))}: {reason}."
    return ""


def _intervals(one: RunRecords) -> list[tuple[int, int]]:
    """Return when something was broken, as disjoint intervals [ns], rising."""
    table = one.tables["outages"]
    intervals = sorted(
        (begin, one.duration_ns if end == NEVER else end)
        for begin, end in zip(table["from_ns"].tolist(), table["until_ns"].tolist(), strict=True)
    )
    joined: list[tuple[int, int]] = []
    for begin, end in intervals:
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return [interval for interval in joined if interval[0] < interval[1]]
