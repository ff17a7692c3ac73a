"""Lower bounds of a checkpoint allocation that need no solver: solvers ask for them, and the verifier recomputes them.

Sets: checkpoints j, nodes n. l[j,n] is the load of j on n, u[n] and v[n] the most and the least load of n, c the cost.

- *Lagrangian bound* (`lagrangian_bound`), one price per node. For prices lambda >= 0

      L(lambda) = sum_j min_{n allowed} (c[j,n] + lambda[n] l[j,n]) - sum_n lambda[n] u[n]

  is at most the objective of every allocation that keeps the capacities: each of its terms is at least the minimum,
  and lambda (load - u) is not positive. For lambda < 0 the same holds with v in the place of u.
- *Bound of few moves* (`move_bound`). At prices lambda a checkpoint that stays on the node r where it runs costs
  s[j] = c[j,r] + lambda[r] l[j,r], and one that moves at least its least priced cost m[j]. With at most k moves the
  priced cost is at least sum_j s[j] less the k largest s[j] - m[j]; checkpoints that may not stay cost m[j] and use up
  moves first. It is never below L(lambda), and far above it where the running plan is far from the best one.
- *Potential bound* (`potential_bound`), where all loads on a node are equal and capacities are numbers of checkpoints,
  at most most[n] and at least least[n]. For node potentials p of any sign

      sum_j min_n (c[j,n] + p[n]) - sum_n (max(p[n], 0) most[n] - max(-p[n], 0) least[n])

  which equals the objective at an optimal flow.

Constraints that are left out (anti-affinity, moves) only make a bound weaker. Each is evaluated over the whole matrix
in float64, less an allowance for rounding: poor prices give a weak bound and never a false one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation

_CHUNK = 2_000_000  # pairs that are looked at together, so that no second matrix of all costs is made
_EPS = float(np.finfo(np.float64).eps)


def fitting(problem: CheckpointAllocation) -> BoolArray:
    """Return True where a pair is allowed and its load alone fits, (J, N): others are in no feasible answer."""
    return fits_in(problem, slice(None))


def fits_in(problem: CheckpointAllocation, rows: slice | IntArray) -> BoolArray:
    """Return True where a pair is allowed and its load alone fits, for some checkpoints, (len(rows), N)."""
    if problem.load_fits_everywhere:
        return problem.allowed[rows]
    return problem.allowed[rows] & (problem.weights[rows] <= problem.upper)


def fits_somewhere(problem: CheckpointAllocation) -> bool:
    """Return whether every checkpoint has a node that may store it."""
    step = max(1, _CHUNK // problem.n_nodes)
    parts = (slice(first, first + step) for first in range(0, problem.n_checkpoints, step))
    return all(bool(fits_in(problem, rows).any(axis=1).all()) for rows in parts)


def reduced_minima(
    problem: CheckpointAllocation, prices: FloatArray, fits: BoolArray | None = None
) -> tuple[FloatArray, IntArray]:
    """Return the smallest priced cost of each checkpoint and the node that has it, both (J,)."""
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


def lagrangian_bound(problem: CheckpointAllocation, prices: FloatArray, fits: BoolArray | None = None) -> float:
    """Return L(prices) for prices (N,); infinite when a checkpoint fits nowhere.

    A price below 0 is one on the minimum of its node.
    """
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


def move_bound(problem: CheckpointAllocation, prices: FloatArray) -> float:
    """Return the bound of prices (N,) with at most `max_moves` moves; infinite when a checkpoint fits nowhere."""
    assert problem.current is not None and problem.max_moves is not None
    minima, at = reduced_minima(problem, prices)
    if not np.isfinite(minima).all():
        return math.inf
    rows, here = np.arange(problem.n_checkpoints), problem.current
    load = problem.weights[rows, here]
    stays = problem.allowed[rows, here] & (load <= problem.upper[here])
    rent = prices[here] * load
    stay = np.where(stays, problem.cost[rows, here].astype(np.float64) + rent, minima)
    saved = np.sort(stay - minima)[::-1]
    left = max(problem.max_moves - int((~stays).sum()), 0)
    used = prices != 0
    paid = prices[used] * np.where(prices > 0, problem.upper, problem.lower)[used]
    sizes = (stay, minima, 2 * rent[stays], 2 * prices[at] * problem.weights[rows, at], paid)
    rounding = 4 * _EPS * sum(math.fsum(np.abs(one).tolist()) for one in sizes)
    return math.fsum([*stay.tolist(), *(-saved[:left]).tolist(), *(-paid).tolist()]) - rounding


@dataclass(frozen=True, eq=False)
class Counts:
    """The least and the most checkpoints that each node takes, (N,)."""

    least: IntArray
    most: IntArray


def is_count_problem(problem: CheckpointAllocation) -> bool:
    """Return True when capacities only count checkpoints and nothing else couples them."""
    if problem.neighbours or problem.max_moves is not None:
        return False
    return bool((problem.load == problem.load[:1]).all())


def counts(problem: CheckpointAllocation) -> Counts:
    """Return the capacities as numbers of checkpoints; `least` exceeds J where a node cannot reach its minimum."""
    weight = problem.weights[0]
    j = problem.n_checkpoints
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        most = np.where(weight > 0, np.minimum(np.floor(problem.upper / weight), j), j)
        least = np.where(weight > 0, np.minimum(np.ceil(problem.lower / weight), j + 1), 0)
    least = np.where((weight == 0) & (problem.lower > 0), j + 1, least)
    return Counts(least.astype(np.int64), most.astype(np.int64))


def potential_bound(problem: CheckpointAllocation, limit: Counts, potentials: FloatArray) -> tuple[float, float]:
    """Return the lower bound that node potentials (N,) of any sign prove, and how far rounding may have moved it."""
    minima = potential_minima(problem, potentials)
    paid = np.maximum(potentials, 0) * limit.most - np.maximum(-potentials, 0) * limit.least
    value = math.fsum(minima.tolist()) - math.fsum(paid.tolist())
    if not potentials.any():
        return value, 0.0
    size = math.fsum(np.abs(minima).tolist()) + problem.n_checkpoints * float(np.abs(potentials).max())
    return value, 4 * _EPS * (size + float(np.abs(paid).sum()))


def potential_minima(problem: CheckpointAllocation, potentials: FloatArray) -> FloatArray:
    """Return min_n (c[j,n] + p[n]) over the allowed nodes, (J,), in float64."""
    minima = np.empty(problem.n_checkpoints)
    step = max(1, _CHUNK // problem.n_nodes)
    for first in range(0, problem.n_checkpoints, step):
        rows = slice(first, first + step)
        minima[rows] = np.where(problem.allowed[rows], problem.cost[rows] + potentials, np.inf).min(axis=1)
    return minima


def cliques(problem: CheckpointAllocation) -> list[IntArray]:
    """Return the connected components of the anti-affinity pairs, each as its sorted checkpoints."""
    if not problem.neighbours:
        return []
    import networkx as nx  # noqa: PLC0415 - only needed for copies

    parts = nx.connected_components(nx.from_edgelist(problem.anti_affinity.tolist()))
    return [np.array(one, dtype=np.int64) for one in sorted(map(sorted, parts))]


def is_clique(problem: CheckpointAllocation, members: IntArray) -> bool:
    """Return True when every two members of a component are an anti-affinity pair."""
    return all(len(problem.neighbours[j]) == len(members) - 1 for j in members.tolist())
