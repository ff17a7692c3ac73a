"""Which host takes each instance of an operator: see `models.planning.placement` for the program."""

from __future__ import annotations

from models.errors import raise_if_any
from models.planning.placement import Placement, PlacementPlan
from optimizer.common.first_fit import best_fit, first_fit
from optimizer.common.solvers import checked_limits
from optimizer.placement.all_placed import AllPlaced
from optimizer.placement.budget import Budget
from optimizer.placement.fits import FITS, fitted
from optimizer.placement.most_value import MostValue

__all__ = ["FITS", "best_fit", "first_fit", "fitted", "solve"]


def solve(problem: Placement, *, time_limit_s: float = 60.0, seed: int = 0, workers: int = 1) -> PlacementPlan:
    """Return the best placement found, with objective, proven bound and what proves it.

    `seed` decides the draws of the search. Amounts of work that follow from the time limit [s] decide when it ends; the
    clock is a last resort, and the note says when it struck. Everything runs on one process: `workers` never changes an
    answer. Raises InputError for a bad argument.
    """
    raise_if_any(checked_limits(time_limit_s, seed, workers).faults)
    made = MostValue if problem.goal == "value" else AllPlaced
    return made(problem, Budget(time_limit_s), int(seed)).solve()
