"""Good dual prices of the nodes' capacities, for the Lagrangian bound (`optimizer.verify.checkpoint_bounds`).

The bound holds at any prices. `dual_prices` takes them from the linear relaxation at small sizes, else from subgradient
steps. `smoothed_dual_prices` comes close to the best there are at any size, from the few pairs that matter.

There, checkpoint j spreads over its kept nodes in proportion to

    exp(-(c[j,n] + lambda[n] l[j,n]) / (t l[j])),    l[j] the mean of l[j,n] over the kept nodes,

and uses node n by U[n]. That is the answer which maximises, over x of sum 1 for each checkpoint, minus the priced cost
plus t times an entropy; so the dual function of the capacities becomes smooth and stays concave (Nesterov 2005):

    L_t(lambda) = - sum_j t l[j] log sum_n exp(-(c[j,n] + lambda[n] l[j,n]) / (t l[j])) - sum_n lambda[n] u[n]

with slope U[n] - u[n]. It is below L(lambda) by at most t l[j] log K for each checkpoint, K the kept nodes. A
quasi-Newton method of limited memory with bounds (Byrd, Lu, Nocedal and Zhu 1995) ascends it for a counted number of
steps. Sums are taken in single precision: what comes out chooses and proves nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from models.checked_arrays import FloatArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.candidates import Candidates, candidates, sample
from optimizer.checkpoint_allocation.params import DEFAULT, LagrangianParameters
from optimizer.common.solvers import linear_program, sparse_matrix
from optimizer.verify.checkpoint_bounds import fitting, reduced_minima


def dual_prices(problem: CheckpointAllocation, parameters: LagrangianParameters = DEFAULT.lagrangian) -> FloatArray:
    """Return good prices (N,) [cost per load] for the capacities; zeros without a capacity.

    The method follows from the size: duals of the linear relaxation up to `lp_pairs` pairs, above that subgradient
    steps, whose number follows from `subgradient_entries`. Any result proves a bound; poor ones a weak one.
    """
    if problem.capacity is None:
        return np.zeros(problem.n_nodes)
    if problem.cost.size <= parameters.lp_pairs:
        # The linear program knows the best prices; the steps only come near them.
        prices = _relaxation_prices(problem)
        if prices is not None:
            return prices
    return _subgradient_prices(problem, parameters.subgradient_entries)


def _relaxation_prices(problem: CheckpointAllocation) -> FloatArray | None:
    """Return prices (N,) [cost per load] from the duals of the linear relaxation; None where the solver fails."""
    j, n = np.nonzero(fitting(problem))
    cost = problem.cost[j, n].astype(np.float64)  # of float32 a unit of 1e-300 would be 0
    # Shifted and divided by the largest difference: duals change by the unit alone.
    shifted = cost - cost.min()
    unit = max(float(shifted.max(initial=0.0)), 1e-300)
    # A capacity of zero must not divide; loads on it are no fit in any case.
    cap = np.maximum(problem.upper, 1e-300)
    columns = np.arange(len(j))
    share = np.where(problem.weights[j, n] > 0, problem.weights[j, n] / cap[n], 0.0)
    load = sparse_matrix(share, n, columns, (problem.n_nodes, len(j)))
    once = sparse_matrix(np.ones(len(j)), j, columns, (problem.n_checkpoints, len(j)))
    answer = linear_program(
        shifted / unit,
        at_most=(load, np.ones(problem.n_nodes)),
        equal=(once, np.ones(problem.n_checkpoints)),
        method="highs-ds",
    )
    if not answer.is_optimal:
        return None
    # A dual of an at-most row has one sign up to the solver's tolerance: clipped, for a price below 0 bounds nothing.
    prices = np.maximum(-answer.dual_at_most, 0.0) * unit / cap
    return np.where(np.isfinite(prices), prices, 0.0)


def _subgradient_prices(problem: CheckpointAllocation, entries: int) -> FloatArray:
    """Return the best prices (N,) [cost per load] of a counted number of subgradient steps.

    Steps are Polyak's towards a target above the best bound; the pace halves when nothing has improved for long.
    """
    assert problem.capacity is not None
    fits = fitting(problem)
    cap = np.where(problem.capacity > 0, problem.capacity, 1.0)
    prices = best_prices = np.zeros(problem.n_nodes)
    best, target, patience, pace = -math.inf, math.inf, 0, 1.0
    rows = np.arange(problem.n_checkpoints)
    # Work, not time: the same number of steps on every machine.
    for _ in range(int(np.clip(entries // problem.cost.size, 15, 400))):
        minima, at = reduced_minima(problem, prices, fits)
        value = math.fsum(minima.tolist()) - float(prices @ problem.upper)
        if value > best:
            best, best_prices, patience = value, prices, 0
        else:
            patience += 1
        # Back to the best prices with half the pace: else the steps would go on circling around the optimum.
        if patience >= 8:
            pace, patience, prices = pace / 2, 0, best_prices
            continue
        slope = (np.bincount(at, problem.weights[rows, at], problem.n_nodes) - problem.upper) / cap
        slope = np.where((prices <= 0) & (slope < 0), 0.0, slope)  # a price that cannot fall is no direction
        square = float(slope @ slope)
        if square <= 0:
            break
        # No upper bound is known: the first target is a guess, and `pace` corrects it.
        if not math.isfinite(target):
            target = best + 0.1 * max(abs(best), float(np.abs(minima).sum()) * 0.1, 1e-12)
        step = pace * max(target - value, 1e-3 * abs(best)) / square
        prices = np.maximum(prices + step * slope / cap, 0.0)
    return best_prices


def first_prices(
    problem: CheckpointAllocation, scale: float, parameters: LagrangianParameters = DEFAULT.lagrangian
) -> FloatArray:
    """Return rough prices (N,) from a sample of checkpoints, evenly spaced: the same for every run.

    `scale` [cost per load] is that of `candidates.scale_of`.
    """
    rows = sample(problem, max(1, parameters.sample_pairs // problem.n_nodes))
    load = float(problem.weights.mean(axis=1).sum())
    prices = np.zeros(problem.n_nodes)
    if load == 0:
        return prices  # nothing fills a node
    # The sample holds a share of the load, so it sees the same share of every capacity.
    share = float(problem.weights[rows].mean(axis=1).sum()) / load
    # A high temperature first: rough prices change which nodes are kept in the next round.
    for temperature, kept in parameters.sample_temperatures:
        found = candidates(problem, prices, kept, rows)
        prices = smoothed_dual_prices(
            problem,
            found,
            prices,
            temperature * scale,
            steps=parameters.sample_steps,
            share=share,
            parameters=parameters,
        )
    return prices


def smoothed_dual_prices(
    problem: CheckpointAllocation,
    found: Candidates,
    prices: FloatArray,
    temperature: float,
    *,
    steps: int,
    share: float = 1.0,
    parameters: LagrangianParameters = DEFAULT.lagrangian,
) -> FloatArray:
    """Return prices (N,) after at most `steps` steps from given ones; `share` of the load is in `found`.

    `temperature`: t, in cost for each load. Where the method fails, the given prices come back.
    """
    from scipy.optimize import minimize  # noqa: PLC0415

    begin = np.where(np.isfinite(problem.upper), np.maximum(prices, 0.0), 0.0)
    dual = SmoothedDual(problem, found, begin, temperature, share)
    if dual.total == 0 or not dual.limited.any():
        return begin
    # Prices are at least 0: in the variable, the change in units of the temperature, that is a lower limit.
    lows = (-begin / temperature).tolist()
    with np.errstate(over="ignore", invalid="ignore"):
        answer: Any = minimize(
            dual.below,
            np.zeros(len(begin)),
            jac=True,
            method="L-BFGS-B",
            # Nodes without a capacity are fixed at price 0 by equal limits.
            bounds=[(low, None if limited else low) for low, limited in zip(lows, dual.limited.tolist(), strict=True)],
            options={
                "maxiter": steps,
                "maxcor": parameters.memory,
                "maxls": parameters.trials,
                "ftol": parameters.least_rise,
                # No stop by slope: its unit is not comparable between problems; the relative rise and the steps decide.
                "gtol": 0.0,
            },
        )
    better: FloatArray = np.maximum(begin + np.asarray(answer.x) * temperature, 0.0)
    # The line search may end at a point that is no number: the given prices are still valid.
    return better if np.isfinite(better).all() and np.isfinite(answer.fun) else begin


class SmoothedDual:
    """L_t on the kept pairs, as a function of what is added to prices, in units of the temperature.

    `limited` (N,): the nodes with a capacity; others have a price of 0. `total`: the sum of all l[j].
    """

    def __init__(
        self, problem: CheckpointAllocation, found: Candidates, begin: FloatArray, temperature: float, share: float
    ) -> None:
        self.limited = np.isfinite(problem.upper)
        self._room = np.where(self.limited, problem.upper, 0.0) * share
        finite = np.isfinite(found.cost)
        self._mean = np.where(finite, found.load, 0.0).sum(axis=1) / np.maximum(finite.sum(axis=1), 1)
        self.total = float(self._mean.sum())
        # Loads relative to their mean: t l[j] is the unit in which checkpoint j compares its nodes.
        one = np.where(self._mean > 0, self._mean, 1.0)[:, None]
        priced = found.priced(begin)
        priced -= priced.min(axis=1, keepdims=True)  # single precision is enough for what is left
        with np.errstate(over="ignore"):
            self._extra = (priced / (one * temperature)).astype(np.float32)
        relative = np.where(finite, found.load / one, 1.0).astype(np.float32)
        # Node-independent loads, the common case, need no factor: a whole pass over (R, K) less at each step.
        self._relative = None if (relative == 1).all() else relative
        self._load = found.load.astype(np.float32)
        self._nodes, self._flat = found.nodes, found.nodes.ravel()

    def below(self, added: FloatArray) -> tuple[float, FloatArray]:
        """Return -L_t / (t total), but for a constant, and its slope (N,), when `added` (N,) is on the prices."""
        spread = added.astype(np.float32)[self._nodes]
        if self._relative is not None:
            spread *= self._relative
        spread += self._extra
        # The least is subtracted before exp: no overflow, and the largest term is exactly 1.
        least = spread.min(axis=1, keepdims=True)
        np.subtract(least, spread, out=spread)
        np.exp(spread, out=spread)
        sums = spread.sum(axis=1, keepdims=True)
        values = least[:, 0].astype(np.float64) - np.log(sums[:, 0].astype(np.float64))
        spread *= self._load / sums
        used = np.bincount(self._flat, weights=spread.ravel(), minlength=len(added))
        # sums and no dot products: those of a library may use more threads than were asked for
        value = float((self._mean * values).sum()) - float((added * self._room).sum())
        return -value / self.total, np.where(self.limited, self._room - used, 0.0) / self.total
