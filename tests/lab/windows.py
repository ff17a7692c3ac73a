"""Windows in jobs whose checkpoints barriers take, under the scheduler: watermarks leave sources at any step.

The event time of a tuple is its number at its source, so that no clock is needed. A watermark has the number of the
next tuple that the source emits, and at the end a time after all: that ends all windows. Such a job may be rescaled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from lab.barriers import AFTER, CHECKPOINT, EXPIRE, JOBS, job_of
from lab.job import Job
from lab.lineage import Sent
from lab.recovering import Case, drawn_case, drawn_crashes
from lab.scaled import MOST, RESCALE, Scaled
from lab.shapes import KEYED, WINDOW, WINDOWED
from sim.plain.partition import Partition

WATERMARK, ROUNDS = "watermark", 3


@cache
def windowed_job_of(number: int) -> Job:
    """Return one of the jobs."""
    draw = Random(f"windows {number}")
    its = job_of(draw.choice(["aligned", "aligned", "unaligned"]), number)
    assert its.rules is not None
    shape = [*WINDOWED][number % len(WINDOWED)]
    groups, tasks = draw.choice([(1, 1), (2, 2), (MOST, 1), (MOST, 2)]), draw.choice([3, 4, 5])
    return replace(its, shape=shape, groups=groups[0], tasks=groups[1], hosts=tasks, seed=number)


def drawn(kind: str, seed: int) -> Case:
    """Return the case of a seed."""
    draw = Random(f"{kind} case {seed}")
    job = windowed_job_of(draw.randrange(JOBS))
    crashes = drawn_crashes(draw, (0, 1, 1, 2, 2, 3), AFTER | {"watermark": (2, 5, 10, 15), "ends": (1, 2, 4)})
    return drawn_case(draw, kind, seed, job, crashes, _acts(draw, job), (1, 1, 20, 100))


def _acts(draw: Random, job: Job) -> Iterator[tuple[str, int]]:
    for _ in range(draw.choice([1, 2, 3, 5])):
        yield CHECKPOINT, draw.choice([0, 10, 30, 60, 100])
    for _ in range(draw.choice([0, 0, 1])):
        yield EXPIRE, draw.choice([20, 40, 80])
    for _ in range(draw.choice([2, 4, 6, 8])):
        yield WATERMARK, draw.choice([2, 5, 10, 20, 30, 40, 60, 80])
    keyed = [name for name, node in job.dataflow.items() if node.kind in (KEYED, WINDOW)]
    if draw.random() < 0.3:
        yield f"{RESCALE} {draw.choice(keyed)} {draw.randint(1, job.groups)}", draw.choice([20, 40, 60, 90])


class Windowed(Scaled):
    """One laboratory with checkpoints of the job, and windows that end."""

    def begin(self) -> None:
        super().begin()
        watermarks: Any = self.plane.watermarks
        self.watermarks = watermarks
        self.before(watermarks, "turn", "watermark")
        end = watermarks._end_windows

        def ends(task: Any, partitions: list[Partition]) -> None:
            windows = task.operator.windows
            opened = [(one, window) for one in partitions for window in one.time.windows]
            if any(windows.end_ns(window) <= one.time.event_ns for one, window in opened):
                self.note("ends")
            end(task, partitions)

        watermarks._end_windows = ends

    def act(self, what: str) -> None:
        if what != WATERMARK:
            super().act(what)
            return
        for partition in [source.partition for source in self.plane.sources]:
            self.lab.clock.add_fault(WATERMARK, lambda one=partition: self._leaves(one))  # type: ignore[misc]

    def _leaves(self, partition: Partition) -> None:
        """Let a source send a watermark, as at a tick of the clock."""
        task = partition.task
        if partition.live and not task.paused_until_ns:
            here = [one for one in self.plane.sources if one.partition.task is task and one.partition.live]
            self.watermarks._rise(task, min(one.promise_ns(0) for one in here))

    @property
    def says_it_early(self) -> bool:
        return True  # a window that is open again may end behind the next barrier

    def check_saved(self) -> list[str]:
        late = ["a tuple came behind its watermark"] if self.watermarks.late else []
        return super().check_saved() + late

    def makes(self, partition: Partition, has: set[int], fresh: set[int]) -> set[Sent]:
        """Return what the windows make that are open in the checkpoint, or that fresh tuples open."""
        windows = partition.operator.windows
        if windows is None:
            return super().makes(partition, has, fresh)
        lineage, number, checkpoint = self.seen.lineage, partition.group.number, partition.checkpoint
        time = checkpoint.time if checkpoint else None
        opened = {(window, key) for window, keys in (time.windows if time else {}).items() for key in keys}
        for tuple_id in fresh:
            created_ns, key = lineage.content[number, tuple_id]
            first = max(windows.first(created_ns), windows.first(time.event_ns if time else 0))
            opened |= {(window, key) for window in range(first, windows.last(created_ns) + 1)}
        return {sent for at in opened for sent in lineage.of_windows.get((number, *at), ())}

    def heal(self) -> None:
        for _ in range(ROUNDS):
            self.act(WATERMARK)
            self.steps()
        super().heal()

    def check_rest(self) -> None:
        super().check_rest()
        if any(one.time.windows for one in self.seen.owners()):
            self.faults["a window does not end"] += 1
