"""The tests of the rules of control notice each version of control, or of the plain plane, that breaks one.

Mutants of the laboratory are met here on a clock; the others break what the laboratory does not have: replicas, a
remote store, links with a bandwidth, bounded queues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import test_control_rules as rules
from lab.mutants import MUTANTS
from test_fair_links import equal_messages_leave_in_the_order_of_sending, last_of_equals_first

import sim.control.host_choice
import sim.control.instances
import sim.plain.checkpoint
from sim.control.assembly import Control
from sim.control.instances import Instances
from sim.control.recovery import Recovery
from sim.plain.checkpoint import CheckpointCoordinator
from sim.plain.host import Host
from sim.plain.outbox import Places
from sim.plain.plane import PlainPlane
from sim.plain.task import Task

Patch = pytest.MonkeyPatch


def in_the_laboratory(name: str) -> Callable[[Patch], None]:
    """What a mutant of the laboratory does, done to each run before it starts."""
    tamper = next(mutant.tamper for mutant in MUTANTS if mutant.name == name)

    def broken(patch: Patch) -> None:
        start = Control.start

        def starts(control: Any) -> None:
            tamper(control)
            start(control)

        patch.setattr(Control, "start", starts)

    broken.__name__ = name
    return broken


def last_least(hosts: Iterable[int], key: Callable[[int], tuple[int, int]], **default: Any) -> int:
    """In place of `min`: of equals the last."""
    return min(hosts, key=lambda host: (key(host)[0], -host), **default)


def last_host_for_a_group(patch: Patch) -> None:
    """Of hosts with equally few key groups and tasks the last takes one."""
    patch.setattr(sim.control.host_choice, "min", last_least, raising=False)


def last_host_for_a_checkpoint(patch: Patch) -> None:
    """Of hosts with equally few checkpoints the last takes one."""
    patch.setattr(sim.control.instances, "min", last_least, raising=False)


def writes_what_was_not_sent(patch: Patch) -> None:
    """The remote store is busy with a checkpoint that never came."""

    def comes(coordinator: CheckpointCoordinator, transfer: Any) -> None:
        plane = coordinator.plane
        written = plane.remote.departure_ns(plane.clock.now_ns(), transfer.bytes)
        plane.clock.at(written, sim.plain.checkpoint._rank(transfer), lambda _: coordinator._stored(transfer))

    patch.setattr(CheckpointCoordinator, "_at_remote", comes)


def serves_what_was_not_sent(patch: Patch) -> None:
    """A checkpoint that was on the link of a host when that died is stored."""
    patch.setattr(Task, "died_by", lambda _task, _departure_ns: False)


def forgets_routes(patch: Patch) -> None:
    """`Instances.route` does not remember whom it has told."""
    patch.setattr(
        Instances, "route", lambda made, task, group, instances: made.state.plane.route(task, group, instances)
    )


def sends_what_was_sent(patch: Patch) -> None:
    """A new instance sends what its checkpoint keeps for key groups that have moved since."""
    opens = Instances.open

    def sending(instances: Instances, instance: int) -> None:
        plane = instances.state.plane
        with pytest.MonkeyPatch.context() as meanwhile:
            copy_kept = plane.copy_kept

            def copies(sender: int, receiver: int, other: int) -> None:
                copy_kept(sender, receiver, other)
                plane.replay(sender, other)

            meanwhile.setattr(plane, "copy_kept", copies)
            opens(instances, instance)

    patch.setattr(Instances, "open", sending)


def keeps_nothing_for_replicas(patch: Patch) -> None:
    """What a checkpoint keeps for an owner is not kept for its younger replica."""
    patch.setattr(Recovery, "_keep_for_replicas", lambda _recovery, _partition: None)


def keeps_the_place(patch: Patch) -> None:
    """The place of a tuple that is lost with the link of its sender is never free again."""
    cut = PlainPlane._cut_links

    def cuts(plane: PlainPlane, dead: Host) -> None:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(Places, "leave", lambda _places: None)
            cut(plane, dead)

    patch.setattr(PlainPlane, "_cut_links", cuts)


BROKEN: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (
        in_the_laboratory("a move asks only those upstream that really live"),
        rules.test_a_move_asks_tasks_upstream_whose_failure_nobody_has_detected,
    ),
    (
        in_the_laboratory("a move does not wait until those upstream are restored"),
        rules.test_a_move_waits_until_the_groups_upstream_are_restored,
    ),
    (
        in_the_laboratory("checkpoints go on while the target reads one"),
        rules.test_the_checkpoint_that_the_target_reads_stays_the_newest,
    ),
    (
        in_the_laboratory("checkpoints go to the target of a move that was called off"),
        lambda: rules.test_checkpoints_go_where_they_went_before_a_move_that_is_called_off("direct"),
    ),
    (
        in_the_laboratory("checkpoints go to the target of a move that was called off"),
        lambda: rules.test_checkpoints_go_where_they_went_before_a_move_that_is_called_off("lazy_move"),
    ),
    (
        in_the_laboratory("a second move inherits the checkpoint host of the first"),
        rules.test_checkpoints_go_to_the_planned_checkpoint_host_after_the_second_move_of_a_group_as_well,
    ),
    (
        sends_what_was_sent,
        rules.test_a_new_instance_does_not_send_what_the_old_one_has_sent_to_a_group_that_moved_meanwhile,
    ),
    (
        in_the_laboratory("control knows at once which tasks and checkpoint hosts are dead"),
        rules.test_a_group_is_sent_to_its_checkpoint_host_until_the_death_of_that_is_detected,
    ),
    (
        in_the_laboratory("control knows at once which tasks and checkpoint hosts are dead"),
        rules.test_a_move_is_called_off_when_the_death_of_its_target_is_detected_and_not_before,
    ),
    (last_host_for_a_group, rules.test_of_hosts_with_equally_few_groups_the_first_takes_a_group),
    (last_host_for_a_checkpoint, rules.test_of_hosts_with_equally_few_checkpoints_the_first_takes_a_checkpoint),
    (writes_what_was_not_sent, rules.test_the_remote_store_does_not_write_what_never_left_its_host),
    (serves_what_was_not_sent, rules.test_the_remote_store_does_not_serve_what_never_left_its_host),
    (
        in_the_laboratory("nobody remembers what upstream has let go for a group that moves"),
        rules.test_a_loss_of_state_is_said_of_a_group_that_has_moved,
    ),
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
