"""Roots that are done and forgotten, and roots that fail: their source emits them again."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.channels import count_message
from sim.kernel.event_loop.codes import ACKED, NONE, TUPLE
from sim.kernel.event_loop.emitting import emit_arrivals, put_again
from sim.kernel.event_loop.free_lists import free_visit, new_visit
from sim.kernel.event_loop.roots import free_root, take_ack, unlink
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State


@kernel
def is_done(state: State, root: int) -> bool:
    """Return whether the last ack of the root had arrived before now."""
    done = state.roots[root].done
    return done != NONE and done < state.clock.now


@kernel
def root_done(state: State, root: int) -> None:
    """The last ack of a root arrives at a source that may have so many and no more; void if it failed meanwhile."""
    r = state.roots[root]
    if r.stale > 0:
        r.stale -= 1
        return
    source = r.source
    free_root(state, root)
    _let_emit(state, source)


@kernel
def ack_comes(state: State, visit: int) -> None:
    """An ack has come over the links, unless its sender died before it had left, or the task here has."""
    e, root, attempt = state.visits[visit], state.anchors[visit].root, state.anchors[visit].attempt
    origin = state.tasks[e.origin]
    lost = not state.tasks[e.task].alive or (not origin.alive and origin.died <= e.key)
    free_visit(state, visit)
    r = state.roots[root]
    if lost or r.attempt != attempt:
        return
    r.left -= 1
    if r.left == 0:
        source = r.source
        free_root(state, root)
        if state.acking.most > 0:
            _let_emit(state, source)


@kernel
def sweep(state: State) -> None:
    """Forget the roots that are done."""
    for source in range(state.pending.shape[0]):
        root = state.pending[source].first
        while root != NONE:
            following = state.roots[root].next
            if is_done(state, root):
                free_root(state, root)
            root = following


# Roots of a source stand in the order in which they were emitted last, so the first one has the next deadline. A look
# at the time-outs goes on from there, and costs as much as there is to forget and to fail.


@kernel
def oldest(state: State) -> int:
    """Return when the root was emitted last that waits longest, or NONE; those done before it are forgotten."""
    found = NONE
    for source in range(state.pending.shape[0]):
        p = state.pending[source]
        while p.first != NONE and is_done(state, p.first):
            free_root(state, p.first)
        if p.first != NONE and (found == NONE or state.roots[p.first].emitted < found):
            found = state.roots[p.first].emitted
    return found


@kernel
def late(state: State, before: int) -> int:
    """Return how many roots were emitted last before that instant; those of them that are done are forgotten."""
    n = 0
    for source in range(state.pending.shape[0]):
        root = state.pending[source].first
        while root != NONE and state.roots[root].emitted < before:
            following = state.roots[root].next
            if is_done(state, root):
                free_root(state, root)
            else:
                n += 1
            root = following
    return n


@kernel
def expire(state: State, before: int, failed: np.ndarray) -> None:
    """Let those roots fail; `failed` by operator (n_operators,). There is room for them."""
    for source in range(state.pending.shape[0]):
        root = state.pending[source].first
        while root != NONE and state.roots[root].emitted < before:
            following = state.roots[root].next
            _fail(state, root, failed)
            root = following
    _let_all_emit(state)


@kernel
def fail_acks(state: State, task: int, failed: np.ndarray) -> None:
    """Let the roots fail whose acks wait at the task; `failed` by operator (n_operators,)."""
    while state.acks_at[task].first != NONE:
        one = state.held_acks[take_ack(state, task)]
        count_message(state, ACKED, 1, state.acking.bytes)
        if state.roots[one.root].attempt == one.attempt:
            _fail(state, one.root, failed)
    state.acks_at[task].prepared = 0
    _let_all_emit(state)


@kernel
def _fail(state: State, root: int, failed: np.ndarray) -> None:
    """Give a root back to its source; acks of what was emitted for it count for nothing from now on."""
    unlink(state, root)
    r = state.roots[root]
    if r.done != NONE and state.acking.most > 0:
        r.stale += 1
    r.done = NONE
    failed[state.partitions[state.sources[r.source].partition].operator] += 1
    visit = new_visit(state)
    e = state.visits[visit]
    e.kind = TUPLE
    e.id = r.id
    e.created = r.created
    e.key = r.key
    e.wire = 0
    e.replayed = 0
    state.anchors[visit].root = root
    put_again(state, r.source, visit)


@kernel
def _let_all_emit(state: State) -> None:
    for source in range(state.sources.shape[0]):
        _let_emit(state, source)


@kernel
def _let_emit(state: State, source: int) -> None:
    b = state.sources[source]
    if state.partitions[b.partition].live:
        emit_arrivals(state, source, b.arrived)


@kernel
def unfinished(state: State, source: int, sequences: np.ndarray) -> int:
    """Write the numbers of the roots of a source that are not done, and return how many."""
    n, root = 0, state.pending[source].first
    while root != NONE:
        if not is_done(state, root):
            sequences[n] = state.roots[root].sequence
            n += 1
        root = state.roots[root].next
    visit = state.sources[source].again_head
    while visit != NONE:
        sequences[n] = state.roots[state.anchors[visit].root].sequence
        n += 1
        visit = state.visits[visit].next
    return n
