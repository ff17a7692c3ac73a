"""The table of the audit: what is known of each tuple at each partition, and a sieve in front of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.hash_tables import slot_of
from sim.kernel.tools.cache import allocating, kernel

ENTRY = np.dtype([("id", "u8"), ("partition", "i4"), ("flags", "i4")], align=True)  # partition NONE: empty
THERE, COMING, ELSEWHERE = 1, 2, 4  # in the final state; in flight; in the log of another instance of the group
AGAIN = 8  # made since the checkpoint to which the job goes back, with all that follows from it
_SPARSE = 8  # slots of a sieve for each entry, at least


@kernel
def entry(table: np.ndarray, partition: Any, tuple_id: int) -> int:
    """Return the place of a tuple at a partition, or the empty one that it would have."""
    size = table.shape[0]
    k = slot_of(tuple_id, partition, size)
    while table[k].partition != NONE and not (table[k].partition == partition and table[k].id == tuple_id):
        k = (k + 1) & (size - 1)
    return k


@kernel
def mark(table: np.ndarray, partition: Any, tuple_id: int, flag: int) -> bool:
    """Set a flag, and return whether it was not set before."""
    e = table[entry(table, partition, tuple_id)]
    if e.partition == NONE:
        e.partition = partition
        e.id = tuple_id
        e.flags = 0
    new = e.flags & flag == 0
    e.flags |= flag
    return new


@allocating
def sieve_of(table: np.ndarray) -> np.ndarray:
    """Return a bit for each of many slots, set if an entry falls into it: a clear bit says that one is not there."""
    used = 0
    for k in range(table.shape[0]):
        used += table[k].partition != NONE
    bits = 64
    while bits < _SPARSE * used:
        bits *= 2
    found = np.zeros(bits // 64, np.uint64)
    for k in range(table.shape[0]):
        if table[k].partition != NONE:
            slot = slot_of(table[k].id, table[k].partition, bits)
            found[slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
    return found


@kernel
def may_be_there(sieve: np.ndarray, partition: Any, tuple_id: int) -> bool:
    """Return False if the sieve says that a tuple at a partition has no entry."""
    slot = slot_of(tuple_id, partition, sieve.shape[0] * 64)
    return (sieve[slot >> 6] >> np.uint64(slot & 63)) & np.uint64(1) != 0
