"""Assignments made without any solver: what costs less than a claimed bound refutes it.

None of them is guaranteed to keep the constraints: `optimizer.verify.checkpoints` checks each before it says anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation


def allowed_costs(problem: CheckpointAllocation) -> FloatArray:
    """Return the costs (J, N), infinite where a pair is forbidden."""
    return np.where(problem.allowed, problem.cost, np.inf)


def cheap_assignments(problem: CheckpointAllocation, costs: FloatArray) -> Iterator[tuple[str, IntArray]]:
    """Yield (how it was made, assignment (J,)): the cheapest nodes, then those repaired greedily, then no move."""
    yield "each checkpoint on its cheapest allowed node", costs.argmin(axis=1)
    orders = {
        "a greedy repair by what the next node costs more": _regret(costs),
        "a greedy repair by load": problem.weights.max(axis=1),
    }
    for how, key in orders.items():
        repaired = _placed_in_order(problem, costs, key)
        if repaired is not None:
            yield how, repaired
    if problem.current is not None:
        yield "every checkpoint where it is", problem.current


def improved(problem: CheckpointAllocation, costs: FloatArray, assignment: IntArray) -> IntArray:
    """Return the feasible assignment after one pass of moves, each to the cheapest cheaper node that takes it."""
    found = assignment.copy()
    loads, moves = problem.node_loads(found), problem.moves(found)
    for j in range(problem.n_checkpoints):
        old, weight = int(found[j]), problem.weights[j]
        if loads[old] - weight[old] < problem.lower[old]:
            continue
        for n in _ascending(costs[j], below=float(costs[j, old])):
            more = 0 if problem.current is None else int(n != problem.current[j]) - int(old != problem.current[j])
            within = problem.max_moves is None or moves + more <= problem.max_moves
            if within and _fits(problem, found, loads, j, n):
                found[j], moves = n, moves + more
                loads[old] -= weight[old]
                loads[n] += weight[n]
                break
    return found


def _placed_in_order(problem: CheckpointAllocation, costs: FloatArray, key: FloatArray) -> IntArray | None:
    """Place the largest key first, each on its cheapest node with room; return None when one finds no node."""
    found = np.full(problem.n_checkpoints, -1, dtype=np.int64)
    loads = np.zeros(problem.n_nodes)
    staying = _staying(problem, costs)
    for j in np.lexsort((-key, ~staying)).tolist():
        nodes = [int(problem.current[j])] if staying[j] and problem.current is not None else _ascending(costs[j])
        node = next((n for n in nodes if _fits(problem, found, loads, j, n)), None)
        if node is None:
            return None
        found[j] = node
        loads[node] += problem.weights[j, node]
    return found


def _staying(problem: CheckpointAllocation, costs: FloatArray) -> np.ndarray:
    """Return which checkpoints (J,) must stay, because the moves go to those that save most by one."""
    staying = np.zeros(problem.n_checkpoints, dtype=np.bool_)
    if problem.current is not None and problem.max_moves is not None:
        with np.errstate(invalid="ignore"):
            saved = costs[np.arange(problem.n_checkpoints), problem.current] - costs.min(axis=1)
        staying[np.argsort(-saved, kind="stable")[problem.max_moves :]] = True
    return staying


def _regret(costs: FloatArray) -> FloatArray:
    """Return by how much the second cheapest node costs more than the cheapest, (J,); infinite without a second."""
    if costs.shape[1] == 1:
        return np.full(costs.shape[0], np.inf)
    least = np.partition(costs, 1, axis=1)[:, :2]
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(least[:, 1] - least[:, 0], nan=np.inf, posinf=np.inf)


def _ascending(row: FloatArray, below: float = math.inf) -> list[int]:
    nodes = np.flatnonzero(row < below)
    return [int(n) for n in nodes[np.argsort(row[nodes], kind="stable")]]


def _fits(problem: CheckpointAllocation, found: IntArray, loads: FloatArray, j: int, n: int) -> bool:
    separate = all(found[k] != n for k in problem.neighbours.get(j, ()))
    return separate and bool(loads[n] + problem.weights[j, n] <= problem.upper[n])
