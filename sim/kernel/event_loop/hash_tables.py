"""Hash tables of the plane: where a tuple stands in the log of a partition, which keys that has, pairs of partitions.

Open addressing with linear probing; a table is at most half full, which Python sees to between two events. A key has
a home that needs no hash, and is looked for elsewhere, with a step of its own, only where another was there first:
nothing is ever taken out of that table, so that what is not there when its home is free is nowhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.codes import NONE, PER_KEY
from sim.kernel.event_loop.unfinished import count_changed
from sim.kernel.tools.cache import inlined, kernel, noinline
from sim.kernel.tools.pointer import State, prefetch

TABLES = np.dtype([("pairs", "i8"), ("positions", "i8"), ("keys", "i8")])  # places in use


# Outputs that one partition keeps for another, numbered as they come: those of the last stored checkpoint, of the one
# that is under way, and the live ones are three ranges of the same numbers.
PAIR = np.dtype(
    [
        # what each output needs, in one line
        ("sender", "i4"),
        ("receiver", "i4"),
        ("last", "i4"),
        ("live", "i4"),
        ("end_seq", "i8"),
        ("live_seq", "i8"),
        # and the rest
        ("first_seq", "i8"),  # of the oldest node there is
        ("stored_begin", "i8"),
        ("stored_end", "i8"),
        ("pending_begin", "i8"),
        ("pending_end", "i8"),
        ("mark", "i8"),  # of a source: its position at its last barrier
        ("first", "i4"),
        ("next_out", "i4"),
        ("next_in", "i4"),
    ],
    align=True,
)

POSITION = np.dtype([("id", "u8"), ("pos", "i4"), ("partition", "i4")], align=True)  # partition NONE: empty place

KEY = np.dtype([("key", "i8"), ("since", "i8"), ("epoch", "i8"), ("partition", "i4")], align=True)

# A copy of a key: the tuple that was applied first.
KNOWN = np.dtype([("key", "i8"), ("since", "i8")], align=True)


_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)
SPREAD = 0x9E3779B1  # multiples of it are far apart modulo powers of two
FIRST_KEYS = 2**31 - 1  # bits of where the keys of a partition begin


@kernel
def pairs_left(state: State) -> int:
    """Return for how many more pairs there is room; each two partitions have one at most."""
    room, partitions = state.pairs.shape[0], state.partitions.shape[0]
    return (1 << 40) if room >= partitions * partitions else room - state.tables.pairs


@kernel
def slot_of(code: Any, partition: int, size: int) -> Any:
    """Return where to begin to look for (code, partition) in a table whose size is a power of two."""
    x = (np.uint64(code) ^ (np.uint64(partition) * _FACTOR)) * _FACTOR
    return np.int64((x >> _SHIFT) & np.uint64(size - 1))


@kernel
def position(state: State, partition: int, tuple_id: int) -> int:
    """Return where the tuple stands among those that the partition applied, or NONE."""
    table = state.positions
    size = table.shape[0]
    k = slot_of(tuple_id, partition, size)
    while table[k].partition != NONE:
        if table[k].partition == partition and table[k].id == tuple_id:
            return table[k].pos
        k = (k + 1) & (size - 1)
    return NONE


@kernel
def find_positions(state: State, receivers: np.ndarray, nodes: np.ndarray, found: np.ndarray) -> None:
    """Write where each of these partitions (n,) has applied the output in this node (n,), or NONE."""
    for k in range(nodes.shape[0]):
        found[k] = position(state, receivers[k], state.nodes[nodes[k]].id)


@kernel
def prefetch_position(state: State, partition: int, tuple_id: int) -> None:
    """Where a tuple stands will be asked soon."""
    prefetch(state.positions, slot_of(tuple_id, partition, state.positions.shape[0]))


@kernel
def set_position(state: State, partition: int, tuple_id: int, pos: int) -> None:
    """Note where the tuple stands, unless it stands somewhere already."""
    table = state.positions
    size = table.shape[0]
    k = slot_of(tuple_id, partition, size)
    while table[k].partition != NONE:
        if table[k].partition == partition and table[k].id == tuple_id:
            return
        k = (k + 1) & (size - 1)
    e = table[k]
    e.id = tuple_id
    e.partition = partition
    e.pos = pos
    state.tables.positions += 1


@kernel
def takes_position(state: State, partition: int, tuple_id: int, pos: int) -> bool:
    """Note where the tuple stands, and return True, unless it stands somewhere already."""
    before = state.tables.positions
    set_position(state, partition, tuple_id, pos)
    return bool(state.tables.positions > before)


@kernel
def unset_position(state: State, partition: int, tuple_id: int, pos: int) -> None:
    """Forget that the tuple stands at `pos`; nothing if it stands elsewhere."""
    table = state.positions
    size = table.shape[0]
    k = slot_of(tuple_id, partition, size)
    while True:
        if table[k].partition == NONE:
            return
        if table[k].partition == partition and table[k].id == tuple_id:
            if table[k].pos != pos:
                return
            break
        k = (k + 1) & (size - 1)
    state.tables.positions -= 1
    # What comes behind moves up, so that no search ends too early.
    hole = k
    k = (k + 1) & (size - 1)
    while table[k].partition != NONE:
        home = slot_of(table[k].id, table[k].partition, size)
        if ((k - home) & (size - 1)) >= ((k - hole) & (size - 1)):
            table[hole] = table[k]
            hole = k
        k = (k + 1) & (size - 1)
    table[hole].partition = NONE


@kernel
def forget_positions(state: State) -> None:
    """No tuple has a position."""
    for k in range(state.positions.shape[0]):
        state.positions[k].partition = NONE
    state.tables.positions = 0


@kernel
def rehash_positions(old: np.ndarray, new: np.ndarray) -> None:
    """Move all entries into a larger, empty table."""
    size = new.shape[0]
    for i in range(old.shape[0]):
        if old[i].partition != NONE:
            k = slot_of(old[i].id, old[i].partition, size)
            while new[k].partition != NONE:
                k = (k + 1) & (size - 1)
            new[k] = old[i]


@inlined
def home_of(state: State, partition: int, key: int) -> int:
    """Return where a key of a partition is, unless another key was there first: most are found with one look."""
    return (state.partitions[partition].first_key + key) & (state.keys.shape[0] - 1)


@kernel
def touch_key(state: State, partition: int, key: int, pos: int) -> None:
    """The partition applied a tuple of this key at `pos`: count it if it is new, or new since the last snapshot."""
    # Mostly the key is at home: one look. An empty home means that the key is new, and takes it.
    u, k = state.partitions[partition], home_of(state, partition, key)
    e = state.keys[k]
    if e.partition != partition or e.key != key:
        if e.partition != NONE:
            k = away_from_home(state.keys, partition, key)
            e = state.keys[k]
        if e.partition == NONE:
            e.partition = partition
            e.key = key
            e.since = pos
            e.epoch = u.epoch
            u.keys += _weight(state, partition, key)
            _count_touched(state, partition, 0, key)
            state.tables.keys += 1
            return
    if e.since < 0:  # a restore has cut it, and left its place
        e.since = pos
        u.keys += _weight(state, partition, key)
    if e.epoch != u.epoch:
        _count_touched(state, partition, e.epoch, key)
        e.epoch = u.epoch


@inlined
def _count_touched(state: State, partition: int, epoch: int, key: int) -> None:
    """Count a key that was touched in an earlier epoch before, or never (0)."""
    if state.extended and state.options.barriers:
        count_changed(state, partition, epoch, _weight(state, partition, key))
    else:
        state.partitions[partition].touched += _weight(state, partition, key)


@inlined
def _weight(state: State, partition: int, key: int) -> int:
    """Return what a key counts for: 1, or the bytes of its entry where each input has entries of its own."""
    if state.extended:
        op = state.operators[state.partitions[partition].operator]
        if op.entries != NONE:
            return state.entry_bytes[op.entries + key % state.operators.shape[0]]
    return 1


@inlined
def entry_of(state: State, op: Any, key: int, upstream: int) -> int:
    """Return the number of a key's entry: the key, unless each input has entries of its own."""
    if state.extended and op.entries != NONE:
        return key * state.operators.shape[0] + upstream
    return key


@noinline
def away_from_home(table: np.ndarray, partition: int, key: int) -> int:
    """Return where a key is, or may be put, whose home is taken by another.

    Homes are close together, so that what looks in neighbouring places might look in many: each key has its own step.
    """
    size = table.shape[0]
    k, step = slot_of(key, partition, size), slot_of(partition, key, size) | 1
    while table[k].partition != NONE and (table[k].partition != partition or table[k].key != key):
        k = (k + step) & (size - 1)
    return k


@kernel
def prefetch_key(state: State, partition: int, key: int) -> None:
    """The key of a tuple will be touched soon."""
    prefetch(state.keys, home_of(state, partition, key))


@kernel
def cut_keys(state: State, partition: int, count: int) -> None:
    """Forget the keys that the first `count` applied tuples do not have."""
    left = 0
    keyed = state.operators[state.partitions[partition].operator].state_model == PER_KEY
    for k in range(state.keys.shape[0] if keyed else 0):
        e = state.keys[k]
        if e.partition == partition:
            if e.since >= count:
                e.since = NONE
            elif e.since >= 0:
                left += _weight(state, partition, e.key)
    state.partitions[partition].keys = left


@kernel
def number_of_keys(state: State, partition: int) -> int:
    """Return how many keys the partition has."""
    found = 0
    for k in range(state.keys.shape[0]):
        found += state.keys[k].partition == partition and state.keys[k].since >= 0
    return found


@kernel
def copy_keys(state: State, partition: int, known: np.ndarray) -> None:
    """Copy the keys of the partition into an array (keys,)."""
    found = 0
    for k in range(state.keys.shape[0]):
        e = state.keys[k]
        if e.partition == partition and e.since >= 0:
            known[found].key = e.key
            known[found].since = e.since
            found += 1


@kernel
def replace_keys(state: State, partition: int, known: np.ndarray) -> None:
    """Keys that were copied from the partition are its keys: all of them have a place in the table."""
    cut_keys(state, partition, 0)
    for k in range(known.shape[0]):
        touch_key(state, partition, known[k].key, known[k].since)


@kernel
def rehash_keys(state: State, new: np.ndarray) -> None:
    """Move all entries into a larger, empty table."""
    old, size = state.keys, new.shape[0]
    for i in range(old.shape[0]):
        if old[i].partition != NONE:
            k = (state.partitions[old[i].partition].first_key + old[i].key) & (size - 1)
            if new[k].partition != NONE:
                k = away_from_home(new, old[i].partition, old[i].key)
            new[k] = old[i]


@kernel
def find_pair(state: State, sender: int, receiver: int) -> int:
    """Return the pair of these two partitions, or NONE."""
    size = state.pair_index.shape[0]
    k = slot_of(sender, receiver, size)
    while state.pair_index[k] != NONE:
        p = state.pairs[state.pair_index[k]]
        if p.sender == sender and p.receiver == receiver:
            return state.pair_index[k]
        k = (k + 1) & (size - 1)
    return NONE


@kernel
def pair_of(state: State, sender: int, receiver: int) -> int:
    """Return the pair of these two partitions, made if it is new."""
    found = find_pair(state, sender, receiver)
    if found != NONE:
        return found
    size = state.pair_index.shape[0]
    k = slot_of(sender, receiver, size)
    while state.pair_index[k] != NONE:
        k = (k + 1) & (size - 1)
    made = state.tables.pairs
    state.tables.pairs = made + 1
    state.pair_index[k] = made
    p = state.pairs[made]
    p.sender = sender
    p.receiver = receiver
    p.first = NONE
    p.live = NONE
    p.last = NONE
    p.next_out = state.partitions[sender].out_pair
    p.next_in = state.partitions[receiver].in_pair
    state.partitions[sender].out_pair = made
    state.partitions[receiver].in_pair = made
    return made


@kernel
def rehash_pairs(pairs: np.ndarray, used: int, index: np.ndarray) -> None:
    """Fill a larger, empty index."""
    size = index.shape[0]
    for i in range(used):
        k = slot_of(pairs[i].sender, pairs[i].receiver, size)
        while index[k] != NONE:
            k = (k + 1) & (size - 1)
        index[k] = i
