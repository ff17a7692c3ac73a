"""Watermarks: virtual tuples from the sources on to the last task that needs event time.

For its task a watermark is a service of 0 ns.
"""

from __future__ import annotations

from sim.clock import SERVICE, TICKS, TIMERS
from sim.compiled.channels import emit, free_visit
from sim.compiled.compiling import kernel
from sim.compiled.draws import output_key
from sim.compiled.events import push
from sim.compiled.fair import fair_room
from sim.compiled.marks import pass_mark
from sim.compiled.pointer import State
from sim.compiled.service import dispatch, note_idle, put_in_queue, ticket
from sim.compiled.state import DUE, END, FORWARD, MARK, NONE, PASSED, TICK, TIMER, TUPLE
from sim.compiled.windows import due, end_windows, first_open, matches, window_id


@kernel
def burst(s: State, kind: int, ref: int) -> int:
    """How many tuples and watermarks the event can send beyond those of a single tuple."""
    g = s.g[0]
    if kind == TICK:
        return g.mark_fan
    task = s.heap[0].rank - SERVICE
    if kind == DUE:
        if s.hosts[ref].root == NONE:
            return 0
        kind, ref = END, s.hosts[ref].root
        task = s.services[ref].task
    if kind not in (END, PASSED):
        return 0
    t, e = s.tasks[task], s.visits[ref]
    op = s.operators[t.operator]
    if kind == END:
        met = 1 + g.fan_out * matches(s, ref) if op.joins != NONE and e.kind == TUPLE else 0
        return g.mark_fan * t.marks + met
    need = g.mark_fan * (t.marks + 1)
    if op.windowed and op.joins == NONE:
        need += g.fan_out * due(s, task, e.key)
    return need


@kernel
def room_for_windows(s: State, kind: int, ref: int, need: int) -> bool:
    """Whether the pools have room for what the event does with windows and watermarks; else `g.burst` says for what."""
    g = s.g[0]
    g.burst = burst(s, kind, ref)
    need += g.burst
    return not (
        g.visits_left < need
        or g.nodes_left < need
        or g.notes_left < need
        or g.events + need > s.heap.shape[0]
        or g.pairs_used + need > s.pairs.shape[0]
        or g.cells_left < g.spread
        or g.panes_left < g.spread
        or not fair_room(s, need)
    )


@kernel
def tick(s: State, source: int, time: int) -> None:
    """Everything that the source bears before now is sent, but for what waits, which holds event time back."""
    b = s.sources[source]
    promise = time if b.emitted == b.born else s.births[b.offset + b.emitted - b.base].time
    rise(s, s.units[b.unit].task, promise)
    push(s, time + b.watermark, TICKS + s.units[b.unit].task, s.g[0].serial, TICK, source)
    s.g[0].serial += 1


@kernel
def timer(s: State, unit: int, time: int) -> None:
    """A task emits whatever came in, at no cost; the tuple is born now."""
    u = s.units[unit]
    op, draws = s.operators[u.operator], s.draws[u.operator]
    made = window_id(op.timer_code, u.index, 0, time // op.timer)
    emit(s, unit, made, time, output_key(draws, s.cumulative, made, 0))
    push(s, time + op.timer, TIMERS + u.task, s.g[0].serial, TIMER, unit)
    s.g[0].serial += 1


@kernel
def rise(s: State, origin: int, event: int) -> None:
    """Send a watermark over all channels on the way to a window, if it is a later one."""
    if event <= s.tasks[origin].event_sent:
        return
    s.tasks[origin].event_sent = event
    op = s.operators[s.tasks[origin].operator]
    for k in range(op.first_edge, op.first_edge + op.edges):
        edge = s.edges[k]
        down = s.operators[edge.down]
        if down.timed:
            if edge.kind == FORWARD:
                pass_mark(s, origin, down.first_task + origin - op.first_task, event)
            else:
                for task in range(down.first_task, down.first_task + down.tasks):
                    pass_mark(s, origin, task, event)


@kernel
def mark_arrives(s: State, v: int) -> None:
    """A watermark waits its turn."""
    task = s.visits[v].task
    t = s.tasks[task]
    s.visits[v].ticket = ticket(s, t.host)
    put_in_queue(s, v, task)
    t.queue_n -= 1  # only tuples are counted
    dispatch(s, t.cores)


@kernel
def _turn(s: State, task: int, origin: int, event: int) -> None:
    """The watermark of the task is the least that came over all its channels; what it passes ends."""
    t = s.tasks[task]
    least = event
    for k in range(t.first_channel, t.first_channel + t.channels):
        channel = s.channels[k]
        if channel.origin == origin:
            channel.event = event
        least = min(least, channel.event)
    if least <= t.event:
        return
    t.event = least
    op = s.operators[t.operator]
    if op.windowed:
        end_windows(s, task, least)
        if op.joins == NONE:
            least = min(least, first_open(op, least) * op.slide)
    rise(s, task, least)


@kernel
def let_marks_pass(s: State, task: int) -> None:
    """Watermarks that no service is in front of any more."""
    t = s.tasks[task]
    while t.serving_head != NONE:
        v = t.serving_head
        e = s.visits[v]
        if e.kind != MARK or e.arrived == 0:
            return
        t.serving_head = e.next
        if t.serving_tail == v:
            t.serving_tail = NONE
        t.marks -= 1
        origin, event = e.origin, e.key
        free_visit(s, v)
        _turn(s, task, origin, event)


@kernel
def mark_served(s: State, v: int, task: int) -> None:
    """Its service of 0 ns is over: it passes when all services that began before it have ended."""
    t = s.tasks[task]
    s.visits[v].arrived = 1
    s.cores[t.cores].free += 1
    t.idle_threads += 1
    t.marks += 1
    t.queue_n += 1  # it was never counted, but as leaving
    let_marks_pass(s, task)
    dispatch(s, t.cores)
    note_idle(s, task)
