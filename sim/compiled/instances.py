"""Key groups at two tasks at a time: where outputs for them go, and how a new instance gets a state."""

from __future__ import annotations

import numpy as np

from sim.compiled.buffers import append_log, forget_live, keep, let_go, next_node, save_kept, store_kept
from sim.compiled.compiling import helper, kernel
from sim.compiled.pointer import State
from sim.compiled.rules import new_rule
from sim.compiled.state import CHUNK, NONE
from sim.compiled.tables import cut_keys, find_pair, set_position, touch_key


@kernel
def add_instance(s: State, instance: int, unit: int, task: int) -> None:
    """The record of a further instance of the unit's group: not live, without a state."""
    u, group = s.units[instance], s.units[unit].group
    u.held_head = u.held_tail = u.log_first = u.log_last = u.out_pair = u.in_pair = u.replay_task = NONE
    u.routes = NONE
    u.operator = s.units[unit].operator
    u.index = s.units[unit].index
    u.planned = s.units[group].planned
    u.is_sink = s.units[unit].is_sink
    u.task = task
    u.replayed_at = NONE
    u.epoch = 1
    u.group = group


@kernel
def clear_routes(s: State, unit: int, origin: int) -> None:
    """Outputs of that task for the group go to its owner."""
    g, u = s.g[0], s.units[unit]
    before, rule = NONE, u.routes
    while rule != NONE:
        following = s.rules[rule].next
        if s.rules[rule].origin == origin:
            if before == NONE:
                u.routes = following
            else:
                s.rules[before].next = following
            s.rules[rule].next = g.free_rule
            g.free_rule = rule
        else:
            before = rule
        rule = following
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
    """The instance is not live, keeps nothing, and nothing is kept for it."""
    u = s.units[unit]
    u.live = 0
    u.saving = 0
    u.incarnation += 1
    forget_live(s, unit)
    pair = u.in_pair
    while pair != NONE:
        p = s.pairs[pair]
        if p.live != NONE:
            s.units[p.sender].kept_rows -= p.end_seq - p.live_seq
            p.live = NONE
            let_go(s, pair)
        pair = p.next_in


@kernel
def adoption(s: State, unit: int) -> int:
    """How many entries `adopt` makes."""
    u = s.units[unit]
    if not u.stored:
        return 0
    total = u.stored_count + u.keys
    pair = u.out_pair
    while pair != NONE:
        total += s.pairs[pair].stored_end - s.pairs[pair].stored_begin + 1
        pair = s.pairs[pair].next_out
    return total


@helper
def adopt(s: State, instance: int, unit: int) -> None:
    """The stored checkpoint of the unit is that of the instance, too, and its state."""
    b, u = s.units[instance], s.units[unit]
    if not u.stored:
        return
    keys = np.empty((u.keys, 2), np.int64)
    found = 0
    for k in range(s.keys.shape[0]):
        e = s.keys[k]
        if e.unit == unit and e.since >= 0:
            keys[found, 0] = e.key
            keys[found, 1] = e.since
            found += 1
    for k in range(found):
        touch_key(s, instance, keys[k, 0], keys[k, 1])
    cut_keys(s, instance, u.stored_count)
    chunk, pos = u.log_first, 0
    while pos < u.stored_count:
        for k in range(min(CHUNK, u.stored_count - pos)):
            tuple_id = s.log[chunk * CHUNK + k]
            if s.g[0].replays:
                set_position(s, instance, tuple_id, pos + k)
            append_log(s, instance, tuple_id)
        pos += CHUNK
        chunk = s.log_next[chunk]
    pair = u.out_pair
    while pair != NONE:
        _copy_stored(s, pair, instance)
        pair = s.pairs[pair].next_out
    save_kept(s, instance)
    store_kept(s, instance)
    b.touched = 0
    b.epoch += 1
    b.at_snapshot = u.stored_count
    b.trimmed = min(b.trimmed, u.stored_count)
    b.new_kept_bytes = 0
    b.stored = 1
    b.stored_holder = u.stored_holder
    b.stored_count = u.stored_count
    b.stored_bytes = u.stored_bytes


@kernel
def _copy_stored(s: State, pair: int, instance: int) -> None:
    p = s.pairs[pair]
    if p.stored_begin >= p.stored_end:
        return
    size = s.operators[s.units[instance].operator].bytes
    n, skip = p.first, p.stored_begin - p.first_seq
    rows = p.stored_end - p.first_seq
    for k in range(rows):
        if k >= skip:
            node = s.nodes[n]
            keep(s, instance, p.receiver, node.id, node.birth, node.key, size)
        if k + 1 < rows:
            n = next_node(s, n)
