"""Exactly once, or what the guarantee says, on random small jobs with crashes at random and at ugly instants.

Oracles: the same scenario without crashes (differential), the tables of checkpoints and failures (was a loss of
state legitimate?), and the rest of the same run (what the audit calls lost must never come any more).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from decided import said_in_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_jobs import (
    NS,
    Run,
    applied,
    drain,
    in_progress,
    paths,
    random_job,
    state_losses,
    storm,
    without_crashes,
)

from models.records.tables import NEVER
from sim.engine import records
from sim.operator_plan import Edge
from sim.plain.audit import accounts
from sim.plain.checkpoint import CheckpointCoordinator
from sim.plain.partition import Partition
from sim.plain.plane import PlainPlane
from sim.plain.task import Task
from sim.plane_values import REMOTE

GUARANTEES = ("exactly-once", "at-least-once", "at-most-once", "none")


def check(draw: Random, guarantee: str, job: Callable[..., dict[str, Any]] = random_job) -> bool:
    """One random job with crashes: everything that must hold for it; False where overload hid the end of it."""
    method = {"method": "none"} if guarantee == "none" else {"guarantee": guarantee}
    raw = job(draw, fault_tolerance=method)
    return check_job(raw, guarantee, tuple(draw.randint(1, 90) * NS // 10 for _ in range(2)))


def check_job(raw: dict[str, Any], guarantee: str, cuts: tuple[int, ...] = ()) -> bool:
    """The same for a given job."""
    run = drain(raw, cuts)
    plane = run.plane
    conserved(run)
    trimmed_rows_are_covered(plane)
    every_partition_has_one_owner(run)
    losses_are_legitimate(run)
    clean = drain(without_crashes(raw), least_s=14)  # as long as the other: a tuple may be on a link at the very end
    if not (run.drained and clean.drained):
        return not any(run.control.cluster.host_alive)  # a dead cluster stands still
    audit_equals_the_run_without_crashes(plane, applied(clean.plane))
    the_guarantee_holds(run, guarantee)
    what_was_called_lost_never_came(run)
    if guarantee == "exactly-once" and not state_losses(run):  # an old copy may fill a gap of lost state, late
        rows_that_took_one_path_are_in_order(plane)
    return True


def conserved(run: Run) -> None:
    """Tuples sent = processed + dropped + under way; what was dropped unsent left no message."""
    plane = run.plane
    sent = run.replayed + sum(total[0] for (_, kind), total in plane.messages().items() if kind in ("data", "local"))
    visits = plane.tables()["visits"]
    sources = [plan.index for plan in plane.plan.operators if plan.is_source]
    ended = visits["operator"][visits["end_ns"] != NEVER]
    processed = sum(1 for operator in ended.tolist() if operator not in sources)
    assert sent + plane.never_sent == processed + len(run.rows["dropped"]) + in_progress(plane)


def trimmed_rows_are_covered(plane: PlainPlane) -> None:
    """What a partition was promised to be able to forget is in a stored checkpoint, or the loss was reported."""
    checkpoint_host_died = {partition.name for partition in plane.all_partitions() if partition.checkpoint is None}
    for partition in plane.all_partitions():
        saved_at = partition.checkpoint.host if partition.checkpoint else REMOTE
        assert saved_at == REMOTE or plane.cluster.host_alive[saved_at], (
            f"the dead hold a checkpoint of {partition.name}"
        )
        if partition.operator.is_sink or partition.operator.is_source or partition.name in checkpoint_host_died:
            continue
        assert partition.checkpoint is not None
        saved = partition.checkpoint.applied[: partition.checkpoint.count]
        assert set(partition.applied[: partition.trimmed]) <= set(saved), partition.name


def every_partition_has_one_owner(run: Run) -> None:
    """A live partition is at a task of its own operator on a live host; no two tasks of an operator share a host
    after recovery unless the placement began so."""
    cluster = run.control.cluster
    for partition in run.plane.all_partitions():
        assert cluster.partition_task[partition.number] == partition.task.index
        assert cluster.partition_live[partition.number] == partition.live
        assert cluster.task_alive[partition.task.index] == partition.task.alive
        assert partition.task.operator is partition.operator
        assert not partition.live or (partition.task.alive and cluster.host_alive[partition.task.host.index])
        for visit in partition.held:
            assert not partition.live, f"{partition.name} is live and still holds {visit.row}"


def losses_are_legitimate(run: Run) -> None:
    """Reported state losses have a reason: the host of its last stored checkpoint died after it was stored."""
    checkpoints, failures, operators = run.rows["checkpoints"], run.rows["failures"], run.control.plan.operators
    for at, name in state_losses(run):
        stored = [
            row
            for row in checkpoints
            if f"{operators[row[0]].name}[{row[1]}]" == name and row[4] < at and NEVER != row[5] <= at
        ]
        assert stored, f"{name}: nothing was stored, so nothing can have been trimmed"
        last = max(stored, key=lambda row: row[5])
        assert last[3] != REMOTE
        assert any(host == last[3] and last[5] <= died <= at for host, died, *_ in failures), name


def audit_equals_the_run_without_crashes(plane: PlainPlane, clean: dict[tuple[int, int], Counter[int]]) -> None:
    """The ledger's verdict on a drained run is the difference to the run without crashes."""
    final = applied(plane)
    for index, account in accounts(plane).items():
        partitions = [partition for partition in clean if partition[0] == index]
        assert account.expected == sum(len(clean[partition]) for partition in partitions)
        assert account.lost == {
            (partition[1], tid) for partition in partitions for tid in clean[partition].keys() - final[partition].keys()
        }
        assert account.duplicated == sum(final[partition].total() - len(final[partition]) for partition in partitions)
        for partition in partitions:
            assert final[partition].keys() <= clean[partition].keys(), "something that no source tuple explains"


def the_guarantee_holds(run: Run, guarantee: str) -> None:
    plane, reported = run.plane, {name for _, name in state_losses(run)}
    lost = {index: account.lost for index, account in accounts(plane).items() if account.lost}
    duplicated = sum(account.duplicated for account in accounts(plane).values())
    if guarantee in ("exactly-once", "at-most-once", "none"):
        assert duplicated == 0
    if guarantee in ("exactly-once", "at-least-once"):
        unexplained(plane, lost, reported)


def unexplained(plane: PlainPlane, lost: dict[int, set[tuple[int, int]]], reported: set[str]) -> None:
    """Every lost tuple belongs to a partition that reported a loss of state, or to an operator below one."""
    below: set[int] = set()
    for plan in plane.plan.operators:  # file order is topological here
        if any(name.startswith(f"{plan.name}[") for name in reported) or plan.index in below:
            below.update(edge.down.index for edge in plan.edges)
    for index, tuples in lost.items():
        for partition, tuple_id in tuples:
            name = f"{plane.plan.operators[index].name}[{partition}]"
            assert name in reported or index in below, f"{name} lost {tuple_id} and nobody said so"


def what_was_called_lost_never_came(run: Run) -> None:
    """With no crash after the cut and every partition live, lost at the cut = lost at the end.

    While a partition is down the verdict is not final: a checkpoint that is on its way may still save something, a trim
    that is on its way may still take something, and without replay what is sent to a dead task is lost as well.
    """
    last = max((row[1] for row in run.rows["failures"]), default=-1)
    end = {index: account.lost for index, account in accounts(run.plane).items()}
    for cut, lost, all_live in run.cuts:
        if all_live and last < cut:
            assert lost == end


def rows_that_took_one_path_are_in_order(plane: PlainPlane) -> None:
    """Tuples that went through the same partitions are applied in the order of their source; pools keep no order."""
    pools = {plan.index for plan in plane.plan.operators if plan.description.threads > 1}
    known = paths(plane)
    for partition in plane.all_partitions():
        here = (partition.operator.index, partition.index)
        if partition.operator.is_source or partition.operator.index in pools:
            continue
        places: dict[Any, list[tuple[int, ...]]] = defaultdict(list)
        for tuple_id in partition.applied:
            path, place = known[here][tuple_id]
            if not {operator for operator, _ in path} & pools:
                places[path].append(place)
        for in_order in places.values():
            assert all(first < second for first, second in pairwise(in_order)), partition.name


@settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_exactly_once_holds_whatever_crashes(draw: Random) -> None:
    check(draw, "exactly-once")


@pytest.mark.parametrize("guarantee", GUARANTEES[1:])
def test_weaker_guarantees_keep_their_half(guarantee: str) -> None:
    assert sum(check(Random(seed), guarantee) for seed in range(10)) >= 9


@pytest.mark.parametrize(
    "seeds", [(0, 3, 20, 34, 94, 101, 105, 108), pytest.param(range(120), marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_the_campaign_meets_every_kind_of_trouble(seeds: Iterable[int]) -> None:
    met: Counter[str] = Counter()
    for seed in seeds:
        run = drain(random_job(Random(seed)))
        rows, operators = run.rows, run.control.plan.operators
        failures = sorted((failed, detected) for _, failed, detected, *_ in rows["failures"])
        recovered = rows["recoveries"]
        partitions = Counter((row[1], row[2]) for row in recovered)
        kinds = {operators[row[1]].description.kind for row in recovered}
        met.update(
            {
                "loss of state": bool(state_losses(run)),
                "crash while another is not detected": any(a[1] > b[0] for a, b in pairwise(failures)),
                "several hosts at once": any(a[0] == b[0] for a, b in pairwise(failures)),
                "crash of a dead host": any("ignored" in what for what in said_in_rows(rows["decisions"])),
                "nobody alive": any("stays down" in what for what in said_in_rows(rows["decisions"])),
                "a partition recovered twice": max(partitions.values(), default=0) > 1,
                "a crash during a recovery": any(
                    a[1:3] == b[1:3] and a[4] < b[4] < a[10] for a in recovered for b in recovered
                ),
                "duplicates": any(reason == "duplicate" for *_, reason in rows["dropped"]),
                "a checkpoint that was not stored": any(row[5] == NEVER for row in rows["checkpoints"]),
                "a restore from the remote store": restored_from_the_store(run),
                "a source's host": "source" in kinds,
                "a sink's host": "sink" in kinds,
                "a checkpoint host that owns the group": any("owns the group" in why for *_, why in rows["decisions"]),
                "crash at t = 0": any(failed == 0 for failed, _ in failures),
                "repair before the time-out": any(row[2] == row[3] for row in rows["failures"]),
            }
        )
    missing = [kind for kind, count in met.items() if count < 2]
    assert not missing, missing
    assert len(met) == 15


def restored_from_the_store(run: Run) -> bool:
    tables = records(run.control, run.control.clock.now_ns()).tables
    return "restore" in tables["messages"]["kind"]


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("part", range(4))
def test_long_campaign(guarantee: str, part: int) -> None:
    assert sum(check(Random(seed), guarantee) for seed in range(part * 500, (part + 1) * 500)) > 475


@pytest.mark.parametrize(("seeds", "guarantee"), [(range(4), "exactly-once"), (range(4, 8), "at-least-once")])
def test_storms_of_crashes_are_survived(seeds: range, guarantee: str) -> None:
    for seed in seeds:
        check_job(storm(Random(seed), fault_tolerance={"guarantee": guarantee}), guarantee, (5 * NS, 9 * NS))


@pytest.mark.slow
def test_long_storms_of_crashes_are_survived() -> None:
    for seed in range(4, 500):
        check_job(storm(Random(seed), fault_tolerance={"guarantee": "exactly-once"}), "exactly-once", (5 * NS, 9 * NS))
    for seed in range(4):
        check_job(
            storm(Random(seed), fault_tolerance={"guarantee": "at-least-once"}), "at-least-once", (5 * NS, 9 * NS)
        )


# -- engines broken on purpose


def _wrapped(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, make: Any) -> None:
    monkeypatch.setattr(owner, name, make(getattr(owner, name)))


def trim_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    def make(ship: Any) -> Any:
        def broken(self: Any, transfer: Any) -> None:
            self._trim_later(transfer.partition, transfer.checkpoint.count)
            ship(self, transfer)

        return broken

    _wrapped(patch, CheckpointCoordinator, "_ship", make)


def no_replay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PlainPlane, "replay", lambda self, sender, receiver, *its, **named: (0, 0))


def no_duplicate_drop(patch: pytest.MonkeyPatch) -> None:
    def make(begin: Any) -> Any:
        def broken(self: Any, *arguments: Any) -> None:
            begin(self, *arguments)
            self.drops_duplicates = False

        return broken

    _wrapped(patch, PlainPlane, "__init__", make)


def restore_from_empty(patch: pytest.MonkeyPatch) -> None:
    _wrapped(patch, Partition, "install", lambda install: lambda self, checkpoint: install(self, None))


def kept_outputs_not_in_the_checkpoint(patch: pytest.MonkeyPatch) -> None:
    _wrapped(patch, Partition, "snapshot", lambda snapshot: lambda *a: replace(snapshot(*a), kept=()))


def late_checkpoint_of_an_old_incarnation(patch: pytest.MonkeyPatch) -> None:
    def make(stored: Any) -> Any:
        return lambda self, transfer: stored(self, replace(transfer, incarnation=transfer.partition.incarnation))

    _wrapped(patch, CheckpointCoordinator, "_stored", make)


def checkpoints_survive_their_host(patch: pytest.MonkeyPatch) -> None:
    def make(crash: Any) -> Any:
        def broken(self: PlainPlane, host: int) -> None:
            before = {partition: partition.checkpoint for partition in self.all_partitions()}
            crash(self, host)
            for partition, checkpoint in before.items():
                partition.checkpoint = checkpoint

        return broken

    _wrapped(patch, PlainPlane, "crash", make)


def life_of_checkpoint_host_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CheckpointCoordinator, "_is_lost", lambda self, checkpoint: False)


def trims_one_too_many(patch: pytest.MonkeyPatch) -> None:
    _wrapped(patch, Partition, "trim", lambda trim: lambda self, receiver, count: trim(self, receiver, count + 1))


def replays_backwards(patch: pytest.MonkeyPatch) -> None:
    _wrapped(patch, Task, "put_in_front", lambda put: lambda self, items: put(self, items[::-1]))


def source_forgets_what_is_not_acknowledged(patch: pytest.MonkeyPatch) -> None:
    def make(forget: Any) -> Any:
        def broken(self: Partition) -> Any:
            self.kept.clear()
            return forget(self)

        return broken

    _wrapped(patch, Partition, "forget_volatile", make)


def broadcast_copies_share_an_id(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Edge, "id_for", lambda self, tuple_id, receiver: tuple_id)


def held_tuples_forgotten(patch: pytest.MonkeyPatch) -> None:
    def make(release: Any) -> Any:
        def broken(self: PlainPlane, number: int) -> None:
            partition = next(partition for partition in self.all_partitions() if partition.number == number)
            partition.held = partition.held[1:]
            release(self, number)

        return broken

    _wrapped(patch, PlainPlane, "release", make)


def restored_partition_does_not_resend(patch: pytest.MonkeyPatch) -> None:
    def make(install: Any) -> Any:
        def broken(self: Partition, checkpoint: Any) -> Any:
            missing = install(self, checkpoint)
            self.kept = {}
            return missing

        return broken

    _wrapped(patch, Partition, "install", make)


def loss_of_state_not_reported(patch: pytest.MonkeyPatch) -> None:
    _wrapped(patch, Partition, "install", lambda install: lambda *a: 0 * install(*a))


FIRST = {
    trim_before_it_is_stored: 6,
    restore_from_empty: 3,
    kept_outputs_not_in_the_checkpoint: 6,
    checkpoints_survive_their_host: 20,
    life_of_checkpoint_host_ignored: 27,
    trims_one_too_many: 3,
    source_forgets_what_is_not_acknowledged: 2,
    broadcast_copies_share_an_id: 2,
    held_tuples_forgotten: 3,
    restored_partition_does_not_resend: 6,
    loss_of_state_not_reported: 3,
}
"""The first seed by which each is caught that the first job does not catch."""
MUTANTS = (
    trim_before_it_is_stored,
    no_replay,
    no_duplicate_drop,
    restore_from_empty,
    kept_outputs_not_in_the_checkpoint,
    late_checkpoint_of_an_old_incarnation,
    checkpoints_survive_their_host,
    life_of_checkpoint_host_ignored,
    trims_one_too_many,
    replays_backwards,
    source_forgets_what_is_not_acknowledged,
    broadcast_copies_share_an_id,
    held_tuples_forgotten,
    restored_partition_does_not_resend,
    loss_of_state_not_reported,
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_engine_is_caught(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        check_job(late_checkpoint_job(), "exactly-once")
        for seed in (FIRST.get(mutant, 0), *range(100)):
            check(Random(seed), "exactly-once")


def late_checkpoint_job() -> dict[str, Any]:
    """The first checkpoint of `count` is still on its way when the group is restored, from nothing, elsewhere.

    The two sources then replay one after the other, so the new state is in another order than the late checkpoint.
    """
    return {
        "duration": "4 s",
        "workload": {"src": {"rate": "40 /s", "arrivals": "deterministic"}},
        "operators": {
            "src": {"kind": "source", "parallelism": 2},
            "count": {
                "kind": "aggregate",
                "inputs": {"src": "key"},
                "service": {"distribution": "deterministic", "value": "1 ms"},
            },
            "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
        },
        "hosts": {"h": {"count": 3}},
        "network": {"latency": "400 ms"},
        "placement": {"tasks": {"src-0": "h-0", "src-1": "h-0", "count-0": "h-1", "out-0": "h-0"}},
        "fault_tolerance": {"method": "checkpoint", "interval": "1 s"},
        "detector": {"heartbeat": "100 ms", "timeout": "250 ms"},
        "events": {
            "owner": {"at": "1050 ms", "kind": "host-failure", "host": "h-1"},
            "next-owner": {"at": "1990 ms", "kind": "host-failure", "host": "h-2"},
        },
    }


def test_a_late_checkpoint_of_an_old_incarnation_is_ignored() -> None:
    job = late_checkpoint_job()
    assert check_job(job, "exactly-once")
    run = drain(job)
    assert not state_losses(run)
    operators = run.control.plan.operators
    first = next(row for row in run.rows["checkpoints"] if operators[row[0]].name == "count")
    assert first[4:6] == (NS, NEVER)
