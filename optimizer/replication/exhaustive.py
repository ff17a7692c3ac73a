"""Every plan of replicas of a small problem that is not worse than another: the exact Pareto front.

Operators get sets of hosts one after the other, so that every host holds what is on it. Hosts that are alike and empty
are the same to what comes next, so only the first of them is tried. A query's chance depends on the sets of its
operators alone and is computed once for each of them. Larger problems are given up, after a number of nodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from models.availability.exact import unavailability
from models.availability.queries import Queries
from models.replication.problem import ROUNDING, Instances, Replication

MOST_NODES = 20_000
_MOST_SETS = 5_000  # of hosts of one operator
_MOST_OPERATORS = 12
_SAME = 1e-12  # relative: what rounding sets apart


@dataclass(frozen=True)
class ExactPoint:
    """A plan that no other of its cost or less is better than."""

    cost: float
    value: float
    instances: Instances


def exact_front(problem: Replication, most: int = MOST_NODES) -> list[ExactPoint] | None:
    """All points by rising cost, falling value; empty where no plan fits, None where there are too many plans."""
    walk = _Walk(problem, most)
    if not walk.begin():
        return None
    found: list[ExactPoint] = []
    for cost, value, instances in sorted(walk.best.values()):
        if not found or value < found[-1].value * (1 - _SAME):
            found.append(ExactPoint(cost, value, instances))
    return found


class _Walk:
    """Goes through all assignments; keeps the best value of every cost."""

    def __init__(self, problem: Replication, most: int) -> None:
        self.problem, self.left = problem, most
        self.best: dict[float, tuple[float, float, Instances]] = {}
        self._moves: dict[float, int] = {}
        self._sets: list[tuple[int, ...]] = []
        self._rooms = [(problem.load, problem.host_cpu.astype(float).copy())]
        if problem.network is not None and problem.host_network is not None:
            self._rooms.append((problem.network, problem.host_network.astype(float).copy()))
        self._slack = [ROUNDING * float(room.max()) for _, room in self._rooms]
        self._kind = _kinds(problem)
        self._used = np.zeros(problem.n_hosts, dtype=np.int64)
        self._known: dict[tuple[tuple[int, ...], ...], float] = {}

    def begin(self) -> bool:
        """Whether all were gone through."""
        return self._fits() and self._next()

    def _fits(self) -> bool:
        """Not where the choices of one operator alone, or the depth of the walk, are too many."""
        sets = sum(math.comb(self.problem.n_hosts, k + 1) for k in range(self.problem.max_level + 1))
        return sets <= _MOST_SETS and self.problem.n_operators <= _MOST_OPERATORS

    def _next(self) -> bool:
        self.left -= 1
        if self.left < 0:
            return False
        operator = len(self._sets)
        if operator == self.problem.n_operators:
            self._keep()
            return True
        for hosts in self._choices(operator):
            if not self._may(hosts):
                continue
            self._put(operator, hosts, 1)
            self._sets.append(hosts)
            whole = self._next()
            self._sets.pop()
            self._put(operator, hosts, -1)
            if not whole:
                return False
        return True

    def _may(self, hosts: tuple[int, ...]) -> bool:
        """Whether no more running replicas have left their hosts than may."""
        most = self.problem.max_moves
        return most is None or self.problem.moves([*self._sets, hosts]) <= most

    def _put(self, operator: int, hosts: tuple[int, ...], sign: int) -> None:
        for host in hosts:
            self._used[host] += sign
            for load, room in self._rooms:
                room[host] -= sign * load[operator]

    def _choices(self, operator: int) -> list[tuple[int, ...]]:
        """Hosts of its instances, the primary first, of which none is like another choice."""
        problem = self.problem
        assert problem.primary_hosts is not None
        assert problem.replica_hosts is not None
        fixed = int(problem.primaries[operator])
        open_ = [
            host
            for host in range(problem.n_hosts)
            if all(r[host] >= load[operator] - s for (load, r), s in zip(self._rooms, self._slack, strict=True))
        ]
        firsts = [fixed] if fixed >= 0 else [host for host in open_ if problem.primary_hosts[host]]
        seen: dict[frozenset[int], tuple[int, ...]] = {}
        alike: set[tuple[tuple[int, int], ...]] = set()
        for first in firsts if fixed < 0 or fixed in open_ else ():
            others = [host for host in open_ if host != first and problem.replica_hosts[host]]
            for level in range(min(problem.max_level, len(others)) + 1):
                for rest in combinations(others, level):
                    hosts = frozenset((first, *rest))
                    name = tuple(sorted((h if self._used[h] else -1, self._kind[h]) for h in hosts))
                    if hosts not in seen and name not in alike:
                        seen[hosts] = (first, *rest)
                        alike.add(name)
        return list(seen.values())

    def _keep(self) -> None:
        problem = self.problem
        cost = problem.cost(self._sets)
        if problem.budget is not None and cost > problem.budget + problem.slack * max(1.0, problem.n_hosts):
            return
        chances = [self._computed(tuple(self._sets[o] for o in needed)) for needed in problem.operators]
        value = float(problem.value(np.array(chances)))
        kept, moves = self.best.get(cost), problem.moves(self._sets)
        if kept is None or (value, moves) < (kept[1], self._moves[cost]):
            self.best[cost] = (cost, value, tuple(self._sets))
            self._moves[cost] = moves

    def _computed(self, sets: tuple[tuple[int, ...], ...]) -> float:
        key = tuple(sorted({tuple(sorted(hosts)) for hosts in sets}))
        if key not in self._known:
            queries = Queries(self.problem.n_hosts, key, (tuple(range(len(key))),))
            self._known[key] = float(unavailability(queries, self.problem.failures).high[0, 0])
        return self._known[key]


def _kinds(problem: Replication) -> list[int]:
    """A number for each host; equal for those that differ in nothing that counts and where nothing runs yet."""
    fixed = {*problem.primaries.tolist(), *(host for hosts in problem.running for host in hosts)}
    assert problem.primary_hosts is not None
    assert problem.replica_hosts is not None
    columns = [problem.host_cpu, problem.primary_hosts, problem.replica_hosts, *problem.down]
    columns += [] if problem.host_network is None else [problem.host_network]
    found: dict[tuple[float, ...], int] = {}
    return [
        found.setdefault((float(host) if host in fixed else -1.0, *(float(one[host]) for one in columns)), len(found))
        for host in range(problem.n_hosts)
    ]
