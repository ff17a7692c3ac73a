"""What is asked of a task at each turn: does it hold the tuple, is it a message; and what is beside its lanes."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.codes import NONE, TUPLE
from sim.kernel.event_loop.notices import notify
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State

# NONE: all; of a table entry `since` is how much was sent before it began.
RULE = np.dtype([("since", "i8"), ("partition", "i4"), ("origin", "i4"), ("next", "i4")], align=True)


STOP = 1 << 20  # is taken off the idle threads for each reason to start nothing: then none is left
FAST, WAITS = range(2)  # `partition` of a message
ANY = -2  # whichever partition or task, in place of its number


@kernel
def without_rules(s: State, task: int) -> None:
    """Nothing is beside the lanes of the task, and it has no rule."""
    t = s.tasks[task]
    t.hand_head = t.hand_tail = t.side_head = t.side_tail = t.back_head = t.back_tail = NONE
    t.barriers = t.barriers_tail = t.rules = NONE
    t.side_n = t.back_n = 0
    t.paused_until = 0


@kernel
def new_rule(s: State, partition: int, origin: int, following: int) -> int:
    """A rule or table entry about this partition and task of origin, before another."""
    rule = s.rule_pool.free
    r = s.rules[rule]
    s.rule_pool.free = r.next
    r.partition = partition
    r.origin = origin
    r.since = s.clock.serial
    r.next = following
    return rule


@kernel
def rules_without(s: State, first: int, partition: int, origin: int) -> int:
    """Take the rules of this partition and task of origin (ANY: whichever) out of a list; its first one, or NONE."""
    before, rule = NONE, first
    while rule != NONE:
        r = s.rules[rule]
        following = r.next
        if (partition == ANY or r.partition == partition) and (origin == ANY or r.origin == origin):  # noqa: PLR1714
            if before == NONE:
                first = following
            else:
                s.rules[before].next = following
            r.next = s.rule_pool.free
            s.rule_pool.free = rule
        else:
            before = rule
        rule = following
    return first


@kernel
def stop(s: State, task: int) -> None:
    """There is one more reason to start nothing."""
    t = s.tasks[task]
    t.idle_threads -= STOP
    t.has_service = 1  # what comes to a task without one waits, too


@kernel
def take_in_hand(s: State, v: int, task: int) -> None:
    """The listener is to be told of a message; the task starts nothing before it has been."""
    t = s.tasks[task]
    s.visits[v].next = NONE
    if t.hand_tail == NONE:
        t.hand_head = v
        stop(s, task)
    else:
        s.visits[t.hand_tail].next = v
    t.hand_tail = v
    notify(s, -1 - task)


@kernel
def turn(s: State, v: int, task: int) -> bool:
    """The turn of a message from the queue has come; False if it has to be served first."""
    t = s.tasks[task]
    t.queue_n += 1  # it was not counted: only tuples are
    if s.visits[v].created > 0 and s.operators[t.operator].has_service:
        return False
    take_in_hand(s, v, task)
    return True


@kernel
def holds_from(s: State, partition: int, task: int, origin: int) -> bool:
    """Whether a rule of the task holds what comes from that task for the partition."""
    rule = s.tasks[task].rules
    while rule != NONE:
        r = s.rules[rule]
        of_partition = r.partition == NONE or r.partition == partition  # noqa: PLR1714
        if of_partition and (r.origin == NONE or r.origin == origin):  # noqa: PLR1714
            return True
        rule = r.next
    return False


@kernel
def held_by_rule(s: State, v: int, task: int) -> bool:
    """Whether a rule of the task holds the tuple."""
    return holds_from(s, s.visits[v].partition, task, s.visits[v].origin)


@kernel
def put_aside(s: State, v: int, task: int) -> None:
    """A rule holds the tuple: behind the others that are held."""
    t = s.tasks[task]
    s.visits[v].next = NONE
    if t.side_tail == NONE:
        t.side_head = v
    else:
        s.visits[t.side_tail].next = v
    t.side_tail = v
    t.side_n += 1


@kernel
def beside(s: State, task: int) -> int:
    """Tuples that rules and barriers keep from the lanes of the task."""
    t = s.tasks[task]
    n = t.side_n
    v = t.back_head
    while v != NONE:
        if s.visits[v].kind == TUPLE:
            n += 1
        v = s.visits[v].next
    return n
