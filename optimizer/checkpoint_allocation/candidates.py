"""The few nodes of each checkpoint that matter at given prices, and prices that follow from them.

With J * N in the hundred millions nothing can look at all pairs often. At prices lambda the nodes of checkpoint j are
ranked by c[j,n] + lambda[n] l[j,n], and only the best K are kept. The ranking is made in single precision, some rows at
a time: it chooses what is looked at and proves nothing.

Prices on the kept pairs follow from a smoothed problem: checkpoint j spreads over its nodes in proportion to

    exp(-(c[j,n] + lambda[n] l[j,n]) / (t l[j])),    l[j] the mean of l[j,n] over the kept nodes,

which uses node n by U[n]; then lambda[n] <- max(0, lambda[n] + t log(U[n] / capacity[n])). With equal loads this is the
scaling of Sinkhorn with inequalities; the temperature t falls towards the linear program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.prices import fits_in

_CHUNK = 1_000_000  # pairs that are ranked at a time
_SAMPLE_PAIRS = 2_000_000
_WIDTH = 4  # of `_best`: one in so many entries of a row is looked at first


@dataclass(frozen=True)
class Candidates:
    """The kept pairs: `rows` (R,) checkpoints, `nodes` (R, K), their costs and loads (R, K) in float64.

    A checkpoint with fewer than K nodes repeats one with infinite cost.
    """

    rows: IntArray
    nodes: IntArray
    cost: FloatArray
    load: FloatArray

    def priced(self, prices: FloatArray) -> FloatArray:
        """The cost at prices (N,), (R, K)."""
        return self.cost + prices[self.nodes] * self.load


def candidates(
    problem: CheckpointAllocation, prices: FloatArray, kept: int, rows: IntArray | None = None
) -> Candidates:
    """The best `kept` nodes at prices of some checkpoints, all when `rows` is None; nodes ascend in no order."""
    every = np.arange(problem.n_checkpoints) if rows is None else rows
    kept = min(kept, problem.n_nodes)
    nodes = np.empty((len(every), kept), dtype=np.int64)
    cost, load = np.empty(nodes.shape), np.empty(nodes.shape)
    step = max(1, _CHUNK // problem.n_nodes)
    low = prices.astype(np.float32)
    for first in range(0, len(every), step):
        part = slice(first, first + step)
        chunk = part if rows is None else every[part]
        fits = fits_in(problem, chunk)
        weights = problem.load[chunk].astype(np.float32)
        priced = low * (weights if weights.ndim == 2 else weights[:, None])
        priced += problem.cost[chunk]
        priced[~fits] = np.inf
        best = _best(priced, kept)
        nodes[part] = best
        at = np.arange(len(best))[:, None]
        cost[part] = np.where(fits[at, best], problem.cost[every[part][:, None], best], np.inf)
        load[part] = problem.weights[every[part][:, None], best]
    return Candidates(every, nodes, cost, load)


def _best(values: np.ndarray, kept: int) -> IntArray:
    """The columns of the `kept` smallest values of each row.

    Wide rows are folded first: the smallest of every _WIDTH entries; the kept smallest lie in the folds that have the
    kept smallest minima.
    """
    count, width = values.shape
    if kept >= width:
        return np.broadcast_to(np.arange(width), values.shape).astype(np.int64)
    if width < 8 * kept * _WIDTH:
        return np.argpartition(values, kept - 1, axis=1)[:, :kept]
    fold = width // _WIDTH
    rest = np.arange(fold * _WIDTH, width)
    least = values[:, :fold].copy()
    for part in range(1, _WIDTH):
        np.minimum(least, values[:, part * fold : (part + 1) * fold], out=least)
    chosen = np.argpartition(least, kept - 1, axis=1)[:, :kept]
    wide = np.concatenate([chosen + part * fold for part in range(_WIDTH)], axis=1)
    wide = np.concatenate([wide, np.broadcast_to(rest, (count, len(rest)))], axis=1)
    inside = np.argpartition(np.take_along_axis(values, wide, axis=1), kept - 1, axis=1)[:, :kept]
    return np.take_along_axis(wide, inside, axis=1)


def smoothed_prices(
    problem: CheckpointAllocation,
    found: Candidates,
    prices: FloatArray,
    temperatures: FloatArray,
    *,
    steps: int,
    share: float = 1.0,
) -> FloatArray:
    """Prices (N,) after some steps at each temperature, from given ones; `share` of the load is in `found`."""
    n = problem.n_nodes
    capacity = np.maximum(problem.upper * share, 1e-300)
    finite = np.isfinite(found.cost)
    mean = np.where(finite, found.load, 0.0).sum(axis=1) / np.maximum(finite.sum(axis=1), 1)
    mean = np.where(mean > 0, mean, 1.0)[:, None]
    rho = (found.cost / mean).astype(np.float32)
    relative = np.where(finite, found.load / mean, 1.0).astype(np.float32)
    load = found.load.astype(np.float32)
    flat = found.nodes.ravel()
    one = bool((relative == 1).all())
    for temperature in temperatures.tolist():
        for _ in range(steps):
            paid = prices.astype(np.float32)[found.nodes]
            spread = rho + (paid if one else paid * relative)
            spread -= spread.min(axis=1, keepdims=True)
            np.multiply(spread, np.float32(-1 / temperature), out=spread)
            np.exp(spread, out=spread)
            spread *= load / spread.sum(axis=1, keepdims=True)
            used = np.bincount(flat, weights=spread.ravel(), minlength=n)
            change = temperature * np.log(np.maximum(used, 1e-12 * capacity) / capacity)
            prices = np.maximum(prices + change, 0.0)
    return prices


def scale_of(problem: CheckpointAllocation) -> float:
    """The cost per load that differences between nodes are like: a temperature to begin with."""
    rows = _sample(problem, 2_000)
    fits = fits_in(problem, rows)
    count = np.maximum(fits.sum(axis=1), 1)
    mean = np.where(fits, problem.cost[rows], 0.0).sum(axis=1) / count
    square = np.where(fits, problem.cost[rows] - mean[:, None], 0.0)
    weight = problem.weights[rows].mean(axis=1)
    spread = np.sqrt((square * square).sum(axis=1) / count)[weight > 0] / weight[weight > 0]
    largest = float(np.median(spread)) if len(spread) else 0.0
    return largest or float(spread.max(initial=0.0)) or 1.0


def first_prices(problem: CheckpointAllocation, scale: float) -> FloatArray:
    """Rough prices (N,) from a sample of checkpoints, evenly spaced: the same for every run."""
    rows = _sample(problem, max(1, _SAMPLE_PAIRS // problem.n_nodes))
    load = float(problem.weights.mean(axis=1).sum())
    if load == 0:
        return np.zeros(problem.n_nodes)  # nothing fills a node
    share = float(problem.weights[rows].mean(axis=1).sum()) / load
    prices = np.zeros(problem.n_nodes)
    for start, stop, kept in ((0.5, 0.1, 200), (0.1, 0.03, 64)):
        found = candidates(problem, prices, kept, rows)
        falling = scale * np.geomspace(start, stop, 6)
        prices = smoothed_prices(problem, found, prices, falling, steps=4, share=share)
    return prices


def _sample(problem: CheckpointAllocation, count: int) -> IntArray:
    """At most `count` checkpoints, evenly spaced."""
    return np.unique(np.linspace(0, problem.n_checkpoints - 1, min(count, problem.n_checkpoints)).astype(np.int64))
