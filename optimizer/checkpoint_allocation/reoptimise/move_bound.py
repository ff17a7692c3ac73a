"""A proven lower bound from dual prices when few checkpoints may move.

At prices lambda (`prices`) a checkpoint that stays where it runs, on r, costs s[j] = c[j,r] + lambda[r] l[j,r], and one
that moves at least its least priced cost m[j]. With at most k moves, the priced cost of all is at least

    sum_j s[j] - (the k largest s[j] - m[j]),    less what the prices pay for the capacities,

where those that may not stay cost m[j] and use up moves first. It is never below L(lambda), and far above it where the
running plan is far from the best one. Without prices, capacities are left out.
"""

from __future__ import annotations

import math

import numpy as np

from models.checked_arrays import FloatArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.lagrangian.bound import reduced_minima

_EPS = float(np.finfo(np.float64).eps)


def move_bound(problem: CheckpointAllocation, prices: FloatArray) -> float:
    """The bound of prices (N,) with at most `max_moves` moves; infinite when a checkpoint fits nowhere."""
    assert problem.current is not None and problem.max_moves is not None
    minima, at = reduced_minima(problem, prices)
    if not np.isfinite(minima).all():
        return math.inf
    rows, here = np.arange(problem.n_checkpoints), problem.current
    load = problem.weights[rows, here]
    stays = problem.allowed[rows, here] & (load <= problem.upper[here])
    rent = prices[here] * load
    stay = np.where(stays, problem.cost[rows, here].astype(np.float64) + rent, minima)
    saved = np.sort(stay - minima)[::-1]
    left = max(problem.max_moves - int((~stays).sum()), 0)
    used = prices != 0
    paid = prices[used] * np.where(prices > 0, problem.upper, problem.lower)[used]
    sizes = (stay, minima, 2 * rent[stays], 2 * prices[at] * problem.weights[rows, at], paid)
    rounding = 4 * _EPS * sum(math.fsum(np.abs(one).tolist()) for one in sizes)
    return math.fsum([*stay.tolist(), *(-saved[:left]).tolist(), *(-paid).tolist()]) - rounding
