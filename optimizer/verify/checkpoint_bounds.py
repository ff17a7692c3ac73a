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

**The bound of column generation** (`column_generation_bound`), from one multiplier per checkpoint. For multipliers u[j]
of any sign, with S any set of checkpoints that node n may store together,

    sum c x  =  sum_j u[j] + sum_n sum_{j on n} (c[j,n] - u[j])
             >= sum_j u[j] - sum_n K_n(u),     K_n(u) = max over S of sum_{j in S} (u[j] - c[j,n])

for every allocation that stores each checkpoint once. K_n is a knapsack problem, solved here by dynamic programming
over all checkpoints of positive value, without any short cut. Source: Fisher, Jaikumar and Van Wassenhove 1986; with
the best u it equals the bound of Dantzig-Wolfe, whose columns are the sets S.

**The program in whole numbers** (`whole_numbers`) makes sums and comparisons behind that proof exact. Costs are
multiplied by a power of two and rounded down, loads by a power of two per node and rounded down, capacities rounded
down after an allowance for the float64 sum that `overloads` takes. An allocation that keeps the true capacities keeps
these, and costs at least as much as here: a lower bound of this program is one of the true program. Where costs and
loads are whole numbers already (the generalised assignment problem), nothing is rounded.

All numbers stay below 2**53: float64 holds them, and adds them, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import networkx as nx
import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation

_CHUNK = 2_000_000  # pairs that are looked at together, so that no second matrix of all costs is made
_EPS = float(np.finfo(np.float64).eps)


def chunks(problem: CheckpointAllocation) -> Iterator[slice]:
    """Generate slices of all checkpoints, in order: so few rows of the matrices (J, N) at once that memory suffices."""
    step = max(1, _CHUNK // problem.n_nodes)
    for first in range(0, problem.n_checkpoints, step):
        yield slice(first, min(first + step, problem.n_checkpoints))


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
    return all(bool(fits_in(problem, rows).any(axis=1).all()) for rows in chunks(problem))


def reduced_minima(
    problem: CheckpointAllocation, prices: FloatArray, fits: BoolArray | None = None
) -> tuple[FloatArray, IntArray]:
    """Return the smallest priced cost of each checkpoint and the node that has it, both (J,)."""
    minima = np.empty(problem.n_checkpoints)
    nodes = np.empty(problem.n_checkpoints, dtype=np.int64)
    for rows in chunks(problem):
        within = fits_in(problem, rows) if fits is None else fits[rows]
        # Without prices the costs are compared as they are: a sum with zeros would only take time.
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
    # `fsum` rounds once; what is deducted below is the rounding inside each minimum and product.
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
    # Who may not stay moves at the least priced cost, and uses up a move before anybody else.
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
    # Weightless checkpoints never reach a minimum: more than all of them are needed, which nothing satisfies.
    least = np.where((weight == 0) & (problem.lower > 0), j + 1, least)
    return Counts(least.astype(np.int64), most.astype(np.int64))


def potential_bound(problem: CheckpointAllocation, limit: Counts, potentials: FloatArray) -> tuple[float, float]:
    """Return the lower bound that node potentials (N,) of any sign prove, and how far rounding may have moved it."""
    minima = potential_minima(problem, potentials)
    paid = np.maximum(potentials, 0) * limit.most - np.maximum(-potentials, 0) * limit.least
    value = math.fsum(minima.tolist()) - math.fsum(paid.tolist())
    # Minima are entries of the cost matrix: without potentials nothing was rounded.
    if not potentials.any():
        return value, 0.0
    size = math.fsum(np.abs(minima).tolist()) + problem.n_checkpoints * float(np.abs(potentials).max())
    return value, 4 * _EPS * (size + float(np.abs(paid).sum()))


def potential_minima(problem: CheckpointAllocation, potentials: FloatArray) -> FloatArray:
    """Return min_n (c[j,n] + p[n]) over the allowed nodes, (J,), in float64."""
    minima = np.empty(problem.n_checkpoints)
    for rows in chunks(problem):
        minima[rows] = np.where(problem.allowed[rows], problem.cost[rows] + potentials, np.inf).min(axis=1)
    return minima


def cliques(problem: CheckpointAllocation) -> list[IntArray]:
    """Return the connected components of the anti-affinity pairs, each as its sorted checkpoints."""
    if not problem.neighbours:
        return []
    parts = nx.connected_components(nx.from_edgelist(problem.anti_affinity.tolist()))
    return [np.array(one, dtype=np.int64) for one in sorted(map(sorted, parts))]


def is_clique(problem: CheckpointAllocation, members: IntArray) -> bool:
    """Return True when every two members of a component are an anti-affinity pair."""
    return all(len(problem.neighbours[j]) == len(members) - 1 for j in members.tolist())


LARGEST_ROOM = 2**14  # loads are counted in at most so many units of a capacity, for a proof
_FRACTION = 2**10  # whole costs are counted in such parts, for multipliers between them
_LARGEST_SUM = 2.0**46  # of the costs; multipliers may be some times larger


@dataclass(frozen=True)
class WholeNumbers:
    """cost (N, J) in units of 1 / scale, infinite where a pair is not allowed; load (N, J), room (N,) below 2**15.

    `whole`: true costs are whole numbers, so objectives are. `exact_loads`: no load was rounded.
    """

    cost: FloatArray
    load: IntArray
    room: IntArray
    scale: float
    whole: bool
    exact_loads: bool

    def proven(self, least: float) -> float:
        """Return a lower bound of true objectives, from one of this program in its units."""
        return float(math.ceil(least / self.scale)) if self.whole else least / self.scale

    def excluded(self, objective: float) -> float:
        """Return the least value in units that no answer better than `objective` can have."""
        return (objective - 1) * self.scale + 1 if self.whole else math.ceil(objective * self.scale)


def whole_numbers(
    problem: CheckpointAllocation, largest_room: int = LARGEST_ROOM, *, near: bool = False
) -> WholeNumbers:
    """Return the program in whole numbers.

    `near` rounds loads to the nearest one, to look for allocations: that proves nothing.
    """
    fits = fitting(problem).T
    true = np.where(fits, problem.cost.T, 0.0).astype(np.float64)
    largest = float(np.abs(true).max()) or 1.0
    # The scale keeps the sum of all costs below 2**46, so that multipliers some times larger still add exactly.
    bits = math.log2(_LARGEST_SUM) - math.log2(largest) - math.log2(problem.n_checkpoints)
    scale = 2.0 ** min(math.floor(bits), 1000)
    whole = bool((true == np.rint(true)).all()) and scale >= 1
    if whole:
        scale = min(scale, float(_FRACTION))
    cost = np.where(fits, np.floor(true * scale), np.inf)
    load, room, exact = _loads(problem, fits, largest_room, near=near)
    return WholeNumbers(cost, load, room, scale, whole, exact)


def _loads(
    problem: CheckpointAllocation, fits: np.ndarray, largest: int, *, near: bool
) -> tuple[IntArray, IntArray, bool]:
    weights = np.where(fits, problem.weights.T, 0.0)
    # Infinite capacities would have no whole number.
    upper = np.minimum(problem.upper, weights.sum(axis=1) + 1)  # more room than all loads together is no limit
    if bool((weights == np.rint(weights)).all()) and float(upper.max()) <= LARGEST_ROOM:
        return weights.astype(np.int64), np.floor(upper).astype(np.int64), True
    scale = 2.0 ** np.floor(np.log2(largest / np.maximum(upper, 1e-280)))
    if near:
        load = np.rint(weights * scale[:, None]).astype(np.int64)
        return load, np.maximum(np.floor(upper * scale).astype(np.int64) - 1, 0), False
    load = np.floor(weights * scale[:, None]).astype(np.int64)
    return load, np.floor(upper * scale * (1 + 1e-12)).astype(np.int64), False


LARGEST_CHECKED = 2_000_000  # J * N above which tables of all loads would take too long; no plan has multipliers there
LARGEST_SUM = 2.0**52  # of the absolute multipliers: with the costs still below 2**53


def column_generation_bound(problem: CheckpointAllocation, multipliers: FloatArray) -> float:
    """Return the lower bound of every feasible allocation that multipliers (J,) prove; -inf when they are too large."""
    numbers = whole_numbers(problem)
    u = np.rint(multipliers * numbers.scale)
    if not np.isfinite(u).all() or float(np.abs(u).sum()) > LARGEST_SUM:
        return -math.inf
    least = float(u.sum()) - sum(_heaviest(numbers, u, node) for node in range(problem.n_nodes))
    return numbers.proven(least)


def _heaviest(numbers: WholeNumbers, u: FloatArray, node: int) -> float:
    """Return K of one node, in whole numbers."""
    room = int(numbers.room[node])
    value, load = u - numbers.cost[node], numbers.load[node]
    can = np.flatnonzero((value > 0) & (load <= room))
    # A plain table over all items, on purpose: the proof must not share a short cut with the search.
    best = np.zeros(room + 1)
    for gain, weight in zip(value[can].tolist(), load[can].tolist(), strict=True):
        np.maximum(best[weight:], best[: room + 1 - weight] + gain, out=best[weight:])
    return float(best[room])


def multiplier_bound(problem: CheckpointAllocation, multipliers: FloatArray | None) -> float | None:
    """Return the bound of multipliers (J,), one knapsack problem per node; None for any that cannot be used."""
    if multipliers is None or multipliers.shape != (problem.n_checkpoints,) or problem.cost.size > LARGEST_CHECKED:
        return None
    return float(column_generation_bound(problem, multipliers))
