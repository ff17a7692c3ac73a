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
from sim.kernel.event_loop.rules import holds_from
from sim.kernel.event_loop.tasks import dispatch, note_idle, put_in_queue, ticket
from sim.kernel.event_loop.watermarks import pass_mark
from sim.kernel.event_loop.windows import NEVER_ENDS, due, end_windows, first_open, is_there, matches, nth_partition
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State


@kernel
def burst(s: State, kind: int, ref: int, rank: int) -> int:
    """How many tuples and watermarks the event can send beyond those of a single tuple."""
    fan = s.event_time.mark_fan * s.cluster.tasks
    if kind == TICK:
        return fan
    task = rank - SERVICE
    if kind == DUE:
        if s.hosts[ref].root == NONE:
            return 0
        kind, ref = END, s.hosts[ref].root
        task = s.services[ref].task
    if kind not in (END, PASSED):
        return 0
    t, e = s.tasks[task], s.visits[ref]
    op = s.operators[t.operator]
    if not t.alive:
        return 0
    if kind == END:
        met = 1 + s.options.fan_out * matches(s, ref) if op.joins != NONE and e.kind == TUPLE else 0
        return fan * t.marks + met
    need = fan * (t.marks + 1)
    if op.windowed and op.joins == NONE:
        need += s.options.fan_out * due(s, task, e.key)
    return need


@kernel
def room_for_windows(s: State, kind: int, ref: int, rank: int, need: int) -> bool:
    """Whether the pools have room for the event's windows and watermarks; else `run.burst` says for what."""
    s.room.burst = burst(s, kind, ref, rank)
    need += s.room.burst
    return not (
        s.visit_pool.left < need
        or s.node_pool.left < need
        or s.note_pool.left < need
        or s.queue.in_heap + need > s.heap.shape[0]
        or s.tables.pairs + need > s.pairs.shape[0]
        or s.cell_pool.left < s.event_time.most_windows
        or s.pane_pool.left < s.event_time.most_windows
        or not fair_room(s, need)
    )


@kernel
def tick(s: State, source: int, time: int) -> None:
    """Everything that the sources there bear before now is sent, but for what waits, which holds event time back."""
    b = s.sources[source]
    partition = s.partitions[b.partition]
    if partition.live and s.tasks[partition.task].paused_until == 0:
        promise = time
        for k in range(s.sources.shape[0]):
            other = s.sources[k]
            if (
                other.emitted < other.arrived
                and s.partitions[other.partition].task == partition.task
                and s.partitions[other.partition].live
            ):
                promise = min(promise, s.arrivals[other.offset + other.emitted - other.base].time)
        rise(s, partition.task, promise)
    push(s, time + b.watermark, TICKS + partition.task, next_serial(s), TICK, source)


@kernel
def timer(s: State, partition: int, time: int) -> None:
    """A task emits whatever came in, at no cost; while it is down or paused it does not."""
    u = s.partitions[partition]
    op = s.operators[u.operator]
    u.ticks_due = time // op.timer
    if u.live:
        emit_ticks(s, partition, u.ticks_due)
    push(s, time + op.timer, TIMERS + u.task, next_serial(s), TIMER, partition)


@kernel
def rise(s: State, origin: int, event: int) -> None:
    """Send a watermark over all channels on the way to a window, if it is a later one."""
    if event <= s.tasks[origin].event_sent:
        return
    s.tasks[origin].event_sent = event
    op = s.operators[s.tasks[origin].operator]
    for k in range(op.first_edge, op.first_edge + op.edges):
        edge = s.edges[k]
        if s.operators[edge.down].timed:
            mark = NONE
            if edge.kind == FORWARD:
                mark = next_mark(s)
                for j in range(op.partitions + s.cluster.extra_instances):
                    partition = nth_partition(s, op, j)
                    if is_there(s, partition, origin):
                        receiver = edge.first_partition + s.partitions[partition].index % edge.partitions
                        s.tasks[s.partitions[receiver].task].mark = mark
            for task in range(s.cluster.tasks):
                t = s.tasks[task]
                if t.operator == edge.down and t.alive and (edge.kind != FORWARD or t.mark == mark):
                    pass_mark(s, origin, task, event)


@kernel
def mark_arrives(s: State, v: int) -> None:
    """A watermark waits its turn, unless the task is dead, or the one that it is from."""
    task = s.visits[v].task
    t = s.tasks[task]
    if not t.alive or not s.tasks[s.visits[v].origin].alive:
        free_visit(s, v)
        return
    if t.barriers != NONE and held_back(s, v, task):
        return
    s.visits[v].ticket = ticket(s, t.host)
    put_in_queue(s, v, task)
    t.queue_n -= 1  # only tuples are counted
    dispatch(s, t.cores)


@kernel
def _is_meant(s: State, partition: int, origin: int, serial: int) -> bool:
    """Whether the task that the mark is from has sent the partition its tuples ever since the mark was made.

    What a rule keeps aside was sent before the mark, and is not applied.
    """
    u = s.partitions[partition]
    group = s.partitions[u.group]
    if s.tasks[u.task].rules != NONE and holds_from(s, partition, u.task, origin):
        return False
    route, found = group.routes, False
    while route != NONE:
        r = s.rules[route]
        if r.origin == origin:
            found = True
            if r.partition == partition:
                return serial >= r.since
        route = r.next
    return not found and group.owner == partition and serial >= u.owned_at


@kernel
def _speaks(s: State, group: int, origin: int, serial: int) -> bool:
    """Whether the mark comes from where an instance is, and was made since that has sent all that it kept."""
    if _speaks_alone(s, group, origin, serial):
        return True
    for partition in range(s.partitions.shape[0] - s.cluster.extra_instances, s.partitions.shape[0]):
        if s.partitions[partition].group == group and _speaks_alone(s, partition, origin, serial):
            return True
    return False


@kernel
def _speaks_alone(s: State, partition: int, origin: int, serial: int) -> bool:
    u = s.partitions[partition]
    return u.task == origin and u.live and not u.muted and serial >= u.live_at


@kernel
def _hear(s: State, partition: int, origin: int, event: int, serial: int, begun: int) -> None:
    """The event time of a partition is the least of what came from all partitions that send to it."""
    u = s.partitions[partition]
    if serial < u.assigned_at or begun <= u.freed_at or not _is_meant(s, partition, origin, serial):
        return
    for k in range(u.first_channel, u.first_channel + u.channels):
        c = s.channels[k]
        if event > c.event and _speaks(s, c.sender, origin, serial):
            if c.event == u.event:
                u.behind -= 1
            c.event = event
    if u.behind == 0:
        least = event
        for k in range(u.first_channel, u.first_channel + u.channels):
            least = min(least, s.channels[k].event)
        u.event = least
        for k in range(u.first_channel, u.first_channel + u.channels):
            if s.channels[k].event == least:
                u.behind += 1


@kernel
def _turn(s: State, task: int, origin: int, event: int, serial: int, begun: int) -> None:
    """Event time rises at the partitions there; what it passes ends."""
    t = s.tasks[task]
    op = s.operators[t.operator]
    for k in range(op.partitions + s.cluster.extra_instances):
        partition = nth_partition(s, op, k)
        if is_there(s, partition, task) and s.partitions[partition].live:
            _hear(s, partition, origin, event, serial, begun)
    if op.windowed and t.next_end <= event:
        end_windows(s, task)
    least = NEVER_ENDS
    for k in range(op.partitions + s.cluster.extra_instances):
        partition = nth_partition(s, op, k)
        u = s.partitions[partition]
        if is_there(s, partition, task) and u.live:
            held = u.event
            if op.windowed and op.joins == NONE:
                held = min(held, first_open(op, held) * op.slide)
            least = min(least, held)
    if least < NEVER_ENDS:
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
        origin, event, serial, begun = e.origin, e.key, e.serial, e.ticket
        free_visit(s, v)
        _turn(s, task, origin, event, serial, begun)


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
