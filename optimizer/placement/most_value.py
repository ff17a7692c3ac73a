"""Placements of most value, where instances may be left out: a multiple knapsack with colours and anti-affinity.

    maximise   sum v[i] x[i,h]   subject to   sum_h x[i,h] <= 1 for each instance i, and the rules of `all_placed`

The first placement is greedy by value per largest share. Single exchanges with instances that are left out improve it.
Then an exact model decides parts again: some hosts, their instances, and some of those left out. All hosts together as
one knapsack of each resource give an upper bound, proven in whole numbers; the exact model alone decides small
problems. Source: Martello and Toth, "Knapsack Problems" (1990), chapter 6.

`exchanged` makes the single exchanges: an instance that is left out takes a place, or that of one of less value.
`MostValue` holds the whole search.
"""

from __future__ import annotations

import math
import time

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.placement import Placement, PlacementPlan
from models.planning.selection import OperatorSelection
from models.planning.solution import Status, is_proven
from optimizer.common.first_fit import best_fit, largest_shares
from optimizer.placement.budget import Budget, infeasible_plan
from optimizer.placement.search import staying
from optimizer.placement.small import Part, decide
from optimizer.selection import select_operators
from optimizer.verify.placement_bounds import Possible, impossible

_ROUNDS = 50
_TRIED = 20  # exchanges of one instance that are tried, the best first


def exchanged(problem: Placement, host: IntArray, worth: IntArray, deadline: float) -> IntArray:
    """Return a placement (n,) worth as much or more in `worth` (n,): no single exchange raises it, up to the limits.

    `host` must keep every rule, and so does what comes back.
    """
    host = host.copy()
    free = problem.rooms - problem.used(host)
    # Ends: every exchange raises the whole-number worth; the rounds limit the rest.
    for _ in range(_ROUNDS):
        gained = False
        out = np.flatnonzero(host < 0)
        for j in out[np.argsort(-worth[out], kind="stable")].tolist():
            if time.monotonic() > deadline:
                return host
            gained |= _placed(problem, host, free, worth, j)
        if not gained:
            break
    return host


def _placed(problem: Placement, host: IntArray, free: IntArray, worth: IntArray, j: int) -> bool:
    """Return whether instance j got a host by itself, or for something worth less; `host` and `free` follow."""
    # Free room first: it costs nothing, whereas an exchange gives something up.
    for h in np.flatnonzero((free >= problem.loads[j]).all(axis=1)).tolist():
        if worth[j] > 0 and _may(problem, host, j, h, None):
            host[j] = h
            free[h] -= problem.loads[j]
            return True
    movable: BoolArray = (host >= 0) & (problem.fixed_hosts < 0) & (worth < worth[j])
    movable &= (free[host] + problem.loads >= problem.loads[j]).all(axis=1)
    inside = np.flatnonzero(movable)
    for i in inside[np.argsort(worth[inside], kind="stable")][:_TRIED].tolist():
        h = int(host[i])
        if _may(problem, host, j, h, i):
            host[i], host[j] = -1, h
            free[h] += problem.loads[i] - problem.loads[j]
            return True
    return False


def _may(problem: Placement, host: IntArray, j: int, h: int, gone: int | None) -> bool:
    """Return whether j may come to host h when `gone` leaves it: operators, colours and moves."""
    trial = host if gone is None else host.copy()
    if gone is not None:
        trial[gone] = -1
    same = trial[problem.operators == problem.operators[j]]
    if (problem.zones[same[same >= 0]] == problem.zones[h]).any():
        return False
    if problem.max_colours is not None and problem.colours[j] >= 0:
        colours = set(problem.colours[trial == h].tolist()) | {int(problem.colours[j])}
        if len(colours - {-1}) > problem.max_colours:
            return False
    if problem.max_moves is None:
        return True
    after = trial.copy()
    after[j] = h
    return problem.moves(after) <= problem.max_moves


_SMALL = 3_000  # instances times hosts up to which an exact model is asked about the whole problem
_PART_HOSTS = 3
_PART_INSTANCES = 60
_PART_S = 0.4  # deterministic seconds for each part
_IN_VAIN = 60  # parts in a row that gain nothing, after which it ends
_BITS = 50


def whole_worth(value: FloatArray) -> tuple[IntArray, float, bool]:
    """Return values (n,) as whole numbers, rounded up; how many units are 1.0; and whether none was rounded.

    Rounding up keeps a bound on whole numbers a bound on the values. The total is below 2^50 units.
    """
    total = max(math.fsum(value.tolist()), 1e-300)
    for places in range(10):
        scale = 10.0**places
        if total * scale >= 2.0**_BITS:
            break
        if (np.rint(value * scale) / scale == value).all():
            return np.rint(value * scale).astype(np.int64), scale, True
    scale = math.ldexp(1.0, _BITS - math.frexp(total)[1])
    # Rounded up: a bound in whole numbers must not be below the true value.
    return np.ceil(value * scale).astype(np.int64), scale, False


class MostValue:
    """One problem of placing what is worth most, while it is solved.

    `bound` is an upper bound of the value, `proof` says in words what proves it; both only improve. `solve` goes from a
    greedy placement to exchanges, and then to exact models of parts.
    """

    def __init__(self, problem: Placement, budget: Budget, seed: int) -> None:
        self.problem, self.budget, self.seed = problem, budget, seed
        self.worth, self.scale, self.exact = whole_worth(problem.values)
        self.host: IntArray | None = None
        self.bound = math.inf
        self.proof = ""

    def solve(self) -> PlacementPlan:
        """Return the plan, with what was proven of it."""
        infeasible_set = impossible(self.problem)
        if infeasible_set is not None:
            return infeasible_plan(infeasible_set, self.budget)
        # The bound first: every later step stops when the bound is reached.
        self._bound_by_knapsacks()
        self.host = self._greedy()
        if self.host is not None:
            self.host = exchanged(self.problem, self.host, self.worth, self.budget.deadline)
        if self.problem.n_instances * self.problem.n_hosts <= _SMALL or self.host is None:
            if not self._proven() and self._whole() is Status.INFEASIBLE:
                text = "what is fixed and what may move exclude each other, an exact model of the whole problem says"
                return PlacementPlan(status=Status.INFEASIBLE, reason=text, note=text, wall_s=self.budget.wall_s)
        elif not self._proven():
            self._improve()
        return self._plan()

    def _proven(self) -> bool:
        return self.host is not None and is_proven(self.problem.objective(self.host), self.bound)

    def _bound_by_knapsacks(self) -> None:
        """Set the upper bound: the least of all values that fit, and one knapsack for each resource."""
        problem, possible = self.problem, Possible(self.problem)
        # What fits no host counts for nothing in the bound.
        fits = np.array([possible.hosts(i).any() for i in range(problem.n_instances)], dtype=np.bool_)
        value = np.where(fits, problem.values, 0.0)
        self.bound, self.proof = math.fsum(value.tolist()), "nothing is left out that fits a host"
        if not problem.n_instances:
            return
        limit_s = max(self.budget.deadline - self.budget.began, 0.1) / 4
        # All hosts as one knapsack leave out most rules: each resource gives a bound of its own.
        for r, name in enumerate(problem.resources):
            capacity, until = float(problem.rooms[:, r].sum()), time.monotonic() + limit_s
            found = select_operators(
                OperatorSelection(value, problem.loads[:, r].astype(np.float64), capacity), time_limit_s=limit_s
            )
            self.budget.cut |= found.status is not Status.OPTIMAL and time.monotonic() > until
            if found.bound is not None and found.bound < self.bound:
                self.bound, self.proof = found.bound, f"{name} of all hosts as one"

    def _greedy(self) -> IntArray | None:
        """Return the best of two orders, from what runs now where that is given; None when too many would move."""
        problem = self.problem
        already = problem.fixed_hosts
        if problem.current is not None:
            already = self._without_excess(staying(problem, np.ones(problem.n_hosts, np.bool_), problem.current))
        shares = np.maximum(largest_shares(problem), 1e-12)
        found = [
            best_fit(problem, np.argsort(-key, kind="stable"), already=already)
            for key in (problem.values / shares, problem.values)
        ]
        found = [each for each in found if problem.max_moves is None or problem.moves(each) <= problem.max_moves]
        return max(found, key=problem.objective) if found else None

    def _without_excess(self, host: IntArray) -> IntArray:
        """Return the running placement without the excess of each host: the least value per share leaves first."""
        problem = self.problem
        kept = problem.fixed_hosts.copy()
        # The best value per share stays: what runs is given up from the other end.
        order = np.argsort(-problem.values / np.maximum(largest_shares(problem), 1e-12), kind="stable")
        free = problem.rooms - problem.used(kept)
        on: dict[int, set[int]] = {}
        for i in np.flatnonzero((kept >= 0) & (problem.colours >= 0)).tolist():
            on.setdefault(int(kept[i]), set()).add(int(problem.colours[i]))
        for i in order[(host[order] >= 0) & (kept[order] < 0)].tolist():
            h, colour = int(host[i]), int(problem.colours[i])
            colours = on.setdefault(h, set())
            new = colour >= 0 and colour not in colours
            if new and problem.max_colours is not None and len(colours) >= problem.max_colours:
                continue
            if (problem.loads[i] <= free[h]).all():
                kept[i] = h
                free[h] -= problem.loads[i]
                if new:
                    colours.add(colour)
        return kept

    def _whole(self) -> Status:
        """Ask an exact model of the whole problem."""
        problem = self.problem
        hint = np.full(problem.n_instances, -1, dtype=np.int64) if self.host is None else self.host
        part = self._part(hint, np.arange(problem.n_instances), np.arange(problem.n_hosts))
        found = decide(problem, part, most_s=self.budget.model_s, deadline=self.budget.deadline, seed=self.seed)
        if found.host is not None and (
            # Only better: at its limit the model may return less than the hint.
            self.host is None or problem.objective(found.host) > problem.objective(self.host)
        ):
            self.host = found.host
        if found.host is not None and found.bound / self.scale < self.bound:
            self.bound, self.proof = found.bound / self.scale, "an exact model of the whole problem"
        return found.status

    def _part(self, host: IntArray, instances: IntArray, hosts: IntArray) -> Part:
        return Part(host, instances, hosts, "value", self.problem.max_colours, self.worth)

    def _improve(self) -> None:
        """Decide parts again, until nothing is gained for long."""
        problem, draw, vain = self.problem, np.random.default_rng(self.seed), 0
        assert self.host is not None
        while vain < _IN_VAIN and self.budget.model_s > 0 and not self.budget.struck and not self._proven():
            hosts = np.sort(draw.choice(problem.n_hosts, min(_PART_HOSTS, problem.n_hosts), replace=False))
            here = np.flatnonzero(np.isin(self.host, hosts))
            out = np.flatnonzero(self.host < 0)
            some = draw.permutation(out)[: max(_PART_INSTANCES - len(here), 10)]
            part = self._part(self.host, np.sort(np.concatenate([here, some])), hosts)
            found = decide(problem, part, most_s=_PART_S, deadline=self.budget.deadline, seed=self.seed)
            # At least a little is taken, so that the loop ends even if a part takes no time.
            self.budget.spend_model(max(found.spent_s, 1e-3))
            vain += 1
            # Equal worth is taken over, too: other placements of the same worth lead on.
            if found.host is not None and self._worth(found.host) >= self._worth(self.host):
                vain = 0 if self._worth(found.host) > self._worth(self.host) else vain
                self.host = found.host

    def _worth(self, host: IntArray) -> int:
        return int(self.worth[host >= 0].sum())

    def _plan(self) -> PlacementPlan:
        """Return the plan with the bound that was proven; unknown where none keeps the limit on moves."""
        problem = self.problem
        if self.host is None:
            note = self.budget.noted("no placement with so few moves was found")
            return PlacementPlan(status=Status.UNKNOWN, bound=self.bound, wall_s=self.budget.wall_s, note=note)
        objective = problem.objective(self.host)
        bound = max(self.bound, objective)  # a bound in whole numbers may round to less than their correct sum
        return PlacementPlan(
            status=Status.OPTIMAL if is_proven(objective, bound) else Status.FEASIBLE,
            objective=objective,
            bound=bound,
            host=self.host,
            colours=problem.most_colours(self.host),
            hosts=problem.hosts_used(self.host),
            moves=problem.moves(self.host),
            unplaced=int((self.host < 0).sum()),
            reason=self.proof,
            wall_s=self.budget.wall_s,
            note=self.budget.noted(),
        )
