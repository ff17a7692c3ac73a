"""Links with a bandwidth in the scan: each is a first-in-first-out server of its own, as a task is.

The queues of the scan: chains of pieces, so that a long one is read and written in a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.codes import NONE
from sim.kernel.scan.entities import CHUNK, DONE, GROW, MARK
from sim.kernel.scan.order import gather
from sim.kernel.scan.send import link_room, post
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

CHUNK_POOL = np.dtype([("free", "i4")])  # the first free piece, or NONE


QUEUE = np.dtype(
    [
        ("n", "i8"),
        ("gone", "i8"),  # tuples that have left: with it a place in the queue keeps its number
        ("head", "i4"),
        ("head_place", "i4"),
        ("tail", "i4"),
        ("tail_place", "i4"),
    ],
    align=True,
)


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
    q.gone += 1
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
            if not state.watermarks or e.key != MARK:
                operator = state.partition_operator[e.partition]
                counts[operator] += 1
                sums[operator] += e.id
            place += 1


@kernel
def waiting_ns(state: State, queue: Any) -> int:
    """Return how long the services of all that waits take together."""
    q = state.queues[queue]
    piece, place, total = q.head, q.head_place, 0
    for _ in range(q.n):
        if place == CHUNK:
            piece = state.chunk_next[piece]
            place = 0
        total += state.chunks[piece * CHUNK + place].ns
        place += 1
    return total


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
            if not state.watermarks or state.chunks[piece * CHUNK + place].key != MARK:
                found[made] = state.chunks[piece * CHUNK + place].at
                made += 1
            place += 1


@kernel
def count_tuples(state: State, found: np.ndarray) -> None:
    """Write how many tuples wait for each task: no watermarks."""
    for task in range(state.options.tasks):
        q = state.queues[task]
        piece, place, tuples = q.head, q.head_place, 0
        for _ in range(q.n):
            if place == CHUNK:
                piece = state.chunk_next[piece]
                place = 0
            tuples += state.chunks[piece * CHUNK + place].key != MARK
            place += 1
        found[task] = tuples


LINK = np.dtype([("free", "i8"), ("rate", "f8")], align=True)


LINK_OLD, LINK_SORT, LINK_NEW = range(3, 6)  # phases of an operator, behind those of its tasks
_NS = 1e9


@kernel
def lacks(state: State, need: int) -> int:
    """Say what there must be room for."""
    state.requests.need = need
    return GROW


@kernel
def send_over_links(state: State, operator: int) -> int:
    """Send over the links what the operator's tasks hand to them: first what waits there, then the rest."""
    box = state.boxes[state.options.operators]
    left = 0
    if state.progress.phase == LINK_OLD:
        stage = state.stages[operator]
        while state.progress.next < stage.tasks:
            host = state.task_host[state.stage_tasks[stage.first_task + state.progress.next]]
            queue = state.options.tasks + host
            q = state.queues[queue]
            while q.n > 0 and state.links[host].free < state.span.end:
                if left == 0:
                    left = link_room(state, operator)
                    if left == 0:
                        return lacks(state, 1)
                left -= 1
                e = state.chunks[q.head * CHUNK + q.head_place]
                _transmit(state, operator, host, e.at, e.id, e.created, e.key, e.partition, e.origin)
                remove_first(state, queue)
            state.progress.next += 1
        state.progress.phase = LINK_SORT
    if state.progress.phase == LINK_SORT:
        if state.times.shape[0] < box.n:
            return lacks(state, 1)
        gather(state, state.options.operators)
        state.progress.phase = LINK_NEW
        state.progress.next = 0
    for k in range(state.progress.next, state.progress.due):
        e = state.box[box.first + state.order[k]]
        host = state.task_host[e.origin]
        if state.links[host].free >= state.span.end:
            if not has_chunk(state, state.options.tasks + host):
                state.progress.next = k
                return lacks(state, 1)
            append(state, state.options.tasks + host, e, 0)
            continue
        if left == 0:
            left = link_room(state, operator)
            if left == 0:
                state.progress.next = k
                return lacks(state, 1)
        left -= 1
        _transmit(state, operator, host, e.at, e.id, e.created, e.key, e.partition, e.origin)
    box.n = 0
    state.progress.next = 0
    return DONE


@kernel
def _transmit(
    state: State, operator: int, host: int, at: int, tuple_id: int, created: int, key: int, partition: int, origin: int
) -> None:
    """The link takes a tuple; it is on its way from the end of that on."""
    link = state.links[host]
    link.free = max(link.free, at) + np.int64(np.rint(state.operators[operator].bytes * _NS / link.rate))
    post(
        state,
        state.partition_operator[partition],
        link.free + state.options.latency,
        tuple_id,
        created,
        key,
        partition,
        origin,
    )
