"""Tuples that leave the side list of a task for a parcel, and come out of it at a task."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.codes import NONE, TUPLE
from sim.kernel.event_loop.events import next_serial
from sim.kernel.event_loop.free_lists import free_visit, new_visit
from sim.kernel.event_loop.heard import part
from sim.kernel.event_loop.tasks import dispatch, note_idle, note_turn, one_replayed, put_in_front, ticket
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.draws import UNSURE
from sim.kernel.tools.pointer import State

CAPTURED = np.dtype(
    [
        ("id", "u8"),
        ("created", "i8"),
        ("key", "i8"),
        ("arrival", "i8"),
        ("partition", "i8"),
        ("origin", "i8"),
        ("attempt", "i8"),  # of the root that it is anchored to, as in `anchors`
        ("root", "i8"),
    ],
    align=True,
)


@kernel
def capture(state: State, task: int, tuples: np.ndarray) -> None:
    """Move the tuples that rules hold at the task into an array (side_n,); the rules stay."""
    t = state.tasks[task]
    side = t.side_head
    t.side_head = t.side_tail = NONE
    t.side_n = 0
    for k in range(tuples.shape[0]):
        visit = side
        e, one = state.visits[visit], tuples[k]
        side = e.next
        one.id = e.id
        one.created = e.created
        one.key = e.key
        one.arrival = e.arrival
        one.partition = e.partition
        one.origin = e.origin
        if state.options.acks:
            one.root = state.anchors[visit].root
            one.attempt = state.anchors[visit].attempt
        replayed = e.replayed
        free_visit(state, visit)
        if replayed:
            one_replayed(state, one.partition, task)
    note_idle(state, task)


@kernel
def put_tuples(state: State, task: int, tuples: np.ndarray) -> None:
    """Put new tuples with these ids in front of the queue, in order; they arrive now."""
    head, tail = NONE, NONE
    for k in range(tuples.shape[0]):
        visit = _new_tuple(state, task, tuples[k])
        if head == NONE:
            head = visit
        else:
            state.visits[tail].next = visit
        tail = visit
    # Note them before they are served: watermarks that wait must not pass them.
    for k in range(tuples.shape[0]):
        part(state, tuples[k].partition)
        state.partitions[tuples[k].partition].freed_at = note_turn(state)
    while head != NONE:
        following = state.visits[head].next
        put_in_front(state, head, task)
        head = following
    if state.tasks[task].has_service:
        dispatch(state, state.tasks[task].cores)
    note_idle(state, task)


@kernel
def _new_tuple(state: State, task: int, captured: Any) -> int:
    visit = new_visit(state)
    e = state.visits[visit]
    e.id = captured.id
    e.created = captured.created
    e.key = captured.key
    e.arrival = state.clock.now
    e.start = NONE
    e.serial = next_serial(state)
    e.ticket = ticket(state, state.tasks[task].host)
    e.service = UNSURE
    e.next = NONE
    e.partition = captured.partition
    e.origin = captured.origin
    e.task = task
    e.node = NONE
    e.kind = TUPLE
    e.wire = 0
    e.arrived = 1
    e.replayed = 0
    if state.options.acks:
        a = state.anchors[visit]
        a.root = captured.root
        a.attempt = captured.attempt
    return visit
