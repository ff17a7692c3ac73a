"""Trying all that could be better, in whole numbers: for small problems, whatever their numbers are like.

The other methods work with 40 to 60 bits; numbers of 1e15 beside others of 1e-12 are too much for them. Here numbers
are whole multiples of one power of two, of any length, and nothing is rounded. The searches are depth first and end
after so many steps, without an answer then. No solver is used, so `verify` asks them too.

The granularity of costs decides whether a bound that is a hair below an objective proves it. Costs of 1e15 and -1e15
leave sums in which a hair of the one is all there is of the other, so no tolerance relative to the summands is a proof.
A proof is this: all costs are whole multiples of a unit, and less than a unit lies between bound and objective.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.selection import OperatorSelection, QuerySelection

MOST_STEPS = 20_000
_PART_BITS = 30  # of proportions
_PAIRS_OF_A_STEP = 100  # of query and operator, looked at in a step
_SHARED_BITS, _RATE_BITS = (
    20,
    64,
)  # of shares of weights below the unit of weights, of rates by which queries are sorted
MOST_ORDERED = 6  # moves of which all orders are tried


@dataclass(frozen=True)
class Tried:
    """The best answer that beats a given value (None: nothing does); `decided`: whether all answers were tried.

    Only `decided` without a `best` is a proof. Undecided, `best` may still be an answer that beats the value, though
    not the best one.
    """

    best: Any
    decided: bool


def exact_integers(*groups: list[float]) -> list[list[int]]:
    """Return each group of numbers as whole multiples of one power of two, the same for all groups.

    The unit is 1 divided by the largest denominator of any number, so nothing is rounded; whole numbers have any length
    here. Numbers must be finite.
    """
    ratios = [[number.as_integer_ratio() for number in group] for group in groups]
    common = max((below for group in ratios for _, below in group), default=1)
    return [[above * (common // below) for above, below in group] for group in ratios]


def better_levels(problem: OperatorSelection, than: float, most: int = MOST_STEPS) -> Tried:
    """Return the best levels (n,) that fit and are worth more than a value, depth first in whole numbers.

    A branch ends where even the best levels of all operators to come, whatever they weigh, are not worth enough. `most`
    limits the steps.
    """
    n, width = problem.level_values.shape
    flat, (goal,) = exact_integers(problem.level_values.ravel().tolist(), [than])
    weights, (room,) = exact_integers(problem.level_weights.ravel().tolist(), [problem.limit])
    options = [
        sorted(
            ((flat[o * width + k], weights[o * width + k], k) for k in np.flatnonzero(problem.allowed[o]).tolist()),
            key=lambda one: (-one[0], one[1]),
        )
        for o in range(n)
    ]
    order = sorted(range(n), key=lambda o: -options[o][0][0])
    rest = _sums_after([options[o][0][0] for o in order])
    level, best = [0] * n, None
    steps, stack = 0, [(0, 0, 0, 0)]  # place in the order, next option, value, weight
    while stack:
        at, choice, value, weight = stack.pop()
        if at == n:
            if problem.fits(made := np.array(level, dtype=np.int64)):
                best, goal = made, value
            continue
        if choice == len(options[order[at]]):
            continue
        stack.append((at, choice + 1, value, weight))
        more, heavier, k = options[order[at]][choice]
        steps += 1
        if steps > most:
            return Tried(best, False)
        if value + more + rest[at + 1] <= goal:
            stack.pop()  # later options are worth less
        elif weight + heavier <= room:
            level[order[at]] = k
            stack.append((at + 1, 0, value + more, weight + heavier))
    return Tried(best, True)


def better_queries(
    problem: QuerySelection, than: float, most: int = MOST_STEPS, split: FloatArray | None = None
) -> Tried:
    """Return the best queries (m,) that fit together and are worth more than a value, where there are any.

    `split` (E,): in which proportion the queries that need an operator share its weight in bounds; None: equally.
    """
    values, (goal,) = exact_integers(problem.value.tolist(), [than])
    weights, (room,) = exact_integers(problem.weight.tolist(), [problem.limit])
    grain = max(1, math.gcd(*values))
    goal = goal // grain * grain + grain - 1
    needs = [problem.operators_of(q).tolist() for q in range(problem.n_queries)]
    order = [q for q in range(problem.n_queries) if sum(weights[o] for o in needs[q]) <= room]
    open_queries = _OpenQueries(values, weights, needs, _parts(problem, split), order)
    order = open_queries.order
    best: BoolArray | None = None
    steps = 0
    stack: list[tuple[int, int, int, frozenset[int], tuple[int, ...]]] = [(0, 0, 0, frozenset(), ())]
    while stack:
        at, value, weight, taken, chosen = stack.pop()
        steps += 1
        if steps > most or open_queries.work > most * _PAIRS_OF_A_STEP:
            return Tried(best, False)
        if open_queries.passes_no_more(at, room - weight, taken, goal - value):
            continue
        if at == len(order):
            best, goal = np.zeros(problem.n_queries, dtype=np.bool_), value + grain - 1
            best[list(chosen)] = True
            continue
        new = [o for o in needs[order[at]] if o not in taken]
        heavier = weight + sum(weights[o] for o in new)
        if new:  # a query that takes no more is in every best set
            stack.append((at + 1, value, weight, taken, chosen))
        if heavier <= room:
            stack.append((at + 1, value + values[order[at]], heavier, taken.union(new), (*chosen, order[at])))
    return Tried(best, True)


def _parts(problem: QuerySelection, split: FloatArray | None) -> list[list[int]]:
    """Return for each query, and each of its operators, in what proportion it shares the weight, as whole numbers."""
    if split is None or len(split) != len(problem.uses) or not split.max(initial=0.0) > 0:
        parts = np.ones(len(problem.uses), dtype=np.int64)
    else:
        parts = 1 + np.floor(split / split.max() * 2.0**_PART_BITS).astype(np.int64)
    return [each.tolist() for each in np.split(parts, problem.starts[1:-1])]


class _OpenQueries:
    """Queries in the order in which they are decided, with a bound of what those from a place on may add.

    The weight of an operator is shared by the open queries that need it. A set of them adds the operators that it needs
    and that are not taken yet, so at least its shares of these: the bound is that of a knapsack that takes parts.
    """

    def __init__(
        self,
        values: list[int],
        weights: list[int],
        needs: list[list[int]],
        parts: list[list[int]],
        queries: list[int],
    ) -> None:
        self._weights = [weight << _SHARED_BITS for weight in weights]
        pairs = [list(zip(needs[q], parts[q], strict=True)) for q in queries]
        places = sorted(
            zip(queries, pairs, self._shares(pairs), strict=True), key=lambda one: _rate(values[one[0]], one[2])
        )
        self.order = [q for q, _, _ in places]
        self._values = [values[q] for q in self.order]
        self._pairs = [each for _, each, _ in places]
        self._rest = _sums_after(self._values)
        self.work = 0  # pairs of query and operator that were looked at

    def _shares(self, pairs: list[list[tuple[int, int]]]) -> list[int]:
        """Return the weight that each query shares, rounded down, of the operators that are still in its pairs."""
        total: Counter[int] = Counter()
        for each in pairs:
            for o, part in each:
                total[o] += part
        return [sum(self._weights[o] * part // total[o] for o, part in each) for each in pairs]

    def passes_no_more(self, at: int, room: int, taken: frozenset[int], wanted: int) -> bool:
        """Return whether no queries from a place on, in so much room, are worth more than what is wanted."""
        if self._rest[at] <= wanted:
            return True
        pairs = [[pair for pair in each if pair[0] not in taken] for each in self._pairs[at:]]
        self.work += sum(map(len, pairs))
        items = list(zip(self._values[at:], self._shares(pairs), strict=True))
        wanted -= sum(v for v, share in items if not share)
        items = sorted((one for one in items if one[1]), key=lambda one: _rate(*one))
        all_wanted, left = wanted, room << _SHARED_BITS
        for value, share in items:
            if wanted < 0:
                return False
            if share > left:  # at the price value / share of a unit of room; any price gives a bound
                gains = sum(max(0, v * share - value * s) for v, s in items)
                return gains + value * (room << _SHARED_BITS) <= share * all_wanted
            wanted, left = wanted - value, left - share
        return wanted >= 0


def _rate(value: int, share: int) -> tuple[bool, int]:
    """Return a key that sorts by falling value per share, first what shares nothing."""
    return (share > 0, -(value << _RATE_BITS) // max(1, share))


def colouring(ends: IntArray, n_colours: int, most: int = MOST_STEPS) -> Tried:
    """Return a colouring (E,) of edges (E, 2) with so many colours in which edges that meet differ, where there is one.

    Depth first, edges first whose ends have most edges; of colours that no edge has yet one is tried. `most` limits the
    steps.
    """
    pairs = ends.tolist()
    degree = np.bincount(ends.ravel()) if len(pairs) else np.zeros(0, dtype=np.int64)
    order = sorted(range(len(pairs)), key=lambda e: -int(degree[pairs[e]].sum()))
    colour: list[int] = []
    choice, steps = 0, 0
    while len(colour) < len(order):
        steps += 1
        if steps > most:
            return Tried(None, False)
        here = set(pairs[order[len(colour)]])
        used = {c for e, c in zip(order, colour, strict=False) if here & set(pairs[e])}
        limit = min(n_colours, max(colour, default=-1) + 2)  # colours are alike
        free = next((c for c in range(choice, limit) if c not in used), None)
        if free is not None:
            colour.append(free)
            choice = 0
        elif colour:
            choice = colour.pop() + 1
        else:
            return Tried(None, True)
    found = np.zeros(len(pairs), dtype=np.int64)
    found[order] = colour
    return Tried(found, True)


def first_of_all_orders(ends: IntArray, durations: FloatArray) -> tuple[FloatArray, float]:
    """Return the schedule that ends first, and when: in some order each move begins as soon as its ends are free."""
    return _first_of(ends, durations, itertools.permutations(range(len(ends))))


def first_of_some_orders(ends: IntArray, durations: FloatArray) -> tuple[FloatArray, float]:
    """Return a schedule and its end [s]: longest moves first, or those first whose ends have most to do.

    List scheduling (Graham 1966): an upper bound of the least end, found without trying all orders.
    """
    load = np.bincount(ends.ravel(), np.repeat(durations, 2))
    keys = (-durations, -load[ends].max(axis=1), -load[ends].sum(axis=1))
    return _first_of(ends, durations, (np.argsort(key, kind="stable").tolist() for key in keys))


def _first_of(ends: IntArray, durations: FloatArray, orders: Iterable[Sequence[int]]) -> tuple[FloatArray, float]:
    """Return the schedule that ends first if the moves begin in one of some orders, as soon as their ends are free."""
    best, first = np.zeros(len(ends)), math.inf
    for order in orders:
        free = np.zeros(int(ends.max()) + 1 if len(ends) else 0)
        start = np.zeros(len(ends))
        for move in order:
            start[move] = free[ends[move]].max()
            free[ends[move]] = start[move] + durations[move]
            if start[move] + durations[move] >= first:
                break
        else:
            best, first = start, float((start + durations).max(initial=0.0))
    return best, first


def exact_sum(numbers: list[float]) -> Fraction:
    """Return the sum of float64 numbers as a fraction, not rounded."""
    return sum((Fraction(number) for number in numbers), Fraction(0))


def _sums_after(numbers: list[int]) -> list[int]:
    """Return the sum of what is from each place on, and 0 at the end."""
    sums = [0]
    for number in reversed(numbers):
        sums.append(sums[-1] + number)
    return sums[::-1]


_CHUNK = 1_000_000
_EXACT_BITS = 53
_LEAST_EXPONENT = -1022


def closed_by_granularity(problem: CheckpointAllocation, bound: float, value: float) -> bool:
    """Return whether no assignment can cost at least the bound and less than the value.

    True where all costs, and the value, are whole multiples of a unit above their difference: the next lower objective
    is then below the bound. The unit is the power of two above it. A value beyond 2^53 units is given up: a float64 sum
    of so many may be rounded.
    """
    if value <= bound:
        return True
    exponent = math.frexp(value - bound)[1]
    if not _LEAST_EXPONENT < exponent < -_LEAST_EXPONENT:
        return False
    unit = math.ldexp(1.0, exponent)
    if not abs(value) < math.ldexp(unit, _EXACT_BITS) or math.fmod(value, unit):
        return False
    step = max(1, _CHUNK // problem.n_nodes)
    for first in range(0, problem.n_checkpoints, step):
        costs = problem.cost[first : first + step].astype(np.float64)
        if np.fmod(costs, unit).any():
            return False
    return True
