"""A server that takes vacations, which control gives it as work, against the closed forms (`closed_forms`).

Control watches the task. Told that it is idle it occupies it with work for a time of its own stream. At the end of that
the task is idle again, if nobody waits: with `multiple` it then leaves once more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import pytest
from closed_forms import EXPONENTIAL, PLANES, Sized, agrees, window
from queueing_formulas import mg1_single_vacation, mg1_vacations
from small_jobs import queue

from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.units import to_ns
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import records
from sim.kernel.event_loop.plane import CompiledPlane

Q = 1  # the task of the queue
RATE = 70.0


@dataclass(frozen=True)
class Vacation:
    """A law of vacations: mean [s], squared coefficient of variation, the chance that nobody comes during one."""

    mean_s: float
    exponential: bool

    @property
    def scv(self) -> float:
        return float(self.exponential)

    @property
    def nobody(self) -> float:
        return 1 / (1 + RATE * self.mean_s) if self.exponential else math.exp(-RATE * self.mean_s)

    def ns(self, draw: Random) -> int:
        """How long one is."""
        seconds = draw.expovariate(1 / self.mean_s) if self.exponential else self.mean_s
        return max(1, round(seconds * 1e9))


PLAIN_PLANE, *_, LONG = PLANES
FEWER = pytest.param(Sized(CompiledPlane, 300_000), id="compiled")
"""Control in Python makes these runs slow. So many tuples still tell vacations of another law apart."""


@pytest.fixture(params=[PLAIN_PLANE, FEWER, LONG])
def plane(request: pytest.FixtureRequest) -> Sized:
    """What a closed form is held against."""
    found: Sized = request.param
    return found


class Leaving(Control):
    """Control whose one server leaves whenever it is idle, the first time at the begin of the run."""

    def __init__(self, plan: RunPlan, plane: PlaneFactory, law: Vacation, multiple: bool) -> None:
        super().__init__(plan, plane)
        self.law, self.multiple, self.draw = law, multiple, Random(plan.replication)
        self.vacations, self.returned_ns = 0, -1

    def start(self) -> None:
        super().start()
        self.plane.watch([Q])
        self.clock.at(0, 0, lambda _: self.idle(Q))

    def idle(self, task: int) -> None:
        """The task leaves, but a single time not when it is idle because it has come back."""
        if self.multiple or self.clock.now_ns() != self.returned_ns:
            self.vacations += 1
            self.state.work(task, self.law.ns(self.draw), self.back)

    def back(self) -> None:
        """It has come back."""
        self.returned_ns = self.clock.now_ns()


def run(law: Vacation, multiple: bool, made: Scenario, replication: int, plane: PlaneFactory) -> RunRecords:
    """The rows of a run with vacations."""
    control = Leaving(RunPlan.of(made, RunInputs(), replication), plane, law, multiple)
    control.start()
    until = to_ns(made.duration_s)
    control.run(until)
    assert control.vacations > made.duration_s
    return records(control, until)


def served(law: dict[str, Any], **changes: Any) -> Scenario:
    return queue(law, **window(200, workload={"src": {"rate": f"{RATE} /s"}}), **changes)


@pytest.mark.parametrize(
    ("service", "scv", "vacation"),
    [
        (EXPONENTIAL, 1.0, Vacation(0.06, exponential=False)),
        pytest.param(
            {"distribution": "gamma", "mean": "10 ms", "shape": 0.5},
            2.0,
            Vacation(0.06, exponential=True),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["mm1-equal-vacations", "mg1-exponential-vacations"],
)
def test_a_server_that_leaves_as_long_as_nobody_waits(
    plane: Sized, service: dict[str, Any], scv: float, vacation: Vacation
) -> None:
    state = mg1_vacations(RATE, 0.01, scv, vacation.mean_s, vacation.scv)
    agrees(plane, served(service), {"q": state}, run=partial(run, vacation, True))


@pytest.mark.parametrize("exponential", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_server_that_leaves_once(plane: Sized, exponential: bool) -> None:
    vacation = Vacation(0.015, exponential)
    state = mg1_single_vacation(RATE, 0.01, 1.0, vacation.mean_s, vacation.scv, vacation.nobody)
    agrees(plane, served(EXPONENTIAL), {"q": state}, run=partial(run, vacation, False))
