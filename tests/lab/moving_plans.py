"""Key groups that move in steps while hosts die, under the scheduler: barriers take checkpoints, or nothing is kept.

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
from lab.engines import Rules
from lab.following import Followed
from lab.frontiers import Punctual, Queues, SteppedMegaphone
from lab.histories import Histories
from lab.invariants import NothingWaits, OneLives
from lab.job import Job
from lab.planned_jobs import Keys, drawn_plan, late_plans
from lab.recovering import Case, Recovering, drawn_case, drawn_crashes
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
OF_LOSSES = ("step", "message", "detected", "assigned", "installed", "configured", "given", "put")


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
    late = late_plans(Random(f"late moving plans {number}"), map(dict, plans), 0.4)
    return replace(job, plans=late, rules=replace(its.rules, commits=False), seed=number)


def drawn(kind: str, seed: int) -> Case:
    """Return the case of a seed."""
    draw = Random(f"{kind} case {seed}")
    job = moving_job_of(draw.randrange(JOBS))
    crashes = drawn_crashes(draw, (0, 1, 1, 2, 2, 3), AFTER | OF_MOVES | OF_MOVES)
    return drawn_case(draw, kind, seed, job, crashes, _moves(draw, job), (1, 1, 20, 100))


def losing(kind: str, seed: int) -> Case:
    """Return the case of a seed in which nothing is kept."""
    draw = Random(f"{kind} case {seed}")
    job = moving_job_of(draw.randrange(JOBS))
    rules = Rules("none", slow=draw.random() < 0.5, noticed=draw.random() < 0.5)
    postponed = tuple(name for name in job.stateful if draw.random() < 0.3)
    after = {event: its for event, its in (AFTER | OF_MOVES).items() if event in OF_LOSSES}
    crashes = drawn_crashes(draw, (0, 1, 1, 2, 2, 3), after)
    return drawn_case(draw, kind, seed, replace(job, rules=rules, postponed=postponed), crashes, _plans(draw, job))


def postponing(kind: str, seed: int) -> Case:
    """Return the case of a seed in which outputs are post-dated; in some of them nothing moves."""
    draw = Random(f"{kind} case {seed}")
    job = moving_job_of(draw.randrange(JOBS))
    postponed = tuple(draw.sample(job.stateful, draw.randint(1, len(job.stateful))))
    moves = draw.random() < 0.6
    crashes = drawn_crashes(draw, (0, 1, 1, 2, 2, 3), AFTER | OF_MOVES if moves else AFTER)
    acts = _moves(draw, job) if moves else _acts(draw)
    return drawn_case(draw, kind, seed, replace(job, postponed=postponed), crashes, acts, (1, 1, 20, 100))


def _moves(draw: Random, job: Job) -> Iterator[tuple[str, int]]:
    yield from _acts(draw)
    yield from _plans(draw, job)


def _plans(draw: Random, job: Job) -> Iterator[tuple[str, int]]:
    at = draw.choice([5, 20, 40, 80])
    for _ in job.plans:
        yield PLAN, at
        at += draw.choice([0, 20, 60, 120])


class Planned(Recovering):
    """One laboratory in which key groups move by plans."""

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
            if self.punctual.is_late(message):
                self.faults["control tells too late"] += 1
            if message.kind == "configure":
                self.note("configured")
            deliver(message)
            if message.kind == "stepped":
                self.queues.over(message.run)
            self.met["drained"] += message.kind == "drained"

        runtime.deliver = delivers  # type: ignore[method-assign]
        self.before(plane, "take", "given")
        self.before(plane, "put", "put")

    def note(self, event: str) -> None:
        super().note(event)
        if event == "step":
            self.queues.look()

    def act(self, what: str) -> None:
        """Have the next plan wanted."""
        assert what == PLAN
        name = f"plan{self._asked}"
        self._asked += 1
        event = self.lab.plan.scenario.events[name]
        assert isinstance(event, Reconfigure)
        process = self.reconfigurations._event(name, event)
        next(process)
        next(process, None)


class MovingPlans(Planned, Barriers):
    """The same with checkpoints of the job."""

    def begin(self) -> None:
        Planned.begin(self)
        Barriers.begin(self)

    @property
    def in_order(self) -> bool:
        """Return False: outputs of a key group that has moved come over two channels."""
        return False

    def act(self, what: str) -> None:
        if what == PLAN:
            Planned.act(self, what)
        else:
            Barriers.act(self, what)

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


class PostDatedOutputs(MovingPlans):
    """The same where outputs are post-dated: they are in checkpoints, with the keys that they keep open."""

    def begin(self) -> None:
        super().begin()
        self.histories = Histories(self.plane.instances())

    def check(self) -> None:
        super().check()
        self.faults.update(self.histories.faults())

    def check_rest(self) -> None:
        super().check_rest()
        self.faults.update(self.histories.faults())
        self.met["came back"] += self.histories.came_back
        self.met["restored"] += self.histories.restored
        if any(one.post_dated for one in self.plane.instances()):
            self.faults["an output waits for ever"] += 1


class LosingPlans(Planned):
    """One laboratory in which nothing is kept: what a host has is lost with it."""

    def begin(self) -> None:
        super().begin()
        self.punctual.is_gone = lambda task: not self.lab.state.view.task_alive(task)
        self.followed = Followed(self.lab)

    def heal(self) -> None:
        """Do nothing: what is lost does not come again."""

    def check(self) -> None:
        """Check nothing: what is lost is known in the end."""
        self._checked = True

    def check_saved(self) -> list[str]:
        return []

    def _check_rest(self) -> None:
        for invariant in (OneLives(), NothingWaits()):
            self.faults.update(invariant.check(self.seen))
        self.check_rest()

    def check_rest(self) -> None:
        self.faults.update(self.followed.faults())
        for run in self.reconfigurations.runs:
            self.met["cut short" if run.cancelled_ns != NEVER else "moved"] += 1
            self.met["lost groups"] += sum(one.lost_groups for one in run.times)
        self.met["post-dated"] += len(self.followed.post_dated)
