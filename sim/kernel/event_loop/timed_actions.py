"""Actions that are handed over with their instants, and done without Python."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.actions import burst, mute, pause, send_message, unalign, unpause
from sim.kernel.event_loop.codes import ACT, CHORE, COME, NONE, UNPAUSE
from sim.kernel.event_loop.events import next_control_number, push
from sim.kernel.event_loop.free_lists import new_visit
from sim.kernel.event_loop.tasks import dispatch, put_in_front, ticket
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State

ACTIONS = np.dtype([("pending", "i4")])  # the next one at this instant, once the listener was told of the last, or NONE


TIMED = np.dtype([("time", "i8"), ("verb", "i8"), ("last", "i8"), ("of", "i8", (7,))], align=True)


VERBS = ("pause", "unpause", "chore", "send", "unalign", "mute")
_PAUSE, _UNPAUSE, _CHORE, _SEND, _UNALIGN, _MUTE = range(6)


@kernel
def needed(s: State, kind: int, ref: int) -> int:
    """Sendings that an event of this module may need."""
    if kind == COME:
        return burst(s, s.visits[ref].task)
    if kind == UNPAUSE:
        return burst(s, ref)
    need, k = 4, ref
    while s.timed[k].time <= s.timed[ref].time:
        r = s.timed[k]
        need += 4
        if r.verb != _SEND and r.verb != _MUTE:  # noqa: PLR1714 - no `in` in compiled code
            need += burst(s, r.of[0])
        if r.last:
            break
        k += 1
    return need


@kernel
def chore(s: State, task: int, ns: int) -> None:
    """Occupy the task, ahead of its queue; nobody is told of the end."""
    if not s.tasks[task].alive or not s.operators[s.tasks[task].operator].has_service:
        return
    v = new_visit(s)
    e = s.visits[v]
    e.kind = CHORE
    e.created = ns
    e.ticket = ticket(s, s.tasks[task].host)
    e.wire = 0
    e.replayed = 0
    put_in_front(s, v, task)
    dispatch(s, s.tasks[task].cores)


@kernel
def take_pending(s: State) -> int:
    """Return the action that comes next at this instant; none is pending any more."""
    pending = s.actions.pending
    s.actions.pending = NONE
    return pending


@kernel
def act(s: State, k: int) -> bool:
    """Do the actions from the k-th on that are due, and set the next; False if something has to be told before."""
    while s.timed[k].time <= s.clock.now:
        r = s.timed[k]
        if r.verb == _PAUSE:
            pause(s, r.of[0], r.of[1])
        elif r.verb == _UNPAUSE:
            unpause(s, r.of[0])
        elif r.verb == _CHORE:
            chore(s, r.of[0], r.of[1])
        elif r.verb == _SEND:
            send_message(s, r.of[0], r.of[1], r.of[2], r.of[3], r.of[4], r.of[5], r.of[6])
        elif r.verb == _UNALIGN:
            unalign(s, r.of[0])
        elif r.verb == _MUTE:
            mute(s, r.of[0], r.of[1])
        if s.told.count > 0:
            s.actions.pending = NONE if r.last else k + 1
            return False
        if r.last:
            return True
        k += 1
    push(s, s.timed[k].time, 1, next_control_number(s), ACT, k)
    return True
