"""Tuples on their way: links between hosts, sending, replay.

A channel is in order: what one task sends to another arrives in the order of sending, as the link of a host takes one
message after the other and the latency is the same for all. So an arrival is mostly put behind the last one (`far`),
and its rank names receiver and sender: at one instant arrivals are ordered by these, then by the order of sending.
"""

from __future__ import annotations

import numpy as np

from sim.clock import ARRIVAL, MESSAGE, RECEIVER
from sim.kernel.event_loop.anchors import anchor
from sim.kernel.event_loop.births import note_birth
from sim.kernel.event_loop.buffers import keep, next_node
from sim.kernel.event_loop.codes import (
    ARRIVE,
    BROADCAST,
    BUNDLE,
    COME,
    DATA,
    FORWARD,
    GROUPED,
    KEYED,
    LOCAL,
    NONE,
    REPLAY,
    REPLAYED,
    SENT,
    SHUFFLE,
    TUPLE,
)
from sim.kernel.event_loop.events import next_serial, push, push_arrival
from sim.kernel.event_loop.fair_links import count_tuples, leaves_alone, post
from sim.kernel.event_loop.free_lists import new_visit
from sim.kernel.event_loop.hash_tables import position
from sim.kernel.event_loop.outbox import put_unsent, takes_place, withhold, withholds
from sim.kernel.event_loop.service_times import draw_now
from sim.kernel.event_loop.threads import hold_thread, shares_thread
from sim.kernel.tools.cache import inlined, kernel, noinline
from sim.kernel.tools.draws import UNSURE, child_id, shuffle_target, takes
from sim.kernel.tools.pointer import State, prefetch

# Messages of the current second, by kind: (number, bytes).
MESSAGES = np.dtype([("second", "i8"), ("rows", "i8"), ("counts", "i8", (7, 2))], align=True)

REMOTE_LINK = np.dtype([("free", "i8"), ("rate", "f8")])  # of the remote store; bytes per second, 0: no bound


_NS = 1e9
_SECOND = 1_000_000_000
_LAST = RECEIVER - 1  # as a sender, control comes after all tasks


@kernel
def count_message(state: State, kind: int, number: int, size: int) -> None:
    """So many messages of a kind were sent in the current second."""
    if state.clock.now >= state.messages.second + _SECOND:
        flush_messages(state)
    state.messages.counts[kind, 0] += number
    state.messages.counts[kind, 1] += size


@kernel
def flush_messages(state: State) -> None:
    """Write the rows of the second that is over."""
    for kind in range(state.messages.counts.shape[0]):
        if state.messages.counts[kind, 0] > 0:
            row = state.message_rows[state.messages.rows]
            row.second = state.messages.second
            row.kind = kind
            row.count = state.messages.counts[kind, 0]
            row.bytes = state.messages.counts[kind, 1]
            state.messages.rows += 1
            state.messages.counts[kind, 0] = 0
            state.messages.counts[kind, 1] = 0
    state.messages.second = state.clock.now - state.clock.now % _SECOND


@kernel
def departure(state: State, host: int, size: int, tuples: int) -> int:
    """Return when a message of so many tuples that the host sends now has left its link."""
    h = state.hosts[host]
    free = max(state.clock.now, h.link_free)
    if h.rate > 0:
        free = _after_bytes(state, host, free, size, tuples)
    h.link_free = free
    return free


@noinline
def _after_bytes(state: State, host: int, begin: int, size: int, tuples: int) -> int:
    """Return when a message that begins then has left; apart, so that no division is done where there is no rate."""
    held = int(np.rint(size * _NS / state.hosts[host].rate))
    count_tuples(state, host, tuples, begin + held - leaves_alone(state, host, held))
    return begin + held


@kernel
def upload_departure(state: State, host: int, size: int) -> int:
    """Return when a checkpoint that the host sends now has left its link."""
    h = state.hosts[host]
    free = max(state.clock.now, h.link_free)
    if h.rate > 0:
        free += np.int64(np.rint(size * _NS / h.rate))
    h.link_free = free
    return free


@kernel
def empty_remote_link(state: State) -> None:
    """Nothing is written to the remote store any more: its link is free."""
    state.remote_link.free = min(state.remote_link.free, state.clock.now)


@kernel
def remote_departure(state: State, size: int) -> int:
    """Return the same for the link of the remote store."""
    begin = max(state.clock.now, state.remote_link.free)
    if state.remote_link.rate > 0:
        begin += np.int64(np.rint(size * _NS / state.remote_link.rate))
    state.remote_link.free = begin
    return begin


@inlined
def _task_for(state: State, origin: int, receiver: int, created: int) -> int:
    """Return the task to which another sends what is for a partition."""
    if state.extended and state.options.placed and state.tasks[origin].routing != NONE:
        placed = state.routing[state.tasks[origin].routing + receiver]
        if placed != NONE and max(created, state.birth.since) >= state.partitions[receiver].placed_from:
            return placed
    return state.partitions[receiver].task


@inlined
def send(
    state: State,
    origin: int,
    sender: int,
    receiver: int,
    tuple_id: int,
    created: int,
    key: int,
    size: int,
    node: int,
) -> None:
    """Send a tuple from a task to a partition: at once inside a host, over the link of its host otherwise."""
    task = _task_for(state, origin, receiver, created)
    host = state.tasks[origin].host
    if host == state.tasks[task].host:  # no link: it arrives now, after what has been set for now before
        arrival = state.clock.now
        count_message(state, LOCAL, 1, size)
    else:
        arrival = departure(state, host, size, 1) + state.options.latency
        count_message(state, DATA, 1, size)
        if state.extended and state.options.counts_load:
            state.partitions[sender].sent += size
    visit = _on_its_way(state, receiver, origin, task, tuple_id, created, key, arrival, node)
    # What waits in `far` gets its service time there, with others; anything else now (`service_times`).
    if not push_arrival(state, arrival, ARRIVAL + task * RECEIVER + origin, state.visits[visit].serial, visit):
        draw_now(state, visit)


@inlined
def _on_its_way(
    state: State, receiver: int, origin: int, task: int, tuple_id: int, created: int, key: int, arrival: int, node: int
) -> int:
    visit = new_visit(state)
    e = state.visits[visit]
    e.id = tuple_id
    e.created = created
    e.key = key
    e.arrival = arrival
    e.start = NONE
    e.serial = next_serial(state)
    e.service = UNSURE
    e.next = NONE
    e.partition = receiver
    e.origin = origin
    e.task = task
    e.node = node
    e.kind = TUPLE
    e.wire = 1
    e.arrived = 0
    e.replayed = 0
    if state.extended and state.options.acks:
        anchor(state, visit)
    if state.extended and state.options.births:
        note_birth(state, visit)
    return visit


@kernel
def send_over(
    state: State,
    origin: int,
    sender: int,
    receiver: int,
    tuple_id: int,
    created: int,
    key: int,
    size: int,
    node: int,
) -> None:
    """The same where links may be shared evenly: when the tuple arrives is known once it has left."""
    task = _task_for(state, origin, receiver, created)
    host = state.tasks[origin].host
    if not state.hosts[host].fair or host == state.tasks[task].host:
        if shares_thread(state, origin, task):
            hold_thread(state, task)
        send(state, origin, sender, receiver, tuple_id, created, key, size, node)
        return
    count_message(state, DATA, 1, size)
    if state.options.counts_load:
        state.partitions[sender].sent += size
    visit = _on_its_way(state, receiver, origin, task, tuple_id, created, key, NONE, node)
    post(state, host, origin, task, size, ARRIVE, visit, 1)


@kernel
def send_mail(state: State, visit: int) -> None:
    """A message leaves its task, or control; its `key` is its size until then, and when it left its host from then."""
    e = state.visits[visit]
    origin, task, size = e.origin, e.task, e.key
    if origin != task or e.created == 0:  # a task that occupies itself (for so long) tells nobody anything
        count_message(state, SENT, 1, size)
    arrival, e.key, e.next = state.clock.now, state.clock.now, NONE
    if origin == NONE:
        origin, arrival = _LAST, state.clock.now + state.options.latency
    elif state.tasks[origin].host != state.tasks[task].host:
        host = state.tasks[origin].host
        if state.hosts[host].fair:
            post(state, host, origin, task, size, COME, visit, 0)
            return
        e.key = departure(state, host, size, 0)
        arrival = e.key + state.options.latency
    elif shares_thread(state, origin, task):
        hold_thread(state, task)
    push(state, arrival, ARRIVAL + task * RECEIVER + origin, next_serial(state), COME, visit)


@inlined
def emit_to(state: State, sender: int, receiver: int, tuple_id: int, created: int, key: int, size: int) -> None:
    """An output for one partition, or for those instances of its group that the sender's table names."""
    # Nothing special: keep a copy for replay, if there is replay, and send.
    if state.extended and state.options.special:
        if state.partitions[receiver].routed:
            _emit_routed(state, sender, receiver, tuple_id, created, key, size, False)
        else:
            _emit_one(state, sender, receiver, tuple_id, created, key, size, False)
    else:
        node = keep(state, sender, receiver, tuple_id, created, key, size) if _keeps(state, sender) else NONE
        if state.extended and state.options.unaligned:
            node = NONE  # it may be forgotten before it is applied
        send(state, state.partitions[sender].task, sender, receiver, tuple_id, created, key, size, node)


@kernel
def _emit_routed(
    state: State, sender: int, group: int, tuple_id: int, created: int, key: int, size: int, again: bool
) -> None:
    origin = state.partitions[sender].task
    route, found = state.partitions[group].routes, False
    while route != NONE:
        r = state.rules[route]
        if r.origin == origin:
            _emit_one(state, sender, r.partition, tuple_id, created, key, size, again)
            found = True
        route = r.next
    if not found:
        _emit_one(state, sender, state.partitions[group].owner, tuple_id, created, key, size, again)


@kernel
def _emit_one(
    state: State, sender: int, receiver: int, tuple_id: int, created: int, key: int, size: int, again: bool
) -> None:
    """An output for one instance: kept until that has saved it, and sent unless the sender is muted.

    With `again` it was emitted before: it is kept already, or its receiver has saved it.
    """
    keeps = _keeps(state, sender) and not again
    node = keep(state, sender, receiver, tuple_id, created, key, size) if keeps else NONE
    if state.options.unaligned:
        node = NONE
    if state.partitions[sender].muted:
        return
    withheld = withholds(state, sender, receiver, created) if state.options.withholds else NONE
    if withheld != NONE:
        withhold(state, withheld, new_visit(state), sender, receiver, tuple_id, created, key, node)
    elif state.options.bounded and not takes_place(state, sender, receiver):
        put_unsent(state, new_visit(state), sender, receiver, tuple_id, created, key, node)
    else:
        send_over(state, state.partitions[sender].task, sender, receiver, tuple_id, created, key, size, node)


@noinline
def emit(state: State, sender: int, tuple_id: int, created: int, key: int) -> None:
    """An output of a partition, over every edge of its operator."""
    send_output(state, sender, tuple_id, created, key)


@inlined
def _keeps(state: State, sender: int) -> bool:
    """Return whether outputs are kept for replay: with barriers those of sources alone, to which all go back."""
    if state.extended and state.options.sources_keep and not state.partitions[sender].is_source:
        return False
    return state.options.keeps_outputs != 0


@inlined
def send_output(state: State, sender: int, tuple_id: int, created: int, key: int) -> None:
    """The same, where most outputs come from."""
    u = state.partitions[sender]
    op = state.operators[u.operator]
    size = op.bytes
    for k in range(op.first_edge, op.first_edge + op.edges):
        edge = state.edges[k]
        if edge.takes < 1.0 and not takes(tuple_id, edge.takes_code, edge.takes):
            continue
        if edge.kind == BROADCAST:
            emit_copies(state, sender, k, tuple_id, created, key)
            continue
        target = edge.first_partition
        if edge.kind == KEYED:
            target += state.key_tables[edge.table + key]
        elif edge.kind == SHUFFLE:
            target += shuffle_target(tuple_id, edge.code, edge.partitions)
        elif edge.kind == GROUPED:
            target += key
        else:
            target += u.index % edge.partitions
        emit_to(state, sender, target, tuple_id, created, key, size)


@inlined
def prefetch_receiver(state: State, edge: int, key: int) -> None:
    """An output may be sent over this edge soon, mostly with this key; what is asked for in vain does no harm."""
    if state.edges[edge].kind == KEYED:
        prefetch(state.key_tables, state.edges[edge].table + key)


@noinline
def emit_copies(state: State, sender: int, edge: int, tuple_id: int, created: int, key: int) -> None:
    """An output for all partitions downstream of an edge, which become tuples of their own."""
    e, size = state.edges[edge], state.operators[state.partitions[sender].operator].bytes
    for copy in range(e.partitions):
        emit_to(state, sender, e.first_partition + copy, child_id(tuple_id, e.copy_code, copy), created, key, size)


@kernel
def sent_to(state: State, edge_number: int, tuple_id: int, key: int, index: int, k: int) -> int:
    """Return the k-th partition that an output goes to over an edge, or NONE after the last."""
    edge = state.edges[edge_number]
    if k > 0 and edge.kind != BROADCAST:
        return NONE
    if edge.takes < 1.0 and not takes(tuple_id, edge.takes_code, edge.takes):
        return NONE
    if edge.kind == KEYED:
        return edge.first_partition + state.key_tables[edge.table + key]
    if edge.kind == SHUFFLE:
        return edge.first_partition + shuffle_target(tuple_id, edge.code, edge.partitions)
    if edge.kind == GROUPED:
        return edge.first_partition + key
    if edge.kind == FORWARD:
        return edge.first_partition + index % edge.partitions
    return edge.first_partition + k if k < edge.partitions else NONE


@noinline
def send_again(state: State, sender: int, tuple_id: int, created: int, key: int) -> None:
    """Send an output of a partition over every edge of its operator, as `emit` did before, without keeping it."""
    u = state.partitions[sender]
    op = state.operators[u.operator]
    for edge in range(op.first_edge, op.first_edge + op.edges):
        k, target = 0, sent_to(state, edge, tuple_id, key, u.index, 0)
        while target != NONE:
            sent = tuple_id
            if state.edges[edge].kind == BROADCAST:
                sent = child_id(tuple_id, state.edges[edge].copy_code, k)
            _emit_routed(state, sender, target, sent, created, key, op.bytes, True)
            k += 1
            target = sent_to(state, edge, tuple_id, key, u.index, k)


@kernel
def _bundle(state: State, head: int, origin: int, task: int) -> int:
    """Return a chain of tuples as one message that waits its turn."""
    visit = new_visit(state)
    e = state.visits[visit]
    e.kind = BUNDLE
    e.created = head
    e.origin = origin
    e.task = task
    e.next = NONE
    e.wire = 0
    e.arrived = 0
    e.replayed = 0
    return visit


@kernel
def _missing(state: State, pair: int) -> int:
    """Return how many outputs that are kept in the pair the receiver has not applied."""
    p = state.pairs[pair]
    found, n = 0, p.live
    while n != NONE:
        found += position(state, p.receiver, state.nodes[n].id) == NONE
        n = NONE if n == p.last else next_node(state, n)
    return found


@kernel
def replay(state: State, sender: int, pair: int, turn: bool, missing: bool) -> tuple[int, int]:
    """Send all that is kept in the pair again, or is `missing` at the receiver, as one message; (tuples, bytes)."""
    p = state.pairs[pair]
    receiver = p.receiver
    rows = 0
    if p.live != NONE:
        rows = _missing(state, pair) if missing else p.end_seq - p.live_seq
    if rows == 0:
        return 0, 0
    size = rows * state.operators[state.partitions[sender].operator].bytes
    origin, task = state.partitions[sender].task, state.partitions[receiver].task
    host = state.tasks[origin].host
    shared = state.hosts[host].fair and host != state.tasks[task].host
    arrival = state.clock.now if host == state.tasks[task].host else NONE
    if arrival == NONE and not shared:
        arrival = departure(state, host, size, rows) + state.options.latency
    count_message(state, REPLAYED, 1, size)
    if state.extended and state.options.counts_load and host != state.tasks[task].host:
        state.partitions[sender].sent += size
    head, tail, n = NONE, NONE, p.live
    while n != NONE:
        node = state.nodes[n]
        if missing and position(state, receiver, node.id) != NONE:
            n = NONE if n == p.last else next_node(state, n)
            continue
        place = n if state.options.rolls_back else NONE
        visit = _on_its_way(state, receiver, origin, task, node.id, node.created, node.key, arrival, place)
        state.visits[visit].replayed = 1
        if head == NONE:
            head = visit
        else:
            state.visits[tail].next = visit
        tail = visit
        n = NONE if n == p.last else next_node(state, n)
    state.visits[head].ticket = rows  # read when the message arrives
    kind, ref, rank = REPLAY, head, MESSAGE
    if state.extended and turn:
        kind, ref, rank = COME, _bundle(state, head, origin, task), ARRIVAL
    if state.extended and shared:
        post(state, host, origin, task, size, kind, ref, rows)
    else:
        push(state, arrival, rank + task * RECEIVER + origin, next_serial(state), kind, ref)
    if state.partitions[receiver].replay_task != NONE:
        state.partitions[receiver].replay_pending += rows
    return rows, size
