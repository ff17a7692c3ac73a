"""Attempts of roots: begun, acknowledged, and done one latency after their last tuple was processed.

An ack has no event of its own. That a root is done is asked where somebody wants to know; only where a source may have
so many roots and no more an event says that it can go on. Where acks are sent over the links, each is a visit that
comes to the task of the source (`expiry.ack_comes`).
"""

from __future__ import annotations

from typing import Any

from sim.clock import MESSAGE, RECEIVER
from sim.kernel.event_loop.channels import count_message, departure
from sim.kernel.event_loop.codes import ACK, ACKED, DONE, NO_STATE, NONE, RECEIPT
from sim.kernel.event_loop.events import next_serial, push
from sim.kernel.event_loop.fair_links import post
from sim.kernel.event_loop.free_lists import new_visit
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State


@kernel
def is_full(state: State, source: int) -> bool:
    """Return whether the source may emit nothing, as too many of its roots are not done."""
    return state.acking.most > 0 and state.pending[source].count >= state.acking.most


@kernel
def most_emitted(state: State, source: int) -> int:
    """Return how many of the tuples that wait at a source it may emit at most, before one of its roots is done."""
    b = state.sources[source]
    waiting = b.arrived - b.emitted + b.again_n
    if state.acking.most == 0:
        return waiting
    return min(waiting, max(0, state.acking.most - state.pending[source].count))


@kernel
def roots_for(state: State) -> int:
    """Return for how many sendings there are roots: what emits a tuple counts the most that follow from one."""
    return state.root_pool.left * state.options.fan_out


@kernel
def new_root(state: State, source: int, tuple_id: Any, sequence: int, created: int, key: int) -> int:
    """Take a place for a root."""
    root = state.root_pool.free
    r = state.roots[root]
    state.root_pool.free = r.next
    state.root_pool.left -= 1
    r.id = tuple_id
    r.sequence = sequence
    r.created = created
    r.key = key
    r.source = source
    r.stale = 0
    return root


@kernel
def begin_attempt(state: State, root: int) -> None:
    """The source emits the root now: what it emits is its tree."""
    r, p = state.roots[root], state.pending[state.roots[root].source]
    state.acking.attempts += 1
    state.acking.root = root
    state.acking.attempt = r.attempt = state.acking.attempts * state.sources.shape[0] + r.source
    r.emitted = state.clock.now
    r.left = 0
    r.done = NONE
    r.previous = p.last
    r.next = NONE
    if p.last == NONE:
        p.first = root
    else:
        state.roots[p.last].next = root
    p.last = root
    p.count += 1


@kernel
def end_attempt(state: State) -> None:
    """The root is emitted."""
    root = state.acking.root
    state.acking.root = NONE
    count_message(state, ACKED, 1, state.acking.bytes)
    if state.roots[root].left == 0:  # nobody takes it
        _complete(state, root)


@kernel
def _complete(state: State, root: int) -> None:
    r = state.roots[root]
    r.done = state.clock.now + (0 if state.acking.over_links else state.options.latency)
    if state.acking.most > 0:
        task = state.partitions[state.sources[r.source].partition].task
        push(state, r.done, MESSAGE + task * RECEIVER + task, next_serial(state), DONE, root)


@kernel
def unlink(state: State, root: int) -> None:
    """Take a root off the pending ones of its source."""
    r = state.roots[root]
    p = state.pending[r.source]
    if r.previous == NONE:
        p.first = r.next
    else:
        state.roots[r.previous].next = r.next
    if r.next == NONE:
        p.last = r.previous
    else:
        state.roots[r.next].previous = r.previous
    p.count -= 1
    r.attempt = NONE


@kernel
def free_root(state: State, root: int) -> None:
    """Forget a root that is done."""
    unlink(state, root)
    r = state.roots[root]
    r.done = NONE
    r.next = state.root_pool.free
    state.root_pool.free = root
    state.root_pool.left += 1


# -- acks


@kernel
def processed(state: State, visit: int, task: int) -> None:
    """A task has processed a tuple, and made all that follows from it."""
    a = state.anchors[visit]
    if a.root == NONE:
        return
    op = state.operators[state.tasks[task].operator]
    if state.acking.covered and op.state_model != NO_STATE and not op.is_sink:
        _hold_ack(state, a.root, a.attempt, task)
    else:
        _acknowledge(state, a.root, a.attempt, task)


@kernel
def _acknowledge(state: State, root: int, attempt: int, task: int) -> None:
    count_message(state, ACKED, 1, state.acking.bytes)
    if state.acking.over_links:
        _send_ack(state, root, attempt, task)
        return
    r = state.roots[root]
    if r.attempt == attempt:
        r.left -= 1
        if r.left == 0:
            _complete(state, root)


@kernel
def _send_ack(state: State, root: int, attempt: int, task: int) -> None:
    """Send an ack to where the source of the root is now; its `key` is when it left its host, as of a message."""
    visit = new_visit(state)
    e, a, host = state.visits[visit], state.anchors[visit], state.tasks[task].host
    a.root = root
    a.attempt = attempt
    e.kind = RECEIPT
    e.origin = task
    e.task = state.partitions[state.sources[attempt % state.sources.shape[0]].partition].task
    e.key = state.clock.now
    e.next = NONE
    e.wire = 0
    e.arrived = 0
    e.replayed = 0
    arrival = state.clock.now
    if state.tasks[e.task].host != host:
        if state.hosts[host].fair:
            post(state, host, task, e.task, state.acking.bytes, ACK, visit, 0)
            return
        e.key = departure(state, host, state.acking.bytes, 0)
        arrival = e.key + state.options.latency
    push(state, arrival, MESSAGE + e.task * RECEIVER + task, next_serial(state), ACK, visit)


@kernel
def _hold_ack(state: State, root: int, attempt: int, task: int) -> None:
    made = state.held_ack_pool.free
    one, here = state.held_acks[made], state.acks_at[task]
    state.held_ack_pool.free = one.next
    state.held_ack_pool.left -= 1
    one.root = root
    one.attempt = attempt
    one.next = NONE
    if here.last == NONE:
        here.first = made
    else:
        state.held_acks[here.last].next = made
    here.last = made
    here.count += 1


@kernel
def take_ack(state: State, task: int) -> int:
    """Take the first ack that waits at the task off; its place is free, and can be read until the next is taken."""
    here = state.acks_at[task]
    taken = here.first
    one = state.held_acks[taken]
    here.first = one.next
    if here.first == NONE:
        here.last = NONE
    here.count -= 1
    one.next = state.held_ack_pool.free
    state.held_ack_pool.free = taken
    state.held_ack_pool.left += 1
    return taken


@kernel
def prepare(state: State, task: int) -> None:
    """Mark the acks that wait at the task."""
    state.acks_at[task].prepared = state.acks_at[task].count


@kernel
def commit(state: State, task: int) -> None:
    """Send the marked acks of the task."""
    while state.acks_at[task].prepared > 0:
        state.acks_at[task].prepared -= 1
        one = state.held_acks[take_ack(state, task)]
        _acknowledge(state, one.root, one.attempt, task)


@kernel
def lose_acks(state: State, task: int) -> None:
    """Forget the acks that wait at a task that died."""
    while state.acks_at[task].first != NONE:
        take_ack(state, task)
    state.acks_at[task].prepared = 0
