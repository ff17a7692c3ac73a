"""Actions that are handed over with their instants, and done without Python."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.actions import burst, mute, pause, send_message, unalign, unpause
from sim.kernel.event_loop.codes import ACT, CHORE, COME, NONE, UNPAUSE
from sim.kernel.event_loop.events import next_control_number, push
from sim.kernel.event_loop.free_lists import new_visit
from sim.kernel.event_loop.frontiers import look
from sim.kernel.event_loop.tasks import dispatch, put_in_front, ticket
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

ACTIONS = np.dtype([("pending", "i4")])  # the next one at this instant, once the listener was told of the last, or NONE


TIMED = np.dtype([("time", "i8"), ("verb", "i8"), ("last", "i8"), ("of", "i8", (7,))], align=True)


VERBS = ("pause", "unpause", "chore", "send", "unalign", "mute")
_PAUSE, _UNPAUSE, _CHORE, _SEND, _UNALIGN, _MUTE = range(6)


@kernel
def needed(state: State, kind: int, ref: int) -> int:
    """Return the sendings that an event of this module may need."""
    if kind == COME:
        return burst(state, state.visits[ref].task)
    if kind == UNPAUSE:
        return burst(state, ref)
    need, k = 4, ref
    while state.timed[k].time <= state.timed[ref].time:
        r = state.timed[k]
        need += 4
        if r.verb != _SEND and r.verb != _MUTE:  # noqa: PLR1714 - no `in` in compiled code
            need += burst(state, r.of[0])
        if r.last:
            break
        k += 1
    return need


@kernel
def chore(state: State, task: int, ns: int) -> None:
    """Occupy the task, ahead of its queue; nobody is told of the end."""
    if not state.tasks[task].alive or not state.operators[state.tasks[task].operator].has_service:
        return
    visit = new_visit(state)
    e = state.visits[visit]
    e.kind = CHORE
    e.created = ns
    e.ticket = ticket(state, state.tasks[task].host)
    e.wire = 0
    e.replayed = 0
    put_in_front(state, visit, task)
    dispatch(state, state.tasks[task].cores)


@kernel
def take_pending(state: State) -> int:
    """Return the action that comes next at this instant; none is pending any more."""
    pending = state.actions.pending
    state.actions.pending = NONE
    return pending


@kernel
def act(state: State, action: int) -> bool:
    """Do the actions from the k-th on that are due, and set the next; False if something has to be told before."""
    while state.timed[action].time <= state.clock.now:
        r = state.timed[action]
        if r.verb == _PAUSE:
            pause(state, r.of[0], r.of[1])
        elif r.verb == _UNPAUSE:
            unpause(state, r.of[0])
        elif r.verb == _CHORE:
            chore(state, r.of[0], r.of[1])
        elif r.verb == _SEND:
            send_message(state, r.of[0], r.of[1], r.of[2], r.of[3], r.of[4], r.of[5], r.of[6])
        elif r.verb == _UNALIGN:
            unalign(state, r.of[0])
        elif r.verb == _MUTE:
            mute(state, r.of[0], r.of[1])
        if state.frontiers.shape[0] > 0:
            look(state)
        if state.told.count > 0:
            state.actions.pending = NONE if r.last else action + 1
            return False
        if r.last:
            return True
        action += 1
    push(state, state.timed[action].time, 1, next_control_number(state), ACT, action)
    return True
