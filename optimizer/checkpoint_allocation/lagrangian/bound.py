"""The Lagrangian bound: a proven lower bound from one dual price per node.

For prices lambda >= 0 on the capacities, with l the loads and u the capacities,

    L(lambda) = sum_j min_{n allowed} (c[j,n] + lambda[n] l[j,n]) - sum_n lambda[n] u[n]

is at most the objective of every allocation that keeps the capacities: each of its terms is at least the
minimum, and lambda (load - u) is not positive. For lambda < 0 the same holds with the least load in the
place of u. Constraints that are left out (anti-affinity, moves) only make it weaker. L is always evaluated over
the whole matrix in float64, minus an allowance for rounding, so that a poor price gives a weak bound and
never a false one. Prices come from the linear relaxation at small sizes, else from subgradient steps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.params import DEFAULT, LagrangianParameters
from optimizer.common.quiet import quiet_stdout

_CHUNK = 2_000_000
_EPS = float(np.finfo(np.float64).eps)


def fitting(problem: CheckpointAllocation) -> BoolArray:
    """True where a pair is allowed and its load alone fits, (J, N): others are in no feasible answer."""
    return fits_in(problem, slice(None))


def fits_in(problem: CheckpointAllocation, rows: slice | IntArray) -> BoolArray:
    """True where a pair is allowed and its load alone fits, for some checkpoints, (len(rows), N)."""
    if problem.load_fits_everywhere:
        return problem.allowed[rows]
    return problem.allowed[rows] & (problem.weights[rows] <= problem.upper)


def fits_somewhere(problem: CheckpointAllocation) -> bool:
    """Return whether every checkpoint has a node that may store it."""
    step = max(1, _CHUNK // problem.n_nodes)
    parts = (slice(first, first + step) for first in range(0, problem.n_checkpoints, step))
    return all(bool(fits_in(problem, rows).any(axis=1).all()) for rows in parts)


def lagrangian_bound(problem: CheckpointAllocation, prices: FloatArray, fits: BoolArray | None = None) -> float:
    """L(prices), (N,); infinite when a checkpoint fits nowhere. A price below 0 is one on the minimum of its node."""
    minima, at = reduced_minima(problem, prices, fits)
    if not np.isfinite(minima).all():
        return math.inf
    used = prices != 0
    paid = prices[used] * np.where(prices > 0, problem.upper, problem.lower)[used]
    value: float = math.fsum(minima.tolist()) - math.fsum(paid.tolist())
    if not len(paid):
        return value  # each minimum is an entry of the cost matrix: nothing was rounded
    priced = np.abs(prices[at] * problem.weights[np.arange(problem.n_checkpoints), at])
    rounding: float = (
        4 * _EPS * (math.fsum(np.abs(minima).tolist()) + 2 * math.fsum(priced.tolist()) + np.abs(paid).sum())
    )
    return value - rounding


def reduced_minima(
    problem: CheckpointAllocation, prices: FloatArray, fits: BoolArray | None = None
) -> tuple[FloatArray, IntArray]:
    """The smallest priced cost of each checkpoint and the node that has it, both (J,)."""
    minima = np.empty(problem.n_checkpoints)
    nodes = np.empty(problem.n_checkpoints, dtype=np.int64)
    step = max(1, _CHUNK // problem.n_nodes)
    for first in range(0, problem.n_checkpoints, step):
        rows = slice(first, first + step)
        within = fits_in(problem, rows) if fits is None else fits[rows]
        priced = problem.cost[rows] + prices * problem.weights[rows] if prices.any() else problem.cost[rows]
        priced = np.where(within, priced, np.inf)
        nodes[rows] = priced.argmin(axis=1)
        minima[rows] = priced.min(axis=1)
    return minima, nodes


def dual_prices(problem: CheckpointAllocation, parameters: LagrangianParameters = DEFAULT.lagrangian) -> FloatArray:
    """Good prices (N,) for the capacities; zeros without a capacity."""
    if problem.capacity is None:
        return np.zeros(problem.n_nodes)
    if problem.cost.size <= parameters.lp_pairs:
        prices = _relaxation_prices(problem)
        if prices is not None:
            return prices
    return _subgradient_prices(problem, parameters.subgradient_entries)


def _relaxation_prices(problem: CheckpointAllocation) -> FloatArray | None:
    from scipy import sparse  # noqa: PLC0415
    from scipy.optimize import linprog  # noqa: PLC0415

    j, n = np.nonzero(fitting(problem))
    cost = problem.cost[j, n].astype(np.float64)  # of float32 a unit of 1e-300 would be 0
    shifted = cost - cost.min()
    unit = max(float(shifted.max(initial=0.0)), 1e-300)
    cap = np.maximum(problem.upper, 1e-300)
    columns = np.arange(len(j))
    share = np.where(problem.weights[j, n] > 0, problem.weights[j, n] / cap[n], 0.0)
    load = sparse.csr_array((share, (n, columns)), shape=(problem.n_nodes, len(j)))
    once = sparse.csr_array((np.ones(len(j)), (j, columns)), shape=(problem.n_checkpoints, len(j)))
    with quiet_stdout():
        answer: Any = linprog(  # type: ignore[call-overload]
            shifted / unit,
            A_ub=load,
            b_ub=np.ones(problem.n_nodes),
            A_eq=once,
            b_eq=np.ones(problem.n_checkpoints),
            bounds=(0, None),
            method="highs-ds",
        )
    if answer.status != 0:
        return None
    prices = np.maximum(-np.asarray(answer.ineqlin.marginals), 0.0) * unit / cap
    return np.where(np.isfinite(prices), prices, 0.0)


def _subgradient_prices(problem: CheckpointAllocation, entries: int) -> FloatArray:
    assert problem.capacity is not None
    fits = fitting(problem)
    cap = np.where(problem.capacity > 0, problem.capacity, 1.0)
    prices = best_prices = np.zeros(problem.n_nodes)
    best, target, patience, pace = -math.inf, math.inf, 0, 1.0
    rows = np.arange(problem.n_checkpoints)
    for _ in range(int(np.clip(entries // problem.cost.size, 15, 400))):
        minima, at = reduced_minima(problem, prices, fits)
        value = math.fsum(minima.tolist()) - float(prices @ problem.upper)
        if value > best:
            best, best_prices, patience = value, prices, 0
        else:
            patience += 1
        if patience >= 8:
            pace, patience, prices = pace / 2, 0, best_prices
            continue
        slope = (np.bincount(at, problem.weights[rows, at], problem.n_nodes) - problem.upper) / cap
        slope = np.where((prices <= 0) & (slope < 0), 0.0, slope)  # a price that cannot fall is no direction
        square = float(slope @ slope)
        if square <= 0:
            break
        if not math.isfinite(target):
            target = best + 0.1 * max(abs(best), float(np.abs(minima).sum()) * 0.1, 1e-12)
        step = pace * max(target - value, 1e-3 * abs(best)) / square
        prices = np.maximum(prices + step * slope / cap, 0.0)
    return best_prices
