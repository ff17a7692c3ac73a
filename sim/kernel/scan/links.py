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
def lacks(s: State, need: int) -> int:
    """Say what there must be room for."""
    s.requests.need = need
    return GROW


@kernel
def send_over_links(s: State, operator: int) -> int:
    """What the tasks of the operator hand to the links of their hosts: first what waits there, then the rest."""
    box = s.boxes[s.options.operators]
    left = 0
    if s.progress.phase == LINK_OLD:
        stage = s.stages[operator]
        while s.progress.next < stage.tasks:
            host = s.task_host[stage.first_task + s.progress.next]
            queue = s.options.tasks + host
            q = s.queues[queue]
            while q.n > 0 and s.links[host].free < s.span.end:
                if left == 0:
                    left = link_room(s, operator)
                    if left == 0:
                        return lacks(s, 1)
                left -= 1
                e = s.chunks[q.head * CHUNK + q.head_place]
                _transmit(s, operator, host, e.at, e.id, e.created, e.key, e.partition, e.origin)
                remove_first(s, queue)
            s.progress.next += 1
        s.progress.phase = LINK_SORT
    if s.progress.phase == LINK_SORT:
        if s.times.shape[0] < box.n:
            return lacks(s, 1)
        gather(s, s.options.operators)
        s.progress.phase = LINK_NEW
        s.progress.next = 0
    for k in range(s.progress.next, s.progress.due):
        e = s.box[box.first + s.order[k]]
        host = s.task_host[e.origin]
        if s.links[host].free >= s.span.end:
            if not has_chunk(s, s.options.tasks + host):
                s.progress.next = k
                return lacks(s, 1)
            append(s, s.options.tasks + host, e, 0)
            continue
        if left == 0:
            left = link_room(s, operator)
            if left == 0:
                s.progress.next = k
                return lacks(s, 1)
        left -= 1
        _transmit(s, operator, host, e.at, e.id, e.created, e.key, e.partition, e.origin)
    box.n = 0
    s.progress.next = 0
    return DONE


@kernel
def _transmit(
    s: State, operator: int, host: int, at: int, tuple_id: int, created: int, key: int, partition: int, origin: int
) -> None:
    """The link takes a tuple; it is on its way from the end of that on."""
    link = s.links[host]
    link.free = max(link.free, at) + np.int64(np.rint(s.operators[operator].bytes * _NS / link.rate))
    post(s, s.partition_operator[partition], link.free + s.options.latency, tuple_id, created, key, partition, origin)
