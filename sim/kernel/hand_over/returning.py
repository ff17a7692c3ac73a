"""Give tuples back to the scan when a loan is over: all of them, but for those of stopped tasks (`loans`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.clock import SERVICE
from sim.kernel.event_loop.codes import ARRIVE, CREATE, END, NEVER, NONE, TUPLE
from sim.kernel.event_loop.events import RING, build_tournament, push, replay_vacant, task_of
from sim.kernel.event_loop.free_lists import free_visit
from sim.kernel.hand_over.loans import FAR_NS, is_idle, is_stopped, next_event, turn_at
from sim.kernel.scan.entities import CHUNK
from sim.kernel.scan.links import append
from sim.kernel.scan.send import post
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.draws import UNSURE, service_ns
from sim.kernel.tools.pointer import State


@kernel
def pieces_left(scan: State, most: int) -> bool:
    """Return whether so many pieces of queues are free."""
    piece = scan.chunk_pool.free
    for _ in range(most):
        if piece == NONE:
            return False
        piece = scan.chunk_next[piece]
    return True


@kernel
def has_room(loop: State, scan: State, turns: np.ndarray, counts: np.ndarray, scratch: np.ndarray) -> bool:
    """Return whether there is room for all that can be given back."""
    used = loop.visits.shape[0] - loop.visit_pool.left
    for place in range(scan.boxes.shape[0] - 1):
        if scan.boxes[place].room - scan.boxes[place].n < used:
            return False
    if scratch.shape[0] < loop.visits.shape[0] or turns.shape[0] < counts[0].turns + used:
        return False
    return pieces_left(scan, most_pieces(scan, used))


@kernel
def most_pieces(scan: State, used: int) -> int:
    """Return how many pieces of queues so many tuples take at the most."""
    return 2 * scan.options.tasks + used // CHUNK + 1


@kernel
def take_back(
    loop: State,
    scan: State,
    until: int,
    changed: int,
    lent: np.ndarray,
    turns: np.ndarray,
    counts: np.ndarray,
    scratch: np.ndarray,
) -> None:
    """Give all tuples back to the scan, for which there is room; all before `until` is done, nothing at it.

    `changed`: control has changed where key groups are.
    """
    for host in range(scan.links.shape[0]):
        if scan.links[host].rate > 0:
            scan.links[host].free = loop.hosts[host].link_free
    for task in range(scan.options.tasks):
        lent[task].stopped = is_stopped(loop, task)
        lent[task].changed = changed
    _take_events(loop, scan, lent, counts, scratch)
    _take_coming(loop, scan, counts, scratch)
    for task in range(scan.options.tasks):
        t = loop.tasks[task]
        if loop.operators[t.operator].has_service:
            _take_service(loop, scan, task, lent)
            _take_lanes(loop, scan, task, lent, turns, counts, scratch)
    _set_turns(scan, lent, turns, counts, until)
    counts[0].event = next_event(loop)
    scan.span.begin = until
    scan.span.end = until


@kernel
def _take_events(loop: State, scan: State, lent: np.ndarray, counts: np.ndarray, scratch: np.ndarray) -> None:
    """Leave only what control has begun; note what is on its way in `scratch`, and when services end."""
    replay_vacant(loop)
    leaves = loop.tournament.shape[0] >> 1
    for place in range(leaves):
        number = loop.tournament[leaves + place]
        if number != NEVER:
            task, own = task_of(loop, number), loop.own[place]
            if own.kind == CREATE or (own.kind == END and lent[task].stopped == 0):
                if own.kind == END:
                    scan.servers[task].free = number >> loop.queue.task_bits
                loop.tournament[leaves + place] = NEVER
    build_tournament(loop.tournament)
    n = 0
    for k in range(loop.queue.near_count):
        scratch[n] = loop.near[(loop.queue.near_first + k) & (RING - 1)].ref
        n += 1
    for k in range(loop.queue.far_count):
        scratch[n] = loop.far[(loop.queue.far_first + k) & (RING - 1)].ref
        n += 1
    loop.queue.near_first = loop.queue.near_count = 0
    loop.queue.far_first = loop.queue.far_count = 0
    loop.near[0].time = NEVER
    loop.far[0].time = NEVER
    loop.ahead.drawn = 0
    in_heap = loop.queue.in_heap
    loop.queue.in_heap = 0
    for k in range(in_heap):
        e = loop.heap[k]
        time, rank, seq, kind, ref = e.time, e.rank, e.seq, e.kind, e.ref
        if kind == ARRIVE:
            scratch[n] = ref
            n += 1
        elif kind == END and lent[rank - SERVICE].stopped == 0:
            scan.servers[rank - SERVICE].free = time
        elif kind != CREATE:
            push(loop, time, rank, seq, kind, ref)
    if loop.queue.in_heap == 0:
        loop.heap[0].time = NEVER
    counts[0].coming = n


@kernel
def _take_coming(loop: State, scan: State, counts: np.ndarray, scratch: np.ndarray) -> None:
    """Take back what is on its way, in the order of sending."""
    n = counts[0].coming
    for k in range(1, n):
        visit, place = scratch[k], k
        serial = loop.visits[visit].serial
        while place > 0 and loop.visits[scratch[place - 1]].serial > serial:
            scratch[place] = scratch[place - 1]
            place -= 1
        scratch[place] = visit
    for k in range(n):
        visit = scratch[k]
        v = loop.visits[visit]
        operator = scan.partition_operator[v.partition]
        post(scan, operator, v.arrival, v.id, v.created, v.key, v.partition, v.origin)
        v.wire = 0
        free_visit(loop, visit)


@kernel
def _take_service(loop: State, scan: State, task: int, lent: np.ndarray) -> None:
    """Take the service in progress back, unless the task is stopped."""
    server, t = scan.servers[task], loop.tasks[task]
    visit = t.serving_head
    if visit == lent[task].last:  # all that was lent before has been served
        lent[task].last = NONE
    if lent[task].stopped == 1:
        server.free = FAR_NS
    elif visit == NONE:
        server.free = 0
    else:
        v, slot = loop.visits[visit], scan.slots[server.first_thread]
        slot.at = v.arrival
        slot.id = v.id
        slot.created = v.created
        slot.key = v.key
        slot.partition = v.partition
        slot.origin = task
        slot.start = v.start
        slot.end = server.free
        server.serving = 1
        t.serving_head = t.serving_tail = NONE
        t.idle_threads += 1
        loop.cores[t.cores].free += 1
        free_visit(loop, visit)


@kernel
def _service_ns(loop: State, scan: State, visit: int, task: int) -> int:
    """Return how long the service of a tuple takes at its task."""
    v, speed = loop.visits[visit], scan.servers[task].speed
    ns = v.service
    if ns == UNSURE:
        ns = service_ns(loop.draws[loop.tasks[task].operator], v.id)
    return int(ns) if speed == 1.0 else max(1, int(np.rint(ns / speed)))


@kernel
def _is_simple(loop: State, task: int) -> bool:
    """Return whether the first lane holds tuples in the order in which they come: not those of two lists, or work."""
    t = loop.tasks[task]
    if t.rules != NONE:
        return t.front_n == 0
    if t.side_head != NONE:
        return False
    visit = t.front_head
    while visit != NONE:
        if loop.visits[visit].kind != TUPLE:
            return False
        visit = loop.visits[visit].next
    return True


@kernel
def _take_lanes(
    loop: State,
    scan: State,
    task: int,
    lent: np.ndarray,
    turns: np.ndarray,
    counts: np.ndarray,
    scratch: np.ndarray,
) -> None:
    """Put what waits at a task around what the scan has kept of its queue, lane by lane."""
    t, q, own, c = loop.tasks[task], scan.queues[task], lent[task], counts[0]
    # A task that has looked at all that waits there has put all of it aside: also what the scan has kept.
    aside = t.rules != NONE and is_idle(loop, task)
    if aside:
        own.ahead = FAR_NS
    simple = _is_simple(loop, task)
    _gather(loop, task, own, c, scratch, simple)
    rest, ahead = q.n, max(0, min(own.ahead, q.gone + q.n) - q.gone)
    before = _number_before(own, c, rest, ahead, simple)
    passed = _put(loop, scan, task, before, turns, counts, scratch)
    if aside:
        own.ahead = FAR_NS
    elif ahead > 0:
        own.ahead = q.gone + passed + ahead + max(0, c.first - before)
    else:
        own.ahead = q.gone + c.first


@kernel
def _gather(loop: State, task: int, own: Any, c: Any, scratch: np.ndarray, simple: bool) -> None:
    """Take the tuples of the first lane, if it is simple, and then the queue into `scratch`; both are empty then."""
    t = loop.tasks[task]
    c.first = c.waiting = 0
    c.last = NONE
    if simple:
        held = t.rules != NONE
        _list(loop, t.side_head if held else t.front_head, own, c, scratch)
        if held:
            t.side_head = t.side_tail = NONE
            t.side_n = 0
        else:
            t.front_head = t.front_tail = NONE
            t.front_n = 0
    c.first = c.waiting
    _list(loop, t.queue_head, own, c, scratch)
    t.queue_head = t.queue_tail = NONE
    t.queue_n = 0


@kernel
def _list(loop: State, head: int, own: Any, c: Any, scratch: np.ndarray) -> None:
    visit = head
    while visit != NONE:
        if visit == own.last:
            c.last = c.waiting
        scratch[c.waiting] = visit
        c.waiting += 1
        visit = loop.visits[visit].next


@kernel
def _number_before(own: Any, c: Any, rest: int, ahead: int, simple: bool) -> int:
    """Return how many of what was gathered come before what the scan has kept; `ahead` of that are of the first lane.

    All up to the last one that was lent. The rest of the first lane does so, too, if nothing of it is with the scan.
    """
    if rest == 0:
        return 0
    lost = own.last != NONE and c.last == NONE
    if ahead == 0:
        if lost and simple:
            c.faults += 1
        return max(c.first, c.last + 1)
    if lost or not simple or c.last >= c.first or (c.last + 1 < c.first and rest > ahead):
        c.faults += 1
    return c.last + 1


@kernel
def _put(
    loop: State, scan: State, task: int, before: int, turns: np.ndarray, counts: np.ndarray, scratch: np.ndarray
) -> int:
    """Put so many of what was gathered in front of what the scan has kept, and the rest behind it.

    Returns how many tuples are in front.
    """
    q, passed = scan.queues[task], 0
    for k in range(before - 1, -1, -1):
        if loop.visits[scratch[k]].kind == TUPLE:
            _prepend(loop, scan, scratch[k], task)
    for k in range(counts[0].waiting):
        visit = scratch[k]
        if loop.visits[visit].kind != TUPLE:
            _note_turn(turns, counts, task, visit, q.gone + (passed if k < before else q.n))
            continue
        if k < before:
            passed += 1
        else:
            _append(loop, scan, visit, task)
        free_visit(loop, visit)
    return passed


@kernel
def _append(loop: State, scan: State, visit: int, task: int) -> None:
    """Put a tuple behind all that wait."""
    v, e = loop.visits[visit], scan.outputs[0]
    e.at = v.arrival
    e.id = v.id
    e.created = v.created
    e.key = v.key
    e.partition = v.partition
    e.origin = task
    append(scan, task, e, _service_ns(loop, scan, visit, task))


@kernel
def _prepend(loop: State, scan: State, visit: int, task: int) -> None:
    """Put a tuple in front of all that wait, of which there are some."""
    q = scan.queues[task]
    if q.head_place == 0:
        piece = scan.chunk_pool.free
        scan.chunk_pool.free = scan.chunk_next[piece]
        scan.chunk_next[piece] = q.head
        q.head = piece
        q.head_place = CHUNK
    q.head_place -= 1
    q.n += 1
    q.gone -= 1
    v, to = loop.visits[visit], scan.chunks[q.head * CHUNK + q.head_place]
    to.at = v.arrival
    to.id = v.id
    to.created = v.created
    to.key = v.key
    to.partition = v.partition
    to.origin = task
    to.ns = _service_ns(loop, scan, visit, task)


@kernel
def _note_turn(turns: np.ndarray, counts: np.ndarray, task: int, visit: int, place: int) -> None:
    """Note the place of a message; one that was lent too early has it already."""
    for k in range(counts[0].turns):
        if turns[k].visit == visit and turns[k].lent == 2:
            turns[k].lent = 0
            return
    one = turns[counts[0].turns]
    one.task = task
    one.visit = visit
    one.place = place
    one.at = 0
    one.lent = 0
    counts[0].turns += 1


@kernel
def _set_turns(scan: State, lent: np.ndarray, turns: np.ndarray, counts: np.ndarray, until: int) -> None:
    """Find out when the turns of messages come; forget those whose turn has come."""
    left = 0
    counts[0].due = FAR_NS
    for k in range(counts[0].turns):
        if turns[k].lent == 0:
            turns[left] = turns[k]
            one = turns[left]
            # It stays the same as long as the task serves its queue: all in front has come.
            if lent[one.task].stopped == 1:
                one.at = FAR_NS
            elif lent[one.task].changed == 1 or one.at == 0 or one.at >= FAR_NS:
                one.at = turn_at(scan, one.task, one.place, until)
            counts[0].due = min(counts[0].due, one.at)
            left += 1
    counts[0].turns = left
