"""Jobs whose sources read files or polls, under the scheduler: what has come is read, and read again, at any step.

Steps beside those of other barriers: a file is complete, which is a fault of the case, since files would come for ever;
a file or a poll has been read; something has come for a source that had nothing left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from random import Random
from typing import Any

from lab.barriers import AFTER, CHECKPOINT, EXPIRE, JOBS, Barriers, job_of, several_acts
from lab.job import Job
from lab.lineage import Sent
from lab.recovering import Case, drawn_case, drawn_crashes
from sim.clock import Process
from sim.plain.channels import Source

FILE, FILE_NS = "file", 10**9
ORDERS = ("written", "newest-first", "shuffled", "poll 1", "poll 2", "poll 3")


@cache
def read_job_of(number: int) -> Job:
    """Return one of the jobs."""
    draw = Random(f"read {number}")
    its = job_of(draw.choice(["aligned", "aligned", "at-least-once", "unaligned"]), number)
    assert its.rules is not None
    rules = replace(
        its.rules,
        reading=draw.choice(ORDERS),
        slow=draw.random() < 0.7,
        concurrent=1 if its.rules.unaligned else draw.choice([1, 1, 2]),
    )
    return replace(its, tuples=draw.choice([4, 6, 8]), rules=rules, seed=number)


def drawn(kind: str, seed: int) -> Case:
    """Return the case of a seed."""
    draw = Random(f"{kind} case {seed}")
    job = read_job_of(draw.randrange(JOBS))
    crashes = drawn_crashes(draw, (0, 1, 1, 2, 2, 3), AFTER | {"read": (1, 2, 3, 5)})
    return drawn_case(draw, kind, seed, job, crashes, _acts(draw, job), (1, 1, 20, 100))


def _acts(draw: Random, job: Job) -> Iterator[tuple[str, int]]:
    assert job.rules is not None
    if job.rules.concurrent > 1:
        yield from several_acts(draw)
    else:
        for _ in range(draw.choice([1, 2, 3, 5])):
            yield CHECKPOINT, draw.choice([0, 10, 30, 60, 100])
        for _ in range(draw.choice([0, 0, 1])):
            yield EXPIRE, draw.choice([20, 40, 80])
    for _ in range(draw.choice([1, 2, 3, 4])):
        yield FILE, draw.choice([2, 5, 10, 20, 40, 80])


class _Files:
    """The clock of readers: at a multiple of the time of a file one is complete, when the case has one left."""

    def __init__(self, clock: Any) -> None:
        self._clock, self.left = clock, 0
        self.now_ns: Callable[[], int] = clock.now_ns
        self.process = clock.process

    def sleep(self, until_ns: int) -> Any:
        """Return what a process of the readers yields."""
        return self._clock.sleep(until_ns) if until_ns % FILE_NS else self._clock.when(self._comes)

    def _comes(self) -> bool:
        came, self.left = self.left > 0, max(0, self.left - 1)
        return came


class Read(Barriers):
    """One laboratory whose sources read."""

    def begin(self) -> None:
        super().begin()
        self.reading: Any = self.lab.source_reading
        self.files = self.reading.clock = _Files(self.lab.clock)
        self.reading._wake = self._wake
        self.before(self.reading, "_emit", "read")
        self.before(self.lab.recovery, "reads_again", "goes back")
        self.reading.start()

    def _wake(self, reader: Any, _: int) -> Process:
        """Wake a reader when something has come, of which the scheduler does not know before when that is."""
        plane, clock = self.plane, self.lab.clock
        yield clock.when(lambda: plane.arrived(reader.partition, clock.now_ns()) > reader.found)
        self.reading._go(reader)

    def act(self, what: str) -> None:
        if what == FILE:
            self.files.left += 1
        else:
            super().act(what)

    def sent(self, source: Source, first: Sequence[frozenset[Sent]]) -> Iterable[Sent]:
        rows = self.seen.lineage.from_sources[self.plane.sources.index(source)]
        return chain.from_iterable(rows[number] for number in source.emitted_numbers())

    def sent_again(self, source: Source) -> Iterator[Sent]:
        """Yield what a source reads again: all since its position in the checkpoint."""
        rows = self.seen.lineage.from_sources[self.plane.sources.index(source)]
        for piece in self.reading._readers[source.partition.number].emitted:
            for number in range(piece.first, piece.end):
                yield from rows[number]

    def reads_sources(self, operator: str) -> bool:
        return False  # positions are exact: nobody gets anything that it has

    @property
    def in_order(self) -> bool:
        return self.rules.reading not in ("newest-first", "shuffled")

    def heal(self) -> None:
        self.act(FILE)
        self.steps()
        super().heal()

    def check_rest(self) -> None:
        super().check_rest()
        for source in self.plane.sources:
            if source.lag(0):
                self.faults["a source has not read all that there is"] += 1
