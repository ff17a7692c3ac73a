"""The begin of a protocol that needs no checkpoint at the target: one is sent there first."""

from __future__ import annotations

from sim.migration.move import MoveContext, MoveProtocol
from sim.migration.protocol import Message


class SentState(MoveProtocol):
    """The begin of a move whose state travels; `on_loaded` goes on when the state is in the memory of the target."""

    needs_checkpoint = False

    def start(self, ctx: MoveContext) -> None:
        """A checkpoint for the target first."""
        ctx.checkpoint_to_target()

    def on_stored(self, ctx: MoveContext, message: Message) -> None:
        """The checkpoint is there; that of before may have come first, to somebody else."""
        if ctx.target_has_checkpoint():
            ctx.freeze_checkpoints()
            ctx.load_at_target("loaded")
        else:
            ctx.checkpoint_to_target()
