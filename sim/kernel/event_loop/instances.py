"""Key groups at two tasks at a time: where outputs for them go, and how a new instance gets a state."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.buffers import (
    CHUNK,
    append_log,
    cut_log,
    forget_live,
    forget_stored,
    keep,
    let_go,
    next_node,
    save_kept,
    store_kept,
)
from sim.kernel.event_loop.checkpoints import state_bytes
from sim.kernel.event_loop.codes import MOVED, NONE
from sim.kernel.event_loop.free_lists import free_visit
from sim.kernel.event_loop.hash_tables import FIRST_KEYS, SPREAD, cut_keys, find_pair, set_position, touch_key
from sim.kernel.event_loop.restoring import copy_time, notes_of, save_time, store_time
from sim.kernel.event_loop.rules import ANY, new_rule, rules_without
from sim.kernel.event_loop.tasks import drop
from sim.kernel.event_loop.windows import forget_windows
from sim.kernel.tools.compiling import allocating, kernel
from sim.kernel.tools.pointer import State


@kernel
def add_instance(s: State, instance: int, partition: int, task: int) -> None:
    """The record of a further instance of the partition's group: not live, without a state."""
    u, group = s.partitions[instance], s.partitions[partition].group
    u.held_head = u.held_tail = u.log_first = u.log_last = u.out_pair = u.in_pair = u.replay_task = NONE
    u.routes = u.stored_from = u.adopted_from = NONE
    u.operator = s.partitions[partition].operator
    u.index = s.partitions[partition].index
    u.planned = s.partitions[group].planned
    u.is_sink = s.partitions[partition].is_sink
    u.task = task
    u.replayed_at = NONE
    u.epoch = 1
    u.first_key = instance * SPREAD & FIRST_KEYS
    u.group = group
    u.panes = u.past_first = u.past_last = u.recent_first = u.recent_last = NONE
    s.cluster.extra_instances += 1


@kernel
def clear_routes(s: State, partition: int, origin: int) -> None:
    """Outputs of that task for the group go to its owner."""
    s.partitions[partition].routes = rules_without(s, s.partitions[partition].routes, ANY, origin)
    _note_routed(s, partition)


@kernel
def add_route(s: State, partition: int, origin: int, target: int) -> None:
    """Outputs of that task for the group go to this instance, too, after those to targets that were added before."""
    u = s.partitions[partition]
    rule = new_rule(s, target, origin, NONE)
    if u.routes == NONE:
        u.routes = rule
    else:
        last = u.routes
        while s.rules[last].next != NONE:
            last = s.rules[last].next
        s.rules[last].next = rule
    _note_routed(s, partition)


@kernel
def own(s: State, instance: int) -> None:
    """The instance is the owner of its group."""
    group = s.partitions[instance].group
    s.partitions[group].owner = instance
    s.partitions[instance].owned_at = s.clock.serial
    _note_routed(s, group)


@kernel
def _note_routed(s: State, group: int) -> None:
    u = s.partitions[group]
    u.routed = u.routes != NONE or u.owner != group


@kernel
def copy_kept(s: State, sender: int, receiver: int, other: int) -> None:
    """What is kept for a receiver is kept for another one, too."""
    pair = find_pair(s, sender, receiver)
    if pair == NONE:
        return
    size = s.operators[s.partitions[sender].operator].bytes
    n = s.pairs[pair].live
    rows = s.pairs[pair].end_seq - s.pairs[pair].live_seq if n != NONE else 0
    for k in range(rows):
        node = s.nodes[n]
        keep(s, sender, other, node.id, node.created, node.key, size)
        if k + 1 < rows:
            n = next_node(s, n)


@kernel
def retire(s: State, partition: int) -> None:
    """The instance is over: not live, keeps nothing, and nothing is kept for it."""
    u = s.partitions[partition]
    u.live = 0
    u.saving = 0
    u.announced = 0
    u.retired = 1
    for other in range(s.partitions.shape[0]):
        o = s.partitions[other]
        if o.adopted_from == partition:  # what upstream forgot since was for both
            o.trimmed = max(o.trimmed, min(u.trimmed, o.adopted_count))
    u.incarnation += 1
    held = u.held_head
    u.held_head = u.held_tail = NONE
    u.held_n = 0
    while held != NONE:
        following = s.visits[held].next
        drop(s, held, u.task, MOVED)
        free_visit(s, held)
        held = following
    forget_live(s, partition)
    if s.extended:
        forget_windows(s, partition)
    pair = u.in_pair
    while pair != NONE:
        p = s.pairs[pair]
        if p.live != NONE and s.partitions[p.sender].live:  # one that is down has to send it to the successor
            s.partitions[p.sender].kept_rows -= p.end_seq - p.live_seq
            p.live = NONE
            let_go(s, pair)
        pair = p.next_in


# -- states that come from other partitions


@kernel
def stored_at(s: State, partition: int) -> int:
    """The partition in whose log and pairs the stored checkpoint of this one is."""
    return partition if s.partitions[partition].stored_from == NONE else s.partitions[partition].stored_from


@kernel
def noted(s: State, partition: int) -> int:
    """How many single tuples come with the stored checkpoint of the partition, for windows and timed state."""
    return notes_of(s, stored_at(s, partition)) if s.extended else 0


@kernel
def adoption(s: State, partition: int) -> int:
    """How many entries it makes to take over the stored checkpoint of the partition."""
    source = stored_at(s, partition)
    total = max(0, s.partitions[partition].stored_count - s.partitions[source].base) + s.partitions[source].keys
    pair = s.partitions[source].out_pair
    while pair != NONE:
        p = s.pairs[pair]
        total += p.stored_end - p.stored_begin + p.pending_end - p.pending_begin + 1
        pair = s.pairs[pair].next_out
    return total


@allocating
def adopt(s: State, instance: int, partition: int) -> None:
    """The stored checkpoint of the partition is that of a new instance, too, and its state.

    Where the partition has handed its state down already, its last stored checkpoint is the state all the same.
    """
    b, u = s.partitions[instance], s.partitions[partition]
    handed = b.stored
    if not u.stored and not handed:
        return
    if u.stored:
        count = u.stored_count
        _copy(s, stored_at(s, partition), u.stored_from != NONE, count, instance)
    else:
        count = b.stored_count
        _copy(s, b.stored_from, True, count, instance)
    if not handed:
        save_kept(s, instance)
        store_kept(s, instance)
        if s.extended:
            save_time(s, instance)
            store_time(s, instance)
        b.stored = 1
        b.stored_checkpoint_host = u.stored_checkpoint_host
        b.stored_count = count
        b.stored_bytes = u.stored_bytes
    b.touched = 0
    b.epoch += 1
    b.at_snapshot = count
    b.trimmed = min(max(b.trimmed, u.trimmed), count)
    b.adopted_from = partition
    b.adopted_count = count
    b.new_kept_bytes = 0


@allocating
def inherit(s: State, partition: int) -> None:
    """The state that another partition has handed down becomes that of the partition, in place of its own."""
    u = s.partitions[partition]
    cut_log(s, partition, 0)
    cut_keys(s, partition, 0)
    pair = u.out_pair
    while pair != NONE:
        p = s.pairs[pair]
        p.pending_begin = p.pending_end = 0
        p.live = NONE
        let_go(s, pair)
        pair = p.next_out
    u.kept_rows = 0
    _copy(s, u.stored_from, True, u.stored_count, partition)
    u.touched = 0
    u.epoch += 1
    u.at_snapshot = u.stored_count
    u.new_kept_bytes = 0


@kernel
def hand_down(s: State, instance: int, successor: int) -> bool:
    """The state of an instance becomes the stored checkpoint of another one, held by its host."""
    o, n = s.partitions[instance], s.partitions[successor]
    if not o.live or n.saved:
        return False
    size = state_bytes(s, instance) + o.kept_rows * s.operators[o.operator].bytes
    if n.stored:
        forget_stored(s, successor)
    save_kept(s, instance)
    if s.extended:
        save_time(s, instance)
    n.stored = 1
    n.stored_checkpoint_host = s.tasks[o.task].host
    n.stored_count = o.applied
    n.stored_bytes = size
    n.stored_from = instance
    return True


@allocating
def _copy(s: State, source: int, handed: bool, count: int, partition: int) -> None:
    """The first so many applied tuples, their keys, and the stored outputs of one partition become those of another.

    With `handed` its pending outputs in place of the stored ones; the same of event time.
    """
    keys = np.empty((s.partitions[source].keys, 2), np.int64)
    found = 0
    for k in range(s.keys.shape[0]):
        e = s.keys[k]
        if e.partition == source and e.since >= 0:
            keys[found, 0] = e.key
            keys[found, 1] = e.since
            found += 1
    for k in range(found):
        touch_key(s, partition, keys[k, 0], keys[k, 1])
    cut_keys(s, partition, count)
    chunk, pos = s.partitions[source].log_first, min(s.partitions[source].base, count)
    s.partitions[partition].base = s.partitions[partition].applied = pos
    while pos < count:
        for k in range(min(CHUNK, count - pos)):
            tuple_id = s.log[chunk * CHUNK + k]
            if s.options.keeps_outputs:
                set_position(s, partition, tuple_id, pos + k)
            append_log(s, partition, tuple_id, s.log_newest[chunk])
        pos += CHUNK
        chunk = s.log_next[chunk]
    pair = s.partitions[source].out_pair
    while pair != NONE:
        _copy_stored(s, pair, handed, partition)
        pair = s.pairs[pair].next_out
    if s.extended:
        copy_time(s, source, handed, count, partition)


@kernel
def _copy_stored(s: State, pair: int, handed: bool, instance: int) -> None:
    p = s.pairs[pair]
    begin = p.pending_begin if handed else p.stored_begin
    end = p.pending_end if handed else p.stored_end
    if begin >= end:
        return
    size = s.operators[s.partitions[instance].operator].bytes
    n, skip = p.first, begin - p.first_seq
    rows = end - p.first_seq
    for k in range(rows):
        if k >= skip:
            node = s.nodes[n]
            keep(s, instance, p.receiver, node.id, node.created, node.key, size)
        if k + 1 < rows:
            n = next_node(s, n)
