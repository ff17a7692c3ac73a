"""Arrivals: all tuples of one instant are one event, and a task emits what waits in the order of arrival."""

from __future__ import annotations

from sim.kernel.event_loop.backpressure import PORTION, emit_later
from sim.kernel.event_loop.codes import CREATE, NONE
from sim.kernel.event_loop.emitting import emit_arrivals, emit_first_again, emit_one
from sim.kernel.event_loop.events import push_own
from sim.kernel.event_loop.roots import is_full
from sim.kernel.tools.cache import inlined, kernel, noinline
from sim.kernel.tools.pointer import State, prefetch

_AHEAD = 8  # arrivals


@inlined
def is_single(state: State, source: int, time: int) -> bool:
    """Return True for the usual case: one tuple arrives now, none waits, and the next arrival is in the buffer."""
    b = state.sources[source]
    following = b.arrived + 1
    in_buffer = b.emitted == b.arrived and following < b.have
    return bool(in_buffer and state.arrivals[b.offset + following - b.base].time > time)


@kernel
def has_arrivals(state: State, source: int, time: int) -> bool:
    """Return whether the buffer holds all arrivals of this instant, and the first after it if there is one."""
    b = state.sources[source]
    return not b.more or state.arrivals[b.offset + b.have - 1 - b.base].time > time


@kernel
def waiting_arrivals(state: State, source: int) -> int:
    """Return the arrivals that are not emitted, up to all of the next instant."""
    b = state.sources[source]
    t = state.tasks[state.partitions[b.partition].task]
    if state.extended and (t.unsent_head != NONE or t.paused_until != 0):
        return 0
    last = b.offset - b.base
    time, upto = state.arrivals[last + b.arrived].time, b.arrived
    while upto < b.have and state.arrivals[last + upto].time == time:
        upto += 1
    if state.extended and is_full(state, source):
        return 0
    return upto - b.emitted


@inlined
def handle_single_arrival(state: State, source: int, time: int) -> None:
    """The tuple of an instant at which one arrives."""
    b = state.sources[source]
    u = state.partitions[b.partition]
    t = state.tasks[u.task]
    if not u.live or (state.extended and (t.unsent_head != NONE or t.paused_until != 0 or state.options.acks)):
        handle_arrivals(state, source, time)
        return
    k = b.arrived
    emit_one(state, source, k)
    b.arrived = k + 1
    place = b.offset + k + 1 - b.base
    prefetch(state.arrivals, min(place + _AHEAD, state.arrivals.shape[0] - 1))
    push_own(state, state.arrivals[place].time, u.task, CREATE, source)


@noinline
def handle_arrivals(state: State, source: int, time: int) -> None:
    """All tuples of one instant."""
    b = state.sources[source]
    upto = b.arrived
    while upto < b.have and state.arrivals[b.offset + upto - b.base].time == time:
        upto += 1
    if state.partitions[b.partition].live:
        emit_arrivals(state, source, upto)
    b.arrived = upto
    prefetch(state.arrivals, min(b.offset + upto - b.base + _AHEAD, state.arrivals.shape[0] - 1))
    schedule_arrival(state, source)


@inlined
def schedule_arrival(state: State, source: int) -> None:
    """Set the event of the next arrival."""
    b = state.sources[source]
    if b.arrived < b.have:
        push_own(
            state,
            state.arrivals[b.offset + b.arrived - b.base].time,
            state.partitions[b.partition].task,
            CREATE,
            source,
        )


@kernel
def _waiting_since(state: State, source: int) -> int:
    """Return when the tuple was created that the source emits next, where one waits."""
    b = state.sources[source]
    if b.again_head != NONE:
        return state.visits[b.again_head].created
    return state.arrivals[b.offset + b.emitted - b.base].time


@kernel
def emit_waiting(state: State, task: int) -> bool:
    """Sources at the task emit what waits, what arrived first comes first; False if the rest needs more memory."""
    left = PORTION
    while state.tasks[task].unsent_head == NONE and state.tasks[task].paused_until == 0:
        best, first = NONE, 0
        for source in range(state.sources.shape[0]):
            b = state.sources[source]
            u = state.partitions[b.partition]
            waits = (b.again_head != NONE or b.emitted < b.arrived) and not is_full(state, source)
            if u.task == task and u.live and waits:
                time = _waiting_since(state, source)
                if best == NONE or time < first:
                    best, first = source, time
        if best == NONE:
            return True
        if left == 0:
            emit_later(state, task)
            return False
        left -= 1
        if state.sources[best].again_head != NONE:
            emit_first_again(state, best)
            continue
        emit_arrivals(state, best, state.sources[best].emitted + 1)
    return True
