"""DSM and periodic waves under every order of steps, kills and crashes that a scheduler finds.

With both readings of acks no message is lost; with covered ones no state is lost either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from seeds import parts

from lab.exploring import Explored, ExploringWaves, explored
from lab.laboratory import Laboratory
from lab.storm import Storm
from sim.migration.checkpoint_source import CheckpointWaves, PeriodicContext
from sim.migration.protocol import Message, Restart
from sim.migration.waves import PREPARE, ROLLBACK, Address, WaveProtocol
from sim.plain.acker import Acker
from sim.plain.partition import Partition, Tree

SEEDS, MORE = range(30), range(30, 20_600)  # of each reading of acks
every_reading = pytest.mark.parametrize("acks", ["covered", "literal"])


def campaign(acks: str, seeds: range) -> Counter[str]:
    """Run the schedules of these seeds; return what they have met."""
    met = Counter[str]()
    for seed in seeds:
        one = Storm.drawn(seed, acks)
        assert one.run() == [], f"seed {seed}, {acks}, shape {one.lab.job.shape}"
        met.update(one.met)
        met.update(f"wave {wave.kind}" for _, wave in one.source.run.sent)  # type: ignore[union-attr]
        met["rebalanced"] += sum(run.completed_ns is not None for run in one.lab.rebalances.runs)
        met["called off"] += sum(run.completed_ns is None for run in one.lab.rebalances.runs)
        met["replayed"] += sum(row[2] for row in one.lab.recorder.rows["replays"])
    return met


@every_reading
def test_dsm_loses_no_message_and_no_covered_state(acks: str) -> None:
    met = campaign(acks, SEEDS)
    assert min(met[what] for what in ("rebalanced", "replayed", "wave rollback", "wave init")) > 4, met


@pytest.mark.slow
@every_reading
def test_dsm_loses_no_message_and_no_covered_state_in_many_schedules(acks: str) -> None:
    met = campaign(acks, MORE)
    phases = [f"crash, wave {kind}" for kind in ("none", "prepare", "commit", "rollback", "init")]
    phases += [f"crash, rebalance {mark}" for mark in ("begun", "commanded", "up", "last_init")]
    assert [phase for phase in phases if not met[phase]] == []


# -- mutants


def acker_of(lab: Laboratory) -> Acker:
    assert isinstance(lab.plane.acker, Acker)
    return lab.plane.acker


def no_replay(lab: Laboratory) -> None:
    """Roots that have failed are not emitted again."""
    acker = acker_of(lab)

    def fails(trees: Iterable[Tree]) -> list[tuple[int, int]]:
        for tree in trees:
            if acker._is_last(tree):
                del acker.pending[tree.source][tree.sequence]
        return []

    acker._fail = fails  # type: ignore[method-assign]


def closed_early(lab: Laboratory) -> None:
    """A task acknowledges a tuple before what it makes of it is registered: a tree may seem to be done."""
    acker, emit = acker_of(lab), lab.plane.emit

    def emits(partition: Partition, *rest: Any, tree: Tree | None = None, **more: Any) -> None:
        if tree is None or partition.operator.is_source:
            emit(partition, *rest, **({"tree": tree} if tree else {}), **more)
            return
        tree.left -= 1
        if not tree.left and acker._is_last(tree):
            acker._complete(tree)
        tree.left += 1
        emit(partition, *rest, tree=tree, **more)

    lab.plane.emit = emits  # type: ignore[method-assign]


def not_held(lab: Laboratory) -> None:
    """A started task does not wait for INIT: it begins with an empty state."""
    relocation, start = lab.coordinator.runtime.relocation, lab.coordinator.runtime.relocation._start  # type: ignore[attr-defined]

    def starts(restart: Restart, partitions: Sequence[int]) -> None:
        start(restart, partitions)
        task = lab.cluster.partition_task[partitions[0]]
        if lab.cluster.task_alive[task] and task != restart.task:
            relocation.bring_back(task, (), partitions, False)
            lab.checkpoint_source.note_initialised(partitions[0], task)

    relocation._start = starts  # type: ignore[attr-defined]


class NotRestored(CheckpointWaves):
    """INIT brings back an empty state."""

    def on_fetched(self, ctx: PeriodicContext, message: Message) -> None:
        super().on_fetched(ctx, message._replace(parcels=()))


class EagerAcks(CheckpointWaves):
    """Acks are sent at PREPARE, when nothing is stored."""

    def prepare(self, ctx: PeriodicContext, to: Address) -> None:
        super().prepare(ctx, to)
        ctx.commit_acks()


class LateAcks(CheckpointWaves):
    """At COMMIT all acks are sent, also those for what came after the snapshot."""

    def on_persisted(self, ctx: PeriodicContext, message: Message) -> None:
        ctx.prepare_acks()
        super().on_persisted(ctx, message)


class NotRefused(CheckpointWaves):
    """A task without its state takes part in PREPARE: what it stores is empty."""

    def act(self, ctx: PeriodicContext, kind: str, to: Address) -> None:
        if kind == PREPARE:
            WaveProtocol.act(self, ctx, kind, to)
        else:
            super().act(ctx, kind, to)


class Once(CheckpointWaves):
    """A wave that is lost is never noticed."""

    def on_timeout(self, ctx: PeriodicContext, message: Message) -> None:
        pass


TAMPERED = (no_replay, closed_early, not_held)
MUTANTS = (NotRestored, EagerAcks, LateAcks, NotRefused, Once)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[one.__name__ for one in MUTANTS])
def test_wrong_waves_are_found(mutant: type[CheckpointWaves]) -> None:
    assert any(Storm.drawn(seed, "covered", mutant).run() for seed in range(100))


@pytest.mark.parametrize("mutant", TAMPERED, ids=[one.__name__ for one in TAMPERED])
def test_a_wrong_acker_or_start_is_found(mutant: Callable[[Laboratory], None]) -> None:
    assert any(Storm.drawn(seed, "covered", tamper=mutant).run() for seed in range(100))


@pytest.mark.parametrize("mutant", [no_replay, closed_early], ids=["no_replay", "closed_early"])
def test_a_message_that_is_lost_is_found_with_literal_acks(mutant: Callable[[Laboratory], None]) -> None:
    faults = [fault for seed in range(40) for fault in Storm.drawn(seed, "literal", tamper=mutant).run()]
    assert any(fault.startswith("messages lost") for fault in faults)


class FirstAnswer(CheckpointWaves):
    """COMMIT follows the first answer to PREPARE: it comes behind PREPARE on every channel all the same."""

    def on_ack(self, ctx: PeriodicContext, message: Message) -> None:
        wave, subtask = message.note  # type: ignore[misc]
        if wave == self.wave and wave.kind == PREPARE:
            self.last_of(wave, subtask, ())
            self.after_prepare(ctx)
        else:
            super().on_ack(ctx, message)


class AnyAnswer(CheckpointWaves):
    """Answers to earlier waves of a kind count, too: the next step only begins earlier."""

    def on_ack(self, ctx: PeriodicContext, message: Message) -> None:
        wave, subtask = message.note  # type: ignore[misc]
        if self.wave is not None and wave.kind == self.wave.kind:
            message = message._replace(note=(self.wave, subtask))
        super().on_ack(ctx, message)


class FirstInput(CheckpointWaves):
    """PREPARE is passed on at the first input: the state is saved with fewer tuples, whose acks wait in turn."""

    def is_last(self, message: Message) -> bool:
        last = super().is_last(message)
        if message.kind != PREPARE:
            return last
        to = Address.of(message)
        return len(self._answers["prepare", to.subtask, to.number]) == 1


class NoRollbackOfAcks(CheckpointWaves):
    """At ROLLBACK acks go on waiting: for the next COMMIT, or until their roots expire."""

    def rollback(self, ctx: PeriodicContext, to: Address) -> None:
        ctx.drop_snapshot(to.subtask)
        self.finish(ctx, ROLLBACK, to)


HARMLESS = (FirstAnswer, AnyAnswer, FirstInput, NoRollbackOfAcks)


@pytest.mark.parametrize("harmless", HARMLESS, ids=[one.__name__ for one in HARMLESS])
def test_waves_that_only_come_at_other_times_are_not_blamed(harmless: type[CheckpointWaves]) -> None:
    assert [seed for seed in range(25) if Storm.drawn(seed, "covered", harmless).run()] == []


# -- workers that start together


def with_workers(seed: int, acks: str, tamper: Callable[[Laboratory], None] | None = None) -> tuple[Storm, list[str]]:
    """Run the schedule of a seed in which workers start together; return what is wrong, merged executors included."""
    one = Storm.drawn(seed, acks, tamper=tamper, together=True)
    cluster = one.lab.cluster
    before = [Counter(cluster.partition_operator[at[0]] for at in _by_task(cluster).values())]
    faults = one.run()
    before.append(Counter(cluster.partition_operator[at[0]] for at in _by_task(cluster).values()))
    return one, faults + ["executors have joined others"] * (before[0] != before[1])


def _by_task(cluster: Any) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for partition, task in enumerate(cluster.partition_task):
        found.setdefault(task, []).append(partition)
    return found


def workers_campaign(acks: str, seeds: range) -> Counter[str]:
    met = Counter[str]()
    for seed in seeds:
        one, faults = with_workers(seed, acks)
        assert faults == [], f"seed {seed}, {acks}"
        met.update(one.met)
        met["restored"] += len(one.lab.recoveries.all)
    return met


@every_reading
@pytest.mark.parametrize("seeds", parts(15, 30))
def test_workers_that_start_together_lose_no_message_and_no_covered_state(acks: str, seeds: range) -> None:
    met = workers_campaign(acks, seeds)
    assert min(met["workers"], met["restored"]) > len(seeds), met


@pytest.mark.slow
@every_reading
def test_workers_that_start_together_lose_nothing_in_many_schedules(acks: str) -> None:
    met = workers_campaign(acks, range(30, 5000))
    assert all(met[f"crash, wave {kind}"] for kind in ("none", "prepare", "commit", "rollback", "init")), met


def waves_find_nobody(lab: Laboratory) -> None:
    """What has started goes on at once, and the waves have nothing to bring back."""
    lab.coordinator.take_back = lambda partitions: set()  # type: ignore[method-assign]


def joins_others(lab: Laboratory) -> None:
    """Lost executors join those of their operator on the new host."""
    method, instances = lab.recovery.method, lab.instances
    method.task_for = lambda partition, host: instances.task_on(  # type: ignore[method-assign]
        lab.cluster.partition_operator[partition], host
    )
    lab.coordinator.take_back = lambda partitions: set()  # type: ignore[method-assign]


@pytest.mark.parametrize("broken", [waves_find_nobody, joins_others])
def test_a_broken_rule_of_workers_is_found(broken: Callable[[Laboratory], None]) -> None:
    assert any(with_workers(seed, "covered", broken)[1] for seed in range(30))


# -- all schedules of a tiny job


def explored_all(acks: str, waves: int, deviations: int | None = None, most: int = 10**6) -> Explored:
    """Run all orders of a tiny job, but for those that swap steps of different tasks; `most` at most.

    With `deviations` run those with so many from the order of age.
    """
    chooser = ExploringWaves(prune=deviations is None, deviations=deviations)
    return explored(chooser, lambda: Storm.tiny(chooser, acks, waves, delayed=True), most)


@pytest.mark.parametrize(("acks", "schedules"), [("covered", 171), ("literal", 199)])
def test_all_schedules_of_a_tuple_and_a_rebalance(acks: str, schedules: int) -> None:
    found = explored_all(acks, waves=0)
    assert found.complete
    assert found.faults == []
    assert found.schedules == schedules


@pytest.mark.parametrize("acks", ["covered", pytest.param("literal", marks=pytest.mark.slow)])
def test_a_tuple_a_rebalance_and_a_wave_up_to_two_deviations(acks: str) -> None:
    found = explored_all(acks, waves=1, deviations=2)
    assert found.complete
    assert found.faults == []
    assert found.schedules == 615


@pytest.mark.slow
@every_reading
def test_a_tuple_a_rebalance_and_a_wave_up_to_three_deviations(acks: str) -> None:
    found = explored_all(acks, waves=1, deviations=3)
    assert found.complete
    assert found.faults == []


@pytest.mark.slow
@every_reading
def test_many_schedules_of_a_tuple_a_rebalance_and_a_wave(acks: str) -> None:
    assert explored_all(acks, waves=1, most=30_000).faults == []
