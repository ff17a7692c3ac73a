"""Outputs that are kept until their receivers have them in a stored checkpoint, and the log of what was applied.

Forgetting ids that nobody can ask for again: those of applied tuples whose whole family is over.

All that follows from a source tuple has its creation time. Let no tuple be under way, in a queue or set aside, and no
output be kept, in memory or in a checkpoint, and no source have one to emit, that was created before an instant, nor
have been when a parcel was filled that is still there. Then
nothing with an earlier creation time can ever be sent again: what is sent follows from one of these. So nobody has to
know such an id: it cannot come as a duplicate, and no output is left that upstream could forget because of it. A state
that is restored from an older checkpoint may lack it, which the audit sees by its number.

An output of a window, a join or a timer has a creation time of its own. That of a window is the creation time of one
of its tuples, that of a join the later of two. So what can be emitted once more is not older than the tuples that are
kept for windows that have not ended, in the state or at its checkpoint, nor than the first instant of a timer that its
checkpoint does not know.

With an acker, an id goes once its root, and all that were created before, are done and nothing of them is left
anywhere: that holds beside windows, too, for what these emit has no root and is not audited.

Where duplicates are processed, a tuple that comes twice has `TWICE` in place of its id, so that the audit knows how
often that was when the ids are gone. Only what all checkpoints of a state have in common is forgotten there: how many
of the forgotten ones were duplicates is known of all of them together.

Logs are cut in whole chunks, from the front: `base` is how many tuples of a partition came before what is left.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.codes import NONE, TUPLE
from sim.kernel.event_loop.hash_tables import (
    forget_positions,
    pair_of,
    position,
    prefetch_position,
    set_position,
    takes_position,
    unset_position,
)
from sim.kernel.event_loop.heard import least_event_of
from sim.kernel.tools.cache import inlined, kernel
from sim.kernel.tools.pointer import State

# What is known of the ids of tuples.
IDS = np.dtype(
    [
        ("clean", "u1"),  # no host has died yet: no tuple can come twice, and none is looked up by its id
        ("oldest", "i8"),  # no tuple that was created before is anywhere; ids that were are forgotten
        ("closed", "i8"),  # the same where there is an acker, of tuples that have a root
        ("overdue", "i8"),  # tuples that came all the same: there must be none
        ("pinned", "i8"),  # what was created from then on may come out of a parcel
    ],
    align=True,
)


# `next` is that of the last one in a piece, or of the first in a free piece. `pos` is where the receiver has applied
# it, as long as no host has died; after that `positions` says so.
NODE = np.dtype([("id", "u8"), ("created", "i8"), ("key", "i8"), ("pos", "i4"), ("next", "i4")], align=True)

# Copies of a partition's log and of its live outputs.
LOGGED = np.dtype([("id", "u8"), ("created", "i8")], align=True)
KEPT = np.dtype([("id", "u8"), ("created", "i8"), ("key", "i8"), ("receiver", "i8")], align=True)

NODES = 4  # kept outputs in one piece of memory: they are read in order, and far apart in time

CHUNK = 32  # applied tuples in one chunk of a log

TWICE = 0  # in a log, where duplicates are processed: a tuple whose id stands there already


@kernel
def is_twice(state: State, logged: int) -> bool:
    """Return whether what is in a log stands for a tuple that was there already."""
    return bool(state.options.marks_twice and logged == TWICE)


@kernel
def next_node(state: State, node: int) -> int:
    """Return the node after this one in its pair, which must have one."""
    return node + 1 if node % NODES != NODES - 1 else state.nodes[node].next


@kernel
def note_overdue(state: State) -> None:
    """Count a tuple whose id may have been forgotten: the audit refuses to go on with one."""
    state.ids.overdue += 1


@kernel
def free_nodes(state: State, node: int) -> None:
    """Nobody needs the nodes any more that are in one piece with this one."""
    piece = node // NODES
    state.nodes[piece * NODES].next = state.node_pool.free
    state.node_pool.free = piece
    state.node_pool.left += 1


@kernel
def keep(state: State, sender: int, receiver: int, tuple_id: int, created: int, key: int, size: int) -> int:
    """Remember an output for a receiver; the number of its node."""
    # The next node is behind the last one in its piece; only a full piece needs another from the pool.
    p = state.pairs[pair_of(state, sender, receiver)]
    if p.last != NONE and p.last % NODES != NODES - 1:
        n = p.last + 1
    else:
        piece = state.node_pool.free
        n = piece * NODES
        state.node_pool.free = state.nodes[n].next
        state.node_pool.left -= 1
        if p.last == NONE:
            p.first = n
            p.first_seq = p.end_seq
        else:
            state.nodes[p.last].next = n
    node = state.nodes[n]
    node.id = tuple_id
    node.created = created
    node.key = key
    node.pos = NONE
    if state.extended and state.options.trims:
        state.node_slices[n] = state.slices[sender].end  # that slice has not ended yet
    p.last = n
    if p.live == NONE:
        p.live = n
        p.live_seq = p.end_seq
    p.end_seq += 1
    u = state.partitions[sender]
    u.kept_rows += 1
    u.new_kept_bytes += size
    return n


@kernel
def keep_too(state: State, sender: int, receiver: int, node: int, size: int) -> None:
    """Keep for another receiver, too, what a node has; its slice waits for both."""
    one = state.nodes[node]
    made = keep(state, sender, receiver, one.id, one.created, one.key, size)
    if state.extended and state.options.trims:
        state.node_slices[made] = state.node_slices[node]


@kernel
def let_go(state: State, pair: int) -> None:
    """Free the nodes that neither the live buffer nor a checkpoint needs."""
    p = state.pairs[pair]
    # Three ranges of the same numbers: live, stored, and under way. What comes before all of them is needed by nobody.
    oldest = p.live_seq if p.live != NONE else p.end_seq
    if p.stored_begin < p.stored_end:
        oldest = min(oldest, p.stored_begin)
    if p.pending_begin < p.pending_end:
        oldest = min(oldest, p.pending_begin)
    while p.first != NONE and p.first_seq < oldest:
        n = p.first
        p.first_seq += 1
        if n == p.last:
            p.first = p.last = NONE
            free_nodes(state, n)
        else:
            p.first = next_node(state, n)
            if n % NODES == NODES - 1:
                free_nodes(state, n)


@kernel
def _prefetch_piece(state: State, receiver: int, piece: int) -> None:
    """Where the receiver has the tuples of a piece will be asked soon."""
    for n in range(piece * NODES, piece * NODES + NODES):
        prefetch_position(state, receiver, state.nodes[n].id)


@kernel
def trim(state: State, pair: int, count: int) -> None:
    """Forget the live outputs, in order, that are among the receiver's first `count` applied tuples."""
    p = state.pairs[pair]
    u = state.partitions[p.sender]
    # Until a host dies a node knows where its receiver applied it. Afterwards the receiver may have been restored to an
    # earlier state, and only the table of positions tells; its entries are asked for a piece ahead.
    looks_up = not state.ids.clean
    if looks_up and p.live != NONE:
        _prefetch_piece(state, p.receiver, p.live // NODES)
    while p.live != NONE:
        if looks_up and p.live % NODES == 0 and p.last // NODES != p.live // NODES:
            _prefetch_piece(state, p.receiver, state.nodes[p.live + NODES - 1].next // NODES)
        node = state.nodes[p.live]
        if node.created < state.ids.oldest:
            note_overdue(state)
        pos = node.pos if state.ids.clean else position(state, p.receiver, node.id)
        if pos < 0 or pos >= count:
            break  # in order: an output behind one that is still needed stays, too
        p.live = NONE if p.live == p.last else next_node(state, p.live)
        p.live_seq += 1
        u.kept_rows -= 1
    let_go(state, pair)


@kernel
def forget_live(state: State, partition: int) -> None:
    """The outputs in memory are gone; those in checkpoints stay."""
    pair = state.partitions[partition].out_pair
    while pair != NONE:
        state.pairs[pair].live = NONE
        let_go(state, pair)
        pair = state.pairs[pair].next_out
    state.partitions[partition].kept_rows = 0


@kernel
def forget_stored(state: State, partition: int) -> None:
    """The stored checkpoint of the partition is gone, with the outputs in it."""
    state.partitions[partition].stored = 0
    pair = state.partitions[partition].out_pair
    while pair != NONE:
        state.pairs[pair].stored_begin = state.pairs[pair].stored_end = 0
        let_go(state, pair)
        pair = state.pairs[pair].next_out


@kernel
def forget_handed(state: State, partition: int) -> None:
    """The state that was handed down to the partition is needed no more, or lost."""
    source = state.partitions[partition].stored_from
    state.partitions[partition].stored_from = NONE
    pair = state.partitions[source].out_pair
    while pair != NONE:
        p = state.pairs[pair]
        p.pending_begin = p.pending_end = 0
        let_go(state, pair)
        pair = p.next_out


@kernel
def save_kept(state: State, partition: int, outputs: bool) -> None:
    """The live outputs are part of the checkpoint that is under way from now on, or no `outputs` are."""
    pair = state.partitions[partition].out_pair
    while pair != NONE:
        p = state.pairs[pair]
        if p.live == NONE or not outputs:
            p.pending_begin = p.pending_end = 0
        else:
            p.pending_begin = p.live_seq
            p.pending_end = p.end_seq
        pair = p.next_out


@kernel
def store_kept(state: State, partition: int) -> None:
    """The checkpoint that was under way is stored."""
    pair = state.partitions[partition].out_pair
    while pair != NONE:
        p = state.pairs[pair]
        p.stored_begin, p.stored_end = p.pending_begin, p.pending_end
        p.pending_begin = p.pending_end = 0
        let_go(state, pair)
        pair = p.next_out


@kernel
def cut_nodes(state: State, last: int, old_last: int) -> None:
    """Free the pieces behind that of `last`, up to that of `old_last`."""
    if last // NODES == old_last // NODES:
        return
    n = state.nodes[last // NODES * NODES + NODES - 1].next
    while n // NODES != old_last // NODES:
        following = state.nodes[n // NODES * NODES + NODES - 1].next
        free_nodes(state, n)
        n = following
    free_nodes(state, n)


@kernel
def _cut_to_stored(state: State, pair: int) -> None:
    """Nothing is left in a pair but the outputs of the stored checkpoint, if there is one; none is live."""
    p = state.pairs[pair]
    p.pending_begin = p.pending_end = 0
    if state.partitions[p.sender].stored == 0:
        p.stored_begin = p.stored_end = 0
    p.live = NONE
    let_go(state, pair)
    if p.stored_begin < p.stored_end:
        n = p.first
        for _ in range(p.stored_end - p.first_seq - 1):
            n = next_node(state, n)
        cut_nodes(state, n, p.last)
        p.last = n
        p.end_seq = p.stored_end


@kernel
def restore_kept(state: State, partition: int) -> None:
    """The outputs of the stored checkpoint are the live ones; later ones are gone."""
    u = state.partitions[partition]
    u.kept_rows = 0
    pair = u.out_pair
    while pair != NONE:
        p = state.pairs[pair]
        _cut_to_stored(state, pair)
        if p.stored_begin < p.stored_end:
            p.live = p.first  # nothing older is needed any more
            p.live_seq = p.first_seq
            u.kept_rows += p.stored_end - p.stored_begin
        pair = p.next_out


@kernel
def replace_kept(state: State, partition: int, kept: np.ndarray) -> None:
    """Outputs (n,) that were copied from the partition are the live ones; those of the stored checkpoint stay, too.

    The copies come behind the stored ones, of which some may be the same: the numbers of a pair only rise.
    """
    u = state.partitions[partition]
    u.kept_rows = 0
    pair = u.out_pair
    while pair != NONE:
        _cut_to_stored(state, pair)
        pair = state.pairs[pair].next_out
    size = state.operators[u.operator].bytes
    for k in range(kept.shape[0]):
        one = kept[k]
        keep(state, partition, one.receiver, one.id, one.created, one.key, size)


@kernel
def copy_live(state: State, partition: int, kept: np.ndarray) -> None:
    """Copy the live outputs of the partition, by receiver, into an array (kept_rows,)."""
    found, pair = 0, state.partitions[partition].out_pair
    while pair != NONE:
        p = state.pairs[pair]
        n = p.live
        while n != NONE:
            node, one = state.nodes[n], kept[found]
            one.id = node.id
            one.created = node.created
            one.key = node.key
            one.receiver = p.receiver
            found += 1
            n = NONE if n == p.last else next_node(state, n)
        pair = p.next_out


@kernel
def free_chunk(state: State, chunk: int) -> None:
    """Nobody needs the ids in this chunk of a log any more."""
    state.log_next[chunk] = state.chunk_pool.free
    state.chunk_pool.free = chunk
    state.chunk_pool.left += 1


@kernel
def room_in_logs(state: State) -> int:
    """Return for how many applied tuples there is room at least, whatever their partitions.

    Each partition can leave one chunk half empty, so few chunks for many partitions may be a tuple each.
    """
    chunks = state.chunk_pool.left
    return max(chunks, (chunks - state.partitions.shape[0]) * CHUNK)


@kernel
def append_log(state: State, partition: int, tuple_id: int, created: int) -> None:
    """The partition applied the tuple, which was created then or before."""
    u = state.partitions[partition]
    place = (u.applied - u.base) % CHUNK
    if place == 0:
        c = state.chunk_pool.free
        state.chunk_pool.free = state.log_next[c]
        state.chunk_pool.left -= 1
        state.log_next[c] = NONE
        state.log_newest[c] = created
        if u.log_last == NONE:
            u.log_first = c
        else:
            state.log_next[u.log_last] = c
        u.log_last = c
    elif state.log_newest[u.log_last] < created:
        state.log_newest[u.log_last] = created
    state.log[u.log_last * CHUNK + place] = tuple_id
    u.applied += 1


@kernel
def copy_log(state: State, partition: int, log: np.ndarray) -> None:
    """Copy what is left of the log into an array (applied - base,); as created counts the latest of a chunk."""
    u = state.partitions[partition]
    chunk = u.log_first
    for k in range(log.shape[0]):
        log[k].id = state.log[chunk * CHUNK + k % CHUNK]
        log[k].created = state.log_newest[chunk]
        if k % CHUNK == CHUNK - 1:
            chunk = state.log_next[chunk]


@inlined
def apply(state: State, partition: int, tuple_id: int, created: int, node: int) -> None:
    """Enter a tuple into the audit of the partition."""
    u = state.partitions[partition]
    logged: Any = np.uint64(tuple_id)
    if state.ids.clean:
        if node != NONE:
            state.nodes[node].pos = u.applied
    elif state.options.marks_twice:
        if not takes_position(state, partition, tuple_id, u.applied):
            logged = np.uint64(TWICE)
    elif state.options.keeps_outputs:
        set_position(state, partition, tuple_id, u.applied)
    if state.options.logs_ids:
        append_log(state, partition, logged, created)
    else:
        op = state.operators[u.operator]
        op.sum += np.uint64(tuple_id)
        op.applied += 1
        u.applied += 1


@kernel
def positions_missing(state: State) -> int:
    """Return how many entries `note_positions` makes."""
    total = 0
    if state.ids.clean and state.options.keeps_outputs:
        for partition in range(state.partitions.shape[0]):
            total += state.partitions[partition].applied - state.partitions[partition].base
    return total


@kernel
def note_positions(state: State) -> None:
    """A host dies for the first time: from now on a tuple may come twice, and its place is looked up by its id."""
    if state.ids.clean and state.options.keeps_outputs:
        note_all_positions(state)
    state.ids.clean = 0


@kernel
def note_all_positions(state: State) -> None:
    """The place of every tuple that is in a log, by its id."""
    for partition in range(state.partitions.shape[0]):
        u = state.partitions[partition]
        chunk, pos = u.log_first, u.base
        while chunk != NONE:
            for k in range(min(CHUNK, u.applied - pos)):
                tuple_id = state.log[chunk * CHUNK + k]
                if not is_twice(state, tuple_id):
                    set_position(state, partition, tuple_id, pos + k)
            pos += CHUNK
            chunk = state.log_next[chunk]


@kernel
def replace_log(state: State, partition: int, base: int, log: np.ndarray) -> None:
    """A log that was copied from the partition is its log, of which `base` tuples are forgotten."""
    cut_log(state, partition, 0)
    u = state.partitions[partition]
    u.base = u.applied = base
    for k in range(log.shape[0]):
        if (state.options.keeps_outputs or state.options.acks) and not is_twice(state, log[k].id):
            set_position(state, partition, log[k].id, u.applied)
        append_log(state, partition, log[k].id, log[k].created)


@kernel
def cut_log(state: State, partition: int, count: int) -> None:
    """Only the first `count` applied tuples remain."""
    u = state.partitions[partition]
    chunk, before, pos = u.log_first, NONE, u.base
    while chunk != NONE:
        following = state.log_next[chunk]
        end = min(pos + CHUNK, u.applied)
        for k in range(max(pos, count), end):
            unset_position(state, partition, state.log[chunk * CHUNK + k - pos], k)
        if pos >= count:
            if before == NONE:
                u.log_first = NONE
            else:
                state.log_next[before] = NONE
            free_chunk(state, chunk)
        else:
            before = chunk
        chunk = following
        pos += CHUNK
    u.log_last = before
    u.applied = count
    u.base = min(u.base, count)
    u.twice = min(u.twice, u.base)  # nothing that was forgotten is cut, or all


UNPINNED = _NEVER = np.iinfo(np.int64).max


@kernel
def forget(state: State) -> None:
    """Forget all ids that no tuple can have any more; takes as long as what is left is large."""
    _note_lent(state)
    oldest = min(state.ids.pinned, oldest_created(state))
    if state.options.acks:
        state.ids.closed = oldest = max(state.ids.closed, oldest)
    else:
        state.ids.oldest = oldest = max(state.ids.oldest, oldest)
    for partition in range(state.partitions.shape[0]):
        _cut_front(state, partition, oldest)
    if not state.ids.clean and (state.options.keeps_outputs or state.options.acks):  # else none is ever looked up
        _rebuild_positions(state)


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
    oldest = _NEVER
    for source in range(state.sources.shape[0]):
        b = state.sources[source]
        if b.emitted < b.have:
            oldest = min(oldest, state.arrivals[b.offset + b.emitted - b.base].time)
        elif b.more:
            oldest = min(oldest, state.arrivals[b.offset + b.have - 1 - b.base].time if b.have > b.base else 0)
        oldest = min(oldest, _oldest_of(state, b.again_head))
        if state.options.acks:
            oldest = min(oldest, _oldest_root(state, source))
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
            if state.extended and not state.options.acks:  # an acker knows nothing of what these emit
                oldest = min(oldest, _oldest_timed(state, partition))
    return oldest


@kernel
def _oldest_root(state: State, source: int) -> int:
    """Of the roots of a source whose last acks have not arrived before now."""
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
            u.twice += is_twice(state, state.log[chunk * CHUNK + k])
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
