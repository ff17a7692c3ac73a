"""Notices to the listener: numbers that Python reads when the loop has returned, before the next event."""

from __future__ import annotations

import numpy as np

from sim.kernel.tools.cache import inlined
from sim.kernel.tools.pointer import State

# A notice is a task that is idle, -1 - a task that has a message in hand, or (this times 1 + a slot) and a partition
# whose checkpoint in that slot is stored, or the last one and a place among the frontiers that control waits for.
TOLD_STORED = 1 << 32
TOLD_PASSED = 1 << 60

TOLD = np.dtype([("count", "i8")])  # notices that wait


@inlined
def notify(state: State, notice: int) -> None:
    """Tell the listener, once this event is over; the loop has seen that there is room."""
    state.notices[state.told.count] = notice
    state.told.count += 1
