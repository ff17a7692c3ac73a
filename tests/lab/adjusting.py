"""Operators that are adjusted as a whole, under the scheduler of trimming by acks: with crashes of each role.

All that happens in `lab.slicing` may happen meanwhile: slices end, acks are sent, checkpoints are due, hosts die. Run
one: `PYTHONPATH=tests python -m lab.adjusting --seed 17`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

from lab.job import Job
from lab.scheduler import Chooser, Seeded
from lab.shapes import CHAIN
from lab.slicing import AFTER, BEYOND, BOLD, BUSY, DEPTHS, WITHIN, Aim, Crash, Slicing, Tamper
from lab.slicing import job_of as plain_job
from sim.migration.adjustment import AdjustmentRun
from sim.migration.protocols.oap import OAP

ROLES = ("old", "new", "stays", "upstream", "downstream", "former", "holder")
MESSAGES = tuple(sorted(name.removeprefix("on_") for name in vars(OAP) if name.startswith("on_")))
LAST = frozenset({"goes_on", "gone"})  # a crash after the last of them is one beside no run
OF_LITERAL = (
    "keeps outputs for ever",
    "what was lost is not what lacks at the end",
    "the ledger does not say what is lost",
)
"""What an output leads to that is kept for somebody who was never sent it: nothing behind it is trimmed, and the rules
take it for one that is to come."""
SHAPES = (CHAIN, CHAIN, "fan_out", "diamond", "fan_in", "unkeyed")
JOBS, BOUNDED, JOINS = range(120), range(120, 160), range(160, 200)
OTHERS = {"bounded": BOUNDED, "joins": JOINS}


@dataclass(frozen=True)
class Wish:
    """Somebody wants an operator to have so many tasks, after so many events of a kind."""

    event: str
    after: int
    operator: str
    parallelism: int


@dataclass(frozen=True)
class OnSlowLinks(Aim):
    """An aim whose schedules have links that are shared evenly, on which one channel may be much later than others."""


@dataclass(frozen=True)
class Again(Aim):
    """An aim whose schedules have several adjustments, each by new checkpoints."""


ANY = ("any", *ROLES, *ROLES)
AIMS = (
    Aim(("protocol",), ANY, (0, 1, 1, 2), **BUSY),  # type: ignore[arg-type]
    Aim(("protocol", "step", "stored", "taken"), ANY, (1, 1, 2, 3), (0.4, 0.6), (40, 80)),
    # Trims that come late find buffers that are split.
    Aim(("trim", "protocol"), ("upstream", "new", "downstream"), (1, 1, 2), (0.6, 0.8), (80, 150)),
    # What comes back from a checkpoint was made before.
    Aim(("own", "own", "restored"), ("new", "upstream", "downstream", "the last"), (1, 2), **BUSY),  # type: ignore[arg-type]
    Aim(("protocol",), ("upstream",), (1,), (0.6, 0.8), (80, 150)),
    # What an old instance has made may not have left when its host dies.
    Aim(("gone", "switched", "let_go"), ("former", "old"), (1, 1, 2), (0.2, 0.6), (40, 80)),
    # Who has got everything from whom matters when a task upstream dies in between.
    Aim(("received", "resent", "resent"), ("upstream",), (1,), **BUSY),  # type: ignore[arg-type]
    OnSlowLinks(("own",), ("upstream",), (1,), jobs=lambda job: bool(job.stateless), **BUSY),  # type: ignore[arg-type]
    # Checkpoints are lost with the hosts that hold them.
    Aim(("stored", "adjust", "partition_state"), ("holder",), (1, 1, 2), jobs=lambda job: job.store == "nodes", **BUSY),  # type: ignore[arg-type]
    # A run is undone while checkpoints are under way.
    Again(("taken",), ("new", "upstream", "downstream"), (1, 2), **BUSY),  # type: ignore[arg-type]
    Aim(("protocol",), ("none",), (0,), (0.4, 0.8), (40, 100)),
)


def job_of(number: int) -> Job:
    """Return one of the jobs: with key groups that may go from task to task."""
    draw = Random(f"adjusting {number}")
    shape = ("join", "join_between")[number % 2] if number in JOINS else SHAPES[number % len(SHAPES)]
    job = replace(plain_job(draw.randrange(120)), shape=shape, groups=draw.choice([2, 2, 3, 4]), seed=number)
    movable = draw.choice(job.movable)  # there is one at least
    stateless = tuple(name for name in job.stateful if name not in (movable, "pairs") and draw.random() < 0.4)
    levels = draw.choice([2, 2, 2, 3])
    tasks = sum(job.sources if node.kind == "source" else job.groups for node in job.dataflow.values())
    return replace(
        job,
        tasks=draw.choice([1, 2, 2, 3, 4]),
        stateless=stateless,
        levels=min(levels, job.stages + 1 if shape == CHAIN else DEPTHS[shape]),
        hosts=tasks + 2,
        buffer=draw.choice([1, 2]) if number in BOUNDED else None,
        store="remote" if draw.random() < 0.7 else "nodes",
    )


@cache
def _numbers(aim: Aim) -> list[int]:
    """Return the numbers of the jobs that are aimed at."""
    return [number for number in JOBS if aim.jobs(job_of(number))]


class Adjusting(Slicing):
    """One laboratory in which operators are adjusted."""

    def __init__(
        self,
        job: Job,
        chooser: Chooser,
        draw: Random,
        assumption: str = WITHIN,
        stepped_links: bool = False,
        fair_links: bool = False,
        tamper: Tamper | None = None,
    ) -> None:
        super().__init__(job, chooser, draw, assumption, stepped_links, fair_links, tamper)
        self.lossy = self.lossy or job.adjustment[1] == "literal"
        if job.adjustment[1] == "literal":
            self.rules._safe = False  # outputs that nobody sends again could never be acknowledged
        self.wishes: list[Wish] = []
        self.last_message = "no message"

    @classmethod
    def drawn(  # type: ignore[override]
        cls,
        seed: int,
        adjustment: tuple[str, str] | None = None,
        assumption: str = WITHIN,
        tamper: Tamper | None = None,
        jobs: str = "",
        aim: Aim | None = None,
    ) -> Adjusting:
        """Return that of a seed; which checkpoint is split, and at what it is aimed, it draws, if nobody says it."""
        draw = Random(f"adjusting {assumption} {seed}")
        aim = aim or AIMS[seed % len(AIMS)]
        number = draw.choice(OTHERS[jobs] if jobs else _numbers(aim))
        kind = draw.choice(["new"] if isinstance(aim, Again) else ["last", "last", "new"]), "safe"
        job = replace(job_of(number), adjustment=adjustment or kind)
        slow = isinstance(aim, OnSlowLinks)
        if slow:  # several targets, for which much is kept
            job = replace(job, tasks=1, groups=4, tuples=10, hosts=job.hosts + 4, levels=2)
        stepped, fair = slow or draw.random() < 0.6, slow or draw.random() < 0.5
        one = cls(job, Seeded(seed), draw, assumption, stepped, fair, tamper)
        one.pace, one.acts_left = draw.choice(aim.pace), draw.choice(aim.acts)
        names = [name for name in job.movable if name not in job.stateless]
        for _ in range(draw.choice([3, 4] if isinstance(aim, Again) else [1, 1, 2, 3])):
            event, after = draw.choice([("step", 3), ("step", 20), ("step", 50), ("stored", 1), ("trim", 1)])
            one.wishes.append(Wish(event, after, draw.choice(names), draw.randint(4 if slow else 1, job.groups)))
        for _ in range(draw.choice(aim.crashes)):
            event = draw.choice(aim.events)
            most: Any = {"protocol": 60, "own": 4, "gone": 2, "switched": 4, "let_go": 2, "received": 3, "adjust": 6}
            most = most.get(event)
            after = draw.randint(1, most) if most else draw.choice(AFTER.get(event, (1, 2, 4, 8)))
            one.crashes.append(Crash(event, after, draw.choice(aim.roles), draw.choice([None, 1, 1, 10**15])))
        return one

    # -- steps

    def _watch(self) -> None:
        super()._watch()
        runtime: Any = self.lab.coordinator.runtime
        self._before(self.lab.plane, "own", "own")
        self._before(self.lab.plane, "retire", "retire")
        deliver = runtime.deliver

        def delivers(message: Any) -> None:
            deliver(message)
            # Whatever the run does next, a crash may come before it.
            if message.kind in MESSAGES and not runtime.runs[message.run].over:
                self.last_message = message.kind
                self._note(message.kind)
                self._note("protocol")

        runtime.deliver = delivers

    def _note(self, event: str) -> None:
        super()._note(event)
        self._copies = self._copies or event in ("own", "retire")
        for wish in [one for one in self.wishes if one.event == event and self.met[event] >= one.after]:
            self.wishes.remove(wish)
            self.lab.clock.add_fault("adjust", lambda wish=wish: self._wish(wish))

    def _wish(self, wish: Wish) -> None:
        operator = [one.name for one in self.lab.plan.operators].index(wish.operator)
        self.lab.rescaling.rescale(operator, wish.parallelism, "oap")

    def crash(self, host: int, repair_ns: int | None) -> None:
        for role in self._roles_at(host):
            self.met[f"crash of {role} after {self.last_message}"] += 1
        super().crash(host, repair_ns)

    def _plays(self, host: int, role: str) -> bool:
        if role in ROLES:
            return role in self._roles_at(host)
        return super()._plays(host, role)

    @property
    def _run(self) -> AdjustmentRun | None:
        """The first run that is open."""
        runs = [run for run in self.lab.coordinator.open.values() if isinstance(run, AdjustmentRun)]
        return runs[0] if runs else None

    def _roles_at(self, host: int) -> set[str]:
        run, host_of = self._run, self.lab.cluster.task_host
        over = [part for one in self.lab.adjustments.runs if one.over_ns is not None for part in one.plan.parts]
        found = {"former"} if any(host_of[part.source] == host for part in over) else set[str]()
        owners = [one.owner for one in self.lab.plane.all_partitions()]
        if any(one.checkpoint and one.checkpoint.host == host and one.operator.description.movable for one in owners):
            found.add("holder")
        if run is None:
            return found
        plan = run.plan
        moving = {part.source for part in plan.parts} | set(plan.targets)
        tasks = {
            "old": [part.source for part in plan.parts],
            "new": plan.targets,
            "stays": [task for task in plan.members if task not in moving],
            "upstream": plan.upstream,
            "downstream": plan.downstream,
        }
        return found | {role for role, its in tasks.items() if any(host_of[task] == host for task in its)}

    # -- the run

    def _check_ledger(self, lost: set[tuple[int, int]]) -> None:
        """Only at rest: what an old instance has counts as on its way to the new one until it ends."""
        if not self.lab.coordinator.open:
            super()._check_ledger(lost)

    def _steps(self) -> None:
        super()._steps()
        self.moved = {part.group for run in self.lab.adjustments.runs for part in run.plan.parts}

    def _check_rest(self) -> None:
        for _wish in self.wishes:  # whose event has not come
            self.met["wishes that were not made"] += 1
        super()._check_rest()
        if self.lab.moving:
            self.faults["an adjustment does not end"] += 1
        if any(task.paused_until_ns for task in self.lab.plane.tasks if task.alive):
            self.faults["a task stays paused"] += 1
        runs = self.lab.adjustments.runs
        self.met["adjustments"] += len(runs)
        self.met["adjustments that were undone"] += sum(run.over_ns is None for run in runs)
        self.met["adjustments that were finished after a crash"] += sum(
            run.over_ns is not None and run.completed_ns is None for run in runs
        )
        if not self.faults and not any(what.startswith("crash of") for what in self.met):
            self._check_places()

        if self.lab.job.adjustment[1] == "literal" and any("keeps outputs for ever" in what for what in self.faults):
            for what in [what for what in self.faults if any(part in what for part in OF_LITERAL)]:
                del self.faults[what]

    def _check_places(self) -> None:
        """Without a crash each key group is at its task, and the operator has as many as were asked for last."""
        cluster, plan = self.lab.cluster, self.lab.plan
        for run in self.lab.adjustments.runs[-1:]:
            operator, asked = run.plan.operator, run.asked
            assert asked is not None
            first = plan.first_partition[operator]
            for group in range(first, plan.first_partition[operator + 1]):
                host = cluster.host_of(cluster.owner_of(group))
                later = any(one.plan.operator == operator for one in self.lab.adjustments.runs[-1:])
                if later and host != asked.hosts[(group - first) % len(asked.hosts)]:
                    self.faults[f"{cluster.partition_name(group)} is not where it was to go"] += 1


def with_tasks_that_stay(job: Job) -> bool:
    """Return whether one task more or less leaves others as they are."""
    return (job.groups, job.tasks) in ((4, 3), (4, 4))


def campaign(
    seeds: range, adjustment: tuple[str, str] | None = None, assumption: str = WITHIN, jobs: str = ""
) -> Counter[str]:
    """Run the schedules of these seeds; return what they have met."""
    met = Counter[str]()
    for seed in seeds:
        one = Adjusting.drawn(seed, adjustment, assumption, jobs=jobs)
        faults = one.run()
        said = "" if adjustment is None else f" --checkpoint {adjustment[0]} --reading {adjustment[1]}"
        options = f"--assumption {assumption}{said}{' --jobs ' + jobs if jobs else ''}"
        assert faults == [], f"PYTHONPATH=tests python -m lab.adjusting --seed {seed} {options}: {faults}"
        met.update(one.met)
        met.update(one.rules.met)
        met["schedules that lose"] += bool(one.met["lost"])
    return met


def main() -> int:
    """Return 1 if the schedule is at fault."""
    from lab.broken_adjustments import HARMLESS, MUTANTS  # noqa: PLC0415 - they import this module

    parser = argparse.ArgumentParser(prog="python -m lab.adjusting", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", choices=["last", "new"])
    parser.add_argument("--reading", choices=["safe", "literal"], default="safe")
    parser.add_argument("--assumption", choices=[WITHIN, BOLD, BEYOND], default=WITHIN)
    parser.add_argument("--jobs", choices=[*OTHERS], default="")
    parser.add_argument("--mutant", help="break this on purpose", choices=[*MUTANTS, *HARMLESS])
    asked = parser.parse_args()
    kind = (asked.checkpoint, asked.reading) if asked.checkpoint else None
    tamper = (MUTANTS | HARMLESS).get(asked.mutant)
    one = Adjusting.drawn(asked.seed, kind, asked.assumption, tamper, asked.jobs)
    faults = one.run()
    lost = f", {one.met['lost']} lost" if one.met["lost"] else ""
    print(f"{one.lab.job}\n{one.lab.clock.now_ns()} steps{lost}: {'; '.join(faults) or 'nothing is wrong'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
