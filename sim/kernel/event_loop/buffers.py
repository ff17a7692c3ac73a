"""Outputs that are kept until their receivers have them in a stored checkpoint, and the log of what was applied.

Where duplicates are processed, a tuple that comes twice has `TWICE` in place of its id, so that the audit knows how
often that was when the ids are gone (`forgetting`).

Logs are cut in whole chunks, from the front: `base` is how many tuples of a partition came before what is left.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.hash_tables import (
    forget_positions,
    pair_of,
    position,
    prefetch_position,
    set_position,
    takes_position,
    unset_position,
)
from sim.kernel.tools.cache import inlined, kernel
from sim.kernel.tools.pointer import State, prefetch

# What is known of the ids of tuples.
IDS = np.dtype(
    [
        ("clean", "u1"),  # no tuple can come twice, but for sinks that say so, and none is looked up by its id
        ("again", "i8"),  # how many sinks do
        ("since", "i8"),  # a verb has made tuples come twice: what is younger does not, until the next such verb
        ("settles", "i8"),  # the number of sendings from which on it is worth to look whether none comes twice any more
        ("oldest", "i8"),  # no tuple that was created before is anywhere; ids that were are forgotten
        ("closed", "i8"),  # the same where there is an acker, of tuples that have a root
        ("overdue", "i8"),  # tuples that came all the same: there must be none
        ("pinned", "i8"),  # what was created from then on may come out of a parcel
        ("saved", "i8"),  # what is born from then on may be in the snapshot of a state with post-dated outputs
    ],
    align=True,
)
UNPINNED = np.iinfo(np.int64).max


# `pos` is where the receiver has applied it, as long as no tuple can come twice (`clean`); else `positions` says so.
NODE = np.dtype([("id", "u8"), ("created", "i8"), ("key", "i8"), ("pos", "i4")], align=True)

# Copies of a partition's log and of its live outputs.
LOGGED = np.dtype([("id", "u8"), ("created", "i8")], align=True)
KEPT = np.dtype([("id", "u8"), ("created", "i8"), ("key", "i8"), ("receiver", "i8")], align=True)

# Kept outputs in one piece of memory: they are read in order, and far apart in time. Which piece follows stands in an
# array of its own (`piece_next`), which is small enough to go along it ahead of what is read, and to free pieces that
# nobody looks at any more.
NODES = 4
_AHEAD = 6  # pieces: reading one takes less time than memory does
_LINE = 2  # nodes in a line of memory

CHUNK = 32  # applied tuples in one chunk of a log

TWICE = 0  # in a log, where duplicates are processed: a tuple whose id stands there already


@kernel
def is_twice(state: State, logged: int) -> bool:
    """Return whether what is in a log stands for a tuple that was there already."""
    return bool(state.options.marks_twice and logged == TWICE)


@kernel
def next_node(state: State, node: int) -> int:
    """Return the node after this one in its pair, which must have one."""
    return node + 1 if node % NODES != NODES - 1 else state.piece_next[node // NODES] * NODES


@inlined
def prefetch_piece(state: State, piece: int) -> None:
    """The nodes in a piece will be read or written soon; nothing if there is none."""
    prefetch(state.nodes, max(0, piece) * NODES)
    prefetch(state.nodes, max(0, piece) * NODES + _LINE)


@kernel
def read_ahead(state: State, node: int) -> int:
    """Ask for what follows a node in its pair; return the last piece that was asked for, for `reads_on`.

    Behind the last piece of a pair stands any other.
    """
    piece = max(0, node) // NODES
    for _ in range(_AHEAD if node != NONE else 0):
        piece = max(0, state.piece_next[piece])
        prefetch_piece(state, piece)
    return piece


@inlined
def reads_on(state: State, node: int, ahead: int) -> int:
    """Ask for one more piece where a node is the first in its own."""
    if node % NODES != 0:
        return ahead
    following = max(0, state.piece_next[ahead])
    prefetch_piece(state, following)
    return following


@kernel
def note_overdue(state: State) -> None:
    """Count a tuple whose id may have been forgotten: the audit refuses to go on with one."""
    state.ids.overdue += 1


@kernel
def free_nodes(state: State, node: int) -> None:
    """Nobody needs the nodes any more that are in one piece with this one."""
    piece = node // NODES
    state.piece_next[piece] = state.node_pool.free
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
        following = state.piece_next[piece]
        state.node_pool.free = following
        state.node_pool.left -= 1
        prefetch_piece(state, following)
        prefetch(state.piece_next, max(0, following))
        if p.last == NONE:
            p.first = n
            p.first_seq = p.end_seq
        else:
            state.piece_next[p.last // NODES] = piece
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
        many = min(oldest - p.first_seq, NODES - p.first % NODES)  # in one piece
        if p.first // NODES == p.last // NODES:
            many = min(many, p.last - p.first + 1)
        n = p.first + many - 1
        p.first_seq += many
        if n == p.last:
            p.first = p.last = NONE
            free_nodes(state, n)
        else:
            p.first = next_node(state, n)
            if n % NODES == NODES - 1:
                free_nodes(state, n)


@kernel
def _prefetch_positions(state: State, receiver: int, piece: int) -> None:
    """Where the receiver has the tuples of a piece will be asked soon."""
    for n in range(piece * NODES, piece * NODES + NODES):
        prefetch_position(state, receiver, state.nodes[n].id)


@kernel
def trim(state: State, pair: int, count: int) -> None:
    """Forget the live outputs, in order, that are among the receiver's first `count` applied tuples."""
    p = state.pairs[pair]
    u = state.partitions[p.sender]
    # As long as no tuple can come twice a node knows where its receiver applied it. Else the receiver may have been
    # restored to an earlier state, and only the table of positions tells; its entries are asked for a piece ahead.
    looks_up, ahead = not state.ids.clean, read_ahead(state, p.live)
    if looks_up and p.live != NONE:
        _prefetch_positions(state, p.receiver, p.live // NODES)
    while p.live != NONE:
        if looks_up and p.live % NODES == 0 and p.last // NODES != p.live // NODES:
            _prefetch_positions(state, p.receiver, state.piece_next[p.live // NODES])
        ahead = reads_on(state, p.live, ahead)
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
    piece = state.piece_next[last // NODES]
    while piece != old_last // NODES:
        following = state.piece_next[piece]
        free_nodes(state, piece * NODES)
        piece = following
    free_nodes(state, piece * NODES)


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
        following = state.log_next[c]
        state.chunk_pool.free = following
        state.chunk_pool.left -= 1
        prefetch(state.log_next, max(0, following))
        prefetch(state.log, max(0, following) * CHUNK)
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


@inlined
def prefetch_log(state: State, partition: int) -> None:
    """A tuple will be put into the log of the partition soon."""
    prefetch(state.log_newest, max(0, state.partitions[partition].log_last))


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
    """From now on a tuple may come twice, and its place is looked up by its id."""
    if state.ids.clean and state.options.keeps_outputs:
        note_all_positions(state)
    state.ids.clean = 0


@kernel
def note_all_positions(state: State) -> None:
    """The place of every tuple that is in a log, by its id."""
    for partition in range(state.partitions.shape[0]):
        _note_positions_of(state, partition, 0)


@kernel
def _note_positions_of(state: State, partition: int, first: int) -> None:
    """The place of each tuple from the one at `first` on that is in the log of a partition, by its id."""
    u = state.partitions[partition]
    chunk, pos = u.log_first, u.base
    while chunk != NONE:
        for k in range(max(0, first - pos), min(CHUNK, u.applied - pos)):  # so that memory is asked for many at once
            prefetch_position(state, partition, state.log[chunk * CHUNK + k])
        for k in range(max(0, first - pos), min(CHUNK, u.applied - pos)):
            tuple_id = state.log[chunk * CHUNK + k]
            if not is_twice(state, tuple_id):
                set_position(state, partition, tuple_id, pos + k)
        pos += CHUNK
        chunk = state.log_next[chunk]


# -- a region that is rolled back as a whole: what its sinks have got comes again, and nothing else comes twice


@kernel
def may_get_again(state: State, partition: int) -> int:
    """Return how many of its tuples a sink that was rolled back may get again: those since the last checkpoint."""
    u = state.partitions[partition]
    return u.applied - max(u.base, u.stored_count)


@kernel
def expect_again(state: State, partition: int) -> None:
    """From now on a sink looks up what comes among the tuples that it got since the last checkpoint."""
    u = state.partitions[partition]
    _note_positions_of(state, partition, u.stored_count)
    if not u.again:
        u.again = 1
        state.ids.again += 1


@kernel
def expect_no_more(state: State, partition: int) -> None:
    """A barrier has come to the sink, behind all that came again.

    But for what windows emit as event time goes on, and for what sources have still to read.
    """
    u = state.partitions[partition]
    if u.again and state.event_time.most_windows == 0 and not state.options.reads:
        u.again = 0
        state.ids.again -= 1
        if state.ids.clean and state.ids.again == 0:
            forget_positions(state)


@kernel
def comes_again(state: State, partition: int, tuple_id: int, node: int) -> bool:
    """Return whether the partition has applied the tuple; `node` is its place among what is kept, if it is replayed."""
    if not state.ids.clean:
        return bool(position(state, partition, tuple_id) != NONE)
    if state.extended and state.options.rolls_back:
        if node != NONE and state.nodes[node].pos != NONE:
            return True
        if state.partitions[partition].again:
            return bool(position(state, partition, tuple_id) != NONE)
    return False


@kernel
def unapply(state: State, partition: int, count: int) -> None:
    """What is kept for a partition was not applied if it is not among the first `count` tuples of its state."""
    pair = state.partitions[partition].in_pair
    while pair != NONE:
        p = state.pairs[pair]
        n = p.live
        while n != NONE:
            if state.nodes[n].pos >= count:
                state.nodes[n].pos = NONE
            n = NONE if n == p.last else next_node(state, n)
        pair = p.next_in


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
        for k in range(max(pos, count), 0 if state.ids.clean else end):
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
    if count < u.base:  # nothing that was forgotten is cut, or all
        u.base = count
        u.twice = min(u.twice, u.base)
        u.forgotten = np.uint64(0)
