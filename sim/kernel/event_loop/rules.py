"""Rules of a task, asked at each turn: is the tuple held, is it a message; and the items beside its lanes."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.notices import notify
from sim.kernel.event_loop.threads import hold_thread
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

# NONE: all; of a table entry `since` is how much was sent before it began.
RULE = np.dtype([("since", "i8"), ("partition", "i4"), ("origin", "i4"), ("next", "i4")], align=True)


STOP = 1 << 20  # is taken off the idle threads for each reason to start nothing: then none is left
FAST, WAITS, LINES_UP, SHORTENS = range(4)  # `partition` of a message
ANY = -2  # whichever partition or task, in place of its number


@kernel
def without_rules(state: State, task: int) -> None:
    """Nothing is beside the lanes of the task, and it has no rule."""
    t = state.tasks[task]
    t.hand_head = t.hand_tail = t.side_head = t.side_tail = t.back_head = t.back_tail = NONE
    t.barriers = t.barriers_tail = t.rules = t.cuts = NONE
    t.side_n = t.back_n = t.back_tuples = 0
    t.paused_until = 0


@kernel
def new_rule(state: State, partition: int, origin: int, following: int) -> int:
    """Return a rule or table entry about this partition and task of origin, before another."""
    rule = state.rule_pool.free
    r = state.rules[rule]
    state.rule_pool.free = r.next
    r.partition = partition
    r.origin = origin
    r.since = state.clock.serial
    r.next = following
    return rule


@kernel
def rules_without(state: State, first: int, partition: int, origin: int) -> int:
    """Take the rules of this partition and task of origin (ANY: whichever) out of a list; its first one, or NONE."""
    before, rule = NONE, first
    while rule != NONE:
        r = state.rules[rule]
        following = r.next
        if (partition == ANY or r.partition == partition) and (origin == ANY or r.origin == origin):  # noqa: PLR1714
            if before == NONE:
                first = following
            else:
                state.rules[before].next = following
            r.next = state.rule_pool.free
            state.rule_pool.free = rule
        else:
            before = rule
        rule = following
    return first


@kernel
def stop(state: State, task: int) -> None:
    """There is one more reason to start nothing."""
    t = state.tasks[task]
    t.idle_threads -= STOP
    t.has_service = 1  # what comes to a task without one waits, too


@kernel
def take_in_hand(state: State, visit: int, task: int) -> None:
    """The listener is to be told of a message; the task starts nothing before it has been."""
    t = state.tasks[task]
    state.visits[visit].next = NONE
    if t.hand_tail == NONE:
        t.hand_head = visit
        stop(state, task)
        hold_thread(state, task)
    else:
        state.visits[t.hand_tail].next = visit
    t.hand_tail = visit
    notify(state, -1 - task)


@kernel
def turn(state: State, visit: int, task: int) -> bool:
    """Take a message in hand whose turn in the queue has come; False if it has to be served first."""
    t = state.tasks[task]
    t.queue_n += 1  # it was not counted: only tuples are
    if state.visits[visit].created > 0 and state.operators[t.operator].has_service:
        return False
    take_in_hand(state, visit, task)
    return True


@kernel
def holds_from(state: State, partition: int, task: int, origin: int) -> bool:
    """Return whether a rule of the task holds what comes from that task for the partition."""
    rule = state.tasks[task].rules
    while rule != NONE:
        r = state.rules[rule]
        of_partition = r.partition == NONE or r.partition == partition  # noqa: PLR1714
        if of_partition and (r.origin == NONE or r.origin == origin):  # noqa: PLR1714
            return True
        rule = r.next
    return False


@kernel
def held_by_rule(state: State, visit: int, task: int) -> bool:
    """Return whether a rule of the task holds the tuple."""
    return holds_from(state, state.visits[visit].partition, task, state.visits[visit].origin)


@kernel
def put_aside(state: State, visit: int, task: int) -> None:
    """A rule holds the tuple: behind the others that are held."""
    t = state.tasks[task]
    state.visits[visit].next = NONE
    if t.side_tail == NONE:
        t.side_head = visit
    else:
        state.visits[t.side_tail].next = visit
    t.side_tail = visit
    t.side_n += 1


@kernel
def beside(state: State, task: int) -> int:
    """Return the tuples that rules and barriers keep from the lanes of the task."""
    t = state.tasks[task]
    return t.side_n + t.back_tuples
