"""A second instance that stays: how an active replica is made of a key group that goes on."""

from __future__ import annotations

from sim.migration.move import Fact, MoveContext
from sim.migration.protocol import Message
from sim.migration.protocols.cpal import CPAL
from sim.migration.protocols.direct import SentState


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
