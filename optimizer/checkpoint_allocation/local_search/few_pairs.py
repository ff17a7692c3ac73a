"""All nodes packed again at once, by a program on the few pairs that are nearest to the cheapest.

At good prices few pairs matter: those whose priced cost is least above their checkpoint's cheapest. With one or two of
them for each node, and where each checkpoint is now, HiGHS mostly needs no or few branches. It finds exchanges over
many nodes that no group of a few has. An answer counts when it keeps the true capacities and costs less; it proves
nothing. The limit is a number of branch-and-bound nodes.
"""

from __future__ import annotations

import numpy as np

from models.checked_arrays import BoolArray
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.local_search.exchange import Exchange
from optimizer.checkpoint_allocation.mixed_integer import at_most, rules_of_pairs
from optimizer.common.solvers import mixed_integer_program

_NARROWER = 1e-7  # relative: what HiGHS takes for room; the true capacities are looked at afterwards


def pack_all(state: Exchange, budget: Budget, *, size: float, branches: int, target: float, toll: float = 0.0) -> bool:
    """Improve the state by a program with `size` pairs for each node; False when the clock struck.

    `branches` are its nodes of branch and bound at most. Nothing is done where the answer is within `target` of the
    bound that the state's prices prove. Where moves are counted `toll` is what one must save to be worth it.
    """
    if state.losses().sum() > target:
        if budget.late:
            return False
        pairs = min(state.parameters.program_pairs, int(size * state.problem.n_nodes))
        _pack(state, pairs, branches, budget, toll)
    return not budget.late


def _pack(state: Exchange, pairs: int, branches: int, budget: Budget, toll: float) -> None:
    """Take what a program on so many pairs, beside where each checkpoint is, finds that is cheaper."""
    problem, found = state.problem, state.found
    moves: BoolArray = np.zeros(found.nodes.shape, np.bool_)
    if problem.max_moves is not None and problem.current is not None:
        moves = found.nodes != problem.current[:, None]
    priced = state.priced + toll * moves
    extra = priced - priced.min(axis=1, keepdims=True)
    extra[state.rows, state.at] = 0.0
    others = extra[np.isfinite(extra) & (extra > 0)]
    limit = float(np.partition(others, pairs - 1)[pairs - 1]) if len(others) > pairs else np.inf
    j, k = np.nonzero((extra <= limit) & np.isfinite(extra))
    fixed = np.bincount(j, minlength=problem.n_checkpoints)[j] == 1
    stays = j[fixed], k[fixed]
    held = np.zeros(problem.n_nodes)
    np.add.at(held, found.nodes[stays], found.load[stays])
    made = int(moves[stays].sum())
    j, k = j[~fixed], k[~fixed]
    if not len(j):
        return
    cost = found.cost[j, k] - found.cost[j, state.at[j]]
    upper, lower = problem.upper, problem.lower
    size = np.where(np.isfinite(upper) & (upper > 0), upper, 1.0)
    least = np.where(lower > 0, (lower - held) / size + _NARROWER, -np.inf)
    most = (upper - held) / size - _NARROWER
    rules = rules_of_pairs(j, found.nodes[j, k], found.load[j, k] / size[found.nodes[j, k]], most, least)
    if problem.max_moves is not None:
        rules.append(at_most(moves[j, k], problem.max_moves - made))
    unit = max(float(np.abs(cost).max()), 1e-300)
    gap = state.parameters.program_gap
    answer = mixed_integer_program(cost / unit, rules, nodes=branches, gap=gap, limit_s=budget.left_s)
    if answer.x is not None:
        chosen = np.flatnonzero(answer.x > 0.5)
        state.accept(j[chosen], k[chosen])
