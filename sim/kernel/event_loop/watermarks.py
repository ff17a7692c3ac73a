"""Watermarks on their way: behind what their task has not sent, then over the link as messages of no bytes.

The visit of a watermark has its event time in `key`. Its `id` is AGAIN if all that came before are heard again after
it, and LAST if it is also the last one over its channel, as the host of its origin has died.
"""

from __future__ import annotations

from sim.clock import ARRIVAL, RECEIVER
from sim.kernel.event_loop.channels import departure
from sim.kernel.event_loop.codes import MARK, MARKED, NONE
from sim.kernel.event_loop.events import next_serial, push
from sim.kernel.event_loop.fair_links import post
from sim.kernel.event_loop.free_lists import new_visit
from sim.kernel.event_loop.heard import was_left
from sim.kernel.event_loop.outbox import put_behind, withhold_mark, withholds_mark
from sim.kernel.event_loop.threads import hold_thread, shares_thread
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

AGAIN, LAST = 1, 2


@kernel
def new_mark(state: State, origin: int, task: int, event: int, again: int) -> int:
    """Return a watermark of a task for another one, or for itself."""
    visit = new_visit(state)
    e = state.visits[visit]
    e.id = again
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
    e.serial = next_serial(state)
    return visit


@kernel
def pass_mark(state: State, origin: int, task: int, event: int, again: int) -> None:
    """Send a watermark behind all that the task of origin has left to send; after it others are heard `again`, too."""
    visit = new_mark(state, origin, task, event, again)
    withheld = withholds_mark(state, origin, task, event, again) if state.options.withholds else NONE
    if withheld != NONE:
        withhold_mark(state, withheld, visit)
    elif state.tasks[origin].unsent_head == NONE:
        send_mark(state, visit)
    else:
        put_behind(state, visit, origin)


@kernel
def take_last_leave(state: State, origin: int) -> None:
    """Let a last farewell come from a task whose host has died, if it has sent something for who has left it.

    It comes behind all that had left the link: a latency from now.
    """
    if not was_left(state, origin):
        return
    op = state.operators[state.tasks[origin].operator]
    for k in range(op.first_edge, op.first_edge + op.edges):
        down = state.edges[k].down
        for task in range(state.cluster.tasks if state.operators[down].timed else 0):
            if state.tasks[task].operator == down and state.tasks[task].alive:
                visit = new_mark(state, origin, task, 0, LAST)
                at, rank = state.clock.now + state.options.latency, ARRIVAL + task * RECEIVER + origin
                push(state, at, rank, next_serial(state), MARKED, visit)


@kernel
def send_mark(state: State, visit: int) -> None:
    """It goes out now."""
    e = state.visits[visit]
    host, origin, task = state.tasks[e.origin].host, e.origin, e.task
    arrival = state.clock.now
    if host != state.tasks[task].host:
        if state.hosts[host].fair:
            post(state, host, origin, task, 0, MARKED, visit, 0)
            return
        arrival = departure(state, host, 0, 0) + state.options.latency
    elif shares_thread(state, origin, task):
        hold_thread(state, task)
    push(state, arrival, ARRIVAL + task * RECEIVER + origin, next_serial(state), MARKED, visit)
