"""A plan that is running, improved with few moves: what is done after one host has changed.

The former prices are nearly right: a few steps of the smoothed problem and the linear program on the core correct them,
and their bound holds for any number of moves. The running assignment is repaired by chains of moves (`chains`): a
node can only take what another one takes from it. More chains, then shifts and swaps, spend what is left of the moves,
each as long as a move saves enough.
"""

from __future__ import annotations

import math

import numpy as np

from models.checked_arrays import FloatArray
from models.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.candidates import candidates, first_prices, scale_of, smoothed_prices
from optimizer.checkpoint_allocation.chains import Chains
from optimizer.checkpoint_allocation.exchange import Exchange
from optimizer.checkpoint_allocation.large import Priced, relaxed
from optimizer.checkpoint_allocation.neighbourhoods import Effort, search
from optimizer.checkpoint_allocation.prices import fits_somewhere, price_bound

_KEPT = 12
_FALL = np.geomspace(3e-3, 1e-3, 3)
_STEPS = 4
_ROUNDS = 4
_CORE_PAIRS = 8_000  # of the linear program: the prices are nearly right, so few pairs decide
_CHAIN_PAIRS = 10_000
_CHAINS = 20  # of each kind that are made at most
_TOLLS = (8e-6, 2e-6)  # what a move must save, as a share of the bound: moves are few
_FEW = 4  # moves left below which no nodes are packed again
_EFFORT = Effort(8, 100, 0.05, 0.05)


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
    chains = Chains(state, _CHAIN_PAIRS, _TOLLS[0] * abs(bound))
    _relieved(state, chains)
    if not state.repair():
        state.start_from(problem.current)  # chains took too many moves
        chains.follow()
        if not state.repair():
            return Priced(None, prices, bound)
    if (state.loads < problem.lower).any():
        return Priced(None, prices, bound)
    _chained(state, chains, abs(bound))
    unit = scale * float(problem.load.mean())
    for attempt in range(_ROUNDS):
        while state.shift():
            pass
        state.swap(0.05 * unit * (1 + attempt))
    if problem.max_moves is None or problem.max_moves - problem.moves(state.assignment) >= _FEW:
        search(state, _EFFORT, until=math.inf, target=0.0)
    return Priced(state.assignment, prices, bound)


def _relieved(state: Exchange, chains: Chains) -> None:
    """Chains from what has too much, as long as there are any."""
    for _ in range(_CHAINS):
        over = state.loads - state.problem.upper
        node = int(over.argmax())
        if over[node] <= 0 or not chains.leave(node):
            return


def _chained(state: Exchange, chains: Chains, unit: float) -> None:
    """Chains that save cost: those that fill room, then those from the checkpoints that are dearest where they are."""
    for toll in _TOLLS:
        chains.toll = toll * unit
        chains.follow()
        for _ in range(_CHAINS):
            if not chains.fill():
                break
        dear = state.priced[state.rows, state.at] - state.least
        for row in np.argsort(-dear, kind="stable")[:_CHAINS].tolist():
            chains.improve(row)
