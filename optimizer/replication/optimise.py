"""The best plan of replicas for a cost, the cheapest for an availability, and all between: the Pareto front.

    most available    minimise broken(plan)   subject to cost(plan) <= budget
    cheapest          minimise cost(plan)     subject to broken(plan) <= 1 - target
    front             both, for budgets from nothing to all: each point with a lower bound of what is broken

over which operators get replicas, how many and where, and where primaries go that have no host yet. Source: Adaptive
selective replication (VLDB PhD workshop 2013), section 4. broken(plan) is exact; bounds are those of `bounds` and
`worst`, so a plan is called optimal only where they meet.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.checked_arrays import FloatArray
from models.errors import InputError
from models.replication.problem import Instances, Replication, ReplicationPlan
from models.solution import Status
from optimizer.replication.bounds import Bounds, Cover, bounds_of, most_cost
from optimizer.replication.certify import proven
from optimizer.replication.exhaustive import ExactPoint, exact_front
from optimizer.replication.heuristic import evaluated, plan, without_room
from optimizer.replication.placing import Placed, place_primaries
from optimizer.replication.program import cost_program_of, program_of
from optimizer.replication.running import least_cost, start_of, usable
from optimizer.replication.search import exchange, fill, loosen, move, put_back, start_with, trim
from optimizer.replication.state import State
from optimizer.replication.worst import worst_bound

OPTIMISED = ("optimised",)
EXHAUSTIVE = ("optimised", "exhaustive")
_STEPS = 24  # of bisections over budgets
_NEAR = 1e-3  # of a cost: bisection ends there
_DEEP = 4  # longer searches for something cheaper
_STARTS = tuple(
    (by, selection) for by in ("product", "utilisation", "degree") for selection in ("stepwise", "knapsack")
)


def most_available(problem: Replication, *, start: Instances | None = None, exhaustive: bool = True) -> ReplicationPlan:
    """The plan under which fewest queries are broken within the budget; `start`: a plan that it improves, too.

    `exhaustive`: go through all plans where there are few.
    """
    began = time.perf_counter()
    every = exact_front(problem) if exhaustive else None
    budget = most_cost(problem)
    if every:
        return _exact(problem, _nearest(problem, every[-1], budget), began)
    task = _Task.of(problem)
    if task is None:
        return _no_room(problem, every, began)
    bound, covers = task.bound(budget)
    state = task.best(budget, covers, start)
    put_back(state, budget)
    return task.answer(state, budget, bound, began)


def cheapest(problem: Replication, target: float, *, exhaustive: bool = True) -> ReplicationPlan:
    """The plan of least cost under which queries run with at least the target probability (in the mean, or each).

    `objective` and `bound` are of the cost. A target that nothing reaches is infeasible, with the best that is
    possible in the note; where only none was found the status is unknown. Raises InputError for no probability.
    """
    if not 0 <= target <= 1:
        raise InputError.at("target", target, "must be a probability, between 0 and 1")
    began = time.perf_counter()
    every = exact_front(problem) if exhaustive else None
    if every:
        return _exact_for(problem, every, target, began)
    task = _Task.of(problem)
    if task is None:
        return _no_room(problem, every, began)
    allowed = (1 - target) * (1 + 1e-12)
    most = most_cost(problem)
    bound, covers = task.bound(most)
    dearest = task.best(most, covers)
    if _value(problem, dearest) > allowed:
        bound = max(bound, task.proven(most)[0])
        return _missed(problem, dearest, bound, target, time.perf_counter() - began)
    least = 0.0 if task.bound(0.0)[0] <= allowed else _last(0.0, most, lambda cost: task.bound(cost)[0] > allowed)
    whole, certificate = task.proven_cost(allowed)
    least = max(least, whole, least_cost(problem))
    state = _cheap(task, dearest, least, allowed)
    found = evaluated(problem, state.placed, OPTIMISED, time.perf_counter() - began)
    cost = found.cost or 0.0
    proven = cost - least <= 1e-9 * max(1.0, cost)
    return replace(
        found,
        status=Status.OPTIMAL if proven else Status.FEASIBLE,
        objective=cost,
        bound=min(least, cost),
        note=f"{100 * (1 - _value(problem, state)):.6g} % run",
        target=target,
        certificate=certificate,
    )


def _cheap(task: _Task, dearest: State, least: float, allowed: float) -> State:
    """By bisection over budgets the cheapest plan that is good enough, without what it can do without."""
    best = State(task.problem, dearest.hosts)
    trim(best, allowed)
    low = least
    for _ in range(_STEPS):
        high = best.cost
        if high - low <= _NEAR * high:
            break
        middle = (low + high) / 2
        state = task.quick(middle, task.bound(middle)[1])
        if state.value <= allowed:
            trim(state, allowed)
            best = state if state.cost < best.cost else best
        else:
            low = middle
    return _searched_below(task, best, least, allowed)


def _searched_below(task: _Task, best: State, least: float, allowed: float) -> State:
    """What a longer search finds a little below the cheapest so far, as long as it finds something."""
    for _ in range(_DEEP):
        budget = max(least, best.cost - max(0.25 * (best.cost - least), _NEAR * best.cost))
        state = task.best(budget, task.bound(budget)[1])
        if state.value > allowed:
            break
        trim(state, allowed)
        if state.cost >= best.cost:
            break
        best = state
    return best


def _last(low: float, high: float, holds: object) -> float:
    """The largest budget found by bisection for which something holds that holds for all below it."""
    assert callable(holds)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _missed(problem: Replication, best: State, bound: float, target: float, wall_s: float) -> ReplicationPlan:
    value = _value(problem, best)
    found = evaluated(problem, best.placed, OPTIMISED, wall_s)
    proven = bound > (1 - target) * (1 + 1e-12)
    note = (
        f"{100 * target:.10g} % cannot be reached"
        if proven
        else f"no plan was found that reaches {100 * target:.10g} %"
    )
    note += f": the best found has {100 * (1 - value):.10g} %, no plan has more than {100 * (1 - bound):.10g} %"
    status = Status.INFEASIBLE if proven else Status.UNKNOWN
    return replace(found, status=status, objective=None, bound=None, note=note, target=target)


@dataclass(frozen=True)
class FrontPoint:
    """One point of the front: a plan whose `bound` is what no plan of its budget can be below."""

    budget: float
    plan: ReplicationPlan


def front(problem: Replication, points: int = 21, *, exhaustive: bool = True) -> list[FrontPoint]:
    """Plans for budgets from nothing to all, each at least as good as those before; what is not better is left out.

    Of a problem so small that all its plans can be gone through: every point there is, each optimal. Raises InputError
    for fewer than two points.
    """
    if isinstance(points, bool) or points < 2:
        raise InputError.at("points", points, "must be at least 2")
    began = time.perf_counter()
    every = exact_front(problem) if exhaustive else None
    if every:
        return [FrontPoint(one.cost, _exact(problem, one, began)) for one in every]
    task = _Task.of(problem)
    if task is None:
        return []
    found: list[FrontPoint] = []
    last: Instances | None = None
    for budget in np.linspace(least_cost(problem), most_cost(problem), points).tolist():
        began = time.perf_counter()
        if not task.starts(budget):
            continue  # more running replicas would have to leave than may
        bound, covers = task.bound(budget)
        state = task.best(budget, covers, last)
        value = _value(problem, state)
        made = task.answer(state, budget, bound, began)
        if last is None or value < float(found[-1].plan.objective or 0.0) * (1 - 1e-12):
            found.append(FrontPoint(budget, made))
        last = state.instances
    return found


def _no_room(problem: Replication, every: list[ExactPoint] | None, began: float) -> ReplicationPlan:
    """Primaries found no host, or running replicas no room; infeasible where all that is possible was tried."""
    found = without_room(problem, start_of(problem), time.perf_counter() - began)
    if every is None or found.status is Status.INFEASIBLE:
        return found
    what = f" that keeps all but {problem.max_moves} of the replicas" if problem.max_moves is not None else ""
    return replace(found, status=Status.INFEASIBLE, note=f"no packing of the primaries exists{what}: all were tried")


def _nearest(problem: Replication, point: ExactPoint, budget: float) -> ExactPoint:
    """A plan as good, in which more of what runs stays: it may cost more, within the budget."""
    if not problem.running:
        return point
    state = State(problem, point.instances)
    put_back(state, budget)
    return ExactPoint(state.cost, state.value, state.instances)


def _exact(problem: Replication, point: ExactPoint, began: float) -> ReplicationPlan:
    """A point of the exact front: its value is its bound."""
    placed = Placed([list(hosts) for hosts in point.instances], 0)
    found = evaluated(problem, placed, EXHAUSTIVE, time.perf_counter() - began)
    return replace(found, status=Status.OPTIMAL, bound=found.objective)


def _exact_for(problem: Replication, every: Sequence[ExactPoint], target: float, began: float) -> ReplicationPlan:
    """The cheapest point for a target; the best there is where none reaches it."""
    enough = [one for one in every if one.value <= (1 - target) * (1 + 1e-12)]
    found = _exact(problem, (enough or every[-1:])[0], began)
    best = 100 * (1 - every[-1].value)
    if not enough:
        note = f"{100 * target:.10g} % cannot be reached: the best found has {best:.10g} %"
        note += f", no plan has more than {best:.10g} %"
        return replace(found, status=Status.INFEASIBLE, objective=None, bound=None, note=note, target=target)
    note = f"{100 * (1 - enough[0].value):.6g} % run"
    return replace(found, objective=found.cost, bound=found.cost, note=note, target=target)


def _value(problem: Replication, state: State) -> float:
    return float(problem.value(problem.broken(state.hosts))[0])


@dataclass(frozen=True)
class _Task:
    """A problem with its bounds and the ways in which its primaries may be placed."""

    problem: Replication
    bounds: Bounds
    start: Placed

    @classmethod
    def of(cls, problem: Replication) -> _Task | None:
        """None where primaries find no host, or more running replicas would have to leave theirs than may."""
        start = start_of(problem)
        return cls(problem, bounds_of(problem), start) if usable(problem, start) else None

    def starts(self, budget: float) -> list[Placed]:
        """What a search within the budget starts from: with what runs, and where all of it may leave without, too."""
        if not self.problem.running:
            return [self.start]
        found = [start_of(self.problem, budget=budget), place_primaries(self.problem)]
        return [one for one in found if usable(self.problem, one)]

    def bound(self, budget: float) -> tuple[float, list[Cover]]:
        """A lower bound of the objective within a budget, and covers to start from."""
        if self.problem.goal == "worst":
            return worst_bound(self.bounds, budget)
        return self.bounds.mean(budget)

    def proven(self, budget: float) -> tuple[float, FloatArray | None]:
        """A lower bound by the program of the problem, and what proves it; 0 for the worst query, which has none."""
        if self.problem.goal == "worst":
            return 0.0, None
        return proven(program_of(self.problem, budget, self.bounds), self.problem.n_operators)

    def proven_cost(self, allowed: float) -> tuple[float, FloatArray | None]:
        """A lower bound of the cost for a mean share of broken queries, and what proves it."""
        if self.problem.goal == "worst":
            return 0.0, None
        return proven(cost_program_of(self.problem, allowed, self.bounds), self.problem.n_operators)

    def answer(self, state: State, budget: float, bound: float, began: float) -> ReplicationPlan:
        """The plan with its figures and the higher of both bounds."""
        more, certificate = self.proven(budget)
        least = min(max(bound, more), _value(self.problem, state))
        found = evaluated(self.problem, state.placed, OPTIMISED, time.perf_counter() - began, least)
        return replace(found, certificate=certificate)

    def quick(self, budget: float, covers: Sequence[Cover]) -> State:
        """What comes of the covers of the bound, without exchanging anything."""
        found = []
        for start in self.starts(budget) or [self.start]:
            state = State(self.problem, start.instances)
            start_with(state, covers, budget)
            fill(state, self._covers(start), budget)
            found.append(state)
        return min(found, key=lambda state: (state.value, state.cost))

    def best(self, budget: float, covers: Sequence[Cover], more: Instances | None = None) -> State:
        """The best of what comes of the covers of the bound, of importance, and of `more`."""
        found: list[State] = []
        for start in self.starts(budget) or [self.start]:
            state = State(self.problem, start.instances)
            start_with(state, covers, budget)
            found.append(self._improved(state, self._covers(start), budget))
            if state.moves != self.problem.max_moves and self.problem.running:
                state = State(self.problem, start.instances)
                loosen(state)
                found.append(self._improved(state, self._covers(start), budget))
            for instances in [*self._by_importance(start, budget), *([] if more is None else [more])]:
                found.append(self._improved(State(self.problem, instances), self._covers(start), budget))
        best = min(found, key=lambda state: (state.value, state.cost, state.moves))
        put_back(best)
        return best

    def _improved(self, state: State, covers: Sequence[Cover], budget: float) -> State:
        fill(state, covers, budget)
        move(state)
        covers = self._covers(state.placed)  # primaries that do not run yet may have moved
        fill(state, covers, budget)
        exchange(state, covers, budget)
        return state

    def _covers(self, start: Placed) -> list[Cover]:
        """The operators of each query by the host of their primaries."""
        found: dict[Cover, None] = {}
        for needed in self.problem.operators:
            for host in dict.fromkeys(start.instances[o][0] for o in needed):
                found[frozenset(o for o in needed if start.instances[o][0] == host)] = None
        return list(found)

    def _by_importance(self, start: Placed, budget: float) -> list[Instances]:
        """What the heuristics would do."""
        own = replace(self.problem, budget=min(budget, self.problem.capacity))
        found: dict[Instances, None] = {}
        for by, selection in _STARTS:
            primaries = Placed([list(hosts) for hosts in start.instances], 0)
            made = plan(own, by=by, selection=selection, primaries=primaries)
            if made.instances is not None:
                found[made.instances] = None
        return list(found)
