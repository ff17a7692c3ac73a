"""Checkpoint-assisted migration with low latency. [Madsen and Zhou, CIKM 2015, Algorithm 2]"""

from __future__ import annotations

from sim.migration.move import Fact, MoveContext, MoveProtocol
from sim.migration.protocol import Message


class CPAL(MoveProtocol):
    """Move a key group to the task that stores its newest checkpoint, while its owner goes on.

    Paused: the group, from the first to the last `sync_group`. Copied: the replay, and new tuples until the
    switch. Lost: nothing; nothing is answered twice.
    """

    def start(self, ctx: MoveContext) -> None:
        """Tell everyone upstream; checkpoints freeze first, as in CPA."""
        ctx.freeze_checkpoints()
        for task in self.move.upstream:
            ctx.send(task, "move")

    # upstream

    def on_move(self, ctx: MoveContext, message: Message) -> None:
        """Replay to the target, and send each tuple to both from now on."""
        ctx.replay(turn=True)
        ctx.route(self.move.old, self.move.new)
        ctx.send(self.move.target, "to_state", turn=True)

    def on_processed_all_replay(self, ctx: MoveContext, message: Message) -> None:
        """Switch: the new owner has caught up with the old one, and alone gets the tuples from now on."""
        # The message marks the end of the tuples that go to both: the target holds later ones.
        ctx.send(self.move.target, "sync_group", turn=True)
        ctx.route(self.move.new)
        ctx.send(self.move.source, "to_checkpoint", turn=True)

    # at the task that has the group

    def on_to_checkpoint(self, ctx: MoveContext, message: Message) -> None:
        """Turn the state into a checkpoint after the last tuple from everyone upstream."""
        if self.all_in("to_checkpoint", message.sender, self.move.upstream):
            ctx.to_checkpoint()

    # at the task that has the checkpoint

    def on_to_state(self, ctx: MoveContext, message: Message) -> None:
        """Install the checkpoint at the first message; the new instance warms up in silence."""
        if not ctx.has_state():
            ctx.install(muted=True)
        ctx.after_backlog("replayed", note=message.sender)

    def on_replayed(self, ctx: MoveContext, message: Message) -> None:
        """Ask for the switch when the replay of everyone upstream is processed."""
        assert isinstance(message.note, int)
        if self.all_in("replayed", message.note, self.move.upstream):
            self.ask_for_the_switch(ctx)

    def ask_for_the_switch(self, ctx: MoveContext) -> None:
        """Tell everyone upstream."""
        for task in self.move.upstream:
            ctx.send(task, "processed_all_replay")

    def on_sync_group(self, ctx: MoveContext, message: Message) -> None:
        """Hold tuples of this sender from now on, until all of upstream has switched."""
        ctx.pauses()
        ctx.hold(message.sender)
        if self.all_in("sync_group", message.sender, self.move.upstream):
            # Tuples that were sent to both are answered by the old instance, so the new one speaks up only now, before
            # it processes those that went to it alone.
            ctx.unmute()
            ctx.release()
            ctx.after_backlog("caught_up")

    def on_caught_up(self, ctx: MoveContext, message: Message) -> None:
        """End the pause: the tuples that were held are processed."""
        ctx.goes_on()
        ctx.done(Fact.OWNS)


class CaughtUpCPAL(CPAL):
    """CPAL that asks for the switch only when the queue that grew behind the replay has drained as well.

    Not in the paper. While a worker with one queue processes the replay, new tuples queue up behind it, in proportion
    to its load, and tuples that come right after the switch would wait for them. Each round reduces the queue by the
    factor of the load.
    """

    rounds = 4

    def on_replayed(self, ctx: MoveContext, message: Message) -> None:
        """Let the queue drain once the replay of everyone upstream is processed."""
        assert isinstance(message.note, int)
        if self.all_in("replayed", message.note, self.move.upstream):
            ctx.send(ctx.me, "drained", turn=True, note=1)

    def on_drained(self, ctx: MoveContext, message: Message) -> None:
        """Let the queue drain once more, or ask for the switch after the last round."""
        assert isinstance(message.note, int)
        if message.note < self.rounds:
            ctx.send(ctx.me, "drained", turn=True, note=message.note + 1)
        else:
            self.ask_for_the_switch(ctx)
