"""Migration without a checkpoint at the target: the state travels. [Madsen and Zhou, CIKM 2015, section 4]"""

from __future__ import annotations

from sim.migration.move import MoveContext
from sim.migration.protocol import Message
from sim.migration.protocols.cpa import CPA
from sim.migration.protocols.sent_state import SentState


class Direct(SentState, CPA):
    """Take a checkpoint, send it to the target, and once upstream has trimmed, move as CPA does.

    Paused: as in CPA; while it writes the state the task does nothing else. Copied: the state, and tuples since then.
    Lost: nothing.
    """

    def on_loaded(self, ctx: MoveContext, message: Message) -> None:
        """Go on as CPA: the state is in the memory of the target."""
        CPA.start(self, ctx)
