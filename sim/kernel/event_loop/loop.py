"""The event loop: everything before a limit, in order."""

from __future__ import annotations

import numpy as np

from sim.clock import SERVICE
from sim.kernel.event_loop.actions import come, held_back, pause_ends
from sim.kernel.event_loop.backpressure import bounded_need, send_head
from sim.kernel.event_loop.checkpoints import at_remote, round_goes_on, ship, stored, trim_now
from sim.kernel.event_loop.codes import (
    ACT,
    ARRIVE,
    ASKED,
    AT_REMOTE,
    COME,
    CONTROL,
    CRASHED,
    CREATE,
    CREDIT,
    DEPART,
    DUE,
    END,
    GO_ON,
    GROW,
    LIMIT,
    MAIL,
    MARKED,
    NONE,
    PASSED,
    REFILL,
    REPLAY,
    ROUND,
    SNAPSHOT,
    STORED,
    TICK,
    TIMER,
    TOLD,
    TRIM,
    TUPLE,
    UNPAUSE,
    WORKED,
)
from sim.kernel.event_loop.counting import count_arrival, count_work
from sim.kernel.event_loop.event_time import let_marks_pass, mark_arrives, mark_served, room_for_windows, tick, timer
from sim.kernel.event_loop.events import FAR, OWN, event_at, first_of, remove_first, replay_vacant, task_of
from sim.kernel.event_loop.fair_links import depart, fair_room
from sim.kernel.event_loop.free_lists import free_visit
from sim.kernel.event_loop.hash_tables import prefetch_position
from sim.kernel.event_loop.outbox import give, has_room, is_free, leave_place, stop_waiting, wait_for_room
from sim.kernel.event_loop.rules import take_in_hand
from sim.kernel.event_loop.service_times import take_drawn
from sim.kernel.event_loop.sharing import ended
from sim.kernel.event_loop.source_events import (
    emit_waiting,
    handle_arrivals,
    handle_single_arrival,
    has_arrivals,
    is_single,
    waiting_arrivals,
)
from sim.kernel.event_loop.tasks import (
    complete,
    dispatch,
    drop,
    note_idle,
    pass_by,
    put_in_front,
    put_in_queue,
    start_services,
    stop_serving,
    ticket,
)
from sim.kernel.event_loop.timed_actions import act, needed, take_pending
from sim.kernel.tools.compiling import inlined, kernel
from sim.kernel.tools.pointer import State

# What the event at hand may need, and for how many such events there is room.
ROOM = np.dtype(
    [
        ("need", "i8"),  # sendings that it may need
        ("burst", "i8"),  # sendings of windows and watermarks beyond these
        ("budget", "i8"),  # so many everyday events have room for what they may need
        ("rows_full", "u1"),  # only rows of tuples have no room left
    ],
    align=True,
)

# What Python is to do before the loop goes on.
REQUESTS = np.dtype(
    [
        ("token", "i8"),  # of the work whose end the listener is told of
        ("dispatch", "i4"),  # the task of that work: its cores are dispatched when the loop goes on, or NONE
        ("refill", "i4"),  # source whose arrivals have run out
    ],
    align=True,
)


_AMPLE = 16  # events for which there is room: nobody has to look for more


@kernel
def advance(s: State, limit_time: int, limit_rank: int, limit_seq: int) -> int:  # noqa: PLR0912, PLR0915 - one switch
    """Do all events before the limit; returns why it stopped."""
    if s.requests.dispatch != NONE:  # an end of work was told: now its core goes on
        task = s.requests.dispatch
        s.requests.dispatch = NONE
        if s.extended and s.tasks[task].marks > 0:
            let_marks_pass(s, task)
        dispatch(s, s.tasks[task].cores)
        note_idle(s, task)
        if s.told.count > 0:
            return TOLD
    if s.checkpointing.asked != NONE:
        if not round_goes_on(s, False):
            return ASKED
        if s.told.count > 0:
            return TOLD
    if s.extended and s.actions.pending != NONE:
        ref = s.actions.pending
        if not room(s, most_sent(s, ACT, ref)):
            return GROW
        s.room.budget = 0
        if not act(s, take_pending(s)):
            return TOLD
    # What an event may need is looked at each time.
    watchful = s.extended and (s.options.bounded or s.options.fair or s.event_time.most_windows > 0)
    soon = min(limit_time, s.queue.horizon)
    while True:
        replay_vacant(s)
        first = s.tournament[1]
        own, far = first >> s.queue.task_bits, s.far[s.queue.far_first].time
        others = min(s.heap[0].time, s.near[s.queue.near_first].time, soon)
        if far < own and far < others:
            place, time, rank, kind, ref = FAR, far, 0, ARRIVE, s.far[s.queue.far_first].ref
        elif own < far and own < others:
            task = task_of(s, first)
            e = s.own[s.tasks[task].place]
            place, time, rank, kind, ref = OWN, own, SERVICE + task, e.kind, e.ref
        else:  # something rare, or several at one instant
            place = first_of(s)
            if place == NONE:
                return LIMIT
            time, rank, seq, kind, ref = event_at(s, place)
            if time > limit_time:
                return LIMIT
            if time == limit_time and (rank > limit_rank or (rank == limit_rank and seq >= limit_seq)):
                return LIMIT
        single = kind == CREATE and is_single(s, ref, time)
        if kind == CREATE and not single and not has_arrivals(s, ref, time):
            s.requests.refill = ref
            return REFILL
        if watchful or (kind > END and not single and (kind != CREATE or waiting_arrivals(s, ref) > 1)):
            need = most_sent(s, kind, ref)
            if not room(s, need) or (
                s.extended and s.event_time.most_windows > 0 and not room_for_windows(s, kind, ref, rank, need)
            ):
                return GROW
            s.room.budget = 0
        else:
            if s.room.budget <= 0 and not room(s, s.options.fan_out + 2):
                return GROW
            s.room.budget -= 1
        if place == FAR:
            take_drawn(s)
        remove_first(s, place, time)
        if s.extended and kind == DUE:
            ref = ended(s, ref, rank - SERVICE)
            if ref == NONE:
                continue
            kind = END
        cores = NONE
        if kind == ARRIVE:
            cores = arrive(s, ref)
        elif kind == END:
            task = rank - SERVICE
            t = s.tasks[task]
            if t.alive:
                v = ref
                stop_serving(s, v, task)
                s.cores[t.cores].free += 1
                t.idle_threads += 1
                e = s.visits[v]
                what = e.kind
                t.busy += time - e.start
                if s.extended and s.options.counts_load:
                    count_work(s, v, time - e.start)
                    if what == TUPLE:
                        s.partitions[e.partition].served += 1
                if what == CONTROL:
                    s.requests.token = e.id
                    free_visit(s, v)
                    s.requests.dispatch = task
                    return WORKED
                if what == TUPLE:
                    complete(s, v, task)
                elif what == SNAPSHOT:
                    ship(s, e.id)
                if s.extended and what == MAIL:
                    take_in_hand(s, v, task)
                else:
                    free_visit(s, v)
                if s.extended and t.marks > 0:
                    let_marks_pass(s, task)
                cores = t.cores
        elif single:
            handle_single_arrival(s, ref, time)
        elif kind == CREATE:
            handle_arrivals(s, ref, time)
        elif kind == STORED:
            stored(s, ref)
        elif kind == TRIM:
            trim_now(s, ref)
        elif kind == REPLAY:
            replay_arrives(s, ref)
        elif kind == AT_REMOTE:
            at_remote(s, ref)
        elif kind == ROUND:
            if not round_goes_on(s, True):
                return ASKED
        elif s.extended:
            handle_rare_event(s, kind, ref, rank, time)
        if cores != NONE:
            start_services(s, cores)
            if kind == END:
                note_idle(s, rank - SERVICE)
        if s.told.count > 0:
            return TOLD


@kernel
def handle_rare_event(s: State, kind: int, ref: int, rank: int, time: int) -> None:
    """An event of queues with bounds, links that are shared evenly, event time, or actions of protocols."""
    if kind == CREDIT:
        credit(s, ref)
    elif kind == DEPART:
        depart(s, ref)
    elif kind == GO_ON:
        goes_on(s, ref)
    elif kind == PASSED:
        mark_served(s, ref, rank - SERVICE)
    elif kind == MARKED:
        mark_arrives(s, ref)
    elif kind == TICK:
        tick(s, ref, time)
    elif kind == TIMER:
        timer(s, ref, time)
    elif kind == COME:
        come(s, ref)
    elif kind == UNPAUSE:
        pause_ends(s, ref)
    elif kind == ACT:
        act(s, ref)


@kernel
def most_sent(s: State, kind: int, ref: int) -> int:
    """How many tuples, rows and events an event that is not an everyday one may need room for."""
    need = s.options.fan_out + 2
    if kind == CREATE:
        need += s.options.fan_out * waiting_arrivals(s, ref)
    elif kind == REPLAY:
        need += (s.options.fan_out + 2) * s.visits[ref].ticket
    elif kind == ROUND:
        need += 2 * s.round_partitions.shape[0]
    elif s.extended and kind == TIMER:
        u = s.partitions[ref]
        need += s.options.fan_out * (s.heap[0].time // s.operators[u.operator].timer - u.ticks)
    elif s.extended and kind >= COME:
        need += needed(s, kind, ref)
    if s.extended and s.options.bounded:
        need += bounded_need(s, kind, ref)
    return need


@kernel
def room(s: State, need: int) -> bool:
    """Whether there is room for an event that needs so much; `run.budget` is for how many of them."""
    left = min(s.visit_pool.left, s.node_pool.left, s.chunk_pool.left, s.transfer_pool.left)
    left = min(left, s.heap.shape[0] - s.queue.in_heap, s.pairs.shape[0] - s.tables.pairs)
    left = min(left, s.positions.shape[0] // 2 - s.tables.positions, s.keys.shape[0] // 2 - s.tables.keys)
    left = min(left, s.checkpoint_rows.shape[0] - s.checkpointing.rows)
    # A dispatch can drop all that waits; a second that is over makes up to six rows of messages.
    drops = min(s.dropped_rows.shape[0] - s.drops.rows, s.notices.shape[0]) - s.visits.shape[0]
    if s.extended and s.event_time.keeps_tuples:
        left = min(left, s.note_pool.left)
    if s.extended and s.options.fair and not fair_room(s, need):
        left = 0
    s.room.need = need
    s.room.budget = 0 if drops < 0 else min(left // need, (s.message_rows.shape[0] - s.messages.rows) // 16)
    rows = (
        min(s.recording.visit_room - s.recording.visit_rows, s.recording.delivery_room - s.recording.delivery_rows)
        // need
    )
    s.room.rows_full = rows <= 0 and s.room.budget >= _AMPLE
    s.room.budget = min(s.room.budget, rows)
    return s.room.budget > 0


@inlined
def arrive(s: State, v: int) -> int:
    """A tuple has come over its channel; the cores at which something may begin now, or NONE."""
    e = s.visits[v]
    if not e.wire:
        free_visit(s, v)  # its sender died before it had left
        return NONE
    e.wire = 0
    task = e.task
    t = s.tasks[task]
    if not t.alive:
        drop(s, v, task, CRASHED)
        free_visit(s, v)
        return NONE
    e.ticket = ticket(s, t.host)
    e.arrived = 1
    if not s.ids.clean:
        prefetch_position(s, e.partition, e.id)
    if s.extended and s.options.counts_load:
        count_arrival(s, v)
    if s.extended and t.barriers != NONE and held_back(s, v, task):
        return NONE
    if not t.has_service:
        if s.extended and t.places > 0:
            leave_place(s, task)
        pass_by(s, v, task)
        return NONE
    put_in_queue(s, v, task)
    return t.cores


@kernel
def replay_arrives(s: State, head: int) -> None:
    """Tuples that were sent again as one message come in front of the queue."""
    task = s.visits[head].task
    t = s.tasks[task]
    v = head
    while v != NONE:
        e = s.visits[v]
        following = e.next
        if not e.wire:
            free_visit(s, v)
        elif not t.alive:
            e.wire = 0
            drop(s, v, task, CRASHED)
            free_visit(s, v)
        else:
            e.wire = 0
            e.ticket = ticket(s, t.host)
            e.arrived = 1
            put_in_front(s, v, task)
        v = following
    if t.alive and t.has_service:
        dispatch(s, t.cores)


@kernel
def credit(s: State, task: int) -> None:
    """Room got free at the task: the first that waits for it goes on."""
    t = s.tasks[task]
    t.giving = 0
    if t.first_waiting != NONE and is_free(s, task):
        sender = t.first_waiting
        stop_waiting(s, sender)
        if t.alive:
            send_head(s, sender)
        go_on(s, sender)
        give(s, task)


@kernel
def goes_on(s: State, task: int) -> None:
    """The first unsent output of the task was taken away, or its sources have more to emit."""
    t = s.tasks[task]
    t.loose = 0
    if t.alive and t.waits_at == NONE:
        go_on(s, task)


@kernel
def go_on(s: State, task: int) -> None:
    """Send from the head as long as there is room; with nothing left the task goes on."""
    t = s.tasks[task]
    while t.unsent_head != NONE:
        head = s.visits[t.unsent_head]
        if head.kind == TUPLE and not has_room(s, s.partitions[head.partition].task):
            wait_for_room(s, task)
            return
        send_head(s, task)
    if s.operators[t.operator].is_source and not emit_waiting(s, task):
        return
    dispatch(s, t.cores)
    note_idle(s, task)
