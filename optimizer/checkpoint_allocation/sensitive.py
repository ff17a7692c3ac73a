"""The paper's heuristic: place the checkpoint that loses most by missing its best node first.

Algorithm 3 of Madsen and Zhou, CIKM 2015. Where the text is open: nodes of equal cost are one level, ranked by value;
the gap of a level is the next level's cost minus its own; the last level has an infinite gap (nothing else is left); a
checkpoint that failed on every level waits until the others are placed and then goes to its cheapest safe node,
whatever the capacity. Equal gaps: lowest index first.

A heap replaces the re-sorting of the list after every failure: only the key of the failed checkpoint
changes, so the order of the others stands.

The module also holds allocations by chance, which the heuristic is compared with: `baseline` (anywhere allowed) and
`even` (at most ceil(#checkpoints / #nodes) each).

Both keep constraint 1 (forbidden and anti-affinity pairs) and know nothing of costs and capacities. Checkpoints are
taken in random order, each goes to a random node that still takes it. When none does, an augmenting path makes room
(complete: without anti-affinity pairs it fails only when no such allocation exists); with anti-affinity pairs,
evictions along a random walk.
"""

from __future__ import annotations

import heapq
import math
import zlib
from functools import lru_cache

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.params import DEFAULT

_KEPT = 5_000_000  # J * N up to which all sorted rows are kept; above, a row is sorted again when it is due


def sensitive_first(problem: CheckpointAllocation) -> IntArray:
    """Return the assignment of the heuristic, (J,); -1 where no safe node was left. It may overload nodes.

    It knows neither minimum loads nor a limit on moves. Time grows with J N log N: every row of costs is sorted once.
    """
    assignment = np.full(problem.n_checkpoints, -1, dtype=np.int64)
    loads = np.zeros(problem.n_nodes)
    keep = problem.n_checkpoints if problem.cost.size <= _KEPT else 1
    levels_of = lru_cache(maxsize=keep)(lambda j: _levels(problem, j))
    # Negated gaps: the heap gives the smallest first, and the tie goes to the lowest index.
    heap = [(-gap_at(levels_of(j), 0), j, 0) for j in range(problem.n_checkpoints)]
    heapq.heapify(heap)
    while heap:
        _, j, index = heapq.heappop(heap)
        levels = levels_of(j)
        # All levels failed: its key was minus infinity, so everyone else has been placed before.
        if index == len(levels):
            node = _least_bad(problem, assignment, loads, levels, j)
        else:
            node = _fitting(problem, assignment, loads, levels[index][1], j)
            if node < 0:
                # Only the key of the failed checkpoint changes; the others keep their place in the heap.
                heapq.heappush(heap, (-gap_at(levels, index + 1), j, index + 1))
                continue
        if node >= 0:
            assignment[j] = node
            loads[node] += problem.weights[j, node]
    return assignment


def gap_at(levels: list[tuple[float, IntArray]], index: int) -> float:
    """Return the cost of missing this level: infinite at the last, minus infinity when all were considered."""
    if index >= len(levels):
        return -math.inf
    return levels[index + 1][0] - levels[index][0] if index + 1 < len(levels) else math.inf


def _levels(problem: CheckpointAllocation, j: int) -> list[tuple[float, IntArray]]:
    """Return the levels of a checkpoint: (cost, nodes of that cost), by rising cost."""
    nodes = np.flatnonzero(problem.allowed[j])
    values, inverse = np.unique(problem.cost[j, nodes], return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    starts = np.searchsorted(inverse[order], np.arange(len(values)))
    return list(zip(values.tolist(), np.split(nodes[order], starts[1:]) if len(values) else [], strict=True))


def _safe(problem: CheckpointAllocation, assignment: IntArray, nodes: IntArray, j: int) -> IntArray:
    # Neighbours without a node count as -1, which is no node.
    taken = [int(assignment[k]) for k in problem.neighbours.get(j, ())]
    return nodes[~np.isin(nodes, taken)] if taken else nodes


def _by_load(loads: FloatArray, nodes: IntArray) -> list[int]:
    return [int(n) for n in nodes[np.argsort(loads[nodes], kind="stable")]]


def _fitting(problem: CheckpointAllocation, assignment: IntArray, loads: FloatArray, nodes: IntArray, j: int) -> int:
    """Return the least loaded safe node with room among some nodes; -1 for none."""
    # The least loaded of equally cheap nodes, as the paper says: it leaves the most room for later ones.
    for n in _by_load(loads, _safe(problem, assignment, nodes, j)):
        if loads[n] + problem.weights[j, n] <= problem.upper[n]:
            return n
    return -1


def _least_bad(
    problem: CheckpointAllocation,
    assignment: IntArray,
    loads: FloatArray,
    levels: list[tuple[float, IntArray]],
    j: int,
) -> int:
    """Return the least loaded safe node of the cheapest level that has one, whatever its capacity; -1 for none."""
    # Capacities are ignored from here on: a stored checkpoint on a full node is better than none.
    for _, nodes in levels:
        safe = _by_load(loads, _safe(problem, assignment, nodes, j))
        if safe:
            return safe[0]
    return -1


def even_room(problem: CheckpointAllocation) -> IntArray:
    """Return how many checkpoints of each operator one node may take, (n_groups,): ceil(#checkpoints / #nodes)."""
    counts = np.bincount(problem.group_codes)
    return -(-counts // problem.n_nodes)


def baseline(problem: CheckpointAllocation, seed: int, steps: int = DEFAULT.program.random_steps) -> IntArray | None:
    """Return a random assignment (J,) that keeps forbidden and anti-affinity pairs; None when the walk found none.

    `steps` limits the random walk, for each checkpoint; the seed decides all draws. Capacities and costs do not matter.
    """
    room = np.bincount(problem.group_codes)
    return _Draw(problem, room, _stream(seed, "baseline"), steps).assignment()


def even(problem: CheckpointAllocation, seed: int, steps: int = DEFAULT.program.random_steps) -> IntArray | None:
    """Return an assignment as `baseline`, with at most `even_room` checkpoints of an operator per node, or None.

    Where forbidden pairs leave no such allocation, the operator's limit rises to the least that does (without
    anti-affinity pairs; with them the walk may give up).
    """
    return _Draw(problem, even_room(problem), _stream(seed, "even"), steps).assignment()


def _stream(seed: int, name: str) -> np.random.Generator:
    # A stream of its own for each method: the draws of one never change with those of another.
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name.encode()),)))


class _Draw:
    """One random allocation in the making: who is where, and how much room each (operator, node) has left."""

    def __init__(self, problem: CheckpointAllocation, room: IntArray, random: np.random.Generator, steps: int) -> None:
        self.problem = problem
        self.random = random
        self.codes = problem.group_codes
        self.room = np.repeat(room[:, None], problem.n_nodes, axis=1)
        self.node = np.full(problem.n_checkpoints, -1, dtype=np.int64)
        self.members: dict[tuple[int, int], list[int]] = {}
        self.steps_left = steps * problem.n_checkpoints

    def assignment(self) -> IntArray | None:
        """Return the node of each checkpoint (J,); None when evictions used up the steps."""
        # The order is drawn once; evicted checkpoints come back at the end of the list and are taken next.
        waiting = self.random.permutation(self.problem.n_checkpoints).tolist()
        while waiting:
            j = waiting.pop()
            free = np.flatnonzero(self._takes(j))
            if len(free):
                self._put(j, int(free[self.random.integers(len(free))]))
            # Copies that must be apart make augmenting paths incomplete: a random walk replaces them.
            elif self.problem.neighbours:
                evicted = self._push_in(j)
                if evicted is None:
                    return None
                waiting += evicted
            elif not self._augment(j):  # proof that the operator's limit is too small
                if not self.problem.allowed[j].any():
                    return None
                self.room[self.codes[j]] += 1
                waiting.append(j)
        return self.node

    def _takes(self, j: int) -> BoolArray:
        """Return which nodes still take a checkpoint, (N,): allowed, with room, and without an anti-affine one."""
        takes: BoolArray = self.problem.allowed[j] & (self.room[self.codes[j]] > 0)
        # Neighbours not yet placed do not bind: they will see this one when it is their turn.
        for other in self.problem.neighbours.get(j, ()):
            if self.node[other] >= 0:
                takes[self.node[other]] = False
        return takes

    def _put(self, j: int, n: int) -> None:
        self.node[j] = n
        self.room[self.codes[j], n] -= 1
        self.members.setdefault((int(self.codes[j]), n), []).append(j)

    def _take_out(self, j: int) -> int:
        """Take a checkpoint from its node, and return that node."""
        n = int(self.node[j])
        self.members[int(self.codes[j]), n].remove(j)
        self.room[self.codes[j], n] += 1
        self.node[j] = -1
        return n

    def _augment(self, j: int) -> bool:
        """Return whether j got a node by moves of others of its operator along a shortest path of full nodes."""
        code = int(self.codes[j])
        came: dict[int, int] = {}  # node -> the checkpoint that would move there
        frontier = [j]
        while frontier:
            # Breadth first: the shortest chain of moves, each node entered once, so the search ends.
            following: list[int] = []
            for k in frontier:
                for n in self.random.permutation(np.flatnonzero(self.problem.allowed[k])).tolist():
                    if n in came:
                        continue
                    came[n] = k
                    if self.room[code, n] > 0:
                        self._shift_along(came, n, j)
                        return True
                    following += self.members.get((code, n), [])
            frontier = following
        return False

    def _shift_along(self, came: dict[int, int], n: int, last: int) -> None:
        """Move each checkpoint of the path one node further, from the free node n back to `last`."""
        while True:
            # From the free node back to j: each mover frees the node that the one before it takes.
            mover = came[n]
            freed = self._take_out(mover) if mover != last else -1
            self._put(mover, n)
            if mover == last:
                return
            n = freed

    def _push_in(self, j: int) -> list[int] | None:
        """Force j onto a random allowed node, and return who had to leave; None when the steps are used up."""
        self.steps_left -= 1
        # Room may be used up, for somebody is evicted below; only forbidden nodes are out of the question.
        nodes = np.flatnonzero(self.problem.allowed[j])
        if self.steps_left < 0 or not len(nodes):
            return None
        n = int(nodes[self.random.integers(len(nodes))])
        out = [k for k in self.problem.neighbours.get(j, ()) if self.node[k] == n]
        for k in out:
            self._take_out(k)
        if self.room[self.codes[j], n] <= 0:
            members = self.members.get((int(self.codes[j]), n), [])
            if not members:
                return None
            out.append(members[int(self.random.integers(len(members)))])
            self._take_out(out[-1])
        self._put(j, n)
        return out
