"""Links with a bandwidth in the scan: each is a first-in-first-out server of its own, as a task is."""

from __future__ import annotations

import numpy as np

from sim.kernel.scan.gather import gather
from sim.kernel.scan.queues import append, has_chunk, remove_first
from sim.kernel.scan.send import link_room, post
from sim.kernel.scan.state import CHUNK, DONE, GROW, ScanState
from sim.kernel.tools.compiling import kernel

LINK_OLD, LINK_SORT, LINK_NEW = range(3, 6)  # phases of an operator, behind those of its tasks
_NS = 1e9


@kernel
def lacks(s: ScanState, need: int) -> int:
    """Say what there must be room for."""
    s.run[0].need = need
    return GROW


@kernel
def send_over_links(s: ScanState, operator: int) -> int:
    """What the tasks of the operator hand to the links of their hosts: first what waits there, then the rest."""
    run = s.run[0]
    box = s.boxes[run.operators]
    left = 0
    if run.phase == LINK_OLD:
        stage = s.stages[operator]
        while run.next < stage.tasks:
            host = s.task_host[stage.first_task + run.next]
            queue = run.tasks + host
            q = s.queues[queue]
            while q.n > 0 and s.links[host].free < run.end:
                if left == 0:
                    left = link_room(s, operator)
                    if left == 0:
                        return lacks(s, 1)
                left -= 1
                e = s.chunks[q.head * CHUNK + q.head_place]
                _transmit(s, operator, host, e.at, e.id, e.created, e.key, e.partition, e.origin)
                remove_first(s, queue)
            run.next += 1
        run.phase = LINK_SORT
    if run.phase == LINK_SORT:
        if s.times.shape[0] < box.n:
            return lacks(s, 1)
        gather(s, run.operators)
        run.phase = LINK_NEW
        run.next = 0
    for k in range(run.next, run.due):
        e = s.box[box.first + s.order[k]]
        host = s.task_host[e.origin]
        if s.links[host].free >= run.end:
            if not has_chunk(s, run.tasks + host):
                run.next = k
                return lacks(s, 1)
            append(s, run.tasks + host, e, 0)
            continue
        if left == 0:
            left = link_room(s, operator)
            if left == 0:
                run.next = k
                return lacks(s, 1)
        left -= 1
        _transmit(s, operator, host, e.at, e.id, e.created, e.key, e.partition, e.origin)
    box.n = 0
    run.next = 0
    return DONE


@kernel
def _transmit(
    s: ScanState, operator: int, host: int, at: int, tuple_id: int, created: int, key: int, partition: int, origin: int
) -> None:
    """The link takes a tuple; it is on its way from the end of that on."""
    link = s.links[host]
    link.free = max(link.free, at) + np.int64(np.rint(s.operators[operator].bytes * _NS / link.rate))
    post(s, s.partition_operator[partition], link.free + s.run[0].latency, tuple_id, created, key, partition, origin)
