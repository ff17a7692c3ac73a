"""Actions of migration protocols: pauses, holds, messages between tasks, barriers."""

from __future__ import annotations

import numpy as np

from sim.clock import PAUSES
from sim.kernel.event_loop.channels import send_mail
from sim.kernel.event_loop.codes import BUNDLE, MAIL, NONE, TUPLE, UNPAUSE
from sim.kernel.event_loop.emitting import emit_all_overdue, emit_arrivals, emit_ticks, overdue
from sim.kernel.event_loop.events import next_serial, push
from sim.kernel.event_loop.free_lists import free_visit, new_visit
from sim.kernel.event_loop.heard import part, part_all, silence
from sim.kernel.event_loop.outbox import leave_place, put_behind
from sim.kernel.event_loop.passages import capture_unsent, overtaken_by, overtakes
from sim.kernel.event_loop.placing import recall
from sim.kernel.event_loop.roots import most_emitted
from sim.kernel.event_loop.rules import (
    ANY,
    FAST,
    LINES_UP,
    SHORTENS,
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
from sim.kernel.event_loop.threads import let_go_thread, shares_thread
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

# -- going on


@kernel
def go_on(state: State, task: int) -> None:
    """The task may start again what waits, unless there is another reason not to."""
    t = state.tasks[task]
    if state.operators[t.operator].has_service:
        dispatch(state, t.cores)
        return
    t.has_service = 0
    while t.hand_head == NONE and t.paused_until == 0:
        if t.front_head == NONE and t.queue_head == NONE:
            return
        admit(state, take_head(state, task), task)
    t.has_service = 1


@kernel
def heard(state: State, task: int) -> None:
    """The listener has been told of the first message in hand, and what it did about it is done."""
    t = state.tasks[task]
    visit = t.hand_head
    t.hand_head = state.visits[visit].next
    free_visit(state, visit)
    if t.hand_head == NONE:
        t.hand_tail = NONE
        t.idle_threads += STOP
        let_go_thread(state, task)
    go_on(state, task)
    note_idle(state, task)


@kernel
def burst(state: State, task: int) -> int:
    """Return how many sendings may follow when the task goes on.

    They are those of a source, or of a task that takes tuples as they come.
    """
    t = state.tasks[task]
    n = 0
    if not state.operators[t.operator].has_service:
        waiting = t.queue_n + t.front_n + t.back_n + t.side_n
        if state.operators[t.operator].is_sink and not state.options.acks:  # nothing follows from what it takes
            state.room.passing += waiting
        else:
            n += waiting
    for k in range(state.sources.shape[0]):
        b = state.sources[k]
        if state.partitions[b.partition].task == task:
            n += most_emitted(state, k)
    if state.operators[t.operator].timer > 0:
        for k in range(state.partitions.shape[0]):
            u = state.partitions[k]
            if u.task == task and u.live:
                n += max(0, u.ticks_due - u.ticks)
    if state.operators[t.operator].postpones:
        for k in range(state.partitions.shape[0]):
            if state.partitions[k].task == task:
                n += overdue(state, k)
    return (state.options.fan_out + 2) * (n + 2) + state.operators[t.operator].threads


# -- pauses


@kernel
def pause(state: State, task: int, until: int) -> None:
    """The task starts nothing before `until` (NONE: before it is told); never shortens a pause."""
    t = state.tasks[task]
    if not t.alive or t.paused_until == NONE or (until != NONE and until <= max(t.paused_until, state.clock.now)):
        return
    if t.paused_until == 0:
        stop(state, task)
    t.paused_until = until
    if until != NONE:
        push(state, until, PAUSES + task, next_serial(state), UNPAUSE, task)


@kernel
def pause_ends(state: State, task: int) -> None:
    """The end of a pause has come, if no other made it longer."""
    if state.tasks[task].paused_until == state.clock.now:
        unpause(state, task)


@kernel
def unpause(state: State, task: int) -> None:
    """The pause is over."""
    t = state.tasks[task]
    if not t.alive or t.paused_until == 0:
        return
    t.paused_until = 0
    t.idle_threads += STOP
    for k in range(state.sources.shape[0]):
        b = state.sources[k]
        if state.partitions[b.partition].task == task and state.partitions[b.partition].live:
            emit_arrivals(state, k, b.arrived)
    if state.operators[t.operator].timer > 0:
        for k in range(state.partitions.shape[0]):
            if state.partitions[k].task == task and state.partitions[k].live:
                emit_ticks(state, k, state.partitions[k].ticks_due)
    emit_all_overdue(state, task)
    go_on(state, task)
    note_idle(state, task)


# -- rules


@kernel
def hold(state: State, task: int, partition: int, origin: int) -> None:
    """Tuples for the partition from that task (NONE: all) go to the side list."""
    t = state.tasks[task]
    if partition == NONE:
        part_all(state, task)
    else:
        part(state, partition)
    t.rules = new_rule(state, partition, origin, t.rules)


@kernel
def unhold(state: State, task: int, partition: int) -> None:
    """No more rules for just this partition (NONE: none at all); what none holds any more goes in front."""
    t = state.tasks[task]
    t.rules = rules_without(state, t.rules, ANY if partition == NONE else partition, ANY)
    emit_all_overdue(state, task)
    _let_go(state, task, partition)
    if state.options.placed:
        recall(state, task)
    if t.has_service:
        dispatch(state, t.cores)
    note_idle(state, task)


@kernel
def _let_go(state: State, task: int, partition: int) -> None:
    """Put in front what no rule holds any more, of that partition (NONE: of all)."""
    t = state.tasks[task]
    visit = t.side_head
    free, last = NONE, NONE
    t.side_head = t.side_tail = NONE
    t.side_n = 0
    while visit != NONE:
        following = state.visits[visit].next
        if (partition == NONE or state.visits[visit].partition == partition) and not held_by_rule(state, visit, task):
            state.visits[visit].next = NONE
            if free == NONE:
                free = visit
            else:
                state.visits[last].next = visit
            last = visit
        else:
            put_aside(state, visit, task)
        visit = following
    while free != NONE:
        following = state.visits[free].next
        part(state, state.visits[free].partition)
        state.partitions[state.visits[free].partition].freed_at = note_turn(state)
        put_in_front(state, free, task)
        free = following


@kernel
def mute(state: State, partition: int, muted: int) -> None:
    """The partition applies what comes, but emits nothing."""
    silence(state, partition)
    state.partitions[partition].muted = muted
    if not muted:
        state.partitions[partition].live_at = state.clock.serial


# -- messages


@kernel
def send_message(
    state: State, sender: int, receiver: int, token: int, waits: int, size: int, work: int, channels: int
) -> None:
    """A message from a task, or (NONE) from control; `waits` is FAST, WAITS, LINES_UP or SHORTENS."""
    if sender != NONE and not state.tasks[sender].alive:
        return
    visit = new_visit(state)
    e = state.visits[visit]
    e.kind = MAIL
    e.id = token
    e.created = work
    e.key = size
    e.origin = sender
    e.task = receiver
    e.node = channels
    e.partition = WAITS if channels > 0 else waits
    e.arrival = state.clock.now  # of one that lines up: when it was sent
    e.next = NONE
    e.wire = 0
    e.arrived = 0
    e.replayed = 0
    if sender != NONE and channels > 0 and overtakes(state, token):
        capture_unsent(state, sender, receiver, NONE)
        send_mail(state, visit)
    elif sender != NONE and state.tasks[sender].unsent_head != NONE:
        put_behind(state, visit, sender)
    else:
        send_mail(state, visit)


@kernel
def send_messages(state: State, mail: np.ndarray) -> None:
    """Messages in order; `mail` (n, 7) has the arguments of each."""
    for k in range(mail.shape[0]):
        send_message(state, mail[k, 0], mail[k, 1], mail[k, 2], mail[k, 3], mail[k, 4], mail[k, 5], mail[k, 6])


@kernel
def has_waited(state: State, visit: int) -> bool:
    """Return whether something may have come behind a message that has lined up: its turn was not at once."""
    e = state.visits[visit]
    if e.kind == MAIL and e.partition == SHORTENS:
        return bool(e.service == NONE or state.clock.now - e.arrival < e.service)
    return bool(e.kind == MAIL and e.partition == LINES_UP and e.arrival < state.clock.now)


@kernel
def line_up(state: State, task: int, token: int, waits: int, before: int) -> None:
    """A message of a task to itself that is sent again; the one before it has waited for so long, or NONE."""
    if state.tasks[task].alive:
        visit = state.visit_pool.free
        send_message(state, task, task, token, waits, 0, 0, 0)
        state.visits[visit].service = before


@kernel
def come(state: State, visit: int) -> None:
    """A message has come over its channel, unless its sender died before it had left."""
    e = state.visits[visit]
    lost = not state.tasks[e.task].alive
    if e.origin != NONE:
        origin = state.tasks[e.origin]
        lost = lost or (not origin.alive and origin.died <= e.key)
    if e.kind == BUNDLE:
        bundle_comes(state, visit)
    elif lost:
        free_visit(state, visit)
    elif shares_thread(state, e.origin, e.task):
        task = e.task
        let_go_thread(state, task)
        let_in(state, visit, task)
        dispatch(state, state.tasks[task].cores)
    else:
        let_in(state, visit, e.task)


@kernel
def bundle_comes(state: State, visit: int) -> None:
    """Tuples that were sent again have come as one message, which waits its turn."""
    task, one, left = state.visits[visit].task, state.visits[visit].created, False
    while one != NONE:
        left = left or state.visits[one].wire == 1
        one = state.visits[one].next
    if left and state.tasks[task].alive:
        let_in(state, visit, task)
    else:
        drop_bundle(state, visit, task)


@kernel
def held_back(state: State, visit: int, task: int) -> bool:
    """Return whether the channel of what has come waits behind a barrier: then it waits, too."""
    t = state.tasks[task]
    barrier = t.barriers
    while barrier != NONE:
        if state.visits[barrier].origin == state.visits[visit].origin:
            state.visits[visit].next = NONE
            if t.back_tail == NONE:
                t.back_head = visit
            else:
                state.visits[t.back_tail].next = visit
            t.back_tail = visit
            t.back_n += 1
            t.back_tuples += state.visits[visit].kind == TUPLE
            if t.places > 0 and state.visits[visit].kind == TUPLE:
                leave_place(state, task)
            return True
        barrier = state.visits[barrier].next
    return False


@kernel
def let_in(state: State, todo: int, task: int) -> None:
    """Tuples and messages of a chain come to the lanes of the task, or behind barriers."""
    t = state.tasks[task]
    while todo != NONE:
        visit = todo
        e = state.visits[visit]
        todo = e.next
        if t.barriers != NONE and held_back(state, visit, task):
            continue
        e.ticket = ticket(state, t.host)
        if e.kind == MAIL and e.node > 0:
            if e.id <= state.overtaking.token:
                overtaken_by(state, visit, task)
                continue
            if not _is_last(state, visit, task):
                e.next = NONE
                if t.barriers == NONE:
                    t.barriers = visit
                else:
                    state.visits[t.barriers_tail].next = visit
                t.barriers_tail = visit
                continue
            todo = let_through(state, task, e.id, todo)
        _enter(state, visit, task)


@kernel
def _is_last(state: State, visit: int, task: int) -> bool:
    """Return whether this one completes the oldest barrier that waits; another has to wait in turn."""
    e, first = state.visits[visit], state.tasks[task].barriers
    if first != NONE and state.visits[first].id != e.id:
        return False
    same = 1
    while first != NONE:
        if state.visits[first].id == e.id:
            same += 1
        first = state.visits[first].next
    return same >= e.node


@kernel
def let_through(state: State, task: int, token: int, rest: int) -> int:
    """Forget the barrier and return the chain of what it held back: barriers of others first, `rest` last."""
    t = state.tasks[task]
    barrier, todo, last = t.barriers, NONE, NONE
    while barrier != NONE:
        following = state.visits[barrier].next
        if state.visits[barrier].id == token:
            free_visit(state, barrier)
        else:
            if todo == NONE:
                todo = barrier
            else:
                state.visits[last].next = barrier
            last = barrier
        barrier = following
    if t.places > 0:
        visit = t.back_head
        while visit != NONE:
            if state.visits[visit].kind == TUPLE:
                t.taken += 1  # also where there is no place left
            visit = state.visits[visit].next
    if t.back_head != NONE:
        if todo == NONE:
            todo = t.back_head
        else:
            state.visits[last].next = t.back_head
        last = t.back_tail
    t.barriers = t.barriers_tail = t.back_head = t.back_tail = NONE
    t.back_n = t.back_tuples = 0
    if todo == NONE:
        return rest
    state.visits[last].next = rest
    return todo


@kernel
def _enter(state: State, visit: int, task: int) -> None:
    """Behind all others; a fast message passes the queue."""
    t, e = state.tasks[task], state.visits[visit]
    if e.kind == MAIL and (e.partition == FAST or not t.has_service):
        take_in_hand(state, visit, task)
    elif not t.has_service:
        kind = e.kind
        if t.places > 0 and kind == TUPLE:
            leave_place(state, task)
        admit(state, visit, task)
        if kind == BUNDLE:
            t.queue_n -= 1  # it was in no queue
            while t.front_head != NONE:
                admit(state, take_head(state, task), task)
    else:
        put_in_queue(state, visit, task)
        if e.kind != TUPLE:
            t.queue_n -= 1  # only tuples are counted
        dispatch(state, t.cores)


@kernel
def unalign(state: State, task: int) -> None:
    """The oldest barriers that wait are forgotten; what they held back comes now."""
    t = state.tasks[task]
    if not t.alive:
        return
    if t.barriers != NONE:
        let_in(state, let_through(state, task, state.visits[t.barriers].id, NONE), task)
    note_idle(state, task)
