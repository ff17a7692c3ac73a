"""Branch and bound on operators, with minimum cuts for the bounds: those that many queries share come first.

At the best price two sets of queries are worth the same, a light one that fits and a heavy one that does not, and the
linear relaxation mixes them. Where many queries share popular operators the two lie far apart. A node branches on the
operator of the heavy set and not of the light one whose queries there are worth most: without it these are lost, with
it both sets come closer. A child begins its search for a price with the sets of its parent, without what it may not
have and with what it must. What would lower its bound below the value of a better set is taken, or left out, at once.

The node of the highest bound comes first and of equal ones the last, so the search dives where bounds are equal.

**Large neighbourhood search**: most operators stay as the best set has them, branching decides about the others.
Source: Shaw, "Using constraint programming and local search methods to solve vehicle routing problems" (1998). Which
operators are free is drawn: any; those met on a walk from one to another by queries that use both; or all but those of
some of the queries. How many, of each kind, follows what branching gets done: more where it ends before its work is
used up, fewer where it does not.

**CP-SAT** searches the sets of queries that shares leave open:

    maximise   sum v[q] z[q]   subject to   z[q] implies y[o] for each o in O[q],   sum w[o] y[o] <= W

over queries and operators that are not fixed. A query or an operator is fixed where the other choice loses more than
the distance between the bound and the best known value.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from models.checked_arrays import BoolArray
from models.planning.selection import QuerySelection
from models.planning.solution import Status
from optimizer.common.solvers import left_s, solve_cp
from optimizer.selection.closure import Closures, Cut, QuerySet
from optimizer.selection.filling import Filling
from optimizer.selection.scaling import Scaled, scaled

_MOST_CUTS = 12  # of one node
_NEAR_BITS = 4  # what is worth less than the best set by a 16th is not filled
_MOST_BYTES, _NODE_BYTES = 200_000_000, 1_000  # of the nodes that wait; of one, beside its arrays
_AT_FIRST, _AT_ONCE = 8, 4  # operators that the first dive, and others, take at once
_AS_MUCH = 0.7  # of what depends on the first of them must depend on each
_CLOSE_BITS = 24  # a price is good enough when it proves the best bound of the node up to 2^-24


@dataclass(frozen=True)
class Searched:
    """The best set of queries (m,), a bound in whole numbers, and whether the clock ended the search."""

    queries: BoolArray
    bound: int
    timed_out: bool


@dataclass(frozen=True)
class _Node:
    """Operators taken and left out (n,), queries (m,) between which its price is undecided, and the bound."""

    taken: BoolArray
    left_out: BoolArray
    heavy: BoolArray
    light: BoolArray
    bound: int
    branch: tuple[int, ...] = ()


class Tree:
    """One search for sets that are worth at least `step` more than the best one; it can be gone on with.

    `bound` is one that is known of all sets, in whole numbers like `step`. With operators `taken` or `left_out` (n,) it
    is only a search of sets that take the ones and do without the others; what then is filled up may be another.
    """

    def __init__(
        self,
        problem: QuerySelection,
        numbers: Scaled,
        possible: BoolArray,
        filling: Filling,
        bound: int,
        step: int,
        taken: BoolArray | None = None,
        left_out: BoolArray | None = None,
    ) -> None:
        self._problem, self._numbers, self._filling = problem, numbers, filling
        self._possible = possible & (numbers.value > 0)
        self._bound, self._step = bound, step
        self._best = np.zeros(problem.n_queries, dtype=np.bool_)
        self._value = self._most_filled = self._unclear = 0
        none = np.zeros(problem.n_operators, dtype=np.bool_)
        taken, left_out = none if taken is None else taken, none if left_out is None else left_out
        self._waiting = [(-bound, 0, _Node(taken, left_out, possible, self._best, bound))]
        self._most_waiting = _MOST_BYTES // (2 * (problem.n_queries + problem.n_operators) + _NODE_BYTES)
        self._count, self.work = 0, 0.0  # pairs, queries and operators of cuts so far
        self._at_once = _AT_FIRST

    def start_from(self, queries: BoolArray) -> None:
        """Look for what is better than these queries, if they are better than what is known."""
        if self._problem.objective(queries) > self._problem.objective(self._best):
            self._best = queries
            self._value = max(self._value, int(self._numbers.value[queries].sum()))

    def search(self, work: float, deadline: float) -> Searched:
        """Return the best set after about so much more work, and the bound of all.

        A cut takes its pairs, queries and operators of work. Only `deadline` depends on the clock.
        """
        self._most_work, self._deadline, self._late = self.work + work, deadline, False
        while self._waiting and self._may_go_on():
            node = heapq.heappop(self._waiting)[2]
            if node.bound < self._goal:
                # The heap is sorted by bound: no other node can be better either.
                self._waiting.clear()
            elif not node.branch:
                self._wait(self._bounded(node))
            else:
                self._dive(node)
        highest = max((node.bound for _, _, node in self._waiting), default=0)
        self._bound = min(self._bound, max(highest, self._unclear, self._goal - self._numbers.grain))
        return Searched(self._best, self._bound, self._late)

    @property
    def is_open(self) -> bool:
        """Return whether anything is left to search."""
        return bool(self._waiting)

    def _may_go_on(self) -> bool:
        self._late = self._late or time.monotonic() >= self._deadline
        return self.work < self._most_work and len(self._waiting) < self._most_waiting and not self._late

    def _wait(self, node: _Node | None) -> None:
        if node is not None:
            self._count += 1
            heapq.heappush(self._waiting, (-node.bound, -self._count, node))

    def _dive(self, node: _Node | None) -> None:
        """Take one operator after the other, until nothing better is left; what is without them waits."""
        while node is not None and node.branch and self._may_go_on():
            taken = node.taken
            for operator in node.branch:
                without = node.left_out.copy()
                without[operator] = True
                self._wait(_Node(taken, without, node.heavy, node.light, node.bound))
                taken = taken.copy()
                taken[operator] = True
            node = self._bounded(_Node(taken, node.left_out, node.heavy, node.light, node.bound))
        self._wait(node)
        self._at_once = _AT_ONCE

    @property
    def _goal(self) -> int:
        """Return the value that a better set must have."""
        return self._value + self._step

    def _bounded(self, node: _Node) -> _Node | None:
        """Return the node with its bound, fixed operators and branch; None where nothing in it is better."""
        cuts = Closures(self._problem, self._numbers, self._possible, node.taken, node.left_out)
        if cuts.room < 0:
            return None
        heavy, light = self._ends(cuts, node)
        if heavy is None:
            self._finish(light)
            return None
        best: Cut | None = None
        for _ in range(_MOST_CUTS):
            price = max(Fraction(0), Fraction(heavy.value - light.value, heavy.weight - light.weight))
            cut = cuts.cut(price)
            self.work += cuts.work
            best = cut if best is None or cut.bound < best.bound else best
            # Any price gives a bound, so a node may be closed before its best price is found.
            if best.bound < self._goal:
                return None
            least = math.floor(light.value + price * (cuts.room - light.weight))
            best_bound = best.bound - best.bound % self._numbers.grain
            if best_bound <= least or best.bound - least <= best.bound >> _CLOSE_BITS:
                break
            if cut.best.worth(price) <= light.worth(price) or not self._may_go_on():
                break
            # The price is the slope between both sets: the cut finds a better third set, or proves that none is above
            # the line.
            if cut.best.weight > cuts.room:
                heavy = cut.best
            else:
                light = cut.best
        self._offer(light)
        assert best is not None
        return self._fixed(cuts, node, best, heavy, light)

    def _ends(self, cuts: Closures, node: _Node) -> tuple[QuerySet | None, QuerySet]:
        """Return a set that does not fit (None if all queries do) and one that fits: the parent's if possible."""
        heavy: QuerySet | None = None
        light: QuerySet | None = None
        for queries in (node.heavy, node.light):
            found = cuts.closed(queries & cuts.queries)
            if found.weight > cuts.room:
                heavy = found
            elif light is None or found.weight > light.weight:
                light = found
        if heavy is None:
            everything = cuts.closed(cuts.queries)
            if everything.weight <= cuts.room:
                return None, everything
            heavy = everything
        return heavy, light or cuts.closed(np.zeros_like(cuts.queries))

    def _fixed(self, cuts: Closures, node: _Node, cut: Cut, heavy: QuerySet, light: QuerySet) -> _Node | None:
        """Return the node without what would lower its bound too much, and the operator to branch on."""
        bound = min(node.bound, cut.bound - cut.bound % self._numbers.grain)
        if bound < self._goal:
            return None
        slack = cut.bound - self._goal
        certain = cuts.queries & (cut.query_loss > slack)
        taken = node.taken | self._problem.union(certain)
        left_out = node.left_out | (cut.operator_loss > slack)
        # An operator that must be taken and must be left out: no better set is in this node.
        if (taken & left_out).any():
            return None
        only, depends = cuts.between(heavy.queries, light.queries)
        only &= ~taken & ~left_out
        depends = np.where(only, depends, -1.0)
        first = np.argsort(-depends, kind="stable")[: self._at_once]
        branch = tuple(first[only[first] & (depends[first] >= _AS_MUCH * depends[first[0]])].tolist())
        return _Node(taken, left_out, heavy.queries, light.queries, bound, branch)

    def _finish(self, everything: QuerySet) -> None:
        """Keep all queries of a node, which fit in whole numbers; where they do not exactly, their value is a bound."""
        if everything.value >= self._goal:
            self._fill(everything)
        if everything.value >= self._goal:
            # It fits in rounded weights but not exactly, so it is no answer. Its value stays a bound of this node.
            self._unclear = max(self._unclear, everything.value)

    def _offer(self, found: QuerySet) -> None:
        """Fill the set up, if it is worth more than those that were filled and not far below the best one."""
        if found.value > max(self._most_filled, self._value - (self._value >> _NEAR_BITS)):
            self._most_filled = found.value
            self._fill(found)

    def _fill(self, found: QuerySet) -> None:
        """Keep the set, as far as it fits and with what fits beside it, if it is better."""
        self._filling.lighten(np.flatnonzero(found.queries).tolist())
        self._filling.fill()
        queries = np.zeros(self._problem.n_queries, dtype=np.bool_)
        queries[self._filling.chosen] = True
        self.start_from(queries)


_ANY, _WALK, _WITHOUT = 100, 100, 8  # operators, steps, queries at first
_LEAST = 4
_MORE, _FEWER = 1.15, 0.7
_JUMP = 0.1  # chance that a walk goes on from any other operator
_SHARE, _MOST_WORK = 12, 1_000_000  # of all work for one neighbourhood, and how much at most
_CALL = 1_000  # what drawing one takes beside its pairs, in the unit of work


class Neighbourhoods:
    """Sets of free operators (n,), drawn around a set of queries (m,)."""

    def __init__(self, problem: QuerySelection, draw: np.random.Generator) -> None:
        self._problem, self._draw = problem, draw
        self._queries = problem.uses[np.argsort(problem.uses[:, 1], kind="stable"), 0]
        counts = np.bincount(problem.uses[:, 1], minlength=problem.n_operators)
        self._first = np.concatenate([[0], np.cumsum(counts)])

    def any_operators(self, queries: BoolArray, size: int) -> BoolArray:
        """Return `size` operators, each as likely as any other."""
        free = np.zeros(self._problem.n_operators, dtype=np.bool_)
        free[self._draw.permutation(len(free))[:size]] = True
        return free

    def on_a_walk(self, queries: BoolArray, size: int) -> BoolArray:
        """Return the operators of so many queries met on a walk, each of which uses an operator of the one before."""
        n = self._problem.n_operators
        free, at = np.zeros(n, dtype=np.bool_), int(self._draw.integers(n))
        for jump, next_query, next_operator in self._draw.random((size, 3)).tolist():
            free[at] = True
            met = self._queries[self._first[at] : self._first[at + 1]]
            if jump < _JUMP or not len(met):
                at = int(next_query * n)
                continue
            operators = self._problem.operators_of(int(met[int(next_query * len(met))]))
            free[operators] = True
            at = int(operators[int(next_operator * len(operators))])
        return free

    def without_some_queries(self, queries: BoolArray, size: int) -> BoolArray:
        """Return all operators but those that the set needs when so many of its queries are left out."""
        kept = queries.copy()
        inside = np.flatnonzero(queries)
        kept[self._draw.permutation(inside)[:size]] = False
        return ~self._problem.union(kept)


def improved(
    problem: QuerySelection,
    queries: BoolArray,
    tree: Callable[[BoolArray, BoolArray], Tree],
    work: float,
    draw: np.random.Generator,
    deadline: float,
) -> tuple[BoolArray, bool]:
    """Return the best queries (m,) after so much work on neighbourhoods of them, and whether the clock ended it.

    `tree` makes a search of the sets that take operators (n,) and leave out others (n,).
    """
    drawn = Neighbourhoods(problem, draw)
    kinds = (drawn.any_operators, drawn.on_a_walk, drawn.without_some_queries)
    sizes = [float(_ANY), float(_WALK), float(_WITHOUT)]
    overhead = (len(problem.uses) + problem.n_queries + problem.n_operators) // 8 + _CALL
    most = max(_LEAST, problem.n_operators, problem.n_queries)
    kind, each = 0, min(_MOST_WORK, work / _SHARE)
    while work > 0:
        size = sizes[kind]
        free, taken = kinds[kind](queries, math.ceil(size)), problem.union(queries)
        part = tree(taken & ~free, ~taken & ~free)
        part.start_from(queries)
        found = part.search(min(work, each), deadline)
        if found.timed_out:
            return found.queries, True
        work -= part.work + overhead
        sizes[kind] = max(_LEAST, size * _FEWER) if part.is_open else min(most, size * _MORE)
        if found.queries is queries:  # where something was gained the same kind comes again
            kind = (kind + 1) % len(kinds)
        queries = found.queries
    return queries, False


_BITS = 40  # sums that CP-SAT handles with ease
_DETERMINISTIC_PER_S = 0.25  # units of CP-SAT's own clock per second of the time limit: less than a second each


@dataclass(frozen=True)
class Fixed:
    """Parts of every better set: queries in it or not, operators in it or not."""

    query_in: BoolArray
    query_out: BoolArray
    operator_in: BoolArray
    operator_out: BoolArray

    @property
    def n_open(self) -> int:
        """Return how many queries are not decided."""
        return int((~self.query_in & ~self.query_out).sum())


@dataclass(frozen=True)
class Found:
    """The best set of queries, None for none; the bound in the unit of values, None for none; whether time struck."""

    queries: BoolArray | None
    bound: float | None
    timed_out: bool


def fixed(problem: QuerySelection, root: Cut, possible: BoolArray, goal: int) -> Fixed:
    """Return what is fixed in every set that is worth at least `goal`, as the cut at the root proves."""
    slack = root.bound - goal
    query_in = possible & (root.query_loss > slack)
    operator_out = np.asarray(root.operator_loss > slack, dtype=np.bool_)
    query, operator = problem.uses[:, 0], problem.uses[:, 1]
    query_out = ~possible
    query_out[query[operator_out[operator]]] = True
    operator_in = problem.union(query_in)
    query_in |= ~query_out & problem.whole(operator_in)
    return Fixed(query_in & ~query_out, query_out, operator_in, operator_out)


def searched(
    problem: QuerySelection,
    possible: BoolArray,
    known: Fixed,
    start: BoolArray,
    *,
    time_limit_s: float,
    deadline: float,
    seed: int,
) -> Found:
    """Return the best set among those that keep what is fixed, with a bound for these sets.

    Numbers are rounded as in `scaling`, to fewer bits: the bound holds, the set is checked by who asks.
    """
    from ortools.sat.python import cp_model  # noqa: PLC0415 - slow to load

    numbers = scaled(np.where(possible, problem.value, 0.0), problem.weight, problem.limit, _BITS)
    value, weight = numbers.value // numbers.grain, numbers.weight
    unit = int(np.gcd.reduce(weight)) or 1
    model = cp_model.CpModel()
    needed = problem.union(~known.query_out)
    takes = {o: model.new_bool_var("") for o in np.flatnonzero(needed & ~known.operator_in).tolist()}
    whole = {q: model.new_bool_var("") for q in np.flatnonzero(~known.query_out & ~known.query_in).tolist()}
    for q, variable in whole.items():
        for o in problem.operators_of(q).tolist():
            if o in takes:
                model.add_implication(variable, takes[o])
    room = (numbers.capacity - int(weight[known.operator_in].sum())) // unit
    variables, weights = list(takes.values()), [int(weight[o]) // unit for o in takes]
    model.add(cp_model.LinearExpr.weighted_sum(variables, weights) <= room)
    model.maximize(cp_model.LinearExpr.weighted_sum(list(whole.values()), [int(value[q]) for q in whole]))
    union = problem.union(start)
    for q, variable in whole.items():
        model.add_hint(variable, bool(start[q]))
    for o, variable in takes.items():
        model.add_hint(variable, bool(union[o]))
    answer = solve_cp(model, deterministic_s=_DETERMINISTIC_PER_S * time_limit_s, limit_s=left_s(deadline), seed=seed)
    late = time.monotonic() >= deadline
    base = int(value[known.query_in].sum())
    if answer.status is Status.INFEASIBLE:  # nothing that keeps what is fixed: nothing is better
        return Found(None, 0.0, late)
    if not answer.found:
        return Found(None, None, late)
    chosen = known.query_in.copy()
    chosen[list(whole)] = answer.chosen(list(whole.values()))
    bound = (base + math.ceil(answer.bound - 1e-6)) * numbers.grain
    return Found(chosen, numbers.real(bound), late)
