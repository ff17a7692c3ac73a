"""Key groups that move without a second instance: to which tasks senders send, and states that are live nowhere.

A task that was told where groups are has a routing table: a row of `routing` from `tasks.routing` on, with a task for
each partition, or NONE for the one where the partition is. Until a group is taken to its next task (`goal`), what comes
there for it is held; and then until it is put there, since it is not live.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.codes import NONE, TUPLE
from sim.kernel.event_loop.emitting import emit_overdue, emit_ticks
from sim.kernel.event_loop.heard import leave, part
from sim.kernel.event_loop.rules import ANY, held_by_rule, new_rule, rules_without
from sim.kernel.event_loop.tasks import dispatch, note_idle, note_turn, put_in_front
from sim.kernel.event_loop.watermarks import new_mark
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

FREE, PLACED, TAKEN = range(3)


@kernel
def met(state: State, first: int, owners: np.ndarray, from_ns: int) -> int:
    """Return what hinders that the partitions from `first` on go to these tasks (n,): TAKEN before PLACED, or FREE."""
    found = FREE
    for k in range(owners.shape[0]):
        u = state.partitions[first + k]
        if owners[k] != u.task:
            if u.taken == 1:
                return TAKEN
            if u.live and u.goal != NONE and (owners[k] != u.goal or u.placed_from != from_ns):
                found = PLACED
    return found


@kernel
def name(state: State, first: int, owners: np.ndarray, from_ns: int) -> None:
    """Make these tasks (n,) the next ones of the partitions from `first` on, from a time on."""
    for k in range(owners.shape[0]):
        u = state.partitions[first + k]
        # One that is down nobody takes: until that is detected all goes where it went.
        if (u.live or u.taken) and owners[k] != u.task:
            part(state, first + k)
            u.goal = owners[k]
            u.placed_from = from_ns


@kernel
def place(state: State, sender: int, first: int, owners: np.ndarray) -> None:
    """Send outputs of a task for the partitions from `first` on to these tasks (n,), which are their next ones."""
    row = state.tasks[sender].routing
    for k in range(owners.shape[0]):
        u, task = state.partitions[first + k], owners[k]
        if u.live or u.taken:  # where it is the goal stays all the same: something may be on its way there
            state.routing[row + first + k] = NONE if task == u.task else task


@kernel
def all_send_to(state: State, partition: int, senders: np.ndarray, task: int) -> bool:
    """Return whether all these tasks (n,) send what is for a partition to a task that is not its own."""
    for k in range(senders.shape[0]):
        row = state.tasks[senders[k]].routing
        if row == NONE or state.routing[row + partition] != task:
            return False
    return True


@kernel
def is_served(state: State, task: int, marked: np.ndarray) -> bool:
    """Return whether nothing for the marked (n_partitions,) is on its way to the task, or there."""
    for visit in range(state.visits.shape[0]):
        e = state.visits[visit]
        if e.wire and e.task == task and marked[e.partition]:
            return False
    t = state.tasks[task]
    for head in (t.front_head, t.queue_head, t.serving_head, t.back_head, t.side_head):
        visit = head
        while visit != NONE:
            e = state.visits[visit]
            if e.kind == TUPLE and marked[e.partition]:
                return False
            visit = e.next
    return True


@kernel
def forget_tables(state: State, partition: int) -> None:
    """Have all tasks send to where a partition is."""
    for sender in range(state.cluster.tasks):
        row = state.tasks[sender].routing
        if row != NONE:
            state.routing[row + partition] = NONE


@kernel
def note_left(state: State, partition: int) -> None:
    """Note that the partition is about to leave its task, after all that was sent until now."""
    u = state.partitions[partition]
    u.left = new_rule(state, partition, u.task, rules_without(state, u.left, ANY, u.task))


@kernel
def take(state: State, partitions: np.ndarray) -> None:
    """These partitions (n,) are at their next task, and live nowhere."""
    for k in range(partitions.shape[0]):
        u = state.partitions[partitions[k]]
        leave(state, partitions[k], u.goal)
        u.task = u.goal
        u.goal = NONE
        u.placed_from = 0
        u.taken = 1
        u.live = 0
    # Also tasks that nobody has told anything, as those that start only now, send to where a partition is.
    for k in range(partitions.shape[0]):
        forget_tables(state, partitions[k])


@kernel
def stay(state: State, partitions: np.ndarray) -> None:
    """These partitions (n,) stay where they are: their next tasks are dead."""
    for k in range(partitions.shape[0]):
        u = state.partitions[partitions[k]]
        u.goal = NONE
        u.placed_from = 0
        forget_tables(state, partitions[k])


@kernel
def hear_again(state: State, task: int) -> None:
    """Let partitions that stay at a task hear its last watermarks: they have heard at most the time of their step."""
    t = state.tasks[task]
    if t.alive and state.operators[t.operator].timed:
        recall(state, task)
        if t.has_service:
            dispatch(state, t.cores)


@kernel
def _note_end(state: State, partition: int, task: int) -> None:
    """Note when the first window ends of a partition that has come to the task."""
    u, t = state.partitions[partition], state.tasks[task]
    if u.panes != NONE:
        op = state.operators[u.operator]
        t.next_end = min(t.next_end, state.panes[u.panes].window * op.slide + op.length)


@kernel
def recall(state: State, task: int) -> None:
    """Let the partitions of a task hear the last watermark of each channel again, once all in front is served.

    It is a watermark of the task to itself. Nothing is dispatched yet.
    """
    if not state.operators[state.tasks[task].operator].timed:
        return
    visit = new_mark(state, task, task, 0, 1)
    state.visits[visit].ticket = 0  # before all that waits for the cores of the host
    put_in_front(state, visit, task)


@kernel
def put(state: State, partitions: np.ndarray, task: int) -> None:
    """These partitions (n,) are live at the task, where they were expected, and what waits for them goes in front.

    What a rule holds of it goes before all that rules hold: it came before the rule.
    """
    for k in range(partitions.shape[0]):
        u = state.partitions[partitions[k]]
        u.taken = 0
        u.live = 1
        u.live_at = state.clock.serial
        _note_end(state, partitions[k], task)
    for k in range(partitions.shape[0]):  # before what waits is served: it is of an earlier time
        u = state.partitions[partitions[k]]
        if state.operators[u.operator].timer > 0:
            emit_ticks(state, partitions[k], u.ticks_due)
        emit_overdue(state, partitions[k])
    for k in range(partitions.shape[0]):
        if state.partitions[partitions[k]].held_head != NONE:
            # Watermarks that wait for other threads must not pass what goes in front.
            state.partitions[partitions[k]].freed_at = note_turn(state)
    _let_held_go(state, partitions, task)
    state.tasks[task].speaks_anew = 1
    recall(state, task)
    if state.tasks[task].has_service:
        dispatch(state, state.tasks[task].cores)
    note_idle(state, task)


@kernel
def _let_held_go(state: State, partitions: np.ndarray, task: int) -> None:
    """Put in front what is held for these partitions (n,), or before all that rules hold if one holds it."""
    first, last = NONE, NONE
    for k in range(partitions.shape[0]):
        u = state.partitions[partitions[k]]
        held = u.held_head
        u.held_head = u.held_tail = NONE
        u.held_n = 0
        while held != NONE:
            following = state.visits[held].next
            if not held_by_rule(state, held, task):
                put_in_front(state, held, task)
            else:
                state.visits[held].next = NONE
                if first == NONE:
                    first = held
                else:
                    state.visits[last].next = held
                last = held
                state.tasks[task].side_n += 1
            held = following
    if first != NONE:
        state.visits[last].next = state.tasks[task].side_head
        if state.tasks[task].side_tail == NONE:
            state.tasks[task].side_tail = last
        state.tasks[task].side_head = first
