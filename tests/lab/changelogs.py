"""Jobs whose states are restored from changelogs, or go on at standbys, under the scheduler.

Steps beside those of other laboratories: a partition commits; a restore beside the tasks of its host ends, or the copy
of a standby; a round of commits begins for which sinks wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from lab.engines import Rules
from lab.invariants import Covered
from lab.job import Job, random_job
from lab.recovering import Case, Recovering, drawn_case, drawn_crashes
from lab.shapes import CHAIN, REGIONS, SHAPES
from lab.stepped_restores import SteppedRestores

JOBS, ROUNDS = 120, 4
COMMIT, ROUND = "commit", "round"
DRAWN = [CHAIN, CHAIN, *SHAPES, *REGIONS]
AFTER = {
    "step": (5, 20, 40, 60, 90),
    "taken": (1, 2, 3, 5),
    "stored": (1, 2, 3, 5),
    "detected": (1, 1, 2),
    "assigned": (1, 2, 3),
    "reads": (1, 1, 2, 3),  # during a restore, or while a copy is made
    "installed": (1, 1, 2),
    "replayed": (1, 1, 2),
}


@cache
def job_of(number: int) -> Job:
    """Return one of the jobs."""
    draw = Random(f"changelogs {number}")
    job = random_job(draw.randrange(24), draw.choice([1, 2]), draw.choice([1, 2, 3]), draw.choice([1, 2]), (2, 4, 8))
    rules = Rules(
        "changelog",
        guarantee=draw.choice(["exactly-once", "at-least-once"]),
        slow=draw.random() < 0.5,
        noticed=draw.random() < 0.5,
        asynchronous=draw.random() < 0.3,
        standbys=draw.choice([0, 1, 1, 2, 2]),
        committed=draw.random() < 0.4,
    )
    hosts, shape = draw.choice([3, 4, 5, 9]), DRAWN[number % len(DRAWN)]
    return replace(job, shape=shape, rules=rules, hosts=hosts, seed=number, writes=draw.random() < 0.9)


def drawn(kind: str, seed: int) -> Case:
    """Return the case of a seed."""
    draw = Random(f"changelogs case {seed}")
    job = job_of(draw.randrange(JOBS))
    crashes = drawn_crashes(draw, (0, 1, 1, 2, 2, 3), AFTER)
    return drawn_case(draw, kind, seed, job, crashes, _acts(draw))


def _acts(draw: Random) -> Iterator[tuple[str, int]]:
    for _ in range(draw.choice([1, 2, 3, 4])):
        yield COMMIT, draw.choice([0, 10, 30, 60, 100])
    for _ in range(draw.choice([0, 1, 2])):
        yield ROUND, draw.choice([10, 40, 80])


class Changelogs(Recovering):
    """One laboratory with commits, changelogs and standbys."""

    def begin(self) -> None:
        self.method: Any = self.lab.recovery.method
        self.readers: Any = self.lab.readers
        threads = [group.cores for group in self.lab.plan.host_groups]
        self.restores = SteppedRestores(self.lab.clock, threads, lambda: self.note("reads"))
        self.method.restores = self.method.standbys._restores = self.restores
        self.rounds, self.workers = 0, self._workers()
        self.due: set[int] = set()  # partitions that have not committed since the round began
        clock: Any = self.lab.clock
        clock.timeout = lambda _: clock.when(self._begins_round)
        if self.rules.committed:
            stored, delivery, opens = self.lab.stored, self.plane.recorder.delivery, self.readers._open_if_all
            known = self.readers._due

            def is_stored(partition: int, slot: int) -> None:
                self.due.discard(partition)
                stored(partition, slot)

            def delivers(*its: Any) -> None:
                if self.due:
                    self.faults["a sink takes what is not committed"] += 1
                delivery(*its)

            def looks() -> None:
                nonlocal known
                if self.readers._due is not known:  # a round begins
                    self.due = {one for one in self.readers._commit if self.cluster.partition_live[one]}
                    known = self.readers._due
                opens()

            self.readers._open_if_all = looks
            self.lab.stored = is_stored  # type: ignore[method-assign]
            self.plane.recorder.delivery = delivers  # type: ignore[method-assign]
        self.method.start()
        self.readers.start()

    def _workers(self) -> set[int]:
        """Return the hosts that may have states: those that do not have sources and sinks alone at the start."""
        tasks = [task for task in self.plane.tasks if not (task.operator.is_source or task.operator.is_sink)]
        hosts = range(len(self.cluster.host_alive))
        return {*hosts} - {task.host.index for task in self.plane.tasks} | {task.host.index for task in tasks}

    def _begins_round(self) -> bool:
        """Return whether a round of commits begins."""
        begins, self.rounds = self.rounds > 0, max(0, self.rounds - 1)
        return begins

    def act(self, what: str) -> None:
        if what == ROUND:
            self.rounds += self.rules.committed
            return
        for partition in self.lab.saved_partitions:
            self.lab.clock.add_fault("save", lambda partition=partition: self._save(partition))  # type: ignore[misc]

    def _save(self, partition: int) -> None:
        self._checked = False
        self.lab.save(partition)

    def check_saved(self) -> list[str]:
        found = Covered().check(self.seen)
        for threads in self.restores._threads.values():
            if any(one.copy for one in threads.at_work) and not all(one.copy for one in threads.restores):
                found.append("a copy is read while a state is restored")
        if self.rules.committed:
            sinks = [task for task in self.plane.tasks if task.alive and task.operator.is_sink]
            found += ["a sink stays open" for task in sinks if not task.paused_until_ns]
        return found

    def heal(self) -> None:
        for _ in range(ROUNDS):
            self.act(ROUND)
            self.steps()
            self.act(COMMIT)
            self.steps()

    def may_die(self, host: int) -> bool:
        """Somebody who may have states has to go on."""
        workers = [one for one in self.method.workers if self.cluster.host_alive[one]]
        return super().may_die(host) and workers != [host]

    def may_pause(self, task: Any) -> bool:
        return bool(self.rules.committed and task.operator.is_sink)

    def check_rest(self) -> None:
        standbys = self.method.standbys
        alive = [one for one in sorted(self.workers) if self.cluster.host_alive[one]]
        for partition, copies in standbys._of.items():
            hosts = Counter(one.host for one in copies)
            others = set(alive) - {self.cluster.host_of(partition)}
            name = self.cluster.partition_name(partition)
            if self.cluster.host_of(partition) not in self.workers:
                self.faults[f"{name} is where topics are"] += 1
            if set(hosts) - others:
                self.faults[f"a standby of {name} is where it has no place"] += 1
            if hosts.total() != min(self.rules.standbys, len(others)) or hosts.total() != len(hosts):
                self.faults[f"{name} has too few standbys"] += 1
            if not all(one.complete for one in copies):
                self.faults[f"a standby of {name} is never complete"] += 1
            self.met["standbys"] += len(copies)
        for source in self.plane.instances():
            if any(source.kept.values()):
                self.faults["outputs are kept for ever"] += 1
