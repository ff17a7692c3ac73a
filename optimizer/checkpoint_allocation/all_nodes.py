"""All nodes packed again at once: a mixed-integer program on the few pairs that are nearest to the cheapest.

Packing some nodes at a time misses exchanges over many. At good prices few pairs matter: those whose priced cost is
least above their checkpoint's cheapest. With one or two of them for each node, and where each checkpoint is now,
HiGHS mostly needs no or few branches. Its answer is taken when it keeps the true capacities and costs less; it proves
nothing. The limit is a number of branch-and-bound nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.local_search.exchange import Exchange
from optimizer.common.quiet import quiet_stdout

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
    rules = [_once(j), _loads(found.nodes[j, k], found.load[j, k], problem, held)]
    if problem.max_moves is not None:
        rules.append((moves[None, j, k].astype(np.float64), -np.inf, problem.max_moves - made))
    chosen = _program(cost, rules, state.parameters.program_gap, branches, budget.left_s)
    if chosen is not None:
        state.accept(j[chosen], k[chosen])


def _once(j: IntArray) -> Any:
    """Rows, and their limits: each checkpoint is on one node."""
    from scipy import sparse  # noqa: PLC0415

    row = np.unique(j, return_inverse=True)[1]
    return sparse.csr_array((np.ones(len(j)), (row, np.arange(len(j))))), 1, 1


def _loads(n: IntArray, load: FloatArray, problem: CheckpointAllocation, held: FloatArray) -> Any:
    """Rows, and their limits: what the nodes hold, as shares of their capacity, beside what is `held` (N,) there."""
    from scipy import sparse  # noqa: PLC0415

    upper, lower = problem.upper, problem.lower
    size = np.where(np.isfinite(upper) & (upper > 0), upper, 1.0)
    rows = sparse.csr_array((load / size[n], (n, np.arange(len(n)))), shape=(len(upper), len(n)))
    least = np.where(lower > 0, (lower - held) / size + _NARROWER, -np.inf)
    return rows, least, (upper - held) / size - _NARROWER


def _program(cost: FloatArray, rules: list[Any], gap: float, branches: int, left_s: float) -> IntArray | None:
    """Positions of the chosen pairs, or None."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415

    options: Any = {"disp": False, "mip_rel_gap": gap, "node_limit": branches, "time_limit": left_s}
    with quiet_stdout():
        answer = milp(
            cost / max(float(np.abs(cost).max()), 1e-300),
            integrality=np.ones(len(cost), dtype=np.int64),
            bounds=Bounds(0, 1),
            constraints=[LinearConstraint(*rule) for rule in rules],
            options=options,
        )
    return None if answer.x is None else np.flatnonzero(np.asarray(answer.x) > 0.5)
