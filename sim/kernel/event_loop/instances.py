"""Key groups at two tasks at a time: where outputs for them go, and how a new instance gets a state."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.buffers import (
    CHUNK,
    append_log,
    cut_log,
    forget_handed,
    forget_live,
    forget_stored,
    is_twice,
    keep,
    keep_too,
    let_go,
    next_node,
    save_kept,
    store_kept,
)
from sim.kernel.event_loop.checkpoints import state_bytes
from sim.kernel.event_loop.codes import MOVED, NONE
from sim.kernel.event_loop.free_lists import free_visit
from sim.kernel.event_loop.hash_tables import (
    FIRST_KEYS,
    SPREAD,
    cut_keys,
    find_pair,
    number_of_keys,
    set_position,
    touch_key,
)
from sim.kernel.event_loop.heard import come, leave, part
from sim.kernel.event_loop.restoring import copy_time, notes_of, save_time, store_time
from sim.kernel.event_loop.rules import ANY, new_rule, rules_without
from sim.kernel.event_loop.tasks import drop
from sim.kernel.event_loop.trimming import add_slices, begin_again
from sim.kernel.event_loop.windows import forget_windows
from sim.kernel.tools.cache import allocating, kernel
from sim.kernel.tools.pointer import State


@kernel
def add_instance(state: State, instance: int, partition: int, task: int) -> None:
    """The record of a further instance of the partition's group: not live, without a state."""
    u, group = state.partitions[instance], state.partitions[partition].group
    u.held_head = u.held_tail = u.log_first = u.log_last = u.out_pair = u.in_pair = u.replay_task = NONE
    u.overdue_head = u.overdue_tail = NONE
    u.goal = u.left = u.routes = u.stored_from = u.adopted_from = NONE
    u.overtaken_head = u.overtaken_tail = u.in_flight_head = NONE
    u.operator = state.partitions[partition].operator
    u.index = state.partitions[partition].index
    u.planned = state.partitions[group].planned
    u.is_sink = state.partitions[partition].is_sink
    u.task = task
    u.replayed_at = NONE
    u.epoch = 1
    u.first_key = instance * SPREAD & FIRST_KEYS
    u.group = group
    come(state, instance, task)
    if state.extended and state.options.trims:
        add_slices(state, instance, group)
    u.panes = u.past_first = u.past_last = u.recent_first = u.recent_last = NONE
    state.cluster.extra_instances += 1


@kernel
def clear_routes(state: State, partition: int, origin: int) -> None:
    """Outputs of that task for the group go to its owner."""
    part(state, state.partitions[partition].owner)
    state.partitions[partition].routes = rules_without(state, state.partitions[partition].routes, ANY, origin)
    _note_routed(state, partition)


@kernel
def add_route(state: State, partition: int, origin: int, target: int) -> None:
    """Outputs of that task for the group go to this instance, too, after those to targets that were added before."""
    part(state, state.partitions[partition].owner)
    u = state.partitions[partition]
    rule = new_rule(state, target, origin, NONE)
    if u.routes == NONE:
        u.routes = rule
    else:
        last = u.routes
        while state.rules[last].next != NONE:
            last = state.rules[last].next
        state.rules[last].next = rule
    _note_routed(state, partition)


@kernel
def own(state: State, instance: int) -> None:
    """The instance is the owner of its group."""
    group = state.partitions[instance].group
    part(state, state.partitions[group].owner)
    part(state, instance)
    state.partitions[group].owner = instance
    state.partitions[instance].owned_at = state.clock.serial
    _note_routed(state, group)


@kernel
def _note_routed(state: State, group: int) -> None:
    u = state.partitions[group]
    u.routed = u.routes != NONE or u.owner != group


@kernel
def copy_kept(state: State, sender: int, receiver: int, other: int) -> None:
    """Keep for another receiver, too, all that is kept for one."""
    pair = find_pair(state, sender, receiver)
    if pair == NONE:
        return
    size = state.operators[state.partitions[sender].operator].bytes
    n = state.pairs[pair].live
    rows = state.pairs[pair].end_seq - state.pairs[pair].live_seq if n != NONE else 0
    for k in range(rows):
        keep_too(state, sender, other, n, size)
        if k + 1 < rows:
            n = next_node(state, n)


@kernel
def retire(state: State, partition: int) -> None:
    """The instance is over: not live, keeps nothing, and nothing is kept for it."""
    u = state.partitions[partition]
    leave(state, partition, NONE)
    u.live = 0
    u.saving = 0
    u.announced = 0
    u.retired = 1
    for other in range(state.partitions.shape[0]):
        o = state.partitions[other]
        if o.adopted_from == partition:  # what upstream forgot since was for both
            o.trimmed = max(o.trimmed, min(u.trimmed, o.adopted_count))
    if state.extended and state.options.history > 0 and u.stored:  # a state that was sent here and not installed
        _forget_sent(state, partition)
    u.incarnation += 1
    held = u.held_head
    u.held_head = u.held_tail = NONE
    u.held_n = 0
    while held != NONE:
        following = state.visits[held].next
        drop(state, held, u.task, MOVED)
        free_visit(state, held)
        held = following
    forget_live(state, partition)
    if state.extended:
        forget_windows(state, partition)
    pair = u.in_pair
    while pair != NONE:
        p = state.pairs[pair]
        if p.live != NONE and state.partitions[p.sender].live:  # one that is down has to send it to the successor
            state.partitions[p.sender].kept_rows -= p.end_seq - p.live_seq
            p.live = NONE
            let_go(state, pair)
        pair = p.next_in


# -- states that come from other partitions


@kernel
def stored_at(state: State, partition: int) -> int:
    """Return the partition in whose log and pairs the stored checkpoint of this one is."""
    return partition if state.partitions[partition].stored_from == NONE else state.partitions[partition].stored_from


@kernel
def to_adopt(state: State, instance: int, partition: int) -> int:
    """Return the one of the two whose stored checkpoint a new instance of the partition's group gets; NONE: neither.

    Where the partition has handed its state down already, that of the instance is the state all the same.
    """
    if state.partitions[partition].stored:
        return partition
    return instance if state.partitions[instance].stored else NONE


@kernel
def noted(state: State, partition: int) -> int:
    """Return how many single tuples come with the stored checkpoint of the partition, for windows and timed state."""
    return notes_of(state, stored_at(state, partition)) if state.extended else 0


@kernel
def adoption(state: State, partition: int) -> int:
    """Return how many entries it makes to take over the stored checkpoint of the partition."""
    source = stored_at(state, partition)
    total = max(0, state.partitions[partition].stored_count - state.partitions[source].base)
    total += number_of_keys(state, source)
    pair = state.partitions[source].out_pair
    while pair != NONE:
        p = state.pairs[pair]
        total += p.stored_end - p.stored_begin + p.pending_end - p.pending_begin + 1
        pair = state.pairs[pair].next_out
    return total


@allocating
def adopt(state: State, instance: int, partition: int) -> None:
    """The stored checkpoint of the partition is that of a new instance, too, and its state (`to_adopt`)."""
    b, u = state.partitions[instance], state.partitions[partition]
    lender = to_adopt(state, instance, partition)
    if lender == NONE:
        return
    handed, count = b.stored, state.partitions[lender].stored_count
    _copy(state, stored_at(state, lender), state.partitions[lender].stored_from != NONE, count, instance)
    if not handed:
        save_kept(state, instance, True)
        store_kept(state, instance)
        if state.extended:
            save_time(state, instance, 0)
            store_time(state, instance, 0)
        b.stored = 1
        b.stored_checkpoint_host = u.stored_checkpoint_host
        b.stored_count = count
        b.stored_bytes = u.stored_bytes
        b.stored_incarnation = b.incarnation
    b.touched = 0
    b.epoch += 1
    b.at_snapshot = count
    b.trimmed = min(max(b.trimmed, u.trimmed), count)
    b.adopted_from = partition
    b.adopted_count = count
    b.new_kept_bytes = 0
    if state.extended and state.options.trims:
        begin_again(state, instance)
    if state.extended and state.options.history > 0:  # nobody would restore from it
        _forget_sent(state, instance)


@kernel
def _forget_sent(state: State, instance: int) -> None:
    """Forget the state that was handed down to an instance, as if it had no stored checkpoint."""
    forget_stored(state, instance)
    if state.partitions[instance].stored_from != NONE:
        forget_handed(state, instance)


@allocating
def inherit(state: State, partition: int) -> None:
    """The state that another partition has handed down becomes that of the partition, in place of its own."""
    u = state.partitions[partition]
    cut_log(state, partition, 0)
    cut_keys(state, partition, 0)
    pair = u.out_pair
    while pair != NONE:
        p = state.pairs[pair]
        p.pending_begin = p.pending_end = 0
        p.live = NONE
        let_go(state, pair)
        pair = p.next_out
    u.kept_rows = 0
    _copy(state, u.stored_from, True, u.stored_count, partition)
    u.touched = 0
    u.epoch += 1
    u.at_snapshot = u.stored_count
    u.new_kept_bytes = 0


@kernel
def hand_down(state: State, instance: int, successor: int) -> bool:
    """Make the state of an instance the stored checkpoint of another one, held by its host."""
    o, n = state.partitions[instance], state.partitions[successor]
    if not o.live or n.saved:
        return False
    size = state_bytes(state, instance) + o.kept_rows * state.operators[o.operator].bytes
    if n.stored:
        forget_stored(state, successor)
    save_kept(state, instance, True)
    if state.extended:
        save_time(state, instance, 0)
    n.stored = 1
    n.stored_checkpoint_host = state.tasks[o.task].host
    n.stored_count = o.applied
    n.stored_bytes = size
    n.stored_incarnation = n.incarnation
    n.stored_from = instance
    return True


@allocating
def _copy(state: State, source: int, handed: bool, count: int, partition: int) -> None:
    """The first so many applied tuples, their keys, and the stored outputs of one partition become those of another.

    With `handed` its pending outputs in place of the stored ones; the same of event time.
    """
    keys = np.empty((number_of_keys(state, source), 2), np.int64)
    found = 0
    for k in range(state.keys.shape[0]):
        e = state.keys[k]
        if e.partition == source and e.since >= 0:
            keys[found, 0] = e.key
            keys[found, 1] = e.since
            found += 1
    for k in range(found):
        touch_key(state, partition, keys[k, 0], keys[k, 1])
    cut_keys(state, partition, count)
    chunk, pos = state.partitions[source].log_first, min(state.partitions[source].base, count)
    state.partitions[partition].base = state.partitions[partition].applied = pos
    state.partitions[partition].twice = state.partitions[source].twice if pos > 0 else 0
    state.partitions[partition].forgotten = state.partitions[source].forgotten if pos > 0 else np.uint64(0)
    while pos < count:
        for k in range(min(CHUNK, count - pos)):
            tuple_id = state.log[chunk * CHUNK + k]
            if state.options.keeps_outputs and not is_twice(state, tuple_id):
                set_position(state, partition, tuple_id, pos + k)
            append_log(state, partition, tuple_id, state.log_newest[chunk])
        pos += CHUNK
        chunk = state.log_next[chunk]
    pair = state.partitions[source].out_pair
    while pair != NONE:
        _copy_stored(state, pair, handed, partition)
        pair = state.pairs[pair].next_out
    if state.extended:
        copy_time(state, source, handed, count, partition)


@kernel
def _copy_stored(state: State, pair: int, handed: bool, instance: int) -> None:
    p = state.pairs[pair]
    begin = p.pending_begin if handed else p.stored_begin
    end = p.pending_end if handed else p.stored_end
    if begin >= end:
        return
    size = state.operators[state.partitions[instance].operator].bytes
    n, skip = p.first, begin - p.first_seq
    rows = end - p.first_seq
    for k in range(rows):
        if k >= skip:
            node = state.nodes[n]
            keep(state, instance, p.receiver, node.id, node.created, node.key, size)
        if k + 1 < rows:
            n = next_node(state, n)
