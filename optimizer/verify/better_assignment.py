"""Trying all assignments of a small problem that could be cheaper than a value, without a solver.

The search is depth first; costs are whole multiples of one power of two, of any length, and not rounded. Bounds on what
the rest costs are the cheapest allowed nodes, with a limit on moves staying and the moves that save most; both also at
prices p >= 0 of the nodes' capacities U, since

    sum c[k, n] x[k, n]  >=  sum (c[k, n] + p[n] w[k, n]) x[k, n]  -  sum p[n] U[n].

The module also makes cheap assignments without any solver: one that costs less than a claimed bound refutes it. None of
them is guaranteed to keep the constraints: `optimizer.verify.checkpoints` checks each before it says anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.common.enumeration import MOST_STEPS, Tried, exact_integers
from optimizer.verify.constraints import constraint_violations

_ASCENTS = 200  # steps of the ascent to good prices
_HALVED_AFTER = 10  # steps without a better bound, until steps are halved
_ROUNDING = 1e-12  # relative: more than float64 adds to a sum of loads


def better_assignment(
    problem: CheckpointAllocation, than: float, most: int = MOST_STEPS, prices: FloatArray | None = None
) -> Tried:
    """Return the cheapest assignment (J,) that keeps every constraint and costs less than a value (infinity: any).

    `most` limits the steps of the search. If they are used up, `decided` of the result is False, and `best` is the best
    assignment so far. `prices` (N,), at least 0, raise the bounds that cut branches off; they never change the answer.
    """
    j, n = problem.cost.shape
    if j * n > most:
        return Tried(None, False)
    fits = problem.allowed & (problem.weights <= problem.upper)
    if not fits.any(axis=1).all():
        return Tried(None, True)
    return _Search(problem, fits, than, prices).run(most)


def good_prices(problem: CheckpointAllocation, value: float) -> FloatArray:
    """Return prices (N,) [cost per load] of the capacities at which the bound is high, by ascents towards a value.

    Subgradient steps of Polyak (1967): the step is in proportion to the distance between bound and `value`. The prices
    prove nothing by themselves; they only make `better_assignment` cut off earlier.
    """
    prices = best = np.zeros(problem.n_nodes)
    if problem.capacity is None or not math.isfinite(value):
        return best
    weights, upper, rows = problem.weights, problem.upper, np.arange(problem.n_checkpoints)
    cost = np.where(problem.allowed & (weights <= upper), problem.cost, np.inf)
    highest, scale, since = -math.inf, 1.0, 0
    for _ in range(_ASCENTS):
        reduced = cost + prices * weights
        node = reduced.argmin(axis=1)
        bound = float(reduced[rows, node].sum() - prices @ upper)
        highest, best, since = (bound, prices, 0) if bound > highest else (highest, best, since + 1)
        if since >= _HALVED_AFTER:
            scale, since = scale / 2, 0
        excess = np.bincount(node, weights[rows, node], minlength=problem.n_nodes) - upper
        size = float(excess @ excess)
        if not 0 < size < math.inf:
            break
        missing = max(value - bound, _ROUNDING * abs(value))
        prices = np.maximum(0.0, prices + scale * missing / size * excess)
    return best


class _Costs:
    """Whole costs (of pairs, in the order of checkpoints) with a bound on what the checkpoints from a place on cost."""

    def __init__(self, problem: CheckpointAllocation, fits: BoolArray, flat: list[int], paid: int) -> None:
        self.flat, self.paid = flat, paid
        self._problem, self._fits = problem, fits
        self._rest: list[int] = []
        self._forced: list[int] = []
        self._savings: list[list[int]] = []

    def begin(self, order: list[int]) -> None:
        """Prepare the bounds for an order of the checkpoints."""
        n, problem = self._problem.n_nodes, self._problem
        staying: list[int] = [0]
        forced, savings = [0], [list[int]()]
        for k in reversed(order):
            least = min(self.flat[k * n + m] for m in np.flatnonzero(self._fits[k]).tolist())
            at = -1 if problem.current is None or problem.max_moves is None else int(problem.current[k])
            stays = at >= 0 and bool(self._fits[k, at])
            base = self.flat[k * n + at] if stays else least
            staying.append(staying[-1] + base)
            forced.append(forced[-1] + (problem.max_moves is not None and not stays))
            savings.append(sorted([*savings[-1], base - least], reverse=True) if base > least else savings[-1])
        self._rest, self._forced = staying[::-1], forced[::-1]
        self._savings = [[0, *accumulate(each)] for each in reversed(savings)]

    def least(self, at: int, moves_left: int) -> int | None:
        """Return what the checkpoints from a place on cost at least; None where they cannot do with so many moves."""
        free = moves_left - self._forced[at]
        if free < 0:
            return None
        savings = self._savings[at]
        return self._rest[at] - savings[min(free, len(savings) - 1)] - self.paid


class _Search:
    """The depth-first search."""

    def __init__(self, problem: CheckpointAllocation, fits: BoolArray, than: float, prices: FloatArray | None) -> None:
        self._problem, self._finite = problem, math.isfinite(than)
        cost = problem.cost.astype(np.float64)
        tables, paid = [cost], [0.0]
        if prices is not None and prices.any() and self._finite:
            rooms = np.where(prices > 0, problem.upper * (1 + _ROUNDING), 0.0)
            paid.append(math.nextafter(math.fsum((prices * rooms).tolist()) * (1 + _ROUNDING), math.inf))
            added = np.where(fits, prices * problem.weights, 0.0)
            tables.append(cost + added - _ROUNDING * (np.abs(cost) + added))
        groups = [table.ravel().tolist() for table in tables]
        *flats, goals, amounts = exact_integers(*groups, [than if self._finite else 0.0], paid)
        self._grain = math.gcd(*flats[0])
        self._goal = goals[0]
        self._bounds = [_Costs(problem, fits, flat, amount) for flat, amount in zip(flats, amounts, strict=True)]
        self._options = self._sorted_options(fits, flats[0])
        self._order = self._ordered()
        for each in self._bounds:
            each.begin(self._order)
        light = np.where(fits, problem.weights, np.inf).min(axis=1)[self._order]
        self._load_after = np.concatenate([np.cumsum(light[::-1])[::-1], [0.0]]).tolist()

    def _sorted_options(self, fits: BoolArray, flat: list[int]) -> list[list[int]]:
        """Return for each checkpoint its possible nodes, the cheapest first."""
        n = self._problem.n_nodes
        return [
            sorted(np.flatnonzero(fits[k]).tolist(), key=lambda m, k=k: (flat[k * n + m], m))  # type: ignore[misc]
            for k in range(self._problem.n_checkpoints)
        ]

    def _ordered(self) -> list[int]:
        """Return the checkpoints in the order of the search: what loses most by its second node, or what is large."""
        flat, n = self._bounds[0].flat, self._problem.n_nodes
        if not self._finite and self._problem.capacity is not None:
            heaviest = self._problem.weights.max(axis=1).tolist()
            return sorted(range(len(self._options)), key=lambda k: -heaviest[k])

        def regret(k: int) -> float:
            nodes = self._options[k]
            return math.inf if len(nodes) < 2 else flat[k * n + nodes[1]] - flat[k * n + nodes[0]]

        return sorted(range(len(self._options)), key=lambda k: -regret(k) if len(self._options[k]) > 1 else -math.inf)

    def _may_be_better(self, at: int, spent: list[int], moves: int) -> bool:
        """Return whether what is decided, and the rest at its least, costs less than the goal."""
        left = len(self._options) if self._problem.max_moves is None else self._problem.max_moves - moves
        target = (self._goal - 1) // self._grain * self._grain if self._grain else self._goal - 1
        for costs, cost in zip(self._bounds, spent, strict=False):
            least = costs.least(at, left)
            if least is None or (self._finite and cost + least > target):
                return False
        return True

    def run(self, most: int) -> Tried:
        """Return the best assignment that costs less than the goal."""
        problem, n = self._problem, self._problem.n_nodes
        # A hair of room more: no assignment may be lost by the order of a sum. `constraint_violations` decides at a
        # leaf.
        weights, upper = problem.weights.tolist(), (problem.upper * (1 + 1e-9)).tolist()  # sums in another order differ
        room = sum(upper)
        best: IntArray | None = None
        found = np.full(problem.n_checkpoints, -1, dtype=np.int64)
        steps = 0
        stack: list[tuple[int, int, list[int], int, list[float]]] = [(0, 0, [0] * len(self._bounds), 0, [0.0] * n)]
        while stack:
            at, choice, spent, moves, loads = stack.pop()
            if at == len(found):
                if not constraint_violations(problem, found):
                    best, self._goal, self._finite = found.copy(), spent[0], True
                continue
            k = self._order[at]
            found[k] = -1
            if choice == len(self._options[k]):
                continue
            steps += 1
            if steps > most:
                return Tried(best, False)
            if choice == 0 and sum(loads) + self._load_after[at] > room:
                continue
            node = self._options[k][choice]
            after = [cost + costs.flat[k * n + node] for cost, costs in zip(spent, self._bounds, strict=True)]
            # Options are in the order of their costs, and without a limit on moves the rest costs the same for all of
            # them.
            if problem.max_moves is None and not self._may_be_better(at + 1, after[:1], 0):
                continue  # later options cost more
            stack.append((at, choice + 1, spent, moves, loads))
            load = loads[node] + weights[k][node]
            if load > upper[node] or any(found[other] == node for other in problem.neighbours.get(k, ())):
                continue
            moved = moves + (problem.current is not None and node != problem.current[k])
            if self._may_be_better(at + 1, after, moved):
                found[k] = node
                here = loads.copy()
                here[node] = load
                stack.append((at + 1, 0, after, moved, here))
        return Tried(best, True)


def allowed_costs(problem: CheckpointAllocation) -> FloatArray:
    """Return the costs (J, N), infinite where a pair is forbidden."""
    return np.where(problem.allowed, problem.cost, np.inf)


def cheap_assignments(problem: CheckpointAllocation, costs: FloatArray) -> Iterator[tuple[str, IntArray]]:
    """Generate (how it was made, assignment (J,)): the cheapest nodes, then those repaired greedily, then no move.

    `costs` (J, N) are infinite where a pair is forbidden (`allowed_costs`). No assignment is checked here: callers must
    ask `constraint_violations` before they claim anything.
    """
    yield "each checkpoint on its cheapest allowed node", costs.argmin(axis=1)
    orders = {
        "a greedy repair by what the next node costs more": _regret(costs),
        "a greedy repair by load": problem.weights.max(axis=1),
    }
    for how, key in orders.items():
        repaired = _placed_in_order(problem, costs, key)
        if repaired is not None:
            yield how, repaired
    if problem.current is not None:
        yield "every checkpoint where it is", problem.current


def improved(problem: CheckpointAllocation, costs: FloatArray, assignment: IntArray) -> IntArray:
    """Return the feasible assignment (J,) after one pass of moves, each to the cheapest cheaper node that takes it.

    Checkpoints are taken in the order of their index. The argument is not changed.
    """
    found = assignment.copy()
    loads, moves = problem.node_loads(found), problem.moves(found)
    for j in range(problem.n_checkpoints):
        old, weight = int(found[j]), problem.weights[j]
        if loads[old] - weight[old] < problem.lower[old]:
            continue
        for n in _ascending(costs[j], below=float(costs[j, old])):
            more = 0 if problem.current is None else int(n != problem.current[j]) - int(old != problem.current[j])
            within = problem.max_moves is None or moves + more <= problem.max_moves
            if within and _fits(problem, found, loads, j, n):
                found[j], moves = n, moves + more
                loads[old] -= weight[old]
                loads[n] += weight[n]
                break
    return found


def _placed_in_order(problem: CheckpointAllocation, costs: FloatArray, key: FloatArray) -> IntArray | None:
    """Place the largest key first, each on its cheapest node with room; return None when one finds no node."""
    found = np.full(problem.n_checkpoints, -1, dtype=np.int64)
    loads = np.zeros(problem.n_nodes)
    staying = _staying(problem, costs)
    for j in np.lexsort((-key, ~staying)).tolist():
        nodes = [int(problem.current[j])] if staying[j] and problem.current is not None else _ascending(costs[j])
        node = next((n for n in nodes if _fits(problem, found, loads, j, n)), None)
        if node is None:
            return None
        found[j] = node
        loads[node] += problem.weights[j, node]
    return found


def _staying(problem: CheckpointAllocation, costs: FloatArray) -> np.ndarray:
    """Return which checkpoints (J,) must stay, because the moves go to those that save most by one."""
    staying = np.zeros(problem.n_checkpoints, dtype=np.bool_)
    if problem.current is not None and problem.max_moves is not None:
        with np.errstate(invalid="ignore"):
            saved = costs[np.arange(problem.n_checkpoints), problem.current] - costs.min(axis=1)
        staying[np.argsort(-saved, kind="stable")[problem.max_moves :]] = True
    return staying


def _regret(costs: FloatArray) -> FloatArray:
    """Return by how much the second cheapest node costs more than the cheapest, (J,); infinite without a second."""
    if costs.shape[1] == 1:
        return np.full(costs.shape[0], np.inf)
    least = np.partition(costs, 1, axis=1)[:, :2]
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(least[:, 1] - least[:, 0], nan=np.inf, posinf=np.inf)


def _ascending(row: FloatArray, below: float = math.inf) -> list[int]:
    nodes = np.flatnonzero(row < below)
    return [int(n) for n in nodes[np.argsort(row[nodes], kind="stable")]]


def _fits(problem: CheckpointAllocation, found: IntArray, loads: FloatArray, j: int, n: int) -> bool:
    separate = all(found[k] != n for k in problem.neighbours.get(j, ()))
    return separate and bool(loads[n] + problem.weights[j, n] <= problem.upper[n])
