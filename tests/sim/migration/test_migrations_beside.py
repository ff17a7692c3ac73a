"""Key groups that move beside a remote store, bounded queues, links and processors that are shared evenly.

Oracles as in test_migrations: the ledger, the plain plane, and protocols and planes that are broken on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from lab.broken_protocols import HeldForEver
from moves_beside import BESIDE, moving_beside
from moving_jobs import Crash, Outcome, crashes, run
from seeds import sample
from test_actions_beside import places_of, places_of_arrays
from test_planes import differences
from uneven_clock import UnevenClock

from models.units import to_ns
from sim.control.assembly import PlaneFactory
from sim.kernel.event_loop.plane import CompiledPlane
from sim.migration.move import MoveContext, MoveProtocol
from sim.migration.protocol import Message
from sim.migration.protocols import PROTOCOLS
from sim.migration.protocols.cpa import CPA
from sim.migration.protocols.cpal import CPAL
from sim.plain.instances import GroupInstances
from sim.plain.outbox import Places
from sim.plain.partition import Bundle, Partition, Visit
from sim.plain.plane import PlainPlane
from sim.plain.task import Task
from sim.plane_values import REMOTE

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
beside = pytest.mark.parametrize("what", BESIDE)


def campaign(what: str, protocol: str, seed: int, plane: PlaneFactory, count: int) -> list[Outcome]:
    """The run of a job without a crash, and with each of some crashes at instants of its moves."""
    made = moving_beside(what, seed, protocol)
    calm = run(made, plane)
    return [calm, *(run(made, plane, crash) for crash in crashes(seed, calm.moments, count))]


def check(what: str, protocol: str, seeds: Iterable[int], count: int) -> None:
    """The planes agree in all runs of a campaign, and nothing is wrong in any."""
    for seed in seeds:
        one, other = (campaign(what, protocol, seed, plane, count) for plane in (PlainPlane, CompiledPlane))
        for plain, compiled in zip(one, other, strict=True):
            assert differences(plain.records, compiled.records) == [], (what, protocol, seed)
            assert compiled.faults == [], (what, protocol, seed)
            assert isinstance(plain.control.plane, PlainPlane)
            assert isinstance(compiled.control.plane, CompiledPlane)
            queued, taken = places_of(plain.control.plane)
            assert queued == taken
            assert places_of_arrays(compiled.control.plane) == (queued, taken)


@pytest.mark.parametrize(
    ("what", "protocol"),
    [
        pytest.param(what, protocol, marks=() if (row + column) % 2 == 0 else pytest.mark.slow)
        for row, what in enumerate(BESIDE)
        for column, protocol in enumerate(PROTOCOLS)
    ],
)
def test_planes_agree_and_nothing_is_lost(what: str, protocol: str) -> None:
    check(what, protocol, range(1), 1)


@pytest.mark.slow
@beside
@every_protocol
def test_planes_agree_and_nothing_is_lost_in_many_jobs(what: str, protocol: str) -> None:
    check(what, protocol, (1, *range(1000, 1040)), 3)


@pytest.mark.parametrize("seed", sample(3, 5))
def test_planes_agree_where_hosts_fail_again_and_again(seed: int) -> None:
    storm = {"model": "exponential", "mtbf": "1 s", "repair": "30 ms"}
    made = moving_beside(BESIDE[seed], seed, list(PROTOCOLS)[seed % len(PROTOCOLS)], 12, **storm)
    plain, compiled = (run(made, plane).records for plane in (PlainPlane, CompiledPlane))
    assert differences(plain, compiled) == []


def faulty(
    what: str, protocol: str, seed: int, count: int, mutant: type[MoveProtocol] | None = None
) -> list[tuple[object, list[str]]]:
    """What is wrong in the schedules of one seed in which only channels keep their order."""
    made, instead = moving_beside(what, seed, protocol), {protocol: mutant} if mutant else None

    def outcome(crash: Crash | None) -> Outcome:
        clock = UnevenClock(seed, made.operators["in"].parallelism)
        return run(made, PlainPlane, crash, instead=instead, clock=clock, to_rest=True)

    calm = outcome(None)
    found: list[tuple[object, list[str]]] = [(seed, calm.faults)] if calm.faults else []
    for crash in crashes(seed, calm.moments, count):
        faults = outcome(crash).faults
        if faults:
            found.append((crash, faults))
    return found


@pytest.mark.parametrize("what", ["remote", "buffers"])
@every_protocol
def test_nothing_is_lost_and_all_moves_end_in_any_order(what: str, protocol: str) -> None:
    assert faulty(what, protocol, 0, 1) == []


@pytest.mark.slow
@beside
@every_protocol
def test_nothing_is_lost_and_all_moves_end_in_many_orders(what: str, protocol: str) -> None:
    for seed in (1, 2, 3, *range(100, 140)):
        assert faulty(what, protocol, seed, 4) == []


def test_a_job_that_its_timers_overload_over_a_slow_channel_comes_to_rest_when_they_end() -> None:
    made, crash = moving_beside("all", 103, "direct"), Crash(host=1, at_ns=3_107_944_674, repair_ns=None)
    assert made.operators["mid"].timer is not None
    left_ns = []
    for duration_s in (5.0, 10.0):
        longer = made.model_copy(update={"duration_s": duration_s})
        outcome = run(longer, PlainPlane, crash, clock=UnevenClock(103), to_rest=True)
        assert outcome.faults == []
        left_ns.append(outcome.records.duration_ns - to_ns(duration_s))
    assert left_ns[1] > 1.5 * left_ns[0]  # with timers that never end there would be more and more


def test_what_never_comes_to_rest_is_named() -> None:
    ((_, faults),) = faulty("remote", "cpal", 0, 0, HeldForEver)
    assert "tuples wait for ever" in faults


# -- what is asked of whom


def test_with_a_remote_store_any_host_can_be_the_target_once_something_is_stored() -> None:
    assisted = 0
    for seed in range(8):
        tables = run(moving_beside("remote", seed, "cpal"), CompiledPlane).records.tables
        moves, stored = tables["migrations"], tables["checkpoints"]
        assert set(stored["checkpoint_host"].tolist()) == {REMOTE}
        for name, operator, group, at in zip(
            *(moves[column] for column in ("protocol", "operator", "key_group", "requested_ns")), strict=True
        ):
            own = (stored["operator"] == operator) & (stored["key_group"] == group) & (stored["stored_ns"] >= 0)
            assert name == ("cpal" if (stored["stored_ns"][own] < at).any() else "direct")
            assisted += name == "cpal"
    assert assisted >= 5


def test_queues_are_full_and_hold_their_senders_back_in_these_jobs() -> None:
    blocked = [
        int(run(moving_beside("buffers", seed, "cpal"), CompiledPlane).records.tables["buffers"]["blocked_ns"].max())
        for seed in range(6)
    ]
    assert sum(one > 10**8 for one in blocked) >= 3


def test_a_group_whose_host_died_before_it_was_frozen_gets_checkpoints_again() -> None:
    crash = Crash(host=2, at_ns=1_039_200_000, repair_ns=30_000_000)  # a move ends by it, and one begins at 2.1 s
    outcome = run(moving_beside("links", 1004, "direct"), CompiledPlane, crash)
    assert outcome.faults == []
    assert outcome.records.tables["migrations"]["completed_ns"].tolist()[0] == -1
    assert outcome.records.tables["migrations"]["completed_ns"].tolist()[1] > 0


# -- protocols that are broken on purpose


class NotFrozen(CPA):
    """Checkpoints of the old instance go on into the store while the target fetches one."""

    def start(self, ctx: MoveContext) -> None:
        for task in self.move.upstream:
            ctx.send(task, "move")


class ReplayedBeforeTheFetch(CPAL):
    """The target says that all is replayed while what was replayed is held for the state."""

    def on_to_state(self, ctx: MoveContext, message: Message) -> None:
        if not ctx.has_state():
            ctx.install(muted=True)
        ctx._runtime.after_backlog(Message(message.run, "replayed", ctx.me, ctx.me, message.sender))


def test_checkpoints_that_are_stored_during_the_move_are_noticed() -> None:
    assert any(faulty("remote", "cpa", seed, 1, NotFrozen) for seed in range(12, 42))


def test_a_switch_before_the_state_is_fetched_is_noticed() -> None:
    assert any(
        run(moving_beside("remote", seed, "cpal"), CompiledPlane, instead={"cpal": ReplayedBeforeTheFetch}).faults
        for seed in range(10)
    )


# -- planes that are broken on purpose

Broken = tuple[str, int]  # beside what it is noticed, and the first seed that is tried


def bundles_do_not_wait(patch: pytest.MonkeyPatch) -> Broken:
    """What is sent again to wait its turn over a shared link comes in front at once."""
    patch.setattr(PlainPlane, "_bundle_arrives", lambda self, bundle, task: self._replay_arrives(bundle.visits, task))
    return "links", 11


def bundles_take_places(patch: pytest.MonkeyPatch) -> Broken:
    """What is sent again takes places."""
    right = PlainPlane.open_bundle

    def open_bundle(self: PlainPlane, bundle: Bundle, task: Task) -> None:
        task.places.taken += len(bundle.visits)
        right(self, bundle, task)

    patch.setattr(PlainPlane, "open_bundle", open_bundle)
    return "buffers", 0


def duplicates_take_one_place(patch: pytest.MonkeyPatch) -> Broken:
    """A tuple for two instances takes no place at the second."""
    take = Places.take

    def once(self: Places) -> None:
        waits = any(
            partition.task is self.task and not partition.live and partition.group is not partition
            for partition in _partitions(self)
        )
        if not waits:
            take(self)

    patch.setattr(Places, "take", once)
    return "buffers", 0


def _partitions(places: Places) -> list[Partition]:
    return places.plane.instances()


def what_waits_for_a_state_keeps_its_place(patch: pytest.MonkeyPatch) -> Broken:
    """A tuple that is held for an instance which has no state yet does not give its place back."""
    right = Task._admit

    def admit(self: Task, item: Any) -> None:
        if isinstance(item, Visit) and not item.replayed and not item.partition.live:
            self.places.taken += 1
        right(self, item)

    patch.setattr(Task, "_admit", admit)
    return "all", 0


def adopt_without_outputs(patch: pytest.MonkeyPatch) -> Broken:
    """The new instance begins without the outputs that its checkpoint has."""
    patch.setattr(GroupInstances, "adopt", _adopt_without_outputs)
    return "remote", 0


def _adopt_without_outputs(self: Any, instance: int, partition: int) -> None:
    ADOPT(self, instance, partition)
    self._numbered[instance].kept.clear()


ADOPT = GroupInstances.adopt
ERRORS = [
    bundles_do_not_wait,
    bundles_take_places,
    duplicates_take_one_place,
    what_waits_for_a_state_keeps_its_place,
    adopt_without_outputs,
]


@pytest.mark.parametrize("error", ERRORS, ids=[error.__name__ for error in ERRORS])
def test_a_broken_plane_is_noticed(
    error: Callable[[pytest.MonkeyPatch], Broken], monkeypatch: pytest.MonkeyPatch
) -> None:
    what, first = error(monkeypatch)

    def noticed(seed: int) -> bool:
        one, other = (campaign(what, "cpal", seed, plane, 2) for plane in (PlainPlane, CompiledPlane))
        pairs = zip(one, other, strict=False)
        return any(differences(plain.records, compiled.records) or plain.faults for plain, compiled in pairs)

    assert any(map(noticed, range(first, first + 30)))
