"""Key groups that move in steps while hosts die, in jobs whose checkpoints barriers take, under the scheduler.

Steps beside those of `barriers`: a plan is asked for. A tuple is born at the step with which it arrives, and what
control tells those who send comes in time, as in `reconfiguring`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from lab.barriers import AFTER, JOBS, Barriers, _acts, job_of
from lab.frontiers import Punctual, Queues, SteppedMegaphone
from lab.job import Job
from lab.reconfiguring import Keys, drawn_plan
from lab.recovering import Case, drawn_case, drawn_crashes
from lab.scheduler import Chooser
from lab.shapes import CHAIN, KEYED
from models.records.tables import NEVER
from models.scenario.events import Reconfigure
from sim.migration.protocol import Message

PLAN = "plan"
DRAWN = [CHAIN, CHAIN, "fan_out", "diamond", "fan_in", "mixed", "unkeyed"]
PROTOCOLS = ("megaphone", "megaphone", "megaphone", "pause-and-resume")
OF_MOVES = {
    "configured": (1, 1, 2, 3),  # who sends hears of a step
    "given": (1, 1, 2, 3, 5),  # a state has been taken out of its task
    "put": (1, 1, 2, 3, 5),
    "triggered": (1, 2, 3),
}


@cache
def moving_job_of(number: int) -> Job:
    """Return one of the jobs."""
    draw = Random(f"moving plans {number}")
    its = job_of("aligned", number)
    assert its.rules is not None
    tasks = draw.choice([2, 2, 3])
    groups = tasks * draw.choice([1, 2])
    tuples = draw.choice([4, 8, 12, 20])
    job = replace(its, shape=DRAWN[number % len(DRAWN)], buffer=None, groups=groups, tasks=tasks, tuples=tuples)
    keyed = [name for name, node in job.dataflow.items() if node.kind == KEYED]
    plans, moved = list[Keys](), set[str]()
    for _ in range(draw.choice([1, 2, 2, 3])):
        operator = draw.choice(keyed)
        back = operator in moved and draw.random() < 0.4
        plans.append(drawn_plan(draw, operator, tasks, groups, draw.choice(PROTOCOLS), back))
        moved.add(operator)
    return replace(job, plans=tuple(plans), rules=replace(its.rules, commits=False), seed=number)


def drawn(kind: str, seed: int) -> Case:
    """Return the case of a seed."""
    draw = Random(f"{kind} case {seed}")
    job = moving_job_of(draw.randrange(JOBS))
    crashes = drawn_crashes(draw, (0, 1, 1, 2, 2, 3), AFTER | OF_MOVES | OF_MOVES)
    return drawn_case(draw, kind, seed, job, crashes, _moves(draw, job), (1, 1, 20, 100))


def _moves(draw: Random, job: Job) -> Iterator[tuple[str, int]]:
    yield from _acts(draw)
    at = draw.choice([5, 20, 40, 80])
    for _ in job.plans:
        yield PLAN, at
        at += draw.choice([0, 20, 60, 120])


class MovingPlans(Barriers):
    """One laboratory with checkpoints of the job, and key groups that move."""

    def scheduled(self, chooser: Chooser) -> Chooser:
        self.punctual = Punctual(chooser)
        return self.punctual

    def begin(self) -> None:
        self.reconfigurations: Any = self.lab.reconfigurations
        self.reconfigurations.protocols = {**self.reconfigurations.protocols, "megaphone": SteppedMegaphone}
        self.queues = Queues(self.lab, self.faults)
        self._asked = 0
        runtime, plane = self.lab.coordinator.runtime, self.lab.plane
        self.punctual.follow(self.lab)
        deliver = runtime.deliver

        def delivers(message: Message) -> None:
            if message.kind == "configure":
                if self.punctual.is_late(message):
                    self.faults["control tells too late"] += 1
                self.note("configured")
            deliver(message)
            if message.kind == "stepped":
                self.queues.over(message.run)
            self.met["drained"] += message.kind == "drained"

        runtime.deliver = delivers  # type: ignore[method-assign]
        self.before(plane, "take", "given")
        self.before(plane, "put", "put")
        super().begin()

    def note(self, event: str) -> None:
        super().note(event)
        if event == "step":
            self.queues.look()

    @property
    def in_order(self) -> bool:
        """Return False: outputs of a key group that has moved come over two channels."""
        return False

    def act(self, what: str) -> None:
        if what == PLAN:
            self._ask()
        else:
            super().act(what)

    def _ask(self) -> None:
        """Have the next plan wanted."""
        name = f"plan{self._asked}"
        self._asked += 1
        event = self.lab.plan.scenario.events[name]
        assert isinstance(event, Reconfigure)
        process = self.reconfigurations._event(name, event)
        next(process)
        next(process, None)

    def check_rest(self) -> None:
        super().check_rest()
        cluster, first = self.cluster, self.lab.plan.first_partition
        places = {
            first[one.index] + k: one.description.task_of(k)
            for one in self.lab.plan.operators
            if one.description.keyed
            for k in range(one.description.groups)
        }
        if self.lab.coordinator.waiting:
            self.faults["a move never begins"] += 1
        for run in self.reconfigurations.runs:
            self.met["cancelled" if run.cancelled_ns != NEVER else "moved"] += 1
            if not run.over:
                self.faults["a move never ends"] += 1
            for carries, one in zip(run.plan.steps, run.times, strict=True):
                if one.groups == sum(len(carry.partitions) for carry in carries):
                    self.met["steps"] += 1
                    for carry in carries:
                        places |= dict.fromkeys(carry.partitions, run.plan.members.index(carry.target))
        if any(cluster.task_place[cluster.partition_task[one]] != place for one, place in places.items()):
            self.faults["the configuration is not that of the last step that was over"] += 1
        if self.plane.parcels:
            self.faults["a state is on its way for ever"] += 1
