"""Branch and bound on the linear relaxation of what shares left open, by HiGHS.

Operators are binary and queries, which are then whole or not, continuous. HiGHS computes in floating point: its bound
is taken with an allowance of 1e-6 of itself and, where values are whole multiples of one number, rounded down to such a
multiple; its set is checked by who asks.
"""

from __future__ import annotations

import math
import time

import numpy as np

from models.checked_arrays import BoolArray
from models.selection import QuerySelection
from optimizer.quiet import quiet_stdout
from optimizer.selection.query_program import Fixed, Found
from optimizer.selection.scaling import Scaled

_ALLOWANCE = 1e-6
_LARGEST_WHOLE = 1e4
_WORK_PER_S = 200_000  # branch-and-bound nodes times pairs per second of the time limit


def branch_and_bound(
    problem: QuerySelection, numbers: Scaled, known: Fixed, *, time_limit_s: float, deadline: float
) -> Found:
    """The best set among those that keep what is fixed, with a bound for these sets; None where nothing was found."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - slow to load
    from scipy.sparse import coo_array, vstack  # noqa: PLC0415

    open_queries = np.flatnonzero(~known.query_in & ~known.query_out)
    needed = problem.union(~known.query_out) & ~known.operator_in
    open_operators = np.flatnonzero(needed)
    n_q, n = len(open_queries), len(open_queries) + len(open_operators)
    column = np.full(problem.n_operators, -1)
    column[open_operators] = n_q + np.arange(len(open_operators))
    row = np.full(problem.n_queries, -1)
    row[open_queries] = np.arange(n_q)
    pairs = problem.uses[(row[problem.uses[:, 0]] >= 0) & needed[problem.uses[:, 1]]]
    if not len(pairs):
        return Found(None, None, False)
    each = np.arange(len(pairs))
    ones = np.ones(len(pairs))
    below = coo_array(
        (np.concatenate([ones, -ones]), (np.tile(each, 2), np.concatenate([row[pairs[:, 0]], column[pairs[:, 1]]]))),
        shape=(len(pairs), n),
    )
    room = math.fsum([problem.limit, *(-problem.weight[known.operator_in]).tolist()])
    if room <= 0:
        return Found(None, None, False)
    # whole weights stay as they are, for cover cuts; others are relative to the room, for the tolerance of rows
    whole = bool((problem.weight == np.rint(problem.weight)).all()) and problem.weight.max() <= _LARGEST_WHOLE
    unit_weight = 1.0 if whole else room
    weights = problem.weight[open_operators] / unit_weight
    capacity = coo_array((weights, (np.zeros(len(weights), int), column[open_operators])), shape=(1, n))
    value = (numbers.value // numbers.grain).astype(np.float64)
    unit = 1.0 if numbers.exact else max(1.0, value[open_queries].sum() / 2.0**30)
    cost = np.concatenate([-value[open_queries] / unit, np.zeros(len(open_operators))])
    upper = np.concatenate([np.zeros(len(pairs)), [room / unit_weight]])
    with quiet_stdout():
        found = milp(
            cost,
            constraints=LinearConstraint(vstack([below, capacity]).tocsc(), -np.inf, upper),
            integrality=np.concatenate([np.zeros(n_q), np.ones(len(open_operators))]),
            bounds=Bounds(0.0, 1.0),
            options={
                "time_limit": max(0.01, deadline - time.monotonic()),
                "node_limit": max(1, int(_WORK_PER_S * time_limit_s / len(pairs))),
                "mip_rel_gap": 0.0,
            },
        )
    late = time.monotonic() >= deadline
    fixed_value = int((numbers.value[known.query_in] // numbers.grain).sum())
    bound = None
    lowest = getattr(found, "mip_dual_bound", None)
    if lowest is not None and math.isfinite(lowest):
        top = -lowest * unit
        whole = fixed_value + math.floor(top + _ALLOWANCE * max(1.0, abs(top)))
        bound = numbers.real(whole * numbers.grain)
    return Found(_chosen(problem, known, open_operators, column, found.x), bound, late)


def _chosen(
    problem: QuerySelection, known: Fixed, open_operators: np.ndarray, column: np.ndarray, x: np.ndarray | None
) -> BoolArray | None:
    """The queries that are whole with the operators of a solution."""
    if x is None:
        return None
    operators = known.operator_in.copy()
    operators[open_operators] = x[column[open_operators]] > 0.5
    return problem.whole(operators) & ~known.query_out
