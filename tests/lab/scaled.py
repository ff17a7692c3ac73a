"""Jobs that get other numbers of tasks as Flink gives them, under the scheduler: with savepoints, or as slots allow.

Steps beside those of other barriers: somebody wants another number of tasks, at any step. A job that is down waits for
slots until an instant, where a step counts as a nanosecond; all other times of the adaptive scheduler are steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from lab.barriers import AFTER, CHECKPOINT, EXPIRE, JOBS, Barriers, job_of
from lab.job import Job
from lab.recovering import Case, drawn_case, drawn_crashes
from lab.shapes import CHAIN, KEYED, SHAPES
from models.scenario.events import Rescale
from sim.clock import Process
from sim.control.barriers import JobCheckpoint

RESCALE = "rescale"
MOST = 4  # tasks of an operator, and key groups
SHAPES_WITH_KEYS = [CHAIN, CHAIN, *(name for name in SHAPES if not name.startswith("join"))]


@cache
def scaled_job_of(number: int) -> Job:
    """Return one of the jobs: half of them with the default scheduler, which gives slots without a limit."""
    draw = Random(f"rescaled {number}")
    its = job_of(draw.choice(["aligned", "aligned", "unaligned"]), number)
    assert its.rules is not None
    scheduler = draw.choice(["default", "default", "adaptive", "reactive"])
    rules = replace(
        its.rules,
        scheduler=scheduler,
        at_checkpoint=draw.random() < 0.6,
        slots=None if scheduler == "default" else draw.choice([1, 2]),
        uploads=draw.choice(["shared", "in-turn"]),
        restores=draw.choice(["shared", "in-turn"]),
        local=draw.random() < 0.5,
        tolerated=None,  # a job that fails by itself is that of other cases
    )
    return replace(
        its,
        shape=SHAPES_WITH_KEYS[number % len(SHAPES_WITH_KEYS)],
        stages=min(its.stages, 2),
        groups=MOST,
        tasks=draw.choice([1, 2, 3]),
        hosts=draw.choice([3, 4]),
        rules=rules,
        seed=number,
    )


def drawn(kind: str, seed: int) -> Case:
    """Return the case of a seed."""
    draw = Random(f"{kind} case {seed}")
    job = scaled_job_of(draw.randrange(JOBS))
    after = AFTER | {"savepoint": (1, 1, 2), "saved": (1, 1), "stopped": (1, 1, 2)}
    crashes = drawn_crashes(draw, (0, 0, 1, 1, 2, 3), after)
    return drawn_case(draw, kind, seed, job, crashes, _acts(draw, job), (1, 1, 20, 100))


def _acts(draw: Random, job: Job) -> Iterator[tuple[str, int]]:
    for _ in range(draw.choice([1, 2, 3])):
        yield CHECKPOINT, draw.choice([0, 10, 30, 60, 100])
    for _ in range(draw.choice([0, 0, 0, 1])):
        yield EXPIRE, draw.choice([20, 40, 80])
    keyed = [name for name, node in job.dataflow.items() if node.kind == KEYED]
    for _ in range(draw.choice([1, 1, 2, 3])):
        yield f"{RESCALE} {draw.choice(keyed)} {draw.randint(1, MOST)}", draw.choice([5, 20, 40, 60, 90])


class Scaled(Barriers):
    """One laboratory with checkpoints of the job, and other numbers of its tasks."""

    def begin(self) -> None:
        super().begin()
        scaling: Any = self.lab.job_scaling
        self.scaling = scaling
        clock = self.lab.clock

        def looks_again(at_ns: int) -> Process:
            yield clock.reach(at_ns)
            scaling.regions.go_on()

        def never_gives_up(*_: int) -> Process:
            yield clock.when(lambda: False)  # a job that waits for ever is down at rest

        stop = scaling._stop

        def stops(*its: Any, new_job: bool = False, **named: Any) -> None:
            self.note("stopped")
            if new_job:
                self._check_savepoint()
            stop(*its, new_job=new_job, **named)

        scaling._looks_again, scaling._gives_up, scaling._stop = looks_again, never_gives_up, stops
        self.before(self.lab.barriers, "stop_with_savepoint", "savepoint")
        keep = self.lab.barriers._keep_copies

        def keeps(checkpoint: JobCheckpoint) -> None:
            if checkpoint.stops is not None:
                self.note("saved")
            keep(checkpoint)

        self.lab.barriers._keep_copies = keeps  # type: ignore[method-assign]
        self.before(scaling.method, "run_with", "other numbers")

    def act(self, what: str) -> None:
        if not what.startswith(RESCALE):
            super().act(what)
            return
        _, name, parallelism = what.split()
        operator = next(one.index for one in self.lab.plan.operators if one.name == name)
        scaling = self.scaling
        if scaling.times.scheduler == "reactive":
            return  # it takes all slots that there are
        if scaling.times.adapts:
            scaling.wanted[operator] = int(parallelism)
            scaling.slots_changed()
        else:
            event = Rescale(at_s=0.0, operator=name, parallelism=int(parallelism), submit_s=1.0)
            scaling._stop_with_savepoint(operator, event)

    def _check_savepoint(self) -> None:
        """A job stops with a savepoint that has all that was emitted, and nothing is on its way."""
        total = self.total()
        for partition in (*self.seen.owners(), *self.seen.sinks):
            if not partition.operator.reckoned:
                continue  # windows that are open make something later
            number = partition.group.number
            checkpoint = partition.checkpoint
            saved = set(checkpoint.applied[: checkpoint.count]) if checkpoint else set()
            if total[number] - (set(partition.applied) if partition.operator.is_sink else saved):
                self.faults[f"{partition.name} is stopped before the savepoint has all of it"] += 1
            if partition.in_flight:
                self.faults["a savepoint has in-flight data"] += 1

    def heal(self) -> None:
        for _ in range(3):  # a rescaling may wait for the first
            self.wanted += 1
            self.steps()

    def may_repeat(self) -> bool:
        return super().may_repeat() or bool(self.met["stopped"])

    def check_rest(self) -> None:
        super().check_rest()
        scaling, cluster = self.scaling, self.cluster
        if scaling._savepoint:
            self.faults["a savepoint does not end"] += 1
        if scaling.times.adapts and scaling.method.parallelism != scaling._possible():
            self.faults["the job has not as many tasks as it may have"] += 1
        first = self.lab.plan.first_partition
        for operator, count in zip(self.lab.plan.operators, scaling.method.parallelism, strict=True):
            at = cluster.partition_task[first[operator.index] : first[operator.index + 1]]
            seats = [operator.description.task_of(k, count) for k in range(len(at))]
            if len({*zip(seats, at, strict=True)}) != len({*seats}) or len({*at}) != len({*seats}):
                self.faults[f"{operator.name} has not the tasks that it should have"] += 1
        self._check_wishes()

    def _check_wishes(self) -> None:
        """Check that the last wish that was granted is true."""
        rows = self.lab.recorder.rows["decisions"]
        last: dict[str, int] = {}
        for _, action, subject, _, target, verdict, *_ in rows:
            if action == "rescale" and verdict == "done":
                last[subject] = int(target)
        for operator, count in zip(self.lab.plan.operators, self.scaling.method.parallelism, strict=True):
            if last.get(operator.name, count) != count:
                self.faults[f"{operator.name} is not rescaled"] += 1
