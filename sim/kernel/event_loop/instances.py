"""Key groups at two tasks at a time: where outputs for them go, and how a new instance gets a state."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.buffers import (
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
from sim.kernel.event_loop.channels import free_visit
from sim.kernel.event_loop.checkpoints import state_bytes
from sim.kernel.event_loop.hash_tables import FIRST_KEYS, SPREAD, cut_keys, find_pair, set_position, touch_key
from sim.kernel.event_loop.restoring import copy_time, notes_of, save_time, store_time
from sim.kernel.event_loop.rules import ANY, new_rule, rules_without
from sim.kernel.event_loop.service import drop
from sim.kernel.event_loop.state import CHUNK, MOVED, NONE
from sim.kernel.event_loop.windows import forget_windows
from sim.kernel.tools.compiling import helper, kernel
from sim.kernel.tools.pointer import State


@kernel
def add_instance(s: State, instance: int, unit: int, task: int) -> None:
    """The record of a further instance of the unit's group: not live, without a state."""
    u, group = s.units[instance], s.units[unit].group
    u.held_head = u.held_tail = u.log_first = u.log_last = u.out_pair = u.in_pair = u.replay_task = NONE
    u.routes = u.stored_from = u.adopted_from = NONE
    u.operator = s.units[unit].operator
    u.index = s.units[unit].index
    u.planned = s.units[group].planned
    u.is_sink = s.units[unit].is_sink
    u.task = task
    u.replayed_at = NONE
    u.epoch = 1
    u.first_key = instance * SPREAD & FIRST_KEYS
    u.group = group
    u.panes = u.past_first = u.past_last = u.recent_first = u.recent_last = NONE
    s.g[0].further += 1


@kernel
def clear_routes(s: State, unit: int, origin: int) -> None:
    """Outputs of that task for the group go to its owner."""
    s.units[unit].routes = rules_without(s, s.units[unit].routes, ANY, origin)
    _note_routed(s, unit)


@kernel
def add_route(s: State, unit: int, origin: int, target: int) -> None:
    """Outputs of that task for the group go to this instance, too, after those to targets that were added before."""
    u = s.units[unit]
    rule = new_rule(s, target, origin, NONE)
    if u.routes == NONE:
        u.routes = rule
    else:
        last = u.routes
        while s.rules[last].next != NONE:
            last = s.rules[last].next
        s.rules[last].next = rule
    _note_routed(s, unit)


@kernel
def own(s: State, instance: int) -> None:
    """The instance is the owner of its group."""
    group = s.units[instance].group
    s.units[group].owner = instance
    s.units[instance].owned_at = s.g[0].serial
    _note_routed(s, group)


@kernel
def _note_routed(s: State, group: int) -> None:
    u = s.units[group]
    u.routed = u.routes != NONE or u.owner != group


@kernel
def copy_kept(s: State, sender: int, receiver: int, other: int) -> None:
    """What is kept for a receiver is kept for another one, too."""
    pair = find_pair(s, sender, receiver)
    if pair == NONE:
        return
    size = s.operators[s.units[sender].operator].bytes
    n = s.pairs[pair].live
    rows = s.pairs[pair].end_seq - s.pairs[pair].live_seq if n != NONE else 0
    for k in range(rows):
        node = s.nodes[n]
        keep(s, sender, other, node.id, node.birth, node.key, size)
        if k + 1 < rows:
            n = next_node(s, n)


@kernel
def retire(s: State, unit: int) -> None:
    """The instance is over: not live, keeps nothing, and nothing is kept for it."""
    u = s.units[unit]
    u.live = 0
    u.saving = 0
    u.announced = 0
    u.retired = 1
    for other in range(s.units.shape[0]):
        o = s.units[other]
        if o.adopted_from == unit:  # what upstream forgot since was for both
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
    forget_live(s, unit)
    if s.full:
        forget_windows(s, unit)
    pair = u.in_pair
    while pair != NONE:
        p = s.pairs[pair]
        if p.live != NONE and s.units[p.sender].live:  # one that is down has to send it to the heir
            s.units[p.sender].kept_rows -= p.end_seq - p.live_seq
            p.live = NONE
            let_go(s, pair)
        pair = p.next_in


# -- states that come from other units


@kernel
def stored_at(s: State, unit: int) -> int:
    """The unit in whose log and pairs the stored checkpoint of this one is."""
    return unit if s.units[unit].stored_from == NONE else s.units[unit].stored_from


@kernel
def noted(s: State, unit: int) -> int:
    """How many single tuples come with the stored checkpoint of the unit, for windows and states of the last time."""
    return notes_of(s, stored_at(s, unit)) if s.full else 0


@kernel
def adoption(s: State, unit: int) -> int:
    """How many entries it makes to take over the stored checkpoint of the unit."""
    source = stored_at(s, unit)
    total = max(0, s.units[unit].stored_count - s.units[source].base) + s.units[source].keys
    pair = s.units[source].out_pair
    while pair != NONE:
        p = s.pairs[pair]
        total += p.stored_end - p.stored_begin + p.pending_end - p.pending_begin + 1
        pair = s.pairs[pair].next_out
    return total


@helper
def adopt(s: State, instance: int, unit: int) -> None:
    """The stored checkpoint of the unit is that of a new instance, too, and its state.

    Where the unit has handed its state down already, its last stored checkpoint is the state all the same.
    """
    b, u = s.units[instance], s.units[unit]
    handed = b.stored
    if not u.stored and not handed:
        return
    if u.stored:
        count = u.stored_count
        _copy(s, stored_at(s, unit), u.stored_from != NONE, count, instance)
    else:
        count = b.stored_count
        _copy(s, b.stored_from, True, count, instance)
    if not handed:
        save_kept(s, instance)
        store_kept(s, instance)
        if s.full:
            save_time(s, instance)
            store_time(s, instance)
        b.stored = 1
        b.stored_holder = u.stored_holder
        b.stored_count = count
        b.stored_bytes = u.stored_bytes
    b.touched = 0
    b.epoch += 1
    b.at_snapshot = count
    b.trimmed = min(max(b.trimmed, u.trimmed), count)
    b.adopted_from = unit
    b.adopted_count = count
    b.new_kept_bytes = 0


@helper
def inherit(s: State, unit: int) -> None:
    """The state that another unit has handed down becomes that of the unit, in place of its own."""
    u = s.units[unit]
    cut_log(s, unit, 0)
    cut_keys(s, unit, 0)
    pair = u.out_pair
    while pair != NONE:
        p = s.pairs[pair]
        p.pending_begin = p.pending_end = 0
        p.live = NONE
        let_go(s, pair)
        pair = p.next_out
    u.kept_rows = 0
    _copy(s, u.stored_from, True, u.stored_count, unit)
    u.touched = 0
    u.epoch += 1
    u.at_snapshot = u.stored_count
    u.new_kept_bytes = 0


@kernel
def hand_down(s: State, instance: int, heir: int) -> bool:
    """The state of an instance becomes the stored checkpoint of another one, held by its host."""
    o, n = s.units[instance], s.units[heir]
    if not o.live or n.saved:
        return False
    size = state_bytes(s, instance) + o.kept_rows * s.operators[o.operator].bytes
    if n.stored:
        forget_stored(s, heir)
    save_kept(s, instance)
    if s.full:
        save_time(s, instance)
    n.stored = 1
    n.stored_holder = s.tasks[o.task].host
    n.stored_count = o.applied
    n.stored_bytes = size
    n.stored_from = instance
    return True


@helper
def _copy(s: State, source: int, handed: bool, count: int, unit: int) -> None:
    """The first so many applied tuples, their keys, and the stored outputs of one unit become those of another.

    With `handed` its pending outputs in place of the stored ones; the same of event time.
    """
    keys = np.empty((s.units[source].keys, 2), np.int64)
    found = 0
    for k in range(s.keys.shape[0]):
        e = s.keys[k]
        if e.unit == source and e.since >= 0:
            keys[found, 0] = e.key
            keys[found, 1] = e.since
            found += 1
    for k in range(found):
        touch_key(s, unit, keys[k, 0], keys[k, 1])
    cut_keys(s, unit, count)
    chunk, pos = s.units[source].log_first, min(s.units[source].base, count)
    s.units[unit].base = s.units[unit].applied = pos
    while pos < count:
        for k in range(min(CHUNK, count - pos)):
            tuple_id = s.log[chunk * CHUNK + k]
            if s.g[0].replays:
                set_position(s, unit, tuple_id, pos + k)
            append_log(s, unit, tuple_id, s.log_newest[chunk])
        pos += CHUNK
        chunk = s.log_next[chunk]
    pair = s.units[source].out_pair
    while pair != NONE:
        _copy_stored(s, pair, handed, unit)
        pair = s.pairs[pair].next_out
    if s.full:
        copy_time(s, source, handed, count, unit)


@kernel
def _copy_stored(s: State, pair: int, handed: bool, instance: int) -> None:
    p = s.pairs[pair]
    begin = p.pending_begin if handed else p.stored_begin
    end = p.pending_end if handed else p.stored_end
    if begin >= end:
        return
    size = s.operators[s.units[instance].operator].bytes
    n, skip = p.first, begin - p.first_seq
    rows = end - p.first_seq
    for k in range(rows):
        if k >= skip:
            node = s.nodes[n]
            keep(s, instance, p.receiver, node.id, node.birth, node.key, size)
        if k + 1 < rows:
            n = next_node(s, n)
