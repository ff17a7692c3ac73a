"""Jobs that run in micro-batches, under the scheduler: executors and the driver die at any step.

A trigger is a fault of a case, since triggers would come for ever; so is the end of the driver alone. Each stage ends
when nothing of it is under way any more, which is checked at the end of each step.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from lab.engines import Rules
from lab.job import Job, random_job
from lab.lineage import Path
from lab.losses import stored
from lab.recovering import Case, Recovering, drawn_case, drawn_crashes
from lab.shapes import CHAIN, REGIONS, SHAPES

JOBS, INTERVAL_NS, ROUNDS = 120, 10**9, 6
TRIGGER, DRIVER = "trigger", "driver"
DRAWN = [CHAIN, CHAIN, *SHAPES, *REGIONS]
AFTER = {
    "step": (5, 20, 40, 60, 90),
    "begins": (1, 2, 3),  # a batch
    "stage": (1, 2, 3, 4, 6),
    "sinks": (1, 1, 2, 3),  # the last stage, for which all is stored
    "taken": (1, 1, 2, 3),
    "stored": (1, 1, 2, 3),
    "completed": (1, 1, 2),  # a commit
    "detected": (1, 1, 2),
    "assigned": (1, 2, 5),
    "installed": (1, 1, 2, 3),
    "replayed": (1, 1, 2),
}


@cache
def job_of(number: int) -> Job:
    """Return one of the jobs."""
    draw = Random(f"batches {number}")
    job = random_job(draw.randrange(24), draw.choice([1, 2]), draw.choice([1, 2, 3]), draw.choice([1, 2]), (2, 4, 8))
    rules = Rules(
        "micro-batch", slow=draw.random() < 0.6, noticed=draw.random() < 0.5, asynchronous=draw.random() < 0.3
    )
    return replace(job, shape=DRAWN[number % len(DRAWN)], rules=rules, hosts=draw.choice([3, 4, 5, 9]), seed=number)


def drawn(kind: str, seed: int) -> Case:
    """Return the case of a seed."""
    draw = Random(f"batches case {seed}")
    job = job_of(draw.randrange(JOBS))
    crashes = drawn_crashes(draw, (0, 1, 1, 2, 2, 3), AFTER)
    return drawn_case(draw, kind, seed, job, crashes, _acts(draw))


def _acts(draw: Random) -> Iterator[tuple[str, int]]:
    for _ in range(draw.choice([1, 2, 3, 4])):
        yield TRIGGER, draw.choice([0, 10, 30, 60, 100])
    for _ in range(draw.choice([0, 0, 0, 1])):
        yield DRIVER, draw.choice([20, 40, 80, 120])


class _Triggers:
    """The clock of the batches: the next trigger comes when the case has one left."""

    def __init__(self, batches: Any, clock: Any) -> None:
        self._batches, self._clock, self.left = batches, clock, 0
        self.now_ns: Callable[[], int] = clock.now_ns
        self.event, self.process = clock.event, clock.process

    def sleep(self, until_ns: int) -> Any:
        """Return what the query yields: at a multiple of the interval it waits for a trigger."""
        if until_ns % INTERVAL_NS:
            return self._clock.sleep(until_ns)
        life = self._batches._life

        def comes() -> bool:
            if life != self._batches._life:
                return True  # its driver is dead: it sees that
            came, self.left = self.left > 0, max(0, self.left - 1)
            return came

        return self._clock.when(comes)


class Batches(Recovering):
    """One laboratory with a query."""

    def begin(self) -> None:
        self.batches: Any = self.lab.crash.batches
        self.triggers = self.batches.clock = _Triggers(self.batches, self.lab.clock)
        self.ranges: dict[int, list[int]] = {source.partition.number: [] for source in self.plane.sources}
        self.before(self.batches, "_follow", "begins")
        open_stage = self.batches._open_stage

        def opens(stage: int) -> None:
            self.note("stage")
            if stage == self.batches._last:
                self.note("sinks")
            open_stage(stage)

        self.batches._open_stage = opens
        self._committed = self._emitted()
        self._interrupted: list[int] | None = None  # the range of a batch that has to run again
        emit, complete, dies = self.batches._emit, self.plane.complete_checkpoints, self.batches.dies

        def emits() -> None:
            emit()
            for source in self.plane.sources:
                self.ranges[source.partition.number].append(source.emitted)

        def completes(partitions: Any) -> None:
            complete(partitions)
            self._check_commit()

        def ends() -> None:
            if self._interrupted is None and self._emitted() != self._committed:
                self._interrupted = self._emitted()
            dies()

        self.batches._emit, self.batches.dies = emits, ends
        self.plane.complete_checkpoints = completes  # type: ignore[method-assign]
        self.batches.start()

    def act(self, what: str) -> None:
        if what == TRIGGER:
            self.triggers.left += 1
        else:
            self.met["the driver ends alone"] += 1
            self.lab.clock.process(self.lab.failures._driver(self.lab.clock.now_ns()))

    def _emitted(self) -> list[int]:
        return [source.emitted for source in self.plane.sources]

    def _check_commit(self) -> None:
        """Check that all of the ranges so far is in what counts now, and nothing else is."""
        total = self.total()
        if self._interrupted not in (None, self._emitted()):
            self.faults["a batch runs again with another range"] += 1
        self._committed, self._interrupted = self._emitted(), None
        for partition in (*self.seen.owners(), *self.seen.sinks):
            has = set(partition.applied) if partition.operator.is_sink else stored(partition)
            if has != total[partition.group.number]:
                self.faults[f"a batch is committed that {partition.name} has not done"] += 1

    def check_saved(self) -> list[str]:
        return self.check_cut(kept_twice=True)

    def heal(self) -> None:
        for _ in range(ROUNDS):
            if not self.left_to_do:
                return
            self.triggers.left += 1
            self.steps()

    @property
    def left_to_do(self) -> bool:
        """Return whether a source has something that is not committed."""
        # What is committed may be kept for longer: a failure right after the commit makes sources not hear of it.
        kept = (
            (receiver, row.id)
            for one in self.plane.sources
            for receiver, rows in one.partition.kept.items()
            for row in rows
        )
        return any(one.lag(0) for one in self.plane.sources) or any(one not in stored(at) for at, one in kept)

    def may_pause(self, task: Any) -> bool:
        return True  # until its stage begins

    def check_rest(self) -> None:
        self.met["batches"] += max(map(len, self.ranges.values()))
        if self.left_to_do:
            self.faults["no batch has what is left"] += 1
        for partition in (*self.seen.owners(), *self.seen.sinks):
            numbers = [self._batch_of(partition.group.number, one) for one in partition.applied]
            if numbers != sorted(numbers):
                self.faults[f"{partition.name} does a batch before an earlier one"] += 1

    def _batch_of(self, group: int, tuple_id: int) -> int:
        """Return the batch that a tuple belongs to; of a join's outputs 0, since they follow from two tuples."""
        found: tuple[Path, int] | None = self.seen.lineage.path.get((group, tuple_id))
        if found is None:
            return 0
        (source, *_), sequence = found
        return bisect_right(self.ranges[source], sequence)
