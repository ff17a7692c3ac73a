"""The event loop: everything before a limit, in order.

Between two events the state is whole: every item is in one list, every count fits. Python comes in only there. So an
event that might not find room, or needs an answer, is not begun: the loop returns, with the event still the first one,
and comes back to it once Python has made room. Whatever has begun is done to its end.
"""

from __future__ import annotations

import numpy as np

from sim.clock import SERVICE
from sim.kernel.event_loop.actions import come, held_back, pause_ends
from sim.kernel.event_loop.backpressure import bounded_need, send_head
from sim.kernel.event_loop.checkpoints import (
    at_remote,
    round_goes_on,
    stored,
    trim_now,
    written,
    written_beside,
)
from sim.kernel.event_loop.codes import (
    ACK,
    ACT,
    ARRIVE,
    ASKED,
    AT_REMOTE,
    BORN,
    COME,
    CONFIRM,
    CONTROL,
    CREATE,
    CREDIT,
    DEPART,
    DONE,
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
    SLICED,
    SNAPSHOT,
    STORED,
    TICK,
    TIMER,
    TOLD,
    TRIM,
    TRIMMING,
    TUPLE,
    UNPAUSE,
    WORKED,
    WRITTEN,
)
from sim.kernel.event_loop.counting import count_arrival, count_work
from sim.kernel.event_loop.emitting import is_due
from sim.kernel.event_loop.event_time import let_marks_pass, mark_arrives, mark_served, room_for_windows, tick, timer
from sim.kernel.event_loop.events import FAR, OWN, event_at, first_of, remove_first, replay_vacant, task_of
from sim.kernel.event_loop.expiry import ack_comes, root_done
from sim.kernel.event_loop.fair_links import depart
from sim.kernel.event_loop.free_lists import free_visit
from sim.kernel.event_loop.frontiers import look
from sim.kernel.event_loop.hash_tables import prefetch_position
from sim.kernel.event_loop.outbox import give, has_room, is_free, leave_place, stop_waiting, wait_for_room
from sim.kernel.event_loop.passages import RECORDING, handle_hurried, record
from sim.kernel.event_loop.room import room
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
    death,
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
from sim.kernel.event_loop.threads import let_go_thread, shares_thread
from sim.kernel.event_loop.timed_actions import act, needed, take_pending
from sim.kernel.event_loop.trimming import ack_arrives, end_slices, round_of_acks, trim_history
from sim.kernel.tools.cache import inlined, kernel
from sim.kernel.tools.pointer import State

# What Python is to do before the loop goes on.
REQUESTS = np.dtype(
    [
        ("token", "i8"),  # of the work whose end the listener is told of
        ("dispatch", "i4"),  # the task of that work: its cores are dispatched when the loop goes on, or NONE
        ("refill", "i4"),  # source whose arrivals have run out
    ],
    align=True,
)


@kernel
def advance(state: State, limit_time: int, limit_rank: int, limit_seq: int) -> int:  # noqa: PLR0912, PLR0915 - one switch
    """Do all events before the limit; returns why it stopped."""
    # What the last call left, in the order in which it would have gone on: the listener had to be told in between.
    if state.requests.dispatch != NONE:  # an end of work was told: now its core goes on
        task = state.requests.dispatch
        state.requests.dispatch = NONE
        if state.extended and state.tasks[task].marks > 0:
            let_marks_pass(state, task)
        if state.extended and state.tasks[task].hurried:
            handle_hurried(state, task)
        dispatch(state, state.tasks[task].cores)
        note_idle(state, task)
        if state.told.count > 0:
            return TOLD
    if state.checkpointing.asked != NONE:
        if not round_goes_on(state, False):
            return ASKED
        if state.told.count > 0:
            return TOLD
    if state.extended and state.actions.pending != NONE:
        ref = state.actions.pending
        if not room(state, most_sent(state, ACT, ref)):
            return GROW
        state.room.budget = 0
        if not act(state, take_pending(state)):
            return TOLD
    # With these features one event can set off many: what it may need is looked at each time.
    watchful = state.extended and (state.options.bounded or state.options.fair or state.event_time.most_windows > 0)
    soon = min(limit_time, state.queue.horizon)
    while True:
        # Five places hold the first event: heap, two rings, the tournament, and the limit. Mostly the least instant is
        # that of one ring or of the tournament alone, and then ranks need not be read. `others` takes in the limit and
        # the horizon, so that neither is asked for again. An empty place shows NEVER.
        replay_vacant(state)
        first = state.tournament[1]
        own, far = first >> state.queue.task_bits, state.far[state.queue.far_first].time
        others = min(state.heap[0].time, state.near[state.queue.near_first].time, soon)
        if far < own and far < others:
            place, time, rank, kind, ref = FAR, far, 0, ARRIVE, state.far[state.queue.far_first].ref
        elif own < far and own < others:
            task = task_of(state, first)
            e = state.own[state.tasks[task].place]
            place, time, rank, kind, ref = OWN, own, SERVICE + task, e.kind, e.ref
        else:  # something rare, or several at one instant: rank and order of setting decide
            place = first_of(state)
            if place == NONE:
                return LIMIT
            time, rank, seq, kind, ref = event_at(state, place)
            if time > limit_time:
                return LIMIT
            if time == limit_time and (rank > limit_rank or (rank == limit_rank and seq >= limit_seq)):
                return LIMIT
        # From here on the event stays where it is until all that it needs is there.
        single = kind == CREATE and is_single(state, ref, time)
        if kind == CREATE and not single and not has_arrivals(state, ref, time):
            state.requests.refill = ref
            return REFILL
        if watchful or (kind > END and not single and (kind != CREATE or waiting_arrivals(state, ref) > 1)):
            need = most_sent(state, kind, ref)
            if not room(state, need) or (
                state.extended
                and state.event_time.most_windows > 0
                and not room_for_windows(state, kind, ref, rank, need)
            ):
                return GROW
            state.room.budget = state.room.confirmations = state.room.passing = 0
        else:
            # An everyday event: one tuple arrives or ends. `room` counts once for how many of them there is room, and
            # nobody looks again until these are used up.
            if state.room.budget <= 0 and not room(state, state.options.fan_out + 2):
                return GROW
            state.room.budget -= 1
        if place == FAR:
            take_drawn(state)  # before the event leaves the ring: draws go by places in it
        remove_first(state, place, time)
        if state.extended and kind == DUE:  # of a host whose pace changes: is it really the end of a service?
            ref = ended(state, ref, rank - SERVICE)
            if ref == NONE:
                continue
            kind = END
        cores = NONE
        if kind == ARRIVE:
            cores = arrive(state, ref)
        elif kind == END:
            task = rank - SERVICE
            t = state.tasks[task]
            if t.alive:  # else the crash has dropped what was in service
                visit = ref
                # The item leaves its list and its core first, as its effect may ask whether the task is idle. The core
                # is given to the next item (`start_services`) last: outputs have lower numbers than its end.
                stop_serving(state, visit, task)
                state.cores[t.cores].free += 1
                t.idle_threads += 1
                e = state.visits[visit]
                what = e.kind
                t.busy += time - e.start
                if state.extended and state.options.counts_load:
                    count_work(state, visit, time - e.start)
                    if what == TUPLE:
                        state.partitions[e.partition].served += 1
                if what == CONTROL:
                    # The listener may act before the core goes on: the rest follows at the next call.
                    state.requests.token = e.id
                    free_visit(state, visit)
                    state.requests.dispatch = task
                    return WORKED
                if what == TUPLE:
                    complete(state, visit, task)
                elif what == SNAPSHOT:
                    written(state, e.id)
                if state.extended and what == MAIL:  # the listener is told of it, so its place is not free yet
                    take_in_hand(state, visit, task)
                else:
                    free_visit(state, visit)
                if state.extended and t.marks > 0:
                    let_marks_pass(state, task)
                if state.extended and t.hurried:
                    handle_hurried(state, task)
                cores = t.cores
        elif single:
            handle_single_arrival(state, ref, time)
        elif kind == CREATE:
            handle_arrivals(state, ref, time)
        elif kind == STORED:
            stored(state, ref)
        elif kind == TRIM:
            trim_now(state, ref)
        elif kind == REPLAY:
            replay_arrives(state, ref)
        elif kind == AT_REMOTE:
            at_remote(state, ref)
        elif kind == ROUND:
            if not round_goes_on(state, True):
                return ASKED
        elif state.extended:
            handle_rare_event(state, kind, ref, rank, time)
        if cores != NONE:
            start_services(state, cores)
            if kind == END:
                note_idle(state, rank - SERVICE)
        if state.extended and state.frontiers.shape[0] > 0:
            look(state)
        if state.told.count > 0:
            return TOLD


@kernel
def handle_rare_event(state: State, kind: int, ref: int, rank: int, time: int) -> None:  # noqa: PLR0912 - one switch
    """An event of bounded queues, links that are shared evenly, event time, roots, slices, or actions of protocols."""
    if kind == CREDIT:
        credit(state, ref)
    elif kind == DEPART:
        depart(state, ref)
    elif kind == GO_ON:
        goes_on(state, ref)
    elif kind == PASSED:
        mark_served(state, ref, rank - SERVICE)
    elif kind == MARKED:
        mark_arrives(state, ref)
    elif kind == TICK:
        tick(state, ref, time)
    elif kind == TIMER:
        timer(state, ref, time)
    elif kind == BORN:
        is_due(state, ref)
    elif kind == DONE:
        root_done(state, ref)
    elif kind == ACK:
        ack_comes(state, ref)
    elif kind == WRITTEN:
        written_beside(state, ref)
    elif kind == CONFIRM:
        ack_arrives(state, ref)
    elif kind == SLICED:
        end_slices(state)
    elif kind == TRIMMING:
        if state.options.history > 0:
            trim_history(state)
        else:
            round_of_acks(state, ref)
    elif kind == COME:
        come(state, ref)
    elif kind == UNPAUSE:
        pause_ends(state, ref)
    elif kind == ACT:
        act(state, ref)


@kernel
def most_sent(state: State, kind: int, ref: int) -> int:
    """Return how many tuples, rows and events an event that is not an everyday one may need room for."""
    need = state.options.fan_out + 2
    state.room.passing = 0
    if kind == CREATE:
        need += state.options.fan_out * waiting_arrivals(state, ref)
    elif kind == REPLAY:
        need += (state.options.fan_out + 2) * state.visits[ref].ticket
    elif kind == ROUND:
        need += 2 * state.round_partitions.shape[0]
    elif state.extended and kind == TRIMMING and state.options.trims:
        # A confirmation for each pair of partitions, but a message, and perhaps work, for a pair of tasks only.
        state.room.confirmations = state.tables.pairs
        need += state.cluster.tasks + min(state.tables.pairs, state.cluster.tasks * state.cluster.tasks)
    elif state.extended and kind == TIMER:
        u = state.partitions[ref]
        need += state.options.fan_out * (state.heap[0].time // state.operators[u.operator].timer - u.ticks)
    elif state.extended and kind >= COME:
        need += needed(state, kind, ref)
    if state.extended and state.options.bounded:
        need += bounded_need(state, kind, ref)
    return need


@inlined
def arrive(state: State, visit: int) -> int:
    """Put a tuple that has come over its channel in its queue; return the cores that may begin a service, or NONE."""
    e = state.visits[visit]
    if not e.wire:
        free_visit(state, visit)  # its sender died before it had left
        return NONE
    e.wire = 0
    task = e.task
    t = state.tasks[task]
    if not t.alive:
        drop(state, visit, task, death(state, task))
        free_visit(state, visit)
        return NONE
    thread = NONE
    if state.extended and state.options.chained and shares_thread(state, e.origin, task):
        let_go_thread(state, task)
        thread = t.cores
    e.ticket = ticket(state, t.host)
    e.arrived = 1
    if not state.ids.clean:
        prefetch_position(state, e.partition, e.id)
    if state.extended and state.options.counts_load:
        count_arrival(state, visit)
    if state.extended and t.barriers != NONE and held_back(state, visit, task):
        return thread
    if state.extended and t.passage == RECORDING:
        record(state, visit, task)
    if not t.has_service:
        if state.extended and t.places > 0:
            leave_place(state, task)
        pass_by(state, visit, task)
        return thread
    put_in_queue(state, visit, task)
    return t.cores


@kernel
def replay_arrives(state: State, head: int) -> None:
    """Tuples that were sent again as one message come in front of the queue."""
    task = state.visits[head].task
    t = state.tasks[task]
    visit = head
    while visit != NONE:
        e = state.visits[visit]
        following = e.next
        if not e.wire:
            free_visit(state, visit)
        elif not t.alive:
            e.wire = 0
            drop(state, visit, task, death(state, task))
            free_visit(state, visit)
        else:
            e.wire = 0
            e.ticket = ticket(state, t.host)
            e.arrived = 1
            if state.extended and t.passage == RECORDING:
                record(state, visit, task)
            put_in_front(state, visit, task)
        visit = following
    if t.alive and t.has_service:
        dispatch(state, t.cores)


@kernel
def credit(state: State, task: int) -> None:
    """Room got free at the task: the first that waits for it goes on."""
    t = state.tasks[task]
    t.giving = 0
    if t.first_waiting != NONE and is_free(state, task):
        sender = t.first_waiting
        stop_waiting(state, sender)
        if t.alive:
            send_head(state, sender)
        go_on(state, sender)
        give(state, task)


@kernel
def goes_on(state: State, task: int) -> None:
    """The first unsent output of the task was taken away, or its sources have more to emit."""
    t = state.tasks[task]
    t.loose = 0
    if t.alive and t.waits_at == NONE:
        go_on(state, task)


@kernel
def go_on(state: State, task: int) -> None:
    """Send from the head as long as there is room; with nothing left the task goes on."""
    t = state.tasks[task]
    while t.unsent_head != NONE:
        head = state.visits[t.unsent_head]
        if head.kind == TUPLE and not has_room(state, state.partitions[head.partition].task):
            wait_for_room(state, task)
            return
        send_head(state, task)
    if state.operators[t.operator].is_source and not emit_waiting(state, task):
        return
    dispatch(state, t.cores)
    note_idle(state, task)
