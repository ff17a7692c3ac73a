"""Exact models of few instances and hosts with CP-SAT: whole small problems, and parts of large ones.

x[i,h] places instance i on host h, y[h,k] says that host h has colour k, u[h] that it is in use:

    sum_h x[i,h] = 1 (at most 1 for goal "value"),   sum_i load[i,r] x[i,h] <= room[h,r] u[h]
    sum of x[i,h] over one operator and one zone <= 1
    x[i,h] <= y[h,k] of its colour,   sum_k y[h,k] <= C
    sum of (1 - x[i, current[i]]) <= max_moves

All numbers are whole, so what it proves is proven.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np
from ortools.sat.python import cp_model

from models.checked_arrays import IntArray
from models.planning.placement import Placement
from models.planning.solution import Status
from optimizer.common.solvers import solve_cp


@dataclass(frozen=True)
class Part:
    """The instances and hosts that a model decides about; all others stay where `host` has them (n,).

    At most `most_colours` on a host and `most_hosts` in use (None: no limit). Goal is "colours", "hosts", "value",
    "moves" or "any". `worth` (n,) are whole numbers, for goal "value", in which instances may be left out.
    """

    host: IntArray
    instances: IntArray
    hosts: IntArray
    goal: str
    most_colours: int | None = None
    worth: IntArray | None = None
    most_hosts: int | None = None


@dataclass(frozen=True)
class Found:
    """An answer of CP-SAT: hosts (n,) of all instances or None, the bound of its objective, deterministic seconds.

    `status` is infeasible only where CP-SAT proved it; with `unknown` there is neither an answer nor a proof.
    """

    status: Status
    host: IntArray | None
    bound: float
    spent_s: float


class _Model:
    def __init__(self, problem: Placement, part: Part) -> None:
        self.problem, self.part = problem, part
        self.model = cp_model.CpModel()
        stays = np.ones(problem.n_instances, dtype=np.bool_)
        stays[part.instances] = False
        self.rest = np.where(stays, part.host, -1)  # what does not move
        self.free = problem.rooms - problem.used(self.rest)
        self.x: dict[tuple[int, int], cp_model.IntVar] = {}
        self._place()
        self.used = [self.model.new_bool_var("") for _ in part.hosts]
        self._capacities()
        self._operators()
        self.most = self._colours()
        self._moves()
        self._alike()
        self._aim()

    def _place(self) -> None:
        """Add a variable for each pair that is possible on its own."""
        problem, part = self.problem, self.part
        taken = {
            (int(problem.operators[i]), int(problem.zones[self.rest[i]]))
            for i in np.flatnonzero(self.rest >= 0).tolist()
        }
        for i in part.instances.tolist():
            mine = []
            for h in part.hosts.tolist():
                free_zone = (int(problem.operators[i]), int(problem.zones[h])) not in taken
                at_home = problem.fixed_hosts[i] in (-1, h)
                if free_zone and at_home and (problem.loads[i] <= self.free[h]).all():
                    self.x[i, h] = self.model.new_bool_var("")
                    mine.append(self.x[i, h])
            needed = part.goal != "value" or problem.fixed_hosts[i] >= 0
            (self.model.add_exactly_one if needed else self.model.add_at_most_one)(mine)

    def _on(self, h: int) -> list[tuple[int, cp_model.IntVar]]:
        return [(i, self.x[i, h]) for i in self.part.instances.tolist() if (i, h) in self.x]

    def _capacities(self) -> None:
        kept = set(self.rest[self.rest >= 0].tolist())
        for h, used in zip(self.part.hosts.tolist(), self.used, strict=True):
            here = self._on(h)
            for r in range(self.free.shape[1]):
                loads = [int(self.problem.loads[i, r]) for i, _ in here]
                self.model.add(
                    cp_model.LinearExpr.weighted_sum([x for _, x in here], loads) <= int(self.free[h, r]) * used
                )
            for _, x in here:
                self.model.add_implication(x, used)
            if h in kept:
                self.model.add(used == 1)
        if self.part.most_hosts is not None:
            self.model.add(sum(self.used) <= self.part.most_hosts)

    def _operators(self) -> None:
        groups: dict[tuple[int, int], list[cp_model.IntVar]] = {}
        for (i, h), x in self.x.items():
            groups.setdefault((int(self.problem.operators[i]), int(self.problem.zones[h])), []).append(x)
        for group in groups.values():
            if len(group) > 1:
                self.model.add_at_most_one(group)

    def _colours(self) -> cp_model.IntVar | None:
        """Limit the colours on a host; return their variable where they are minimised."""
        problem, part = self.problem, self.part
        top = problem.n_instances if part.most_colours is None else part.most_colours
        most = self.model.new_int_var(0, top, "") if part.goal == "colours" else None
        if most is None and part.most_colours is None:
            return None
        for h in part.hosts.tolist():
            there = set(problem.colours[(self.rest == h) & (problem.colours >= 0)].tolist())
            groups: dict[int, list[cp_model.IntVar]] = {}
            for i, x in self._on(h):
                if problem.colours[i] >= 0 and int(problem.colours[i]) not in there:
                    groups.setdefault(int(problem.colours[i]), []).append(x)
            seen = [self._any_of(group) for group in groups.values()]
            self.model.add(sum(seen) + len(there) <= (top if most is None else most))
        return most

    def _any_of(self, group: list[cp_model.IntVar]) -> cp_model.IntVar:
        if len(group) == 1:
            return group[0]
        any_of = self.model.new_bool_var("")
        for x in group:
            self.model.add_implication(x, any_of)
        return any_of

    def _moves(self) -> None:
        """Limit the number of moves; for goal "moves" minimise it."""
        problem = self.problem
        if problem.current is None or (problem.max_moves is None and self.part.goal != "moves"):
            return
        running = np.flatnonzero(problem.current >= 0)
        inside = np.isin(running, self.part.instances)
        outside = running[~inside]
        gone = int((self.rest[outside] != problem.current[outside]).sum())
        stay = [self.x[i, h] for i in running[inside].tolist() if (i, h := int(problem.current[i])) in self.x]
        if problem.max_moves is not None:
            self.model.add(gone + int(inside.sum()) - sum(stay) <= problem.max_moves)
        if self.part.goal == "moves":
            self.model.maximize(sum(stay))

    def _alike(self) -> None:
        """Break symmetry: of hosts that are alike in everything, the first are in use."""
        problem = self.problem
        if problem.anti_affinity != "host" or problem.max_moves is not None or self.part.goal == "moves":
            return
        last: dict[tuple[int, ...], int] = {}
        kept = set(self.rest[self.rest >= 0].tolist()) | set(problem.fixed_hosts.tolist())
        blocked = self.rest.max(initial=-1) >= 0
        for at, h in enumerate([] if blocked else self.part.hosts.tolist()):
            if h in kept:
                continue
            key = tuple(self.free[h].tolist())
            if key in last:
                self.model.add_implication(self.used[at], self.used[last[key]])
            last[key] = at

    def _aim(self) -> None:
        part = self.part
        if self.most is not None:
            self.model.minimize(self.most)
        elif part.goal == "hosts":
            self.model.minimize(sum(self.used))
        elif part.goal == "value":
            assert part.worth is not None
            pairs = list(self.x.items())
            worth = [int(part.worth[i]) for (i, _), _ in pairs]
            self.model.maximize(cp_model.LinearExpr.weighted_sum([x for _, x in pairs], worth))

    def hint(self) -> None:
        for (i, h), x in self.x.items():
            self.model.add_hint(x, int(self.part.host[i] == h))


def decide(problem: Placement, part: Part, *, most_s: float, deadline: float, seed: int = 0, workers: int = 1) -> Found:
    """Return the best of a part within `most_s` deterministic seconds; `deadline` is a last resort.

    The hint of the part makes CP-SAT start from a known answer. Whole numbers make its bound a proof.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        return Found(Status.UNKNOWN, None, -math.inf, 0.0)
    made = _Model(problem, part)
    made.hint()
    answer = solve_cp(made.model, deterministic_s=most_s, limit_s=left, seed=seed, workers=workers)
    if not answer.found:
        return Found(answer.status, None, -math.inf, answer.spent_s)
    host = made.rest.copy()
    for (i, h), here in zip(made.x, answer.chosen(list(made.x.values())), strict=True):
        if here:
            host[i] = h
    return Found(answer.status, host, answer.bound, answer.spent_s)


def whole(problem: Placement, goal: str, most_colours: int | None, host: IntArray | None) -> Part:
    """Return the whole problem as one part; `host` is a hint."""
    hint = np.full(problem.n_instances, -1, dtype=np.int64) if host is None else host
    return Part(hint, np.arange(problem.n_instances), np.arange(problem.n_hosts), goal, most_colours)


def irreducible_infeasible_set(problem: Placement, *, most_s: float, deadline: float) -> IntArray:
    """Return instances that do not fit together, though they do without any one of them, as far as the limit shows.

    Instances are left out one by one, while what remains is still proven to be impossible; `most_s` is for each.
    """
    kept = np.arange(problem.n_instances)
    for i in np.argsort(problem.loads.sum(axis=1), kind="stable").tolist():
        less = only(problem, kept[kept != i])
        found = decide(less, whole(less, "any", less.max_colours, None), most_s=most_s, deadline=deadline)
        if found.status is Status.INFEASIBLE:
            kept = kept[kept != i]
    return kept


def only(problem: Placement, instances: IntArray) -> Placement:
    """Return the problem of some of the instances."""
    names = ("cpu", "network", "value", "fixed", "current")
    some = {name: getattr(problem, name)[instances] for name in names if getattr(problem, name) is not None}
    return replace(problem, operator=problem.operators[instances], colour=problem.colours[instances], **some)
