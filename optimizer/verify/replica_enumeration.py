"""Every plan of replicas of a small problem that is not worse than another: the exact Pareto front.

A walk gives operators their sets of hosts, one operator after the other, the heaviest first. It leaves a branch as soon
as

- a host, the budget, the number of replicas or of moves is exceeded, or the hosts have no room for the primaries that
  are left (loads only add up);
- a plan is known that costs no more than the replicas so far and breaks no more than the operators so far: both can
  only rise, since each further operator is one more way for a query to break.

Of hosts that are empty and alike only the first is tried. A query's chance depends on the sets of its operators alone
and is computed once for each of them. The walk gives up after a number of nodes, or at a deadline.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from models.planning.replicas import ROUNDING, Instances, ReplicaProblem
from models.reliability.cuts import minimal
from models.reliability.exact import Engine

MOST_NODES, MOST_NODES_OF_FRONT = 100_000, 30_000
_MOST_SETS = 5_000  # of hosts of one operator
MOST_OPERATORS = 12
_SAME = 1e-12  # relative: what rounding sets apart


@dataclass(frozen=True)
class ExactPoint:
    """A plan that no other of its cost or less is better than."""

    cost: float
    value: float
    instances: Instances


def exact_front(
    problem: ReplicaProblem,
    most: int = MOST_NODES,
    *,
    known: Sequence[Instances] = (),
    deadline: float = math.inf,
    allowed: float | None = None,
) -> list[ExactPoint] | None:
    """Return all points by rising cost, falling value; empty where no plan fits, None where the walk gave up.

    `known`: plans to compare with from the start. The deadline is one of time.monotonic. `allowed`: the value that is
    good enough; points before the first that has it, and after that, may be left out. With 0 only the last is sure.
    """
    walk = _Walk(problem, most, deadline, allowed)
    if not walk.begin(known):
        return None
    found: list[ExactPoint] = []
    for cost, value, instances in sorted(walk.best.values()):
        if not found or value < found[-1].value * (1 - _SAME):
            found.append(ExactPoint(cost, value, instances))
    return found


class _Walk:
    """Goes through all assignments that may be better than what is known; keeps the best value of every cost."""

    def __init__(self, problem: ReplicaProblem, most: int, deadline: float, allowed: float | None = None) -> None:
        self.problem, self.left, self._deadline = problem, most, deadline
        self.best: dict[float, tuple[float, float, Instances]] = {}
        self._front = _Front(strict=bool(problem.running), allowed=allowed)
        self._moves: dict[float, int] = {}
        self._order = sorted(range(problem.n_operators), key=lambda o: (-problem.load[o], -problem.degree[o], o))
        self._sets: list[tuple[int, ...]] = [()] * problem.n_operators  # () for those that have none yet
        self._load = problem.load.tolist()
        self._rooms = [_Room(problem, problem.load, problem.host_cpu, self._order)]
        if problem.network is not None and problem.host_network is not None:
            self._rooms.append(_Room(problem, problem.network, problem.host_network, self._order))
        self._kind = _kinds(problem)
        self._used = [0] * problem.n_hosts
        self._chances = _Chances(problem)
        self._most_cost = math.inf
        if problem.budget is not None:
            self._most_cost = problem.budget + problem.slack * max(1.0, problem.n_hosts)

    def begin(self, known: Sequence[Instances]) -> bool:
        """Return whether all were gone through."""
        if not self._fits():
            return False
        for instances in known:
            self._keep(instances, self.problem.cost(instances), self._chances.value(instances))
        return self._next(0)

    def _fits(self) -> bool:
        """Return False if one operator alone has too many choices, or the walk would be too deep."""
        sets = sum(math.comb(self.problem.n_hosts, k + 1) for k in range(self.problem.max_level + 1))
        return sets <= _MOST_SETS and self.problem.n_operators <= MOST_OPERATORS

    def _next(self, depth: int) -> bool:
        self.left -= 1
        if self.left < 0 or time.monotonic() > self._deadline:
            return False
        cost, value = self._cost(), self._chances.value(self._sets)
        # Cost and value only rise from here, so a known plan that is no worse closes the branch.
        if self._front.beats(cost, value):
            return True
        if depth == self.problem.n_operators:
            self._keep(tuple(self._sets), cost, value)
            return True
        operator = self._order[depth]
        for hosts in self._choices(operator):
            self._put(operator, hosts, 1)
            whole = not self._may(depth + 1) or self._next(depth + 1)
            self._put(operator, hosts, -1)
            if not whole:
                return False
        return True

    def _cost(self) -> float:
        """Return what the replicas so far take, rounded as `Replication.cost` rounds."""
        return math.fsum(load * (len(hosts) - 1) for load, hosts in zip(self._load, self._sets, strict=True) if hosts)

    def _may(self, placed: int) -> bool:
        """Return whether the limits hold so far and hosts have room for the primaries of the operators left."""
        most, moves = self.problem.max_replicas, self.problem.max_moves
        if self._cost() > self._most_cost or any(room.short(placed) for room in self._rooms):
            return False
        if most is not None and sum(len(hosts) - 1 for hosts in self._sets if hosts) > most:
            return False
        return moves is None or self._moved() <= moves

    def _moved(self) -> int:
        """Return how many running replicas of the operators so far have left their hosts."""
        pairs = zip(self.problem.running, self._sets, strict=False)
        return sum(len(set(now) - set(hosts[1:])) for now, hosts in pairs if hosts)

    def _put(self, operator: int, hosts: tuple[int, ...], sign: int) -> None:
        self._sets[operator] = hosts if sign > 0 else ()
        for host in hosts:
            self._used[host] += sign
            for room in self._rooms:
                room.free[host] -= sign * room.load[operator]

    def _choices(self, operator: int) -> list[tuple[int, ...]]:
        """Return the choices of hosts of an operator's instances, primary first; of choices that are alike only one."""
        problem = self.problem
        assert problem.primary_hosts is not None
        assert problem.replica_hosts is not None
        fixed = int(problem.primaries[operator])
        open_ = [host for host in range(problem.n_hosts) if all(room.fits(operator, host) for room in self._rooms)]
        firsts = [fixed] if fixed >= 0 else [host for host in open_ if problem.primary_hosts[host]]
        seen: set[frozenset[int]] = set()
        alike: set[tuple[tuple[int, int], ...]] = set()
        found = []
        for first in firsts if fixed < 0 or fixed in open_ else ():
            others = [host for host in open_ if host != first and problem.replica_hosts[host]]
            for level in range(min(problem.max_level, len(others)) + 1):
                for rest in combinations(others, level):
                    hosts = frozenset((first, *rest))
                    name = tuple(sorted((h if self._used[h] else -1, self._kind[h]) for h in hosts))
                    if hosts not in seen and name not in alike:
                        seen.add(hosts)
                        alike.add(name)
                        found.append((first, *rest))
        return found

    def _keep(self, instances: Instances, cost: float, value: float) -> None:
        """Keep the best value of each cost, and of equal values the plan with the fewest moves."""
        kept, moves = self.best.get(cost), self.problem.moves(instances)
        if kept is None or (value, moves) < (kept[1], self._moves[cost]):
            self.best[cost] = (cost, value, instances)
            self._moves[cost] = moves
            self._front.add(cost, value)


class _Room:
    """The CPU, or network, that hosts have left."""

    def __init__(self, problem: ReplicaProblem, load: np.ndarray, capacity: np.ndarray, order: Sequence[int]) -> None:
        self.load, self.free = load.tolist(), capacity.tolist()
        self._slack = ROUNDING * float(capacity.max())
        assert problem.primary_hosts is not None
        hosts = {*np.flatnonzero(problem.primary_hosts).tolist(), *(h for h in problem.primaries.tolist() if h >= 0)}
        self._hosts = sorted(hosts)
        later = [math.fsum(self.load[o] for o in order[k:]) for k in range(len(order) + 1)]
        self._later = [each * (1 - _SAME) - self._slack * len(hosts) for each in later]

    def fits(self, operator: int, host: int) -> bool:
        """Return whether a host has room for one more instance."""
        return bool(self.free[host] >= self.load[operator] - self._slack)

    def short(self, placed: int) -> bool:
        """Return whether the primaries of later operators take more than the hosts for primaries have left."""
        return bool(sum(self.free[host] for host in self._hosts) < self._later[placed])


class _Front:
    """Costs and values of the best plans so far: costs rise, values fall.

    `strict`: equal plans at equal cost do not beat each other, since the moves of running replicas decide between them.
    `allowed`: of plans with this value or less the cheapest is wanted, or else the best of all.
    """

    def __init__(self, *, strict: bool, allowed: float | None = None) -> None:
        self._costs: list[float] = []
        self._values: list[float] = []
        self._strict, self._allowed = strict, allowed

    def beats(self, cost: float, value: float) -> bool:
        """Return whether some plan costs no more and is no worse, or is wanted more."""
        if self._allowed is not None and self._costs:
            enough = next((c for c, v in zip(self._costs, self._values, strict=True) if v <= self._allowed), math.inf)
            least = self._values[-1] * (1 + _SAME) if enough == math.inf else self._allowed
            if value > least or cost > enough:
                return True
        at = bisect_right(self._costs, cost) - 1
        if at < 0 or self._values[at] > value:
            return False
        return bool(not self._strict or self._costs[at] < cost or self._values[at] < value * (1 - _SAME))

    def add(self, cost: float, value: float) -> None:
        """Remember a plan, and forget those that it beats."""
        at = bisect_left(self._costs, cost)
        if at and self._values[at - 1] <= value:
            return
        end = at
        while end < len(self._costs) and self._values[end] >= value:
            end += 1
        self._costs[at:end], self._values[at:end] = [cost], [value]


class _Chances:
    """P(query is broken) by the sets of hosts of its operators, each computed once."""

    def __init__(self, problem: ReplicaProblem) -> None:
        self._problem = problem
        self._engine = Engine(replace(problem.failures, down=problem.down[:1], shocks=None))
        self._known: dict[frozenset[int], float] = {}

    def value(self, sets: Sequence[Sequence[int]]) -> float:
        """Return what is minimised, over the operators that have hosts: a lower bound while some have none."""
        masks = [sum(1 << host for host in hosts) for hosts in sets]
        broken = [
            self._of(frozenset(masks[o] for o in needed if masks[o])) if any(masks[o] for o in needed) else 0.0
            for needed in self._problem.operators
        ]
        return float(self._problem.value(np.array(broken)))

    def _of(self, masks: frozenset[int]) -> float:
        if masks not in self._known:
            self._known[masks] = float(self._engine.broken(minimal(masks))[1][0])
        return self._known[masks]


def _kinds(problem: ReplicaProblem) -> list[int]:
    """Return a number for each host; equal for those that differ in nothing that counts and where nothing runs yet."""
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
