"""A second instance that stays: how an active replica is made of a key group that goes on."""

from __future__ import annotations

from sim.migration.move import Fact, MoveContext
from sim.migration.protocol import Message
from sim.migration.protocols.cpal import CPAL
from sim.migration.protocols.direct import SentState
from sim.migration.protocols.pause_drain_resume import DrainedState


class Replicate(SentState, CPAL):
    """Send a checkpoint to the host of the replica, replay behind it, and from then on send each tuple to both.

    As in `direct` the state travels, as in `cpal` the replica warms up in silence while the owner goes on, and there is
    no switch. Paused: nothing; while it writes the state the task does nothing else. Copied: the state, the replay,
    and from then on every tuple. Lost: nothing.
    """

    def on_loaded(self, ctx: MoveContext, message: Message) -> None:
        """Go on as CPAL: the state is in the memory of the target."""
        CPAL.start(self, ctx)

    def on_replayed(self, ctx: MoveContext, message: Message) -> None:
        """Finish when the replay of everyone upstream is processed: the replica is in step."""
        assert isinstance(message.note, int)
        if self.all_in("replayed", message.note, self.move.upstream):
            ctx.done(Fact.OWNS)
            ctx.done(Fact.HOLDS)


class ReplicateWithoutCheckpoints(DrainedState):
    """Send the owner's own state to the host of the replica, while tuples wait at both.

    Paused: the group, while the owner writes its state, and that is sent and read. Copied: the state, and from the
    begin on every tuple. Lost: nothing.
    """

    def on_move(self, ctx: MoveContext, message: Message) -> None:
        """Send each tuple to both from now on; the replica holds them."""
        ctx.keep_too()
        ctx.route(self.move.old, self.move.new)
        ctx.send(self.move.source, "drain", turn=True)

    def send_state(self, ctx: MoveContext) -> None:
        """Hold what comes next, and send the state: the replica drops what it gets and the state has already."""
        ctx.pauses()
        ctx.hold(partition=self.move.old)
        ctx.send_state("state", last=False)

    def on_read(self, ctx: MoveContext, message: Message) -> None:
        """Go on in silence; the owner goes on as well."""
        ctx.install(muted=True)
        ctx.send(self.move.source, "go_on")
        ctx.after_backlog("in_step")

    # at the owner

    def on_go_on(self, ctx: MoveContext, message: Message) -> None:
        """Process what was held."""
        ctx.release(self.move.old)
        ctx.goes_on()
        ctx.done(Fact.HOLDS)

    # at the replica

    def on_in_step(self, ctx: MoveContext, message: Message) -> None:
        """Note that the replica has processed what waited for the state."""
        ctx.done(Fact.OWNS)
