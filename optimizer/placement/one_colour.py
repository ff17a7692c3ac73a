"""One colour on each host: then every colour is packed by itself.

Where hosts are alike, every instance has a colour, and nothing is fixed or running, a placement of one colour on each
host is a packing of each colour on hosts of its own. It takes as many hosts as these packings take together, so least
numbers add up as well: to the fewest hosts, or to a proof that one colour on a host is not enough.

A packing of some dozen instances takes all sets that one host can have, and as few of them as cover all instances:

    minimise sum_s z[s]   subject to   sum_{s has i} z[s] >= 1 for each instance i,   z binary

Sets that take no more instance are enough: what is covered twice is left out once. With all of them known, prices y of
instances prove

    hosts >= sum_i y[i] / Z,    Z the price of the dearest set,

whatever the prices are (Farley, 1990): they are rounded to whole numbers, and so are the sums. This linear relaxation
knows all resources and the anti-affinity of operators, and is mostly the number of hosts itself when it is rounded up.
The branch and bound that finds the sets proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.placement import Placement
from optimizer.common.first_fit import best_fit
from optimizer.common.solvers import left_s, linear_program, mixed_integer_program, sparse_matrix
from optimizer.placement.budget import Budget
from optimizer.placement.search import Search, start
from optimizer.verify.placement_bounds import Bound, host_bound

_UNIT = 2**20  # prices are whole multiples of its inverse
_NODES = 200  # of branch and bound: the root mostly is enough


@dataclass(frozen=True)
class Covered:
    """Hosts (n,) numbered from 0, None where none were found; the least number of hosts that the prices prove."""

    host: IntArray | None
    bound: int


def host_sets(problem: Placement, most: int) -> BoolArray | None:
    """Return all maximal sets of instances that fit on one host, (sets, n); None if more than `most` are seen.

    Hosts must be alike; colours are not counted. Maximal sets are enough to cover with: an instance that two of them
    have is left out of one afterwards.
    """
    order = np.argsort(-(problem.loads / np.maximum(problem.rooms[0], 1)).max(axis=1), kind="stable").tolist()
    loads = [tuple(each) for each in problem.loads[order].tolist()]
    operators = problem.operators[order].tolist()
    found: list[tuple[int, ...]] = []
    waiting: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = [(0, tuple(problem.rooms[0].tolist()), ())]
    while waiting:
        first, room, chosen = waiting.pop()
        found.append(chosen)
        # Counted while they are made: their number grows exponentially, and too many are given up early.
        if len(found) > most:
            return None
        taken = {operators[i] for i in chosen}
        # Only later instances: every set is made once, in one order.
        for i in range(first, len(loads)):
            left = tuple(r - load for r, load in zip(room, loads[i], strict=True))
            if min(left) >= 0 and operators[i] not in taken:
                waiting.append((i + 1, left, (*chosen, i)))
    sets = np.zeros((len(found), problem.n_instances), dtype=np.bool_)
    sizes = [len(chosen) for chosen in found]
    columns = [order[i] for chosen in found for i in chosen]
    sets[np.repeat(np.arange(len(found)), sizes), columns] = True
    # Maximal sets are enough for a cover, and far fewer.
    return sets[~_take_more(problem, sets)]


def _take_more(problem: Placement, sets: BoolArray) -> BoolArray:
    """Return which sets (sets, n) have room for another instance."""
    used = sets.astype(np.int64) @ problem.loads
    codes = np.unique(problem.operators, return_inverse=True)[1]
    has = np.zeros((len(sets), int(codes.max(initial=0)) + 1), dtype=np.bool_)
    at, instance = np.nonzero(sets)
    has[at, codes[instance]] = True
    more = np.zeros(len(sets), dtype=np.bool_)
    for i in range(problem.n_instances):
        more |= ~has[:, codes[i]] & (used + problem.loads[i] <= problem.rooms[0]).all(axis=1)
    return more


def covered(sets: BoolArray, *, deadline: float) -> Covered:
    """Return as few sets as cover all instances, within the limits, and the bound of the linear relaxation."""
    count, n = sets.shape
    instance, column = np.nonzero(sets.T)
    rows = sparse_matrix(np.ones(len(column)), instance, column, (n, count))
    relaxed = linear_program(np.ones(count), at_most=(-rows, -np.ones(n)), method="highs-ds")
    bound = dual_bound(sets, -relaxed.dual_at_most) if relaxed.is_optimal else 1
    answer = mixed_integer_program(
        np.ones(count), [(rows, 1, np.inf)], nodes=_NODES, gap=None, limit_s=left_s(deadline)
    )
    if answer.x is None:
        return Covered(None, bound)
    taken = np.flatnonzero(answer.x > 0.5)
    host = np.where(sets[taken].any(axis=0), sets[taken].argmax(axis=0), -1)
    return Covered(None if (host < 0).any() else host.astype(np.int64), bound)


def dual_bound(sets: BoolArray, prices: FloatArray) -> int:
    """Return the least number of sets that cover all instances, as prices (n,) prove it in whole numbers.

    Source: Farley 1990. Prices that are no numbers count as 0; the bound is at least 1.
    """
    # Clipped and rounded down: any prices prove something, prices that are no numbers nothing.
    whole = np.floor(np.clip(np.nan_to_num(prices), 0.0, 1.0) * _UNIT).astype(np.int64)
    dearest = int((sets.astype(np.int64) @ whole).max(initial=0))
    return -(-int(whole.sum()) // dearest) if dearest else 1


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
    """Return whether a placement of one colour on each host is a packing of each colour.

    That asks for equal hosts, a zone for each, a colour for each instance, and nothing fixed or running.
    """
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
    # Few instances first: their sets are few, and may prove the whole bound early.
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
        # No start on so few hosts: that proves nothing, but the next number is more promising.
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
