"""The comparison of planes has teeth: each known way to get the data plane wrong is noticed, and cuts change nothing.

Each error is put into the plain plane; then its rows must differ from those of the compiled one in some small run.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from small_jobs import random_job, storm
from test_actions import on_both
from test_planes import differences

from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.units import to_ns
from sim.clock import ARRIVAL, END_OF_INSTANT, SERVICE, Clock, Process
from sim.control.assembly import Control
from sim.control.cluster import RunPlan
from sim.engine import records, simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.instances import Actions
from sim.plain.partition import Message, Visit
from sim.plain.plane import PlainPlane
from sim.plain.task import Task


def lattice_job(seed: int) -> dict[str, Any]:
    """A random job in which all happens on a lattice of 5 ms, so that arrivals, services and actions meet."""
    raw = random_job(Random(seed))
    raw["workload"]["src"] |= {"rate": "20 /s", "arrivals": "deterministic"}
    for operator in raw["operators"].values():
        if "service" in operator:
            operator["service"] = {"distribution": "deterministic", "value": "20 ms"}
    raw["network"] = {"latency": "5 ms"}
    raw["hosts"]["h"].pop("network", None)
    return raw


def noticed(verbs: tuple[str, ...], seeds: range = range(30)) -> bool:
    return any(on_both(lattice_job(seed), seed, verbs) for seed in seeds)


def ignore_the_cut(patch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """An action comes after the data of its instant."""
    right = Actions.pause

    def pause(self: PlainPlane, task: int, until_ns: int | None) -> None:
        self.clock.at(self.clock.now_ns(), END_OF_INSTANT, lambda _: right(self, task, until_ns))

    patch.setattr(Actions, "pause", pause)
    return ("pause",)


def route_at_arrival(patch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """A tuple goes to where its partition is when it arrives, not to where it was when it was sent."""
    right = PlainPlane._arrive

    def arrive(self: PlainPlane, visit: Visit, _task: Task) -> None:
        right(self, visit, visit.partition.task)

    patch.setattr(PlainPlane, "_arrive", arrive)
    return ("pause",)


def shorten_a_pause(patch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The last pause counts."""
    right = Actions.pause

    def pause(self: PlainPlane, task: int, until_ns: int | None) -> None:
        if self.tasks[task].paused_until_ns and until_ns:
            self.tasks[task].paused_until_ns = 1
        right(self, task, until_ns)

    patch.setattr(Actions, "pause", pause)
    return ("pause",)


def forward_early(patch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Outputs leave when the service begins."""
    right = Task._serve

    def serve(self: Task, item: Any, ns: int, now: int) -> None:
        if isinstance(item, Visit) and self.operator.edges:
            for child, key in self.operator.outputs(item.row.id, item.row.key):
                self.plane.emit(item.partition, child, item.row.created_ns, key)
        right(self, item, ns, now)

    def complete(self: Task, visit: Visit, now: int) -> None:
        edges, visit.partition.muted = visit.partition.muted, True
        finish(self, visit, now)
        visit.partition.muted = edges

    finish = Task._complete
    patch.setattr(Task, "_serve", serve)
    patch.setattr(Task, "_complete", complete)
    return ("pause",)


def merge_unsorted(patch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """What arrives at an instant comes in the order of sending, not of channels."""
    right = Clock.at

    def at(self: Clock, time_ns: int, rank: int, call: Callable[[Any], None]) -> None:
        right(self, time_ns, ARRIVAL if ARRIVAL <= rank < END_OF_INSTANT else rank, call)

    patch.setattr(Clock, "at", at)
    return ("send",)


def include_the_cut(patch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Services that end at the instant of an action end before it."""
    right = Clock.at

    def at(self: Clock, time_ns: int, rank: int, call: Callable[[Any], None]) -> None:
        right(self, time_ns, rank - SERVICE - (1 << 30) if SERVICE <= rank < ARRIVAL else rank, call)

    patch.setattr(Clock, "at", at)
    return ("pause", "hold", "unhold", "send")


def line_up_once(patch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """A message that lines up is told at its first turn, whatever has come behind it."""
    patch.setattr(PlainPlane, "has_waited", lambda *_: False)
    return ("line_up", "work")


def line_up_without_waiting(patch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """A message that lines up does not go through the queue."""
    right = Task.arrive

    def arrive(self: Task, *items: Any) -> None:
        for item in items:
            if isinstance(item, Message) and item.lined_up:
                item.turn = False
        right(self, *items)

    patch.setattr(Task, "arrive", arrive)
    return ("line_up", "work")


ERRORS = [
    ignore_the_cut,
    route_at_arrival,
    shorten_a_pause,
    forward_early,
    merge_unsorted,
    include_the_cut,
    line_up_once,
    line_up_without_waiting,
]


@pytest.mark.parametrize("error", ERRORS, ids=[error.__name__ for error in ERRORS])
def test_a_broken_plane_is_noticed(
    error: Callable[[pytest.MonkeyPatch], tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    verbs = error(monkeypatch)
    assert noticed(verbs)


def test_planes_agree_on_the_lattice() -> None:
    assert not noticed(("pause", "hold", "unhold", "send"), range(10))


def ticks(control: Control, draw: Random) -> Process:
    """Timers of control that do nothing: each makes the plane stop once more."""
    while True:
        step = draw.choice([1, draw.randint(1, 10**7), 5_000_000 - control.clock.now_ns() % 5_000_000])
        yield control.clock.sleep(control.clock.now_ns() + step)


@pytest.mark.parametrize("seed", range(8))
def test_extra_cuts_change_no_row(seed: int) -> None:
    raw = lattice_job(seed) if seed % 2 else storm(Random(seed))
    made = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    control = Control(RunPlan.of(made, RunInputs(), 0), CompiledPlane)
    control.start()
    control.clock.process(ticks(control, Random(seed)))
    until = to_ns(made.duration_s)
    control.run(until)
    assert differences(simulate(made, plane=CompiledPlane), records(control, until)) == []
