"""Active replicas that are broken on purpose: each has to be noticed."""

from __future__ import annotations

from typing import Any

from lab.breaking import around
from lab.laboratory import Laboratory
from sim.control.replicas import REPLICATE
from sim.migration.move import MoveContext
from sim.migration.protocol import Message
from sim.migration.protocols.replicate import ReplicateWithoutCheckpoints


@around("replicate", "a replica answers beside its owner")
def answers_beside_its_owner(lab: Laboratory) -> None:
    made = lab.replicas.made

    def unmuted(partition: int, *rest: Any) -> None:
        made(partition, *rest)
        lab.plane.mute(partition, False)

    lab.replicas.made = unmuted  # type: ignore[method-assign]


@around("replicate", "upstream sends to the owner alone when a replica is in step")
def sends_to_the_owner_alone(lab: Laboratory) -> None:
    made = lab.replicas.made

    def unrouted(partition: int, *rest: Any) -> None:
        made(partition, *rest)
        lab.instances.unroute(lab.cluster.group_of(partition), partition)

    lab.replicas.made = unrouted  # type: ignore[method-assign]


@around("replicate", "a replica that takes over sends nothing again")
def takes_over_without_sending_again(lab: Laboratory) -> None:
    _takes_over_without(lab, lab.instances, "resend")


@around("replicate", "a replica that takes over stays silent")
def takes_over_in_silence(lab: Laboratory) -> None:
    _takes_over_without(lab, lab.plane, "mute")


@around("replicate", "a replica that takes over does not own its group")
def takes_over_without_owning(lab: Laboratory) -> None:
    _takes_over_without(lab, lab.instances, "own")


def _takes_over_without(lab: Laboratory, manager: Any, verb: str) -> None:
    take_over = lab.replicas._take_over

    def without(*arguments: Any) -> None:
        before = getattr(manager, verb)
        setattr(manager, verb, lambda *_: None)
        take_over(*arguments)
        setattr(manager, verb, before)

    lab.replicas._take_over = without  # type: ignore[method-assign]


@around("replicate", "a new task sends to owners alone")
def new_tasks_send_to_owners(lab: Laboratory) -> None:
    lab.instances.task_added.remove(lab.replicas.task_added)


# -- where everything has a replica, and key groups move


@around("pause_drain_resume", "a replica that changes places with its owner sends nothing again")
def changes_places_without_sending_again(lab: Laboratory) -> None:
    switch_over = lab.replicas.switch_over

    def silently(group: int) -> None:
        before = lab.instances.resend
        lab.instances.resend = lambda partition: None  # type: ignore[method-assign]
        switch_over(group)
        lab.instances.resend = before  # type: ignore[method-assign]

    lab.replicas.switch_over = silently  # type: ignore[method-assign]


@around("pause_drain_resume", "after a move upstream sends to the owner alone")
def forgets_the_replica(lab: Laboratory) -> None:
    lab.replicas.targets = lambda group: ()  # type: ignore[method-assign]


@around("pause_drain_resume", "an instance that was drained stays silent when its move is called off")
def stays_silent(lab: Laboratory) -> None:
    go_on = lab.migrations._go_on
    lab.migrations._go_on = lambda move, stays: go_on(move, stays) if stays == move.new else None  # type: ignore[method-assign]


@around("pause_drain_resume", "a new replica gets the state without the outputs that come meanwhile")
def copies_without_keeping(lab: Laboratory) -> None:
    class Unkept(ReplicateWithoutCheckpoints):
        def on_move(self, ctx: MoveContext, message: Message) -> None:
            ctx.send(self.move.source, "drain", turn=True)

    lab.migrations.protocols = lab.migrations.protocols | {REPLICATE: Unkept}
