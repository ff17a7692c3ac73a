"""Lend to the event loop what the scan has: all that can matter before an instant (`loans`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.clock import ARRIVAL, RECEIVER
from sim.kernel.event_loop.codes import ARRIVE, CREATE, END, NONE, TUPLE
from sim.kernel.event_loop.events import next_serial, push, push_own
from sim.kernel.event_loop.free_lists import new_visit
from sim.kernel.event_loop.rules import put_aside
from sim.kernel.event_loop.tasks import append_in_front, hold, put_in_queue, ticket
from sim.kernel.scan.entities import CHUNK
from sim.kernel.scan.links import remove_first
from sim.kernel.scan.placing import is_held, task_for
from sim.kernel.scan.send import post
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.draws import UNSURE
from sim.kernel.tools.pointer import State

_NS = 1e9


NO_LINKS, NO_VISITS = range(1, 3)  # what there is no room for; REFILL: a source, from there on
REFILL = 8


@kernel
def lacks(loop: State, scan: State, begin: int, until: int) -> int:
    """Return what is missing before a loan, or 0: room, or the next arrivals at a source (its number and REFILL)."""
    for source in range(scan.sources.shape[0]):
        b = scan.sources[source]
        if b.emitted == b.have and b.more:
            return REFILL + source
    if not over_links(scan):
        return NO_LINKS
    scan.requests.need = most_lent(scan, begin, until)
    if scan.requests.need + 8 > min(loop.visit_pool.left, loop.heap.shape[0] - loop.queue.in_heap):
        return NO_VISITS
    return 0


@kernel
def most_lent(scan: State, begin: int, until: int) -> int:
    """Return how many tuples are lent at the most."""
    found = 2 * scan.options.tasks + scan.queues[scan.options.aside].n + scan.sources.shape[0]
    for place in range(scan.options.operators):
        b = scan.boxes[place]
        for k in range(b.n):
            found += scan.box[b.first + k].at < until
    for task in range(scan.options.tasks):
        q = scan.queues[task]
        piece, place, at = q.head, q.head_place, begin
        for _ in range(q.n):
            if at >= until:
                break
            if place == CHUNK:
                piece = scan.chunk_next[piece]
                place = 0
            e = scan.chunks[piece * CHUNK + place]
            at += 0 if is_held(scan, e) else e.ns
            place += 1
            found += 1
    return found


@kernel
def over_links(scan: State) -> bool:
    """Send what waits in front of the links: when it arrives is known, as nothing passes it; False without room."""
    for host in range(scan.links.shape[0]):
        queue = scan.options.tasks + host
        q, link = scan.queues[queue], scan.links[host]
        while q.n > 0:
            e = scan.chunks[q.head * CHUNK + q.head_place]
            operator = scan.partition_operator[e.partition]
            b = scan.boxes[operator]
            if b.n == b.room:
                scan.requests.need = q.n
                return False
            size = scan.operators[scan.servers[e.origin].operator].bytes
            link.free = max(link.free, e.at) + np.int64(np.rint(size * _NS / link.rate))
            at = link.free + scan.options.latency
            post(scan, operator, at, e.id, e.created, e.key, e.partition, e.origin)
            remove_first(scan, queue)
    return True


@kernel
def _visit(
    loop: State, scan: State, at: int, tuple_id: int, created: int, key: int, partition: int, origin: int
) -> int:
    """Return a visit for a tuple of the scan that has arrived."""
    visit = new_visit(loop)
    v = loop.visits[visit]
    v.id = tuple_id
    v.created = created
    v.key = key
    v.arrival = at
    v.start = NONE
    v.service = UNSURE
    v.next = NONE
    v.partition = partition
    v.origin = origin
    v.task = task_for(scan, partition, created)
    v.node = NONE
    v.kind = TUPLE
    v.wire = 0
    v.arrived = 1
    v.replayed = 0
    return visit


@kernel
def lend(
    loop: State, scan: State, begin: int, until: int, lent: np.ndarray, turns: np.ndarray, counts: np.ndarray
) -> None:
    """Lend all that can matter before `until`; there is room for it."""
    loop.room.budget = 0
    loop.clock.now = begin
    for host in range(scan.links.shape[0]):
        if scan.links[host].rate > 0:
            loop.hosts[host].link_free = scan.links[host].free
            loop.hosts[host].free_alone = scan.links[host].free
    for source in range(scan.sources.shape[0]):
        b = loop.sources[source]
        if b.arrived < b.have:
            at = loop.arrivals[b.offset + b.arrived - b.base].time
            if at < until:
                push_own(loop, at, loop.partitions[b.partition].task, CREATE, source)
    for task in range(scan.options.tasks):
        if scan.servers[task].serving > 0:
            _lend_service(loop, scan, task)
    aside = scan.options.aside
    while scan.queues[aside].n > 0:
        q = scan.queues[aside]
        e = scan.chunks[q.head * CHUNK + q.head_place]
        visit = _visit(loop, scan, e.at, e.id, e.created, e.key, e.partition, e.origin)
        loop.visits[visit].ticket = ticket(loop, loop.tasks[loop.visits[visit].task].host)
        hold(loop, visit)
        remove_first(scan, aside)
    for task in range(scan.options.tasks):
        lent[task].last = NONE
        _lend_queue(loop, scan, task, begin, until, lent, turns, counts)
    left = 0
    for k in range(counts[0].turns):
        if turns[k].lent != 1:
            turns[left] = turns[k]
            left += 1
    counts[0].turns = left
    for place in range(scan.options.operators):
        _lend_coming(loop, scan, place, until)


@kernel
def _lend_service(loop: State, scan: State, task: int) -> None:
    """Lend the service in progress."""
    slot, t = scan.slots[scan.servers[task].first_thread], loop.tasks[task]
    visit = _visit(loop, scan, slot.at, slot.id, slot.created, slot.key, slot.partition, slot.origin)
    v = loop.visits[visit]
    v.start = slot.start
    v.task = task
    t.serving_head = visit
    t.serving_tail = visit
    t.idle_threads -= 1
    loop.cores[t.cores].free -= 1
    push_own(loop, slot.end, task, END, visit)
    scan.servers[task].serving = 0


@kernel
def _lend_queue(
    loop: State,
    scan: State,
    task: int,
    begin: int,
    until: int,
    lent: np.ndarray,
    turns: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Lend the first tuples of a queue, and messages between them."""
    q, own, at = scan.queues[task], lent[task], begin
    while True:
        for k in range(counts[0].turns):
            if turns[k].task == task and turns[k].lent == 0 and turns[k].place <= q.gone and at < until:
                _lend_turn(loop, turns[k].visit, task)
                turns[k].lent = 1
        if q.n == 0 or at >= until:
            break
        at += _lend_first(loop, scan, task, own)
    if loop.tasks[task].rules != NONE:  # what is in front of a message is put aside, however much it is
        for k in range(counts[0].turns):
            if turns[k].task == task and turns[k].lent == 0:
                _lend_turn(loop, turns[k].visit, task)
                turns[k].lent = 2


@kernel
def _lend_turn(loop: State, visit: int, task: int) -> None:
    put_in_queue(loop, visit, task)
    loop.tasks[task].queue_n -= 1  # only tuples are counted


@kernel
def _lend_first(loop: State, scan: State, task: int, own: Any) -> int:
    """Lend the first tuple of a queue; return how long it occupies the task at least."""
    q = scan.queues[task]
    e = scan.chunks[q.head * CHUNK + q.head_place]
    visit = _visit(loop, scan, e.at, e.id, e.created, e.key, e.partition, e.origin)
    loop.visits[visit].task = task
    loop.visits[visit].ticket = ticket(loop, loop.tasks[task].host)
    if scan.servers[task].speed == 1.0:
        loop.visits[visit].service = e.ns
    ns = 0 if is_held(scan, e) else e.ns
    if q.gone >= own.ahead:
        put_in_queue(loop, visit, task)
    elif loop.tasks[task].rules != NONE:
        put_aside(loop, visit, task)
    else:
        append_in_front(loop, visit, task)
    own.last = visit
    remove_first(scan, task)
    return ns


@kernel
def lend_ahead(loop: State, scan: State, task: int, lent: np.ndarray) -> None:
    """Lend all that is left of the first lane of a task, behind what was lent of it; there is room for it."""
    q, own, t = scan.queues[task], lent[task], loop.tasks[task]
    while q.n > 0 and q.gone < own.ahead:
        before = own.last
        _lend_first(loop, scan, task, own)
        visit = own.last
        # It went to the end of its lane: take it from there to its place.
        if before == NONE:
            if t.rules != NONE:
                _to_head_aside(loop, task, visit)
            else:
                _to_head_in_front(loop, task, visit)
        elif loop.visits[before].next != visit:
            _move_behind(loop, task, before, visit)


@kernel
def _move_behind(loop: State, task: int, before: int, visit: int) -> None:
    """Move the last visit of the first lane behind another one in it."""
    t = loop.tasks[task]
    one = loop.visits[before].next
    while loop.visits[one].next != visit:
        one = loop.visits[one].next
    loop.visits[one].next = NONE
    if t.rules != NONE:
        t.side_tail = one
    else:
        t.front_tail = one
    loop.visits[visit].next = loop.visits[before].next
    loop.visits[before].next = visit


@kernel
def _to_head_aside(loop: State, task: int, visit: int) -> None:
    t = loop.tasks[task]
    if t.side_head == visit:
        return
    one = t.side_head
    while loop.visits[one].next != visit:
        one = loop.visits[one].next
    loop.visits[one].next = NONE
    t.side_tail = one
    loop.visits[visit].next = t.side_head
    t.side_head = visit


@kernel
def _to_head_in_front(loop: State, task: int, visit: int) -> None:
    t = loop.tasks[task]
    if t.front_head == visit:
        return
    one = t.front_head
    while loop.visits[one].next != visit:
        one = loop.visits[one].next
    loop.visits[one].next = NONE
    t.front_tail = one
    loop.visits[visit].next = t.front_head
    t.front_head = visit


@kernel
def _lend_coming(loop: State, scan: State, place: int, until: int) -> None:
    """Lend what arrives at an operator."""
    b, kept = scan.boxes[place], 0
    for k in range(b.n):
        e = scan.box[b.first + k]
        if e.at < until:
            visit = _visit(loop, scan, e.at, e.id, e.created, e.key, e.partition, e.origin)
            v = loop.visits[visit]
            v.wire = 1
            v.arrived = 0
            v.serial = next_serial(loop)
            push(loop, e.at, ARRIVAL + v.task * RECEIVER + v.origin, v.serial, ARRIVE, visit)
        else:
            if kept < k:
                scan.box[b.first + kept] = e
            kept += 1
    b.n = kept
