"""Forced moves: the dearest checkpoints go where they would be cheaper, and others make room.

Where no chain saves cost any more, one node may still have to give several checkpoints away before a heavy one has room
there, which no chain does. So a checkpoint that is dear where it is goes to its cheapest node whether it fits or not.
Chains take away what is then too much; others fill the room that it left. What ends cheaper is kept, else what was
before comes back; a few dozen checkpoints are tried, the dearest first. Nothing is drawn: the same problem gives the
same answer.
"""

from __future__ import annotations

import numpy as np

from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.local_search.ejection_chains import EjectionChains, descended
from optimizer.checkpoint_allocation.local_search.exchange import Exchange

_LEAST = 1e-12  # relative: less is not saved


def forced_moves(chains: EjectionChains, most: int, budget: Budget, *, target: float) -> bool:
    """Improve the state of some chains by forced moves of at most `most` checkpoints; False when the clock struck.

    Stops when the answer is within `target` of the bound that the state's prices prove.
    """
    state = chains.state
    best, cost = state.at.copy(), state.cost()
    tried: set[tuple[int, int]] = set()
    for _ in range(most):
        if budget.late:
            return False
        if state.losses().sum() <= target:
            break
        pair = _dearest(state, tried)
        if pair is None:
            break
        tried.add(pair)
        fits = _made_room(chains, *pair)
        if fits:
            descended(chains, best)
        found = state.cost()
        if fits and found < cost - _LEAST * abs(cost):
            best, cost = state.at.copy(), found
        else:
            state.place(best)
    chains.follow()
    return True


def _dearest(state: Exchange, tried: set[tuple[int, int]]) -> tuple[int, int] | None:
    """The checkpoint that is dearest where it is, and the column of its cheapest node; None where all were tried."""
    dear = state.dear()
    for row in np.argsort(-dear, kind="stable")[: len(tried) + 1].tolist():
        pair = (row, int(state.priced[row].argmin()))
        if dear[row] > 0 and pair not in tried:
            return pair
    return None


def _made_room(chains: EjectionChains, row: int, to: int) -> bool:
    """Whether, after a checkpoint has gone to the node of a column, chains lead back within the capacities."""
    state, problem = chains.state, chains.state.problem
    at = state.at.copy()
    at[row] = to
    state.place(at)
    chains.follow()
    for _ in range(state.parameters.reliefs):
        over = state.loads - problem.upper
        node = int(over.argmax())
        if over[node] <= 0:
            few = problem.max_moves is None or problem.moves(state.assignment) <= problem.max_moves
            return few and bool((state.loads >= problem.lower).all())
        if not chains.leave(node):
            return False
    return False
