"""Whole dataflows that are killed and come back, under every order of steps that a scheduler finds; no host fails.

Steps beside those of tuples and messages: a rebalance is asked for, a task starts, the store answers, or never does, a
wave is repeated, a checkpoint is due. Oracles: the lineage of the job, and the ledger after each step of a protocol.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from lab.invariants import (
    AppliedOnce,
    InOrder,
    Invariant,
    Ledger,
    MovesEnd,
    NothingWaits,
    OneLives,
    SameAsCalm,
    Seen,
)
from lab.job import random_job
from lab.laboratory import Laboratory
from lab.rebalances import Capture, Drain, Rebalances
from lab.scheduler import Seeded
from lab.shapes import CHAIN, SHAPES
from sim.control.state_store import StateStore
from sim.data_plane import Parcel
from sim.migration.protocol import Context, Message
from sim.plain.audit import ledger

PROTOCOLS: dict[str, type[Drain]] = {"drain": Drain, "capture": Capture}
MOST_STEPS = 8000
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


class Rebalanced:
    """One laboratory in which the dataflow is rebalanced."""

    def __init__(self, seed: int, protocol: type[Drain], forgets: bool) -> None:
        draw = Random(f"rebalance {seed}")
        shape = [CHAIN, *SHAPES][seed % (1 + len(SHAPES))]
        job = random_job(draw.randrange(24), draw.choice([1, 2]), draw.choice([1, 2]), draw.choice([1, 2]), (4, 6, 10))
        self.lab = Laboratory(replace(job, shape=shape, saved=draw.random() < 0.5), Seeded(seed), stepped_links=False)
        self.seen = Seen(self.lab, crashes=0)
        self.faults: Counter[str] = Counter()
        self.acted = False
        runtime = self.lab.coordinator.runtime
        self.store = runtime.store = Forgetful(self.lab.state)
        if forgets:
            self.store.silent = draw.randrange(12)
        deliver = runtime.deliver

        def delivers(message: Message) -> None:
            self.acted = True
            deliver(message)

        runtime.deliver = delivers  # type: ignore[method-assign]
        self.kind = Rebalances(self.lab.state, self.lab.coordinator)
        self.kind.protocols = {"this": protocol}
        start_ns, shift = draw.choice([0, 1]), draw.randrange(job.hosts)
        for number in range(draw.choice([1, 1, 2])):
            self.lab.clock.add(
                ("rebalance", number, 0), lambda _: self.kind.request("this", job.hosts, shift, start_ns)
            )
        for partition in self.lab.saved_partitions if self.lab.job.saved else ():
            for again in range(2):
                self.lab.clock.add(("save", partition, again), lambda _, one=partition: self.lab.plane.save(one))  # type: ignore[misc]

    def run(self) -> list[str]:
        """Take all steps; return what is wrong."""
        clock = self.lab.clock
        try:
            clock.settle()
            while clock.take():
                if self.acted:
                    self._check()
                if clock.now_ns() > MOST_STEPS:
                    self.faults["does not come to rest"] += 1
                    break
        except Exception as error:  # a verb that refuses, or fails, is a fault
            self.faults[f"raises {type(error).__name__}: {error}"] += 1
            return [*self.faults]
        self._check()
        if self.store.silent < 0 or self.store.asked <= self.store.silent:
            for invariant in AT_REST:
                self.faults.update(invariant.check(self.seen))
        return [*self.faults]

    def _check(self) -> None:
        """Conservation: whatever was emitted is in a state, on its way, or in a parcel."""
        self.acted = False
        for operator, _, lost, duplicated in ledger(self.lab.plane):
            if lost or duplicated:
                self.faults[f"operator {operator}: {lost} lost, {duplicated} twice"] += 1
        reasons = {row[5] for row in self.lab.plane.recorder.rows["dropped"]} - {"duplicate"}
        self.faults.update(f"dropped: {reason}" for reason in reasons)


def campaign(protocol: type[Drain], seeds: range, forgets: bool = False) -> tuple[int, int]:
    """Run these schedules; return how many runs have ended, and how many have not."""
    ended, stuck = 0, 0
    for seed in seeds:
        one = Rebalanced(seed, protocol, forgets)
        assert one.run() == [], f"seed {seed} of {protocol.__name__}, shape {one.lab.job.shape}"
        ended += sum(run.over for run in one.kind.runs)
        stuck += sum(not run.over for run in one.kind.runs)
        assert one.lab.plane.parcels == {} or not all(run.over for run in one.kind.runs)
    return ended, stuck


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_lost_or_done_twice_in_a_rebalance(protocol: str) -> None:
    ended, stuck = campaign(PROTOCOLS[protocol], range(150))
    assert ended >= 150
    assert stuck == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_store_that_does_not_answer_loses_nothing(protocol: str) -> None:
    ended, stuck = campaign(PROTOCOLS[protocol], range(150), forgets=True)
    assert min(ended, stuck) > 20


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("forgets", [False, True])
def test_nothing_is_lost_or_done_twice_in_many_rebalances(protocol: str, forgets: bool) -> None:
    campaign(PROTOCOLS[protocol], range(150, 5000), forgets)


# -- the campaign can fail


class NotPaused(Drain):
    """Sources emit behind the wave."""

    def on_pause(self, ctx: Context, message: Message) -> None:
        ctx.tell("paused", note=ctx.me)


class FirstInput(Drain):
    """The wave goes on at the first input of a task with several."""

    def pass_on(self, ctx: Context, kind: str) -> None:
        for task in self.plan.below[ctx.me]:
            ctx.send(task, kind, turn=True)

    def on_save(self, ctx: Context, message: Message) -> None:
        if self.first("save"):
            self.all_in("save", message.sender, ())
            super().on_save(ctx, message)


class Overtaking(Drain):
    """The wave overtakes the queues."""

    def pass_on(self, ctx: Context, kind: str) -> None:
        for task in self.plan.below[ctx.me]:
            ctx.send(task, kind)

    def on_save(self, ctx: Context, message: Message) -> None:
        if self.all_in("save", message.sender, [t for t, below in self.plan.below.items() if ctx.me in below]):
            super().on_save(ctx, message)


class StateOnly(Capture):
    """Captured tuples are not saved."""

    def on_save(self, ctx: Context, message: Message) -> None:
        ctx.capture()
        ctx.persist(ctx.me, [ctx.snapshot()], "saved")


class SavesOutOfOrder(Capture):
    """Tasks are told to save by the coordinator, not along the dataflow."""

    def on_prepared(self, ctx: Context, message: Message) -> None:
        assert isinstance(message.note, int)
        if self.last_of("prepared", message.note, self.plan.hosts):
            for task in self.plan.hosts:
                ctx.send(task, "save", turn=True)

    def on_saved(self, ctx: Context, message: Message) -> None:
        ctx.tell("all_saved", note=ctx.me)


class ReadyAtOnce(Capture):
    """The sources go on when the first task is ready, and the run is over."""

    def on_ready(self, ctx: Context, message: Message) -> None:
        assert isinstance(message.note, int)
        if not self.answered("ready") and self.last_of("ready", message.note, [message.note]):
            for task in self.plan.sources:
                ctx.send(task, "resume")


MUTANTS = (NotPaused, FirstInput, Overtaking, StateOnly, SavesOutOfOrder, ReadyAtOnce)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[one.__name__ for one in MUTANTS])
def test_a_wrong_protocol_is_found(mutant: type[Drain]) -> None:
    assert any(Rebalanced(seed, mutant, False).run() for seed in range(150))
