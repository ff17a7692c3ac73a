"""What migration protocols do: pauses, holds, messages between tasks, barriers."""

from __future__ import annotations

from sim.clock import PAUSES
from sim.kernel.event_loop.channels import send_mail
from sim.kernel.event_loop.codes import BUNDLE, MAIL, NONE, TUPLE, UNPAUSE
from sim.kernel.event_loop.emitting import emit_arrivals, emit_ticks
from sim.kernel.event_loop.events import next_serial, push
from sim.kernel.event_loop.free_lists import free_visit, new_visit
from sim.kernel.event_loop.outbox import leave_place, put_behind
from sim.kernel.event_loop.rules import (
    ANY,
    FAST,
    STOP,
    WAITS,
    held_by_rule,
    new_rule,
    put_aside,
    rules_without,
    stop,
    take_in_hand,
)
from sim.kernel.event_loop.tasks import (
    admit,
    dispatch,
    drop_bundle,
    note_idle,
    note_turn,
    put_in_front,
    put_in_queue,
    take_head,
    ticket,
)
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State

# -- going on


@kernel
def go_on(s: State, task: int) -> None:
    """The task may start again what waits, unless there is another reason not to."""
    t = s.tasks[task]
    if s.operators[t.operator].has_service:
        dispatch(s, t.cores)
        return
    t.has_service = 0
    while t.hand_head == NONE and t.paused_until == 0:
        if t.front_head == NONE and t.queue_head == NONE:
            return
        admit(s, take_head(s, task), task)
    t.has_service = 1


@kernel
def heard(s: State, task: int) -> None:
    """The listener has been told of the first message in hand, and what it did about it is done."""
    t = s.tasks[task]
    v = t.hand_head
    t.hand_head = s.visits[v].next
    free_visit(s, v)
    if t.hand_head == NONE:
        t.hand_tail = NONE
        t.idle_threads += STOP
    go_on(s, task)
    note_idle(s, task)


@kernel
def burst(s: State, task: int) -> int:
    """Sendings that may follow when the task goes on: of a source, or of one that takes tuples as they come."""
    t = s.tasks[task]
    n = 0
    if not s.operators[t.operator].has_service:
        n += t.queue_n + t.front_n + t.back_n + t.side_n
    for k in range(s.sources.shape[0]):
        b = s.sources[k]
        if s.partitions[b.partition].task == task:
            n += b.arrived - b.emitted
    if s.operators[t.operator].timer > 0:
        for k in range(s.partitions.shape[0]):
            u = s.partitions[k]
            if u.task == task and u.live:
                n += max(0, u.ticks_due - u.ticks)
    return (s.options.fan_out + 2) * (n + 2) + s.operators[t.operator].threads


# -- pauses


@kernel
def pause(s: State, task: int, until: int) -> None:
    """The task starts nothing before `until` (NONE: before it is told); never shortens a pause."""
    t = s.tasks[task]
    if not t.alive or t.paused_until == NONE or (until != NONE and until <= max(t.paused_until, s.clock.now)):
        return
    if t.paused_until == 0:
        stop(s, task)
    t.paused_until = until
    if until != NONE:
        push(s, until, PAUSES + task, next_serial(s), UNPAUSE, task)


@kernel
def pause_ends(s: State, task: int) -> None:
    """The end of a pause has come, if no other made it longer."""
    if s.tasks[task].paused_until == s.clock.now:
        unpause(s, task)


@kernel
def unpause(s: State, task: int) -> None:
    """The pause is over."""
    t = s.tasks[task]
    if not t.alive or t.paused_until == 0:
        return
    t.paused_until = 0
    t.idle_threads += STOP
    for k in range(s.sources.shape[0]):
        b = s.sources[k]
        if s.partitions[b.partition].task == task and s.partitions[b.partition].live:
            emit_arrivals(s, k, b.arrived)
    if s.operators[t.operator].timer > 0:
        for k in range(s.partitions.shape[0]):
            if s.partitions[k].task == task and s.partitions[k].live:
                emit_ticks(s, k, s.partitions[k].ticks_due)
    go_on(s, task)
    note_idle(s, task)


# -- rules


@kernel
def hold(s: State, task: int, partition: int, origin: int) -> None:
    """Tuples for the partition from that task (NONE: all) go to the side list."""
    t = s.tasks[task]
    t.rules = new_rule(s, partition, origin, t.rules)


@kernel
def unhold(s: State, task: int, partition: int) -> None:
    """No more rules for just this partition (NONE: none at all); what none holds any more goes in front."""
    t = s.tasks[task]
    t.rules = rules_without(s, t.rules, ANY if partition == NONE else partition, ANY)
    _let_go(s, task, partition)
    if t.has_service:
        dispatch(s, t.cores)
    note_idle(s, task)


@kernel
def _let_go(s: State, task: int, partition: int) -> None:
    """What no rule holds any more, of that partition (NONE: of all), goes in front."""
    t = s.tasks[task]
    v = t.side_head
    free, last = NONE, NONE
    t.side_head = t.side_tail = NONE
    t.side_n = 0
    while v != NONE:
        following = s.visits[v].next
        if (partition == NONE or s.visits[v].partition == partition) and not held_by_rule(s, v, task):
            s.visits[v].next = NONE
            if free == NONE:
                free = v
            else:
                s.visits[last].next = v
            last = v
        else:
            put_aside(s, v, task)
        v = following
    while free != NONE:
        following = s.visits[free].next
        s.partitions[s.visits[free].partition].freed_at = note_turn(s)
        put_in_front(s, free, task)
        free = following


@kernel
def mute(s: State, partition: int, muted: int) -> None:
    """The partition applies what comes, but emits nothing."""
    s.partitions[partition].muted = muted
    if not muted:
        s.partitions[partition].live_at = s.clock.serial


# -- messages


@kernel
def send_message(
    s: State, sender: int, receiver: int, token: int, waits: int, size: int, work: int, channels: int
) -> None:
    """A message from a task, or (NONE) from control."""
    if sender != NONE and not s.tasks[sender].alive:
        return
    v = new_visit(s)
    e = s.visits[v]
    e.kind = MAIL
    e.id = token
    e.created = work
    e.key = size
    e.origin = sender
    e.task = receiver
    e.node = channels
    e.partition = WAITS if waits or channels > 0 else FAST
    e.next = NONE
    e.wire = 0
    e.arrived = 0
    e.replayed = 0
    if sender != NONE and s.tasks[sender].unsent_head != NONE:
        put_behind(s, v, sender)
    else:
        send_mail(s, v)


@kernel
def come(s: State, v: int) -> None:
    """A message has come over its channel, unless its sender died before it had left."""
    e = s.visits[v]
    lost = not s.tasks[e.task].alive
    if e.origin != NONE:
        origin = s.tasks[e.origin]
        lost = lost or (not origin.alive and origin.died <= e.key)
    if e.kind == BUNDLE:
        bundle_comes(s, v)
    elif lost:
        free_visit(s, v)
    else:
        let_in(s, v, e.task)


@kernel
def bundle_comes(s: State, v: int) -> None:
    """Tuples that were sent again have come as one message, which waits its turn."""
    task, one, left = s.visits[v].task, s.visits[v].created, False
    while one != NONE:
        left = left or s.visits[one].wire == 1
        one = s.visits[one].next
    if left and s.tasks[task].alive:
        let_in(s, v, task)
    else:
        drop_bundle(s, v, task)


@kernel
def held_back(s: State, v: int, task: int) -> bool:
    """Whether the channel of what has come waits behind a barrier: then it waits, too."""
    t = s.tasks[task]
    barrier = t.barriers
    while barrier != NONE:
        if s.visits[barrier].origin == s.visits[v].origin:
            s.visits[v].next = NONE
            if t.back_tail == NONE:
                t.back_head = v
            else:
                s.visits[t.back_tail].next = v
            t.back_tail = v
            t.back_n += 1
            if t.places > 0 and s.visits[v].kind == TUPLE:
                leave_place(s, task)
            return True
        barrier = s.visits[barrier].next
    return False


@kernel
def let_in(s: State, todo: int, task: int) -> None:
    """Tuples and messages of a chain come to the lanes of the task, or behind barriers."""
    t = s.tasks[task]
    while todo != NONE:
        v = todo
        e = s.visits[v]
        todo = e.next
        if t.barriers != NONE and held_back(s, v, task):
            continue
        e.ticket = ticket(s, t.host)
        if e.kind == MAIL and e.node > 0:
            if not _is_last(s, v, task):
                e.next = NONE
                if t.barriers == NONE:
                    t.barriers = v
                else:
                    s.visits[t.barriers_tail].next = v
                t.barriers_tail = v
                continue
            todo = let_through(s, task, e.id, todo)
        _enter(s, v, task)


@kernel
def _is_last(s: State, v: int, task: int) -> bool:
    """Whether this one completes the oldest barrier that waits; another has to wait in turn."""
    e, first = s.visits[v], s.tasks[task].barriers
    if first != NONE and s.visits[first].id != e.id:
        return False
    same = 1
    while first != NONE:
        if s.visits[first].id == e.id:
            same += 1
        first = s.visits[first].next
    return same >= e.node


@kernel
def let_through(s: State, task: int, token: int, rest: int) -> int:
    """The chain of what was held back, barriers of others first, with `rest` behind it; the barrier is forgotten."""
    t = s.tasks[task]
    barrier, todo, last = t.barriers, NONE, NONE
    while barrier != NONE:
        following = s.visits[barrier].next
        if s.visits[barrier].id == token:
            free_visit(s, barrier)
        else:
            if todo == NONE:
                todo = barrier
            else:
                s.visits[last].next = barrier
            last = barrier
        barrier = following
    if t.places > 0:
        v = t.back_head
        while v != NONE:
            if s.visits[v].kind == TUPLE:
                t.taken += 1  # also where there is no place left
            v = s.visits[v].next
    if t.back_head != NONE:
        if todo == NONE:
            todo = t.back_head
        else:
            s.visits[last].next = t.back_head
        last = t.back_tail
    t.barriers = t.barriers_tail = t.back_head = t.back_tail = NONE
    t.back_n = 0
    if todo == NONE:
        return rest
    s.visits[last].next = rest
    return todo


@kernel
def _enter(s: State, v: int, task: int) -> None:
    """Behind all others; a fast message passes the queue."""
    t, e = s.tasks[task], s.visits[v]
    if e.kind == MAIL and (e.partition == FAST or not t.has_service):
        take_in_hand(s, v, task)
    elif not t.has_service:
        kind = e.kind
        if t.places > 0 and kind == TUPLE:
            leave_place(s, task)
        admit(s, v, task)
        if kind == BUNDLE:
            t.queue_n -= 1  # it was in no queue
            while t.front_head != NONE:
                admit(s, take_head(s, task), task)
    else:
        put_in_queue(s, v, task)
        if e.kind != TUPLE:
            t.queue_n -= 1  # only tuples are counted
        dispatch(s, t.cores)


@kernel
def unalign(s: State, task: int) -> None:
    """The oldest barriers that wait are forgotten; what they held back comes now."""
    t = s.tasks[task]
    if not t.alive:
        return
    if t.barriers != NONE:
        let_in(s, let_through(s, task, s.visits[t.barriers].id, NONE), task)
    note_idle(s, task)
