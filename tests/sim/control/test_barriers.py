"""Checkpoints of the job by barriers: when they begin and end, what a restart goes back to, and what is refused.

Oracles: instants by hand, both planes, the guarantees of random jobs, and mutants that the guarantees must catch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from full_jobs import KINDS
from scripts import unchecked
from small_jobs import scenario
from test_cluster_view import MS, column, dies
from test_planes import differences
from test_recovery import check
from test_region_restart import NOTICED, with_regions

from models.records.tables import EVENT_LOOP, NEVER, RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.rules import faults
from sim.control.assembly import Control
from sim.control.barriers import BarrierCheckpoints, JobCheckpoint
from sim.control.cluster import RunPlan
from sim.engine import simulate
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.checkpoint import CheckpointCoordinator
from sim.plain.partition import Partition
from sim.plain.plane import PlainPlane
from sim.plane_values import REMOTE


def job(barriers: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Two sources, of which one has a slow reader; both readers send to one sum, whose state is 100 kB in each group.

    All of it is on one host. A message to or from it takes 1 ms. The store writes a snapshot of the sum in 100 ms.
    """
    service = {"distribution": "deterministic", "value": "1 ms"}
    return {
        "duration": "4 s",
        "workload": {
            name: {"rate": "20 /s", "arrivals": "deterministic", "keys": {"distribution": "uniform", "count": 40}}
            for name in ("fast", "slow")
        },
        "operators": {
            "fast": {"kind": "source"},
            "slow": {"kind": "source"},
            "quick": {"kind": "map", "inputs": {"fast": "forward"}, "service": service},
            "late": {
                "kind": "map",
                "inputs": {"slow": "forward"},
                "service": {"distribution": "deterministic", "value": "40 ms"},
            },
            "sum": {
                "kind": "aggregate",
                "inputs": {"quick": "key", "late": "key"},
                "key_groups": 2,
                "service": service,
                "state": {"model": "fixed", "bytes": "100 kB"},
            },
            "out": {"kind": "sink", "inputs": {"sum": "forward"}},
        },
        "hosts": {"h": {"count": 2}},
        "placement": {"tasks": {f"{name}-0": "h-0" for name in ("fast", "slow", "quick", "late", "sum", "out")}},
        "network": {"latency": "1 ms"},
        "fault_tolerance": {
            "method": "region-restart",
            "interval": "1010 ms",
            "store": "remote",
            "remote": "1 MB/s",
            "kind": "full",
            "barriers": barriers or {},
        },
        "detector": {"heartbeat": "500 ms", "timeout": "500 ms"},
    } | changes


def run(raw: dict[str, Any]) -> RunRecords:
    """Return the rows, which both planes make."""
    made = unchecked(raw)
    plain, compiled = (simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))
    assert differences(plain, compiled) == []
    return compiled


def checkpoints(found: RunRecords) -> list[tuple[Any, ...]]:
    """Return (triggered, aligned, completed) of each checkpoint [ms], and how it ended."""
    rows = column(found, "job_checkpoints", "triggered_ns", "aligned_ns", "completed_ns")
    outcome = found.tables["job_checkpoints"]["outcome"].tolist()
    return [(*(at if at > 0 else None for at in row), end) for row, end in zip(rows, outcome, strict=True)]


def outcomes(found: RunRecords) -> list[str]:
    return found.tables["job_checkpoints"]["outcome"].tolist()


# -- instants


def test_a_checkpoint_is_complete_when_the_last_snapshot_is_stored_and_that_is_heard() -> None:
    first, second, *_ = checkpoints(run(job()))
    # The barrier is at the sources and at `late` at 1011, where a tuple is in service until 1040. Its output goes in
    # front of the barrier, and is in service at the sum until 1041.
    assert first[:2] == (1010, 1041)
    # Both snapshots of the sum are at the store at 1042, and written at 1142 and 1242.
    assert first[2] == 1243
    assert second[0] == 2020


def test_what_comes_behind_a_barrier_is_held_back_where_nothing_may_come_twice() -> None:
    raw = job()
    raw["workload"]["fast"]["rate"] = "500 /s"
    strict = run(raw)
    raw["fault_tolerance"]["guarantee"] = "at-least-once"
    loose = run(raw)
    assert checkpoints(strict)[0][:2] == (1010, 1041)
    assert checkpoints(loose)[0][:2] == (1010, pytest.approx(1041, abs=2))
    for rows, served in ((strict, 0), (loose, 14)):
        visits = rows.tables["visits"]
        # The barrier of the quick reader comes to the sum at 1011 or 1012, that of the late one at 1040.
        between = (visits["operator"] == 4) & (visits["start_ns"] > 1012 * MS) & (visits["start_ns"] < 1040 * MS)
        assert between.sum() == served


def test_the_next_one_waits_for_the_end_of_the_one_before_and_for_the_pause() -> None:
    raw = job({"min_pause": "90 ms"})
    raw["fault_tolerance"]["interval"] = "100 ms"
    found = checkpoints(run(raw))
    pauses = [later[0] - row[2] for row, later in itertools.pairwise(found)]
    assert len(pauses) >= 8
    assert pauses == [90.0] * len(pauses)


def test_one_that_is_not_complete_in_time_is_given_up_and_leaves_the_store_free() -> None:
    raw = job({"timeout": "200 ms"})
    found = run(raw)
    assert outcomes(found) == ["expired"] * 3
    stored = [at for operator, at in column(found, "checkpoints", "operator", "stored_ns") if operator == 4]
    assert stored == [1142, NEVER, 2142, NEVER, 3142, NEVER]
    # Nobody forgets what no complete checkpoint has.
    kept = [one.tables["samples"]["buffered"].max() for one in (run(job({"timeout": "300 ms"})), found)]
    assert kept[0] < kept[1]


def test_first_and_next_ones_begin_at_random_where_that_is_asked_for() -> None:
    begins = set()
    for seed in range(6):
        found = run(job({"first": "random"}, seed=seed))
        (first, *_), *_ = checkpoints(found)
        assert 0 < first <= 1010
        begins.add(first)
    assert len(begins) == 6


# -- failures


def test_a_restart_goes_back_to_the_last_complete_checkpoint_of_all() -> None:
    # It is noticed when one of two snapshots of the second checkpoint is stored. Both key groups go back to the first.
    found = run(job(events={"dies": dies(0, 2180)}, detector=NOTICED))
    assert outcomes(found)[:2] == ["completed", "aborted"]
    stored = column(found, "checkpoints", "operator", "taken_ns", "stored_ns")
    assert sum(2020 < taken < 2180 and at > 0 for operator, taken, at in stored if operator == 4) == 1
    assert found.tables["ledger"]["lost"].tolist() == found.tables["ledger"]["duplicated"].tolist() == [0, 0, 0, 0]
    # Sources send all again that came after the barrier of the first one, at 1050, 1100, ... 2150.
    replayed = column(found, "recoveries", "operator", "replayed")
    assert {count for operator, count in replayed if operator in (2, 3)} == {23}


def test_the_next_checkpoint_follows_the_restart_at_once() -> None:
    raw = job(events={"dies": dies(0, 2180)})
    found = run(raw)
    restored = max(at for (at,) in column(found, "recoveries", "restored_ns"))
    assert column(found, "job_checkpoints", "triggered_ns")[2] == (restored,)
    raw = job({"restarted": "random", "min_pause": "500 ms"}, events={"dies": dies(0, 2180)})
    found = run(raw)
    restored = max(at for (at,) in column(found, "recoveries", "restored_ns"))
    assert 500 <= column(found, "job_checkpoints", "triggered_ns")[2][0] - restored <= 1010


def test_no_checkpoint_begins_while_tasks_are_down() -> None:
    slow = {"restart": {"distribution": "deterministic", "value": "1500 ms"}}
    found = run(job(events={"dies": dies(0, 2180)}, detector=NOTICED, recovery=slow))
    assert outcomes(found) == ["completed", "aborted"]


def test_a_restart_whose_slots_are_lost_meanwhile_takes_others_if_that_is_detected() -> None:
    slow = {"restart": {"distribution": "deterministic", "value": "500 ms"}}
    again = {"first": dies(0, 1300), "second": dies(1, 1700)}
    found = run(job(events=again, detector=NOTICED, recovery=slow, hosts={"h": {"count": 3}}))
    # What is lost has slots of h-1 until 2100; its death is detected at 1800.
    assert {host for (host,) in column(found, "recoveries", "target")} == {2}
    assert min(at for (at,) in column(found, "recoveries", "restored_ns")) >= 2600


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_what_is_sent_to_a_dead_host_is_not_lost_before_anybody_knows(guarantee: str) -> None:
    # Of `quick` and `late` nobody keeps outputs: sources send all again that came after the checkpoint of 2.02 s.
    raw = job(events={"dies": dies(1, 2700)}, detector={"heartbeat": "500 ms", "timeout": "5 s"})
    raw["placement"]["tasks"] |= {"sum-0": "h-1", "out-0": "h-1"}
    raw["fault_tolerance"]["guarantee"] = guarantee
    found = run(raw)
    assert found.tables["failures"]["detected_ns"].tolist() == [NEVER]
    assert found.tables["ledger"]["lost"].tolist() == [0, 0, 0, 0]
    # Of the sum's inputs those of the checkpoint are expected, and no later ones.
    assert column(found, "ledger", "operator", "expected")[2][1] < 2 * 20 * 2.1
    late = run(raw | {"events": {"dies": dies(1, 2700)}, "detector": NOTICED})
    assert late.tables["ledger"]["lost"].tolist() == [0, 0, 0, 0]


def test_a_checkpoint_whose_snapshots_have_all_left_is_complete_although_the_host_is_dead() -> None:
    found = run(job(events={"dies": dies(0, 2180)}))
    assert outcomes(found)[:2] == ["completed", "completed"]
    assert {count for operator, count in column(found, "recoveries", "operator", "replayed") if operator in (2, 3)} == {
        3
    }


def test_a_barrier_run_has_the_event_loop() -> None:
    assert kernel_for(RunPlan.of(scenario(job()), RunInputs(), 0)).name == EVENT_LOOP


# -- random jobs


def with_barriers(draw: Random, **more: Any) -> dict[str, Any]:
    """A random job that restarts regions, whose checkpoints barriers take."""
    raw = with_regions(draw, **more)
    raw["fault_tolerance"] |= {
        "staggered": False,
        "barriers": {
            "restarted": draw.choice(["at-once", "random"]),
            "first": draw.choice(["interval", "random"]),
            "timeout": draw.choice(["10 s", "400 ms"]),
        },
    }
    for operator in raw["operators"].values():
        operator.pop("threads", None)
    return raw


def full_job(kind: str, seed: int) -> dict[str, Any]:
    """A job with bounded queues, windows, joins, timers and shared links and cores, whose checkpoints barriers take."""
    draw = Random(f"full barriers {seed}")
    raw = KINDS[kind](draw, seed)
    raw["fault_tolerance"] = {
        "method": "region-restart",
        "store": "remote",
        "interval": draw.choice(["150 ms", "400 ms", "1 s"]),
        "guarantee": draw.choice(["exactly-once"] * 3 + ["at-least-once"]),
        "kind": draw.choice(["full", "incremental"]),
        "remote": draw.choice(["50 kB/s", "1 MB/s"]),
        "snapshots": draw.choice([{}, {"mode": "asynchronous", "pause": "1 ms"}, {"copy": "1 MB/s"}]),
        "barriers": {
            "restarted": draw.choice(["at-once", "random"]),
            "first": draw.choice(["interval", "random"]),
            "min_pause": draw.choice(["0 s", "100 ms"]),
            "timeout": draw.choice(["10 s", "200 ms"]),
        },
    }
    for operator in raw["operators"].values():
        operator.pop("threads", None)
    raw.pop("elasticity", None)
    raw["events"] = {name: one for name, one in raw.get("events", {}).items() if one["kind"] == "host-failure"}
    return raw


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_guarantees_hold_whatever_crashes(guarantee: str) -> None:
    assert sum(check(Random(f"barriers {seed}"), guarantee, with_barriers) for seed in range(6)) >= 3


def test_both_planes_give_equal_rows() -> None:
    for seed in range(15):
        made = unchecked(with_barriers(Random(f"barriers {seed}")))
        assert differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) == [], seed


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_guarantees_hold_in_many_random_jobs(guarantee: str) -> None:
    assert sum(check(Random(f"many barriers {seed}"), guarantee, with_barriers) for seed in range(300)) >= 150


# In the second, windows at a partition that follows its task again end with the watermark that it was the last to hear.
@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("moving", 18),
        ("replicated", 5),
        *(pytest.param(*more, marks=pytest.mark.slow) for more in (("moving", 3), ("replicated", 8))),
    ],
)
def test_both_planes_give_equal_rows_with_all_features(kind: str, seed: int) -> None:
    raw = full_job(kind, seed)
    found = run(raw)
    assert {*outcomes(found)} & {"completed", "aborted", "expired"}
    if raw["fault_tolerance"]["guarantee"] == "exactly-once":
        assert not found.tables["ledger"]["lost"].any()
        assert not found.tables["ledger"]["duplicated"].any()


# -- mutants


def completes_with_the_first_snapshot(patch: pytest.MonkeyPatch) -> None:
    def look(self: BarrierCheckpoints, checkpoint: JobCheckpoint) -> None:
        self.clock.process(self._acknowledged(checkpoint))

    patch.setattr(BarrierCheckpoints, "_look", look)


def takes_snapshots_with_the_first_barrier(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BarrierCheckpoints, "_channels", lambda self, subtask: 1)


def counts_when_stored(patch: pytest.MonkeyPatch) -> None:
    """Each key group goes back to its own newest snapshot, and upstream forgets what that has."""
    stored = CheckpointCoordinator._stored

    def broken(self: CheckpointCoordinator, transfer: Any) -> None:
        stored(self, transfer)
        one = transfer.partition.unfinished.get(transfer.slot)
        if one is not None and one.stored:
            self.complete(transfer.partition)

    patch.setattr(CheckpointCoordinator, "_stored", broken)


def sources_forget_when_triggered(patch: pytest.MonkeyPatch) -> None:
    trigger = BarrierCheckpoints._trigger

    def broken(self: BarrierCheckpoints) -> None:
        trigger(self)
        for partition in self._saved:
            numbered: list[Partition] = self.state.plane._numbered  # type: ignore[attr-defined]
            self.state.plane.trim(partition, len(numbered[partition].applied))

    patch.setattr(BarrierCheckpoints, "_trigger", broken)


def barriers_overtake_what_was_sent_before(patch: pytest.MonkeyPatch) -> None:
    """They do not wait in the queue of the task, behind the tuples that came before them."""
    pass_on = BarrierCheckpoints._pass_on

    def broken(self: BarrierCheckpoints, checkpoint: JobCheckpoint, task: int, subtask: Any) -> None:
        plane = self.state.plane
        send = plane.send_each
        plane.send_each = lambda mails: send([one._replace(turn=False, channels=0) for one in mails])  # type: ignore[method-assign]
        try:
            pass_on(self, checkpoint, task, subtask)
        finally:
            plane.send_each = send  # type: ignore[method-assign]

    patch.setattr(BarrierCheckpoints, "_pass_on", broken)


def barriers_follow_the_snapshot(patch: pytest.MonkeyPatch) -> None:
    """What a task sends while it writes its snapshot is in front of its barriers."""
    save, original = BarrierCheckpoints._save, BarrierCheckpoints._pass_on
    patch.setattr(BarrierCheckpoints, "_pass_on", lambda self, *_: None)

    def broken(self: BarrierCheckpoints, checkpoint: JobCheckpoint, number: int, subtask: Any) -> None:
        save(self, checkpoint, number, subtask)
        task = next(task for task, one in checkpoint.tasks.items() if one == number)
        self.clock.process(later(self, checkpoint, task, subtask))

    def later(self: BarrierCheckpoints, checkpoint: JobCheckpoint, task: int, subtask: Any) -> Any:
        yield self.clock.sleep(self.clock.now_ns() + 50 * MS)
        if self.cluster.task_alive[task]:
            original(self, checkpoint, task, subtask)

    patch.setattr(BarrierCheckpoints, "_save", broken)


@pytest.mark.parametrize(
    "mutant",
    [
        barriers_overtake_what_was_sent_before,
        barriers_follow_the_snapshot,
        completes_with_the_first_snapshot,
        takes_snapshots_with_the_first_barrier,
        counts_when_stored,
        sources_forget_when_triggered,
    ],
)
def test_the_guarantee_catches_a_wrong_rule(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(60):
            check(Random(f"barriers {seed}"), "exactly-once", with_barriers)


# -- bad input


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"method": "checkpoint"}, "fault_tolerance.barriers"),
        ({"store": "nodes"}, "fault_tolerance.store"),
        ({"staggered": True}, "fault_tolerance.staggered"),
        ({"guarantee": "at-most-once"}, "fault_tolerance.guarantee"),
        ({"barriers": {"min_pause": "2 s"}}, "fault_tolerance.barriers.min_pause"),
        ({"replicas": {"r": {"operator": "sum", "host": "h-1"}}}, "fault_tolerance.replicas"),
    ],
)
def test_what_does_not_go_with_barriers_is_refused(changes: dict[str, Any], path: str) -> None:
    raw = job()
    raw["fault_tolerance"] |= changes
    assert path in {fault.path for fault in faults(unchecked(raw))}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        (
            {"events": {"m": {"kind": "migrate", "at": "1 s", "operator": "sum", "key_group": 0, "host": "h-1"}}},
            "events.m.kind",
        ),
        ({"elasticity": {"policy": "threshold"}}, "elasticity.policy"),
    ],
)
def test_key_groups_that_move_are_refused_with_barriers(changes: dict[str, Any], path: str) -> None:
    assert path in {fault.path for fault in faults(unchecked(job() | changes))}


def test_a_pool_of_threads_is_refused_with_barriers() -> None:
    raw = job()
    raw["operators"]["sum"]["threads"] = 2
    assert "operators.sum.threads" in {fault.path for fault in faults(unchecked(raw))}
    assert faults(unchecked(job())) == []
    assert np.all(run(job()).tables["ledger"]["lost"] == 0)


def test_there_is_room_for_the_snapshots_of_many_key_groups_of_a_task() -> None:
    # Each of two tasks takes 64 at once, where a tuple has one output: room for few would not do.
    raw = job()
    raw["operators"]["sum"] |= {"key_groups": 128, "parallelism": 2, "state": {"model": "fixed", "bytes": "1 kB"}}
    raw["placement"]["tasks"]["sum-1"] = "h-1"
    control = Control(RunPlan.of(unchecked(raw), RunInputs(), 0), CompiledPlane)
    control.start()
    control.run(1_000 * MS)
    taken = control.state.plane.checkpoint_each([*range(4, 68)], REMOTE)
    assert taken == 64
    state = control.plane.state  # type: ignore[attr-defined]
    assert int(state.checkpointing["rows"]) <= state.checkpoint_rows.shape[0]
    assert int(state.transfer_pool["left"]) >= 0
    assert set(outcomes(run(raw))) == {"completed"}
