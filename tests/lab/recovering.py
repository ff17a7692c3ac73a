"""Jobs that engines recover, under the scheduler: hosts die at any step, and what the engine does beside tuples comes.

A *case* is a job, what is to happen to it, and an order of steps. Kinds of cases stand in `KINDS` of `lab.cases`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from lab.engines import Rules
from lab.invariants import InOrder, NothingWaits, OneLives, Seen
from lab.job import Job
from lab.laboratory import Laboratory
from lab.lineage import Sent
from lab.losses import stored
from lab.scheduler import Chooser, Listed, Noted, Seeded
from sim.plain.audit import _receivers, accounts
from sim.plain.channels import Source
from sim.plain.partition import Partition

MOST_STEPS = 30_000
FAR = 10**15
REPAIRS = (None, 1, 1, FAR)  # of a host: never, before or after its failure is detected
OF_RECOVERIES = ("detected", "slots", "assigned", "reads", "installed", "replayed")  # events that follow a crash
AT_ONCE = 0.4  # of the crashes come right after their event
AIMED = 0.6  # of the crashes that can be are of who does it
ROLES = ("any", "any", "source", "state", "state", "sink", "nobody", "saves", "comes back")


@dataclass(frozen=True)
class Crash:
    """A host dies after so many events of a kind, or later: one that has the role, if there is one."""

    event: str
    after: int
    role: str
    pick: int
    repair_ns: int | None
    at_once: bool = False  # right after the event, before any other step


@dataclass(frozen=True)
class Case:
    """Everything that determines a run; without `choices` steps are drawn by the seed."""

    kind: str
    seed: int
    job: Job
    crashes: tuple[Crash, ...] = ()
    acts: tuple[tuple[str, int], ...] = ()  # what the engine may do, after so many steps or later
    counts_ns: tuple[int, ...] = (1,)  # for how many steps hosts that are dead still count, by turns
    stepped_links: bool = False
    fair_links: bool = False
    choices: tuple[int, ...] | None = None

    @property
    def rules(self) -> Rules:
        """Return the rules of the engine."""
        assert self.job.rules is not None
        return self.job.rules


def drawn_crashes(draw: Random, numbers: Iterable[int], after: dict[str, tuple[int, ...]]) -> tuple[Crash, ...]:
    """Return so many crashes, after events of these kinds."""
    found = []
    for _ in range(draw.choice([*numbers])):
        event = draw.choice([*after])
        aimed = {
            "comes back": ("assigned", "installed"),
            "saves": ("message", "taken"),
            "target": ("slots",),
            "sends": ("stage", "sinks"),
            "driver": ("begins",),
        }
        role = next((one for one, its in aimed.items() if event in its and draw.random() < AIMED), draw.choice(ROLES))
        at_once = event != "step" and draw.random() < AT_ONCE
        found.append(Crash(event, draw.choice(after[event]), role, draw.randrange(12), draw.choice(REPAIRS), at_once))
    if found and all(crash.event in OF_RECOVERIES for crash in found):  # there has to be something to recover
        role, event = draw.choice(["state", "state", "source"]), "completed" if "completed" in after else "stored"
        first = Crash(event, draw.choice([1, 2, 3]), role, draw.randrange(12), draw.choice(REPAIRS), at_once=True)
        found.append(first)
    return tuple(found)


def drawn_case(
    draw: Random,
    kind: str,
    seed: int,
    job: Job,
    crashes: tuple[Crash, ...],
    acts: Iterable[tuple[str, int]],
    counts: Sequence[int] = (1, 1, 20),
) -> Case:
    """Return a case with these crashes and acts; for how long dead hosts count, and the links, are drawn."""
    return Case(
        kind,
        seed,
        job,
        crashes=crashes,
        acts=tuple(acts),
        counts_ns=tuple(draw.choice(counts) for _ in range(2)),
        stepped_links=draw.random() < 0.6,
        fair_links=draw.random() < 0.5,
    )


@dataclass
class _Later:
    event: str
    after: int
    what: str
    do: Callable[[], None]
    at_once: bool = False


class Recovering(ABC):
    """One laboratory with a case."""

    def __init__(self, case: Case, chooser: Chooser | None = None) -> None:
        if chooser is None:
            chooser = Seeded(case.seed) if case.choices is None else Listed(case.choices)
        self.noted = Noted(chooser)
        self.case, self.rules = case, case.rules
        self.lab = Laboratory(case.job, self.scheduled(self.noted), case.stepped_links, fair_links=case.fair_links)
        self.plane, self.cluster = self.lab.plane, self.lab.cluster
        self.seen = Seen(self.lab, len(case.crashes))
        self.faults, self.met = Counter[str](), Counter[str]()
        self.exactly_once = self.rules.guarantee == "exactly-once"
        self._checked = True
        self._now: list[Callable[[], None]] = []  # what comes at the end of this step
        self._later: list[_Later] = [
            _Later(crash.event, crash.after, "crash", lambda crash=crash: self._crash(crash), crash.at_once)  # type: ignore[misc]
            for crash in case.crashes
        ]
        self._later += [
            _Later("step", after, what, lambda what=what: self.act(what))  # type: ignore[misc]
            for what, after in case.acts
        ]
        self._stages = {operator.name: operator.is_source for operator in self.lab.plan.operators}
        self.lab.failures._dead_ns = self._dead_ns  # type: ignore[method-assign]
        self._dead = 0
        self._watch()
        self.begin()

    # -- what kinds say

    def scheduled(self, chooser: Chooser) -> Chooser:
        """Return what chooses the next step, given what draws or lists it."""
        return chooser

    @abstractmethod
    def begin(self) -> None:
        """Begin what the engine does beside tuples."""

    @abstractmethod
    def act(self, what: str) -> None:
        """Let the engine do something, at any time."""

    @abstractmethod
    def heal(self) -> None:
        """Let the engine do what it has to do in the end, when nothing is broken any more."""

    @abstractmethod
    def check_rest(self) -> None:
        """Check what must hold at rest."""

    # -- steps

    def _dead_ns(self, host: int, failed_ns: int, silent: bool) -> int:
        counts = self.case.counts_ns
        self._dead += 1
        return failed_ns + counts[self._dead % len(counts)]

    def _watch(self) -> None:
        lab: Any = self.lab
        for owner, name, event in (
            (lab, "message", "message"),
            (lab, "aligned", "message"),
            (lab, "stored", "stored"),
            (lab.crash, "detected", "detected"),
            (lab.plane, "complete_checkpoints", "completed"),
            (lab.plane, "assign", "assigned"),
            (lab.plane, "install", "installed"),
            (lab.plane, "replay", "replayed"),
            (lab.plane.saver, "take_for", "taken"),
            *([(lab.crash.regions, "_take_slots", "slots")] if lab.crash.regions is not None else []),
        ):
            self.before(owner, name, event)

    def before(self, owner: Any, name: str, event: str) -> None:
        """Note the event before each call."""
        verb = getattr(owner, name)

        def noted(*arguments: Any, **named: Any) -> Any:
            self.note(event)
            return verb(*arguments, **named)

        setattr(owner, name, noted)

    def note(self, event: str) -> None:
        """Count an event; what has waited for it may come."""
        self.met[event] += 1
        self._checked = self._checked and event == "step"
        for one in [one for one in self._later if one.event == event and one.after <= self.met[event]]:
            self._later.remove(one)
            if one.at_once:
                self._now.append(one.do)
            else:
                self.lab.clock.add_fault(one.what, one.do)

    def _crash(self, crash: Crash) -> None:
        alive = [host for host, up in enumerate(self.cluster.host_alive) if up]
        alive = [host for host in alive if self.may_die(host)]
        if not alive:
            return
        hosts = [host for host in alive if self._plays(host, crash.role)] or alive
        self.met[f"crash of {crash.role}"] += self._plays(hosts[0], crash.role)
        self._checked = False
        self.lab.failures.fail(hosts[crash.pick % len(hosts)], crash.repair_ns)

    def _plays(self, host: int, role: str) -> bool:
        here = [one for one in self.plane.instances() if one.task.host.index == host]
        if role == "source":
            return any(one.operator.is_source for one in here)
        if role == "sink":
            return any(one.operator.is_sink for one in here)
        if role == "state":
            return any(not (one.operator.is_source or one.operator.is_sink) for one in here)
        if role == "target":  # it has slots for tasks that are to start
            regions = self.lab.crash.regions
            return regions is not None and host in regions.method._hosts.values()
        if role == "sends":  # something is on its way that its tasks have sent
            return any(visit.origin.host.index == host for visit in self.plane.wire)
        if role == "driver":
            return self.lab.crash.batches is not None and self.lab.crash.batches.driver == host
        if role == "nobody":
            return not here
        if role == "saves":
            return any(one.saving for one in here)
        if role == "comes back":
            return any(not one.live and self.cluster.task_alive[one.task.index] for one in here)
        return True

    # -- the run

    def run(self) -> list[str]:
        """Take all steps, then heal; return what is wrong."""
        try:
            self.lab.clock.settle()
            self.steps()
            while self._later:  # faults that were to come after more than there was
                one = self._later.pop(0)
                self.lab.clock.add_fault(one.what, one.do)
                self.steps()
            self.heal()
        except Exception as error:  # a verb that refuses, or fails, is a fault
            self.faults[f"raises {type(error).__name__}: {error}"] += 1
            return [*self.faults]
        self.check()
        self._check_rest()
        return [*self.faults]

    def steps(self) -> None:
        """Take steps until there is none."""
        clock = self.lab.clock
        clock.settle()
        while clock.take():
            self.note("step")
            while self._now:
                self._now.pop(0)()
                clock.settle()
            if not self._checked:
                self.check()
            if clock.now_ns() > MOST_STEPS:
                raise RuntimeError("does not come to rest")

    def check(self) -> None:
        """Check what must hold at any time."""
        self._checked = True
        if self.exactly_once:
            for partition in (*self.seen.owners(), *self.seen.sinks):
                if len(partition.applied) != len(partition.position):
                    self.faults[f"{partition.name} has applied something twice"] += 1
        self.faults.update(self.check_saved())
        names = self.lab.plan.operators
        for operator, account in accounts(self.plane).items():
            if account.lost:
                self.faults[f"the audit says lost at {names[operator].name}"] += 1

    @abstractmethod
    def check_saved(self) -> list[str]:
        """Return what is wrong if all of it was lost now, and came back."""

    def _check_rest(self) -> None:
        for partition in self.plane.all_partitions():
            if not partition.owner.live:
                self.faults[f"{partition.name} is down for ever"] += 1
        for task in self.plane.tasks:
            if task.alive and task.paused_until_ns and not self.may_pause(task):
                self.faults[f"{task.operator.name} stays paused"] += 1
        for invariant in (OneLives(), NothingWaits(), *([InOrder()] if self.exactly_once and self.in_order else [])):
            self.faults.update(invariant.check(self.seen))
        for partition in (*self.seen.owners(), *self.seen.sinks):
            if self.seen.lacks(partition):
                self.faults[f"{partition.name} lacks something"] += 1
            extra = Counter(partition.applied) - self.seen.lineage.inputs[partition.group.number]
            if extra and (self.exactly_once or not self.may_repeat()):
                self.faults[f"{partition.name} has something too often"] += 1
        self.check_rest()

    def may_die(self, host: int) -> bool:
        """Return whether a host may die now: somebody has to go on."""
        return sum(self.cluster.host_alive) > 1

    def may_pause(self, task: Any) -> bool:
        """Return whether a task may be paused at rest."""
        return False

    @property
    def in_order(self) -> bool:
        """Return whether sources emit in the order of their logs."""
        return True

    def may_repeat(self) -> bool:
        """Return whether something was disturbed, so that it may come twice where that is allowed."""
        return bool(self.case.crashes)

    # -- where all goes back to one checkpoint

    def check_cut(self, kept_twice: bool) -> list[str]:
        """Return what is wrong if the whole job went back to the checkpoint now, and sources sent again what they keep.

        With `kept_twice` sources may keep what the checkpoint has already, which their readers drop.
        """
        found = list[str]()
        again: defaultdict[int, set[int]] = defaultdict(set)  # from sources
        comes: defaultdict[int, set[int]] = defaultdict(set)  # from anybody else
        total = self.total()
        for source in self.plane.sources:
            for group, tuple_id in self.sent_again(source):
                again[group].add(tuple_id)
        for partition in [one.owner for one in self.plane.all_partitions() if not one.operator.is_source]:
            number = partition.group.number
            for one in partition.in_flight:
                if one.row.id in comes[number]:
                    found.append(f"{partition.name} would get something twice")
                comes[number].add(one.row.id)
            has = set(partition.applied) if partition.operator.is_sink else stored(partition)
            if total[number] - has - comes[number] - again[number]:
                found.append(f"{partition.name} would lack something")
            if partition.operator.is_sink:
                continue
            twice = comes[number] & has if kept_twice else (comes[number] | again[number]) & has
            if twice and self.exactly_once:
                found.append(f"{partition.name} would get something twice")
            fresh = (comes[number] | again[number]) - (has if self.exactly_once else set())
            for group, tuple_id in self.makes(partition, has, fresh):
                comes[group].add(tuple_id)
            for output in partition.checkpoint.post_dated if partition.checkpoint else ():
                for receiver, tuple_id, _ in _receivers(self.plane, partition, output.tuple_id, output.key):
                    comes[receiver.group.number].add(tuple_id)
        return found

    def total(self) -> defaultdict[int, set[int]]:
        """Return, by group, the ids of all that follows from what sources have emitted."""
        found: defaultdict[int, set[int]] = defaultdict(set)
        for source, first in zip(self.plane.sources, self.seen.lineage.first_of_sources, strict=True):
            for group, tuple_id in self.sent(source, first):
                found[group].add(tuple_id)
        for partition in self.plane.all_partitions():
            for group, tuple_id in self.seen.lineage.emitted(partition.number, found[partition.number]):
                found[group].add(tuple_id)
        return found

    def makes(self, partition: Partition, has: set[int], fresh: set[int]) -> set[Sent]:
        """Return what follows if a partition goes back to a state that `has` these tuples, and `fresh` ones come."""
        lineage, number = self.seen.lineage, partition.group.number
        return lineage.emitted(number, has | fresh) - lineage.emitted(number, has - fresh)

    def sent(self, source: Source, first: Sequence[frozenset[Sent]]) -> Iterable[Sent]:
        """Return what a source has emitted; `first`: what its first 0, 1, ... tuples are sent as."""
        return first[source.emitted]

    def sent_again(self, source: Source) -> Iterator[Sent]:
        """Yield what a source sends again if the job goes back."""
        for receiver, rows in source.partition.kept.items():
            for row in rows:
                yield receiver.group.number, row.id

    def refused(self) -> set[str]:
        """Return the operators at which a tuple was dropped because it had come before."""
        operators = self.lab.plan.operators
        return {operators[row[0]].name for row in self.plane.recorder.rows["dropped"] if row[5] == "duplicate"}

    def reads_sources(self, operator: str) -> bool:
        """Return whether sources send to the operator."""
        nodes = self.case.job.dataflow
        return any(self._stages[above] for above in nodes[operator].inputs)


def smaller(case: Case) -> list[Case]:
    """Return cases with less in them."""
    found = [replace(case, crashes=case.crashes[:k] + case.crashes[k + 1 :]) for k in range(len(case.crashes))]
    found += [replace(case, acts=case.acts[:k] + case.acts[k + 1 :]) for k in range(len(case.acts))]
    job = case.job
    found += [
        replace(case, job=replace(job, **{name: less}))
        for name, less in (("tuples", job.tuples // 2), ("tuples", job.tuples - 1), ("groups", 1), ("sources", 1))
        if 0 < less < getattr(job, name)
    ]
    return found
