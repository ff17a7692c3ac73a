"""When ids are needed no more: those that nobody can ask for again are forgotten, and none is looked up while none can
come twice.

Forgotten are ids of applied tuples whose whole family is over.

All that follows from a source tuple has its creation time. Let no tuple be under way, in a queue or set aside, and no
output be kept, in memory or in a checkpoint, and no source have one to emit, that was created before an instant, nor
have been when a parcel was filled that is still there. Then nothing with an earlier creation time can ever be sent
again: what is sent follows from one of these. So nobody has to know such an id: it cannot come as a duplicate, and no
output is left that upstream could forget because of it. A state that is restored from an older checkpoint may lack it,
which the audit sees by its number.

An output of a window, a join or a timer has a creation time of its own. That of a window is the creation time of one
of its tuples, that of a join the later of two. So what can be emitted once more is not older than the tuples that are
kept for windows that have not ended, in the state or at its checkpoint, nor than the first instant of a timer that its
checkpoint does not know.

With an acker, an id goes once its root, and all that were created before, are done and nothing of them is left
anywhere: that holds beside windows, too, for what these emit has no root and is not audited.

A post-dated output is created at its birth, which is never before that of the tuple that it follows from. It is
somewhere from the instant at which it is made: in the state of its partition, and in the snapshots of that, where it
may have to leave a second time.

Where duplicates are processed, a tuple that comes twice has `TWICE` in place of its id, so that the audit knows how
often that was when the ids are gone. Only what all checkpoints of a state have in common is forgotten there: how many
of the forgotten ones were duplicates is known of all of them together.

A tuple comes twice because it is sent or applied again: a verb has restored a state, or has kept outputs or tuples of a
source sent again. What that can double was created before the verb. Let each group have one instance, which is live,
and all that is under way, waits, or is still to be emitted be younger than the last such verb (`settle`). Then nothing
comes twice until the next one, and each node can tell again where its receiver has applied it.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.buffers import (
    CHUNK,
    free_chunk,
    is_twice,
    next_node,
    note_all_positions,
    read_ahead,
    reads_on,
)
from sim.kernel.event_loop.codes import COPY, NONE, TUPLE
from sim.kernel.event_loop.emitting import waits
from sim.kernel.event_loop.hash_tables import forget_positions, position
from sim.kernel.event_loop.heard import least_event_of
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

_NEVER = np.iinfo(np.int64).max


@kernel
def forget(state: State) -> None:
    """Forget all ids that no tuple can have any more; takes as long as what is left is large."""
    _note_lent(state)
    oldest = min(state.ids.pinned, state.ids.saved, oldest_created(state))
    if state.options.acks:
        state.ids.closed = oldest = max(state.ids.closed, oldest)
    else:
        state.ids.oldest = oldest = max(state.ids.oldest, oldest)
    for partition in range(state.partitions.shape[0]):
        _cut_front(state, partition, oldest)
    if not state.ids.clean and (state.options.keeps_outputs or state.options.acks):  # else none is ever looked up
        _rebuild_positions(state)


@kernel
def settle(state: State) -> bool:
    """Look nothing up by its id from now on, if nothing can come twice; return whether that is so."""
    if not _is_one_each(state) or _oldest_in_motion(state) <= state.ids.since:
        return False
    for partition in range(state.partitions.shape[0]):
        over = state.partitions[partition].retired
        if state.extended and not over and _oldest_timed(state, partition) <= state.ids.since:
            return False
    for pair in range(state.tables.pairs):
        p, n = state.pairs[pair], state.pairs[pair].live
        ahead = read_ahead(state, n)
        while n != NONE:
            ahead = reads_on(state, n, ahead)
            state.nodes[n].pos = position(state, p.receiver, state.nodes[n].id)
            n = NONE if n == p.last else next_node(state, n)
    forget_positions(state)
    state.ids.clean = 1
    return True


@kernel
def _is_one_each(state: State) -> bool:
    """Return whether each group has one instance, which is live, and nothing is kept for one that is over."""
    for partition in range(state.partitions.shape[0]):
        u = state.partitions[partition]
        if not u.retired and not (u.live and state.partitions[u.group].owner == partition):
            return False
        pair = u.in_pair if u.retired else NONE
        while pair != NONE:
            if state.pairs[pair].live != NONE:
                return False
            pair = state.pairs[pair].next_in
    return True


@kernel
def looked_at(state: State) -> int:
    """Return how much there is to look at in order to know what is forgotten, or settled."""
    return state.visits.shape[0] + state.nodes.shape[0] + state.pairs.shape[0] + state.partitions.shape[0]


@kernel
def looked_at_first(state: State) -> int:
    """Return how much of that `settle` looks at before anything else, and which mostly is why it cannot be yet."""
    return state.visits.shape[0] + state.partitions.shape[0]


@kernel
def _note_lent(state: State) -> None:
    """Mark partitions whose state is lent to another."""
    for partition in range(state.partitions.shape[0]):
        state.partitions[partition].lent = 0
    for partition in range(state.partitions.shape[0]):
        lender = state.partitions[partition].stored_from
        if lender != NONE:
            state.partitions[lender].lent = 1


@kernel
def _is_over(state: State, partition: int) -> bool:
    """Return whether nobody will take over the state of an instance that is over: who came after has its own."""
    u = state.partitions[partition]
    successor = state.partitions[state.partitions[u.group].owner]
    return not u.lent and not successor.retired and (successor.saved or successor.adopted_from == partition)


@kernel
def oldest_created(state: State) -> int:
    """Return the earliest creation time of all that is somewhere, or will be emitted."""
    oldest = _oldest_in_motion(state)
    for partition in range(state.partitions.shape[0]):
        if not (state.partitions[partition].retired and _is_over(state, partition)):
            oldest = min(oldest, _oldest_kept(state, partition))
            if state.extended and not state.options.acks:  # an acker knows nothing of what these emit
                oldest = min(oldest, _oldest_timed(state, partition))
    return oldest


@kernel
def _oldest_in_motion(state: State) -> int:
    """Return the earliest creation time of what is under way, waits, or is still to be emitted by a source."""
    oldest = _NEVER
    for source in range(state.sources.shape[0]):
        b = state.sources[source]
        if b.emitted < b.have:
            oldest = min(oldest, state.arrivals[b.offset + b.emitted - b.base].time)
        elif b.more:
            oldest = min(oldest, state.arrivals[b.offset + b.have - 1 - b.base].time if b.have > b.base else 0)
        oldest = min(oldest, b.unread, _oldest_of(state, b.again_head))
        if state.options.acks:
            oldest = min(oldest, _oldest_root(state, source))
    for visit in range(state.visits.shape[0]):
        if state.visits[visit].wire or waits(state, visit):
            oldest = min(oldest, state.visits[visit].created)
    for task in range(state.cluster.tasks):
        t = state.tasks[task]
        oldest = min(
            oldest, _oldest_of(state, t.front_head), _oldest_of(state, t.queue_head), _oldest_of(state, t.serving_head)
        )
        oldest = min(
            oldest, _oldest_of(state, t.unsent_head), _oldest_of(state, t.back_head), _oldest_of(state, t.side_head)
        )
    for k in range(state.withheld.shape[0]):
        if state.withheld[k].outputs > 0:
            oldest = min(oldest, state.withheld[k].oldest)
    for partition in range(state.partitions.shape[0]):
        oldest = min(oldest, _oldest_of(state, state.partitions[partition].held_head))
    return oldest


@kernel
def _oldest_root(state: State, source: int) -> int:
    """Return the earliest creation time of the roots of a source whose last acks have not arrived before now."""
    oldest, root = _NEVER, state.pending[source].first
    while root != NONE:
        r = state.roots[root]
        if r.done == NONE or r.done >= state.clock.now:
            oldest = min(oldest, r.created)
        root = r.next
    return oldest


@kernel
def _oldest_of(state: State, head: int) -> int:
    oldest = _NEVER
    while head != NONE:
        e = state.visits[head]
        if e.kind == TUPLE or e.kind == COPY:  # noqa: PLR1714 - no `in` in compiled code
            oldest = min(oldest, e.created)
        head = e.next
    return oldest


@kernel
def _oldest_kept(state: State, partition: int) -> int:
    """Return the earliest creation time of what the partition keeps, also in its checkpoints."""
    u = state.partitions[partition]
    oldest = min(_oldest_of(state, u.overtaken_head), _oldest_of(state, u.in_flight_head))
    pair = state.partitions[partition].out_pair
    while pair != NONE:
        p = state.pairs[pair]
        n = p.first
        ahead = read_ahead(state, n)
        while n != NONE:
            ahead = reads_on(state, n, ahead)
            oldest = min(oldest, state.nodes[n].created)
            # Sources keep outputs in the order in which they create them, unless control says what they read.
            is_all = n == p.last or (state.options.sources_keep and not state.options.reads)
            n = NONE if is_all else next_node(state, n)
        pair = p.next_out
    return oldest


@kernel
def _oldest_timed(state: State, partition: int) -> int:
    """Return the earliest creation time of what windows and timer of the partition will emit, also once more."""
    u = state.partitions[partition]
    op = state.operators[u.operator]
    oldest = _NEVER
    if op.timer > 0:
        oldest = (1 + (u.ticks_stored if state.options.keeps_outputs else u.ticks)) * op.timer
    if op.windowed:
        floor, n = least_event_of(state, partition), u.past_first
        while n != NONE:
            created = state.notes[n].created
            if created // op.slide * op.slide + op.length > floor:
                oldest = min(oldest, created)
            n = state.notes[n].next
    return oldest


@kernel
def _in_all_states(state: State, partition: int) -> int:
    """Return how many of the applied tuples are in each state that the partition may have again, but the empty one."""
    u = state.partitions[partition]
    if u.lent:
        return u.base
    if state.extended and state.options.trims and not u.stored:
        return u.trimmed
    return u.stored_count if u.stored else u.applied


@kernel
def _cut_front(state: State, partition: int, oldest: int) -> None:
    """Free the chunks at the front of a log, as long as all in them was created before an instant."""
    u = state.partitions[partition]
    most = u.applied
    if state.options.marks_twice and not state.options.acks:
        most = min(most, _in_all_states(state, partition))
    while u.log_first != NONE and state.log_newest[u.log_first] < oldest:
        chunk, after = u.log_first, min(u.applied, u.base + CHUNK)
        has_room = after - u.base < CHUNK and not u.retired
        if has_room or after > most:
            return
        for k in range(after - u.base):
            tuple_id = state.log[chunk * CHUNK + k]
            u.twice += is_twice(state, tuple_id)
            u.forgotten += np.uint64(tuple_id)
        u.base = after
        u.log_first = NONE if chunk == u.log_last else state.log_next[chunk]
        if u.log_first == NONE:
            u.log_last = NONE
        free_chunk(state, chunk)


@kernel
def _rebuild_positions(state: State) -> None:
    """Only what is in the logs has a position."""
    forget_positions(state)
    note_all_positions(state)
