"""Tuples on their way: links between hosts, sending, replay."""

from __future__ import annotations

import numpy as np

from sim.clock import ARRIVAL, MESSAGE, RECEIVER
from sim.kernel.event_loop.buffers import keep, next_node
from sim.kernel.event_loop.codes import (
    ARRIVE,
    BROADCAST,
    BUNDLE,
    COME,
    DATA,
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
from sim.kernel.event_loop.fair_links import post
from sim.kernel.event_loop.free_lists import new_visit
from sim.kernel.event_loop.link_use import count_tuples, leaves_alone
from sim.kernel.event_loop.outbox import put_unsent, takes_place
from sim.kernel.event_loop.service_times import draw_now
from sim.kernel.tools.compiling import inlined, kernel, noinline
from sim.kernel.tools.draws import child_id, shuffle_target, takes
from sim.kernel.tools.exponential import UNSURE
from sim.kernel.tools.pointer import State

# Messages of the current second, by kind: (number, bytes).
MESSAGES = np.dtype([("second", "i8"), ("rows", "i8"), ("counts", "i8", (6, 2))], align=True)

REMOTE_LINK = np.dtype([("free", "i8"), ("rate", "f8")])  # of the remote store; bytes per second, 0: no bound


_NS = 1e9
_SECOND = 1_000_000_000
_LAST = RECEIVER - 1  # as a sender, control comes after all tasks


@kernel
def count_message(s: State, kind: int, number: int, size: int) -> None:
    """So many messages of a kind were sent in the current second."""
    if s.clock.now >= s.messages.second + _SECOND:
        flush_messages(s)
    s.messages.counts[kind, 0] += number
    s.messages.counts[kind, 1] += size


@kernel
def flush_messages(s: State) -> None:
    """Write the rows of the second that is over."""
    for kind in range(s.messages.counts.shape[0]):
        if s.messages.counts[kind, 0] > 0:
            row = s.message_rows[s.messages.rows]
            row.second = s.messages.second
            row.kind = kind
            row.count = s.messages.counts[kind, 0]
            row.bytes = s.messages.counts[kind, 1]
            s.messages.rows += 1
            s.messages.counts[kind, 0] = 0
            s.messages.counts[kind, 1] = 0
    s.messages.second = s.clock.now - s.clock.now % _SECOND


@kernel
def departure(s: State, host: int, size: int, tuples: int) -> int:
    """Return when a message of so many tuples that the host sends now has left its link."""
    h = s.hosts[host]
    free = max(s.clock.now, h.link_free)
    if h.rate > 0:
        free = _after_bytes(s, host, free, size, tuples)
    h.link_free = free
    return free


@noinline
def _after_bytes(s: State, host: int, begin: int, size: int, tuples: int) -> int:
    """Return when a message that begins then has left; apart, so that no division is done where there is no rate."""
    held = int(np.rint(size * _NS / s.hosts[host].rate))
    count_tuples(s, host, tuples, begin + held - leaves_alone(s, host, held))
    return begin + held


@kernel
def upload_departure(s: State, host: int, size: int) -> int:
    """Return when a checkpoint that the host sends now has left its link."""
    h = s.hosts[host]
    free = max(s.clock.now, h.link_free)
    if h.rate > 0:
        free += np.int64(np.rint(size * _NS / h.rate))
    h.link_free = free
    return free


@kernel
def remote_departure(s: State, size: int) -> int:
    """The same for the link of the remote store."""
    begin = max(s.clock.now, s.remote_link.free)
    if s.remote_link.rate > 0:
        begin += np.int64(np.rint(size * _NS / s.remote_link.rate))
    s.remote_link.free = begin
    return begin


@inlined
def send(s: State, sender: int, receiver: int, tuple_id: int, created: int, key: int, size: int, node: int) -> None:
    """Send a tuple to a partition: at once inside a host, over the link of the sender's host otherwise."""
    origin, task = s.partitions[sender].task, s.partitions[receiver].task
    host = s.tasks[origin].host
    if host == s.tasks[task].host:
        arrival = s.clock.now
        count_message(s, LOCAL, 1, size)
    else:
        arrival = departure(s, host, size, 1) + s.options.latency
        count_message(s, DATA, 1, size)
        if s.extended and s.options.counts_load:
            s.partitions[sender].sent += size
    v = _on_its_way(s, receiver, origin, task, tuple_id, created, key, arrival, node)
    if not push_arrival(s, arrival, ARRIVAL + task * RECEIVER + origin, s.visits[v].serial, v):
        draw_now(s, v)


@inlined
def _on_its_way(
    s: State, receiver: int, origin: int, task: int, tuple_id: int, created: int, key: int, arrival: int, node: int
) -> int:
    v = new_visit(s)
    e = s.visits[v]
    e.id = tuple_id
    e.created = created
    e.key = key
    e.arrival = arrival
    e.start = NONE
    e.serial = next_serial(s)
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
    return v


@kernel
def send_over(
    s: State, sender: int, receiver: int, tuple_id: int, created: int, key: int, size: int, node: int
) -> None:
    """The same where links may be shared evenly: when the tuple arrives is known once it has left."""
    origin, task = s.partitions[sender].task, s.partitions[receiver].task
    host = s.tasks[origin].host
    if not s.hosts[host].fair or host == s.tasks[task].host:
        send(s, sender, receiver, tuple_id, created, key, size, node)
        return
    count_message(s, DATA, 1, size)
    if s.options.counts_load:
        s.partitions[sender].sent += size
    v = _on_its_way(s, receiver, origin, task, tuple_id, created, key, NONE, node)
    post(s, host, origin, task, size, ARRIVE, v, 1)


@kernel
def send_mail(s: State, v: int) -> None:
    """A message leaves its task, or control; its `key` is its size until then, and when it left its host from then."""
    e = s.visits[v]
    origin, task, size = e.origin, e.task, e.key
    count_message(s, SENT, 1, size)
    arrival, e.key, e.next = s.clock.now, s.clock.now, NONE
    if origin == NONE:
        origin, arrival = _LAST, s.clock.now + s.options.latency
    elif s.tasks[origin].host != s.tasks[task].host:
        host = s.tasks[origin].host
        if s.hosts[host].fair:
            post(s, host, origin, task, size, COME, v, 0)
            return
        e.key = departure(s, host, size, 0)
        arrival = e.key + s.options.latency
    push(s, arrival, ARRIVAL + task * RECEIVER + origin, next_serial(s), COME, v)


@inlined
def emit_to(s: State, sender: int, receiver: int, tuple_id: int, created: int, key: int, size: int) -> None:
    """An output for one partition, or for those instances of its group that the sender's table names."""
    if s.extended and s.options.special:
        if s.partitions[receiver].routed:
            _emit_routed(s, sender, receiver, tuple_id, created, key, size)
        else:
            _emit_one(s, sender, receiver, tuple_id, created, key, size)
    else:
        node = keep(s, sender, receiver, tuple_id, created, key, size) if s.options.keeps_outputs else NONE
        send(s, sender, receiver, tuple_id, created, key, size, node)


@kernel
def _emit_routed(s: State, sender: int, group: int, tuple_id: int, created: int, key: int, size: int) -> None:
    origin = s.partitions[sender].task
    route, found = s.partitions[group].routes, False
    while route != NONE:
        r = s.rules[route]
        if r.origin == origin:
            _emit_one(s, sender, r.partition, tuple_id, created, key, size)
            found = True
        route = r.next
    if not found:
        _emit_one(s, sender, s.partitions[group].owner, tuple_id, created, key, size)


@kernel
def _emit_one(s: State, sender: int, receiver: int, tuple_id: int, created: int, key: int, size: int) -> None:
    """An output for one instance: kept until that has saved it, and sent unless the sender is muted."""
    node = keep(s, sender, receiver, tuple_id, created, key, size) if s.options.keeps_outputs else NONE
    if s.partitions[sender].muted:
        return
    if s.options.bounded and not takes_place(s, sender, receiver):
        put_unsent(s, new_visit(s), sender, receiver, tuple_id, created, key, node)
    else:
        send_over(s, sender, receiver, tuple_id, created, key, size, node)


@noinline
def emit(s: State, sender: int, tuple_id: int, created: int, key: int) -> None:
    """An output of a partition, over every edge of its operator."""
    send_output(s, sender, tuple_id, created, key)


@inlined
def send_output(s: State, sender: int, tuple_id: int, created: int, key: int) -> None:
    """The same, where most outputs come from."""
    u = s.partitions[sender]
    op = s.operators[u.operator]
    size = op.bytes
    for k in range(op.first_edge, op.first_edge + op.edges):
        edge = s.edges[k]
        if edge.takes < 1.0 and not takes(tuple_id, edge.takes_code, edge.takes):
            continue
        if edge.kind == BROADCAST:
            emit_copies(s, sender, k, tuple_id, created, key)
            continue
        target = edge.first_partition
        if edge.kind == KEYED:
            target += s.key_tables[edge.table + key]
        elif edge.kind == SHUFFLE:
            target += shuffle_target(tuple_id, edge.code, edge.partitions)
        elif edge.kind == GROUPED:
            target += key
        else:
            target += u.index % edge.partitions
        emit_to(s, sender, target, tuple_id, created, key, size)


@noinline
def emit_copies(s: State, sender: int, edge: int, tuple_id: int, created: int, key: int) -> None:
    """An output for all partitions downstream of an edge, which become tuples of their own."""
    e, size = s.edges[edge], s.operators[s.partitions[sender].operator].bytes
    for copy in range(e.partitions):
        emit_to(s, sender, e.first_partition + copy, child_id(tuple_id, e.copy_code, copy), created, key, size)


@kernel
def _bundle(s: State, head: int, origin: int, task: int) -> int:
    """A chain of tuples as one message that waits its turn."""
    v = new_visit(s)
    e = s.visits[v]
    e.kind = BUNDLE
    e.created = head
    e.origin = origin
    e.task = task
    e.next = NONE
    e.wire = 0
    e.arrived = 0
    e.replayed = 0
    return v


@kernel
def replay(s: State, sender: int, pair: int, turn: bool) -> tuple[int, int]:
    """Send all that is kept in the pair again, as one message; (tuples, bytes)."""
    p = s.pairs[pair]
    if p.live == NONE:
        return 0, 0
    receiver = p.receiver
    rows = p.end_seq - p.live_seq
    size = rows * s.operators[s.partitions[sender].operator].bytes
    origin, task = s.partitions[sender].task, s.partitions[receiver].task
    host = s.tasks[origin].host
    shared = s.hosts[host].fair and host != s.tasks[task].host
    arrival = s.clock.now if host == s.tasks[task].host else NONE
    if arrival == NONE and not shared:
        arrival = departure(s, host, size, rows) + s.options.latency
    count_message(s, REPLAYED, 1, size)
    if s.extended and s.options.counts_load and host != s.tasks[task].host:
        s.partitions[sender].sent += size
    head, tail, n = NONE, NONE, p.live
    while n != NONE:
        node = s.nodes[n]
        v = _on_its_way(s, receiver, origin, task, node.id, node.created, node.key, arrival, NONE)
        s.visits[v].replayed = 1
        if head == NONE:
            head = v
        else:
            s.visits[tail].next = v
        tail = v
        n = NONE if n == p.last else next_node(s, n)
    s.visits[head].ticket = rows  # read when the message arrives
    kind, ref, rank = REPLAY, head, MESSAGE
    if s.extended and turn:
        kind, ref, rank = COME, _bundle(s, head, origin, task), ARRIVAL
    if s.extended and shared:
        post(s, host, origin, task, size, kind, ref, rows)
    else:
        push(s, arrival, rank + task * RECEIVER + origin, next_serial(s), kind, ref)
    if s.partitions[receiver].replay_task != NONE:
        s.partitions[receiver].replay_pending += rows
    return rows, size
