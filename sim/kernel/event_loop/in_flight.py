"""The verbs by which barriers overtake, and the in-flight data that belongs to a checkpoint because they did."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.actions import let_in
from sim.kernel.event_loop.buffers import let_go, next_node
from sim.kernel.event_loop.channels import send_mail
from sim.kernel.event_loop.codes import MAIL, NONE, TUPLE
from sim.kernel.event_loop.events import next_serial
from sim.kernel.event_loop.free_lists import free_visit
from sim.kernel.event_loop.heard import part
from sim.kernel.event_loop.outbox import leave_place
from sim.kernel.event_loop.passages import (
    RECORDING,
    begin_passage,
    capture,
    capture_unsent,
    copied,
    forget_passage,
    is_before,
    look_passed,
    overtaken_by,
)
from sim.kernel.event_loop.tasks import admit, dispatch, note_turn, ticket
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State


@kernel
def overtake(state: State, token: int) -> None:
    """Let the barriers of this checkpoint overtake from now on, wherever they are."""
    state.overtaking.token = token
    state.overtaking.active = 1
    for task in range(state.cluster.tasks):
        if state.tasks[task].alive:
            _send_ahead(state, task, token)
            _let_overtake(state, task, token)


@kernel
def _send_ahead(state: State, task: int, token: int) -> None:
    """Send the barriers that wait behind unsent outputs; one at the head goes on at this instant anyway."""
    t = state.tasks[task]
    before = t.unsent_head
    while before != NONE and state.visits[before].next != NONE:
        visit = state.visits[before].next
        e = state.visits[visit]
        if e.kind == MAIL and e.node > 0 and e.id == token:
            capture_unsent(state, task, e.task, visit)
            state.visits[before].next = e.next
            if t.unsent_tail == visit:
                t.unsent_tail = before
            t.unsent_mail -= 1
            send_mail(state, visit)
        else:
            before = visit


@kernel
def _let_overtake(state: State, task: int, token: int) -> None:
    """Let the barriers that are at the task overtake; those of earlier checkpoints hold nothing back any more."""
    t = state.tasks[task]
    barrier, back = t.barriers, t.back_head
    t.barriers = t.barriers_tail = t.back_head = t.back_tail = NONE
    t.back_n = t.back_tuples = 0
    if t.places > 0:
        visit = back
        while visit != NONE:
            if state.visits[visit].kind == TUPLE:
                t.taken += 1  # also where there is no place left
            visit = state.visits[visit].next
    while barrier != NONE:
        following = state.visits[barrier].next
        overtaken_by(state, barrier, task)
        barrier = following
    _take_off_queue(state, task, token)
    let_in(state, back, task)


@kernel
def _take_off_queue(state: State, task: int, token: int) -> None:
    """Let a barrier overtake that has come over all channels and waits its turn."""
    t = state.tasks[task]
    before, visit = NONE, t.queue_head
    while visit != NONE:
        e = state.visits[visit]
        if e.kind == MAIL and e.node > 0 and e.id == token:
            if before == NONE:
                t.queue_head = e.next
            else:
                state.visits[before].next = e.next
            if t.queue_tail == visit:
                t.queue_tail = before
            begin_passage(state, task, token, 0)
            e.origin = NONE  # for all channels
            e.next = NONE
            t.cuts = visit
            return
        before, visit = visit, e.next


@kernel
def record_task(state: State, task: int) -> None:
    """Record in-flight data at a task, and the positions of its sources."""
    for source in range(state.sources.shape[0]):
        partition = state.sources[source].partition
        pair = state.partitions[partition].out_pair if state.partitions[partition].task == task else NONE
        while pair != NONE:
            state.pairs[pair].mark = state.pairs[pair].end_seq
            pair = state.pairs[pair].next_out
    t = state.tasks[task]
    if t.passage == 0:
        return
    _capture_waiting(state, task, t.front_head)
    _capture_waiting(state, task, t.queue_head)
    t.passage = RECORDING
    look_passed(state, task)


@kernel
def _capture_waiting(state: State, task: int, head: int) -> None:
    while head != NONE:
        if state.visits[head].kind == TUPLE and is_before(state, head, task):
            capture(state, head, task, 0)
        head = state.visits[head].next


@kernel
def forget_overtaken(state: State) -> None:
    """Forget all barriers that overtake, and what they have overtaken: their checkpoint has ended."""
    state.overtaking.active = 0
    for task in range(state.cluster.tasks):
        forget_passage(state, task)
    for partition in range(state.partitions.shape[0]):
        u = state.partitions[partition]
        _free_copies(state, u.overtaken_head)
        u.overtaken_head = u.overtaken_tail = NONE


@kernel
def _free_copies(state: State, head: int) -> None:
    while head != NONE:
        following = state.visits[head].next
        free_visit(state, head)
        head = following


@kernel
def complete_in_flight(state: State, partitions: np.ndarray) -> None:
    """The in-flight data for these partitions (n,) counts, and the positions of those that are sources."""
    for k in range(partitions.shape[0]):
        u = state.partitions[partitions[k]]
        if u.is_source:
            _forget_marked(state, partitions[k])
        _free_copies(state, u.in_flight_head)
        _sort_overtaken(state, partitions[k])


@kernel
def _forget_marked(state: State, partition: int) -> None:
    """Forget the outputs that a source kept before its position."""
    u = state.partitions[partition]
    pair = u.out_pair
    while pair != NONE:
        p = state.pairs[pair]
        while p.live != NONE and p.live_seq < p.mark:
            p.live = NONE if p.live == p.last else next_node(state, p.live)
            p.live_seq += 1
            u.kept_rows -= 1
        let_go(state, pair)
        pair = p.next_out


@kernel
def _sort_overtaken(state: State, partition: int) -> None:
    """On each channel what waited at the receiver was sent before what the sender had not sent."""
    u = state.partitions[partition]
    first, last, unsent, unsent_last, n, size = NONE, NONE, NONE, NONE, 0, 0
    visit = u.overtaken_head
    while visit != NONE:
        e = state.visits[visit]
        following = e.next
        e.next = NONE
        n += 1
        size += state.operators[state.tasks[e.origin].operator].bytes
        if e.replayed:
            if unsent == NONE:
                unsent = visit
            else:
                state.visits[unsent_last].next = visit
            unsent_last = visit
        else:
            if first == NONE:
                first = visit
            else:
                state.visits[last].next = visit
            last = visit
        visit = following
    if first == NONE:
        first = unsent
    else:
        state.visits[last].next = unsent
    u.in_flight_head = first
    u.in_flight_n = n
    u.in_flight_bytes = size
    u.overtaken_head = u.overtaken_tail = NONE


@kernel
def release_in_flight(state: State, partition: int) -> None:
    """Put in-flight data for the partition, then what it held, ahead of all that is for it at its task."""
    u = state.partitions[partition]
    t = state.tasks[u.task]
    head, tail, copy = NONE, NONE, u.in_flight_head
    while copy != NONE:
        visit = _again(state, copy, u.task)
        if head == NONE:
            head = visit
        else:
            state.visits[tail].next = visit
        tail = visit
        copy = state.visits[copy].next
    if u.replay_task != NONE:
        u.replay_pending += u.in_flight_n
    _give_places_back(state, u.task, u.held_head)
    if head == NONE:
        head = u.held_head
    else:
        state.visits[tail].next = u.held_head
    u.held_head = u.held_tail = NONE
    u.held_n = 0
    if head != NONE:
        part(state, partition)
        u.freed_at = note_turn(state)
    if t.has_service:
        _put_before(state, head, partition)
        dispatch(state, t.cores)
        return
    while head != NONE:
        following = state.visits[head].next
        admit(state, head, u.task)
        head = following


@kernel
def _give_places_back(state: State, task: int, head: int) -> None:
    """Tuples that were held do not take places any more."""
    while head != NONE:
        if not state.visits[head].replayed:
            leave_place(state, task)
        head = state.visits[head].next


@kernel
def _again(state: State, copy: int, task: int) -> int:
    """Return a tuple that arrives now, as the copy is."""
    visit = copied(state, copy, TUPLE)
    e = state.visits[visit]
    e.task = task
    e.arrival = state.clock.now
    e.start = NONE
    e.serial = next_serial(state)
    e.ticket = ticket(state, state.tasks[task].host)
    e.arrived = 1
    e.replayed = 1
    return visit


@kernel
def _put_before(state: State, head: int, partition: int) -> None:
    """Put a chain of tuples in front, ahead of the first tuple for the partition that is there."""
    if head == NONE:
        return
    t = state.tasks[state.partitions[partition].task]
    before, visit = NONE, t.front_head
    while visit != NONE and not (state.visits[visit].kind == TUPLE and state.visits[visit].partition == partition):
        before, visit = visit, state.visits[visit].next
    last = head
    t.front_n += 1
    while state.visits[last].next != NONE:
        last = state.visits[last].next
        t.front_n += 1
    state.visits[last].next = visit
    if before == NONE:
        t.front_head = head
    else:
        state.visits[before].next = head
    if visit == NONE:
        t.front_tail = last
