"""Lists of the two kernels as arrays: what is linked, and what stands one behind the other."""

from __future__ import annotations

import numpy as np

from sim.clock import SERVICE
from sim.kernel.event_loop.buffers import NODES
from sim.kernel.event_loop.codes import NEVER, NONE
from sim.kernel.event_loop.events import EVENT, RING
from sim.kernel.scan.entities import CHUNK, QUEUED
from sim.kernel.scan.state import ScanState
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State


def runs(groups: np.ndarray) -> np.ndarray:
    """Return for each item its place among the equal ones next to it (n,): equal ones stand together."""
    new = np.ones(groups.size, np.bool_)
    new[1:] = groups[1:] != groups[:-1]
    begins = np.flatnonzero(new)
    return np.arange(groups.size) - np.repeat(begins, np.diff(np.append(begins, groups.size)))


def chained_by(links: np.ndarray, numbers: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Link the items of each group in order; return the places of heads and tails. Equal groups stand together."""
    inside = groups[1:] == groups[:-1]
    links[numbers[:-1][inside]] = numbers[1:][inside]
    if not numbers.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    ends = np.flatnonzero(~inside)
    return np.concatenate([[0], ends + 1]).astype(np.int64), np.concatenate([ends, [numbers.size - 1]]).astype(np.int64)


def queued(scan: ScanState, queue: int) -> np.ndarray:
    """Return a copy of what waits in a queue of the scan, in order."""
    q = scan.queues[queue]
    pieces, piece, left = [np.zeros(0, QUEUED)], int(q["head"]), int(q["n"]) + int(q["head_place"])
    while left > 0 and q["n"] > 0:
        pieces.append(scan.chunks[piece * CHUNK : piece * CHUNK + min(CHUNK, left)])
        left -= CHUNK
        piece = int(scan.chunk_next[piece])
    return np.concatenate(pieces)[int(q["head_place"]) if q["n"] > 0 else 0 :]


def events_of(loop: State) -> np.ndarray:
    """Return all events, in no order."""
    found = [loop.heap[: int(loop.queue["in_heap"])].copy()]
    for name in ("near", "far"):
        places = (int(loop.queue[f"{name}_first"]) + np.arange(int(loop.queue[f"{name}_count"]))) & (RING - 1)
        found.append(getattr(loop, name)[places])
    leaves = loop.tournament[loop.tournament.shape[0] // 2 :]
    places = np.flatnonzero(leaves != NEVER)
    own = np.zeros(places.size, EVENT)
    own["time"] = leaves[places] >> int(loop.queue["task_bits"])
    own["rank"] = SERVICE + (leaves[places] & (loop.own.shape[0] - 1))
    for name in ("seq", "kind", "ref"):
        own[name] = loop.own[name][places]
    return np.concatenate([*found, own])


def listed(following: np.ndarray, heads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the items of lists, one list behind the other, and the list that each is in."""
    items, counts = np.empty(following.size, np.int64), np.zeros(heads.size, np.int64)
    found = items[: _follow(following, heads.astype(np.int64), items, counts)].copy()
    return found, np.repeat(np.arange(heads.size), counts)


@kernel
def _follow(following: np.ndarray, heads: np.ndarray, items: np.ndarray, counts: np.ndarray) -> int:
    """Write the items of lists one behind the other, and how many each list has; return how many there are."""
    n = 0
    for k in range(heads.shape[0]):
        one = heads[k]
        while one != NONE:
            items[n] = one
            n += 1
            counts[k] += 1
            one = np.int64(following[one])
    return n


def nodes_of(loop: State, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the live nodes of pairs, pair by pair in order, and the place of the pair of each."""
    counts = pairs["end_seq"] - pairs["live_seq"]
    nodes, of = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    place, one, left = np.arange(pairs.size), pairs["live"].astype(np.int64), counts.copy()
    while place.size:
        nodes.append(one)
        of.append(place)
        left = left - 1
        place, one, left = place[left > 0], one[left > 0], left[left > 0]
        one = np.where(one % NODES != NODES - 1, one + 1, loop.nodes["next"][one]).astype(np.int64)
    found, pair = np.concatenate(nodes), np.concatenate(of)
    order = np.argsort(pair, kind="stable")
    return found[order], pair[order]
