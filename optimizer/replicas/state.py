"""A placement while it is searched: rooms of hosts, and the exact chance that each query is broken, kept up to date."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from models.checked_arrays import FloatArray
from models.planning.replicas import Instances, ReplicaProblem
from models.reliability.cuts import minimal
from models.reliability.exact import Engine
from optimizer.replicas.placing import Placed


class State:
    """Instances of all operators, the primary first, with what hosts have left and how likely queries are broken."""

    def __init__(self, problem: ReplicaProblem, instances: Sequence[Sequence[int]], deadline: float = math.inf) -> None:
        self.problem, self._deadline = problem, deadline
        self.hosts = [list(one) for one in instances]
        self._masks = [sum(1 << h for h in one) for one in self.hosts]
        self._engine = Engine(replace(problem.failures, down=problem.down[:1], shocks=None))
        self._known: dict[frozenset[int], float] = {}
        self._users: list[list[int]] = [[] for _ in self.hosts]
        for q, needed in enumerate(problem.operators):
            for o in dict.fromkeys(needed):
                self._users[o].append(q)
        self.around = _around(problem)
        self.load = problem.load.tolist()
        self.free = problem.host_cpu.copy() + problem.slack
        self.net = None if problem.host_network is None else problem.host_network * (1 + 1e-12)
        for o, one in enumerate(self.hosts):
            for h in one:
                self._take(o, h, 1.0)
        self.cost = problem.cost(self.hosts)
        self.running = problem.running or ((),) * problem.n_operators
        self.moves = problem.moves(self.hosts)
        self.count = problem.replicas(self.hosts)
        self.broken = np.array([self._chance(q) for q in range(problem.n_queries)])

    @property
    def late(self) -> bool:
        """Return whether the deadline, one of time.monotonic, is over: a search then ends with what it has."""
        return time.monotonic() >= self._deadline

    @property
    def value(self) -> float:
        """Return the value that is minimised."""
        return float(self.problem.value(self.broken))

    @property
    def placed(self) -> Placed:
        """Return the instances as they are."""
        return Placed([list(one) for one in self.hosts], 0)

    @property
    def instances(self) -> Instances:
        """Return the hosts of the instances of each operator."""
        return tuple(map(tuple, self.hosts))

    def level(self, o: int) -> int:
        """Return how many replicas an operator has."""
        return len(self.hosts[o]) - 1

    def users(self, operators: Iterable[int]) -> list[int]:
        """Return the queries that need one of these operators."""
        return list(dict.fromkeys(q for o in operators for q in self._users[o]))

    def room_for(self, o: int, *, primary: bool = False) -> np.ndarray:
        """Return which hosts may take one more replica of an operator, or its primary, (H,)."""
        allowed = self.problem.primary_hosts if primary else self.problem.replica_hosts
        assert allowed is not None
        found = allowed & (self.free >= self.load[o])
        if self.net is not None and self.problem.network is not None:
            found &= self.net >= self.problem.network[o]
        found[self.hosts[o]] = False
        return np.asarray(found)

    def add(self, o: int, host: int) -> None:
        """Add a replica on a host with room."""
        self.hosts[o].append(host)
        self._masks[o] |= 1 << host
        self._take(o, host, 1.0)
        self.cost += self.load[o]
        self.count += 1
        self.moves -= host in self.running[o]

    def drop(self, o: int, host: int) -> None:
        """Take a replica away."""
        self.hosts[o].remove(host)
        self._masks[o] &= ~(1 << host)
        self._take(o, host, -1.0)
        self.cost -= self.load[o]
        self.count -= 1
        self.moves += host in self.running[o]

    def may_leave(self, o: int, host: int) -> bool:
        """Return whether an instance may leave its host: it did not run there before, or one more move is allowed."""
        most = self.problem.max_moves
        return most is None or host not in self.running[o] or self.moves < most

    def refresh(self, queries: Iterable[int]) -> None:
        """Update the chances of these queries after their operators have changed."""
        for q in queries:
            self.broken[q] = self._chance(q)

    def after(self, queries: Sequence[int]) -> FloatArray:
        """Return the chances of these queries as they are now, without keeping them."""
        return np.array([self._chance(q) for q in queries])

    def _take(self, o: int, host: int, sign: float) -> None:
        self.free[host] -= sign * self.load[o]
        if self.net is not None and self.problem.network is not None:
            self.net[host] -= sign * self.problem.network[o]

    def _chance(self, q: int) -> float:
        key = frozenset(self._masks[o] for o in self.problem.operators[q])
        if key not in self._known:
            self._known[key] = float(self._engine.broken(minimal(key))[1][0])
        return self._known[key]


def _around(problem: ReplicaProblem) -> list[list[int]]:
    found: list[set[int]] = [set() for _ in range(problem.n_operators)]
    for a, b in problem.edges.tolist():
        if a != b:
            found[a].add(b)
            found[b].add(a)
    return [sorted(one) for one in found]


def gain(problem: ReplicaProblem, before: FloatArray, after: FloatArray, queries: Sequence[int]) -> float:
    """Return by how much the mean share of broken queries falls (by weight)."""
    return math.fsum((problem.shares[queries] * (before - after)).tolist()) if len(queries) else 0.0
