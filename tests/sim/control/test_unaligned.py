"""Unaligned checkpoints of the job: what barriers overtake, what of it is stored and restored, and when.

Oracles: instants and sizes by hand, both planes, the guarantees of random jobs, and mutants that the guarantees must
catch. Where barriers overtake, nothing but a sink may see a tuple twice: all others go back to one place of each
channel, and sources to the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from scripts import unchecked
from seeds import parts
from small_jobs import Run, drain, with_buffers
from test_barriers import checkpoints, full_job, job, run, with_barriers
from test_cluster_view import MS, column, dies
from test_planes import differences
from test_recovery import check_job
from test_region_restart import NOTICED

from models.records.tables import NEVER, RunRecords
from models.scenario.rules import faults
from sim.control.barriers import BarrierCheckpoints, JobCheckpoint
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.overtaking import Overtaking
from sim.plain.partition import Letter, Output, Partition, TaskView, Visit
from sim.plain.plane import PlainPlane
from sim.plain.task import Passage, Task

NS = 10**9


def in_flight(found: RunRecords) -> list[int]:
    """In-flight data of each checkpoint [B]; a record has 100 B."""
    return found.tables["job_checkpoints"]["in_flight_bytes"].tolist()


# -- instants and sizes


def test_the_first_barrier_passes_what_waits_and_the_last_one_completes_the_in_flight_data() -> None:
    found = run(job({"unaligned": True}))
    # At 1011 barriers come to `quick`, which is idle, and to `late`, which has a tuple in service until 1040. The first
    # goes on to the sum at once, whose snapshots are taken. At 1040 the output of `late` comes to the sum in front of
    # the second barrier: it is in flight.
    assert column(found, "checkpoints", "taken_ns")[:5] == [(1011,), (1011,), (1011,), (1040,), (2021,)]
    # The store writes the snapshots of the sum from 1012 to 1212, then the 100 B, in 0.1 ms; it is heard of at 1213.1.
    assert checkpoints(found)[0] == (1010, 1040, 1213.1, "completed")
    assert in_flight(found) == [100, 100, 100]
    assert found.tables["job_checkpoints"]["bytes"].tolist() == [200_100] * 3


def test_barriers_that_are_not_aligned_in_time_begin_to_overtake() -> None:
    found = run(job({"unaligned": True, "alignment_timeout": "20 ms"}))
    # At 1030 the barrier of `quick` waits at the sum for the other one, and that waits its turn at `late`.
    taken = [at for operator, at in column(found, "checkpoints", "operator", "taken_ns") if operator == 4]
    assert taken[:2] == [1030, 1030]
    assert checkpoints(found)[0] == (1010, 1040, 1232.1, "completed")
    assert in_flight(found)[0] == 100
    # What the sum had held back comes behind the barrier, and is no part of the checkpoint.
    raw = job({"unaligned": True, "alignment_timeout": "20 ms"})
    raw["workload"]["fast"]["rate"] = "500 /s"
    assert in_flight(run(raw))[0] == 100


def test_barriers_that_are_aligned_in_time_overtake_nothing() -> None:
    found = run(job({"unaligned": True, "alignment_timeout": "50 ms"}))
    assert checkpoints(found) == checkpoints(run(job()))
    assert in_flight(found) == [0, 0, 0]


def backlog(barriers: dict[str, Any], **sums: Any) -> dict[str, Any]:
    """The job in which `late` has twice as much to do as it can."""
    raw = job(barriers, events={"dies": dies(0, 2180)}, detector=NOTICED)
    raw["workload"]["slow"]["rate"] = "50 /s"
    raw["operators"]["late"] |= sums
    return raw


def test_a_backlog_does_not_delay_barriers_that_overtake() -> None:
    aligned, found = run(backlog({})), run(backlog({"unaligned": True}))
    # Behind 25 tuples the aligned barrier waits for a second, and the snapshots are not stored when the failure comes.
    assert checkpoints(aligned)[0] == (1010, 2021, None, "aborted")
    # At 1011 a tuple is in service until 1020. Of 50 that have come from 20 ms on, 25 are done by then.
    assert checkpoints(found)[0][:2] == (1010, 1020)
    assert in_flight(found)[0] == 25 * 100 + 100  # and the output of the one that ended at 1020, at the sum


def test_in_flight_data_is_fetched_and_comes_before_what_sources_send_again() -> None:
    found = run(backlog({"unaligned": True}))
    fetched = {row[0]: row for row in column(found, "recoveries", "operator", "bytes", "replayed", "restored_ns")}
    # 50 arrived at `slow` until 1000, and 58 from 1020 to 2160.
    assert fetched[3][1:3] == (25 * 100 + 58 * 100, 58)
    visits = found.tables["visits"]
    late = visits["arrival_ns"][(visits["operator"] == 3) & (visits["start_ns"] > 2180 * MS)]
    restored = fetched[3][3] * MS
    assert late[:25].tolist() == [restored] * 25
    assert not found.tables["ledger"]["lost"].any()


def test_outputs_that_find_no_room_are_overtaken_too() -> None:
    found = run(backlog({"unaligned": True}, buffer=4))
    assert checkpoints(found)[0][:2] == (1010, 1020)
    # Four wait at `late` and one at `slow`, where the others stay; one is at the sum.
    assert in_flight(found)[0] == 600
    assert not found.tables["ledger"]["lost"].any()
    assert not found.tables["ledger"]["duplicated"].any()


def test_in_flight_data_that_was_processed_since_is_not_lost_before_a_failure_is_noticed() -> None:
    raw = backlog({"unaligned": True})
    raw |= {"events": {"dies": dies(1, 2700)}, "detector": {"heartbeat": "500 ms", "timeout": "5 s"}}
    raw["placement"]["tasks"] |= {"sum-0": "h-1", "out-0": "h-1"}
    found = run(raw)
    assert found.tables["failures"]["detected_ns"].tolist() == [NEVER]
    assert in_flight(found)[1] > 0
    # `late` has sent some of it to the dead, and will get it again.
    assert found.tables["ledger"]["lost"].tolist() == [0, 0, 0, 0]


def test_a_host_without_tasks_that_dies_ends_no_checkpoint() -> None:
    raw = job({"unaligned": True})
    calm = run(raw)
    found = run(raw | {"events": {"dies": dies(1, 650)}, "detector": {"heartbeat": "200 ms", "timeout": "425 ms"}})
    # The checkpoint of 1010 has its last barrier at 1040.
    assert column(found, "failures", "lost_partitions", "detected_ns") == [(0, 1025)]
    assert checkpoints(found) == checkpoints(calm)


# -- bad input


@pytest.mark.parametrize(
    ("guarantee", "barriers", "key"),
    [
        ("at-least-once", {"unaligned": True}, "unaligned"),
        ("exactly-once", {"alignment_timeout": "1 s"}, "alignment_timeout"),
    ],
)
def test_what_does_not_go_with_overtaking_is_refused(guarantee: str, barriers: dict[str, Any], key: str) -> None:
    raw = job(barriers)
    raw["fault_tolerance"]["guarantee"] = guarantee
    assert [fault.path for fault in faults(unchecked(raw))] == [f"fault_tolerance.barriers.{key}"]


# -- random jobs


def with_unaligned(draw: Random, **more: Any) -> dict[str, Any]:
    """A random job whose barriers overtake, at once or after a time; mostly with queues that are long, or bounded."""
    raw = with_barriers(draw, **more)
    tolerance = raw["fault_tolerance"]
    tolerance |= {"interval": draw.choice(["100 ms", "400 ms", "1 s"]), "remote": "1 MB/s", "guarantee": "exactly-once"}
    tolerance["barriers"] |= {
        "timeout": draw.choice(["10 s", "10 s", "400 ms"]),
        "unaligned": True,
        "alignment_timeout": draw.choice(["0 s", "0 s", "30 ms", "200 ms"]),
    }
    if draw.random() < 0.6:
        raw = with_buffers(draw, raw)
    for operator in raw["operators"].values():
        operator.pop("threads", None)
    if draw.random() < 0.6:
        for operator in raw["operators"].values():
            if operator["kind"] != "source":
                value = draw.choice(["1 ms", "30 ms", "60 ms"])
                operator["service"] = {"distribution": "deterministic", "value": value}
    return raw


def nothing_comes_twice(run: Run) -> None:
    sinks = {plan.index for plan in run.plane.plan.operators if plan.is_sink}
    twice = Counter(operator for operator, *_, reason in run.rows["dropped"] if reason == "duplicate")
    assert not set(twice) - sinks, twice


def holds(seed: int) -> bool:
    """Check all that must hold for a random job; False where the job stands still in the end."""
    draw = Random(f"unaligned {seed}")
    raw = with_unaligned(draw)
    nothing_comes_twice(drain(raw))
    return check_job(raw, "exactly-once", tuple(draw.randint(1, 90) * NS // 10 for _ in range(2)))


@pytest.mark.parametrize("seeds", parts(5, 10))
def test_exactly_once_holds_whatever_crashes(seeds: range) -> None:
    assert sum(map(holds, seeds)) >= 0.8 * len(seeds)


@pytest.mark.slow
def test_exactly_once_holds_in_many_random_jobs() -> None:
    assert sum(map(holds, range(10, 200))) >= 150


def test_both_planes_give_equal_rows() -> None:
    for seed in range(10):
        made = unchecked(with_unaligned(Random(f"unaligned {seed}")))
        assert differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) == [], seed


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("moving", 7),
        ("replicated", 5),
        *(pytest.param(*more, marks=pytest.mark.slow) for more in (("moving", 3), ("replicated", 8))),
    ],
)
def test_both_planes_give_equal_rows_with_all_features(kind: str, seed: int) -> None:
    raw = full_job(kind, seed)
    raw["fault_tolerance"]["guarantee"] = "exactly-once"
    raw["fault_tolerance"]["barriers"] |= {"unaligned": True, "alignment_timeout": "50 ms" if seed == 7 else "0 s"}
    found = run(raw)
    assert found.tables["job_checkpoints"]["in_flight_bytes"].any()
    assert not found.tables["ledger"]["lost"].any()
    assert not found.tables["ledger"]["duplicated"].any()


# -- mutants


def nothing_that_waits_is_recorded(patch: pytest.MonkeyPatch) -> None:
    begin = Task.begin_recording

    def broken(self: Task) -> None:
        capture, self.capture = self.capture, lambda visit: None  # type: ignore[method-assign]
        begin(self)
        self.capture = capture  # type: ignore[method-assign]

    patch.setattr(Task, "begin_recording", broken)


def nothing_that_still_comes_is_recorded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Task, "record", lambda self, visit: None)


def nothing_unsent_is_recorded(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Overtaking, letter: Letter, origin: TaskView, outputs: list[Output]) -> None:
        self.send_message(*letter)

    patch.setattr(Overtaking, "send_ahead", broken)


def what_comes_behind_a_barrier_is_recorded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Passage, "is_before", lambda self, visit: True)


def a_barrier_does_not_wait_for_the_record_in_work(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Task, token: int) -> None:
        serving, self.serving = self.serving, {}
        hurry(self, token)
        self.serving = serving

    hurry = Task._hurry
    patch.setattr(Task, "_hurry", broken)


def new_input_goes_before_what_is_restored(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Task, visits: list[Visit], partition: Partition) -> None:
        self.queue.extend(visits)
        self.go_on()

    patch.setattr(Task, "put_before", broken)


def in_flight_data_is_not_restored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Overtaking, "in_flight_again", lambda self, partition: [])


def unsent_outputs_are_restored_first(patch: pytest.MonkeyPatch) -> None:
    complete = Overtaking.complete_in_flight

    def broken(self: Overtaking, partition: Partition) -> None:
        complete(self, partition)
        partition.in_flight.sort(key=lambda one: not one.unsent)

    patch.setattr(Overtaking, "complete_in_flight", broken)


def in_flight_data_counts_at_once(patch: pytest.MonkeyPatch) -> None:
    """A restart brings back what the checkpoint recorded that was under way."""
    forget = Overtaking.forget_overtaken

    def broken(self: Overtaking) -> None:
        for partition in self.all_partitions():
            partition.in_flight = partition.overtaken or partition.in_flight
        forget(self)

    patch.setattr(Overtaking, "forget_overtaken", broken)


def sources_have_no_position(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "mark", lambda self: None)


def the_position_is_that_of_the_end(patch: pytest.MonkeyPatch) -> None:
    """A source forgets what it has emitted when the checkpoint is complete."""
    forget = Partition.forget_marked

    def broken(self: Partition) -> None:
        if self.operator.is_source:
            self.mark()
        forget(self)

    patch.setattr(Partition, "forget_marked", broken)


def a_checkpoint_is_complete_before_all_barriers_have_come(patch: pytest.MonkeyPatch) -> None:
    def look(self: BarrierCheckpoints, checkpoint: JobCheckpoint) -> None:
        if not checkpoint.writing:
            self.clock.process(self._acknowledged(checkpoint))

    patch.setattr(BarrierCheckpoints, "_look", look)


@pytest.mark.parametrize(
    "mutant",
    [
        nothing_that_waits_is_recorded,
        nothing_that_still_comes_is_recorded,
        nothing_unsent_is_recorded,
        what_comes_behind_a_barrier_is_recorded,
        a_barrier_does_not_wait_for_the_record_in_work,
        new_input_goes_before_what_is_restored,
        in_flight_data_is_not_restored,
        unsent_outputs_are_restored_first,
        in_flight_data_counts_at_once,
        sources_have_no_position,
        the_position_is_that_of_the_end,
        a_checkpoint_is_complete_before_all_barriers_have_come,
    ],
)
def test_the_guarantee_catches_a_wrong_rule(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in (8, *range(80)):  # in this one most of them are wrong
            holds(seed)
