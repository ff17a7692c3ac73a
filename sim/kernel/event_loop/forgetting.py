"""Forgetting ids that nobody can ask for again: those of applied tuples whose whole family is over.

All that follows from a source tuple has its creation time. Let no tuple be under way, in a queue or set aside, and no
output be kept, in memory or in a checkpoint, and no source have one to emit, that was created before an instant. Then
nothing with an earlier creation time can ever be sent again: what is sent follows from one of these. So nobody has to
know such an id: it cannot come as a duplicate, and no output is left that upstream could forget because of it. A state
that is restored from an older checkpoint may lack it, which the audit sees by its number.

That does not hold where outputs have another creation time than what they follow from, of windows, joins and timers;
and where duplicates are not dropped the audit needs ids that come twice. There all ids are kept.

Logs are cut in whole chunks, from the front: `base` is how many tuples of a partition came before what is left.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.buffers import CHUNK, free_chunk, next_node, note_all_positions
from sim.kernel.event_loop.codes import NONE, TUPLE
from sim.kernel.event_loop.hash_tables import forget_positions
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State

_NEVER = np.iinfo(np.int64).max


@kernel
def forget(state: State) -> None:
    """Forget all ids that no tuple can have any more; takes as long as what is left is large."""
    _note_instances(state)
    state.ids.oldest = max(state.ids.oldest, oldest_created(state))
    for partition in range(state.partitions.shape[0]):
        u = state.partitions[partition]
        if u.retired or state.partitions[u.group].instances == 1:  # the audit compares the logs of several
            _cut_front(state, partition, state.ids.oldest)
    if not state.ids.clean:
        _rebuild_positions(state)


@kernel
def _note_instances(state: State) -> None:
    """Count the instances of each group that are not over, and mark partitions whose state is lent to another."""
    for partition in range(state.partitions.shape[0]):
        state.partitions[partition].instances = 0
        state.partitions[partition].lent = 0
    for partition in range(state.partitions.shape[0]):
        u = state.partitions[partition]
        if not u.retired:
            state.partitions[u.group].instances += 1
        if u.stored_from != NONE:
            state.partitions[u.stored_from].lent = 1


@kernel
def _is_over(state: State, partition: int) -> bool:
    """Return whether nobody will take over the state of an instance that is over: who came after has its own."""
    u = state.partitions[partition]
    successor = state.partitions[state.partitions[u.group].owner]
    return not u.lent and not successor.retired and (successor.saved or successor.adopted_from == partition)


@kernel
def oldest_created(state: State) -> int:
    """Return the earliest creation time of all that is somewhere, or will be emitted."""
    oldest = _NEVER
    for source in range(state.sources.shape[0]):
        b = state.sources[source]
        if b.emitted < b.have:
            oldest = min(oldest, state.arrivals[b.offset + b.emitted - b.base].time)
        elif b.more:
            oldest = min(oldest, state.arrivals[b.offset + b.have - 1 - b.base].time if b.have > b.base else 0)
    for visit in range(state.visits.shape[0]):
        if state.visits[visit].wire:
            oldest = min(oldest, state.visits[visit].created)
    for task in range(state.cluster.tasks):
        t = state.tasks[task]
        oldest = min(
            oldest, _oldest_of(state, t.front_head), _oldest_of(state, t.queue_head), _oldest_of(state, t.serving_head)
        )
        oldest = min(
            oldest, _oldest_of(state, t.unsent_head), _oldest_of(state, t.back_head), _oldest_of(state, t.side_head)
        )
    for partition in range(state.partitions.shape[0]):
        oldest = min(oldest, _oldest_of(state, state.partitions[partition].held_head))
        if not (state.partitions[partition].retired and _is_over(state, partition)):
            oldest = min(oldest, _oldest_kept(state, partition))
    return oldest


@kernel
def _oldest_of(state: State, head: int) -> int:
    oldest = _NEVER
    while head != NONE:
        e = state.visits[head]
        if e.kind == TUPLE:
            oldest = min(oldest, e.created)
        head = e.next
    return oldest


@kernel
def _oldest_kept(state: State, partition: int) -> int:
    """Of what the partition keeps, and what its checkpoints do."""
    oldest = _NEVER
    pair = state.partitions[partition].out_pair
    while pair != NONE:
        p = state.pairs[pair]
        n = p.first
        while n != NONE:
            oldest = min(oldest, state.nodes[n].created)
            n = NONE if n == p.last else next_node(state, n)
        pair = p.next_out
    return oldest


@kernel
def _cut_front(state: State, partition: int, oldest: int) -> None:
    """Free the chunks at the front of a log, as long as all in them was created before an instant."""
    u = state.partitions[partition]
    while u.log_first != NONE and state.log_newest[u.log_first] < oldest:
        chunk = u.log_first
        if u.applied - u.base < CHUNK and not u.retired:
            return  # there is room in it
        u.base = min(u.applied, u.base + CHUNK)
        u.log_first = NONE if chunk == u.log_last else state.log_next[chunk]
        if u.log_first == NONE:
            u.log_last = NONE
        free_chunk(state, chunk)


@kernel
def _rebuild_positions(state: State) -> None:
    """Only what is in the logs has a position."""
    forget_positions(state)
    note_all_positions(state)
