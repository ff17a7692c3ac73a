"""Free places in the pools: each is one array, whose free places are a list through their `next`.

The kernel cannot allocate. Before an event the loop sees that each pool has places for the most that the event can
need (`loop.room`), so taking one never fails; where they run low Python makes the array larger (`pools.grown`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.tools.compiling import inlined, kernel
from sim.kernel.tools.pointer import State

POOL = np.dtype([("left", "i8"), ("free", "i4")], align=True)  # free places: how many, and the first, or NONE

# A checkpoint on its way to its host, or the note to upstream that follows.
TRANSFER = np.dtype(
    [
        ("incarnation", "i8"),
        ("departure", "i8"),
        ("bytes", "i8"),
        ("count", "i8"),
        ("stored_bytes", "i8"),
        ("life", "i8"),
        ("row", "i8"),
        ("partition", "i4"),
        ("origin", "i4"),
        ("checkpoint_host", "i4"),
        ("next", "i4"),
    ],
    align=True,
)


@inlined
def new_visit(s: State) -> int:
    """Take a place for a visit."""
    v = s.visit_pool.free
    s.visit_pool.free = s.visits[v].next
    s.visit_pool.left -= 1
    return v


@inlined
def free_visit(s: State, v: int) -> None:
    """Give the place of a visit back."""
    s.visits[v].next = s.visit_pool.free
    s.visit_pool.free = v
    s.visit_pool.left += 1


@kernel
def new_transfer(s: State) -> int:
    """Take a place for a transfer."""
    made = s.transfer_pool.free
    s.transfer_pool.free = s.transfers[made].next
    s.transfer_pool.left -= 1
    return made


@kernel
def free_transfer(s: State, transfer: Any) -> None:
    """Give the place of a transfer back."""
    s.transfers[transfer].next = s.transfer_pool.free
    s.transfer_pool.free = transfer
    s.transfer_pool.left += 1
