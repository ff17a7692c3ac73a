"""A second instance that stays: how an active replica is made of a key group that goes on."""

from __future__ import annotations

from sim.context import Context, Message, Protocol


class Replicate(Protocol):
    """Send a checkpoint to the host of the replica, replay behind it, and from then on send each tuple to both.

    As in `direct` the state travels, as in `cpal` the replica warms up in silence while the owner goes on, and there is
    no switch. Paused: nothing; while it writes the state the task does nothing else. Copied: the state, what upstream
    keeps, and from then on every tuple. Lost: nothing.
    """

    needs_checkpoint = False

    def start(self, ctx: Context) -> None:
        """A checkpoint for the host of the replica first."""
        ctx.checkpoint_to_target()

    def on_stored(self, ctx: Context, message: Message) -> None:
        """The checkpoint is there; that of before may have come first, to somebody else."""
        if ctx.target_has_checkpoint():
            ctx.freeze_checkpoints()
            ctx.load_at_target("loaded")
        else:
            ctx.checkpoint_to_target()

    def on_loaded(self, ctx: Context, message: Message) -> None:
        """The state is in the memory of the target: the controller informs all upstream."""
        for task in self.move.upstream:
            ctx.send(task, "move")

    # upstream

    def on_move(self, ctx: Context, message: Message) -> None:
        """Send what was kept, and from now on each tuple to both."""
        ctx.replay(turn=True)
        ctx.route(self.move.old, self.move.new)
        ctx.send(self.move.target, "to_state", turn=True)

    # at the task of the replica

    def on_to_state(self, ctx: Context, message: Message) -> None:
        """The checkpoint becomes state at the first, and warms up in silence."""
        if not ctx.has_state():
            ctx.install(muted=True)
        ctx.behind("replayed", note=message.sender)

    def on_replayed(self, ctx: Context, message: Message) -> None:
        """What one of those upstream had kept is processed; with the last of them the replica is in step."""
        assert isinstance(message.note, int)
        if self.all_in("replayed", message.note, self.move.upstream):
            ctx.done("owns")
            ctx.done("holds")
