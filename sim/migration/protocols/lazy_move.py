"""Migration at the next periodic checkpoint. [Madsen and Zhou, CIKM 2015, section 4]"""

from __future__ import annotations

from sim.migration.move import MoveContext
from sim.migration.protocol import Message
from sim.migration.protocols.cpa import CPA


class LazyMove(CPA):
    """Direct the next checkpoint to the target, wait until it is there, then move as CPA does.

    Paused: as in CPA. Copied: tuples since the checkpoint. Lost: nothing.
    """

    needs_checkpoint = False

    def start(self, ctx: MoveContext) -> None:
        """Direct the next checkpoint to the target, or begin if it has the newest."""
        if ctx.target_has_checkpoint():
            super().start(ctx)
        else:
            ctx.direct_checkpoints_to_target()

    def on_stored(self, ctx: MoveContext, message: Message) -> None:
        """Try again: a checkpoint is stored, but an earlier one may have gone to another host."""
        self.start(ctx)
