"""Keep what a task has made and not sent, for want of a place at the receiver or of a configuration that is late.

A task has room for as many tuples as it has places, in its queue and under way to it together; replays take none.
Unsent outputs are visits that are not on a wire; their `ticket` is the partition that made them. Messages and
watermarks wait behind them and need no room. The tasks whose first unsent output finds no room are a list at its
receiver, in the order in which they began to wait. A task with unsent outputs starts nothing: `_BLOCKED` threads are
taken off its idle ones.

What a task withholds for an operator until it knows where that goes stops nothing: `WITHHELD` is a list of outputs, and
of the watermarks that have to wait behind them.
"""

from __future__ import annotations

import numpy as np

from sim.clock import CREDIT as CREDITS
from sim.clock import RECEIVER
from sim.kernel.event_loop.births import note_birth
from sim.kernel.event_loop.codes import CREDIT, GO_ON, NEVER, NONE, TUPLE
from sim.kernel.event_loop.events import next_serial, push
from sim.kernel.event_loop.threads import hold_thread, let_go_thread
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.draws import UNSURE
from sim.kernel.tools.pointer import State

_BLOCKED = 1 << 30

WITHHELD = np.dtype(
    [
        ("born_from", "i8"),  # what is born earlier leaves at once; NEVER: all does
        ("oldest", "i8"),  # creation time of an output that waits, at least; NEVER: none does
        ("outputs", "i8"),
        ("marks", "i8"),
        ("task", "i4"),
        ("operator", "i4"),  # that it is for
        ("head", "i4"),
        ("tail", "i4"),
        ("next", "i4"),  # of the same task
    ],
    align=True,
)


@kernel
def is_free(state: State, task: int) -> bool:
    """Return whether there is a place for one more; a dead task has room."""
    t = state.tasks[task]
    return t.places == 0 or t.taken < t.places or not t.alive


@kernel
def has_room(state: State, task: int) -> bool:
    """Return whether somebody new can send: a place is free that nobody waits for, or the task is dead."""
    t = state.tasks[task]
    return t.places == 0 or not t.alive or (t.taken < t.places and t.first_waiting == NONE)


@kernel
def give(state: State, task: int) -> None:
    """Let the first that waits go on, if there is room for it, as an event of its own."""
    t = state.tasks[task]
    if t.first_waiting != NONE and not t.giving and is_free(state, task):
        t.giving = 1
        push(state, state.clock.now, CREDITS + RECEIVER + task, next_serial(state), CREDIT, task)


@kernel
def leave_place(state: State, task: int) -> None:
    """A tuple has left the queue, or will never come."""
    state.tasks[task].taken -= 1
    give(state, task)


@kernel
def takes_place(state: State, sender: int, receiver: int) -> bool:
    """Return whether an output can be sent now; then it has taken its place."""
    goal = state.partitions[receiver].task
    if state.tasks[state.partitions[sender].task].unsent_head != NONE or not has_room(state, goal):
        return False
    state.tasks[goal].taken += 1
    return True


@kernel
def put_unsent(
    state: State, visit: int, sender: int, receiver: int, tuple_id: int, created: int, key: int, node: int
) -> None:
    """Put an output behind those that wait, or have it wait for room; `visit` is a new one."""
    origin = state.partitions[sender].task
    t = state.tasks[origin]
    _fill(state, visit, sender, receiver, tuple_id, created, key, node)
    t.unsent_n += 1
    if t.unsent_head == NONE:
        t.unsent_head = visit
        t.unsent_tail = visit
        t.blocked_since = state.clock.now
        t.idle_threads -= _BLOCKED
        hold_thread(state, origin)
        wait_for_room(state, origin)
    else:
        state.visits[t.unsent_tail].next = visit
        t.unsent_tail = visit


@kernel
def _fill(
    state: State, visit: int, sender: int, receiver: int, tuple_id: int, created: int, key: int, node: int
) -> None:
    """Make a new visit an output that is not sent."""
    e = state.visits[visit]
    e.id = tuple_id
    e.created = created
    e.key = key
    e.start = NONE
    e.ticket = sender
    e.service = UNSURE
    e.next = NONE
    e.partition = receiver
    e.origin = state.partitions[sender].task
    e.node = node
    e.kind = TUPLE
    e.wire = 0
    e.arrived = 0
    e.replayed = 0


@kernel
def put_behind(state: State, visit: int, task: int) -> None:
    """A message or a watermark waits behind what is not sent yet, of which there is some; it needs no room."""
    t = state.tasks[task]
    t.unsent_mail += 1
    state.visits[visit].next = NONE
    state.visits[t.unsent_tail].next = visit
    t.unsent_tail = visit


@kernel
def nothing_unsent(state: State, task: int) -> None:
    """The last unsent output is gone: the task may start something."""
    t = state.tasks[task]
    t.unsent_tail = NONE
    t.blocked += state.clock.now - t.blocked_since
    t.idle_threads += _BLOCKED
    let_go_thread(state, task)


@kernel
def wait_for_room(state: State, task: int) -> None:
    """The task joins those that wait at the receiver of its first unsent output."""
    t = state.tasks[task]
    goal = state.partitions[state.visits[t.unsent_head].partition].task
    at = state.tasks[goal]
    t.waits_at = goal
    t.next_waiting = NONE
    if at.first_waiting == NONE:
        at.first_waiting = task
    else:
        state.tasks[at.last_waiting].next_waiting = task
    at.last_waiting = task


@kernel
def stop_waiting(state: State, task: int) -> None:
    """The task does not wait for room any more, if it did."""
    t = state.tasks[task]
    if t.waits_at == NONE:
        return
    at = state.tasks[t.waits_at]
    before, one = NONE, at.first_waiting
    while one != task:
        before, one = one, state.tasks[one].next_waiting
    if before == NONE:
        at.first_waiting = t.next_waiting
    else:
        state.tasks[before].next_waiting = t.next_waiting
    if at.last_waiting == task:
        at.last_waiting = before
    t.waits_at = NONE


@kernel
def go_on_later(state: State, task: int) -> None:
    """The first unsent output was taken away: the task goes on after what control does at this instant."""
    t = state.tasks[task]
    if not t.loose:
        t.loose = 1
        push(state, state.clock.now, CREDITS + task, next_serial(state), GO_ON, task)


# -- what is withheld


@kernel
def withheld_for(state: State, task: int, operator: int) -> int:
    """Return the list of what a task withholds for an operator, or NONE."""
    found = state.tasks[task].withheld
    while found != NONE and state.withheld[found].operator != operator:
        found = state.withheld[found].next
    return found


@kernel
def withholds(state: State, sender: int, receiver: int, created: int) -> int:
    """Return the list in which an output waits that is emitted just now, or NONE."""
    found = withheld_for(state, state.partitions[sender].task, state.partitions[receiver].operator)
    if found != NONE and max(created, state.birth.since) >= state.withheld[found].born_from:
        return found
    return NONE


@kernel
def withhold(
    state: State, found: int, visit: int, sender: int, receiver: int, tuple_id: int, created: int, key: int, node: int
) -> None:
    """Put an output, for which `visit` is a new one, in a list of what is withheld."""
    _fill(state, visit, sender, receiver, tuple_id, created, key, node)
    if state.options.births:
        note_birth(state, visit)
    state.withheld[found].outputs += 1
    state.withheld[found].oldest = min(state.withheld[found].oldest, created)
    _append(state, found, visit)


@kernel
def _append(state: State, found: int, visit: int) -> None:
    w = state.withheld[found]
    state.visits[visit].next = NONE
    if w.head == NONE:
        w.head = visit
    else:
        state.visits[w.tail].next = visit
    w.tail = visit


@kernel
def withholds_mark(state: State, origin: int, task: int, event: int, again: int) -> int:
    """Return the list in which a watermark waits, behind outputs that are older than it says or other ones, or NONE.

    A farewell says nothing, and waits behind any output.
    """
    found = withheld_for(state, origin, state.tasks[task].operator)
    if found == NONE:
        return NONE
    w = state.withheld[found]
    waits = w.marks > 0 or w.oldest < event or (again == 1 and w.outputs > 0)
    return found if waits else NONE


@kernel
def withhold_mark(state: State, found: int, visit: int) -> None:
    """Put a watermark in a list of what is withheld."""
    state.withheld[found].marks += 1
    _append(state, found, visit)


@kernel
def take_withheld(state: State, found: int) -> int:
    """Empty a list of what is withheld; return its first item."""
    w = state.withheld[found]
    head = w.head
    w.head = w.tail = NONE
    w.outputs = w.marks = 0
    w.oldest = w.born_from = NEVER
    return int(head)


@kernel
def count_withheld(state: State, task: int) -> int:
    """Return how many outputs a task withholds."""
    n, found = 0, state.tasks[task].withheld
    while found != NONE:
        n += state.withheld[found].outputs
        found = state.withheld[found].next
    return n


@kernel
def is_withholding(state: State, task: int) -> bool:
    """Return whether a task withholds something."""
    found = state.tasks[task].withheld
    while found != NONE and state.withheld[found].head == NONE:
        found = state.withheld[found].next
    return bool(found != NONE)
