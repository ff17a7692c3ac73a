"""Watermarks on their way: behind what their task has not sent, then over the link as messages of no bytes.

The visit of a watermark has its event time in `key`.
"""

from __future__ import annotations

from sim.clock import ARRIVAL, RECEIVER
from sim.kernel.event_loop.channels import departure
from sim.kernel.event_loop.codes import MARK, MARKED, NONE
from sim.kernel.event_loop.events import next_serial, push
from sim.kernel.event_loop.fair_links import post
from sim.kernel.event_loop.free_lists import new_visit
from sim.kernel.event_loop.outbox import put_behind
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State


@kernel
def pass_mark(s: State, origin: int, task: int, event: int) -> None:
    """Send a watermark behind all that the task of origin has left to send."""
    t = s.tasks[origin]
    v = new_visit(s)
    e = s.visits[v]
    e.id = 0
    e.created = 0
    e.key = event
    e.start = NONE
    e.next = NONE
    e.partition = NONE
    e.ticket = NONE
    e.origin = origin
    e.task = task
    e.kind = MARK
    e.wire = 0
    e.arrived = 0
    e.replayed = 0
    e.serial = next_serial(s)
    if t.unsent_head == NONE:
        send_mark(s, v)
    else:
        put_behind(s, v, origin)


@kernel
def send_mark(s: State, v: int) -> None:
    """It goes out now."""
    e = s.visits[v]
    host, origin, task = s.tasks[e.origin].host, e.origin, e.task
    arrival = s.clock.now
    if host != s.tasks[task].host:
        if s.hosts[host].fair:
            post(s, host, origin, task, 0, MARKED, v, 0)
            return
        arrival = departure(s, host, 0, 0) + s.options.latency
    push(s, arrival, ARRIVAL + task * RECEIVER + origin, next_serial(s), MARKED, v)
