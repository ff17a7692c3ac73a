"""The program in whole numbers, so that sums and comparisons behind a proof are exact.

Costs are multiplied by a power of two and rounded down, loads by a power of two per node and rounded down, capacities
rounded down after an allowance for the float64 sum that `overloads` takes. An allocation that keeps the true capacities
keeps these, and costs at least as much as here: a lower bound of this program is one of the true program. Where costs
and loads are whole numbers already (the generalised assignment problem), nothing is rounded.

All numbers stay below 2**53: float64 holds them, and adds them, exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.verify.checkpoint_bounds import fitting

LARGEST_ROOM = 2**14  # loads are counted in at most so many units of a capacity, for a proof
_FRACTION = 2**10  # whole costs are counted in such parts, for multipliers between them
_LARGEST_SUM = 2.0**46  # of the costs; multipliers may be some times larger


@dataclass(frozen=True)
class WholeNumbers:
    """cost (N, J) in units of 1 / scale, infinite where a pair is not allowed; load (N, J), room (N,) below 2**15.

    `whole`: true costs are whole numbers, so objectives are. `exact_loads`: no load was rounded.
    """

    cost: FloatArray
    load: IntArray
    room: IntArray
    scale: float
    whole: bool
    exact_loads: bool

    def proven(self, least: float) -> float:
        """Return a lower bound of true objectives, from one of this program in its units."""
        return float(math.ceil(least / self.scale)) if self.whole else least / self.scale

    def excluded(self, objective: float) -> float:
        """Return the least value in units that no answer better than `objective` can have."""
        return (objective - 1) * self.scale + 1 if self.whole else math.ceil(objective * self.scale)


def whole_numbers(
    problem: CheckpointAllocation, largest_room: int = LARGEST_ROOM, *, near: bool = False
) -> WholeNumbers:
    """Return the program in whole numbers.

    `near` rounds loads to the nearest one, to look for allocations: that proves nothing.
    """
    fits = fitting(problem).T
    true = np.where(fits, problem.cost.T, 0.0).astype(np.float64)
    largest = float(np.abs(true).max()) or 1.0
    bits = math.log2(_LARGEST_SUM) - math.log2(largest) - math.log2(problem.n_checkpoints)
    scale = 2.0 ** min(math.floor(bits), 1000)
    whole = bool((true == np.rint(true)).all()) and scale >= 1
    if whole:
        scale = min(scale, float(_FRACTION))
    cost = np.where(fits, np.floor(true * scale), np.inf)
    load, room, exact = _loads(problem, fits, largest_room, near=near)
    return WholeNumbers(cost, load, room, scale, whole, exact)


def _loads(
    problem: CheckpointAllocation, fits: np.ndarray, largest: int, *, near: bool
) -> tuple[IntArray, IntArray, bool]:
    weights = np.where(fits, problem.weights.T, 0.0)
    upper = np.minimum(problem.upper, weights.sum(axis=1) + 1)  # more room than all loads together is no limit
    if bool((weights == np.rint(weights)).all()) and float(upper.max()) <= LARGEST_ROOM:
        return weights.astype(np.int64), np.floor(upper).astype(np.int64), True
    scale = 2.0 ** np.floor(np.log2(largest / np.maximum(upper, 1e-280)))
    if near:
        load = np.rint(weights * scale[:, None]).astype(np.int64)
        return load, np.maximum(np.floor(upper * scale).astype(np.int64) - 1, 0), False
    load = np.floor(weights * scale[:, None]).astype(np.int64)
    return load, np.floor(upper * scale * (1 + 1e-12)).astype(np.int64), False
