"""Births: all tuples of one instant are one event, and a task emits what waits in the order of births."""

from __future__ import annotations

from sim.kernel.event_loop.backpressure import PORTION, emit_later
from sim.kernel.event_loop.emitting import emit_births, emit_one
from sim.kernel.event_loop.events import push_own
from sim.kernel.event_loop.state import BORN, NONE
from sim.kernel.tools.arrays import prefetch
from sim.kernel.tools.compiling import apart, inlined, kernel
from sim.kernel.tools.pointer import State

_AHEAD = 8  # births


@inlined
def is_single(s: State, source: int, time: int) -> bool:
    """Whether one tuple is born at this instant, nothing waits, and the next birth is in the buffer: the rule."""
    b = s.sources[source]
    following = b.born + 1
    in_buffer = b.emitted == b.born and following < b.have
    return bool(in_buffer and s.births[b.offset + following - b.base].time > time)


@kernel
def has_births(s: State, source: int, time: int) -> bool:
    """Whether the buffer holds all births of this instant, and the first after it if there is one."""
    b = s.sources[source]
    return not b.more or s.births[b.offset + b.have - 1 - b.base].time > time


@kernel
def waiting_births(s: State, source: int) -> int:
    """Births that are not emitted, up to all of the next instant."""
    b = s.sources[source]
    t = s.tasks[s.partitions[b.partition].task]
    if s.full and (t.unsent_head != NONE or t.paused_until != 0):
        return 0
    last = b.offset - b.base
    time, upto = s.births[last + b.born].time, b.born
    while upto < b.have and s.births[last + upto].time == time:
        upto += 1
    return upto - b.emitted


@inlined
def born_alone(s: State, source: int, time: int) -> None:
    """The tuple of an instant at which one is born."""
    b = s.sources[source]
    u = s.partitions[b.partition]
    t = s.tasks[u.task]
    if not u.live or (s.full and (t.unsent_head != NONE or t.paused_until != 0)):
        born(s, source, time)
        return
    k = b.born
    emit_one(s, source, k)
    b.born = k + 1
    place = b.offset + k + 1 - b.base
    prefetch(s.births, min(place + _AHEAD, s.births.shape[0] - 1))
    push_own(s, s.births[place].time, u.task, BORN, source)


@apart
def born(s: State, source: int, time: int) -> None:
    """All tuples of one instant."""
    b = s.sources[source]
    upto = b.born
    while upto < b.have and s.births[b.offset + upto - b.base].time == time:
        upto += 1
    if s.partitions[b.partition].live:
        emit_births(s, source, upto)
    b.born = upto
    prefetch(s.births, min(b.offset + upto - b.base + _AHEAD, s.births.shape[0] - 1))
    wait_for_birth(s, source)


@inlined
def wait_for_birth(s: State, source: int) -> None:
    """Set the event of the next birth."""
    b = s.sources[source]
    if b.born < b.have:
        push_own(s, s.births[b.offset + b.born - b.base].time, s.partitions[b.partition].task, BORN, source)


@kernel
def emit_waiting(s: State, task: int) -> bool:
    """Sources at the task emit what waits, what was born first comes first; False if the rest needs more memory."""
    left = PORTION
    while s.tasks[task].unsent_head == NONE and s.tasks[task].paused_until == 0:
        best, first = NONE, 0
        for source in range(s.sources.shape[0]):
            b = s.sources[source]
            u = s.partitions[b.partition]
            if u.task == task and u.live and b.emitted < b.born:
                time = s.births[b.offset + b.emitted - b.base].time
                if best == NONE or time < first:
                    best, first = source, time
        if best == NONE:
            return True
        if left == 0:
            emit_later(s, task)
            return False
        left -= 1
        emit_births(s, best, s.sources[best].emitted + 1)
    return True
