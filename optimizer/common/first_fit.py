"""First fit in a given order, and best fit of what is largest first: placements without a search.

First fit is what the paper does: instances by decreasing importance, hosts by the neighbour factor (how many
predecessors and successors they already have), and of equal ones the lowest. Best fit takes the largest share of
any resource first, and prefers a host that already has the colour, then the one that is left with least.

What finds no host is left out (-1). Both keep every constraint, also `max_colours`; neither counts moves.
"""

from __future__ import annotations

import math
import time

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.placement import Placement


class Hosts:
    """The free capacity of hosts while instances are placed one by one; fixed instances are there from the start.

    `place` breaks rules if it is told to: callers ask `allowed` first. `free` (H, R) is in whole units and may become
    negative.
    """

    def __init__(
        self,
        problem: Placement,
        max_colours: int | None = None,
        open_hosts: BoolArray | None = None,
        already: IntArray | None = None,
    ) -> None:
        self.problem = problem
        self.free = problem.rooms.copy()
        self.host = np.full(problem.n_instances, -1, dtype=np.int64)
        self.max_colours = problem.max_colours if max_colours is None else max_colours
        self.open = np.ones(problem.n_hosts, dtype=np.bool_) if open_hosts is None else open_hosts
        self.n_colours = np.zeros(problem.n_hosts, dtype=np.int64)
        self._with_colour: dict[int, set[int]] = {}
        self._zones_of: dict[int, set[int]] = {}
        self._hosts_of_operator: dict[int, list[int]] = {}
        first = problem.fixed_hosts if already is None else already
        for i in np.flatnonzero(first >= 0).tolist():
            self.place(i, int(first[i]))

    def place(self, i: int, h: int) -> None:
        """Put instance i on host h, whether or not that keeps the constraints."""
        problem = self.problem
        self.host[i] = h
        self.free[h] -= problem.loads[i]
        colour, operator = int(problem.colours[i]), int(problem.operators[i])
        if colour >= 0 and h not in self._with_colour.setdefault(colour, set()):
            self._with_colour[colour].add(h)
            self.n_colours[h] += 1
        self._zones_of.setdefault(operator, set()).add(int(problem.zones[h]))
        self._hosts_of_operator.setdefault(operator, []).append(h)

    def having_colour(self, i: int) -> BoolArray:
        """Return which hosts already have the colour of instance i, (H,)."""
        having = np.zeros(self.problem.n_hosts, dtype=np.bool_)
        having[list(self._with_colour.get(int(self.problem.colours[i]), ()))] = True
        return having

    def allowed(self, i: int) -> BoolArray:
        """Return which hosts may take instance i, (H,)."""
        problem = self.problem
        allowed: BoolArray = self.open & (self.free >= problem.loads[i]).all(axis=1)
        taken = self._zones_of.get(int(problem.operators[i]))
        if taken:
            if problem.anti_affinity == "host":
                allowed[list(taken)] = False
            else:
                allowed &= ~np.isin(problem.zones, list(taken))
        if self.max_colours is not None and problem.colours[i] >= 0:
            # A host that has the colour already takes it for free.
            allowed &= self.having_colour(i) | (self.n_colours < self.max_colours)
        return allowed

    def neighbour_factor(self, i: int, around: dict[int, list[int]]) -> IntArray:
        """Return how many predecessors and successors of instance i each host has, (H,)."""
        factor = np.zeros(self.problem.n_hosts, dtype=np.int64)
        for operator in around.get(int(self.problem.operators[i]), ()):
            np.add.at(factor, self._hosts_of_operator.get(operator, []), 1)
        return factor


def first_fit(problem: Placement, order: IntArray | None = None, *, max_colours: int | None = None) -> IntArray:
    """Return the host of each instance (n,), -1 for one that found none; `order` None is by decreasing value.

    `max_colours` replaces that of the problem. Fixed instances are placed first.
    """
    hosts = Hosts(problem, max_colours)
    around = neighbours_of(problem)
    for i in _order(np.argsort(-problem.values, kind="stable") if order is None else order):
        if hosts.host[i] >= 0:
            continue
        allowed = hosts.allowed(i)
        if allowed.any():
            hosts.place(i, int(np.where(allowed, hosts.neighbour_factor(i, around), -1).argmax()))
    return hosts.host


def best_fit(
    problem: Placement,
    order: IntArray | None = None,
    *,
    max_colours: int | None = None,
    open_hosts: BoolArray | None = None,
    already: IntArray | None = None,
    deadline: float = math.inf,
) -> IntArray:
    """Return the host of each instance (n,), -1 for one that found none.

    `order` None is by decreasing largest share, or by value per share where values are the goal.

    `max_colours` replaces that of the problem; only `open_hosts` (H,) take instances; those that are `already` placed
    (n,) stay, where it is None those that are fixed. After the `deadline`, of time.monotonic, nothing more is placed.
    """
    hosts = Hosts(problem, max_colours, open_hosts, already)
    used = np.zeros(problem.n_hosts, dtype=np.bool_)
    used[hosts.host[hosts.host >= 0]] = True
    for i in _order(_largest_first(problem) if order is None else order):
        if hosts.host[i] >= 0:
            continue
        if time.monotonic() > deadline:
            break
        allowed = hosts.allowed(i)
        if not allowed.any():
            continue
        left = ((hosts.free - problem.loads[i]) / np.maximum(problem.rooms, 1)).max(axis=1)
        # A host with the colour first, then one in use, then an empty one: few colours, then few hosts.
        rank = np.where(hosts.having_colour(i), 0, np.where(used, 1, 2))
        rank[~allowed] = 3
        h = _least(rank, left)
        hosts.place(i, h)
        used[h] = True
    return hosts.host


def _largest_first(problem: Placement) -> IntArray:
    """Return instances by decreasing largest share; where not all need to be placed, by value per share."""
    shares = largest_shares(problem)
    key = problem.values / np.maximum(shares, 1e-12) if problem.goal == "value" else shares
    return np.argsort(-key, kind="stable").astype(np.int64)


def _least(rank: IntArray, left: FloatArray) -> int:
    """Return the first host of least rank, and of these of least left: without sorting them all."""
    candidates = np.flatnonzero(rank == rank.min())
    return int(candidates[left[candidates].argmin()])


def largest_shares(problem: Placement) -> FloatArray:
    """Return the largest share of any resource of a mean host that each instance takes, (n,).

    It ranks instances of several resources; hosts that are unlike each other are taken at their mean.
    """
    mean = np.maximum(problem.rooms.mean(axis=0), 1.0)
    return np.asarray((problem.loads / mean).max(axis=1), dtype=np.float64)


def neighbours_of(problem: Placement) -> dict[int, list[int]]:
    """Return the predecessors and successors of each operator; a pair that is given twice counts once.

    Operators without a neighbour are left out; an edge of an operator to itself does not count.
    """
    around: dict[int, set[int]] = {}
    for a, b in () if problem.neighbours is None else problem.neighbours.tolist():
        if a != b:
            around.setdefault(a, set()).add(b)
            around.setdefault(b, set()).add(a)
    return {operator: sorted(others) for operator, others in around.items()}


def _order(order: IntArray) -> list[int]:
    return [int(i) for i in np.asarray(order).tolist()]
