"""Exact answers where checkpoints do not compete: no capacity, so each takes its cheapest node.

Without a capacity the program separates into one minimum per checkpoint. A limit on moves keeps it easy:
a move saves (current cost - cheapest cost) and the moves that save most are taken. Copies that must be
pairwise on different nodes are a small assignment problem of their own.
"""

from __future__ import annotations

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.common.solvers import linear_assignment
from optimizer.verify.checkpoint_bounds import cliques, is_clique, reduced_minima


def is_separable(problem: CheckpointAllocation) -> bool:
    """Return whether `separable` is exact: no capacities, no anti-affinity pairs or whole cliques free to move.

    A limit on moves is separable without anti-affinity alone: then the moves that save most are the best ones.
    """
    if problem.capacity is not None or problem.capacity_min is not None:
        return False
    # With a limit on moves, copies compete for the moves: no longer a problem for each clique alone.
    return not problem.neighbours or (
        problem.max_moves is None and all(is_clique(problem, c) for c in cliques(problem))
    )


def separable(problem: CheckpointAllocation) -> IntArray | None:
    """Return the optimal assignment (J,) of a separable problem; None when there is none. Ties: the lowest node.

    The objective is minimal up to `rounding`, which is 0 unless differences of costs decide.
    """
    assignment = cheapest(problem)
    # Members of a clique go to pairwise different nodes: the cheapest way is a linear assignment.
    for members in cliques(problem):
        nodes = linear_assignment(allowed_cost(problem, members))
        if nodes is None:
            return None
        assignment[members] = nodes
    return _with_few_moves(problem, assignment) if problem.max_moves is not None else assignment


def rounding(problem: CheckpointAllocation) -> float:
    """Return how far above the optimum the answer of `separable` may be: 0 where minima alone make it.

    Savings by a move are differences, and the assignment of copies sums up along paths through all of them.
    """
    eps, rows = float(np.finfo(np.float64).eps), np.arange(problem.n_checkpoints)
    found = 0.0
    if problem.max_moves is not None and problem.current is not None:
        here = np.where(problem.allowed[rows, problem.current], problem.cost[rows, problem.current], 0.0)
        there = problem.cost[rows, cheapest(problem)]
        found += 8 * eps * float(np.abs(here).sum() + np.abs(there).sum())
    for members in cliques(problem):
        size = np.where(problem.allowed[members], np.abs(problem.cost[members]), 0.0).max(axis=1)
        found += 16 * eps * len(members) * float(size.sum())
    return found


def cheapest(problem: CheckpointAllocation) -> IntArray:
    """Return the cheapest allowed node of each checkpoint, (J,), in float64 over the whole matrix."""
    return reduced_minima(problem, np.zeros(problem.n_nodes), problem.allowed)[1]


def allowed_cost(problem: CheckpointAllocation, members: IntArray) -> FloatArray:
    """Return the cost rows (m, N) of some checkpoints with infinity at forbidden nodes."""
    return np.where(problem.allowed[members], problem.cost[members], np.inf)


def _with_few_moves(problem: CheckpointAllocation, best: IntArray) -> IntArray | None:
    """Return the assignment (J,) after the moves that save most; None where more have to move than may."""
    assert problem.current is not None and problem.max_moves is not None
    rows = np.arange(problem.n_checkpoints)
    stays_possible = problem.allowed[rows, problem.current]
    saved = problem.cost[rows, problem.current].astype(np.float64) - problem.cost[rows, best]
    # Those that may not stay have to move first, whatever it costs.
    saving = np.where(stays_possible, saved, np.inf)
    # More of them than moves: the proof that there is no answer.
    if np.isinf(saving).sum() > problem.max_moves:
        return None
    order = np.argsort(-saving, kind="stable")[: problem.max_moves]
    # The limit on moves binds nothing else: taking the largest savings is optimal.
    movers = order[saving[order] > 0]
    assignment = problem.current.copy()
    assignment[movers] = best[movers]
    return assignment
