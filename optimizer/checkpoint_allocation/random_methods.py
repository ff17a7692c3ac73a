"""Allocations by chance: `baseline` (anywhere allowed) and `even` (at most ceil(#checkpoints / #nodes) each).

Both keep constraint 1 (forbidden and anti-affinity pairs) and know nothing of costs and capacities. Checkpoints are
taken in random order, each goes to a random node that still takes it. When none does, an augmenting path makes room
(complete: without anti-affinity pairs it fails only when no such allocation exists); with anti-affinity pairs,
evictions along a random walk.
"""

from __future__ import annotations

import zlib

import numpy as np

from models.checked_arrays import BoolArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.params import DEFAULT


def even_room(problem: CheckpointAllocation) -> IntArray:
    """Return how many checkpoints of each operator one node may take, (n_groups,): ceil(#checkpoints / #nodes)."""
    counts = np.bincount(problem.group_codes)
    return -(-counts // problem.n_nodes)


def baseline(problem: CheckpointAllocation, seed: int, steps: int = DEFAULT.program.random_steps) -> IntArray | None:
    """A random assignment (J,) that keeps forbidden and anti-affinity pairs; None when the walk found none."""
    room = np.bincount(problem.group_codes)
    return _Draw(problem, room, _stream(seed, "baseline"), steps).assignment()


def even(problem: CheckpointAllocation, seed: int, steps: int = DEFAULT.program.random_steps) -> IntArray | None:
    """As `baseline`, with at most `even_room` checkpoints of one operator per node; None when not found.

    Where forbidden pairs leave no such allocation, the operator's limit rises to the least that does (without
    anti-affinity pairs; with them the walk may give up).
    """
    return _Draw(problem, even_room(problem), _stream(seed, "even"), steps).assignment()


def _stream(seed: int, name: str) -> np.random.Generator:
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
        waiting = self.random.permutation(self.problem.n_checkpoints).tolist()
        while waiting:
            j = waiting.pop()
            free = np.flatnonzero(self._takes(j))
            if len(free):
                self._put(j, int(free[self.random.integers(len(free))]))
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
        takes: BoolArray = self.problem.allowed[j] & (self.room[self.codes[j]] > 0)
        for other in self.problem.neighbours.get(j, ()):
            if self.node[other] >= 0:
                takes[self.node[other]] = False
        return takes

    def _put(self, j: int, n: int) -> None:
        self.node[j] = n
        self.room[self.codes[j], n] -= 1
        self.members.setdefault((int(self.codes[j]), n), []).append(j)

    def _take_out(self, j: int) -> int:
        n = int(self.node[j])
        self.members[int(self.codes[j]), n].remove(j)
        self.room[self.codes[j], n] += 1
        self.node[j] = -1
        return n

    def _augment(self, j: int) -> bool:
        """Make room for j by moving others of its operator along a shortest path of full nodes."""
        code = int(self.codes[j])
        came: dict[int, int] = {}  # node -> the checkpoint that would move there
        frontier = [j]
        while frontier:
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
        while True:
            mover = came[n]
            freed = self._take_out(mover) if mover != last else -1
            self._put(mover, n)
            if mover == last:
                return
            n = freed

    def _push_in(self, j: int) -> list[int] | None:
        """Force j onto a random allowed node; who had to leave, or None when patience is over."""
        self.steps_left -= 1
        nodes = np.flatnonzero(self.problem.allowed[j] & (self.room.max(axis=1)[self.codes[j]] >= 0))
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
