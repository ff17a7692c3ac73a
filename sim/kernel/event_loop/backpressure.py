"""What happens to unsent outputs: they are sent, taken along by a replay, or lost with their task."""

from __future__ import annotations

from sim.clock import CREDIT as CREDITS
from sim.kernel.event_loop.channels import send_mail, send_over
from sim.kernel.event_loop.codes import CREDIT, GO_ON, MAIL, NONE, TUPLE
from sim.kernel.event_loop.events import next_serial, push
from sim.kernel.event_loop.free_lists import free_visit
from sim.kernel.event_loop.outbox import go_on_later, nothing_unsent, stop_waiting
from sim.kernel.event_loop.watermarks import send_mark
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State

PORTION = 16  # arrivals that a source emits at most before the kernel looks for memory again


@kernel
def send_head(s: State, task: int) -> None:
    """Send the first unsent output, message or watermark of the task."""
    t = s.tasks[task]
    v = t.unsent_head
    e = s.visits[v]
    t.unsent_head = e.next
    if t.unsent_head == NONE:
        nothing_unsent(s, task)
    if e.kind != TUPLE:
        t.unsent_mail -= 1
        if e.kind == MAIL:
            send_mail(s, v)
        else:
            send_mark(s, v)
        return
    t.unsent_n -= 1
    sender, receiver, tuple_id, created, key, node = e.ticket, e.partition, e.id, e.created, e.key, e.node
    free_visit(s, v)
    s.tasks[s.partitions[receiver].task].taken += 1
    send_over(s, sender, receiver, tuple_id, created, key, s.operators[t.operator].bytes, node)


@kernel
def emit_later(s: State, task: int) -> None:
    """The sources at the task go on at once, ahead of all others that go on."""
    push(s, s.clock.now, CREDITS - 1, next_serial(s), GO_ON, task)


@kernel
def take_along(s: State, sender: int, receiver: int) -> None:
    """What waits from one partition for another is part of a replay: it is not sent by itself any more."""
    task = s.partitions[sender].task
    t = s.tasks[task]
    before, v, head = NONE, t.unsent_head, t.unsent_head
    if head == NONE:
        return
    while v != NONE:
        e = s.visits[v]
        following = e.next
        if e.kind == TUPLE and e.ticket == sender and e.partition == receiver:
            if before == NONE:
                t.unsent_head = following
            else:
                s.visits[before].next = following
            if t.unsent_tail == v:
                t.unsent_tail = before
            t.unsent_n -= 1
            free_visit(s, v)
        else:
            before = v
        v = following
    if t.unsent_head == NONE:
        nothing_unsent(s, task)
    if t.unsent_head != head:
        stop_waiting(s, task)
        go_on_later(s, task)


@kernel
def bounded_need(s: State, kind: int, ref: int) -> int:
    """For how many tuples more an event needs memory where queues have bounds."""
    if not s.options.bounded:
        return 0
    need = s.cluster.tasks + s.cluster.threads
    if kind == CREDIT and s.tasks[ref].first_waiting != NONE:
        sender = s.tasks[ref].first_waiting
        need += s.tasks[sender].unsent_n + s.tasks[sender].unsent_mail + PORTION * s.options.fan_out
    elif kind == GO_ON:
        need += s.tasks[ref].unsent_n + s.tasks[ref].unsent_mail + PORTION * s.options.fan_out
    return need
