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
def has_chunk(s: State, queue: Any) -> bool:
    """Whether one more tuple fits behind the queue."""
    q = s.queues[queue]
    return s.chunk_pool.free != NONE or (q.n > 0 and q.tail_place < CHUNK)


@kernel
def append(s: State, queue: Any, e: Any, ns: int) -> None:
    """Put a tuple behind the others, with the time that its service takes; there must be a free piece."""
    q = s.queues[queue]
    if q.n == 0 or q.tail_place == CHUNK:
        piece = s.chunk_pool.free
        s.chunk_pool.free = s.chunk_next[piece]
        s.chunk_next[piece] = NONE
        if q.n == 0:
            q.head = piece
            q.head_place = 0
        else:
            s.chunk_next[q.tail] = piece
        q.tail = piece
        q.tail_place = 0
    to = s.chunks[q.tail * CHUNK + q.tail_place]
    to.at = e.at
    to.id = e.id
    to.created = e.created
    to.key = e.key
    to.partition = e.partition
    to.origin = e.origin
    to.ns = ns
    q.tail_place += 1
    q.n += 1


@kernel
def remove_first(s: State, queue: Any) -> None:
    """The first of the queue has left."""
    q = s.queues[queue]
    q.n -= 1
    q.head_place += 1
    if q.head_place == CHUNK or q.n == 0:
        piece = q.head
        q.head = s.chunk_next[piece]
        q.head_place = 0
        s.chunk_next[piece] = s.chunk_pool.free
        s.chunk_pool.free = piece


@kernel
def sum_queues(s: State, counts: np.ndarray, sums: np.ndarray) -> None:
    """Add how many tuples wait to `counts`, and their ids to `sums`, both by the operator that they are for."""
    for queue in range(s.queues.shape[0]):
        q = s.queues[queue]
        piece, place = q.head, q.head_place
        for _ in range(q.n):
            if place == CHUNK:
                piece = s.chunk_next[piece]
                place = 0
            e = s.chunks[piece * CHUNK + place]
            operator = s.partition_operator[e.partition]
            counts[operator] += 1
            sums[operator] += e.id
            place += 1


@kernel
def copy_arrivals(s: State, found: np.ndarray) -> None:
    """Write when what waits for the tasks arrived, task after task, each in order."""
    made = 0
    for task in range(s.options.tasks):
        q = s.queues[task]
        piece, place = q.head, q.head_place
        for _ in range(q.n):
            if place == CHUNK:
                piece = s.chunk_next[piece]
                place = 0
            found[made] = s.chunks[piece * CHUNK + place].at
            made += 1
            place += 1
