"""Jobs whose checkpoints barriers take, and whose failover regions are restarted, under the scheduler.

Steps beside those of other laboratories: a checkpoint begins, once one may; one expires; barriers begin to overtake.
The first two are faults of a case, since they would come for ever. Restarts in vain end with steps as well: a host that
is dead counts for so many of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from lab.engines import STRATEGIES, Rules
from lab.job import Job, random_job
from lab.recovering import Case, Recovering, drawn_case, drawn_crashes
from lab.shapes import CHAIN, REGIONS, SHAPES
from lab.sharing import Sharing
from lab.transactions import Transactions
from sim.clock import Process
from sim.control.barriers import JobCheckpoint

JOBS = 120  # different ones of each kind: each is worked out once
CHECKPOINT, EXPIRE = "checkpoint", "expire"
DRAWN = [CHAIN, CHAIN, *SHAPES, *REGIONS]
AFTER = {
    "step": (5, 20, 40, 60, 90),
    "message": (1, 2, 3, 5, 8, 12),  # during alignment
    "taken": (1, 1, 2, 3),  # during uploads
    "stored": (1, 1, 2, 3),
    "completed": (1, 1, 2),  # before sources have forgotten
    "detected": (1, 1, 2),  # a second time, before the restart
    "slots": (1, 1, 2),  # a second time, while tasks start
    "assigned": (1, 2, 5),
    "installed": (1, 1, 2, 3),  # a second time, during the restore
    "replayed": (1, 1, 2),
}


@cache
def job_of(kind: str, number: int) -> Job:
    """Return one of the jobs of a kind."""
    draw = Random(f"{kind} {number}")
    shape = DRAWN[number % len(DRAWN)]
    job = random_job(draw.randrange(24), draw.choice([1, 2]), draw.choice([1, 2, 3]), draw.choice([1, 2]), (2, 4, 8))
    unaligned = kind == "unaligned"
    rules = Rules(
        "region-restart",
        guarantee="at-least-once" if kind == "at-least-once" else "exactly-once",
        unaligned=unaligned,
        aligned_first=unaligned and draw.random() < 0.5,
        tolerated=draw.choice([None, None, 0, 1]),
        strategy=draw.choice(["", *STRATEGIES]),
        slow=draw.random() < 0.5,
        noticed=draw.random() < 0.5,
        asynchronous=draw.random() < 0.3,
        local=draw.random() < 0.3,
        commits=kind != "at-least-once" and draw.random() < 0.4,
    )
    buffer = draw.choice([None, 1, 2]) if unaligned else draw.choice([None, None, None, 2])
    return replace(job, shape=shape, buffer=buffer, rules=rules, hosts=draw.choice([3, 4, 5, 9]), seed=number)


@cache
def shared_job_of(number: int) -> Job:
    """Return one of the jobs whose tasks share the store, or have several checkpoints at a time."""
    draw = Random(f"shared {number}")
    its = job_of(draw.choice(["aligned", "aligned", "unaligned"]), number)
    assert its.rules is not None
    rules = replace(
        its.rules,
        uploads=draw.choice(["shared", "shared", "in-turn"]),
        restores=draw.choice(["shared", "shared", "in-turn"]),
        local=draw.random() < 0.5,
        concurrent=1 if its.rules.unaligned else draw.choice([1, 2, 2, 3]),
    )
    groups = draw.choice([1, 2, 3, 4])
    return replace(its, rules=rules, groups=groups, tasks=draw.choice([1, 2]), seed=number)


def drawn(kind: str, seed: int) -> Case:
    """Return the case of a seed."""
    draw = Random(f"{kind} case {seed}")
    number = draw.randrange(JOBS)
    job = shared_job_of(number) if kind == "shared" else job_of(kind, number)
    crashes = drawn_crashes(draw, (0, 1, 1, 2, 2, 3), AFTER)
    assert job.rules is not None
    several = job.rules.concurrent > 1
    return drawn_case(draw, kind, seed, job, crashes, several_acts(draw) if several else _acts(draw), (1, 1, 20, 100))


def _acts(draw: Random) -> Iterator[tuple[str, int]]:
    for _ in range(draw.choice([1, 2, 3, 5])):
        yield CHECKPOINT, draw.choice([0, 10, 30, 60, 100])
    for _ in range(draw.choice([0, 0, 1, 2])):
        yield EXPIRE, draw.choice([20, 40, 80])


def several_acts(draw: Random) -> Iterator[tuple[str, int]]:
    """Yield checkpoints that come close to each other, so that several are under way, of which some expire."""
    at = draw.choice([0, 10, 30, 60])
    for k in range(draw.choice([3, 4, 6])):
        yield CHECKPOINT, at + 5 * k
    for _ in range(draw.choice([0, 1, 1, 2, 3])):
        yield EXPIRE, at + draw.choice([10, 15, 20, 30, 40])


class Barriers(Recovering):
    """One laboratory with checkpoints of the job."""

    def begin(self) -> None:
        self.wanted = 0  # checkpoints that may begin
        self.expiring: set[int] = set()  # tokens of those that have expired
        barriers: Any = self.lab.barriers
        begins, expires, trigger = barriers._begins, barriers._expires, barriers._trigger
        clock = self.lab.clock

        def begin(at_ns: int, turn: int) -> Process:
            process = begins(at_ns, turn)
            next(process)
            yield clock.when(lambda: self.wanted > 0)
            yield from process

        def expire(checkpoint: JobCheckpoint, at_ns: int) -> Process:
            process = expires(checkpoint, at_ns)
            next(process)
            yield clock.when(lambda: checkpoint.token in self.expiring or self._is_stuck(checkpoint))
            yield from process

        def triggers(stops: Any = None) -> None:
            self.wanted -= stops is None  # a savepoint is asked for by somebody else
            self.note("triggered")
            trigger(stops)

        barriers._begins, barriers._expires, barriers._trigger = begin, expire, triggers
        self.sinks = Transactions(self.lab, early=self.says_it_early) if self.rules.commits else None
        self.sharing = Sharing(self.lab, self.note)
        barriers.start()

    @property
    def says_it_early(self) -> bool:
        """Return whether what a sink gets again may come behind the barrier of the next checkpoint."""
        return self.rules.unaligned or bool(self.rules.reading)

    def _is_stuck(self, checkpoint: JobCheckpoint) -> bool:
        """Return whether a checkpoint is open and nothing is left to come."""
        clock = self.lab.clock
        stuck = checkpoint.outcome == "open" and not clock.lanes and not clock._go_on
        if stuck:
            self.faults["a checkpoint does not end"] += 1
        return stuck

    def act(self, what: str) -> None:
        if what == CHECKPOINT:
            self.wanted += 1
        else:
            for one in self._all():
                if one.outcome == "open" and one.token not in self.expiring:
                    self.expiring.add(one.token)
                    self.met["expired"] += 1
                    return

    def _all(self) -> list[JobCheckpoint]:
        return [*self.lab.barriers._of_token.values()]

    def check_saved(self) -> list[str]:
        found = self.check_cut(kept_twice=not self.rules.unaligned) + self.sharing.faults
        if self.sinks is not None:
            found += self.sinks.faults
        if self.exactly_once:
            # Of the parts of one checkpoint nobody sends twice what another one has: a cut is consistent.
            sinks = {one.operator.name for one in self.seen.sinks}
            for operator in self.refused() - sinks:
                if self.rules.unaligned or not self.reads_sources(operator):
                    found.append(f"{operator} has dropped something that came twice")
        return found

    def heal(self) -> None:
        for _ in range(2):
            self.wanted += 1
            self.steps()

    def may_repeat(self) -> bool:
        return bool(self.case.crashes) or bool(self.met["expired"])

    def check_rest(self) -> None:
        self.met["completed checkpoints"] += sum(one.outcome == "completed" for one in self._all())
        self.met["aborted checkpoints"] += sum(one.outcome == "aborted" for one in self._all())
        self.met["subsumed checkpoints"] += sum(one.outcome == "subsumed" for one in self._all())
        ends = [one.completed_ns for one in self._all() if one.outcome == "completed"]
        if ends != sorted(ends):
            self.faults["a checkpoint is complete after a later one"] += 1
        if self.wanted:
            self.faults["no checkpoint begins any more"] += 1
        elif [one.outcome for one in self._all()][-2:] != ["completed"] * 2:
            self.faults["a checkpoint is not complete at rest"] += 1
        if self.sinks is not None:
            visible = Counter(number for number, _ in self.sinks.visible)
            if any(visible[one.number] != len(one.position) for one in self.seen.sinks):
                self.faults["what is delivered is not visible in the end"] += 1
        for source in self.plane.sources:
            if any(source.partition.kept.values()):
                self.faults["sources keep outputs for ever"] += 1
