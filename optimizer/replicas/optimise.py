"""The best plan of replicas for a cost, the cheapest for an availability, and all between: the Pareto front.

    most available    minimise broken(plan)   subject to cost(plan) <= budget
    cheapest          minimise cost(plan)     subject to broken(plan) <= 1 - target
    front             both, for budgets from nothing to all: each point with a lower bound of what is broken

over which operators get replicas, how many and where, and where primaries go that have no host yet. Source: Adaptive
selective replication (VLDB PhD workshop 2013), section 4. broken(plan) is exact; bounds are those of
`bounds` and of the program, so a plan is called optimal only where they meet.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from models import display
from models.errors import InputError
from models.planning.replicas import Instances, ReplicaPlan, ReplicaProblem
from models.planning.solution import Status
from optimizer.replicas.heuristic import evaluated, plan, without_room
from optimizer.replicas.placing import Placed, least_cost, start_of
from optimizer.replicas.search import State, put_back, trim
from optimizer.replicas.task import OPTIMISED, STRUCK, Clock, Task, value_of
from optimizer.verify.replica_bounds import most_cost, most_levels
from optimizer.verify.replica_enumeration import MOST_NODES_OF_FRONT, MOST_OPERATORS, ExactPoint, exact_front

EXHAUSTIVE = ("optimised", "exhaustive")
_FIRST_SHARE = 0.3  # of the time limit, for the walk through all plans
_FIRST = ("product", "gain")  # heuristics whose plans the walk begins with
_STEPS = 24  # of bisections over budgets
_NEAR = 1e-3  # of a cost: bisection ends there
_DEEP = 4  # longer searches for something cheaper


def most_available(
    problem: ReplicaProblem, *, start: Instances | None = None, exhaustive: bool = True, time_limit_s: float = math.inf
) -> ReplicaPlan:
    """Return the plan under which fewest queries are broken within the budget; `start`: a plan that it improves, too.

    `exhaustive`: go through all plans where there are few. After the time limit [s] the best plan so far is the answer,
    with the bound that is proven so far; its note says so.
    """
    began, clock = time.perf_counter(), Clock(time_limit_s)
    # Small problems end here: all plans are enumerated, and the best is proven by that.
    every = _every(problem, clock, start, 0.0) if exhaustive else None
    budget = most_cost(problem)
    if every:
        return _exact(problem, _nearest(problem, every[-1], budget), began)
    task = Task.of(problem, clock)
    if task is None:
        return _no_room(problem, every, began)
    return task.solved(budget, () if start is None else (start,), began)


def _every(problem: ReplicaProblem, clock: Clock, start: Instances | None, allowed: float) -> list[ExactPoint] | None:
    """Return the points that a walk through all plans finds, which begins with those of heuristics and with `start`."""
    made = [plan(problem, by=by).instances for by in _FIRST] if problem.n_operators <= MOST_OPERATORS else []
    known = [one for one in (*made, start) if one is not None and not problem.violations(one)]
    return exact_front(problem, known=known, deadline=clock.after(_FIRST_SHARE), allowed=allowed)


def cheapest(
    problem: ReplicaProblem, target: float, *, exhaustive: bool = True, time_limit_s: float = math.inf
) -> ReplicaPlan:
    """Return the plan of least cost under which queries run with at least the target probability.

    That is the mean over the queries, or for goal "worst" each of them.

    `objective` and `bound` are of the cost. A target that nothing reaches is infeasible, with the best that is
    possible in the note; where only none was found the status is unknown. The time limit [s] is kept as by
    `most_available`. Raises InputError for no probability.
    """
    if not 0 <= target <= 1:
        raise InputError.at("target", target, "must be a probability, between 0 and 1")
    began, clock = time.perf_counter(), Clock(time_limit_s)
    # A hair more is allowed: 1 - target is rounded, and a plan that meets it exactly must count.
    every = _every(problem, clock, None, (1 - target) * (1 + 1e-12)) if exhaustive else None
    if every:
        return _exact_for(problem, every, target, began)
    task = Task.of(problem, clock)
    if task is None:
        return _no_room(problem, every, began)
    allowed = (1 - target) * (1 + 1e-12)
    most = most_cost(problem)
    # The bound at the largest budget holds for all budgets: if it excludes the target, nothing reaches it.
    bound, covers = task.bound(most)
    # More cost never breaks more: where even the dearest plan misses the target, search longer before giving up.
    dearest = task.best(most, covers)
    if value_of(problem, dearest) > allowed:
        proof, instances = task.proven(most)
        dearest = min([dearest, *task.improved(most, instances)], key=lambda state: state.value)
        bound = max(bound, proof.bound)
    if value_of(problem, dearest) > allowed:
        return _missed(task, dearest, bound, target, time.perf_counter() - began)
    # Below this budget the bound excludes the target, so no plan that reaches it costs less.
    least = 0.0 if task.bound(0.0)[0] <= allowed else _last(0.0, most, lambda cost: task.bound(cost)[0] > allowed)
    proof = task.proven_cost(allowed)
    least = max(least, proof.bound, least_cost(problem))
    state = _cheap(task, dearest, least, allowed)
    found = evaluated(problem, state.placed, OPTIMISED, time.perf_counter() - began)
    cost = found.cost or 0.0
    # Costs are sums of floats: the gap is closed within a billionth of the cost, or of 1 near a cost of 0.
    proven = cost - least <= 1e-9 * max(1.0, cost)
    return replace(
        found,
        status=Status.OPTIMAL if proven else Status.FEASIBLE,
        objective=cost,
        bound=min(least, cost),
        note=task.noted(f"{display.share(1 - value_of(problem, state), 6)} run"),
        target=target,
        certificate=proof.multipliers,
    )


def _cheap(task: Task, dearest: State, least: float, allowed: float) -> State:
    """Return the cheapest plan that is good enough, by bisection over budgets, without needless replicas."""
    best = State(task.problem, dearest.hosts, task.clock.deadline)
    # Replicas that the target does not need cost budget: the search ends with none of them.
    trim(best, allowed)
    low = least
    for _ in range(_STEPS):
        # The upper end is the cheapest plan found, the lower a budget at which the search failed, which proves nothing.
        high = best.cost
        if high - low <= _NEAR * high or best.late:
            break
        middle = (low + high) / 2
        state = task.quick(middle, task.bound(middle)[1])
        if state.value <= allowed:
            trim(state, allowed)
            best = state if state.cost < best.cost else best
        else:
            low = middle
    return _searched_below(task, best, least, allowed)


def _searched_below(task: Task, best: State, least: float, allowed: float) -> State:
    """Return the cheapest plan after longer searches just below the best so far, as long as one finds something."""
    for _ in range(0 if best.late else _DEEP):
        # Just below the best: a quarter of the gap, so that repeated success halves it quickly.
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
    """Return the largest budget found by bisection for which something holds that holds for all below it."""
    assert callable(holds)
    # `low` always holds: the answer is on the safe side whatever the steps reach.
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _missed(task: Task, best: State, bound: float, target: float, wall_s: float) -> ReplicaPlan:
    """Return the plan that comes nearest to a target which was not reached; infeasible if the bound excludes it."""
    problem, value = task.problem, value_of(task.problem, best)
    found = evaluated(problem, best.placed, OPTIMISED, wall_s)
    proven = bound > (1 - target) * (1 + 1e-12)
    note = (
        f"{display.share(target, 10)} cannot be reached"
        if proven
        else f"no plan was found that reaches {display.share(target, 10)}"
    )
    note += f": the best found has {display.share(1 - value, 10)}, no plan has more than {display.share(1 - bound, 10)}"
    status = Status.INFEASIBLE if proven else Status.UNKNOWN
    if not proven:
        note = task.noted(note)
    return replace(found, status=status, objective=None, bound=None, note=note, target=target)


@dataclass(frozen=True)
class FrontPoint:
    """One point of the front: a plan whose `bound` is what no plan of its budget can be below.

    budget: CPUs, or the number of replicas.
    """

    budget: float
    plan: ReplicaPlan


def front(
    problem: ReplicaProblem, points: int = 21, *, exhaustive: bool = True, time_limit_s: float = math.inf
) -> list[FrontPoint]:
    """Return plans for budgets from nothing to all, each better than those before.

    Of a problem so small that all its plans can be gone through: every point there is, each optimal. Once the time
    limit [s] struck the front ends, and the note of its last plan says so. Raises InputError for fewer than two points.
    """
    _check_points(points)
    began, clock = time.perf_counter(), Clock(time_limit_s)
    every = exact_front(problem, MOST_NODES_OF_FRONT, deadline=clock.after(_FIRST_SHARE)) if exhaustive else None
    if every:
        return [FrontPoint(one.cost, _exact(problem, one, began)) for one in every]
    task = Task.of(problem, clock)
    if task is None:
        return []
    found: list[FrontPoint] = []
    last: tuple[Instances, ...] = ()
    # From small to large budgets: each plan is a start for the next, so the front can only improve.
    for budget in np.linspace(least_cost(problem), most_cost(problem), points).tolist():
        if not task.starts(budget):
            continue  # more running replicas would have to leave than may
        if found and clock.struck:
            return _cut_short(found)
        made = task.solved(budget, last, time.perf_counter(), back=False)
        last = () if made.instances is None else (made.instances,)
        if _is_better(made, found):
            found.append(FrontPoint(budget, made))
    return found


def front_of_counts(problem: ReplicaProblem, points: int = 21, *, time_limit_s: float = math.inf) -> list[FrontPoint]:
    """Return plans for numbers of replicas from none to the limit, within the budget; otherwise as `front`."""
    _check_points(points)
    clock = Clock(time_limit_s)
    found: list[FrontPoint] = []
    start: Instances | None = None
    for count in np.unique(np.linspace(0, _most_replicas(problem), points).round().astype(np.int64)).tolist():
        if found and clock.struck:
            return _cut_short(found)
        made = most_available(replace(problem, max_replicas=count), start=start, time_limit_s=clock.left_s)
        start = made.instances or start
        if made.instances is not None and _is_better(made, found):
            found.append(FrontPoint(float(count), made))
    return found


def _check_points(points: int) -> None:
    if isinstance(points, bool) or points < 2:
        raise InputError.at("points", points, "must be at least 2")


def _most_replicas(problem: ReplicaProblem) -> int:
    """Return how many replicas there may be: by their limit, their levels, and the lightest ones in the budget."""
    levels = np.minimum(most_levels(problem), problem.max_level)
    light = np.cumsum(np.sort(np.repeat(problem.load, levels)))
    count = int((light <= most_cost(problem) + problem.slack * problem.n_hosts).sum())
    return count if problem.max_replicas is None else min(count, problem.max_replicas)


def _is_better(made: ReplicaPlan, found: Sequence[FrontPoint]) -> bool:
    """Return whether fewer queries are broken than under the last plan."""
    # A point that is not strictly better than a cheaper one is not on the front.
    return not found or (made.objective or 0.0) < float(found[-1].plan.objective or 0.0) * (1 - 1e-12)


def _cut_short(found: list[FrontPoint]) -> list[FrontPoint]:
    """Return the front with what the time limit left out in the note of its last plan."""
    last = found[-1]
    return [*found[:-1], replace(last, plan=replace(last.plan, note=STRUCK))]


def _no_room(problem: ReplicaProblem, every: list[ExactPoint] | None, began: float) -> ReplicaPlan:
    """Return the plan where primaries or running replicas find no room; infeasible if all possible plans were tried."""
    found = without_room(problem, start_of(problem), time.perf_counter() - began)
    if every is None or found.status is Status.INFEASIBLE:
        return found
    what = f" that keeps all but {problem.max_moves} of the replicas" if problem.max_moves is not None else ""
    return replace(found, status=Status.INFEASIBLE, note=f"no packing of the primaries exists{what}: all were tried")


def _nearest(problem: ReplicaProblem, point: ExactPoint, budget: float) -> ExactPoint:
    """Return a plan as good, in which more of what runs stays: it may cost more, within the budget."""
    if not problem.running:
        # Nothing runs, so nothing can be put back.
        return point
    state = State(problem, point.instances)
    put_back(state, budget)
    return ExactPoint(state.cost, state.value, state.instances)


def _exact(problem: ReplicaProblem, point: ExactPoint, began: float) -> ReplicaPlan:
    """Return a point of the exact front: its value is its bound."""
    placed = Placed([list(hosts) for hosts in point.instances], 0)
    found = evaluated(problem, placed, EXHAUSTIVE, time.perf_counter() - began)
    return replace(found, status=Status.OPTIMAL, bound=found.objective)


def _exact_for(problem: ReplicaProblem, every: Sequence[ExactPoint], target: float, began: float) -> ReplicaPlan:
    """Return the cheapest point for a target; the best there is where none reaches it."""
    # Points are sorted by cost: the first that is good enough is the cheapest.
    enough = [one for one in every if one.value <= (1 - target) * (1 + 1e-12)]
    found = _exact(problem, (enough or every[-1:])[0], began)
    best = 100 * (1 - every[-1].value)
    if not enough:
        note = f"{display.share(target, 10)} cannot be reached: the best found has {display.number(best, 10)} %"
        note += f", no plan has more than {display.number(best, 10)} %"
        return replace(found, status=Status.INFEASIBLE, objective=None, bound=None, note=note, target=target)
    note = f"{display.share(1 - enough[0].value, 6)} run"
    return replace(found, objective=found.cost, bound=found.cost, note=note, target=target)
