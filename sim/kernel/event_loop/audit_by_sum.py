"""The audit by sums where hosts may fail: whether everything is in the states once, or on its way.

It says nothing where a group is down or at two tasks, or where sums differ: then `audit` looks for each id, which takes
five times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from sim.kernel.event_loop.buffers import CHUNK
from sim.kernel.event_loop.codes import NONE, TUPLE
from sim.kernel.tools.audit_sums import Applied, Coming, Ranges, expected
from sim.kernel.tools.cache import allocating, kernel
from sim.kernel.tools.pointer import State


class Since(NamedTuple):
    """Say where a part of a run begins that is audited by itself.

    `coming` (n,): visits that were under way, in queues or in service. `base` (n_partitions,): applied tuples before.
    `emitted` (n_sources,): tuples of each source before; `ticks` (n_partitions,): outputs of each timer.
    """

    coming: np.ndarray
    base: np.ndarray
    emitted: np.ndarray
    ticks: np.ndarray


def by_sum_of_states(
    state: State, since: Since | None = None, read: Mapping[int, Ranges] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return expected, lost and duplicated inputs, each (n_operators,); None if sums do not tell.

    The last two are zeros.
    """
    operators = state.operators.shape[0]
    applied = Applied(np.zeros(operators, np.int64), np.zeros(operators, np.uint64))
    base = np.zeros(state.partitions.shape[0], np.int64) if since is None else since.base
    if since is not None and base.size != state.partitions.shape[0]:
        return None
    by_input = bool((state.operators["counts"] != NONE).any())  # what a tuple makes depends on its sender
    if by_input and since is not None:  # who sent what had come before it is not known
        return None
    if not _sum_up_states(state, base, applied.number, applied.total):
        return None
    partitions, ids, origins = in_motion(state)
    senders = state.tasks["operator"][origins].astype(np.int64) if by_input else None
    left = _coming(state, ids, partitions, senders)
    if since is None:
        sums = expected(state, left, read=read)
    else:
        before = _coming(state, since.coming["id"], since.coming["partition"])
        sums = expected(state, left, before, since.emitted, since.ticks)
    known = state.operators["reckoned"] != 0
    if not sums.are(applied, known):
        return None
    nothing = np.zeros(operators, np.int64)
    return np.where(known, applied.number, 0), nothing, nothing


def _coming(state: State, ids: np.ndarray, partitions: np.ndarray, senders: np.ndarray | None = None) -> Coming:
    """Return tuples on their way; without `senders` (n,), which are operators, all are alike."""
    alike = np.full(ids.size, NONE) if senders is None else senders
    return Coming(ids, state.partitions["operator"][partitions].astype(np.int64), alike)


@kernel
def _sum_up_states(state: State, base: np.ndarray, number: np.ndarray, total: np.ndarray) -> bool:
    """Add up all states but the first `base` (n_partitions,) of their tuples; False if that does not tell all."""
    for partition in range(state.partitions.shape[0]):
        u = state.partitions[partition]
        is_owner = state.partitions[u.group].owner == partition
        if not is_owner and u.retired:
            continue
        if not is_owner or not (u.live or u.taken) or u.base < base[partition]:
            return False
        number[u.operator] += u.applied - base[partition]
        total[u.operator] += u.forgotten
        chunk, pos = u.log_first, u.base
        while chunk != NONE:
            found = np.uint64(0)
            for k in range(min(CHUNK, u.applied - pos)):
                found += state.log[chunk * CHUNK + k]
            total[u.operator] += found
            pos += CHUNK
            chunk = state.log_next[chunk]
    return True


@allocating
def in_motion(state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the partitions, ids and sending tasks, each (n,), of what is on its way, waits or is served."""
    room = 2 * state.visits.shape[0]  # each is on its way, in a list, or, as a fault may have it, both
    partitions, ids, origins, n = np.empty(room, np.int64), np.empty(room, np.uint64), np.empty(room, np.int64), 0
    for visit in range(state.visits.shape[0]):
        e = state.visits[visit]
        if e.wire and state.tasks[e.task].alive and is_there(state, e.partition):
            partitions[n], ids[n], origins[n] = e.partition, e.id, e.origin
            n += 1
    for partition in range(state.partitions.shape[0]):
        n = _list(state, state.partitions[partition].held_head, partitions, ids, origins, n)
    for task in range(state.cluster.tasks):
        t = state.tasks[task]
        for head in (t.front_head, t.queue_head, t.serving_head, t.unsent_head, t.back_head, t.side_head):
            n = _list(state, head, partitions, ids, origins, n)
    for k in range(state.withheld.shape[0]):
        n = _list(state, state.withheld[k].head, partitions, ids, origins, n)
    return partitions[:n], ids[:n], origins[:n]


@kernel
def _list(state: State, head: int, partitions: np.ndarray, ids: np.ndarray, origins: np.ndarray, n: int) -> int:
    while head != NONE:
        e = state.visits[head]
        if e.kind == TUPLE and is_there(state, e.partition):
            partitions[n], ids[n], origins[n] = e.partition, e.id, e.origin
            n += 1
        head = e.next
    return n


@kernel
def is_there(state: State, partition: int) -> bool:
    """Return whether an instance of a group is not over, or is the owner all the same."""
    u = state.partitions[partition]
    return not u.retired or state.partitions[u.group].owner == partition
