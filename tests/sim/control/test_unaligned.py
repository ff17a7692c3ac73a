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
from small_jobs import Run, drain, with_buffers
from test_barriers import full_job, with_barriers
from test_planes import differences
from test_recovery import check_job

from models.scenario.rules import faults
from sim.control.barriers import BarrierCheckpoints, JobCheckpoint
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.overtaking import Overtaking
from sim.plain.partition import Letter, Output, Partition, TaskView, Visit
from sim.plain.plane import PlainPlane
from sim.plain.task import Passage, Task

NS = 10**9


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


def test_exactly_once_holds_whatever_crashes() -> None:
    assert sum(map(holds, range(25))) >= 20


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
        for seed in range(80):
            holds(seed)
