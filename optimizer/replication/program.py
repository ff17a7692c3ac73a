"""A linear program that no plan of replicas within a budget is below, and bounds of it from its dual values alone.

    y[o]      operator o has a replica (at most `budget` of load has; of those that run at most `max_moves` leave:
              sum r[o] y[o] >= sum r[o] - max_moves, where r[o] run)
    z[c]      all operators of cover c have (bounds: what a query with primaries in place can gain), z[c] <= y[o]
    d[q]      query q, whose primaries have no host yet, has operators without replicas on two hosts at least
    s[h, o]   o and h have no replica, are in a query with d = 0, and so share a host

    minimise   sum share[q] P[q]
    P[q] >= base + sum worth (1 - z)                                    primaries in place (`bounds`)
    P[q] >= base + (p1 - base) (1 - z[q]) + (p2 - p1) d[q]              primaries to be placed
    s[h, o] >= 1 - d[q] - y[h] - y[o]                                   for queries q that need both
    sum over o: load[o] s[h, o] <= room - load[h]                       of a host for primaries; network likewise
    sum over o of q: load[o] (1 - y[o]) <= room (1 - d[q]) + load[q] d[q]

with p1 the least chance of a host for primaries, p2 = 1 - (1 - p1) (1 - p2') with the two least. Every plan keeps all
rows A x >= b; so for any multipliers u >= 0 of them its objective is at least

    constant + u b + sum over j of min(0, cost[j] - (A' u)[j])          as 0 <= x[j] <= 1

so that multipliers are a certificate which takes no solver to check. For the least cost of a target the objective is
the load of y, and the share of broken queries a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from models.checked_arrays import FloatArray
from models.replication.problem import Replication
from optimizer.replication.bounds import Bounds, bounds_of
from optimizer.replication.heuristic import most_levels

_DOWN = 1 - 1e-12
_MOST_PAIRS = 200_000  # (hub, operator): beyond that hubs are left out


@dataclass(eq=False)
class Program:
    """minimise constant + cost x, rows A x >= b as lists of (row, column, value), 0 <= x <= 1."""

    constant: float
    costs: list[float]
    rows: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    right: list[float] = field(default_factory=list)

    def add(self, terms: dict[int, float], right: float) -> None:
        """One more row: sum of value x[column] >= right."""
        self.rows += [len(self.right)] * len(terms)
        self.columns += list(terms)
        self.values += list(terms.values())
        self.right.append(right)

    def variable(self, cost: float) -> int:
        """One more column."""
        self.costs.append(cost)
        return len(self.costs) - 1

    def bound(self, multipliers: FloatArray) -> float:
        """The lower bound that these multipliers (rows,) prove, rounded down; negative ones count as zero."""
        found = np.where(np.isfinite(multipliers) & (multipliers > 0), multipliers, 0.0)
        rows, columns = np.array(self.rows, dtype=np.int64), np.array(self.columns, dtype=np.int64)
        priced = np.bincount(columns, found[rows] * np.array(self.values), minlength=len(self.costs))
        reduced = np.minimum(0.0, np.array(self.costs) - priced)
        terms = [self.constant, *(found * np.array(self.right)).tolist(), *reduced.tolist()]
        total = math.fsum(terms)
        return max(0.0, total - (1 - _DOWN) * math.fsum(map(abs, terms)))


def program_of(problem: Replication, budget: float, bounds: Bounds | None = None) -> Program:
    """The program for the mean share of broken queries within the budget."""
    bounds = bounds or bounds_of(problem)
    shares = problem.shares.tolist()
    made = Program(0.0, [0.0] * problem.n_operators)
    cost = {o: -float(load) for o, load in enumerate(problem.load) if load}
    made.add(cost, -max(0.0, budget) * (1 + 1e-12) - problem.slack)
    for o in np.flatnonzero(most_levels(problem) * min(problem.max_level, 1) == 0).tolist():
        made.add({o: -1.0}, 0.0)
    _add_running(made, problem)
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
    for cover, column in whole.items():
        for o in sorted(cover):
            made.add({o: 1.0, column: -1.0}, 0.0)
    made.constant = math.fsum(constants)
    _add_spread(made, problem)
    return made


def cost_program_of(problem: Replication, allowed: float, bounds: Bounds | None = None) -> Program:
    """The program for the least load of replicas with which that mean share of queries at most is broken."""
    made = program_of(problem, float(problem.load.sum()), bounds)
    largest = max(map(abs, made.costs), default=0.0) or 1.0
    terms = {column: -cost / largest for column, cost in enumerate(made.costs) if cost}
    slack = 1e-12 * (abs(made.constant) + math.fsum(map(abs, made.costs)))
    made.add(terms, (made.constant - allowed - slack) / largest)
    made.constant, made.costs = 0.0, [0.0] * len(made.costs)
    made.costs[: problem.n_operators] = problem.load.tolist()
    return made


def _add_running(made: Program, problem: Replication) -> None:
    """An operator that has no replica any more has let all go that run."""
    there = {o: float(len(hosts)) for o, hosts in enumerate(problem.running) if hosts}
    if problem.max_moves is not None and problem.max_moves < sum(there.values()):
        made.add(there, sum(there.values()) - problem.max_moves)


def _add_spread(made: Program, problem: Replication) -> None:
    """What queries pay whose operators do not fit on one host."""
    new = [q for q, needed in enumerate(problem.operators) if all(problem.primaries[o] < 0 for o in needed)]
    assert problem.primary_hosts is not None
    chances = np.sort(np.minimum(problem.down[0][problem.primary_hosts], 1 - 1e-12))
    if not new or len(chances) < 2 or chances[1] == 0:
        return
    more = float(chances[1] * (1 - chances[0]))  # 1 - (1 - p) (1 - p') over p
    spread = {q: made.variable(float(problem.shares[q]) * more) for q in new}
    kinds = [(problem.load, problem.host_cpu)]
    if problem.network is not None and problem.host_network is not None:
        kinds.append((problem.network, problem.host_network))
    beside: dict[int, dict[int, list[int]]] = {}
    for q in new:
        for h in problem.operators[q]:
            for o in problem.operators[q]:
                if o != h:
                    beside.setdefault(h, {}).setdefault(o, []).append(q)
    pairs: dict[tuple[int, int], int] = {}
    for load, capacity in kinds:
        room = float(capacity[problem.primary_hosts].max()) * (1 + 1e-9)
        for h, others in sorted(beside.items()):
            if len(pairs) + len(others) <= _MOST_PAIRS and load[h] + load[list(others)].sum() > room:
                _add_hub(made, problem, h, others, spread, pairs, load, room)
        for q in new:
            needed = problem.operators[q]
            over = float(load[list(needed)].sum()) - room
            if over > 0:
                made.add({spread[q]: over, **{o: float(load[o]) for o in needed if load[o]}}, over)


def _add_hub(
    made: Program,
    problem: Replication,
    hub: int,
    others: dict[int, list[int]],
    spread: dict[int, int],
    pairs: dict[tuple[int, int], int],
    load: FloatArray,
    room: float,
) -> None:
    """The operators that share a host with one that has no replica fit on it."""
    for o, queries in others.items():
        pair = (hub, o)
        if pair not in pairs:
            pairs[pair] = made.variable(0.0)
            for q in queries:
                made.add({pairs[pair]: 1.0, spread[q]: 1.0, hub: 1.0, o: 1.0}, 1.0)
    terms = {pairs[hub, o]: -float(load[o]) for o in others if load[o]}
    made.add(terms, -max(0.0, room - float(load[hub])))
