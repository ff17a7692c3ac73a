"""The delay that checkpoints on a host's link cause its tuples, compared with a link that carries no checkpoints.

That link would send everything else, first in first out, at the same instants. A tuple is delayed if it leaves later
than it would have left there; on a link that is shared evenly only if a checkpoint was on the link with it.
"""

from __future__ import annotations

from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State


@kernel
def leaves_alone(state: State, host: int, held: int) -> int:
    """Return when a message that holds the link so long would have left it without checkpoints."""
    h = state.hosts[host]
    h.free_alone = max(state.clock.now, h.free_alone) + held
    return h.free_alone


@kernel
def count_tuples(state: State, host: int, tuples: int, late: int) -> None:
    """Count tuples that left the link, so much later than they would have left it without checkpoints."""
    h = state.hosts[host]
    h.carried += tuples
    if late > 0 and tuples > 0:
        h.delayed += tuples
        h.delay += tuples * late
        h.delay_most = max(h.delay_most, late)


@kernel
def forget_use(state: State, host: int) -> None:
    """The host died: its link is empty."""
    h = state.hosts[host]
    h.free_alone = h.uploads = h.upload_left = 0
