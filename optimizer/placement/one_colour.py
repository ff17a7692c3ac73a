"""One colour on each host: then every colour is packed by itself.

Where hosts are alike, every instance has a colour, and nothing is fixed or running, a placement of one colour on each
host is a packing of each colour on hosts of its own. It takes as many hosts as these packings take together, so least
numbers add up as well: to the fewest hosts, or to a proof that one colour on a host is not enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.checked_arrays import IntArray
from models.planning.placement import Placement
from optimizer.common.first_fit import best_fit
from optimizer.placement.budget import Budget
from optimizer.placement.host_sets import covered, host_sets
from optimizer.placement.search import Search
from optimizer.placement.starts import start
from optimizer.verify.placement_bounds import Bound, host_bound

_SETS = 12_000  # sets that a host can have, up to which all are looked at
_WORK_OF_SET = 200  # what a set costs, in exchanges looked at
_SHARE = 0.5  # of the work that is left, for all searches of one round
_ROUNDS = 2


@dataclass
class _Colour:
    """A packing of the instances of one colour on hosts from 0 on, and a least number of hosts."""

    instances: IntArray
    problem: Placement
    host: IntArray
    bound: int

    @property
    def hosts(self) -> int:
        """Return how many hosts are in use."""
        return self.problem.hosts_used(self.host)

    @property
    def is_open(self) -> bool:
        """Return whether fewer hosts are not excluded."""
        return self.hosts > self.bound


def splits_by_colour(problem: Placement) -> bool:
    """Return whether a placement of one colour on each host is a packing of each colour."""
    alike = bool((problem.rooms == problem.rooms[0]).all()) and len(np.unique(problem.zones)) == problem.n_hosts
    free = problem.current is None and bool((problem.fixed_hosts < 0).all())
    return alike and free and problem.n_instances > 0 and bool((problem.colours >= 0).all())


def one_colour(problem: Placement, budget: Budget, seed: int) -> tuple[IntArray | None, Bound]:
    """Return hosts (n,) with one colour each, None if there are too few or none was found; and the least number."""
    colours = []
    for k in np.unique(problem.colours).tolist():
        if budget.struck:
            return None, Bound(1, "there is something to place", np.arange(problem.n_instances))
        colours.append(_first(problem, np.flatnonzero(problem.colours == k)))
    for colour in sorted(colours, key=lambda one: len(one.instances)):
        if colour.is_open and not budget.struck:
            _by_sets(colour, budget)
    for again in range(_ROUNDS):
        waiting = [colour for colour in colours if colour.is_open]
        share = budget.share(_SHARE / max(1, len(waiting)))
        for number, colour in enumerate(waiting):
            _searched(colour, budget, share, [seed, again, number])
    total, least = sum(colour.hosts for colour in colours), sum(colour.bound for colour in colours)
    reason = f"{len(colours)} colours on hosts of their own take {least} hosts"
    bound = Bound(least, reason, np.arange(problem.n_instances))
    if total > problem.n_hosts:
        return None, bound
    host, used = np.empty(problem.n_instances, dtype=np.int64), 0
    for colour in colours:
        host[colour.instances] = used + colour.host
        used += colour.hosts
    return host, bound


def _first(problem: Placement, instances: IntArray) -> _Colour:
    """Return the packing of best fit, on as many hosts as that takes, and what counting proves."""
    alone = problem.part(instances, np.zeros(len(instances), dtype=np.int64), "hosts")
    return _Colour(instances, alone, best_fit(alone), host_bound(alone, None).value)


def _by_sets(colour: _Colour, budget: Budget) -> None:
    """Pack a colour by all that a host can have, where these sets are few."""
    sets = host_sets(colour.problem, _SETS)
    budget.spend(_WORK_OF_SET * (_SETS if sets is None else len(sets)))
    if sets is None:
        return
    found = covered(sets, deadline=budget.deadline)
    colour.bound = max(colour.bound, found.bound)
    if found.host is not None:
        _take(colour, found.host)


def _searched(colour: _Colour, budget: Budget, share: int, seed: list[int]) -> None:
    """Search for fewer hosts: as few as the bound first, then by bisection between the last failure and the best."""
    missed, spent = colour.bound - 1, 0
    while colour.hosts > missed + 1 and spent < share and not budget.struck:
        count = colour.bound if missed < colour.bound else (missed + colour.hosts) // 2
        first = start(colour.problem, len(colour.instances), np.arange(len(colour.instances)) < count, None)
        if first is None:
            missed = count
            continue
        is_open = np.arange(colour.problem.n_hosts) < count
        search = Search(colour.problem, first, len(colour.instances), is_open, [*seed, count])
        if not search.run((share - spent) // 2, budget.deadline):
            missed = count
        else:
            _take(colour, search.host)
        spent += search.work
        budget.spend(search.work)


def _take(colour: _Colour, host: IntArray) -> None:
    """Take over a packing that has fewer hosts, if whole numbers say that it is one; hosts are numbered from 0."""
    problem = colour.problem
    pairs = np.stack([problem.operators, host], axis=1)
    right = bool((problem.used(host) <= problem.rooms).all()) and len(np.unique(pairs, axis=0)) == len(pairs)
    if right and problem.hosts_used(host) < colour.hosts:
        colour.host = np.unique(host, return_inverse=True)[1].astype(np.int64)
