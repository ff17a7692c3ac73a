"""Windows and joins whose key groups move in steps while hosts die and nothing is kept, under the scheduler.

As in `moving_plans` a tuple is born at the step with which it arrives; watermarks leave sources at any step. Each
window ends once, with what is in its state, and in the end all have ended: nobody waits for the dead.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from lab.barriers import AFTER, JOBS
from lab.engines import Rules
from lab.job import Job
from lab.moving_plans import OF_LOSSES, OF_MOVES, PROTOCOLS, LosingPlans, _plans, moving_job_of
from lab.planned_jobs import Keys, drawn_plan
from lab.recovering import Case, drawn_case, drawn_crashes
from lab.shapes import JOIN, KEYED, WINDOW, WINDOWED
from sim.plain.partition import Partition

WATERMARK, ROUNDS = "watermark", 3
SHAPES = [*WINDOWED, "windows_between", "join", "join_between"]


@cache
def losing_job_of(number: int) -> Job:
    """Return one of the jobs."""
    draw, its = Random(f"windows that are lost {number}"), moving_job_of(number)
    job = replace(its, shape=SHAPES[number % len(SHAPES)], window_ns=draw.choice([10, 30, 80, 200]), plans=())
    keyed = [name for name, node in job.dataflow.items() if node.kind in (KEYED, WINDOW, JOIN)]
    plans, moved = list[Keys](), set[str]()
    for _ in range(draw.choice([1, 2, 2, 3])):
        operator = draw.choice(keyed)
        back = operator in moved and draw.random() < 0.4
        plans.append(drawn_plan(draw, operator, job.tasks, job.groups, draw.choice(PROTOCOLS), back))
        moved.add(operator)
    return replace(job, plans=tuple(plans))


def drawn(kind: str, seed: int) -> Case:
    """Return the case of a seed."""
    draw = Random(f"{kind} case {seed}")
    rules = Rules("none", slow=draw.random() < 0.5, noticed=draw.random() < 0.5)
    job = replace(losing_job_of(draw.randrange(JOBS)), rules=rules)
    after = {event: its for event, its in (AFTER | OF_MOVES).items() if event in OF_LOSSES}
    crashes = drawn_crashes(draw, (1, 1, 2, 2, 3), after)
    marks = [(WATERMARK, draw.choice([2, 5, 10, 20, 40, 60, 80])) for _ in range(draw.choice([2, 4, 8]))]
    return drawn_case(draw, kind, seed, job, crashes, [*_plans(draw, job), *marks])


class LosingWindows(LosingPlans):
    """One laboratory in which windows are lost with the states that have them."""

    def begin(self) -> None:
        super().begin()
        self.watermarks: Any = self.plane.watermarks
        self.before(self.watermarks, "turn", "watermark")
        self.before(self.watermarks, "take_last_leave", "a task dies")

    def act(self, what: str) -> None:
        if what != WATERMARK:
            super().act(what)
            return
        for partition in [source.partition for source in self.plane.sources]:
            self.lab.clock.add_fault(WATERMARK, lambda one=partition: self._leaves(one))  # type: ignore[misc]

    def _leaves(self, partition: Partition, later_ns: int = 0) -> None:
        """Let a source send a watermark, as at a tick of the clock; in the end that is some time later."""
        task = partition.task
        if partition.live and not task.paused_until_ns:
            here = [one for one in self.plane.sources if one.partition.task is task and one.partition.live]
            self.watermarks._rise(task, min(one.promise_ns(0) for one in here) + later_ns)

    def heal(self) -> None:
        """Have all windows end: who begins anew behind one hears of the next."""
        for k in range(ROUNDS):
            for source in self.plane.sources:
                self._leaves(source.partition, k * 10 * self.case.job.window_ns)
            self.steps()

    def check_rest(self) -> None:
        super().check_rest()
        self.met["ends"] += self.followed.ended.total()
        for one in self.seen.owners():
            if one.time.windows:
                self.faults[f"{one.name}: a window does not end"] += 1
