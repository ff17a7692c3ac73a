"""Keys whose tuples leave the state when no post-dated output of the key waits any more: then the key closes.

A hash table with linear probing has a place for each key that has not closed, or is open again; it is at most half
full, which Python sees to between two events. A key leaves it when it closes. What remains is a bit.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.hash_tables import slot_of
from sim.kernel.tools.cache import allocating, kernel
from sim.kernel.tools.pointer import State

OPEN_KEYS = np.dtype([("count", "i8")])

# Of a key: post-dated outputs that wait, its tuples, and how many its partition had applied when it got its place;
# partition NONE: an empty place.
OPEN_KEY = np.dtype(
    [("key", "i8"), ("tuples", "i8"), ("since", "i8"), ("outputs", "i4"), ("partition", "i4")], align=True
)


@kernel
def _place(state: State, partition: int, key: int) -> int:
    """Return where a key is, or would be."""
    table = state.open_table
    size = table.shape[0]
    k = slot_of(key, partition, size)
    while table[k].partition != NONE and (table[k].key != key or table[k].partition != partition):
        k = (k + 1) & (size - 1)
    return k


@kernel
def _enter(state: State, place: int, partition: int, key: int) -> None:
    """Give a key, of which nothing waits and nothing has come, the place where it would be."""
    e = state.open_table[place]
    e.partition = partition
    e.key = key
    e.tuples = 0
    e.outputs = 0
    e.since = state.partitions[partition].applied
    state.open_keys.count += 1


@kernel
def begin_to_wait(state: State, partition: int, key: int) -> None:
    """An output of the key waits."""
    place = _place(state, partition, key)
    if state.open_table[place].partition == NONE:
        _enter(state, place, partition, key)
    state.open_table[place].outputs += 1


@kernel
def end_to_wait(state: State, partition: int, key: int) -> None:
    """An output of the key leaves: with the last one the key closes."""
    place = _place(state, partition, key)
    state.open_table[place].outputs -= 1
    if state.open_table[place].outputs == 0:
        _close(state, place, partition, key)


@kernel
def count_in(state: State, partition: int, key: int, made: bool) -> None:
    """Count a tuple for its key, unless that is closed; its outputs are `made`, if it makes any."""
    place = _place(state, partition, key)
    e = state.open_table[place]
    if made and (e.partition == NONE or e.outputs == 0):  # their time is over, and they have left
        _close(state, place, partition, key)
        return
    if e.partition == NONE:
        if _is_closed(state, partition, key):
            return
        _enter(state, place, partition, key)
    e.tuples += 1
    state.partitions[partition].open_tuples += 1


@kernel
def lose_keys(state: State, partition: int) -> None:
    """Forget all that keys of a partition hold, and the outputs that wait: open keys close, new ones are forgotten."""
    for k in range(state.open_table.shape[0]):
        e = state.open_table[k]
        while e.partition == partition:  # what comes behind moves up
            if e.outputs > 0:
                _note_closed(state, partition, e.key)
            state.open_keys.count -= 1
            _empty(state, k)
    state.partitions[partition].open_tuples = 0


@kernel
def _is_closed(state: State, partition: int, key: int) -> bool:
    """Return whether a key has closed, of which nothing waits."""
    bit = state.operators[state.partitions[partition].operator].first_closed + key
    return bool((state.closed_keys[bit >> 3] >> (bit & 7)) & 1)


def have_closed(state: State, operator: int, keys: np.ndarray) -> np.ndarray:
    """Return whether these keys (n,) of an operator have closed (n,)."""
    bits = int(state.operators["first_closed"][operator]) + keys
    return (state.closed_keys[bits >> 3] >> (bits & 7)) & 1 != 0


@kernel
def restore_keys(state: State, partition: int, keys: np.ndarray, closed: np.ndarray, opened: np.ndarray) -> None:
    """Have the `keys` of a partition (n,) be `closed` (n,) and open (m,) as in a snapshot."""
    u = state.partitions[partition]
    for k in range(keys.shape[0]):
        place = _place(state, partition, keys[k])
        if state.open_table[place].partition != NONE:
            state.open_keys.count -= 1
            _empty(state, place)
        bit = state.operators[u.operator].first_closed + keys[k]
        state.closed_keys[bit >> 3] &= 255 - (1 << (bit & 7))
        if closed[k]:
            state.closed_keys[bit >> 3] |= 1 << (bit & 7)
    u.open_tuples = 0
    for k in range(opened.shape[0]):
        place = _place(state, partition, opened[k].key)
        _enter(state, place, partition, opened[k].key)
        state.open_table[place].outputs = opened[k].outputs
        state.open_table[place].tuples = opened[k].tuples
        state.open_table[place].since = opened[k].since
        u.open_tuples += opened[k].tuples


@allocating
def open_places_of(state: State, wanted: np.ndarray) -> np.ndarray:
    """Return the places (n,) of the keys that are open at the `wanted` partitions (n_partitions,)."""
    found, n = np.empty(state.open_keys.count, np.int64), 0
    for place in range(state.open_table.shape[0] if state.open_keys.count > 0 else 0):
        partition = state.open_table[place].partition
        if partition != NONE and wanted[partition]:
            found[n] = place
            n += 1
    return found[:n]


@kernel
def _close(state: State, place: int, partition: int, key: int) -> None:
    """Let the tuples of a key go; `place`: where it is, or would be."""
    _note_closed(state, partition, key)
    if state.open_table[place].partition != NONE:
        state.partitions[partition].open_tuples -= state.open_table[place].tuples
        state.open_keys.count -= 1
        _empty(state, place)


@kernel
def _note_closed(state: State, partition: int, key: int) -> None:
    bit = state.operators[state.partitions[partition].operator].first_closed + key
    state.closed_keys[bit >> 3] |= 1 << (bit & 7)


@kernel
def _empty(state: State, place: int) -> None:
    """Empty a place. What comes behind moves up, so that no search ends too early."""
    table = state.open_table
    size = table.shape[0]
    hole, k = place, (place + 1) & (size - 1)
    while table[k].partition != NONE:
        home = slot_of(table[k].key, table[k].partition, size)
        if ((k - home) & (size - 1)) >= ((k - hole) & (size - 1)):
            table[hole] = table[k]
            hole = k
        k = (k + 1) & (size - 1)
    table[hole].partition = NONE


@kernel
def rehash(old: np.ndarray, new: np.ndarray) -> None:
    """Move all keys into a larger, empty table."""
    size = new.shape[0]
    for i in range(old.shape[0]):
        if old[i].partition != NONE:
            k = slot_of(old[i].key, old[i].partition, size)
            while new[k].partition != NONE:
                k = (k + 1) & (size - 1)
            new[k] = old[i]
