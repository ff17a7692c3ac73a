"""A job that is rebalanced by DCR or CCR under the scheduler, without crashes: what may happen, and what must hold.

Steps beside those of a move: a rebalance is asked for, a task starts, its gate is looked at, the store answers, or
never does, INIT is repeated, a run is called off in time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from lab.campaigns import EARLY
from lab.invariants import AppliedOnce, InOrder, Invariant, Ledger, MovesEnd, NothingWaits, OneLives, SameAsCalm, Seen
from lab.job import Job, small_job
from lab.laboratory import Laboratory
from lab.plans import FAR
from lab.scheduler import Chooser, Seeded
from lab.shapes import CHAIN, SHAPES
from sim.control.state_store import StateStore
from sim.migration.protocol import Message
from sim.migration.rebalance import RebalanceProtocol
from sim.plain.audit import ledger
from sim.plane_values import Parcel

MOST_STEPS = 6_000
MOST_ROUNDS = 12  # of INIT when nothing else can come any more
EVERY = 10  # steps of protocols between two looks at the ledger
AT_REST: tuple[Invariant, ...] = (
    AppliedOnce(),
    OneLives(),
    MovesEnd(),
    NothingWaits(),
    SameAsCalm(),
    Ledger(),
    InOrder(),
)


class Forgetful(StateStore):
    """A store that does not answer the request with this number."""

    silent = -1

    def __init__(self, state: Any) -> None:
        super().__init__(state)
        self.asked = 0

    def _is_silent(self) -> bool:
        self.asked += 1
        return self.asked - 1 == self.silent

    def persist(
        self,
        name: Hashable,
        parcels: tuple[Parcel, ...],
        task: int,
        wanted: Callable[[], bool],
        answered: Callable[[], None],
    ) -> None:
        super().persist(name, parcels, task, wanted, (lambda: None) if self._is_silent() else answered)

    def fetch(self, name: Hashable, task: int, answered: Callable[[tuple[Parcel, ...]], None]) -> None:
        super().fetch(name, task, (lambda _: None) if self._is_silent() else answered)


class Rebalancing:
    """One laboratory in which the dataflow is rebalanced."""

    def __init__(self, job: Job, chooser: Chooser, protocol: type[RebalanceProtocol], early: int = 0) -> None:
        self.lab = Laboratory(job, chooser, stepped_links=False, early=early)
        self.seen = Seen(self.lab, crashes=0)
        self.faults: Counter[str] = Counter()
        self.acts = 0  # of protocols since the last check
        runtime = self.lab.coordinator.runtime
        self.store = runtime.store = Forgetful(self.lab.state)
        deliver = runtime.deliver

        def delivers(message: Message) -> None:
            self.acts += 1
            deliver(message)

        runtime.deliver = delivers  # type: ignore[method-assign]
        self.kind = self.lab.rebalances
        self.kind.protocols = {"this": protocol}
        for partition in self.lab.saved_partitions if job.saved else ():
            for again in range(2):
                self.lab.clock.add(("save", partition, again), lambda _, one=partition: self.lab.plane.save(one))  # type: ignore[misc]

    @classmethod
    def drawn(cls, seed: int, protocol: type[RebalanceProtocol], forgets: bool = False) -> Rebalancing:
        """Return that of a seed; the store `forgets` one request."""
        draw = Random(f"rebalance {seed}")
        job = replace(small_job(seed, [CHAIN, *SHAPES]), saved=draw.random() < 0.5)
        one = cls(job, Seeded(seed), protocol, draw.choice(EARLY))
        if forgets:
            one.store.silent = draw.randrange(12)
        partitions = range(len(one.lab.cluster.partition_task))
        hosts = {partition: draw.randrange(job.hosts) for partition in partitions}
        starts = {partition: draw.choice([0, 1]) for partition in partitions}
        timeout_ns = FAR if forgets and draw.random() < 0.5 else None
        for _ in range(draw.choice([1, 1, 2])):
            one.ask(hosts, starts, timeout_ns)
        return one

    @classmethod
    def tiny(cls, chooser: Chooser, protocol: type[RebalanceProtocol], tuples: int, delayed: bool) -> Rebalancing:
        """Return that of a source, a keyed task and a sink; tasks start at once, or, if `delayed`, at steps."""
        job = Job(seed=1, sources=1, stages=1, groups=1, tuples=tuples, hosts=4, saved=False)
        one = cls(job, chooser, protocol)
        one.ask(one.lab.next_hosts(), dict.fromkeys(one.lab.next_hosts(), int(delayed)), None)
        return one

    def ask(self, hosts: Mapping[int, int], starts: Mapping[int, int], timeout_ns: int | None) -> None:
        """Have the dataflow rebalanced at some step."""
        clock = self.lab.clock
        clock.add_fault("rebalance", lambda: self.kind.request("this", hosts, starts, timeout_ns=timeout_ns))

    def run(self) -> list[str]:
        """Take all steps; return what is wrong."""
        clock = self.lab.clock
        try:
            clock.settle()
            while clock.take():
                if self.acts >= EVERY:
                    self._check()
                if clock.late_steps > MOST_ROUNDS or clock.now_ns() > MOST_STEPS:
                    # INIT is repeated for ever where the store never answers.
                    if self.store.silent < 0 or clock.now_ns() > MOST_STEPS:
                        self.faults["does not come to rest"] += 1
                    break
        except Exception as error:  # a verb that refuses, or fails, is a fault
            self.faults[f"raises {type(error).__name__}: {error}"] += 1
            return [*self.faults]
        self._check()
        if all(run.over for run in self.kind.runs) and not self.lab.moving:
            for invariant in AT_REST:
                self.faults.update(invariant.check(self.seen))
        return [*self.faults]

    def _check(self) -> None:
        """Conservation: whatever was emitted is in a state, on its way, or in a parcel."""
        self.acts = 0
        for operator, _, lost, duplicated in ledger(self.lab.plane):
            if lost or duplicated:
                self.faults[f"operator {operator}: {lost} lost, {duplicated} twice"] += 1
        reasons = {row[5] for row in self.lab.plane.recorder.rows["dropped"]} - {"duplicate"}
        self.faults.update(f"dropped: {reason}" for reason in reasons)
