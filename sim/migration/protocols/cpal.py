"""Checkpoint-assisted migration with low latency. [Madsen and Zhou, CIKM 2015, Algorithm 2]"""

from __future__ import annotations

from sim.migration.move import Fact, MoveContext, MoveProtocol
from sim.migration.protocol import Message


class CPAL(MoveProtocol):
    """Move a key group to the task that stores its newest checkpoint, while its owner goes on.

    Paused: the group, from the first to the last `sync_group`. Copied: what upstream keeps, and new tuples until the
    switch. Lost: nothing; nothing is answered twice.
    """

    def start(self, ctx: MoveContext) -> None:
        """The controller informs all upstream."""
        ctx.freeze_checkpoints()
        for task in self.move.upstream:
            ctx.send(task, "move")

    # upstream

    def on_move(self, ctx: MoveContext, message: Message) -> None:
        """Send what was kept, and from now on each tuple to both."""
        ctx.replay(turn=True)
        ctx.route(self.move.old, self.move.new)
        ctx.send(self.move.target, "to_state", turn=True)

    def on_processed_all_replay(self, ctx: MoveContext, message: Message) -> None:
        """The new owner is where the old one is: from now on it alone gets the tuples."""
        ctx.send(self.move.target, "sync_group", turn=True)
        ctx.route(self.move.new)
        ctx.send(self.move.source, "to_checkpoint", turn=True)

    # at the task that has the group

    def on_to_checkpoint(self, ctx: MoveContext, message: Message) -> None:
        """After the last tuple from everyone upstream, state becomes a checkpoint."""
        if self.all_in("to_checkpoint", message.sender, self.move.upstream):
            ctx.to_checkpoint()

    # at the task that has the checkpoint

    def on_to_state(self, ctx: MoveContext, message: Message) -> None:
        """The checkpoint becomes state at the first, and warms up in silence."""
        if not ctx.has_state():
            ctx.install(muted=True)
        ctx.after_backlog("replayed", note=message.sender)

    def on_replayed(self, ctx: MoveContext, message: Message) -> None:
        """All that one of those upstream had kept is processed."""
        assert isinstance(message.note, int)
        if self.all_in("replayed", message.note, self.move.upstream):
            self.ask_for_the_switch(ctx)

    def ask_for_the_switch(self, ctx: MoveContext) -> None:
        """Tell everyone upstream."""
        for task in self.move.upstream:
            ctx.send(task, "processed_all_replay")

    def on_sync_group(self, ctx: MoveContext, message: Message) -> None:
        """What comes from there now waits until all have switched."""
        ctx.pauses()
        ctx.hold(message.sender)
        if self.all_in("sync_group", message.sender, self.move.upstream):
            ctx.unmute()
            ctx.release()
            ctx.after_backlog("caught_up")

    def on_caught_up(self, ctx: MoveContext, message: Message) -> None:
        """What had waited is processed."""
        ctx.goes_on()
        ctx.done(Fact.OWNS)


class CaughtUpCPAL(CPAL):
    """CPAL that asks for the switch only when the queue that grew behind the replay has drained as well.

    Not in the paper. On a worker that serves one queue a part of the replay's time, as large as its load, has piled up
    behind the replay, and tuples that come right after the switch would wait for it; each round leaves that part of
    what the last one left.
    """

    rounds = 4

    def on_replayed(self, ctx: MoveContext, message: Message) -> None:
        """All that one of those upstream had kept is processed; the queue is next."""
        assert isinstance(message.note, int)
        if self.all_in("replayed", message.note, self.move.upstream):
            ctx.send(ctx.me, "drained", turn=True, note=1)

    def on_drained(self, ctx: MoveContext, message: Message) -> None:
        """What had queued up is processed."""
        assert isinstance(message.note, int)
        if message.note < self.rounds:
            ctx.send(ctx.me, "drained", turn=True, note=message.note + 1)
        else:
            self.ask_for_the_switch(ctx)
