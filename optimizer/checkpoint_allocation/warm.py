"""A plan that is running, improved with few moves: what is done after one host has changed.

The former prices are nearly right: a few steps of the smoothed problem and the linear program on the core correct them,
and their bound holds for any number of moves. The running assignment is repaired, then shifts and swaps spend what is
left of the moves, best first.
"""

from __future__ import annotations

import math

import numpy as np

from models.checked_arrays import FloatArray
from models.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.candidates import candidates, first_prices, scale_of, smoothed_prices
from optimizer.checkpoint_allocation.exchange import Exchange
from optimizer.checkpoint_allocation.large import Priced, relaxed
from optimizer.checkpoint_allocation.neighbourhoods import Effort, search
from optimizer.checkpoint_allocation.prices import fits_somewhere, price_bound

_KEPT = 12
_FALL = np.geomspace(3e-3, 1e-3, 3)
_STEPS = 4
_ROUNDS = 4
_CORE_PAIRS = 16_000  # of the linear program: the prices are nearly right, so few pairs decide
_EFFORT = Effort(4, 60, 0.01, 0.1)


def few_moves(problem: CheckpointAllocation, former: FloatArray | None) -> Priced:
    """The improved plan, with at most `max_moves` away from `current`; `former` (N,) prices, or None."""
    assert problem.current is not None
    if not fits_somewhere(problem):
        return Priced(None, np.zeros(problem.n_nodes), -math.inf)
    scale = scale_of(problem)
    prices = first_prices(problem, scale) if former is None else former
    found = candidates(problem, prices, _KEPT)
    prices = smoothed_prices(problem, found, prices, scale * _FALL, steps=_STEPS)
    bound = price_bound(problem, prices)
    better = relaxed(problem, found, prices, _CORE_PAIRS)
    if better is not None and price_bound(problem, better[0]) > bound:
        prices = better[0]
        bound = price_bound(problem, prices)
    state = Exchange(problem, found, prices)
    state.start_from(problem.current)
    if (state.assignment != problem.current).any() and problem.moves(state.assignment) > (problem.max_moves or 0):
        return Priced(None, prices, bound)
    if not state.repair() or (state.loads < problem.lower).any():
        return Priced(None, prices, bound)
    unit = scale * float(problem.load.mean())
    for attempt in range(_ROUNDS):
        while state.shift():
            pass
        state.swap(0.05 * unit * (1 + attempt))
    search(state, _EFFORT, until=math.inf, target=0.0)
    return Priced(state.assignment, prices, bound)
