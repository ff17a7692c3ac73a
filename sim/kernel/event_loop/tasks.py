"""Tasks and the cores that serve them, first come first served and without interruption."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.buffers import apply, note_overdue
from sim.kernel.event_loop.channels import send_output
from sim.kernel.event_loop.codes import (
    BUNDLE,
    CALM,
    CRASHED,
    DUPLICATE,
    END,
    MAIL,
    MARK,
    MOVED,
    NEVER,
    NONE,
    PASSED,
    PER_KEY,
    RECENT,
    REFUSED,
    TUPLE,
)
from sim.kernel.event_loop.events import next_serial, push_own
from sim.kernel.event_loop.free_lists import free_visit
from sim.kernel.event_loop.hash_tables import position, prefetch_key, touch_key
from sim.kernel.event_loop.notices import notify
from sim.kernel.event_loop.outbox import leave_place
from sim.kernel.event_loop.restoring import note_past
from sim.kernel.event_loop.rows import record_delivery, record_visit
from sim.kernel.event_loop.rules import held_by_rule, put_aside, turn
from sim.kernel.event_loop.sharing import begin_service
from sim.kernel.event_loop.windows import enter, join, remember, side_of
from sim.kernel.tools.arrays import prefetch
from sim.kernel.tools.compiling import inlined, kernel, noinline
from sim.kernel.tools.draws import child_id, output_count, output_key, service_ns
from sim.kernel.tools.exponential import UNSURE
from sim.kernel.tools.pointer import State

DROPS = np.dtype([("rows", "i8")])


DROPPED = np.dtype(
    [("operator", "i8"), ("task", "i8"), ("arrival", "i8"), ("start", "i8"), ("at", "i8"), ("reason", "i8")], align=True
)


@kernel
def is_empty(s: State, task: int) -> bool:
    """Whether nothing waits at the task and nothing is served."""
    t = s.tasks[task]
    lanes = t.front_head == NONE and t.queue_head == NONE and t.serving_head == NONE and t.unsent_head == NONE
    return lanes and t.hand_head == NONE and t.side_head == NONE and t.back_head == NONE


@kernel
def note_idle(s: State, task: int) -> None:
    """Tell that a watched task has nothing to do just now."""
    if s.tasks[task].watched and is_empty(s, task):
        notify(s, task)


@kernel
def one_replayed(s: State, partition: int, task: int) -> None:
    """A replayed tuple was processed, recognised as a duplicate, or lost with its sender."""
    u = s.partitions[partition]
    if u.replay_task == task:
        u.replay_pending -= 1
        u.replayed_at = s.clock.now
        if u.replay_pending == 0:
            note_idle(s, task)


@kernel
def drop(s: State, v: int, task: int, reason: int) -> None:
    """A tuple ends here, without effect; its place is not freed."""
    e = s.visits[v]
    row = s.dropped_rows[s.drops.rows]
    s.drops.rows += 1
    s.room.budget = 0  # there is room for as many at the next event only if that is seen to
    row.operator = s.tasks[task].operator
    row.task = task
    row.arrival = e.arrival if e.arrived else NONE
    row.start = e.start
    row.at = s.clock.now
    row.reason = reason
    if e.replayed:
        one_replayed(s, e.partition, task)


@kernel
def measure(s: State, v: int) -> None:
    """A tuple was answered: how long that took from its arrival on; what is sent again was answered before."""
    e = s.visits[v]
    u = s.partitions[e.partition]
    if u.muted or e.replayed:
        return
    if e.arrival >= u.measured_from:
        u.longest = max(u.longest, s.clock.now - e.arrival)
    if u.measured == CALM and e.start == e.arrival:
        u.measured = 0


@inlined
def apply_effect(s: State, v: int, task: int) -> None:
    """What a tuple has done at its operator, but for its outputs."""
    e = s.visits[v]
    partition = e.partition
    u = s.partitions[partition]
    op = s.operators[u.operator]
    record_visit(s, u.operator, task, e.arrival, e.start, s.clock.now)
    if s.extended and u.measured:
        measure(s, v)
    if op.state_model == PER_KEY:
        touch_key(s, partition, e.key, u.applied)
    elif s.extended and op.state_model == RECENT:
        remember(s, partition, e.created)
    apply(s, partition, e.id, e.created, e.node)
    if op.is_sink:
        record_delivery(s, u.operator, e.created, s.clock.now)


@inlined
def complete(s: State, v: int, task: int) -> None:
    """Effect and output of a tuple, at the end of its service."""
    e = s.visits[v]
    partition = e.partition
    u = s.partitions[partition]
    operator = u.operator
    op = s.operators[operator]
    if s.extended and u.retired:  # while the tuple was in service
        drop(s, v, task, MOVED)
        return
    if (
        s.options.drops_duplicates
        and not s.ids.clean
        and (e.arrived == REFUSED or (op.threads > 1 and position(s, partition, e.id) != NONE))
    ):
        drop(s, v, task, DUPLICATE)  # or a twin on another thread was first
        return
    apply_effect(s, v, task)
    if s.extended and op.windowed:
        if s.options.logs_ids:
            side = 0 if op.joins == NONE else side_of(s, op, e.origin)
            note_past(s, partition, e.id, e.created, e.key, side)
        if op.joins == NONE:
            enter(s, partition, e.created, e.key)
        else:
            join(s, v)
    elif op.edges > 0:
        draws = s.draws[operator]
        for index in range(output_count(draws, e.id)):
            child = child_id(e.id, op.code, index)
            send_output(s, partition, child, e.created, output_key(draws, s.cumulative, child, e.key))
    if e.replayed:
        one_replayed(s, partition, task)


@kernel
def hold(s: State, v: int) -> None:
    """The partition of the tuple is not live: it waits aside."""
    u = s.partitions[s.visits[v].partition]
    s.visits[v].next = NONE
    if u.held_tail == NONE:
        u.held_head = v
    else:
        s.visits[u.held_tail].next = v
    u.held_tail = v
    u.held_n += 1


@inlined
def serve(s: State, v: int, task: int, ns: int, kind: int) -> None:
    """Begin a service, whose end is an event of this kind."""
    t = s.tasks[task]
    s.cores[t.cores].free -= 1
    t.idle_threads -= 1
    s.visits[v].next = NONE
    before = t.serving_tail
    if before == NONE:
        t.serving_head = v
    else:
        s.visits[before].next = v
    t.serving_tail = v
    if s.extended and s.hosts[t.host].paced and kind != PASSED:  # a watermark takes no work
        begin_service(s, v, task, ns, before)
        return
    push_own(s, s.clock.now + ns, task, kind, v)


@inlined
def begin(s: State, v: int, task: int) -> None:
    """Begin the service of a tuple."""
    e, t = s.visits[v], s.tasks[task]
    e.start = s.clock.now
    if s.operators[t.operator].state_model == PER_KEY:
        prefetch_key(s, e.partition, e.key)
    ns = e.service
    if ns == UNSURE:
        ns = service_ns(s.draws[t.operator], e.id)
    speed = s.hosts[t.host].speed
    if speed != 1.0:
        ns = max(1, np.int64(np.rint(ns / speed)))
    serve(s, v, task, ns, END)


@inlined
def is_plain(s: State, v: int, task: int) -> bool:
    """Whether an item whose turn has come is a tuple like most: neither held nor dropped, nor has it come twice."""
    e = s.visits[v]
    if e.kind != TUPLE or e.created < s.ids.oldest or (s.options.drops_duplicates and not s.ids.clean):
        return False
    u = s.partitions[e.partition]
    if s.extended and (u.retired or s.tasks[task].rules != NONE):
        return False
    return bool(u.live)


@inlined
def pass_by(s: State, v: int, task: int) -> None:
    """A tuple at a task without a service."""
    e = s.visits[v]
    op = s.operators[s.tasks[task].operator]
    if is_plain(s, v, task) and op.edges == 0 and not e.replayed and not (s.extended and op.windowed):
        e.start = s.clock.now
        apply_effect(s, v, task)
        free_visit(s, v)
    else:
        admit(s, v, task)


@noinline
def admit(s: State, v: int, task: int) -> None:
    """The item whose turn has come: serve it, hold it or drop it."""
    e, t = s.visits[v], s.tasks[task]
    if e.kind == TUPLE and e.created < s.ids.oldest:
        note_overdue(s)
    if e.kind != TUPLE:
        e.start = s.clock.now
        if s.extended and e.kind == MARK:
            e.ticket = note_turn(s)
        if s.extended and e.kind == MAIL and turn(s, v, task):
            return
        if s.extended and e.kind == BUNDLE:
            open_bundle(s, v, task)
            return
        serve(s, v, task, e.created, PASSED if e.kind == MARK else END)
        return
    if s.extended and s.partitions[e.partition].retired:
        drop(s, v, task, MOVED)
        free_visit(s, v)
    elif s.extended and t.rules != NONE and held_by_rule(s, v, task):
        put_aside(s, v, task)
    elif not s.partitions[e.partition].live:
        hold(s, v)
    elif s.options.drops_duplicates and not s.ids.clean and position(s, e.partition, e.id) != NONE:
        if s.options.duplicate_ns > 0 and t.has_service:
            e.start = s.clock.now
            e.arrived = REFUSED
            serve(s, v, task, s.options.duplicate_ns, END)
            return
        drop(s, v, task, DUPLICATE)
        free_visit(s, v)
    elif not t.has_service:
        e.start = s.clock.now
        complete(s, v, task)
        free_visit(s, v)
    else:
        begin(s, v, task)


@kernel
def note_turn(s: State) -> int:
    """A number as of a sending: what has a later one came up after this turn."""
    return next_serial(s)


@kernel
def open_bundle(s: State, v: int, task: int) -> None:
    """The turn of tuples that were sent again as one message: they come in front, behind what is there already."""
    t = s.tasks[task]
    t.queue_n += 1  # it was not counted: only tuples are
    one = s.visits[v].created
    free_visit(s, v)
    while one != NONE:
        e = s.visits[one]
        following = e.next
        if e.wire:
            e.wire = 0
            e.ticket = ticket(s, t.host)
            e.arrived = 1
            append_in_front(s, one, task)
        else:
            free_visit(s, one)  # its sender died before it had left
        one = following


@kernel
def drop_bundle(s: State, v: int, task: int) -> None:
    """The tuples of a bundle end with their receiver, but for those that had ended with their sender."""
    one = s.visits[v].created
    free_visit(s, v)
    while one != NONE:
        following = s.visits[one].next
        if s.visits[one].wire:
            s.visits[one].wire = 0
            drop(s, one, task, CRASHED)
        free_visit(s, one)
        one = following


@kernel
def append_in_front(s: State, v: int, task: int) -> None:
    """Ahead of the queue, behind what is already in front, whether the task has a service or not."""
    t = s.tasks[task]
    s.visits[v].next = NONE
    if t.front_tail == NONE:
        t.front_head = v
    else:
        s.visits[t.front_tail].next = v
    t.front_tail = v
    if s.visits[v].kind == TUPLE:
        t.front_n += 1


@inlined
def take_head(s: State, task: int) -> int:
    """Take the first item off the lanes of the task, one of which must not be empty."""
    t = s.tasks[task]
    if t.front_head != NONE:
        v = t.front_head
        t.front_head = s.visits[v].next
        if t.front_head == NONE:
            t.front_tail = NONE
        if s.visits[v].kind == TUPLE:
            t.front_n -= 1
        return v
    v = t.queue_head
    t.queue_head = s.visits[v].next
    prefetch(s.visits, max(0, t.queue_head))
    if t.queue_head == NONE:
        t.queue_tail = NONE
    t.queue_n -= 1
    if s.extended and t.places > 0 and s.visits[v].kind == TUPLE:
        leave_place(s, task)
    return v


@noinline
def dispatch(s: State, cores: int) -> None:
    """Start services until no core is free or no task can go on."""
    start_services(s, cores)


@inlined
def start_services(s: State, cores: int) -> None:
    """Start services until no core is free or no task can go on; by priority, then by arrival at the host."""
    c = s.cores[cores]
    while c.free > 0:
        best, first = NONE, NEVER
        task = c.first
        while task != NONE:
            t = s.tasks[task]
            head = t.front_head if t.front_head != NONE else t.queue_head
            turn = s.visits[max(0, head)].ticket - t.lead  # read in any case: whether something waits is hard to guess
            turn = NEVER if (head == NONE) | (t.idle_threads <= 0) else turn
            best = task if turn < first else best
            first = min(first, turn)
            task = t.next_on_cores
        if best == NONE:
            return
        v = take_head(s, best)
        if is_plain(s, v, best) and (not s.extended or s.tasks[best].has_service):
            begin(s, v, best)
        else:
            admit(s, v, best)


@kernel
def put_in_front(s: State, v: int, task: int) -> None:
    """Ahead of the queue, behind what is already in front; nothing is dispatched yet."""
    t = s.tasks[task]
    if not t.has_service:
        admit(s, v, task)
        return
    append_in_front(s, v, task)


@inlined
def put_in_queue(s: State, v: int, task: int) -> None:
    """Behind all others; nothing is dispatched yet."""
    t = s.tasks[task]
    s.visits[v].next = NONE
    if t.queue_tail == NONE:
        t.queue_head = v
    else:
        s.visits[t.queue_tail].next = v
    t.queue_tail = v
    t.queue_n += 1


@inlined
def stop_serving(s: State, v: int, task: int) -> None:
    """Take an item off the list of those in service."""
    t = s.tasks[task]
    before, one = NONE, t.serving_head
    while one != v:
        before, one = one, s.visits[one].next
    following = s.visits[v].next
    if before == NONE:
        t.serving_head = following
    else:
        s.visits[before].next = following
    if t.serving_tail == v:
        t.serving_tail = before


@inlined
def ticket(s: State, host: int) -> int:
    """The next place in the order of arrivals at this host."""
    s.hosts[host].tickets += 1
    return s.hosts[host].tickets
