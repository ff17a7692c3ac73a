"""Links with a bandwidth in the scan: each is a first-in-first-out server of its own, as a task is."""

from __future__ import annotations

import numpy as np

from sim.kernel.scan.entities import CHUNK, DONE, GROW
from sim.kernel.scan.gather import gather
from sim.kernel.scan.queues import append, has_chunk, remove_first
from sim.kernel.scan.send import link_room, post
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State

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
            host = state.task_host[stage.first_task + state.progress.next]
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
