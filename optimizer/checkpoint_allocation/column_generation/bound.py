"""The bound of column generation, from one multiplier per checkpoint: what proves it, and a plain way to check it.

For multipliers u[j] of any sign, with S any set of checkpoints that node n may store together,

    sum c x  =  sum_j u[j] + sum_n sum_{j on n} (c[j,n] - u[j])
             >= sum_j u[j] - sum_n K_n(u),     K_n(u) = max over S of sum_{j in S} (u[j] - c[j,n])

for every allocation that stores each checkpoint once. K_n is a knapsack problem, solved here by dynamic programming
over all checkpoints of positive value, without any short cut. Source: Fisher, Jaikumar and Van Wassenhove 1986; with
the best u it equals the bound of Dantzig-Wolfe, whose columns are the sets S.
"""

from __future__ import annotations

import math

import numpy as np

from models.checked_arrays import FloatArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.column_generation.numbers import WholeNumbers, whole_numbers

_LARGEST_CHECKED = 2_000_000  # J * N above which tables of all loads take too long; no plan has multipliers there
LARGEST_SUM = 2.0**52  # of the absolute multipliers: with the costs still below 2**53


def column_generation_bound(problem: CheckpointAllocation, multipliers: FloatArray) -> float:
    """The lower bound of every feasible allocation that multipliers (J,) prove; -inf when they are too large."""
    numbers = whole_numbers(problem)
    u = np.rint(multipliers * numbers.scale)
    if not np.isfinite(u).all() or float(np.abs(u).sum()) > LARGEST_SUM:
        return -math.inf
    least = float(u.sum()) - sum(_heaviest(numbers, u, node) for node in range(problem.n_nodes))
    return numbers.proven(least)


def _heaviest(numbers: WholeNumbers, u: FloatArray, node: int) -> float:
    """K of one node, in whole numbers."""
    room = int(numbers.room[node])
    value, load = u - numbers.cost[node], numbers.load[node]
    can = np.flatnonzero((value > 0) & (load <= room))
    best = np.zeros(room + 1)
    for gain, weight in zip(value[can].tolist(), load[can].tolist(), strict=True):
        np.maximum(best[weight:], best[: room + 1 - weight] + gain, out=best[weight:])
    return float(best[room])


def multiplier_bound(problem: CheckpointAllocation, multipliers: FloatArray | None) -> float | None:
    """The bound of multipliers (J,), one knapsack problem per node; None for any that cannot be used."""
    if multipliers is None or multipliers.shape != (problem.n_checkpoints,) or problem.cost.size > _LARGEST_CHECKED:
        return None
    return column_generation_bound(problem, multipliers)
