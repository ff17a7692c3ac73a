"""Migration without a checkpoint at the target: the state travels. [Madsen and Zhou, CIKM 2015, section 4]

Base of the protocols that need no checkpoint at the target: one is sent there first.
"""

from __future__ import annotations

from sim.migration.move import MoveContext, MoveProtocol
from sim.migration.protocol import Message
from sim.migration.protocols.cpa import CPA


class SentState(MoveProtocol):
    """Base of moves whose state travels; `on_loaded` goes on when the state is in the memory of the target."""

    needs_checkpoint = False

    def start(self, ctx: MoveContext) -> None:
        """Have a checkpoint sent to the target first."""
        ctx.checkpoint_to_target()

    def on_stored(self, ctx: MoveContext, message: Message) -> None:
        """Load the checkpoint, or ask again: the one that was stored may be an earlier one, elsewhere."""
        if ctx.target_has_checkpoint():
            ctx.freeze_checkpoints()
            ctx.load_at_target("loaded")
        else:
            ctx.checkpoint_to_target()


class Direct(SentState, CPA):
    """Take a checkpoint, send it to the target, and once upstream has trimmed, move as CPA does.

    Paused: as in CPA; while it writes the state the task does nothing else. Copied: the state, and tuples since then.
    Lost: nothing.
    """

    def on_loaded(self, ctx: MoveContext, message: Message) -> None:
        """Go on as CPA: the state is in the memory of the target."""
        CPA.start(self, ctx)
