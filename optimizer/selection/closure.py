"""Prices of a query selection: a minimum cut gives the best queries at a price, and proves a bound.

For a price lambda of weight, the queries that are worth most after paying for the union of their operators are a
maximum closure (Picard 1976), which a minimum cut finds: source -> query (its value), query -> each of its operators,
operator -> sink (lambda times its weight). The flow shares the value of each query among its operators: f[q, o], in
all F[q] <= v[q] of a query and G[o] <= lambda w[o] at an operator. Whatever made them, such shares prove for every
selection within the capacity

    sum v[q] z[q] <= sum (v[q] - F[q]) z[q] + sum G[o] y[o] <= sum_q (v[q] - F[q]) + lambda W

A query left out lowers that by v[q] - F[q], an operator taken by lambda w[o] - G[o].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.selection import QuerySelection
from optimizer.selection.scaling import Scaled, scaled

_BITS = 52
_MOST_CUTS = 60


@dataclass(frozen=True)
class Shares:
    """A proof: price, and the flow (E,) of value from queries to operators; bound, and what is lost by leaving it."""

    price: Fraction
    flow: IntArray
    bound: int
    query_loss: IntArray
    operator_loss: IntArray


@dataclass(frozen=True)
class Cut:
    """The queries that pay for their operators at a price (m,), their value and weight, and the proof."""

    queries: BoolArray
    value: int
    weight: int
    shares: Shares


class Closure:
    """Minimum cuts of one problem at any price, in whole numbers that relax it."""

    def __init__(self, problem: QuerySelection, possible: BoolArray) -> None:
        self.problem = problem
        self.numbers = whole_numbers(problem, possible)
        self._uses = problem.uses
        self._sink = 1 + problem.n_queries + problem.n_operators

    def cut(self, price: Fraction) -> Cut:
        """The smallest best set of queries at a price, and what it proves."""
        from ortools.graph.python import max_flow  # noqa: PLC0415 - slow to load

        m, n = self.problem.n_queries, self.problem.n_operators
        query, operator = self._uses[:, 0], self._uses[:, 1]
        value = self.numbers.value
        paid = np.array([price.numerator * w // price.denominator for w in self.numbers.weight.tolist()], dtype=object)
        cost = np.minimum(paid, 2**_BITS * 2).astype(np.int64)  # more than all values: as good as no limit
        network = max_flow.SimpleMaxFlow()
        tails = np.concatenate([np.zeros(m, np.int64), 1 + query, 1 + m + np.arange(n)])
        heads = np.concatenate([1 + np.arange(m), 1 + m + operator, np.full(n, self._sink)])
        network.add_arcs_with_capacity(tails, heads, np.concatenate([value, value[query], cost]))
        status = network.solve(0, self._sink)
        if status != network.OPTIMAL:  # numbers of 53 bits do not overflow
            raise RuntimeError(f"no maximum flow: status {status}")
        flow = np.asarray(network.flows(np.arange(m, m + len(query))), dtype=np.int64)
        side = np.zeros(self._sink + 1, dtype=np.bool_)
        side[np.asarray(network.get_source_side_min_cut(), dtype=np.int64)] = True  # it may be empty
        queries = side[1 : m + 1] & (value > 0)
        return Cut(queries, *self.size(queries), self.shares(price, flow))

    def size(self, queries: BoolArray) -> tuple[int, int]:
        """Value and weight of a set of queries, in whole numbers."""
        weight = self.numbers.weight[self.problem.union(queries)].sum()
        return int(self.numbers.value[queries].sum()), int(weight)

    def shares(self, price: Fraction, flow: IntArray) -> Shares:
        """What a flow proves: lowered where it shares more than there is, so that it always proves something."""
        m, n = self.problem.n_queries, self.problem.n_operators
        query, operator = self._uses[:, 0], self._uses[:, 1]
        carried = np.zeros(n, dtype=np.int64)
        np.add.at(carried, operator, flow)
        paid = [price.numerator * w // price.denominator for w in self.numbers.weight.tolist()]
        over = np.array([c > p for c, p in zip(carried.tolist(), paid, strict=True)], dtype=np.bool_)
        flow = np.where(over[operator] | (flow < 0), 0, flow)
        shared, carried = np.zeros(m, dtype=np.int64), np.zeros(n, dtype=np.int64)
        np.add.at(shared, query, flow)
        np.add.at(carried, operator, flow)
        query_loss = np.maximum(self.numbers.value - shared, 0)
        bound = int(query_loss.sum()) + math.ceil(price * self.numbers.capacity)
        bound += int(np.maximum(shared - self.numbers.value, 0).sum())
        loss = np.array([min(p, 2**61) - c for p, c in zip(paid, np.where(over, 0, carried).tolist(), strict=True)])
        return Shares(price, flow, bound, query_loss, loss)


def whole_numbers(problem: QuerySelection, possible: BoolArray) -> Scaled:
    """The problem as whole numbers that relax it; queries that are not possible are worth nothing."""
    return scaled(np.where(possible, problem.value, 0.0), problem.weight, problem.limit, _BITS)


def best_cuts(closure: Closure) -> tuple[list[Cut], Shares]:
    """The cuts on the way to the best price, and the proof of the lowest bound.

    The bound is convex in the price. From a set that is too heavy and one that fits, the next price is where both are
    worth the same (Newton's method on the lines of both), until that finds nothing new.
    """
    heavy, light = closure.cut(Fraction(0)), None
    cuts, best = [heavy], heavy.shares
    if heavy.weight <= closure.numbers.capacity:
        return cuts, best
    value, weight = 0, 0
    for _ in range(_MOST_CUTS):
        price = Fraction(heavy.value - value, heavy.weight - weight)
        if price <= 0:
            break
        found = closure.cut(price)
        cuts.append(found)
        if found.shares.bound < best.bound:
            best = found.shares
        if found.weight > closure.numbers.capacity:
            if found.weight >= heavy.weight:
                break
            heavy = found
        else:
            if light is not None and found.weight <= light.weight:
                break
            light = found
            value, weight = found.value, found.weight
    return cuts, best


def real_split(shares: Shares, numbers: Scaled) -> FloatArray:
    """The shares (E,) in the unit of values, rounded down."""
    return np.nextafter(np.ldexp(shares.flow.astype(np.float64), -numbers.value_bits), 0.0)
