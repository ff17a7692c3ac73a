"""Checkpoint-assisted migration. [Madsen and Zhou, CIKM 2015, Algorithm 1]"""

from __future__ import annotations

from sim.migration.move import Fact, MoveContext, MoveProtocol
from sim.migration.protocol import Message


class CPA(MoveProtocol):
    """Move a key group to the task that stores its newest checkpoint.

    Paused: the group, from the redirect until the replay is processed. Copied: the outputs that upstream keeps.
    Lost: nothing. Downstream gets outputs twice, and drops them.
    """

    def start(self, ctx: MoveContext) -> None:
        """Tell everyone upstream; checkpoints freeze first, or upstream could forget tuples that are to be replayed."""
        ctx.freeze_checkpoints()
        for task in self.move.upstream:
            ctx.send(task, "move")

    # upstream

    def on_move(self, ctx: MoveContext, message: Message) -> None:
        """Redirect the group, behind the replay."""
        ctx.pauses()
        # Channels are first in first out: new tuples, once routed to the target, arrive behind the replay, and
        # `to_state` behind it finds the whole replay there.
        ctx.replay()
        ctx.route(self.move.new)
        ctx.send(self.move.target, "to_state")
        # At its turn, behind the last tuple that was sent to the source.
        ctx.send(self.move.source, "to_checkpoint", turn=True)

    # at the task that has the group

    def on_to_checkpoint(self, ctx: MoveContext, message: Message) -> None:
        """Turn the state into a checkpoint after the last tuple from everyone upstream."""
        if self.all_in("to_checkpoint", message.sender, self.move.upstream):
            ctx.to_checkpoint()

    # at the task that has the checkpoint

    def on_to_state(self, ctx: MoveContext, message: Message) -> None:
        """Install the checkpoint at the first message; the replay is in front of the queue already."""
        if not ctx.has_state():
            ctx.install()
        ctx.after_backlog("replayed", note=message.sender)

    def on_replayed(self, ctx: MoveContext, message: Message) -> None:
        """Own the group when the replay of everyone upstream is processed."""
        assert isinstance(message.note, int)
        if self.all_in("replayed", message.note, self.move.upstream):
            ctx.goes_on()
            ctx.done(Fact.OWNS)
