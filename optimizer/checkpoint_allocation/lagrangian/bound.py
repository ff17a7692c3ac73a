"""Good dual prices of the nodes' capacities, for the Lagrangian bound (`optimizer.verify.checkpoint_bounds`).

The bound holds at any prices. Here they come from the linear relaxation at small sizes, else from subgradient steps.
"""

from __future__ import annotations

import math

import numpy as np

from models.checked_arrays import FloatArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.params import DEFAULT, LagrangianParameters
from optimizer.common.solvers import linear_program
from optimizer.verify.checkpoint_bounds import fitting, reduced_minima


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

    j, n = np.nonzero(fitting(problem))
    cost = problem.cost[j, n].astype(np.float64)  # of float32 a unit of 1e-300 would be 0
    shifted = cost - cost.min()
    unit = max(float(shifted.max(initial=0.0)), 1e-300)
    cap = np.maximum(problem.upper, 1e-300)
    columns = np.arange(len(j))
    share = np.where(problem.weights[j, n] > 0, problem.weights[j, n] / cap[n], 0.0)
    load = sparse.csr_array((share, (n, columns)), shape=(problem.n_nodes, len(j)))
    once = sparse.csr_array((np.ones(len(j)), (j, columns)), shape=(problem.n_checkpoints, len(j)))
    answer = linear_program(
        shifted / unit,
        at_most=(load, np.ones(problem.n_nodes)),
        equal=(once, np.ones(problem.n_checkpoints)),
        method="highs-ds",
    )
    if not answer.is_optimal:
        return None
    prices = np.maximum(-answer.dual_at_most, 0.0) * unit / cap
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
