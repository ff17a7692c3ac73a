"""The end of unsent outputs, also of those that were withheld: they are sent, or taken along by a replay."""

from __future__ import annotations

from sim.clock import CREDIT as CREDITS
from sim.kernel.event_loop.births import emits_from
from sim.kernel.event_loop.channels import send_mail, send_over
from sim.kernel.event_loop.codes import CREDIT, GO_ON, MAIL, NONE, TUPLE
from sim.kernel.event_loop.events import next_serial, push
from sim.kernel.event_loop.free_lists import free_visit
from sim.kernel.event_loop.outbox import go_on_later, nothing_unsent, stop_waiting, take_withheld
from sim.kernel.event_loop.tasks import note_idle
from sim.kernel.event_loop.watermarks import send_mark
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

PORTION = 16  # arrivals that a source emits at most before the kernel looks for memory again


@kernel
def send_head(state: State, task: int) -> None:
    """Send the first unsent output, message or watermark of the task."""
    t = state.tasks[task]
    visit = t.unsent_head
    e = state.visits[visit]
    t.unsent_head = e.next
    if t.unsent_head == NONE:
        nothing_unsent(state, task)
    if e.kind != TUPLE:
        t.unsent_mail -= 1
        if e.kind == MAIL:
            send_mail(state, visit)
        else:
            send_mark(state, visit)
        return
    t.unsent_n -= 1
    sender, receiver, tuple_id, created, key, node = e.ticket, e.partition, e.id, e.created, e.key, e.node
    free_visit(state, visit)
    state.tasks[state.partitions[receiver].task].taken += 1
    send_over(state, task, sender, receiver, tuple_id, created, key, state.operators[t.operator].bytes, node)


@kernel
def let_out(state: State, found: int) -> None:
    """Send what a task has withheld, from there, also if its key groups have moved to another task since."""
    task, visit = state.withheld[found].task, take_withheld(state, found)
    size = state.operators[state.tasks[task].operator].bytes
    while visit != NONE:
        e = state.visits[visit]
        following = e.next
        if e.kind == TUPLE:
            sender, receiver, tuple_id, created, key, node = e.ticket, e.partition, e.id, e.created, e.key, e.node
            if state.options.births:
                emits_from(state, state.births[visit])
            free_visit(state, visit)
            send_over(state, task, sender, receiver, tuple_id, created, key, size, node)
            if state.options.births:
                emits_from(state, 0)
        else:
            send_mark(state, visit)
        visit = following
    note_idle(state, task)


@kernel
def emit_later(state: State, task: int) -> None:
    """The sources at the task go on at once, ahead of all others that go on."""
    push(state, state.clock.now, CREDITS - 1, next_serial(state), GO_ON, task)


@kernel
def take_along(state: State, sender: int, receiver: int) -> None:
    """Take the outputs that wait from one partition for another along with a replay; none is sent by itself."""
    task = state.partitions[sender].task
    t = state.tasks[task]
    before, visit, head = NONE, t.unsent_head, t.unsent_head
    if head == NONE:
        return
    while visit != NONE:
        e = state.visits[visit]
        following = e.next
        if e.kind == TUPLE and e.ticket == sender and e.partition == receiver:
            if before == NONE:
                t.unsent_head = following
            else:
                state.visits[before].next = following
            if t.unsent_tail == visit:
                t.unsent_tail = before
            t.unsent_n -= 1
            free_visit(state, visit)
        else:
            before = visit
        visit = following
    if t.unsent_head == NONE:
        nothing_unsent(state, task)
    if t.unsent_head != head:
        stop_waiting(state, task)
        go_on_later(state, task)


@kernel
def bounded_need(state: State, kind: int, ref: int) -> int:
    """For how many tuples more an event needs memory where queues have bounds."""
    if not state.options.bounded:
        return 0
    need = state.cluster.tasks + state.cluster.threads
    if kind == CREDIT and state.tasks[ref].first_waiting != NONE:
        sender = state.tasks[ref].first_waiting
        need += state.tasks[sender].unsent_n + state.tasks[sender].unsent_mail + PORTION * state.options.fan_out
    elif kind == GO_ON:
        need += state.tasks[ref].unsent_n + state.tasks[ref].unsent_mail + PORTION * state.options.fan_out
    return need
