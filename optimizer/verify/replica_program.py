"""A linear program that no plan of replicas within a budget is below, and bounds of it from its dual values alone.

    y[o]      operator o has a replica (at most `budget` of load has, and at most `max_replicas` operators; of those
              that run at most `max_moves` leave: sum r[o] y[o] >= sum r[o] - max_moves, where r[o] run)
    z[c]      all operators of cover c have (bounds: what a query with primaries in place can gain), z[c] <= y[o]
    e[q, k]   the operators without replicas of query q, whose primaries have no host yet, are on k hosts at least
    s[h, o]   o and h, which one such query needs, have no replica and share a host

    minimise   sum share[q] P[q]
    P[q] >= base + sum worth (1 - z)                                    primaries in place (`replica_bounds`)
    P[q] >= base + (p1 - base) e[q, 1] + sum over k > 1: g[k] e[q, k]   primaries to be placed, e[q, 1] = 1 - z[q]
    e[q, k] >= e[q, k + 1]
    (F - k) e[q, k + 1] >= sum over o of q: f(o) (1 - y[o]) - k         for k < F = sum over o of q: f(o)
    sum over k: e[q, k] >= sum over o of q: a (1 - y[o]) - 2 b sum over pairs of q: s[h, o]
    s[h, o] >= 1 - e[q, 2] - y[h] - y[o]                                for queries q that need both
    sum over o: f(o) s[h, o] <= (1 - f(h)) (1 - y[h])
    sum over o: f(o) y[o] <= hosts - sum over o: f(o)                   of all hosts, and of those for replicas

To first order in the chances p of hosts, P[q] is the sum of p over the hosts of its operators without replicas. The
program keeps a bound of P[q] itself: a query is broken at least when one of k such hosts is down, which no hosts do
with less than g[1] + ... + g[k], where g[k] = p_k (1 - p_1) ... (1 - p_(k-1)) has the chances of hosts in rising order.

How many hosts there are at least follows from two counts. f is a dual feasible function: f of what shares a host adds
up to 1 at most. These are loads over the largest room, and floor((k + 1) load / room) / k (S. Martello, P. Toth:
Knapsack Problems, 1990; S. Fekete, J. Schepers, 2001). And operators that share their hosts with c others of their
query add 1 / (1 + c) hosts each, which is convex in c, so never below its line a - b c through j and j + 1:
a = 2 / (j + 2), b = 1 / ((j + 1) (j + 2)).

Every plan keeps all rows A x >= b; so for any multipliers u >= 0 of them its objective is at least

    constant + u b + sum over j of min(0, cost[j] - (A' u)[j])          as 0 <= x[j] <= 1

so that multipliers are a certificate which takes no solver to check. For the least cost of a target the objective is
the load of y, and the share of broken queries a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, frozen
from models.planning.replicas import ReplicaProblem
from optimizer.verify.replica_bounds import Bounds, bounds_of, most_levels

_DOWN = 1 - 1e-12
_MOST_PAIRS = 200_000  # of operators: beyond that hubs are left out
_MOST_STEPS = 5  # of dual feasible functions: up to so many operators of a size fit on one host
_MOST_TOGETHER = 3  # lines for the operators of a query on one host
_LEAST_PART = 1e-6  # of a host: what is above a whole number of hosts by less is none
_SMALLEST_ROOM = 1e-300  # so that hosts without any room divide nothing by zero
_NEVER = -1  # the column of a pair that never shares a host


@dataclass(eq=False)
class Program:
    """minimise constant + cost x, rows A x >= b as lists of (row, column, value), 0 <= x <= 1.

    pairs: the columns of operators that share a host; spread: by query, the column of operators on two hosts at least.
    """

    constant: float
    costs: list[float]
    rows: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    right: list[float] = field(default_factory=list)
    pairs: dict[tuple[int, int], int] = field(default_factory=dict)
    spread: dict[int, int] = field(default_factory=dict)

    def add(self, terms: dict[int, float], right: float) -> None:
        """Add a row: sum of value x[column] >= right."""
        self.rows += [len(self.right)] * len(terms)
        self.columns += list(terms)
        self.values += list(terms.values())
        self.right.append(right)

    def variable(self, cost: float) -> int:
        """Add a column with this cost, and return its number."""
        self.costs.append(cost)
        return len(self.costs) - 1

    def bound(self, multipliers: FloatArray) -> float:
        """Return the lower bound that these multipliers (rows,) prove, rounded down; negative ones count as zero."""
        found = np.where(np.isfinite(multipliers) & (multipliers > 0), multipliers, 0.0)
        rows, columns = np.array(self.rows, dtype=np.int64), np.array(self.columns, dtype=np.int64)
        priced = np.bincount(columns, found[rows] * np.array(self.values), minlength=len(self.costs))
        reduced = np.minimum(0.0, np.array(self.costs) - priced)
        terms = [self.constant, *(found * np.array(self.right)).tolist(), *reduced.tolist()]
        total = math.fsum(terms)
        return max(0.0, total - (1 - _DOWN) * math.fsum(map(abs, terms)))


def program_of(problem: ReplicaProblem, budget: float, bounds: Bounds | None = None) -> Program:
    """Return the program for the mean share of broken queries within the budget."""
    bounds = bounds or bounds_of(problem)
    shares = problem.shares.tolist()
    made = Program(0.0, [0.0] * problem.n_operators)
    cost = {o: -float(load) for o, load in enumerate(problem.load) if load}
    # A little more than the budget: rounding must not cut off a plan that the checker accepts.
    made.add(cost, -max(0.0, budget) * (1 + 1e-12) - problem.slack)
    # Operators that can have no replica at all.
    for o in np.flatnonzero(most_levels(problem) * min(problem.max_level, 1) == 0).tolist():
        made.add({o: -1.0}, 0.0)
    _add_running(made, problem)
    _add_rooms(made, problem)
    if problem.max_replicas is not None:
        made.add(dict.fromkeys(range(problem.n_operators), -1.0), -float(problem.max_replicas))
    # Queries that share a cover share its column, and what it is worth to them adds up.
    whole: dict[frozenset[int], int] = {}
    constants = []
    for share, query in zip(shares, bounds.queries, strict=True):
        constants.append(share * query.bare)
        for cover, worth in zip(query.covers, query.worths, strict=True):
            if worth > 0:
                column = whole.setdefault(cover, len(made.costs))
                if column == len(made.costs):
                    made.variable(0.0)
                made.costs[column] -= share * worth
    # A cover counts only if every operator in it has a replica.
    for cover, column in whole.items():
        for o in sorted(cover):
            made.add({o: 1.0, column: -1.0}, 0.0)
    made.constant = math.fsum(constants)
    _add_spread(made, problem, whole)
    return made


def cost_program_of(problem: ReplicaProblem, allowed: float, bounds: Bounds | None = None) -> Program:
    """Return the program for the least load of replicas with which that mean share of queries at most is broken."""
    made = program_of(problem, float(problem.load.sum()), bounds)
    largest = max(map(abs, made.costs), default=0.0) or 1.0
    terms = {column: -cost / largest for column, cost in enumerate(made.costs) if cost}
    slack = 1e-12 * (abs(made.constant) + math.fsum(map(abs, made.costs)))
    made.add(terms, (made.constant - allowed - slack) / largest)
    made.constant, made.costs = 0.0, [0.0] * len(made.costs)
    made.costs[: problem.n_operators] = problem.load.tolist()
    return made


def _add_running(made: Program, problem: ReplicaProblem) -> None:
    """Add rows of moves: an operator without a replica has let all its running ones go."""
    there = {o: float(len(hosts)) for o, hosts in enumerate(problem.running) if hosts}
    if problem.max_moves is not None and problem.max_moves < sum(there.values()):
        made.add(there, sum(there.values()) - problem.max_moves)


def _add_rooms(made: Program, problem: ReplicaProblem) -> None:
    """Add that instances fit on all hosts, and replicas on the hosts that take them, beside the primaries there."""
    assert problem.replica_hosts is not None
    fixed = problem.primaries >= 0
    there = fixed & problem.replica_hosts[np.maximum(problem.primaries, 0)]
    everywhere = np.ones(problem.n_hosts, dtype=np.bool_)
    for hosts, beside in ((everywhere, np.ones_like(fixed)), (problem.replica_hosts, there)):
        for sizes in _kinds_of_sizes(problem, hosts):
            for f in sizes:
                right = float(hosts.sum()) - math.fsum(f[beside].tolist())
                if 0 <= right < math.fsum(f.tolist()):
                    made.add({o: -float(f[o]) for o in np.flatnonzero(f).tolist()}, -right * (1 + 1e-12))


def _kinds_of_sizes(problem: ReplicaProblem, hosts: BoolArray) -> list[FloatArray]:
    """Return the dual feasible functions of CPU, and of the network where it is limited, on these hosts."""
    if not hosts.any():
        return []
    found = [_sizes(problem.load, problem.host_cpu[hosts])]
    if problem.network is not None and problem.host_network is not None:
        found.append(_sizes(problem.network, problem.host_network[hosts]))
    return found


def _add_spread(made: Program, problem: ReplicaProblem, whole: dict[frozenset[int], int]) -> None:
    """Add what queries pay whose operators are on several hosts, because they do not fit on one."""
    new = [q for q, needed in enumerate(problem.operators) if all(problem.primaries[o] < 0 for o in needed)]
    assert problem.primary_hosts is not None
    chances = np.sort(np.minimum(problem.down[0][problem.primary_hosts], 1 - 1e-12))
    if not new or len(chances) < 2 or chances[1] == 0:
        return
    _Spread(made, problem, new, chances, whole).add()


class _Spread:
    """Adds columns and rows of the queries whose primaries have no host yet.

    hosts[q]: the columns of e[q, 2], e[q, 3] and so on. whole: the columns of z; without one e[q, 1] counts as 1. Pairs
    that no row limits have no column.
    """

    def __init__(
        self,
        made: Program,
        problem: ReplicaProblem,
        new: list[int],
        chances: FloatArray,
        whole: dict[frozenset[int], int],
    ) -> None:
        self.made, self.problem, self.new, self.whole = made, problem, new, whole
        alive = np.concatenate(([1.0], np.cumprod(1 - chances)))[: len(chances)]
        steps = (chances * alive)[1:].tolist()  # g[2], g[3], ...
        assert problem.primary_hosts is not None
        self.hosts: dict[int, list[int]] = {}
        for q in new:
            share, most = float(problem.shares[q]), len(problem.operators[q])
            self.hosts[q] = [made.variable(share * step) for step in steps[: max(0, most - 1)]]
            if self.hosts[q]:
                made.spread[q] = self.hosts[q][0]
        self.pairs: dict[tuple[int, int], int] = {}
        self.rooms = _kinds_of_sizes(problem, problem.primary_hosts)

    def add(self) -> None:
        """Add everything."""
        self._add_order()
        beside = self._beside()
        for h, others in sorted(beside.items()):
            if len(self.pairs) + len(others) <= _MOST_PAIRS:
                for sizes in self.rooms:
                    for f in _tighter(sizes, [h, *others]):
                        self._add_hub(h, others, f)
        for q in self.new:
            for sizes in self.rooms:
                for f in _tighter(sizes, self.problem.operators[q]):
                    self._add_packing(q, f)
            self._add_partition(q)

    def _beside(self) -> dict[int, dict[int, list[int]]]:
        """Return by operator the others that a query needs beside it, and these queries."""
        found: dict[int, dict[int, list[int]]] = {}
        for q in self.new:
            for h in self.problem.operators[q]:
                for o in self.problem.operators[q]:
                    if o != h:
                        found.setdefault(h, {}).setdefault(o, []).append(q)
        return found

    def _add_order(self) -> None:
        for q in self.new:
            first = self.whole.get(frozenset(self.problem.operators[q]))
            if first is not None and self.hosts[q]:
                self.made.add({first: -1.0, self.hosts[q][0]: -1.0}, -1.0)
            for one, more in pairwise(self.hosts[q]):
                self.made.add({one: 1.0, more: -1.0}, 0.0)

    def _add_hub(self, hub: int, others: dict[int, list[int]], f: FloatArray) -> None:
        """Add that the operators which share a host with one that has no replica fit on it."""
        columns = {o: self._pair(hub, o, queries) for o, queries in others.items()}
        room = max(0.0, 1.0 - float(f[hub]))
        terms = {column: -float(f[o]) for o, column in columns.items() if column is not None and f[o]}
        if terms and sum(terms.values()) < -room:
            self.made.add(terms | ({hub: -room} if room else {}), -room)

    def _pair(self, h: int, o: int, queries: list[int]) -> int | None:
        """Return the column of two operators on one host, None where no host has room for both."""
        pair = (min(h, o), max(h, o))
        if pair not in self.pairs:
            column = _NEVER if self._incompatible(h, o) else self.made.variable(0.0)
            self.pairs[pair] = column
            if column != _NEVER:
                self.made.pairs[pair] = column
            for q in queries:
                shared = {} if column == _NEVER else {column: 1.0}
                self.made.add({**shared, self.hosts[q][0]: 1.0, h: 1.0, o: 1.0}, 1.0)
        return None if self.pairs[pair] == _NEVER else self.pairs[pair]

    def _incompatible(self, h: int, o: int) -> bool:
        return any(sizes[0, h] + sizes[0, o] > 1 for sizes in self.rooms)

    def _add_partition(self, q: int) -> None:
        """Add how many hosts the pairs on one host leave, at least."""
        needed = self.problem.operators[q]
        there = [self.pairs.get(pair) for pair in combinations(sorted(needed), 2)]
        columns = [column for column in there if column is not None and column != _NEVER]
        for j in range(min(_MOST_TOGETHER, len(needed) - 1)):
            both = 2.0 / ((j + 1) * (j + 2))
            weights = dict.fromkeys(needed, 2.0 / (j + 2))
            self._add_count(q, weights, dict.fromkeys(columns, both), both * there.count(None))

    def _add_count(self, q: int, weights: dict[int, float], shared: dict[int, float], free: float) -> None:
        """Add a lower bound of the number of hosts: the weights of operators without replicas, less what they share."""
        right = math.fsum(weights.values()) - 1.0 - free
        if right > 0:
            first = self.whole.get(frozenset(self.problem.operators[q]))
            terms = {**weights, **shared, **dict.fromkeys(self.hosts[q], 1.0)}
            self.made.add(terms if first is None else terms | {first: -1.0}, right)

    def _add_packing(self, q: int, f: FloatArray) -> None:
        """Add that operators without replicas which take more than k hosts are on k + 1 at least."""
        weights = {o: float(f[o]) for o in self.problem.operators[q]}
        total = math.fsum(weights.values())
        for k, column in enumerate(self.hosts[q], start=1):
            if total > k + _LEAST_PART:
                self.made.add({column: total - k} | {o: weight for o, weight in weights.items() if weight}, total - k)


def _sizes(load: FloatArray, capacity: FloatArray) -> FloatArray:
    """Return dual feasible functions of loads (k, n): the share of the largest room first, each rounded down."""
    share = load / max(float(capacity.max()) * (1 + 1e-9), _SMALLEST_ROOM)
    steps = [np.floor((k + 1) * share - 1e-6) / k for k in range(1, _MOST_STEPS + 1)]
    return frozen(np.maximum(0.0, np.array([share, *steps])))


def _tighter(sizes: FloatArray, operators: Sequence[int]) -> list[FloatArray]:
    """Return the functions by which operators take more than one host: the shares, and those that are above these."""
    totals = sizes[:, list(operators)].sum(axis=1)
    return [f for k, f in enumerate(sizes) if totals[k] > 1 and (k == 0 or totals[k] > totals[0])]
