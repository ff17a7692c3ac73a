"""Checkpoints that are broken on purpose where outputs are post-dated, and keys are open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lab.broken_losses import HARMLESS, MUTANTS, Patch, broken
from sim.plain import audit
from sim.plain.channels import Channels, PlaneState
from sim.plain.partition import Checkpoint, Partition, PostDated, Visit
from sim.plain.plane import PlainPlane

__all__ = ["HARMLESS", "MUTANTS"]


def _changed(change: Callable[[Partition, Checkpoint], Checkpoint]) -> Callable[[Patch], None]:
    """Have snapshots be others than what there is."""
    right = Partition.content

    def made(patch: Patch) -> None:
        def content(self: Partition, *given: Any) -> Checkpoint:
            return change(self, right(self, *given))

        patch.setattr(Partition, "content", content)

    return made


@broken("post-dated", "outputs that wait are in no checkpoint")
def no_outputs(patch: Patch) -> None:
    _changed(lambda _, made: replace(made, post_dated=()))(patch)


@broken("post-dated", "open keys are in no checkpoint")
def no_open_keys(patch: Patch) -> None:
    def forgotten(_: Partition, made: Checkpoint) -> Checkpoint:
        for key in made.open_keys.keys.values() if made.open_keys else ():
            key.tuples = 0
        return made

    _changed(forgotten)(patch)


@broken("post-dated", "a checkpoint has the open keys of the state that goes on")
def open_keys_are_not_copied(patch: Patch) -> None:
    _changed(lambda one, made: replace(made, open_keys=one.open_keys if made.open_keys else None))(patch)


@broken("post-dated", "a key that has closed since the checkpoint stays closed")
def closed_keys_stay(patch: Patch) -> None:
    right = Partition.restore_post_dated

    def restore(self: Partition, checkpoint: Checkpoint | None) -> None:
        closed = self.open_keys.closed
        right(self, checkpoint)
        self.open_keys.closed |= closed

    patch.setattr(Partition, "restore_post_dated", restore)


@broken("post-dated", "a key that was opened since the checkpoint stays open")
def open_keys_stay(patch: Patch) -> None:
    right = Partition.restore_post_dated

    def restore(self: Partition, checkpoint: Checkpoint | None) -> None:
        before = self.open_keys.keys
        right(self, checkpoint)
        for key, one in before.items():
            self.open_keys.keys.setdefault(key, replace(one))

    patch.setattr(Partition, "restore_post_dated", restore)


@broken("post-dated", "an output leaves that was post-dated in an earlier life")
def earlier_lives_go_on(patch: Patch) -> None:
    right = Channels._is_due

    def is_due(self: Channels, partition: Partition, output: PostDated) -> None:
        if partition.live and partition.post_dated.get(output.tuple_id) is not output:
            self.emit(partition, output.tuple_id, output.born_ns, output.key)
            self.tell()
            return
        right(self, partition, output)

    patch.setattr(Channels, "_is_due", is_due)


@broken("post-dated", "outputs that were made since the checkpoint are in the state that comes back")
def later_outputs_stay(patch: Patch) -> None:
    forget, restore = Partition.forget_volatile, Partition.restore_post_dated

    def forgets(self: Partition) -> list[Visit]:
        kept = dict(self.post_dated)
        held = forget(self)
        self.post_dated = kept
        return held

    def restores(self: Partition, checkpoint: Checkpoint | None) -> None:
        kept = self.post_dated
        restore(self, checkpoint)
        for output in kept.values():
            if output.tuple_id not in self.post_dated:
                self.postpone(output)

    patch.setattr(Partition, "forget_volatile", forgets)
    patch.setattr(Partition, "restore_post_dated", restores)


@broken("post-dated", "what is due when its state comes back never leaves")
def what_is_due_is_forgotten(patch: Patch) -> None:
    right = Channels.post_date_again

    def post_date_again(self: Channels, partition: Partition) -> None:
        right(self, partition)
        partition.overdue.clear()

    patch.setattr(Channels, "post_date_again", post_date_again)


@broken("post-dated", "outputs of a state that comes back have no events")
def nothing_is_post_dated_again(patch: Patch) -> None:
    patch.setattr(Channels, "_wait_for_birth", _unless_restoring(Channels._wait_for_birth))


def _unless_restoring(right: Callable[..., None]) -> Callable[..., None]:
    def wait(self: PlainPlane, partition: Partition, output: PostDated) -> None:
        if partition.live:
            right(self, partition, output)

    return wait


@broken("post-dated", "the audit does not know of outputs in checkpoints")
def the_audit_knows_of_none(patch: Patch) -> None:
    right = audit._since_checkpoint

    def since(plane: PlaneState) -> set[tuple[Partition, int]]:
        kept = {one: one.checkpoint for one in plane.all_partitions()}
        for partition, checkpoint in kept.items():
            partition.checkpoint = replace(checkpoint, post_dated=()) if checkpoint else None
        found = right(plane)
        for partition, checkpoint in kept.items():
            partition.checkpoint = checkpoint
        return found

    patch.setattr(audit, "_since_checkpoint", since)
