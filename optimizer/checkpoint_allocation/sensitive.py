"""The paper's heuristic: place the checkpoint that loses most by missing its best node first.

Algorithm 3 of Madsen and Zhou, CIKM 2015. What the text leaves
open is fixed here: nodes of equal cost are one level, ranked by value; the gap of a level is the next
level's cost minus its own; the last level has an infinite gap (nothing else is left); a checkpoint that
failed on every level waits until the others are placed and then goes to its cheapest safe node, whatever
the capacity. Equal gaps: lowest index first.

A heap replaces the re-sorting of the list after every failure: only the key of the failed checkpoint
changes, so the order of the others stands.
"""

from __future__ import annotations

import heapq
import math
from functools import lru_cache

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation

_KEPT = 5_000_000  # J * N up to which all sorted rows are kept; above, a row is sorted again when it is due


def sensitive_first(problem: CheckpointAllocation) -> IntArray:
    """The assignment of the heuristic, (J,); -1 where no safe node was left. It may overload nodes."""
    assignment = np.full(problem.n_checkpoints, -1, dtype=np.int64)
    loads = np.zeros(problem.n_nodes)
    keep = problem.n_checkpoints if problem.cost.size <= _KEPT else 1
    levels_of = lru_cache(maxsize=keep)(lambda j: _levels(problem, j))
    heap = [(-gap_at(levels_of(j), 0), j, 0) for j in range(problem.n_checkpoints)]
    heapq.heapify(heap)
    while heap:
        _, j, index = heapq.heappop(heap)
        levels = levels_of(j)
        if index == len(levels):
            node = _least_bad(problem, assignment, loads, levels, j)
        else:
            node = _fitting(problem, assignment, loads, levels[index][1], j)
            if node < 0:
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
    nodes = np.flatnonzero(problem.allowed[j])
    values, inverse = np.unique(problem.cost[j, nodes], return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    starts = np.searchsorted(inverse[order], np.arange(len(values)))
    return list(zip(values.tolist(), np.split(nodes[order], starts[1:]) if len(values) else [], strict=True))


def _safe(problem: CheckpointAllocation, assignment: IntArray, nodes: IntArray, j: int) -> IntArray:
    taken = [int(assignment[k]) for k in problem.neighbours.get(j, ())]
    return nodes[~np.isin(nodes, taken)] if taken else nodes


def _by_load(loads: FloatArray, nodes: IntArray) -> list[int]:
    return [int(n) for n in nodes[np.argsort(loads[nodes], kind="stable")]]


def _fitting(problem: CheckpointAllocation, assignment: IntArray, loads: FloatArray, nodes: IntArray, j: int) -> int:
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
    for _, nodes in levels:
        safe = _by_load(loads, _safe(problem, assignment, nodes, j))
        if safe:
            return safe[0]
    return -1
