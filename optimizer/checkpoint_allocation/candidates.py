"""The few nodes of each checkpoint that matter at given prices.

With J * N in the hundred millions nothing can look at all pairs often. At prices lambda the nodes of checkpoint j are
ranked by c[j,n] + lambda[n] l[j,n], and only the best K are kept. The ranking is made in single precision, some rows at
a time: it chooses what is looked at and proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.verify.checkpoint_bounds import fits_in

_LARGE = 1e38  # of a price in single precision
_CHUNK = 1_000_000  # pairs that are ranked at a time
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
        """Return the cost at prices (N,), (R, K)."""
        return self.cost + prices[self.nodes] * self.load


def candidates(
    problem: CheckpointAllocation, prices: FloatArray, kept: int, rows: IntArray | None = None
) -> Candidates:
    """Return the best `kept` nodes at prices (N,) of some checkpoints, all when `rows` is None; in no order.

    Nodes are ranked in float32 by c[j,n] + prices[n] l[j,n]; costs and loads of the result are exact. Where a
    checkpoint fits on fewer nodes than `kept`, the rest have infinite cost.
    """
    every = np.arange(problem.n_checkpoints) if rows is None else rows
    kept = min(kept, problem.n_nodes)
    nodes = np.empty((len(every), kept), dtype=np.int64)
    cost, load = np.empty(nodes.shape), np.empty(nodes.shape)
    step = max(1, _CHUNK // problem.n_nodes)
    # Prices above the range of single precision would become infinite and hide the order of costs.
    low = np.clip(prices, -_LARGE, _LARGE).astype(np.float32)
    for first in range(0, len(every), step):
        part = slice(first, first + step)
        chunk = part if rows is None else every[part]
        fits = fits_in(problem, chunk)
        weights = problem.load[chunk].astype(np.float32)
        with np.errstate(over="ignore"):
            priced = low * (weights if weights.ndim == 2 else weights[:, None])
            priced += problem.cost[chunk]
        # After pricing: an infinite cost stays infinite, whereas a forbidden pair may have any cost.
        priced[~fits] = np.inf
        best = _best(priced, kept)
        nodes[part] = best
        at = np.arange(len(best))[:, None]
        # What is kept is read again in float64: single precision only ranked it.
        cost[part] = np.where(fits[at, best], problem.cost[every[part][:, None], best], np.inf)
        load[part] = problem.weights[every[part][:, None], best]
    return Candidates(every, nodes, cost, load)


def with_nodes(
    problem: CheckpointAllocation, found: Candidates, prices: FloatArray, assignment: IntArray
) -> Candidates:
    """Return candidates with the node (J,) of each checkpoint among them, in place of the dearest at prices (N,).

    A node where the checkpoint does not fit has infinite cost. `found` is not changed: others may hold its columns.
    """
    missing = np.flatnonzero(~(found.nodes == assignment[:, None]).any(axis=1))
    if not len(missing):
        return found
    nodes, cost, load = found.nodes.copy(), found.cost.copy(), found.load.copy()
    own, out = assignment[missing], found.priced(prices)[missing].argmax(axis=1)
    fits = problem.allowed[missing, own] & (problem.weights[missing, own] <= problem.upper[own])
    nodes[missing, out], load[missing, out] = own, problem.weights[missing, own]
    cost[missing, out] = np.where(fits, problem.cost[missing, own], np.inf)
    return Candidates(found.rows, nodes, cost, load)


def _best(values: np.ndarray, kept: int) -> IntArray:
    """Return the columns (R, kept) of the `kept` smallest values of each row.

    Wide rows are folded first: the smallest of every _WIDTH entries; the kept smallest lie in the folds that have the
    kept smallest minima.
    """
    count, width = values.shape
    if kept >= width:
        return np.broadcast_to(np.arange(width), values.shape).astype(np.int64)
    # Few columns: folding would cost more than it saves.
    if width < 8 * kept * _WIDTH:
        return np.argpartition(values, kept - 1, axis=1)[:, :kept]
    fold = width // _WIDTH
    # The tail that fills no fold is always looked at.
    rest = np.arange(fold * _WIDTH, width)
    least = values[:, :fold].copy()
    for part in range(1, _WIDTH):
        np.minimum(least, values[:, part * fold : (part + 1) * fold], out=least)
    # A fold's minimum is at most each of its members, so the folds of the kept smallest are among the chosen ones.
    chosen = np.argpartition(least, kept - 1, axis=1)[:, :kept]
    wide = np.concatenate([chosen + part * fold for part in range(_WIDTH)], axis=1)
    wide = np.concatenate([wide, np.broadcast_to(rest, (count, len(rest)))], axis=1)
    inside = np.argpartition(np.take_along_axis(values, wide, axis=1), kept - 1, axis=1)[:, :kept]
    return np.take_along_axis(wide, inside, axis=1)


def scale_of(problem: CheckpointAllocation) -> float:
    """Return the typical difference between nodes, in cost per load: a temperature to begin with.

    It is the median over a sample of checkpoints of the standard deviation of costs over nodes, divided by the load.
    The temperatures of the smoothed dual are shares of it, so they suit costs and loads of any unit.
    """
    # A sample is enough for an order of magnitude, and makes the cost independent of J.
    rows = sample(problem, 2_000)
    fits = fits_in(problem, rows)
    count = np.maximum(fits.sum(axis=1), 1)
    mean = np.where(fits, problem.cost[rows], 0.0).sum(axis=1) / count
    square = np.where(fits, problem.cost[rows] - mean[:, None], 0.0)
    weight = problem.weights[rows].mean(axis=1)
    spread = np.sqrt((square * square).sum(axis=1) / count)[weight > 0] / weight[weight > 0]
    # The median ignores rows of "never" costs; where more than half are flat, the largest spread says more than 0.
    largest = float(np.median(spread)) if len(spread) else 0.0
    return largest or float(spread.max(initial=0.0)) or 1.0


def sample(problem: CheckpointAllocation, count: int) -> IntArray:
    """Return at most `count` checkpoints, evenly spaced: the same for every run.

    The result (m,) ascends, and is all of them where there are no more than `count`.
    """
    return np.unique(np.linspace(0, problem.n_checkpoints - 1, min(count, problem.n_checkpoints)).astype(np.int64))
