"""States of the last time in the scan: which tuples a partition keeps until one comes that is newer by their length.

Only where the sizes of states are asked for. A tuple is in the list of its partition, in the order of the services.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.codes import NONE
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

RECENT_POOL = np.dtype([("free", "i8"), ("left", "i8"), ("need", "i8")])  # the first free place, or NONE

# A partition: its tuples, and the newest that it has applied.
RECENTS_OF = np.dtype([("newest", "i8"), ("first", "i4"), ("last", "i4")])

# When a tuple was created, and how many the partition had applied before it.
RECENT_TUPLE = np.dtype([("created", "i8"), ("number", "i8"), ("next", "i4")], align=True)


@kernel
def recents_fit(state: State, n: int) -> bool:
    """Return whether so many more tuples find room; asks for it where not."""
    if state.recent_pool.left < n:
        state.recent_pool.need = n
        return False
    return True


@kernel
def remember(state: State, partition: Any, created: int, number: int, length: int) -> None:
    """Keep the tuple in the state; `number`: how many the partition has applied before it."""
    u = state.recents_of[partition]
    u.newest = max(u.newest, created)
    after = u.newest - length
    while u.first != NONE and state.recents[u.first].created <= after:
        gone = u.first
        u.first = state.recents[gone].next
        state.recents[gone].next = state.recent_pool.free
        state.recent_pool.free = gone
        state.recent_pool.left += 1
    made = state.recent_pool.free
    one = state.recents[made]
    state.recent_pool.free = one.next
    state.recent_pool.left -= 1
    one.created = created
    one.number = number
    one.next = NONE
    if u.first == NONE:
        u.first = made
    else:
        state.recents[u.last].next = made
    u.last = made
