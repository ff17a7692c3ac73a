"""A job whose outputs are trimmed by acks under the scheduler: what may happen, and what must hold.

Steps beside those of other laboratories: a slice of one partition ends, one task sends its acks, a checkpoint of one
state is due. All of them come at any time and in any order; acks travel over the channels, and die with their sender,
their receiver, or on the link. Run one: `PYTHONPATH=tests python -m lab.slices --seed 17`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

from lab.acknowledging import AckRules, lost_now
from lab.invariants import AppliedOnce, NothingWaits, OneLives, Seen
from lab.job import Job, random_job
from lab.laboratory import Laboratory
from lab.lineage import Path
from lab.scheduler import Chooser, Listed, Seeded
from lab.shapes import CHAIN
from lab.wholeness import Wholeness
from sim.plain.audit import accounts
from sim.plain.partition import Partition

MOST_STEPS, ROUNDS = 20_000, 40
RETRY = 4  # steps after which a crash that was not allowed is tried again
JOBS = 120  # different ones: each is worked out once
JOINS, BOUNDED = range(JOBS, JOBS + 40), range(JOBS + 40, JOBS + 80)  # further ones: with joins, with bounded queues
OTHERS = {"joins": JOINS, "bounded": BOUNDED}
SHAPES = (CHAIN, CHAIN, CHAIN, "fan_out", "diamond", "fan_in", "mixed", "unkeyed")
DEPTHS = {"fan_out": 3, "diamond": 4, "fan_in": 3, "mixed": 2, "unkeyed": 4, "join": 2, "join_between": 4}
WITHIN, BOLD, BEYOND = "within", "bold", "beyond"
Tamper = Callable[[Laboratory], None]


@dataclass(frozen=True)
class Crash:
    """A host dies after so many events of a kind, or later: one with a task of the role, if such a one may die."""

    event: str
    after: int
    role: str
    repair_ns: int | None
    burst: bool = False  # neighbours die with it, as many as may


ANY_ROLE = ("any", "any", "stateless", "stateful", "keeps most", "next to the last", "the last")
AFTER = {"step": (5, 10, 20, 40, 60, 90), "restored": (1, 1, 2), "trim": (1, 1, 2, 3, 5), "stored": (1, 1, 2, 3)}


@dataclass(frozen=True)
class Aim:
    """The aim of a part of the schedules."""

    events: tuple[str, ...] = ("step", "step", "ack", "trim", "stored", "restored", "round")
    roles: tuple[str, ...] = ANY_ROLE
    crashes: tuple[int, ...] = (1, 1, 2, 3, 4)
    pace: tuple[float, ...] = (0.1, 0.25, 0.4, 0.6)
    acts: tuple[int, ...] = (10, 20, 40, 80)
    burst: bool = False  # with each crash as many neighbours die as may
    jobs: Callable[[Job], bool] = lambda job: True  # that are aimed at


def _is_thin(job: Job) -> bool:
    """Return whether acks have a long way, and few tasks without state have copies."""
    return job.levels > 1 and job.groups == 1 and len(job.stateless) > 1


def _meets(job: Job) -> bool:
    """Return whether outputs of several senders may come in another order after a crash."""
    return job.levels > 1 and job.sources > 1 and bool(job.stateless)


def _mixes(job: Job) -> bool:
    """Return whether states have several senders, whose outputs may come in another order after a crash."""
    first = next(iter(job.stateful))
    return job.levels > 1 and job.sources > 1 and first not in job.stateless


BUSY = {"pace": (0.4, 0.6, 0.8), "acts": (60, 100, 150)}
AIMS = (
    Aim(),
    Aim(**BUSY),  # type: ignore[arg-type]
    # What has just been trimmed is missed if it is lost now.
    Aim(("trim",), ("any", "stateless", "stateful", "keeps most", "next to the last"), (2, 3, 4), **BUSY),  # type: ignore[arg-type]
    # A state comes back from a checkpoint that is just stored, and then who receives its outputs dies.
    Aim(("stored", "taken", "taken", "trim", "restored"), ("stateful", "next to the last", "any"), (2, 3, 4), **BUSY),  # type: ignore[arg-type]
    # One after the other, as soon as that is allowed.
    Aim(("trim", "restored", "restored"), ("next to the last", "the last"), (3, 4, 5), **BUSY),  # type: ignore[arg-type]
    Aim(("trim",), ("stateless", "any"), (1, 2, 3), burst=True, jobs=_is_thin, **BUSY),  # type: ignore[arg-type]
    Aim(("step", "trim"), ("stateless", "any"), (1, 2, 3), jobs=_meets, **BUSY),  # type: ignore[arg-type]
    # A checkpoint is under way when its owner dies, and comes when the owner is back.
    Aim(("taken",), ("just saved",), (1, 2, 3), jobs=_mixes, **BUSY),  # type: ignore[arg-type]
)


def job_of(number: int) -> Job:
    """Return one of the jobs."""
    draw = Random(f"slicing {number}")
    shape = ("join", "join_between")[number % 2] if number in JOINS else SHAPES[number % len(SHAPES)]
    chosen = random_job(draw.randrange(24), draw.choice([1, 1, 2]), draw.choice([1, 2, 3, 3]), 1, (2, 4, 6))
    job = replace(chosen, shape=shape, groups=draw.choice([1, 1, 2]))
    share = draw.choice([0.3, 0.6, 0.6, 1.0])
    stateless = tuple(name for name in job.stateful if draw.random() < share and name != "pairs")
    depth = job.stages + 1 if shape == CHAIN else DEPTHS[shape]
    levels = min(depth, draw.choice([1, 2, 2, 2, 3, 3]))
    tasks = sum(job.sources if node.kind == "source" else job.groups for node in job.dataflow.values())
    return replace(
        job,
        buffer=draw.choice([1, 2]) if number in BOUNDED else None,
        stateless=stateless,
        levels=levels,
        hosts=tasks + draw.choice([1, 2]),
        store="remote" if draw.random() < 0.7 else "nodes",
    )


@cache
def _numbers(aim: Aim) -> list[int]:
    """Return the numbers of the jobs that are aimed at."""
    return [number for number in range(JOBS) if aim.jobs(job_of(number))]


class Slicing:
    """One laboratory with marks, rounds, checkpoints and crashes."""

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
        self.draw, self.assumption = draw, assumption
        self.lab = Laboratory(job, chooser, stepped_links, fair_links=fair_links)
        self.faults, self.met = Counter[str](), Counter[str]()
        self.seen = Seen(self.lab, crashes=0)
        self.lossy = job.reading == "literal"  # or a crash was beyond the bold assumption
        if tamper:
            tamper(self.lab)
        self.rules = AckRules(self.lab, self.seen.lineage, self.faults)
        self.whole = Wholeness(self.lab, self.seen.lineage)
        self.crashes: list[Crash] = []  # that wait for their event
        self.deferred: list[Crash] = []  # that would not be within the assumption
        self.pace, self.acts_left = 0.0, 0  # of marks, rounds and checkpoints: how many by step, and in all
        self.healer: Chooser = chooser
        self.lost: set[tuple[int, int]] = set()
        self.moved: set[int] = set()  # key groups that have gone elsewhere, without a crash
        self._just_saved: Partition | None = None
        self._last: list[int] = []  # partitions that the last crash took
        self._copies = False  # whether a trim, a crash or a restore may have taken the last copy of something
        self._watch()

    @classmethod
    def drawn(
        cls,
        seed: int,
        reading: str = "safe",
        assumption: str = WITHIN,
        tamper: Tamper | None = None,
        jobs: str = "",
    ) -> Slicing:
        """Return that of a seed, of all jobs or of those with `joins` or `bounded` queues."""
        draw = Random(f"slicing {assumption} {seed}")
        aim = AIMS[seed % len(AIMS)]
        job = replace(job_of(draw.choice(OTHERS[jobs] if jobs else _numbers(aim))), reading=reading)
        one = cls(job, Seeded(seed), draw, assumption, draw.random() < 0.6, draw.random() < 0.5, tamper)
        one.pace, one.acts_left = draw.choice(aim.pace), draw.choice(aim.acts)
        for _ in range(draw.choice(aim.crashes)):
            event = draw.choice(aim.events)
            after, repair = draw.choice(AFTER.get(event, (1, 2, 4, 8))), draw.choice([None, 1, 1, 10**15])
            one.crashes.append(Crash(event, after, draw.choice(aim.roles), repair, aim.burst))
        return one

    @classmethod
    def tiny(
        cls,
        chooser: Chooser,
        stateless: tuple[str, ...],
        crash_after: int,
        victim: str,
        tamper: Tamper | None = None,
    ) -> Slicing:
        """Return that of a source with two tuples, two operators, and a sink, with two levels.

        Slices end, states are saved and acks are sent three times, each of these kinds in an order of its own: acks
        from the sink up. After so many acks the host of the `victim` may die. When all is healed, steps come by age.
        """
        job = Job(seed=1, stages=2, tuples=2, hosts=6, levels=2, stateless=stateless, store="remote")
        one = cls(job, chooser, Random(0), tamper=tamper)
        one.healer = Listed(())
        *operators, sink = [one.lab.plane.instances()[number] for number in one.lab.saved_partitions]
        host = next(partition.task.host.index for partition in operators if partition.operator.name == victim)

        def crashes() -> None:
            one.lab.clock.add_fault("crash", lambda: one.crash(host, None))

        one._do_in_turn("mark", operators * 3)
        one._do_in_turn("save", [partition for partition in operators if one._kind(partition) == "stateful"] * 3)
        one._do_in_turn("round", [sink, *reversed(operators)] * 3, crash_after, crashes)
        return one

    def _do_in_turn(
        self, what: str, left: list[Partition], number: int = -1, do: Callable[[], None] = lambda: None
    ) -> None:
        """Add a step for the first of these partitions, which adds the next one; after so many of them do something."""
        if not number:
            do()
        if left:
            partition, *rest = left

            def acts(_: Any) -> None:
                self._do[what](partition.group.owner)
                self._do_in_turn(what, rest, number - 1, do)

            self.lab.clock.add((what, 0, 0), acts)

    # -- steps

    def _watch(self) -> None:
        plane: Any = self.lab.plane
        assert plane.trimming
        self._before(plane.trimming, "_acknowledge", "ack")
        self.rules.trimmed = lambda: self._note("trim")
        self._before(plane.trimming, "acknowledge", "round")
        self._before(plane, "install", "restored")
        self._before(plane.saver, "take_for", "taken")
        self._before(plane.saver, "_stored", "stored")

    def _before(self, owner: Any, name: str, event: str) -> None:
        verb = getattr(owner, name)

        def noted(*arguments: Any) -> Any:
            if event == "taken":
                self._just_saved = arguments[0]
            self._note(event)
            return verb(*arguments)

        setattr(owner, name, noted)

    def _note(self, event: str) -> None:
        self.met[event] += 1
        self._copies = self._copies or event in ("trim", "restored")
        for crash in [one for one in self.crashes if one.event == event and self.met[event] >= one.after]:
            self.crashes.remove(crash)
            self._enable(crash)

    def _enable(self, crash: Crash) -> None:
        self.lab.clock.add_fault("crash", lambda: self._crash(crash))

    def _crash(self, crash: Crash) -> None:
        """Let a host die that may."""
        cluster = self.lab.cluster
        alive = [host for host, up in enumerate(cluster.host_alive) if up]
        allowed = [host for host in alive if len(alive) > 2 and self._allows(host)]
        hosts = [host for host in allowed if self._plays(host, crash.role)] or [
            host for host in allowed if self._plays(host, "any")
        ]
        if not hosts:
            self.deferred.append(crash)
            return
        self.crash(self.draw.choice(hosts), crash.repair_ns)
        while crash.burst:
            alive = [host for host, up in enumerate(cluster.host_alive) if up]
            near = [host for host in alive if self._plays(host, "next to the last") and self._allows(host)]
            if not near or len(alive) <= 2:
                return
            self.crash(self.draw.choice(near), crash.repair_ns)

    def crash(self, host: int, repair_ns: int | None) -> None:
        """Let this host die."""
        self._last = [one.group.number for one in self._at(host)] or self._last
        for partition in self._at(host):
            kind = self._kind(partition)
            self.met[f"crash of {kind}"] += 1
        if not self.whole.allows(host, bold=True):
            self.lossy = True
            self.met["crash beyond the assumption"] += 1
        self.met[f"{self.whole.row_with(host, bold=False)} in a row failed"] += 1
        self.whole.dies(host)
        self.lab.failures.fail(host, repair_ns)
        self._copies = True

    @staticmethod
    def _kind(partition: Partition) -> str:
        operator = partition.operator
        if operator.is_source or operator.is_sink:
            return "source" if operator.is_source else "sink"
        return "stateful" if operator.description.stateful else "stateless"

    def _allows(self, host: int) -> bool:
        return self.assumption == BEYOND or self.whole.allows(host, self.assumption == BOLD)

    def _at(self, host: int) -> list[Partition]:
        owners = [one.owner for one in self.lab.plane.all_partitions()]
        return [one for one in owners if one.task.alive and one.task.host.index == host]

    def _plays(self, host: int, role: str) -> bool:
        here = self._at(host)
        if role in ("stateless", "stateful"):
            return any(self._kind(one) == role for one in here)
        if role == "just saved":
            return self._just_saved in here
        if role == "keeps most":
            inner = [one.owner for one in self.lab.plane.all_partitions() if not one.operator.is_source]
            most = max(inner, key=lambda one: one.kept_rows())
            return most in here
        if role == "the last":
            return any(one.group.number in self._last for one in here)
        if role == "next to the last":
            numbered = self.lab.plane.instances()
            last = {numbered[one].operator.index for one in self._last}
            near = {edge.down.index for one in self._last for edge in numbered[one].operator.edges}
            return any(
                one.operator.index in near or any(edge.down.index in last for edge in one.operator.edges)
                for one in here
                if self._kind(one) in ("stateless", "stateful")
            )
        return bool(here)

    def act(self) -> None:
        """Have one partition end a slice, send acks or save its state at some step."""
        numbers = self.lab.saved_partitions
        partition = self.lab.plane.instances()[self.draw.choice(numbers)].owner
        what = self.draw.choice(["mark", "mark", "round", "round", "round", "save"])
        self.add(what, partition)

    def add(self, what: str, partition: Partition) -> None:
        """Add such a step, for whoever owns the group then."""
        group = partition.group
        self.lab.clock.add((what, group.number, 0), lambda _: self._do[what](group.owner))

    @property
    def _do(self) -> dict[str, Callable[[Partition], None]]:
        return {"mark": self._mark, "round": self._round, "save": self._save}

    def _mark(self, partition: Partition) -> None:
        self._protocol.mark(partition)

    def _round(self, partition: Partition) -> None:
        if partition.task.alive:
            self._protocol.acknowledge(partition.task)

    def _save(self, partition: Partition) -> None:
        if partition.operator.description.stateful:
            self.lab.plane.save(partition.group.number)

    @property
    def _protocol(self) -> Any:
        return self.lab.plane.trimming

    # -- the run

    def run(self) -> list[str]:
        """Take all steps, then heal; return what is wrong."""
        try:
            self.lab.clock.settle()
            self._steps()
            for crash in self.crashes:
                self._enable(crash)
            self.crashes = []
            self._steps()
            self._heal()
        except Exception as error:  # a verb that refuses, or fails, is a fault
            self.faults[f"raises {type(error).__name__}: {error}"] += 1
            return [*self.faults]
        self._check()
        self._check_rest()
        return [*self.faults]

    def _steps(self) -> None:
        clock, draw = self.lab.clock, self.draw
        while clock.take():
            now = clock.now_ns()
            self._note("step")
            if self._copies:
                self._check()
            if self.acts_left and draw.random() < self.pace:
                self.acts_left -= 1
                self.act()
            if self.deferred and now % RETRY == 0:
                self._try_again()
            if now > MOST_STEPS:
                raise RuntimeError("does not come to rest")

    def _try_again(self) -> None:
        alive = [host for host, up in enumerate(self.lab.cluster.host_alive) if up]
        if len(alive) > 2 and any(self._at(host) and self._allows(host) for host in alive):
            self._enable(self.deferred.pop(0))

    def _heal(self) -> None:
        """Mark, save and acknowledge until nothing is kept, and no crash is to come."""
        self.acts_left, self.lab.clock.chooser = 0, self.healer
        partitions = [self.lab.plane.instances()[one] for one in self.lab.saved_partitions]
        for _ in range(ROUNDS):
            for partition in partitions:
                self.add("save", partition)
                self.add("mark", partition)
            self._steps()
            # From the sinks up, so that the acks of a level meet those of the level below.
            for partition in reversed(partitions):
                self.add("round", partition)
                self._steps()
            if self.deferred:
                self._try_again()
            elif self._is_quiet():
                return

    def _is_quiet(self) -> bool:
        plane = self.lab.plane
        live = all(one.live or one.retired for one in plane.instances()) and not self.lab.moving
        return live and not any(one.kept_rows() for one in plane.instances()) and not self.whole.failed()

    def _check(self) -> None:
        """A control point: nothing is applied twice, and all that was emitted is somewhere."""
        self._copies = False
        for partition in self.lab.plane.instances():
            if len(partition.applied) != len(partition.position):
                self.faults[f"{partition.name} has applied something twice"] += 1
        lost = lost_now(self.lab.plane, self.seen.lineage)
        if lost and not self.lossy:
            self.faults["lost: nobody has it any more"] += 1
        if self.assumption == BEYOND or self.lossy or lost:
            self._check_ledger(lost)
        self.lost = lost

    def _check_ledger(self, lost: set[tuple[int, int]]) -> None:
        """The ledger says of states and sinks what is lost, and of nothing else."""
        plane, said = self.lab.plane, set[tuple[int, int]]()
        for operator, account in accounts(plane).items():
            if self.lab.plan.operators[operator].is_sink or self.lab.plan.operators[operator].description.stateful:
                said |= {(plane.partitions[operator][index].number, one) for index, one in account.lost}
            if account.duplicated:
                self.faults["the ledger says that something was applied twice"] += 1
        operators, operator_of = self.lab.plan.operators, self.lab.cluster.partition_operator
        if said != {one for one in lost if operators[operator_of[one[0]]].reckoned}:
            self.faults["the ledger does not say what is lost"] += 1

    def _check_rest(self) -> None:
        plane = self.lab.plane
        for invariant in (OneLives(), NothingWaits(), AppliedOnce()):
            self.faults.update(invariant.check(self.seen))
        if not all(source.emitted == len(source.keys) for source in plane.sources):
            self.faults["a source has not emitted all"] += 1
        lacks = set[tuple[int, int]]()
        for partition in plane.instances():
            if partition.kept_rows():
                self.faults[f"{partition.name} keeps outputs for ever"] += 1
            owns, group = partition.group.owner is partition, partition.group.number
            if owns and self._kind(partition) in ("stateful", "sink"):
                lacks |= {(group, one) for one in self.seen.lacks(partition)}
                if set(partition.applied) - self.seen.lineage.inputs[group].keys():
                    self.faults[f"{partition.name} has what nobody sent"] += 1
                self._check_order(partition)
        if lacks and not self.lossy:
            self.faults["lost: a state or a sink lacks something at the end"] += 1
        if lacks != self.lost:
            self.faults["what was lost is not what lacks at the end"] += 1
        self.met["lost"] += len(lacks)
        if self.seen.said_to_be_lost() and not self.lossy:
            self.faults["it is said that state was lost"] += 1
        self._check_ledger(lacks)
        if self.whole.failed() and not self.lossy:
            self.faults["a task is never whole again"] += 1
        if self.deferred and not self.lossy:
            self.met["crashes that were never allowed"] += len(self.deferred)

    def _check_order(self, partition: Partition) -> None:
        """Tuples that came the same way are applied in the order of their source."""
        if self.lossy:
            return
        last: dict[Path, int] = {}
        for tuple_id in partition.applied:
            way, sequence = self.seen.lineage.path.get((partition.group.number, tuple_id), ((), 0))
            # What two instances of a group have sent comes over two channels.
            if sequence < last.get(way, -1) and self.moved.isdisjoint(way):
                self.faults[f"{partition.name} applies tuples out of order"] += 1
                return
            last[way] = sequence
