"""The tests of the rules of control notice each version of control, or of the plain plane, that breaks one.

What is broken in the laboratory (`lab/broken_coordinators.py`) is broken here on a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import reference.checkpoint
import reference.moves
import reference.world
import test_control_rules as rules
from reference.checkpoint import CheckpointCoordinator
from reference.host import Host
from reference.moves import Moves
from reference.outbox import Places
from reference.task import Task
from reference.world import World
from test_fair_links import equal_messages_leave_in_the_order_of_sending, last_of_equals_first

import sim.holders
import sim.recovery
from sim.beliefs import Beliefs
from sim.cluster import Cluster
from sim.context import Context, Message, Run
from sim.migrations import Migrations, Request
from sim.protocols.sent_state import SentState
from sim.recovery import Recovery
from sim.runtime import Runtime

Patch = pytest.MonkeyPatch


def asks_who_lives(patch: Patch) -> None:
    """A move asks those tasks upstream that live, not those that control believes to live."""
    begin = Migrations._begin

    def begins(migrations: Migrations, request: Request) -> None:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(Beliefs, "task", lambda beliefs, task: beliefs._cluster.task_alive[task])
            begin(migrations, request)

    patch.setattr(Migrations, "_begin", begins)


def waits_for_its_own_group(patch: Patch) -> None:
    """A move waits until its own group is restored, not until those upstream are."""
    patch.setattr(
        Migrations, "_is_down", lambda moves, group: not moves.control.beliefs.unit(moves.cluster.owner_of(group))
    )


def freezes_after_reading(patch: Patch) -> None:
    """Periodic checkpoints go on while the target reads one."""

    def on_stored(protocol: SentState, ctx: Context, message: Message) -> None:
        if ctx.target_has_checkpoint():
            ctx.load_at_target("loaded")
        else:
            ctx.checkpoint_to_target()

    patch.setattr(SentState, "on_stored", on_stored)


def leaves_the_holder(patch: Patch) -> None:
    """Checkpoints go on to the target of a move that was called off."""
    call_off = Migrations._call_off

    def forgets_the_plan(migrations: Migrations, run: Run) -> None:
        run.directed = False
        call_off(migrations, run)

    patch.setattr(Migrations, "_call_off", forgets_the_plan)


def inherits_from_the_planned_unit(patch: Patch) -> None:
    """A new instance has the planned holder of the first instance of its group."""
    new_instance = Cluster.new_instance

    def made(cluster: Cluster, unit: int, task: int) -> int:
        instance = new_instance(cluster, unit, task)
        cluster.planned_holder[instance] = cluster.planned_holder[unit]
        return instance

    patch.setattr(Cluster, "new_instance", made)


def knows_holders(patch: Patch) -> None:
    """Control knows at once that a holder is dead."""
    patch.setattr(Beliefs, "holder", lambda _beliefs, _unit, truth: truth)


def knows_tasks(patch: Patch) -> None:
    """Control knows at once that a task is dead."""
    patch.setattr(Beliefs, "task", lambda beliefs, task: beliefs._cluster.task_alive[task])


def last_least(hosts: Iterable[int], key: Callable[[int], tuple[int, int]], **default: Any) -> int:
    """In place of `min`: of equals the last."""
    return min(hosts, key=lambda host: (key(host)[0], -host), **default)


def last_host_for_a_group(patch: Patch) -> None:
    """Of hosts with equally few key groups and tasks the last takes one."""
    patch.setattr(sim.recovery, "min", last_least, raising=False)


def last_host_for_a_checkpoint(patch: Patch) -> None:
    """Of hosts with equally few checkpoints the last takes one."""
    patch.setattr(sim.holders, "min", last_least, raising=False)


def writes_what_was_not_sent(patch: Patch) -> None:
    """The remote store is busy with a checkpoint that never came."""

    def comes(coordinator: CheckpointCoordinator, transfer: Any) -> None:
        world = coordinator.world
        written = world.remote.departure_ns(world.clock.now_ns(), transfer.bytes)
        world.clock.at(written, reference.checkpoint._rank(transfer), lambda _: coordinator._stored(transfer))

    patch.setattr(CheckpointCoordinator, "_at_remote", comes)


def serves_what_was_not_sent(patch: Patch) -> None:
    """A checkpoint that was on the link of a host when that died is stored."""
    patch.setattr(Task, "died_by", lambda _task, _departure_ns: False)


def forgets_what_was_trimmed(patch: Patch) -> None:
    """A new instance does not know what upstream has let go for the old one."""
    adopt, retire = Moves.adopt, Moves.retire

    def adopts(world: World, instance: int, unit: int) -> None:
        adopt(world, instance, unit)
        world._numbered[instance].trimmed = 0

    def retires(world: World, unit: int) -> None:
        before = [one.trimmed for one in world._numbered]
        retire(world, unit)
        for one, trimmed in zip(world._numbered, before, strict=True):
            one.trimmed = trimmed

    patch.setattr(Moves, "adopt", adopts)
    patch.setattr(Moves, "retire", retires)


def forgets_routes(patch: Patch) -> None:
    """`Runtime.route` does not remember whom it has told."""
    patch.setattr(
        Runtime, "route", lambda runtime, task, group, instances: runtime.control.plane.route(task, group, instances)
    )


def sends_what_was_sent(patch: Patch) -> None:
    """A new instance sends what its checkpoint keeps for key groups that have moved since."""
    opens = Runtime.open

    def sending(runtime: Runtime, instance: int) -> None:
        plane = runtime.control.plane
        with pytest.MonkeyPatch.context() as meanwhile:
            copy_kept = plane.copy_kept

            def copies(sender: int, receiver: int, other: int) -> None:
                copy_kept(sender, receiver, other)
                plane.replay(sender, other)

            meanwhile.setattr(plane, "copy_kept", copies)
            opens(runtime, instance)

    patch.setattr(Runtime, "open", sending)


def keeps_nothing_for_replicas(patch: Patch) -> None:
    """What a checkpoint keeps for an owner is not kept for its younger replica."""
    patch.setattr(Recovery, "_keep_for_replicas", lambda _recovery, _unit: None)


def keeps_the_place(patch: Patch) -> None:
    """The place of a tuple that is lost with the link of its sender is never free again."""
    cut = World._cut_links

    def cuts(world: World, dead: Host) -> None:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(Places, "leave", lambda _places: None)
            cut(world, dead)

    patch.setattr(World, "_cut_links", cuts)


BROKEN: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (asks_who_lives, rules.test_a_move_asks_tasks_upstream_whose_failure_nobody_has_noticed),
    (waits_for_its_own_group, rules.test_a_move_waits_until_the_groups_upstream_are_restored),
    (freezes_after_reading, rules.test_the_checkpoint_that_the_target_reads_stays_the_newest),
    (
        leaves_the_holder,
        lambda: rules.test_checkpoints_go_where_they_went_before_a_move_that_is_called_off("direct"),
    ),
    (
        leaves_the_holder,
        lambda: rules.test_checkpoints_go_where_they_went_before_a_move_that_is_called_off("lazy_move"),
    ),
    (
        inherits_from_the_planned_unit,
        rules.test_checkpoints_go_to_the_planned_holder_after_the_second_move_of_a_group_as_well,
    ),
    (
        sends_what_was_sent,
        rules.test_a_new_instance_does_not_send_what_the_old_one_has_sent_to_a_group_that_moved_meanwhile,
    ),
    (knows_holders, rules.test_a_group_is_sent_to_its_holder_until_the_death_of_that_is_noticed),
    (knows_tasks, rules.test_a_move_is_called_off_when_the_death_of_its_target_is_noticed_and_not_before),
    (last_host_for_a_group, rules.test_of_hosts_with_equally_few_groups_the_first_takes_a_group),
    (last_host_for_a_checkpoint, rules.test_of_hosts_with_equally_few_checkpoints_the_first_takes_a_checkpoint),
    (writes_what_was_not_sent, rules.test_the_remote_store_does_not_write_what_never_left_its_host),
    (serves_what_was_not_sent, rules.test_the_remote_store_does_not_serve_what_never_left_its_host),
    (forgets_what_was_trimmed, rules.test_a_loss_of_state_is_said_of_a_group_that_has_moved),
    (forgets_routes, rules.test_nothing_is_sent_to_the_owner_once_its_replica_has_taken_over),
    (forgets_routes, rules.test_nothing_is_sent_to_a_replica_that_is_known_to_be_lost),
    (keeps_nothing_for_replicas, rules.test_who_is_restored_keeps_for_a_replica_that_is_younger_than_its_checkpoint),
    (keeps_the_place, rules.test_a_place_is_free_again_when_the_sender_dies_before_its_tuple_has_left),
    (last_of_equals_first, equal_messages_leave_in_the_order_of_sending),
]


@pytest.mark.parametrize(("broken", "rule"), BROKEN, ids=[broken.__name__ for broken, _ in BROKEN])
def test_a_rule_that_is_broken_is_missed(
    broken: Callable[[Patch], None], rule: Callable[[], None], monkeypatch: Patch
) -> None:
    broken(monkeypatch)
    with pytest.raises(AssertionError):
        rule()
