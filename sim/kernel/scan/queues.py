"""The queues of the scan: chains of pieces, so that a long one is read and written in a row."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.codes import NONE
from sim.kernel.scan.entities import CHUNK
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State

CHUNK_POOL = np.dtype([("free", "i4")])  # the first free piece, or NONE


QUEUE = np.dtype([("n", "i8"), ("head", "i4"), ("head_place", "i4"), ("tail", "i4"), ("tail_place", "i4")], align=True)


@kernel
def has_chunk(state: State, queue: Any) -> bool:
    """Return whether one more tuple fits behind the queue."""
    q = state.queues[queue]
    return state.chunk_pool.free != NONE or (q.n > 0 and q.tail_place < CHUNK)


@kernel
def append(state: State, queue: Any, item: Any, ns: int) -> None:
    """Put a tuple behind the others, with the time that its service takes; there must be a free piece."""
    q = state.queues[queue]
    if q.n == 0 or q.tail_place == CHUNK:
        piece = state.chunk_pool.free
        state.chunk_pool.free = state.chunk_next[piece]
        state.chunk_next[piece] = NONE
        if q.n == 0:
            q.head = piece
            q.head_place = 0
        else:
            state.chunk_next[q.tail] = piece
        q.tail = piece
        q.tail_place = 0
    to = state.chunks[q.tail * CHUNK + q.tail_place]
    to.at = item.at
    to.id = item.id
    to.created = item.created
    to.key = item.key
    to.partition = item.partition
    to.origin = item.origin
    to.ns = ns
    q.tail_place += 1
    q.n += 1


@kernel
def remove_first(state: State, queue: Any) -> None:
    """The first of the queue has left."""
    q = state.queues[queue]
    q.n -= 1
    q.head_place += 1
    if q.head_place == CHUNK or q.n == 0:
        piece = q.head
        q.head = state.chunk_next[piece]
        q.head_place = 0
        state.chunk_next[piece] = state.chunk_pool.free
        state.chunk_pool.free = piece


@kernel
def sum_queues(state: State, counts: np.ndarray, sums: np.ndarray) -> None:
    """Add how many tuples wait to `counts`, and their ids to `sums`, both by the operator that they are for."""
    for queue in range(state.queues.shape[0]):
        q = state.queues[queue]
        piece, place = q.head, q.head_place
        for _ in range(q.n):
            if place == CHUNK:
                piece = state.chunk_next[piece]
                place = 0
            e = state.chunks[piece * CHUNK + place]
            operator = state.partition_operator[e.partition]
            counts[operator] += 1
            sums[operator] += e.id
            place += 1


@kernel
def copy_arrivals(state: State, found: np.ndarray) -> None:
    """Write when what waits for the tasks arrived, task after task, each in order."""
    made = 0
    for task in range(state.options.tasks):
        q = state.queues[task]
        piece, place = q.head, q.head_place
        for _ in range(q.n):
            if place == CHUNK:
                piece = state.chunk_next[piece]
                place = 0
            found[made] = state.chunks[piece * CHUNK + place].at
            made += 1
            place += 1
