"""Lower bounds of broken queries under any plan of replicas.

A query's operators without a replica are on the hosts U of their primaries, and it is broken when one of these is down.
With t[h] = -log(1 - p[h]), T the sum over all its hosts, r a bound for when all operators have replicas:

    P(broken) >= g(t(U)),  g(0) = r,  g(t) = 1 - exp(-t)  for t > 0

which lies above the line r + s t, s the least slope from (0, r) to g at the smallest t and at T: in between g is
concave. So the mean share of broken queries is at least a constant, less what *covers* are worth: a cover is a host of
a query all of whose operators there have replicas, worth w[q] s t[h]. The best covers within a budget are a set-union
knapsack, whose bound is one of this problem. (`optimizer.selection` proves it by a minimum cut.)

r: with replicas on hosts that have no primaries, given that some primary is down at least one replica set has to be
down too, which is no likelier than a, the product of the `max_level` smallest chances of such hosts: r = a (1 - e^-T),
and g(t) = 1 - a e^-T - (1 - a) e^-t for all t. Otherwise r = a max p[h]. Where primaries have no host yet, a query
needs all its operators replicated to be better than the least p of a host, and r is that of two sets of hosts where
hosts are alike and the query does not fit on one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.replicas import ReplicaProblem

_CERTAIN = 1 - 1e-12  # chances above it count as it: a bound may be too low
DOWN = 1 - 1e-12  # bounds are rounded down by as much

Cover = frozenset[int]


@dataclass(frozen=True)
class QueryBound:
    """P(query is broken) >= base + the sum of the worths of the covers that are not whole.

    times: t of the host of each cover; together the query's T.
    """

    base: float
    covers: tuple[Cover, ...]
    worths: tuple[float, ...]
    times: tuple[float, ...]

    @property
    def bare(self) -> float:
        """Return the bound without any replica."""
        return self.base + math.fsum(self.worths)

    def at(self, open_covers: BoolArray) -> float:
        """Return the bound where these covers are not whole."""
        return self.base + math.fsum(np.array(self.worths)[open_covers].tolist())


@dataclass(frozen=True)
class Bounds:
    """The bounds of all queries, and the covers that they have, each once with what it is worth in the mean."""

    problem: ReplicaProblem
    queries: tuple[QueryBound, ...]
    covers: tuple[Cover, ...] = field(init=False)
    worths: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        worth: dict[Cover, float] = {}
        possible = most_levels(self.problem) > 0
        for share, query in zip(self.problem.shares.tolist(), self.queries, strict=True):
            for cover, each in zip(query.covers, query.worths, strict=True):
                if all(possible[o] for o in cover):
                    worth[cover] = worth.get(cover, 0.0) + share * each
        object.__setattr__(self, "covers", tuple(worth))
        object.__setattr__(self, "worths", np.array(list(worth.values())))

    @property
    def bare(self) -> float:
        """Return the bound of the mean without any replica."""
        return math.fsum(
            share * one.bare for share, one in zip(self.problem.shares.tolist(), self.queries, strict=True)
        )

    @property
    def base(self) -> float:
        """Return the bound of the mean where every cover is whole."""
        return math.fsum(
            share * one.base for share, one in zip(self.problem.shares.tolist(), self.queries, strict=True)
        )


def bounds_of(problem: ReplicaProblem) -> Bounds:
    """Return the bounds of every query of the problem, in the first setting."""
    return Bounds(problem, tuple(_query(problem, needed) for needed in problem.operators))


def _query(problem: ReplicaProblem, needed: tuple[int, ...]) -> QueryBound:
    assert problem.replica_hosts is not None
    down = np.minimum(problem.down[0], _CERTAIN)
    together = _together(down[problem.replica_hosts], problem.max_level)
    primaries = problem.primaries[list(needed)]
    if (primaries < 0).any():
        return _unplaced(problem, down, needed)
    hosts = sorted(set(primaries.tolist()))
    times = [-math.log1p(-float(down[host])) for host in hosts]
    covers = tuple(frozenset(o for o in needed if problem.primaries[o] == host) for host in hosts)
    base, slope = _line(
        times, [float(down[h]) for h in hosts], together, distinct_hosts=not problem.replica_hosts[hosts].any()
    )
    return QueryBound(base, covers, tuple(slope * t for t in times), tuple(times))


def _together(down: FloatArray, levels: int) -> float:
    """Return the least chance that all replicas of an operator are down: they are on different hosts."""
    return float(np.prod(np.sort(down)[:levels]))


def _line(times: list[float], chances: list[float], together: float, *, distinct_hosts: bool) -> tuple[float, float]:
    """Return (base, slope over t) of a line below the chance that the query is broken."""
    total = math.fsum(times)
    if total == 0.0:
        return 0.0, 0.0
    if distinct_hosts:
        most = -math.expm1(-total)
        return together * most, (1 - together) * most / total
    base = together * max(chances)
    least = min((t for t in times if t > 0), default=total)
    if base > -math.expm1(-least):
        base = 0.0
    slope = min((-math.expm1(-t) - base) / t for t in (least, total))
    return base, max(0.0, slope)


def _unplaced(problem: ReplicaProblem, down: FloatArray, needed: tuple[int, ...]) -> QueryBound:
    """Return the bound of a query whose primaries may go anywhere: broken by one host, or only by several."""
    least = float(down.min())
    base = _together(down, problem.max_level + 1)
    load, room = float(problem.load[list(needed)].sum()), float(problem.host_cpu.max()) * (1 + 1e-9)
    if problem.max_level > 0 and load > room and least == down.max():
        base *= 2 - least  # not all operators can be on one set of hosts: two sets at least, which share all but one
    worth = max(0.0, least - base)
    return QueryBound(base, (frozenset(needed),), (worth,), (-math.log1p(-least),))


def most_cost(problem: ReplicaProblem) -> float:
    """Return what replicas can take at most: by the budget, the room of hosts, the levels and number of replicas."""
    assert problem.replica_hosts is not None
    levels = np.minimum(most_levels(problem), problem.max_level)
    fixed = problem.primaries >= 0
    there = fixed & problem.replica_hosts[np.maximum(problem.primaries, 0)]
    room = float(problem.host_cpu[problem.replica_hosts].sum() - problem.load[there].sum())
    each = np.sort(np.repeat(problem.load, levels))[::-1][: problem.max_replicas]
    return max(0.0, min(problem.capacity, room, math.fsum(each.tolist())))


def most_levels(problem: ReplicaProblem) -> IntArray:
    """Return how many replicas an operator can have at most: hosts that take them and have room for it, (n,)."""
    assert problem.replica_hosts is not None
    open_hosts = np.flatnonzero(problem.replica_hosts)
    room = problem.host_cpu[open_hosts] + problem.slack >= problem.load[:, None]
    others = room.sum(axis=1) - np.isin(problem.primaries, open_hosts)
    return np.asarray(np.maximum(others, 0), dtype=np.int64)
