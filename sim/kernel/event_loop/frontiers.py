"""Frontiers that control waits for: nothing born before an instant is upstream of an operator, or at it, any more.

Each has a lower bound of how many such tuples are still to be applied. `apply_effect` counts down, and where nothing is
left of a bound a look at all tuples gives the next one. So most tuples cost a comparison, and the look that finds none
is after the event that applied the last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.births import birth_of
from sim.kernel.event_loop.codes import NONE, TUPLE
from sim.kernel.event_loop.notices import TOLD_PASSED, notify
from sim.kernel.tools.cache import inlined, kernel, noinline
from sim.kernel.tools.pointer import State

FRONTIER = np.dtype(
    [
        ("time", "i8"),
        ("token", "i8"),
        ("left", "i8"),  # so many of these tuples at least are still to be applied
        ("operator", "i4"),
        ("over", "u1"),  # the listener is told
    ],
    align=True,
)


@inlined
def leads_to(state: State, operator: int, other: int) -> int:
    """Return whether the other operator is this one or above it: 1 or 0."""
    return int(state.above[operator * state.operators.shape[0] + other])


@inlined
def note_gone(state: State, operator: int, born: int) -> None:
    """Count a tuple that an operator has applied, or that was dropped there."""
    for k in range(state.frontiers.shape[0]):
        f = state.frontiers[k]
        if born < f.time and leads_to(state, f.operator, operator):
            f.left -= 1


@noinline
def look(state: State) -> None:
    """Tell the listener of frontiers that have been passed, in the order in which they were asked for."""
    for k in range(state.frontiers.shape[0]):
        f = state.frontiers[k]
        if f.over or f.left > 0 or _has_lost(state, f.operator) or is_held_up(state, f.operator, f.time):
            continue  # no look at all tuples: while a partition is down there would be one after each event
        f.left = before(state, f.operator, f.time)
        if f.left == 0:
            f.over = 1
            notify(state, TOLD_PASSED + k)


@kernel
def _has_lost(state: State, operator: int) -> bool:
    """Return whether a partition of the operator, or of one above it, is down: what was lost with it may come again."""
    for partition in range(state.partitions.shape[0]):
        u = state.partitions[partition]
        if not u.live and not u.taken and leads_to(state, operator, u.operator):
            return True
    return False


@kernel
def is_held_up(state: State, operator: int, time: int) -> bool:
    """Return whether a live source above the operator has still to emit what arrived before that time."""
    for k in range(state.sources.shape[0]):
        b = state.sources[k]
        if (
            state.partitions[b.partition].live
            and b.emitted < b.arrived
            and state.arrivals[b.offset + b.emitted - b.base].time < time
            and leads_to(state, operator, state.partitions[b.partition].operator)
        ):
            return True
    return False


@kernel
def before(state: State, operator: int, time: int) -> int:
    """Return how many tuples born before that time are at the operator or above it, or on their way there."""
    found = 0
    for visit in range(state.visits.shape[0]):
        e = state.visits[visit]
        if e.wire and e.kind == TUPLE and birth_of(state, visit) < time:
            found += leads_to(state, operator, state.tasks[e.task].operator)
    for task in range(state.cluster.tasks):
        t = state.tasks[task]
        if leads_to(state, operator, t.operator):
            for head in (t.front_head, t.queue_head, t.serving_head, t.back_head, t.side_head):
                found += _listed(state, head, time)
    for k in range(state.withheld.shape[0]):
        if leads_to(state, operator, state.withheld[k].operator):
            found += _listed(state, state.withheld[k].head, time)
    for partition in range(state.partitions.shape[0]):
        u = state.partitions[partition]
        if leads_to(state, operator, u.operator):
            found += _listed(state, u.held_head, time)
            if state.extended and u.post_dated > 0:
                found += _overdue(state, partition, time)
            if u.ticks < u.ticks_due:  # the partition is on its way, or its task is paused
                found += max(0, min(u.ticks_due, (time - 1) // state.operators[u.operator].timer) - u.ticks)
    return found


@kernel
def _overdue(state: State, partition: int, time: int) -> int:
    """Return how many outputs are due that are older: what is of a later time than now cannot be."""
    found, visit = 0, state.partitions[partition].overdue_head
    while visit != NONE:
        e = state.visits[visit]
        if e.created < time:
            found += 1
        visit = e.next
    return found


@kernel
def _listed(state: State, head: Any, time: int) -> int:
    found, visit = 0, head
    while visit != NONE:
        e = state.visits[visit]
        if e.kind == TUPLE and birth_of(state, visit) < time:
            found += 1
        visit = e.next
    return found
