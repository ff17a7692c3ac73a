"""Snapshots of checkpoints that are under way, which their partitions do not go back to yet.

A partition has one, or with barriers one in each slot: as many as checkpoints of the job may be under way.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.free_lists import free_transfer
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

UNFINISHED = np.dtype(
    [
        ("newest", "i8"),  # event time
        ("ticks", "i8"),
        ("event", "i8"),
        # with barriers:
        ("epoch", "i8"),  # of the keys that were changed before it
        ("touched", "i8"),  # keys changed after it
        ("unmerged", "i8"),  # bytes of increments whose files are not merged, with its own
        ("arrived", "i4"),  # the transfer that has come to the store, or NONE
        ("begun", "u1"),
    ],
    align=True,
)


@kernel
def place_of(state: State, partition: int, slot: int) -> int:
    """Return the place of a slot of a partition."""
    return partition * state.options.slots + slot


@kernel
def oldest(state: State, partition: int) -> int:
    """Return the place of the first snapshot that was begun; where there is one slot that is the one."""
    first = place_of(state, partition, 0)
    found = first
    for place in range(first + 1, first + state.options.slots):
        s, other = state.unfinished[place], state.unfinished[found]
        if s.begun and not (other.begun and other.epoch < s.epoch):
            found = place
    return found


@kernel
def has_begun(state: State, partition: int) -> bool:
    """Return whether a snapshot is under way."""
    first = place_of(state, partition, 0)
    begun = False
    for place in range(first, first + state.options.slots):
        begun = begun or state.unfinished[place].begun > 0
    return begun


@kernel
def count_changed(state: State, partition: int, epoch: int, weight: int) -> None:
    """Count a key that was changed in that epoch before, for the next increment after each of the snapshots."""
    u = state.partitions[partition]
    if epoch <= u.based:
        u.touched += weight
    first = place_of(state, partition, 0)
    for place in range(first, first + state.options.slots):
        s = state.unfinished[place]
        if s.begun and epoch <= s.epoch:
            s.touched += weight


@kernel
def forget(state: State, place: int) -> bool:
    """Forget the snapshot at a place; return whether there was one."""
    s = state.unfinished[place]
    if not s.begun:
        return False
    s.begun = 0
    if s.arrived != NONE:
        free_transfer(state, s.arrived)
        s.arrived = NONE
    return True
