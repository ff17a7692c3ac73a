"""Processors whose cores are shared evenly, or whose pace others change: all services of a host at the same pace.

`done` of a host, in nanoseconds and parts of one, is the work that a service would have got done since the host's first
instant here: every service gets the same at the same time, so each ends when `done` reaches the `end` that it was given
at its start. They are a pairing heap (Fredman, Sedgewick, Sleator and Tarjan 1986) by end, task and order of start,
linked by `child` and `sibling`.

The event of the next end cannot be taken back when that moves. So each host has a stack of the events that it has set,
earliest on top: one is set only where none comes before or with the next end, and one that comes too early looks again.
The stack is short; an event that no longer has a place in it is found to be nobody's end when it comes.

All is exact in whole numbers: `done` is rounded down, the instant of an end up, so an end is never found too early.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.clock import SERVICE
from sim.kernel.event_loop.codes import DUE, END, MARK, NEVER, NONE, STALE, TUPLE
from sim.kernel.event_loop.counting import count_work
from sim.kernel.event_loop.entities import WAKES
from sim.kernel.event_loop.events import next_serial, push, task_of
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State
from sim.pace import FAR_NS, FULL, PARTS

# A service in progress on such a host, at the place of its visit.
SERVICE_SHARE = np.dtype(
    [
        ("begin", "i8"),  # `done` of the host at its start
        ("end", "i8"),  # and at its end
        ("part", "i8"),  # parts of a nanosecond of both
        ("serial", "i8"),
        ("task", "i4"),
        ("before", "i4"),  # in the list of its task, unless it is the head
        ("child", "i4"),
        ("sibling", "i4"),
    ],
    align=True,
)


_MOST = 1 << 62


@kernel
def times_fraction(a: int, num: int, den: int) -> tuple[Any, Any]:
    """Return the quotient and rest of a * num / den for 0 <= a < den < 2^61, whatever a * num is; exact."""
    quotient, rest, bit = np.int64(0), np.int64(0), np.int64(1)
    while bit <= num >> 1:
        bit <<= 1
    while bit > 0:
        quotient, rest = 2 * quotient, 2 * rest
        if num & bit:
            rest += a
        while rest >= den:
            rest -= den
            quotient += 1
        bit >>= 1
    return quotient, rest


@kernel
def _product(a: int, num: int, den: int) -> tuple[Any, Any]:
    """Return the quotient and rest of a * num / den, where the quotient fits."""
    whole, rest = a // den, a % den
    if num <= _MOST // den:
        return whole * num + rest * num // den, rest * num % den
    quotient, left = times_fraction(rest, num, den)
    return whole * num + quotient, left


@kernel
def work_in(span: int, num: int, den: int) -> tuple[Any, Any]:
    """Return the work that is done in a span at num / den <= 1, rounded down: nanoseconds, and parts of one."""
    if num == den:
        return np.int64(span), np.int64(0)
    whole, rest = _product(span, num, den)
    return whole, rest * PARTS // den


@kernel
def span_for(work: int, part: int, num: int, den: int) -> Any:
    """Return the time that so many nanoseconds of work, and parts of one, take at num / den <= 1, rounded up.

    FAR_NS or about that where it is longer. There are less than 2^24 services on a host, so that all fits.
    """
    if num == den:
        return np.int64(work) + (1 if part > 0 else 0)
    if work // num >= FAR_NS // den:
        return np.int64(FAR_NS)
    whole, rest = _product(work, den, num)
    partition = num * PARTS
    return whole + (rest * PARTS + part * den + partition - 1) // partition


@kernel
def rate(state: State, host: int) -> tuple[Any, Any]:
    """Return the work that a service gets done in a nanosecond, as a fraction."""
    h = state.hosts[host]
    n, cores = np.int64(h.in_service), np.int64(h.core_count)
    if h.even and n > cores:
        return h.pace * cores, FULL * n
    return np.int64(h.pace), np.int64(FULL)


@kernel
def done_by(state: State, host: int, time: int) -> tuple[Any, Any]:
    """Return `done` at an instant not before the last change, if nothing changes until then, and its part."""
    h = state.hosts[host]
    num, den = rate(state, host)
    work, part = work_in(time - h.changed, num, den)
    part += h.done_part
    return h.done + work + part // PARTS, part % PARTS


@kernel
def settle(state: State, host: int) -> None:
    """Bring `done` up to now. Call this before anything changes that the pace follows from."""
    h, now, warmup = state.hosts[host], state.clock.now, state.options.warmup
    if not h.warm and now >= warmup:
        h.warm = 1
        h.done_before, h.before_part = done_by(state, host, warmup)
    h.done, h.done_part = done_by(state, host, now)
    h.changed = now


@kernel
def _before(state: State, one: int, other: int) -> bool:
    """Return whether a service ends before another one."""
    a, b = state.services[one], state.services[other]
    if a.end != b.end:
        return a.end < b.end
    if a.part != b.part:
        return a.part < b.part
    if a.task != b.task:
        return a.task < b.task
    return a.serial < b.serial


@kernel
def _meld(state: State, one: int, other: int) -> int:
    """Return the heap of two, neither of which has siblings."""
    if one == NONE:
        return other
    if other == NONE:
        return one
    if _before(state, other, one):
        one, other = other, one
    state.services[other].sibling = state.services[one].child
    state.services[one].child = other
    return one


@kernel
def _without_root(state: State, root: int) -> int:
    """Return the heap of the root's children, melded in pairs from the first on, then pair by pair from the last on."""
    pairs, one = NONE, state.services[root].child
    while one != NONE:
        other = state.services[one].sibling
        state.services[one].sibling = NONE
        following = NONE
        if other != NONE:
            following = state.services[other].sibling
            state.services[other].sibling = NONE
        pair = _meld(state, one, other)
        state.services[pair].sibling = pairs
        pairs, one = pair, following
    made = NONE
    while pairs != NONE:
        following = state.services[pairs].sibling
        state.services[pairs].sibling = NONE
        made = _meld(state, made, pairs)
        pairs = following
    return made


@kernel
def _enter(state: State, visit: int, task: int, host: int, begin: int, work: int, before: int) -> None:
    """A service of so much work, at whose start `done` was `begin`; `before` it in the list of the task."""
    h, one = state.hosts[host], state.services[visit]
    one.begin = begin
    one.end = begin + work
    one.part = h.done_part
    one.serial = next_serial(state)
    one.task = task
    one.before = before
    one.child = one.sibling = NONE
    h.in_service += 1
    h.root = _meld(state, h.root, visit)


@kernel
def begin_service(state: State, visit: int, task: int, work: int, before: int) -> None:
    """A service of so much work begins; it is in the list of those of the task already."""
    host = state.tasks[task].host
    settle(state, host)  # with the pace of those that were there; from `_enter` on it is another
    _enter(state, visit, task, host, state.hosts[host].done, work, before)
    set_end(state, host)


@kernel
def set_end(state: State, host: int) -> None:
    """The next end, from what is in service and the pace now."""
    h, now = state.hosts[host], state.clock.now
    h.next_time = FAR_NS
    if h.root == NONE:
        return
    first = state.services[h.root]
    num, den = rate(state, host)
    left, part = first.end - h.done, first.part - h.done_part
    if part < 0:
        left, part = left - 1, part + PARTS
    if left < 0:  # it ends now: rounding up has done more than its work
        h.next_time = now
    else:
        h.next_time = min(FAR_NS, now + span_for(left, part, num, den))
    h.next_task = first.task
    _wake(state, host)


@kernel
def _wake(state: State, host: int) -> None:
    """See that an event comes at the next end or before it."""
    h = state.hosts[host]
    time, task = h.next_time, h.next_task
    if time >= FAR_NS:
        return
    n = h.wakes
    if n > 0:
        top = h.wake_time[n - 1]
        if top < time or (top == time and h.wake_task[n - 1] <= task):
            return  # that one looks again when it comes
    if n == WAKES:  # forget the latest: it comes all the same, and may be set a second time
        for k in range(WAKES - 1):
            h.wake_time[k] = h.wake_time[k + 1]
            h.wake_task[k] = h.wake_task[k + 1]
        n = WAKES - 1
    h.wake_time[n] = time
    h.wake_task[n] = task
    h.wakes = n + 1
    push(state, time, SERVICE + task, next_serial(state), DUE, host)


@kernel
def ended(state: State, host: int, task: int) -> Any:
    """Return the service that ends now, at the event of a host and a task, or NONE; it becomes the task's first."""
    h = state.hosts[host]
    n = h.wakes
    if n > 0 and h.wake_time[n - 1] == state.clock.now and h.wake_task[n - 1] == task:
        h.wakes = n - 1
    if h.next_time != state.clock.now or h.next_task != task:  # the end has moved since this event was set
        _wake(state, host)
        return NONE
    settle(state, host)
    visit = np.int64(h.root)
    h.root = _without_root(state, h.root)
    h.in_service -= 1
    _account(state, visit, host)
    _put_first(state, visit, task)
    # The loop adds the time in service, which is more than the work.
    one = state.services[visit]
    less = one.end - one.begin - (state.clock.now - state.visits[visit].start)
    state.tasks[task].busy += less
    if state.options.counts_load:
        count_work(state, visit, less)
    set_end(state, host)
    return visit


@kernel
def _put_first(state: State, visit: Any, task: int) -> None:
    """Move a service to the head of its task's list, from which it is taken off next."""
    t, before = state.tasks[task], state.services[visit].before
    if t.serving_head == visit:
        return
    following = state.visits[visit].next
    state.visits[before].next = following
    if following == NONE:
        t.serving_tail = before
    else:
        state.services[following].before = before
    state.visits[visit].next = t.serving_head
    state.services[t.serving_head].before = visit
    t.serving_head = visit


@kernel
def _used(state: State, visit: Any, done: int, part: int, before: int, before_part: int) -> Any:
    """CPU time of a service from the warm-up, at whose end `done` was `before`, until `done` is that."""
    one = state.services[visit]
    work = one.end - one.begin
    now = min(work, done - one.begin - (1 if part < one.part else 0))
    return now - max(0, min(work, before - one.begin - (1 if before_part < one.part else 0)))


@kernel
def _account(state: State, visit: Any, host: int) -> None:
    """The accounts of a task: its tuple ends, or is cut off, now."""
    h, e, one = state.hosts[host], state.visits[visit], state.services[visit]
    if e.kind == TUPLE and h.warm and state.clock.now > state.options.warmup:
        t = state.tasks[one.task]
        t.served += state.clock.now - max(e.start, state.options.warmup)
        t.used += _used(state, visit, h.done, h.done_part, h.done_before, h.before_part)


@kernel
def stop(state: State, host: int, tasks: np.ndarray) -> None:
    """The host dies with these tasks, whose services are still in their lists."""
    h = state.hosts[host]
    settle(state, host)
    for k in range(tasks.shape[0]):
        visit = state.tasks[tasks[k]].serving_head
        while visit != NONE:
            _account(state, visit, host)
            visit = state.visits[visit].next
    h.root = NONE
    h.in_service = 0
    h.next_time = FAR_NS


@kernel
def forget_services(state: State, task: int) -> None:
    """The task is killed, whose services are still in its list; those of others go on, perhaps at a higher pace."""
    host = state.tasks[task].host
    h = state.hosts[host]
    settle(state, host)
    visit = state.tasks[task].serving_head
    while visit != NONE:
        _account(state, visit, host)
        visit = state.visits[visit].next
    # A pairing heap gives up its root only: make a new one of the services that are left.
    h.root = NONE
    h.in_service = 0
    for other in range(state.cluster.tasks):
        if other != task and _is_at(state, other, host):
            _put_back(state, other, host)
    set_end(state, host)


@kernel
def _put_back(state: State, task: int, host: int) -> None:
    """Enter the services of a task into the heap of its host once more, as they are."""
    h = state.hosts[host]
    visit = state.tasks[task].serving_head
    while visit != NONE:
        if state.visits[visit].kind != MARK:
            state.services[visit].child = state.services[visit].sibling = NONE
            h.root = _meld(state, h.root, visit)
            h.in_service += 1
        visit = state.visits[visit].next


@kernel
def _is_at(state: State, task: int, host: int) -> bool:
    return bool(state.tasks[task].alive and state.tasks[task].host == host)


@kernel
def take_over(state: State, host: int) -> None:
    """Take over the services of a host that were begun at full pace: they go on here, and their end events are void."""
    h = state.hosts[host]
    h.paced = 1
    h.pace = FULL
    h.root = NONE
    h.next_time = FAR_NS
    h.changed = state.clock.now
    if state.clock.now >= state.options.warmup:
        h.warm = 1
        h.done_before = state.options.warmup - state.clock.now
    for k in range(state.queue.in_heap):
        event = state.heap[k]
        if event.kind == END and _is_at(state, event.rank - SERVICE, host):
            event.kind = STALE
            state.services[event.ref].end = event.time - state.clock.now
    for place in range(state.own.shape[0]):
        own, number = state.own[place], state.tournament[state.own.shape[0] + place]
        if number != NEVER and own.kind == END and _is_at(state, task_of(state, number), host):
            own.kind = STALE
            state.services[own.ref].end = (number >> state.queue.task_bits) - state.clock.now
    for task in range(state.cluster.tasks):
        if state.tasks[task].alive and state.tasks[task].host == host:
            before, visit = NONE, state.tasks[task].serving_head
            while visit != NONE:
                if state.visits[visit].kind != MARK:
                    begin = state.visits[visit].start - state.clock.now
                    _enter(state, visit, task, host, begin, state.services[visit].end - begin, before)
                before, visit = visit, state.visits[visit].next
    set_end(state, host)


@kernel
def set_pace(state: State, host: int, pace: int) -> None:
    """So many parts per million of a core's speed are left from now on."""
    h = state.hosts[host]
    if not h.paced:
        if pace == FULL:
            return
        take_over(state, host)
    if pace != h.pace:
        settle(state, host)
        h.pace = pace
        set_end(state, host)


@kernel
def used(state: State, task: int) -> tuple[int, int]:
    """(time in service, CPU time used in it) of the tuples of a task from the warm-up until now."""
    t = state.tasks[task]
    host = t.host
    h = state.hosts[host]
    served, cpu = t.served, t.used
    if state.clock.now > state.options.warmup:
        done, part = done_by(state, host, state.clock.now)
        before, before_part = done_by(state, host, max(state.options.warmup, h.changed))
        if h.warm:
            before, before_part = h.done_before, h.before_part
        visit = t.serving_head
        while visit != NONE:
            if state.visits[visit].kind == TUPLE:
                served += state.clock.now - max(state.visits[visit].start, state.options.warmup)
                cpu += _used(state, visit, done, part, before, before_part)
            visit = state.visits[visit].next
    return served, cpu
