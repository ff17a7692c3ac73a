"""Migration without a checkpoint at the target: the state travels. [Madsen and Zhou, CIKM 2015, section 4]"""

from __future__ import annotations

from sim.context import Context, Message
from sim.protocols.cpa import CPA


class Direct(CPA):
    """Take a checkpoint, send it to the target, and once upstream has let go of what it covers, move as CPA does.

    Paused: as in CPA; while it writes the state the task does nothing else. Copied: the state, and what came since.
    Lost: nothing.
    """

    needs_checkpoint = False

    def start(self, ctx: Context) -> None:
        """A checkpoint for the target first."""
        ctx.checkpoint_to_target()

    def on_stored(self, ctx: Context, message: Message) -> None:
        """The checkpoint is there; that of before may have come first, to somebody else."""
        if ctx.target_has_checkpoint():
            ctx.freeze_checkpoints()
            ctx.load_at_target("loaded")
        else:
            ctx.checkpoint_to_target()

    def on_loaded(self, ctx: Context, message: Message) -> None:
        """The state is in the memory of the target."""
        super().start(ctx)
