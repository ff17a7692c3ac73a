"""Free places in the pools: each is one array, whose free places are a list through their `next`.

The kernel cannot allocate. Before an event the loop sees that each pool has places for the most that the event can
need (`room.room`), so taking one never fails; where they run low Python makes the array larger (`pools.grown`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.codes import NONE
from sim.kernel.tools.cache import inlined, kernel
from sim.kernel.tools.pointer import State, prefetch

POOL = np.dtype([("left", "i8"), ("free", "i4")], align=True)  # free places: how many, and the first, or NONE

# A checkpoint on its way to its host, the note to upstream that follows, or a batch of checkpoints of which control
# hears once: `count` of them are not stored, `partition` is the first, and none was lost if `life` is 0.
TRANSFER = np.dtype(
    [
        ("incarnation", "i8"),
        ("departure", "i8"),
        ("bytes", "i8"),
        ("count", "i8"),
        ("stored_bytes", "i8"),
        ("life", "i8"),
        ("row", "i8"),
        ("beside", "i8"),  # time in which it is written beside its task
        ("epoch", "i8"),  # with barriers: of the keys that were changed before the snapshot
        ("partition", "i4"),
        ("slot", "i4"),  # in which the snapshot is (`unfinished`)
        ("origin", "i4"),
        ("checkpoint_host", "i4"),
        ("batch", "i4"),  # or NONE, also once it is stored
        ("next", "i4"),
    ],
    align=True,
)


# What an ack says of one pair: by level, how many of the first applied tuples the receiver confirms. The first
# confirmation of an ack stands for the message.
CONFIRMATION = np.dtype(
    [
        ("incarnation", "i8"),  # of the receiver
        ("departure", "i8"),
        ("origin", "i4"),
        ("task", "i4"),
        ("pair", "i4"),
        ("next", "i4"),
    ],
    align=True,
)


@inlined
def new_visit(state: State) -> int:
    """Take a place for a visit."""
    visit = state.visit_pool.free
    following = state.visits[visit].next
    state.visit_pool.free = following
    state.visit_pool.left -= 1
    prefetch(state.visits, max(0, following))  # of a long queue much is free that has not been touched for long
    return visit


@inlined
def free_visit(state: State, visit: int) -> None:
    """Give the place of a visit back."""
    state.visits[visit].next = state.visit_pool.free
    state.visit_pool.free = visit
    state.visit_pool.left += 1


@kernel
def new_transfer(state: State) -> int:
    """Take a place for a transfer."""
    made = state.transfer_pool.free
    state.transfer_pool.free = state.transfers[made].next
    state.transfer_pool.left -= 1
    state.transfers[made].batch = NONE
    state.transfers[made].slot = 0
    return made


@kernel
def free_transfer(state: State, transfer: Any) -> None:
    """Give the place of a transfer back; what is lost with it, its batch will never have."""
    if state.transfers[transfer].batch != NONE:
        state.transfers[state.transfers[transfer].batch].life = 1
        leave_batch(state, transfer)
    _give_back(state, transfer)


@kernel
def leave_batch(state: State, transfer: Any) -> int:
    """Take a transfer out of its batch; return the first partition of a batch of which all are stored, or NONE."""
    batch = state.transfers[transfer].batch
    state.transfers[transfer].batch = NONE
    b = state.transfers[batch]
    b.count -= 1
    if b.count > 0:
        return NONE
    _give_back(state, batch)
    return NONE if b.life else b.partition


@kernel
def _give_back(state: State, transfer: Any) -> None:
    state.transfers[transfer].next = state.transfer_pool.free
    state.transfer_pool.free = transfer
    state.transfer_pool.left += 1


@kernel
def new_confirmation(state: State) -> int:
    """Take a place for a confirmation."""
    made = state.confirmation_pool.free
    state.confirmation_pool.free = state.confirmations[made].next
    state.confirmation_pool.left -= 1
    return made


@kernel
def free_confirmations(state: State, first: Any) -> None:
    """Give the places of all confirmations of an ack back."""
    one = first
    while one != NONE:
        following = state.confirmations[one].next
        state.confirmations[one].next = state.confirmation_pool.free
        state.confirmation_pool.free = one
        state.confirmation_pool.left += 1
        one = following
