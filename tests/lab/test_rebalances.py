"""DCR and CCR under every order of steps and crashes that a scheduler finds: nothing is lost, nothing comes twice.

Oracles: `invariants.py`; without crashes also the ledger in between, and jobs in which no checkpoints are taken and
upstream keeps nothing.
"""

from __future__ import annotations

from collections import Counter

import pytest

from lab.campaigns import drawn, drawn_shaped
from lab.coverage import Coverage
from lab.exploring import Explored, ExploringWaves, explored
from lab.job import Job
from lab.rebalancing import Rebalancing
from lab.report import failure
from lab.schedule import Ask, Crash, Schedule, listed, run
from sim.migration.protocol import Message
from sim.migration.protocols import REBALANCE_PROTOCOLS
from sim.migration.protocols.ccr import CCR
from sim.migration.protocols.dcr import DCR
from sim.migration.rebalance import PAUSE, Phase, RebalanceContext, RebalanceProtocol, SavingProtocol
from sim.migration.waves import COMMIT, INIT, PREPARE, Address, Wave, WaveProtocol
from sim.plane_values import Parcel

CRASHES, CALM, SILENT = range(20), range(30), range(30)
"""Schedules of each protocol, 100 in all: with crashes, on chains and as many on other shapes; without; with a store
that does not answer once."""
SAVING = ("dcr", "ccr")  # protocols that save what they kill
every_protocol = pytest.mark.parametrize("protocol", SAVING)


def more(seeds: range) -> range:
    """Return a hundred times as many seeds, which follow these."""
    return range(seeds.stop, 101 * seeds.stop)


def with_crashes(protocol: str, seeds: range) -> Coverage:
    """Run schedules with crashes and checkpoints; the first that is at fault fails the test."""
    coverage = Coverage()
    for draw in (drawn, drawn_shaped):
        for seed in seeds:
            schedule = draw(protocol, seed)
            result = run(schedule, coverage=coverage)
            if result.faults:
                pytest.fail(failure(schedule, result), pytrace=False)
    return coverage


@every_protocol
def test_nothing_is_lost_whoever_dies(protocol: str) -> None:
    with_crashes(protocol, CRASHES)


@pytest.mark.slow
@every_protocol
def test_nothing_is_lost_whoever_dies_in_many_schedules(protocol: str) -> None:
    coverage = with_crashes(protocol, more(CRASHES))
    assert coverage.missing(REBALANCE_PROTOCOLS[protocol], protocol) == []


# -- found by the laboratory


JOB = Job(seed=23, sources=2, stages=2, groups=1, tuples=8, hosts=4)
FOUND = {
    # The checkpoint of stage1 dies, then its host. Upstream is not initialised: it comes back with the state in its
    # parcel, which has made and forgotten the lost tuple, so it does not make it again.
    "upstream comes back from a parcel": (
        Schedule(
            "ccr",
            0,
            JOB,
            (Ask(0, 2, to_checkpoint_host=True),),
            (Crash("old owner", 3, 30, "never"), Crash("old owner", 0, 42, "before it is detected")),
            (0, 0),
            listed(
                "060777777766676835375347477646077150038387378000000000000000000000000000000000000000000000000000"
                "00000000000000000000000000000000000000000000006000000000000000000000100000000001"
            ),
            early=1,
        ),
        1,
    ),
    # Checkpoint and owner die in one crash. The run says that it has lost two tuples, since upstream has no more than
    # what is in its parcel; that still has them.
    "upstream has kept in its parcel": (
        Schedule(
            "ccr",
            0,
            JOB,
            (Ask(0, 2, to_checkpoint_host=True),),
            (Crash("old owner", 0, 42, "before it is detected"),),
            (0, 0),
            listed(
                "04421232044381674767764656655277738887878000000013333325543322300022002000000011011105342332200000011"
            ),
            early=1,
        ),
        0,
    ),
}
"""Schedules under which the judge was wrong, with the number of tuples that they destroy."""


@pytest.mark.parametrize("title", FOUND)
def test_what_upstream_has_in_a_parcel_is_what_it_sends_again(title: str) -> None:
    schedule, destroyed = FOUND[title]
    result = run(schedule)
    assert (result.faults, result.destroyed) == ([], destroyed)


# -- without crashes, at every step


def calm(protocol: str, seeds: range, forgets: bool = False) -> Counter[str]:
    """Run schedules without crashes; return how many runs have ended, were called off, and are stuck."""
    found: Counter[str] = Counter()
    for seed in seeds:
        one = Rebalancing.drawn(seed, REBALANCE_PROTOCOLS[protocol], forgets)
        assert one.run() == [], f"seed {seed} of {protocol}, shape {one.lab.job.shape}"
        ended = [run.completed_ns is not None for run in one.kind.runs]
        over = [run.over for run in one.kind.runs]
        found["ended"] += sum(ended)
        found["called off"] += sum(over) - sum(ended)
        found["stuck"] += len(over) - sum(over)
        assert one.lab.plane.parcels == {} or not all(over)
    return found


@every_protocol
def test_nothing_is_lost_or_done_twice_at_any_step(protocol: str) -> None:
    found = calm(protocol, CALM)
    assert found["ended"] >= len(CALM)
    assert not found["stuck"]


@every_protocol
def test_a_store_that_does_not_answer_loses_nothing(protocol: str) -> None:
    found = calm(protocol, SILENT, forgets=True)
    assert min(found[what] for what in ("ended", "called off", "stuck")) >= 8, found


@pytest.mark.slow
@every_protocol
@pytest.mark.parametrize(("seeds", "forgets"), [(more(CALM), False), (more(SILENT), True)])
def test_nothing_is_lost_or_done_twice_at_any_step_of_many(protocol: str, seeds: range, forgets: bool) -> None:
    calm(protocol, seeds, forgets)


# -- mutants


class NotPaused(DCR):
    """Sources emit behind PREPARE and COMMIT."""

    def on_pause(self, ctx: RebalanceContext, message: Message) -> None:
        ctx.acknowledge(Wave(PAUSE), Address.of(message).subtask)


class OwnChannel(DCR):
    """PREPARE overtakes the tuples."""

    fast = DCR.fast | {PREPARE}


class FirstInput(DCR):
    """PREPARE is passed on at the first input of a join."""

    def is_last(self, message: Message) -> bool:
        first = Address.of(message).subtask not in self.states
        return first if message.kind == PREPARE else super().is_last(message)


class EagerCommit(DCR):
    """COMMIT follows PREPARE at the first answer."""

    def on_ack(self, ctx: RebalanceContext, message: Message) -> None:
        first_ends(self, ctx, message, PREPARE)


class NotSaved(CCR):
    """What was captured is not saved."""

    def saved(self, ctx: RebalanceContext, to: Address) -> list[Parcel]:
        return super().saved(ctx, to)[:1]


class StateLost(CCR):
    """States are not saved."""

    def saved(self, ctx: RebalanceContext, to: Address) -> list[Parcel]:
        return super().saved(ctx, to)[1:]


class BroadcastCommit(CCR):
    """COMMIT is broadcast: it may come before tuples that are on their way."""

    def after_prepare(self, ctx: RebalanceContext) -> None:
        self.broadcast(ctx, Wave(COMMIT), self.plan.hosts)


class PutTwice(CCR):
    """The captured tuples are replayed twice."""

    def on_fetched(self, ctx: RebalanceContext, message: Message) -> None:
        again = [parcel for parcel in message.parcels if not parcel.partitions]
        ctx.go_on(Address.of(message), [*message.parcels, *again])


class InitTwice(CCR):
    """INIT is not idempotent: each one brings back the captured tuples, also at a subtask that has gone on."""

    def act(self, ctx: RebalanceContext, kind: str, to: Address) -> None:
        if kind == INIT:
            self.asked[to.subtask] = to
            self.init(ctx, to)
        else:
            super().act(ctx, kind, to)

    def on_fetched(self, ctx: RebalanceContext, message: Message) -> None:
        to = Address.of(message)
        if to.subtask not in self.ready:
            super().on_fetched(ctx, message)
            return
        for parcel in message.parcels:
            if not parcel.partitions:
                ctx._plane.put(parcel.number, ctx.me)


class BeforeInit(CCR):
    """A started task does not wait for its INIT: it begins empty."""

    def on_commanded(self, ctx: RebalanceContext, message: Message) -> None:
        super().on_commanded(ctx, message)
        relocation = ctx._runtime.relocation
        at = ctx._cluster.partition_task
        for subtask in self.plan.hosts:
            if ctx._cluster.task_alive[at[subtask]]:
                relocation.bring_back(at[subtask], (), self.plan.flow.partitions[subtask], False)


class NotHeld(CCR):
    """Tasks do not wait for those that they send to."""

    def on_commanded(self, ctx: RebalanceContext, message: Message) -> None:
        ctx.done(Phase.KILLED)
        ctx.restart_all(gated=False)
        self.on_again(ctx, message)


class FirstCommit(CCR):
    """Tasks are killed at the first answer to COMMIT."""

    def on_ack(self, ctx: RebalanceContext, message: Message) -> None:
        first_ends(self, ctx, message, COMMIT)


class BothWays(CCR):
    """PREPARE is passed on beside the broadcast: answers that name their wave count once."""

    def finish(self, ctx: RebalanceContext, kind: str, to: Address) -> None:
        super().finish(ctx, kind, to)
        if kind == PREPARE:
            ctx.pass_on(Wave(PREPARE), to.subtask)

    def is_last(self, message: Message) -> bool:
        return message.kind == PREPARE or super().is_last(message)


class UntaggedAcks(BothWays):
    """The same, and answers do not name their wave: the second answer to PREPARE counts for COMMIT."""

    def on_ack(self, ctx: RebalanceContext, message: Message) -> None:
        wave, subtask = message.note  # type: ignore[misc]
        if wave.kind == PREPARE and subtask in self.answered(Wave(PREPARE)):
            message = message._replace(note=(Wave(COMMIT), subtask))
        super().on_ack(ctx, message)


def first_ends(protocol: SavingProtocol, ctx: RebalanceContext, message: Message, kind: str) -> None:
    """Let the first answer to such a wave end it."""
    wave, subtask = message.note  # type: ignore[misc]
    if wave.kind != kind:
        WaveProtocol.on_ack(protocol, ctx, message)
    elif not protocol.answered(wave):
        protocol.last_of(wave, subtask, ())
        getattr(protocol, f"after_{kind}")(ctx)


MUTANTS: tuple[type[RebalanceProtocol], ...] = (
    NotPaused,
    OwnChannel,
    FirstInput,
    EagerCommit,
    NotSaved,
    StateLost,
    BroadcastCommit,
    PutTwice,
    InitTwice,
    BeforeInit,
    FirstCommit,
    UntaggedAcks,
    NotHeld,
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[one.__name__ for one in MUTANTS])
def test_a_wrong_protocol_is_found(mutant: type[RebalanceProtocol]) -> None:
    assert any(Rebalancing.drawn(seed, mutant).run() for seed in range(150))


class SequentialCapture(CCR):
    """PREPARE goes along the dataflow in place of being broadcast: only slower."""

    def after_pause(self, ctx: RebalanceContext) -> None:
        self.send_along(ctx, Wave(PREPARE))


class NoCapture(CCR):
    """Tasks go on after PREPARE: COMMIT comes behind all tuples, which only takes longer."""

    def prepare(self, ctx: RebalanceContext, to: Address) -> None:
        self.finish(ctx, PREPARE, to)


@pytest.mark.parametrize("harmless", [SequentialCapture, BothWays, NoCapture])
def test_what_changes_times_alone_is_not_blamed(harmless: type[RebalanceProtocol]) -> None:
    assert [seed for seed in range(20) if Rebalancing.drawn(seed, harmless).run()] == []


# -- all schedules of tiny jobs


def explored_all(protocol: type[RebalanceProtocol], tuples: int, delayed: bool, prune: bool = True) -> Explored:
    """Run all orders of a tiny job, but for those that swap steps of different tasks."""
    chooser = ExploringWaves(prune)
    return explored(chooser, lambda: Rebalancing.tiny(chooser, protocol, tuples, delayed))


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("protocol", "tuples", "delayed", "schedules"),
    [
        pytest.param("dcr", 1, False, 848, marks=SLOW),
        pytest.param("ccr", 1, False, 1_906, marks=SLOW),
        ("dcr", 0, True, 182),
        ("ccr", 0, True, 112),
        pytest.param("dcr", 1, True, 8_834, marks=SLOW),
        pytest.param("ccr", 1, True, 5_936, marks=SLOW),
    ],
)
def test_all_schedules_of_a_tiny_job(protocol: str, tuples: int, delayed: bool, schedules: int) -> None:
    found = explored_all(REBALANCE_PROTOCOLS[protocol], tuples, delayed)
    assert found.complete
    assert found.faults == []
    assert found.schedules == schedules


@pytest.mark.parametrize(
    ("protocol", "delayed"),
    [("dcr", False), pytest.param("ccr", False, marks=SLOW), pytest.param("dcr", True, marks=SLOW)],
)
def test_what_is_left_out_is_like_something_that_is_not(protocol: str, delayed: bool) -> None:
    pruned, everything = (explored_all(REBALANCE_PROTOCOLS[protocol], 0, delayed, prune) for prune in (True, False))
    assert pruned.complete
    assert everything.complete
    assert pruned.ends == everything.ends
    assert 40 * pruned.schedules < everything.schedules


@pytest.mark.parametrize("mutant", [NotPaused, NotSaved, StateLost, PutTwice])
def test_a_wrong_protocol_is_noticed_in_a_tiny_job(mutant: type[RebalanceProtocol]) -> None:
    assert explored_all(mutant, 1, delayed=False).faults
