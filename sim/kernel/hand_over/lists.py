"""Lists of the two kernels as arrays: what is linked, and what stands one behind the other."""

from __future__ import annotations

import numpy as np

from sim.clock import SERVICE
from sim.kernel.event_loop.buffers import next_node
from sim.kernel.event_loop.codes import NEVER, NONE
from sim.kernel.event_loop.events import EVENT, RING
from sim.kernel.scan.entities import CHUNK, QUEUED
from sim.kernel.scan.saving import FAR_NS
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
    found = np.empty(int(q["n"]), QUEUED)
    done, piece, place = 0, int(q["head"]), int(q["head_place"])
    while done < found.size:
        part = scan.chunks[piece * CHUNK + place : (piece + 1) * CHUNK][: found.size - done]
        found[done : done + part.size] = part
        done, piece, place = done + part.size, int(scan.chunk_next[piece]), 0
    return found


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
    found = np.empty(int(counts.sum()), np.int64)
    _follow_nodes(loop, pairs["live"].astype(np.int64), counts, found)
    return found, np.repeat(np.arange(pairs.size), counts)


@kernel
def _follow_nodes(loop: State, firsts: np.ndarray, counts: np.ndarray, found: np.ndarray) -> None:
    """Write so many nodes of each list one behind the other."""
    n = 0
    for k in range(firsts.shape[0]):
        one = firsts[k]
        for left in range(counts[k], 0, -1):
            found[n] = one
            n += 1
            if left > 1:  # the last one may have no next
                one = np.int64(next_node(loop, one))


def order_by(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the order of items by two numbers (n,), neither below 0; equal ones stay as they stand.

    One number for both is sorted in a fraction of the time, where it fits.
    """
    count = max(1, first.size)
    most_second = int(second.max(initial=0)) + 1
    if (int(first.max(initial=0)) + 1) * most_second * count >= FAR_NS:
        return np.lexsort((second, first))
    both = (first.astype(np.int64) * most_second + second) * count + np.arange(first.size)
    return np.sort(both) % count
