"""Which host takes each instance of an operator: see `models.placement` for the program."""

from __future__ import annotations

import math

import numpy as np

from models.checked_arrays import CheckedArrays
from models.errors import raise_if_any
from models.placement import Placement, PlacementPlan
from optimizer.placement.all_placed import AllPlaced
from optimizer.placement.budget import Budget
from optimizer.placement.first_fit import best_fit, first_fit
from optimizer.placement.fits import FITS, fitted
from optimizer.placement.most_value import MostValue

__all__ = ["FITS", "best_fit", "first_fit", "fitted", "solve"]


def solve(problem: Placement, *, time_limit_s: float = 60.0, seed: int = 0, workers: int = 1) -> PlacementPlan:
    """The best placement found, with objective, proven bound and what proves it.

    `seed` decides the draws of the search. Amounts of work that follow from the time limit [s] decide when it ends; the
    clock is a last resort, and the note says when it struck. Everything runs on one process: `workers` never changes an
    answer. Raises InputError for a bad argument.
    """
    check = CheckedArrays()
    if not (time_limit_s > 0 and math.isfinite(time_limit_s)):
        check.add("time_limit_s", time_limit_s, "must be a positive number of seconds")
    for name, value, least in (("seed", seed, 0), ("workers", workers, 1)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            check.add(name, value, f"must be a whole number, at least {least}")
    raise_if_any(check.faults)
    made = MostValue if problem.goal == "value" else AllPlaced
    return made(problem, Budget(time_limit_s), int(seed)).solve()
