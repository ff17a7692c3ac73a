"""Watermarks: virtual tuples from the sources on to the last task that needs event time.

For its task a watermark is a service of 0 ns.
"""

from __future__ import annotations

from sim.clock import SERVICE, TICKS, TIMERS
from sim.kernel.event_loop.actions import held_back
from sim.kernel.event_loop.codes import DUE, END, FORWARD, MARK, NONE, PASSED, TICK, TIMER, TUPLE
from sim.kernel.event_loop.emitting import emit_ticks
from sim.kernel.event_loop.events import next_mark, next_serial, push
from sim.kernel.event_loop.fair_links import fair_room
from sim.kernel.event_loop.free_lists import free_visit
from sim.kernel.event_loop.hash_tables import pairs_left
from sim.kernel.event_loop.heard import event_of, follow, hear, hear_at_task, may_rise, note_come, part
from sim.kernel.event_loop.passages import handle_hurried
from sim.kernel.event_loop.rules import holds_from
from sim.kernel.event_loop.tasks import dispatch, note_idle, put_in_queue, ticket
from sim.kernel.event_loop.threads import let_go_thread, shares_thread
from sim.kernel.event_loop.watermarks import AGAIN, LAST, pass_mark
from sim.kernel.event_loop.windows import NEVER_ENDS, due, end_windows, first_open, matches
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State


@kernel
def burst(state: State, kind: int, ref: int, rank: int) -> int:
    """Return how many tuples and watermarks the event can send beyond those of a single tuple."""
    fan = state.event_time.mark_fan * state.cluster.tasks
    if kind == TICK:
        return fan
    task = rank - SERVICE
    if kind == DUE:
        if state.hosts[ref].root == NONE:
            return 0
        kind, ref = END, state.hosts[ref].root
        task = state.services[ref].task
    if kind not in (END, PASSED):
        return 0
    t, e = state.tasks[task], state.visits[ref]
    op = state.operators[t.operator]
    if not t.alive:
        return 0
    if kind == END:
        met = 1 + state.options.fan_out * matches(state, ref) if op.joins != NONE and e.kind == TUPLE else 0
        if op.windowed and op.joins == NONE and t.marks > 0:  # they have waited for this service
            met += state.options.fan_out * due(state, task, state.clock.now)
        return fan * t.marks + met
    need = fan * (t.marks + 1)
    if op.windowed and op.joins == NONE:
        if e.id > 0:
            need += state.options.fan_out * due(state, task, state.clock.now)
        elif t.marks > 0 or may_rise(state, task, e.origin):
            need += state.options.fan_out * due(state, task, e.key)
    return need


@kernel
def room_for_windows(state: State, kind: int, ref: int, rank: int, need: int) -> bool:
    """Return whether the pools have room for the event's windows and watermarks; else `room.burst` says for what."""
    state.room.burst = burst(state, kind, ref, rank)
    need += state.room.burst
    return not (
        state.visit_pool.left < need
        or state.note_pool.left < need
        or state.queue.in_heap + need > state.heap.shape[0]
        or (state.options.keeps_outputs and (state.node_pool.left < need or pairs_left(state) < need))
        or state.cell_pool.left < state.event_time.most_windows
        or state.pane_pool.left < state.event_time.most_windows
        or not fair_room(state, need)
    )


@kernel
def tick(state: State, source: int, time: int) -> None:
    """Everything that the sources there bear before now is sent, but for what waits, which holds event time back."""
    b = state.sources[source]
    partition = state.partitions[b.partition]
    if partition.live and state.tasks[partition.task].paused_until == 0:
        promise = time
        for k in range(state.sources.shape[0]):
            other = state.sources[k]
            if (
                other.emitted < other.arrived
                and state.partitions[other.partition].task == partition.task
                and state.partitions[other.partition].live
            ):
                promise = min(promise, state.arrivals[other.offset + other.emitted - other.base].time)
        rise(state, partition.task, promise)
    push(state, time + b.watermark, TICKS + partition.task, next_serial(state), TICK, source)


@kernel
def timer(state: State, partition: int, time: int) -> None:
    """A task emits whatever came in, at no cost; while it is down or paused it does not."""
    u = state.partitions[partition]
    op = state.operators[u.operator]
    u.ticks_due = time // op.timer
    if u.live:
        emit_ticks(state, partition, u.ticks_due)
    push(state, time + op.timer, TIMERS + u.task, next_serial(state), TIMER, partition)


@kernel
def rise(state: State, origin: int, event: int) -> None:
    """Send a watermark over all channels on the way to a window, if it is a later one, or counts for one more."""
    sent = state.tasks[origin].event_sent
    if event <= sent and not (state.tasks[origin].speaks_anew and event == sent and sent > 0):
        return
    state.tasks[origin].speaks_anew = 0
    state.tasks[origin].event_sent = event
    _send_marks(state, origin, event, 0)


@kernel
def take_leave(state: State, origin: int) -> None:
    """Send a farewell, which says nothing, behind all that partitions have sent that are taken out of a task."""
    _send_marks(state, origin, 0, AGAIN)


@kernel
def _send_marks(state: State, origin: int, event: int, again: int) -> None:
    """Send a watermark over all channels on the way to a window; after it others are heard `again`, too."""
    op = state.operators[state.tasks[origin].operator]
    for k in range(op.first_edge, op.first_edge + op.edges):
        edge = state.edges[k]
        if state.operators[edge.down].timed:
            mark = NONE
            if edge.kind == FORWARD:
                mark = next_mark(state)
                partition = state.tasks[origin].first_here
                while partition != NONE:
                    receiver = edge.first_partition + state.partitions[partition].index % edge.partitions
                    state.tasks[state.partitions[receiver].task].mark = mark
                    partition = state.partitions[partition].next_here
            for task in range(state.cluster.tasks):
                t = state.tasks[task]
                if t.operator == edge.down and t.alive and (edge.kind != FORWARD or t.mark == mark):
                    pass_mark(state, origin, task, event, again)


@kernel
def mark_arrives(state: State, visit: int) -> None:
    """A watermark waits its turn, unless the task is dead, or the one that it is from."""
    e = state.visits[visit]
    task = e.task
    t = state.tasks[task]
    if not t.alive or not (state.tasks[e.origin].alive or e.id == LAST):
        free_visit(state, visit)
        return
    if shares_thread(state, state.visits[visit].origin, task):
        let_go_thread(state, task)
    if t.barriers != NONE and held_back(state, visit, task):
        return
    state.visits[visit].ticket = ticket(state, t.host)
    put_in_queue(state, visit, task)
    t.queue_n -= 1  # only tuples are counted
    dispatch(state, t.cores)


@kernel
def _is_meant(state: State, partition: int, origin: int, serial: int) -> bool:
    """Return whether the task that the mark is from has sent the partition its tuples ever since the mark was made.

    What a rule keeps aside was sent before the mark, and is not applied.
    """
    u = state.partitions[partition]
    group = state.partitions[u.group]
    if state.tasks[u.task].rules != NONE and holds_from(state, partition, u.task, origin):
        return False
    route, found = group.routes, False
    while route != NONE:
        r = state.rules[route]
        if r.origin == origin:
            found = True
            if r.partition == partition:
                return serial >= r.since
        route = r.next
    return not found and group.owner == partition and serial >= u.owned_at


@kernel
def _turn(state: State, task: int, origin: int, event: int, serial: int, begun: int, again: int) -> None:
    """Event time rises at the partitions there; what it passes ends."""
    t = state.tasks[task]
    op = state.operators[t.operator]
    before = t.event
    apart = t.others > 0
    if origin == task:
        begun = serial  # more may have been put in front since it was: that is not served yet
    elif state.tasks[origin].alive or again == LAST:
        note_come(state, task, origin, serial)
    if not again:
        if state.tasks[origin].alive:  # else nobody is there for whom it could speak
            hear_at_task(state, task, origin, event, serial)
        if apart:  # also those that follow the task from this watermark on
            _hear_apart(state, task, origin, event, serial, begun)
    if again:
        event = state.clock.now  # no watermark is later
        _hear_again(state, task, begun)
    if op.windowed and t.next_end <= event and (apart or t.event > before):
        end_windows(state, task)
    speak(state, task)


@kernel
def speak(state: State, task: int) -> None:
    """Send what all partitions there have heard; also when one is taken out of it that had not heard as much."""
    t = state.tasks[task]
    op = state.operators[t.operator]
    least = t.event if t.followers > 0 else NEVER_ENDS
    partition = t.first_here if t.others > 0 else NONE
    while partition != NONE:
        u = state.partitions[partition]
        if u.live:
            least = min(least, event_of(state, partition))
        partition = u.next_here
    if least < NEVER_ENDS:
        if op.windowed and op.joins == NONE:
            least = min(least, first_open(op, least) * op.slide)
        rise(state, task, least)


@kernel
def _hear_again(state: State, task: int, begun: int) -> None:
    """The last watermark of each channel comes to the partitions at the task once more."""
    slot = state.tasks[task].slot
    for origin in range(state.cluster.tasks):
        other = state.tasks[origin]
        if other.alive and other.slot != NONE and state.operators[other.operator].timed:
            v = state.voices[slot * state.hearing.room + other.slot]
            if v.event > 0:
                event, serial = v.event, v.serial
                hear_at_task(state, task, origin, event, serial)
                if state.tasks[task].others > 0:
                    _hear_apart(state, task, origin, event, serial, begun)


@kernel
def raise_event_time(state: State, task: int, event: int) -> None:
    """Event time rises at the live partitions there on the word of control; what it passes ends."""
    t = state.tasks[task]
    partition = t.first_here
    while partition != NONE:
        u = state.partitions[partition]
        if u.live and event_of(state, partition) < event:
            part(state, partition)
            u.event = event
        partition = u.next_here
    if state.operators[t.operator].windowed and t.next_end <= event:
        end_windows(state, task)


@kernel
def _hear_apart(state: State, task: int, origin: int, event: int, serial: int, begun: int) -> None:
    """A watermark comes to the partitions at the task that have event times of their own."""
    partition = state.tasks[task].first_here
    op = state.operators[state.tasks[task].operator]
    while partition != NONE:
        u = state.partitions[partition]
        if u.live and not u.follows:
            if serial >= u.assigned_at and begun > u.freed_at and _is_meant(state, partition, origin, serial):
                # What is born from then on may wait at its next task; behind windows that may be created earlier.
                known = event if u.goal == NONE else min(event, u.placed_from if op.reckoned else 0)
                hear(state, partition, origin, known, serial)
            follow(state, partition, begun)
        partition = u.next_here


@kernel
def let_marks_pass(state: State, task: int) -> None:
    """Watermarks that no service is in front of any more."""
    t = state.tasks[task]
    while t.serving_head != NONE:
        visit = t.serving_head
        e = state.visits[visit]
        if e.kind != MARK or e.arrived == 0:
            return
        t.serving_head = e.next
        if t.serving_tail == visit:
            t.serving_tail = NONE
        t.marks -= 1
        origin, event, serial, begun, again = e.origin, e.key, e.serial, e.ticket, int(e.id)
        free_visit(state, visit)
        _turn(state, task, origin, event, serial, begun, again)


@kernel
def mark_served(state: State, visit: int, task: int) -> None:
    """Its service of 0 ns is over: it passes when all services that began before it have ended."""
    t = state.tasks[task]
    if not t.alive:  # killed within this instant, by what the listener was told
        return
    state.visits[visit].arrived = 1
    state.cores[t.cores].free += 1
    t.idle_threads += 1
    t.marks += 1
    if state.visits[visit].origin != task:
        t.queue_n += 1  # it was never counted, but as leaving
    let_marks_pass(state, task)
    if t.hurried:
        handle_hurried(state, task)
    dispatch(state, t.cores)
    note_idle(state, task)
