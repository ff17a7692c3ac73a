"""Tasks and the cores that serve them, first come first served and without interruption.

A task has lists of items, linked by `next`: in front of the queue (replays, work for control), the queue, and what is
in service, in the order of the starts. An item is in one list at a time. `ticket` says when it came to the host, so
that of the tasks that share cores the one whose head came first goes on, less the lead of its priority.

`is_plain` is the fast path, for a tuple with nothing special about it; `admit` does all cases, and is a call.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.anchors import emits_for, emits_for_none
from sim.kernel.event_loop.births import birth_of, emits_from
from sim.kernel.event_loop.buffers import apply, comes_again, note_overdue, prefetch_log
from sim.kernel.event_loop.channels import prefetch_receiver, send_output
from sim.kernel.event_loop.codes import (
    BUNDLE,
    CALM,
    CRASHED,
    DUPLICATE,
    END,
    KILLED,
    MAIL,
    MARK,
    MOVED,
    NEVER,
    NONE,
    OPEN,
    PASSED,
    PER_KEY,
    RECENT,
    REFUSED,
    TUPLE,
)
from sim.kernel.event_loop.emitting import number_of_outputs, postpone
from sim.kernel.event_loop.events import next_serial, push_own
from sim.kernel.event_loop.free_lists import free_visit
from sim.kernel.event_loop.frontiers import note_gone
from sim.kernel.event_loop.hash_tables import entry_of, position, prefetch_key, touch_key
from sim.kernel.event_loop.notices import notify
from sim.kernel.event_loop.open_keys import count_in
from sim.kernel.event_loop.outbox import is_withholding, leave_place
from sim.kernel.event_loop.restoring import note_past
from sim.kernel.event_loop.roots import processed
from sim.kernel.event_loop.rows import record_delivery, record_visit
from sim.kernel.event_loop.rules import held_by_rule, put_aside, turn
from sim.kernel.event_loop.sharing import begin_service
from sim.kernel.event_loop.windows import enter, join, remember, side_of
from sim.kernel.tools.cache import inlined, kernel, noinline
from sim.kernel.tools.draws import UNSURE, child_id, output_count, output_key, service_ns
from sim.kernel.tools.pointer import State, prefetch

_SMALL = 2**16  # keys whose groups are near in any case

DROPS = np.dtype([("rows", "i8")])


DROPPED = np.dtype(
    [("arrival", "i8"), ("start", "i8"), ("at", "i8"), ("operator", "i4"), ("task", "i4"), ("reason", "i4")], align=True
)


@kernel
def is_empty(state: State, task: int) -> bool:
    """Return whether nothing waits at the task, nothing is served and nothing is left to send or withheld."""
    t = state.tasks[task]
    if t.withheld != NONE and is_withholding(state, task):
        return False
    lanes = t.front_head == NONE and t.queue_head == NONE and t.serving_head == NONE and t.unsent_head == NONE
    return lanes and t.hand_head == NONE and t.side_head == NONE and t.back_head == NONE


@kernel
def note_idle(state: State, task: int) -> None:
    """Tell that a watched task has nothing to do just now."""
    if state.tasks[task].watched and is_empty(state, task):
        notify(state, task)


@kernel
def one_replayed(state: State, partition: int, task: int) -> None:
    """A replayed tuple was processed, recognised as a duplicate, or lost with its sender."""
    u = state.partitions[partition]
    if u.replay_task == task:
        u.replay_pending -= 1
        u.replayed_at = state.clock.now
        if u.replay_pending == 0:
            note_idle(state, task)


@kernel
def drop(state: State, visit: int, task: int, reason: int) -> None:
    """A tuple ends here, without effect; its place is not freed."""
    e = state.visits[visit]
    row = state.dropped_rows[state.drops.rows]
    state.drops.rows += 1
    state.room.budget = 0  # there is room for as many at the next event only if that is seen to
    row.operator = state.tasks[task].operator
    row.task = task
    row.arrival = e.arrival if e.arrived else NONE
    row.start = e.start
    row.at = state.clock.now
    row.reason = reason
    if state.extended and state.frontiers.shape[0] > 0:
        note_gone(state, row.operator, birth_of(state, visit))
    if e.replayed:
        one_replayed(state, e.partition, task)


@kernel
def death(state: State, task: int) -> int:
    """Return why tuples are dropped at a task that is dead."""
    return KILLED if state.tasks[task].killed else CRASHED


@kernel
def measure(state: State, visit: int) -> None:
    """A tuple was answered: how long that took from its arrival on; what is sent again was answered before."""
    e = state.visits[visit]
    u = state.partitions[e.partition]
    if u.muted or e.replayed:
        return
    if e.arrival >= u.measured_from:
        u.longest = max(u.longest, state.clock.now - e.arrival)
    if u.measured == CALM and e.start == e.arrival:
        u.measured = 0


@inlined
def apply_effect(state: State, visit: int, task: int) -> None:
    """Apply a tuple at its operator: row, state and log, but not its outputs."""
    e = state.visits[visit]
    partition = e.partition
    u = state.partitions[partition]
    op = state.operators[u.operator]
    record_visit(state, u.operator, task, e.arrival, e.start, state.clock.now)
    if state.extended and state.frontiers.shape[0] > 0:
        note_gone(state, u.operator, birth_of(state, visit))
    if state.extended and u.measured:
        measure(state, visit)
    if op.state_model == PER_KEY:
        touch_key(state, partition, entry_of(state, op, e.key, state.tasks[e.origin].operator), u.applied)
    elif state.extended and op.state_model == RECENT:
        remember(state, partition, e.created)
    apply(state, partition, e.id, e.created, e.node)
    if op.is_sink:
        record_delivery(state, u.operator, e.created, state.clock.now)


@inlined
def _make_outputs(state: State, visit: int) -> None:
    """Send what an operator makes of a tuple, or keep it until its time."""
    e = state.visits[visit]
    partition = e.partition
    operator = state.partitions[partition].operator
    op, draws = state.operators[operator], state.draws[operator]
    if state.extended and state.options.acks:
        emits_for(state, visit)
    if state.extended and state.options.births:
        emits_from(state, state.births[visit])
    count = output_count(draws, e.id)
    if state.extended and op.counts != NONE:
        count = number_of_outputs(state, operator, state.tasks[e.origin].operator, e.id)
    for index in range(count):
        child = child_id(e.id, op.code, index)
        key = output_key(draws, state.cumulative, child, e.key)
        if state.extended and op.postpones:
            born = e.created + service_ns(state.postponements[operator], child)
            postpone(state, partition, child, born, key, e.key)
        else:
            send_output(state, partition, child, e.created, key)
    if state.extended and op.state_model == OPEN:
        count_in(state, partition, e.key, count > 0)
    if state.extended and state.options.acks:
        emits_for_none(state)
    if state.extended and state.options.births:
        emits_from(state, 0)


@inlined
def complete(state: State, visit: int, task: int) -> None:
    """Effect and output of a tuple, at the end of its service."""
    e = state.visits[visit]
    partition = e.partition
    u = state.partitions[partition]
    operator = u.operator
    op = state.operators[operator]
    if state.extended and u.retired:  # it moved while the tuple was in service: the successor gets it once more
        drop(state, visit, task, MOVED)
        return
    if (
        state.options.drops_duplicates
        and (not state.ids.clean or state.options.rolls_back)
        and (e.arrived == REFUSED or (op.threads > 1 and position(state, partition, e.id) != NONE))
    ):
        drop(state, visit, task, DUPLICATE)  # or a twin on another thread was first
        return
    # The effect first: what follows counts from the number of applied tuples, this one among them.
    apply_effect(state, visit, task)
    if state.extended and op.windowed:
        if state.options.logs_ids:
            side = 0 if op.joins == NONE else side_of(state, op, e.origin)
            note_past(state, partition, e.id, e.created, e.key, side)
        if op.joins == NONE:
            enter(state, partition, e.created, e.key)
        else:
            join(state, visit)
    elif op.edges > 0:
        _make_outputs(state, visit)
    if state.extended and state.options.acks:  # after the outputs: a root of which nothing is left is done
        processed(state, visit, task)
    if e.replayed:
        one_replayed(state, partition, task)


@kernel
def hold(state: State, visit: int) -> None:
    """The partition of the tuple is not live: it waits aside."""
    u = state.partitions[state.visits[visit].partition]
    state.visits[visit].next = NONE
    if u.held_tail == NONE:
        u.held_head = visit
    else:
        state.visits[u.held_tail].next = visit
    u.held_tail = visit
    u.held_n += 1
    if state.extended and state.options.unaligned and not state.visits[visit].replayed:
        state.tasks[u.task].taken += 1  # it keeps its place: what a task has in front of a barrier is bounded


@inlined
def serve(state: State, visit: int, task: int, ns: int, kind: int) -> None:
    """Begin a service, whose end is an event of this kind."""
    t = state.tasks[task]
    state.cores[t.cores].free -= 1
    t.idle_threads -= 1
    state.visits[visit].next = NONE
    before = t.serving_tail
    if before == NONE:
        t.serving_head = visit
    else:
        state.visits[before].next = visit
    t.serving_tail = visit
    # Where the pace of the host changes nobody knows yet when this ends: `sharing` sets events for the host instead.
    if state.extended and state.hosts[t.host].paced and kind != PASSED:  # a watermark takes no work
        begin_service(state, visit, task, ns, before)
        return
    push_own(state, state.clock.now + ns, task, kind, visit)


@kernel
def poll_ns(state: State, first: int, task: int) -> int:
    """Count a tuple among those polled; return the time of a poll if it is the first of one, with all that wait."""
    t = state.tasks[task]
    begins = t.polled == 0
    if begins:
        t.polled = min(state.operators[t.operator].poll, 1 + t.front_n + t.queue_n)
    t.polled -= 1
    return service_ns(state.polls[t.operator], state.visits[first].id) if begins else 0


@inlined
def begin(state: State, visit: int, task: int) -> None:
    """Begin the service of a tuple."""
    e, t = state.visits[visit], state.tasks[task]
    e.start = state.clock.now
    if state.operators[t.operator].state_model == PER_KEY:
        prefetch_key(state, e.partition, e.key)
    if state.options.logs_ids:
        prefetch_log(state, e.partition)
    if state.key_tables.shape[0] > _SMALL and state.operators[t.operator].edges > 0:
        prefetch_receiver(state, state.operators[t.operator].first_edge, e.key)
    ns = e.service
    if ns == UNSURE:  # not drawn ahead, or so close to a rounding that only the exact law can say
        ns = service_ns(state.draws[t.operator], e.id)
    if state.extended and state.operators[t.operator].poll > 0:
        ns += poll_ns(state, visit, task)
    speed = state.hosts[t.host].speed
    if speed != 1.0:
        ns = max(1, np.int64(np.rint(ns / speed)))
    serve(state, visit, task, ns, END)


@inlined
def _is_goal(state: State, partition: int, task: int) -> bool:
    """Return whether tuples wait at the task for the partition, which is not there yet."""
    return bool(state.options.placed and state.partitions[partition].goal == task)


@inlined
def is_plain(state: State, visit: int, task: int) -> bool:
    """Return True if the item whose turn has come takes the fast path: a tuple not held, dropped or a duplicate."""
    e = state.visits[visit]
    if e.kind != TUPLE or e.created < state.ids.oldest or (state.options.drops_duplicates and not state.ids.clean):
        return False
    u = state.partitions[e.partition]
    if state.extended and (
        u.retired
        or state.tasks[task].rules != NONE
        or _is_goal(state, e.partition, task)
        or (state.options.rolls_back and (e.replayed or u.again))
    ):
        return False
    return bool(u.live)


@inlined
def pass_by(state: State, visit: int, task: int) -> None:
    """A tuple at a task without a service."""
    e = state.visits[visit]
    op = state.operators[state.tasks[task].operator]
    if (
        is_plain(state, visit, task)
        and op.edges == 0
        and not e.replayed
        and not (state.extended and (op.windowed or state.options.acks))
    ):
        e.start = state.clock.now
        apply_effect(state, visit, task)
        free_visit(state, visit)
    else:
        admit(state, visit, task)


@noinline
def admit(state: State, visit: int, task: int) -> None:
    """The item whose turn has come: serve it, hold it or drop it."""
    e, t = state.visits[visit], state.tasks[task]
    if e.kind == TUPLE and e.created < state.ids.oldest:
        note_overdue(state)
    # Items that are no tuples: a watermark, a message, tuples in a bundle, or work.
    if e.kind != TUPLE:
        e.start = state.clock.now
        if state.extended and e.kind == MARK:
            e.ticket = note_turn(state)
        if state.extended and e.kind == MAIL and turn(state, visit, task):
            return
        if state.extended and e.kind == BUNDLE:
            open_bundle(state, visit, task)
            return
        serve(state, visit, task, e.created, PASSED if e.kind == MARK else END)
        return
    # A tuple: its partition is over, a rule holds it, the partition is not live, or it has come before. The order
    # matters: what is held is asked again when it is let go, and only a live partition knows its duplicates.
    if state.extended and state.partitions[e.partition].retired:
        drop(state, visit, task, MOVED)
        free_visit(state, visit)
    elif state.extended and t.rules != NONE and held_by_rule(state, visit, task):
        put_aside(state, visit, task)
    elif not state.partitions[e.partition].live or (state.extended and _is_goal(state, e.partition, task)):
        hold(state, visit)
    elif state.options.drops_duplicates and comes_again(state, e.partition, e.id, e.node if e.replayed else NONE):
        if state.options.duplicate_ns > 0 and t.has_service:
            e.start = state.clock.now
            e.arrived = REFUSED
            serve(state, visit, task, state.options.duplicate_ns, END)
            return
        drop(state, visit, task, DUPLICATE)
        free_visit(state, visit)
    elif not t.has_service:
        e.start = state.clock.now
        complete(state, visit, task)
        free_visit(state, visit)
    else:
        begin(state, visit, task)


@kernel
def note_turn(state: State) -> int:
    """Return a number as of a sending: what has a later one came up after this turn."""
    return next_serial(state)


@kernel
def open_bundle(state: State, visit: int, task: int) -> None:
    """The turn of tuples that were sent again as one message: they come in front, behind what is there already."""
    t = state.tasks[task]
    t.queue_n += 1  # it was not counted: only tuples are
    one = state.visits[visit].created
    free_visit(state, visit)
    while one != NONE:
        e = state.visits[one]
        following = e.next
        if e.wire:
            e.wire = 0
            e.ticket = ticket(state, t.host)
            e.arrived = 1
            append_in_front(state, one, task)
        else:
            free_visit(state, one)  # its sender died before it had left
        one = following


@kernel
def drop_bundle(state: State, visit: int, task: int) -> None:
    """The tuples of a bundle end with their receiver, but for those that had ended with their sender."""
    one = state.visits[visit].created
    free_visit(state, visit)
    while one != NONE:
        following = state.visits[one].next
        if state.visits[one].wire:
            state.visits[one].wire = 0
            drop(state, one, task, death(state, task))
        free_visit(state, one)
        one = following


@kernel
def append_in_front(state: State, visit: int, task: int) -> None:
    """Ahead of the queue, behind what is already in front, whether the task has a service or not."""
    t = state.tasks[task]
    state.visits[visit].next = NONE
    if t.front_tail == NONE:
        t.front_head = visit
    else:
        state.visits[t.front_tail].next = visit
    t.front_tail = visit
    if state.visits[visit].kind == TUPLE:
        t.front_n += 1


@inlined
def take_head(state: State, task: int) -> int:
    """Take the first item off the lanes of the task, one of which must not be empty."""
    t = state.tasks[task]
    if t.front_head != NONE:
        visit = t.front_head
        t.front_head = state.visits[visit].next
        if t.front_head == NONE:
            t.front_tail = NONE
        if state.visits[visit].kind == TUPLE:
            t.front_n -= 1
        return visit
    visit = t.queue_head
    t.queue_head = state.visits[visit].next
    prefetch(state.visits, max(0, t.queue_head))
    if t.queue_head == NONE:
        t.queue_tail = NONE
    t.queue_n -= 1
    if state.extended and t.places > 0 and state.visits[visit].kind == TUPLE:
        leave_place(state, task)
    return visit


@noinline
def dispatch(state: State, cores: int) -> None:
    """Start services until no core is free or no task can go on."""
    start_services(state, cores)


@inlined
def start_services(state: State, cores: int) -> None:
    """Start services until no core is free or no task can go on; by priority, then by arrival at the host."""
    c = state.cores[cores]
    # Each turn goes along all tasks of the cores. There are few, and a heap of heads would change with each arrival.
    while c.free > 0:
        best, first = NONE, NEVER
        task = c.first
        while task != NONE:
            t = state.tasks[task]
            head = t.front_head if t.front_head != NONE else t.queue_head
            # Read in any case: whether something waits is hard to guess.
            turn = state.visits[max(0, head)].ticket - t.lead
            turn = NEVER if (head == NONE) | (t.idle_threads <= 0) else turn
            best = task if turn < first else best
            first = min(first, turn)
            task = t.next_on_cores
        if best == NONE:
            return
        visit = take_head(state, best)
        if is_plain(state, visit, best) and (not state.extended or state.tasks[best].has_service):
            begin(state, visit, best)
        else:
            admit(state, visit, best)


@kernel
def put_in_front(state: State, visit: int, task: int) -> None:
    """Ahead of the queue, behind what is already in front; nothing is dispatched yet."""
    t = state.tasks[task]
    if not t.has_service:
        admit(state, visit, task)
        return
    append_in_front(state, visit, task)


@inlined
def put_in_queue(state: State, visit: int, task: int) -> None:
    """Behind all others; nothing is dispatched yet."""
    t = state.tasks[task]
    state.visits[visit].next = NONE
    if t.queue_tail == NONE:
        t.queue_head = visit
    else:
        state.visits[t.queue_tail].next = visit
    t.queue_tail = visit
    t.queue_n += 1


@inlined
def stop_serving(state: State, visit: int, task: int) -> None:
    """Take an item off the list of those in service."""
    t = state.tasks[task]
    before, one = NONE, t.serving_head
    while one != visit:
        before, one = one, state.visits[one].next
    following = state.visits[visit].next
    if before == NONE:
        t.serving_head = following
    else:
        state.visits[before].next = following
    if t.serving_tail == visit:
        t.serving_tail = before


@inlined
def ticket(state: State, host: int) -> int:
    """Return the next place in the order of arrivals at this host."""
    state.hosts[host].tickets += 1
    return state.hosts[host].tickets
