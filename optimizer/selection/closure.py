"""Maximum closures: a minimum cut gives the best queries at a price of weight, and proves a bound.

For a price lambda, the queries that are worth most after paying for the union of their operators are a maximum closure
(Picard 1976), which a minimum cut finds: source -> query (its value), query -> each of its operators, operator -> sink
(lambda times its weight). Its flow shares the value of each query among its operators: f[q, o], in all F[q] of a query
and G[o] at an operator.

A node of the search takes operators I and leaves out others O. Its queries are those that use none of O and fit, with
I, alone; only operators outside of I cost anything. Where I and O are empty it is the whole problem. For every price
lambda >= 0, costs c[o] <= lambda w[o] and shares f >= 0 of pairs outside of I,

    sum v[q] z[q] <= lambda (W - w(I)) + sum_q max(0, v[q] - F[q]) + sum_o max(0, G[o] - c[o])

over the queries of the node and the operators outside of I: the value is sum (v - F) z + sum f z, and sum f z is at
most sum G[o] y[o], as z[q] <= y[o]. This is evaluated in whole numbers, whatever is said to be a flow; it is rounded
down, as values are whole. A query left out lowers it by v[q] - F[q], an operator taken by c[o] - G[o].

`best_cuts` searches the best price of weight for a query selection: its cuts bound the value of every set of queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.selection import QuerySelection
from optimizer.common.solvers import FlowNetwork
from optimizer.selection.scaling import Scaled, scaled

_CALL = 300  # what a cut takes beside its pairs, queries and operators, in their unit
_LARGEST_COST = 2**53  # more than all values: as good as no limit


@dataclass(frozen=True)
class QuerySet:
    """Queries of a node (m,), their value, and what their operators weigh beside those that the node takes."""

    queries: BoolArray
    value: int
    weight: int

    def worth(self, price: Fraction) -> Fraction:
        """Return the value after paying for the operators."""
        return self.value - price * self.weight


@dataclass(frozen=True)
class Cut:
    """The best queries at a price, and the proof: the flow on the pairs of the node, and the bound.

    The losses are what the bound loses by leaving queries out (m,), or by taking operators (n,).
    """

    price: Fraction
    best: QuerySet
    flow: IntArray
    bound: int
    query_loss: IntArray
    operator_loss: IntArray


class Closures:
    """Minimum cuts of the node that takes operators (n,) and leaves out others (n,), in numbers that relax the problem.

    Queries that are not `possible` (m,) are in no set.
    """

    def __init__(
        self,
        problem: QuerySelection,
        numbers: Scaled,
        possible: BoolArray,
        taken: BoolArray | None = None,
        left_out: BoolArray | None = None,
    ) -> None:
        nothing = np.zeros(problem.n_operators, dtype=np.bool_)
        taken, left_out = nothing if taken is None else taken, nothing if left_out is None else left_out
        self._problem, self._numbers, self.taken = problem, numbers, taken
        self.room = numbers.capacity - int(numbers.weight[taken].sum())
        query, operator = problem.uses[:, 0], problem.uses[:, 1]
        costs = ~taken[operator]
        # sums of whole numbers below 2^53 are exact in float64
        alone = np.bincount(query[costs], numbers.weight[operator[costs]], minlength=problem.n_queries)
        self.queries = possible & (alone <= self.room)
        self.queries[query[left_out[operator]]] = False
        self.pairs = costs & self.queries[query]  # of `uses` (E,), those that have a flow
        self._query, self._operator = query[self.pairs], operator[self.pairs]
        self._value = np.where(self.queries, numbers.value, 0)
        self._open, self._operators = _marked(self._query, len(alone)), _marked(self._operator, len(taken))
        self._weights = numbers.weight[self._operators].tolist()
        self.work = len(self._query) + len(self._open) + len(self._operators) + (len(alone) + len(taken)) // 8 + _CALL
        self._network: FlowNetwork | None = None

    def closed(self, queries: BoolArray) -> QuerySet:
        """Return the queries, and all of the node that need nothing more than they do."""
        operators = np.zeros(len(self.taken), dtype=np.bool_)
        operators[self._operator[queries[self._query]]] = True
        whole = self.queries.copy()
        whole[self._query[~operators[self._operator]]] = False
        return QuerySet(whole, int(self._value[whole].sum()), int(self._numbers.weight[operators].sum()))

    def between(self, heavy: BoolArray, light: BoolArray) -> tuple[BoolArray, FloatArray]:
        """Return the operators (n,) that the heavy set adds to the light one, and how much depends on each.

        That is the value of the added queries that use it, times the root of its weight: to leave it out loses the one,
        to take it uses the other up.
        """
        wanted, has = np.zeros((2, self._problem.n_operators), dtype=np.bool_)
        wanted[self._operator[heavy[self._query]]] = True
        has[self._operator[light[self._query]]] = True
        more = (heavy & ~light)[self._query]
        worth = np.bincount(self._operator[more], self._value[self._query[more]], minlength=len(has))
        return wanted & ~has, np.asarray(worth * np.sqrt(np.maximum(self._numbers.weight, 1)), dtype=np.float64)

    def cut(self, price: Fraction) -> Cut:
        """Return the smallest best set of queries at a price, and what it proves."""
        m, n = self._problem.n_queries, self._problem.n_operators
        above, below = price.numerator, price.denominator
        cost = np.array([min(above * w // below, _LARGEST_COST) for w in self._weights], dtype=np.int64)
        flow, reached = self._flow(cost)
        shared, carried = np.zeros(m, dtype=np.int64), np.zeros(n, dtype=np.int64)
        np.add.at(shared, self._query, flow)
        np.add.at(carried, self._operator, flow)
        query_loss = np.maximum(self._value - shared, 0)
        left = cost - carried[self._operators]
        operator_loss = np.zeros(n, dtype=np.int64)
        operator_loss[self._operators] = np.maximum(left, 0)
        bound = int(query_loss.sum()) + int(np.maximum(-left, 0).sum()) + above * self.room // below
        return Cut(price, self.closed(reached), flow, bound, query_loss, operator_loss)

    def _flow(self, cost: IntArray) -> tuple[IntArray, BoolArray]:
        """Return a largest flow on the pairs, and the queries (m,) on the side of the source."""
        n_queries, n_operators = len(self._open), len(self._operators)
        sink = 1 + n_queries + n_operators
        if self._network is None:
            self._network = self._built(cost)
        else:
            self._network.set_capacity(np.arange(n_operators), cost)
        if not self._network.solve(0, sink):
            raise RuntimeError("no maximum flow")  # numbers of 53 bits do not overflow
        first = n_operators + n_queries
        flow = self._network.flows(np.arange(first, first + len(self._query)))
        side = np.zeros(sink + 1, dtype=np.bool_)
        side[self._network.source_side()] = True  # it may be empty
        reached = np.zeros(self._problem.n_queries, dtype=np.bool_)
        reached[self._open] = side[1 : n_queries + 1]
        return np.maximum(flow, 0), reached

    def _built(self, cost: IntArray) -> FlowNetwork:
        """Return the network: arcs operator -> sink, source -> query, query -> operator, in this order."""
        n_queries, n_operators = len(self._open), len(self._operators)
        query = 1 + _places(self._open, self._problem.n_queries)[self._query]
        operator = 1 + n_queries + _places(self._operators, self._problem.n_operators)[self._operator]
        queries, operators = 1 + np.arange(n_queries), 1 + n_queries + np.arange(n_operators)
        tails = np.concatenate([operators, np.zeros(n_queries, np.int64), query])
        heads = np.concatenate([np.full(n_operators, 1 + n_queries + n_operators), queries, operator])
        return FlowNetwork(tails, heads, np.concatenate([cost, self._value[self._open], self._value[self._query]]))


def _marked(numbers: IntArray, size: int) -> IntArray:
    """Return the numbers that occur, in ascending order."""
    mark = np.zeros(size, dtype=np.bool_)
    mark[numbers] = True
    return np.flatnonzero(mark)


def _places(numbers: IntArray, size: int) -> IntArray:
    """Return the place of each number (size,) among those given."""
    place = np.zeros(size, dtype=np.int64)
    place[numbers] = np.arange(len(numbers))
    return place


_BITS = 52
_MOST_CUTS = 60


def whole_numbers(problem: QuerySelection, possible: BoolArray) -> Scaled:
    """Return the problem as whole numbers that relax it; queries that are not possible are worth nothing."""
    return scaled(np.where(possible, problem.value, 0.0), problem.weight, problem.limit, _BITS)


def best_cuts(closures: Closures) -> tuple[list[Cut], Cut]:
    """Return the cuts on the way to the best price, and the one of the lowest bound.

    The bound is convex in the price. From a set that is too heavy and one that fits, the next price is where both are
    worth the same (Newton's method on the lines of both), until that finds nothing new.
    """
    best = closures.cut(Fraction(0))
    cuts, heavy, light = [best], best.best, None
    if heavy.weight <= closures.room:
        return cuts, best
    value, weight = 0, 0
    for _ in range(_MOST_CUTS):
        price = Fraction(heavy.value - value, heavy.weight - weight)
        if price <= 0:
            break
        cut = closures.cut(price)
        cuts.append(cut)
        if cut.bound < best.bound:
            best = cut
        found = cut.best
        # A set that is no nearer to the room than the last on its side lies on a line that is known: Newton has ended.
        if found.weight > closures.room:
            if found.weight >= heavy.weight:
                break
            heavy = found
        else:
            if light is not None and found.weight <= light.weight:
                break
            light = found
            value, weight = found.value, found.weight
    return cuts, best


def real_split(closures: Closures, cut: Cut, numbers: Scaled) -> FloatArray:
    """Return the flow of a cut as shares (E,) of all pairs, in the unit of values, rounded down."""
    split = np.zeros(len(closures.pairs))
    split[closures.pairs] = np.nextafter(np.ldexp(cut.flow.astype(np.float64), -numbers.value_bits), 0.0)
    return split
