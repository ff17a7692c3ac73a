"""The backlog: items that wait at the tasks, in the order of their queues.

A long queue is a list through all of memory, and the next item is known only when one is there. So all lists are
followed side by side: what one waits for the others have asked for.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.codes import NONE, TUPLE
from sim.kernel.tools.arrays import prefetch
from sim.kernel.tools.compiling import allocating
from sim.kernel.tools.pointer import State


@allocating
def waiting(state: State) -> np.ndarray:
    """Return rows (operator, task, arrival) of the tuples that wait at the tasks, by task, held ones first (n, 3)."""
    lists, tasks = _lists(state)
    room = state.visits.shape[0] - state.visit_pool.left
    found, arrivals = np.empty(room, np.int32), np.empty(room, np.int64)
    counts, left, n = np.zeros(lists.shape[0] + 1, np.int64), np.arange(lists.shape[0]), 0
    many = lists.shape[0]
    while many > 0:
        still = 0
        for k in range(many):
            one = left[k]
            e = state.visits[lists[one]]
            if e.kind == TUPLE:
                found[n] = one
                arrivals[n] = e.arrival
                counts[one + 1] += 1
                n += 1
            if e.next != NONE:
                lists[one] = e.next
                prefetch(state.visits, e.next)
                left[still] = one
                still += 1
        many = still
    places, rows = np.cumsum(counts), np.empty((n, 3), np.int64)
    for k in range(n):
        one = found[k]
        row = rows[places[one]]
        row[0], row[1], row[2] = state.tasks[tasks[one]].operator, tasks[one], arrivals[k]
        places[one] += 1
    return rows


@allocating
def _lists(state: State) -> tuple[np.ndarray, np.ndarray]:
    """Return the first item of each list that is not empty, and its task."""
    holding, many = np.empty(state.partitions.shape[0], np.int64), 0
    for partition in range(state.partitions.shape[0]):
        if state.partitions[partition].held_n > 0:
            holding[many] = partition
            many += 1
    most, n = many + 4 * state.cluster.tasks, 0
    heads, tasks = np.empty(most, np.int64), np.empty(most, np.int64)
    for task in range(state.cluster.tasks):
        for k in range(many):
            u = state.partitions[holding[k]]
            if u.task == task:
                heads[n], tasks[n] = u.held_head, task
                n += 1
        t = state.tasks[task]
        for head in (t.front_head, t.queue_head, t.back_head, t.side_head):
            if head != NONE:
                heads[n], tasks[n] = head, task
                n += 1
    return heads[:n], tasks[:n]
