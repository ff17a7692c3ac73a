"""Granularity of costs: it decides whether a bound that is a hair below an objective proves it.

Costs of 1e15 and -1e15 leave sums in which a hair of the one is all there is of the other, so no tolerance relative to
what was summed up is a proof. What is one: all costs are whole multiples of a unit, and less than a unit is between.
"""

from __future__ import annotations

import math

import numpy as np

from models.planning.checkpoint_allocation import CheckpointAllocation

_CHUNK = 1_000_000
_EXACT_BITS = 53
_LEAST_EXPONENT = -1022


def closed_by_granularity(problem: CheckpointAllocation, bound: float, value: float) -> bool:
    """Return whether no assignment can cost at least the bound and less than the value.

    The power of two above their difference is the unit that all costs are tried with.
    """
    if value <= bound:
        return True
    exponent = math.frexp(value - bound)[1]
    if not _LEAST_EXPONENT < exponent < -_LEAST_EXPONENT:
        return False
    unit = math.ldexp(1.0, exponent)
    if not abs(value) < math.ldexp(unit, _EXACT_BITS) or math.fmod(value, unit):
        return False
    step = max(1, _CHUNK // problem.n_nodes)
    for first in range(0, problem.n_checkpoints, step):
        costs = problem.cost[first : first + step].astype(np.float64)
        if np.fmod(costs, unit).any():
            return False
    return True
