"""Dataflow replication: new instances run beside the old ones until they have caught up, then the output switches.

As in ChronoStream (Wu and Tan, ICDE 2015), here of each key group by itself: m + n instances during the move.
"""

from __future__ import annotations

from sim.migration.move import MoveContext
from sim.migration.protocol import Message
from sim.migration.protocols.cpal import CPAL, CaughtUpCPAL
from sim.migration.protocols.direct import SentState


class Replication(SentState, CaughtUpCPAL):
    """Send a checkpoint to the target, replay behind it, send each tuple to both, and switch when both are in step.

    As in `direct` the state travels, so that no checkpoint is needed at the target; as in `cpal_caught_up` the new
    instance warms up in silence. Paused: the group, from the first to the last `sync_group`; while it writes the state
    the task does nothing else. Copied: the state, the replay, and tuples until the switch. Lost: nothing.
    """

    def on_loaded(self, ctx: MoveContext, message: Message) -> None:
        """Go on as CPAL: the state is in the memory of the target."""
        CPAL.start(self, ctx)
