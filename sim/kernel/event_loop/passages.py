"""Barriers that overtake at a task: over which channels they have come, and copies of the tuples that they pass.

A copy is a visit that is on no wire and in no lane; `replayed` says that the tuple was not sent yet. `in_flight` has
the verbs.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.codes import COPY, MAIL, NONE, TUPLE
from sim.kernel.event_loop.free_lists import free_visit, new_visit
from sim.kernel.event_loop.rules import FAST, take_in_hand
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.draws import UNSURE
from sim.kernel.tools.pointer import State

OVERTAKING = np.dtype([("token", "i8"), ("active", "u1")], align=True)  # newest token of barriers that overtake

BEGUN, RECORDING = 1, 2  # `passage` of a task: a barrier has come; the listener has handled it


@kernel
def overtakes(state: State, token: int) -> bool:
    """Return whether barriers of the token overtake."""
    return bool(state.overtaking.active and token == state.overtaking.token)


@kernel
def is_before(state: State, visit: int, task: int) -> bool:
    """Return whether a tuple that is there came before the barrier of its channel."""
    e, cut = state.visits[visit], state.tasks[task].cuts
    while cut != NONE:
        c = state.visits[cut]
        if (c.origin == NONE or c.origin == e.origin) and c.ticket < e.ticket:  # noqa: PLR1714 - no `in` in compiled code
            return False
        cut = c.next
    return True


@kernel
def copied(state: State, visit: int, kind: int) -> int:
    """Return a copy of a tuple, of that kind, which is nowhere."""
    e, made = state.visits[visit], new_visit(state)
    c = state.visits[made]
    c.kind = kind
    c.id = e.id
    c.created = e.created
    c.key = e.key
    c.partition = e.partition
    c.origin = e.origin
    c.service = UNSURE
    c.next = NONE
    c.node = NONE
    c.wire = 0
    return made


@kernel
def capture(state: State, visit: int, task: int, unsent: int) -> None:
    """Record a tuple as in-flight data of a task, in the checkpoint that is under way."""
    e, made = state.visits[visit], copied(state, visit, COPY)
    state.visits[made].arrived = 0
    state.visits[made].replayed = unsent
    u = state.partitions[e.partition]
    if u.overtaken_head == NONE:
        u.overtaken_head = made
    else:
        state.visits[u.overtaken_tail].next = made
    u.overtaken_tail = made
    state.tasks[task].overtaken += state.operators[state.tasks[e.origin].operator].bytes


@kernel
def record(state: State, visit: int, task: int) -> None:
    """Record a tuple that has just come, if the barrier of its channel is still to come."""
    if is_before(state, visit, task):
        capture(state, visit, task, 0)


@kernel
def capture_unsent(state: State, task: int, receiver: int, end: int) -> None:
    """Record what a task has not sent to another, as far as it stands before an item (NONE: all of it)."""
    visit = state.tasks[task].unsent_head
    while visit != end:
        e = state.visits[visit]
        if e.kind == TUPLE and state.partitions[e.partition].task == receiver:
            capture(state, visit, task, 1)
        visit = state.visits[visit].next


@kernel
def overtaken_by(state: State, visit: int, task: int) -> None:
    """A barrier has come over its channel, of the newest checkpoint whose barriers overtake or of an earlier one."""
    e, t = state.visits[visit], state.tasks[task]
    if not overtakes(state, e.id):  # its checkpoint has ended
        free_visit(state, visit)
        return
    if t.passage == 0:
        begin_passage(state, task, e.id, e.node)
    e.next = t.cuts
    t.cuts = visit
    t.left -= 1
    look_passed(state, task)


@kernel
def begin_passage(state: State, task: int, token: int, channels: int) -> None:
    """The first barrier is handled ahead of both lanes, once the service in progress has ended."""
    t = state.tasks[task]
    t.passage = BEGUN
    t.passing = token
    t.left = channels
    t.hurried = 1
    if t.serving_head == NONE:
        handle_hurried(state, task)


@kernel
def handle_hurried(state: State, task: int) -> None:
    """Tell the listener of the first barrier, unless a service is in progress."""
    t = state.tasks[task]
    if t.serving_head == NONE:
        t.hurried = 0
        _take_barrier(state, task, 0)


@kernel
def look_passed(state: State, task: int) -> None:
    """Tell the listener if it knows of the first barrier and all others have come."""
    t = state.tasks[task]
    if t.passage == RECORDING and t.left == 0:
        _forget_cuts(state, task)
        _take_barrier(state, task, 1)


@kernel
def _take_barrier(state: State, task: int, channels: int) -> None:
    visit = new_visit(state)
    e = state.visits[visit]
    e.kind = MAIL
    e.id = state.tasks[task].passing
    e.created = 0
    e.key = 0
    e.origin = NONE
    e.task = task
    e.node = channels
    e.partition = FAST
    e.next = NONE
    e.wire = 0
    e.arrived = 0
    e.replayed = 0
    take_in_hand(state, visit, task)


@kernel
def _forget_cuts(state: State, task: int) -> None:
    t = state.tasks[task]
    t.passage = 0
    cut = t.cuts
    t.cuts = NONE
    while cut != NONE:
        following = state.visits[cut].next
        free_visit(state, cut)
        cut = following


@kernel
def forget_passage(state: State, task: int) -> None:
    """Forget the barriers that overtake at the task: their checkpoint has ended, or the task."""
    _forget_cuts(state, task)
    state.tasks[task].hurried = 0
    state.tasks[task].overtaken = 0
