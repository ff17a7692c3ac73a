"""Checkpoint allocation: which node stores which checkpoint.

Checkpoints j = 0 .. J-1, nodes n = 0 .. N-1; x[j, n] is 1 when node n stores checkpoint j. c[j, n] is the cost
and l[j, n] the load of that; x is binary.

    minimise    sum_j sum_n c[j, n] x[j, n]

    subject to  sum_n x[j, n] = 1                                      for each j
                x[j, n] = 0                                            for (j, n) forbidden: node of j's key group
                x[a, n] + x[b, n] <= 1                                 for each n and anti-affinity pair (a, b): copies
                capacity_min[n] <= sum_j l[j, n] x[j, n] <= capacity[n]    for each n
                sum_j (1 - x[j, current[j]]) <= max_moves

Source: Madsen and Zhou, CIKM 2015 (constraints 1 and 2), with node-dependent loads, lower capacities and moves added.
With capacities it is a generalised assignment problem.

`exact` looks at the structure and asks the methods in turn; `params` has all their parameters, `budget` their limits.

Bounds that sums prove are evaluated in `optimizer.verify`, so that they are checked again without a solver:

| where a bound is proven | of | found by |
|---|---|---|
| `verify.checkpoint_bounds` | one price for each node | `lagrangian.bound`, `linear_core` |
| | one multiplier for each checkpoint | `column_generation.search` |
| | prices where moves are counted | `reoptimise` |
| | potentials of a minimum-cost flow, where capacities only count | `flow` |
| `lagrangian.separable` | nothing couples the checkpoints: the minima themselves | itself |
| `mixed_integer` | branch and bound by HiGHS, within its tolerances | itself |
| `verify.infeasibility` | sums and sets of nodes that leave no allocation at all | itself |
| `infeasibility` | heavy checkpoints, and multipliers, that leave none | itself |

| where a plan is made | how |
|---|---|
| `lagrangian.heuristic` | from prices, by the steps of `local_search` |
| `local_search` | repair, shifts and swaps (`exchange`), chains, forced moves; `search` keeps copies apart |
| `column_generation.improve` | from sets of checkpoints for each node |
| `reoptimise` | from a plan that runs, with few moves |
| `sensitive` | the heuristics of the paper, which the others are compared with |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from models.checked_arrays import IntArray
from models.errors import raise_if_any
from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from models.planning.solution import Status, is_proven
from optimizer.checkpoint_allocation import params, sensitive
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.mixed_integer import Known, Outcome, branch_and_bound
from optimizer.checkpoint_allocation.params import Parameters
from optimizer.checkpoint_allocation.sensitive import sensitive_first
from optimizer.checkpoint_allocation.units import LARGEST_PRICE, are_prices, units_of
from optimizer.common.enumeration import closed_by_granularity
from optimizer.common.solvers import checked_limits
from optimizer.verify.checkpoint_bounds import lagrangian_bound
from optimizer.verify.constraints import constraint_violations
from optimizer.verify.infeasibility import why_infeasible

if TYPE_CHECKING:
    from optimizer.checkpoint_allocation.reoptimise import Former

# Methods are imported where they are called: a run whose checkpoints are spread evenly needs none of them.

__all__ = ["METHODS", "solve"]

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Hint:
    """A start for `exact`: an assignment (J,), and the knowledge of a former plan; both only help."""

    assignment: IntArray | None = None
    former: Former | None = None


def solve(
    problem: CheckpointAllocation,
    *,
    method: str = "exact",
    time_limit_s: float = 60.0,
    seed: int = 0,
    workers: int = 1,
    hint: Any = None,
    parameters: Parameters | None = None,
) -> CheckpointPlan:
    """Return the plan that `method` (one of METHODS) finds, with objective, proven bound and violations.

    `seed` decides the draws of `baseline` and `even`. `workers` never changes the answer: every method runs on one.
    `hint` is an assignment (J,) or a former plan to start from (`exact` only). `time_limit_s` [s] is a last resort of
    `exact`; the note says when it struck. `parameters` replace the defaults of all measurements. Raises InputError for
    a bad argument.

    >>> from holdfast import plan_checkpoints, read_problem
    >>> plan = plan_checkpoints(read_problem("examples/checkpoints.json"))
    >>> str(plan.status), plan.objective, plan.assignment.tolist()
    ('optimal', 0.9, [1, 2, 0, 3, 2])
    """
    own = params.DEFAULT if parameters is None else parameters
    budget = Budget.of_seconds(time_limit_s, own.work_per_s * time_limit_s)
    start = _checked(problem, method, time_limit_s, seed, workers, hint)
    # Cheap proofs first: a refusal here needs no method, and every method may then assume that none of them applies.
    reason = why_infeasible(problem)
    if reason is not None:
        from optimizer.checkpoint_allocation.infeasibility.explain import explained  # noqa: PLC0415

        # Explaining why never uses the whole limit: the proof stands already, the rest only makes it shorter.
        limit_s = own.infeasibility.share * time_limit_s
        note = explained(problem, own, proven=True, time_limit_s=limit_s, known=reason)
        return CheckpointPlan(status=Status.INFEASIBLE, method=method, note=note, wall_s=budget.spent_s)
    outcome = METHODS[method](problem, budget, own, seed, start)
    # No answer within the limit is not yet a proof: a small reason may still be found with the time that is left.
    if outcome.assignment is None:
        outcome = _with_reason(problem, outcome, budget, own)
    return _plan(problem, method, outcome, budget)


def _with_reason(problem: CheckpointAllocation, outcome: Outcome, budget: Budget, parameters: Parameters) -> Outcome:
    """Return an outcome without an answer, with its smallest reason; the reason is a proof where there was none."""
    from optimizer.checkpoint_allocation.infeasibility.explain import explained  # noqa: PLC0415

    own = parameters.infeasibility
    limit_s = min(own.share * budget.seconds, max(budget.seconds - budget.spent_s, own.least_s))
    reason = explained(problem, parameters, proven=outcome.infeasible, time_limit_s=limit_s)
    return replace(outcome, infeasible=True, bound=None, note=reason) if reason else outcome


def _baseline(problem: CheckpointAllocation, budget: Budget, parameters: Parameters, seed: int, hint: Hint) -> Outcome:
    drawn = sensitive.baseline(problem, seed, parameters.program.random_steps)
    return _drawn(problem, drawn, np.bincount(problem.group_codes), seed, budget, parameters)


def _even(problem: CheckpointAllocation, budget: Budget, parameters: Parameters, seed: int, hint: Hint) -> Outcome:
    drawn = sensitive.even(problem, seed, parameters.program.random_steps)
    return _drawn(problem, drawn, sensitive.even_room(problem), seed, budget, parameters)


def _sensitive_first(
    problem: CheckpointAllocation, budget: Budget, parameters: Parameters, seed: int, hint: Hint
) -> Outcome:
    return Outcome(sensitive_first(problem), _quick_bound(problem, parameters))


def _exact(problem: CheckpointAllocation, budget: Budget, parameters: Parameters, seed: int, hint: Hint) -> Outcome:
    """Return the outcome of `exact`, found in units that suit the numbers and given back in those of the problem."""
    from optimizer.checkpoint_allocation.exact import exact  # noqa: PLC0415

    units = units_of(problem)
    former = hint.former
    if former is not None:
        former = replace(former, prices=units.prices(former.prices))
        sane = are_prices(problem, former.prices, units)
        # Prices below zero come from minimum loads; methods that start from prices know capacities alone.
        former = replace(former, prices=np.maximum(former.prices, 0.0)) if sane else None  # minima's are no start
    # Common units need no conversion, so bounds of ordinary problems are never touched by a second rounding.
    if units.common:
        return exact(problem, budget, parameters, hint=hint.assignment, former=former)
    found = exact(units.scaled(problem), budget, parameters, hint=hint.assignment, former=former)
    bound = None if found.bound is None else units.bound_back(found.bound)
    return replace(found, bound=bound, prices=units.prices_back(found.prices))


METHODS: dict[str, Callable[[CheckpointAllocation, Budget, Parameters, int, Hint], Outcome]] = {
    "baseline": _baseline,
    "even": _even,
    "sensitive-first": _sensitive_first,
    "exact": _exact,
}


def _drawn(
    problem: CheckpointAllocation,
    drawn: IntArray | None,
    room: IntArray,
    seed: int,
    budget: Budget,
    parameters: Parameters,
) -> Outcome:
    """Return the outcome of an allocation (J,) by chance, or of the program that replaces it.

    `room` (n_groups,) is the limit for one operator on one node; the note says where it had to be raised.
    """
    # The walk may give up although an allocation exists; a program decides, where it is small enough.
    if drawn is None and problem.neighbours and problem.cost.size <= parameters.program.random_pairs:
        drawn, room = _drawn_by_program(problem, room, seed, budget, parameters)
    bound = _quick_bound(problem, parameters)
    if drawn is None:
        return Outcome(None, bound, note="no allocation with this spread was found")
    most = np.zeros((len(room), problem.n_nodes), dtype=np.int64)
    np.add.at(most, (problem.group_codes, drawn), 1)
    raised = np.flatnonzero(most.max(axis=1) > room)
    note = f"the even limit was raised from {room[raised[0]]} to {most[raised[0]].max()}" if len(raised) else ""
    return Outcome(drawn, bound, note=note)


def _drawn_by_program(
    problem: CheckpointAllocation, room: IntArray, seed: int, budget: Budget, parameters: Parameters
) -> tuple[IntArray | None, IntArray]:
    """Return the cheapest spread allocation (J,) for random costs, and the limits (n_groups,).

    It replaces the random walk where that got stuck. None where no limit leaves an allocation.
    """
    # Random costs make the program draw among the spread allocations; they say nothing about the real cost.
    costs = np.random.default_rng(seed).integers(0, 1000, size=problem.cost.shape).astype(np.float64)
    drawing = CheckpointAllocation(
        cost=costs,
        load=np.ones(problem.n_checkpoints),
        forbidden=problem.forbidden,
        anti_affinity=problem.anti_affinity,
        group=problem.group,
    )
    seconds = min(budget.seconds, parameters.program.random_seconds)
    nothing = Known(None, math.inf, np.zeros(problem.n_nodes), -math.inf)
    # The limit of every operator rises by one until an allocation exists: the first that does is the least.
    for more in range(int(np.bincount(problem.group_codes).max())):
        limit = Budget.of_seconds(seconds, parameters.work_per_s * seconds)
        found = branch_and_bound(drawing, nothing, limit, parameters.program, spread=room + more)
        if not found.infeasible:
            return found.assignment, room
    return None, room


def _quick_bound(problem: CheckpointAllocation, parameters: Parameters) -> float:
    """Return the larger of the Lagrangian bounds at zero prices and at good ones."""
    # Zero prices give the sum of the minima, which can be the better bound where costs cancel or prices are poor.
    zero = lagrangian_bound(problem, np.zeros(problem.n_nodes))
    if problem.capacity is None:
        return zero
    from optimizer.checkpoint_allocation.lagrangian.bound import dual_prices  # noqa: PLC0415

    return max(zero, lagrangian_bound(problem, dual_prices(problem, parameters.lagrangian)))


def _plan(problem: CheckpointAllocation, method: str, outcome: Outcome, budget: Budget) -> CheckpointPlan:
    """Return the outcome as a plan: objective recomputed, constraints checked, status no more than proven."""
    # Claims are made here alone, from the true problem: a method may be wrong about its answer, never the plan.
    bound = None if outcome.bound is None or not math.isfinite(outcome.bound) else float(outcome.bound)
    assignment, note = outcome.assignment, outcome.note
    if assignment is None:
        status = Status.INFEASIBLE if outcome.infeasible else Status.UNKNOWN
        note = note or "no feasible allocation was found"
        known = bound if status is Status.UNKNOWN else None  # what does not exist is not bounded
        return CheckpointPlan(status=status, bound=known, method=method, note=note, wall_s=budget.spent_s)
    objective = problem.objective(assignment)
    broken = constraint_violations(problem, assignment)
    status = Status.UNKNOWN
    if broken:
        # An answer that breaks a constraint proves nothing about its cost: the status stays unknown, the reason is
        # told.
        kinds = ", ".join(dict.fromkeys(violation.kind for violation in broken))
        note = "; ".join(filter(None, [note, f"breaks {kinds}: {broken[0].text}"]))
    elif bound is not None:
        bound = _closed(problem, assignment, objective, bound)
        status = Status.OPTIMAL if is_proven(objective, bound) else Status.FEASIBLE
    else:
        status = Status.FEASIBLE
    return CheckpointPlan(
        status=status,
        objective=objective,
        bound=bound,
        wall_s=budget.spent_s,
        note=note,
        assignment=assignment,
        method=method,
        violations=tuple(map(str, broken)),
        prices=outcome.prices,
        multipliers=outcome.multipliers,
    )


def _closed(problem: CheckpointAllocation, assignment: IntArray, objective: float, bound: float) -> float:
    """Return the bound, or the objective where only the rounding of a float64 sum lies between the two.

    Where costs cancel, that rounding is more than a gap may be, and no proof: then it is subtracted from the bound.
    """
    # The sum of magnitudes, not the sum: with costs of both signs the rounding is relative to the larger one.
    size = math.fsum(np.abs(problem.cost[np.arange(problem.n_checkpoints), assignment]).tolist())
    rounding = 16 * _EPS * size
    if is_proven(objective, bound):
        return objective if objective - bound <= rounding else bound
    # A bound above a feasible objective can only be rounding: it must not claim more than the answer allows.
    bound = min(bound, objective - rounding) if bound > objective else bound
    hair = objective - bound <= rounding
    # Closing the gap needs a reason beyond "close": between bound and objective no other value is possible.
    return objective if hair and closed_by_granularity(problem, bound, objective) else bound


def _checked(
    problem: CheckpointAllocation, method: str, time_limit_s: float, seed: int, workers: int, hint: Any
) -> Hint:
    """Return the start that a hint gives; raises InputError with every bad argument of `solve`."""
    check = checked_limits(time_limit_s, seed, workers)
    if method not in METHODS:
        check.add("method", method, "must be one of " + ", ".join(METHODS))
    former = hint if isinstance(hint, CheckpointPlan) else CheckpointPlan(status=Status.UNKNOWN)
    given = former.assignment if isinstance(hint, CheckpointPlan) else hint
    start = None if given is None else check.indices("hint", given, (problem.n_checkpoints,), (problem.n_nodes,))
    prices = former.prices
    if prices is not None:
        prices = check.floats("hint.prices", prices, (problem.n_nodes,), most=LARGEST_PRICE)
    raise_if_any(check.faults)
    if prices is None:
        return Hint(start)
    gap = math.inf if former.gap is None else former.gap
    from optimizer.checkpoint_allocation.reoptimise import Former  # noqa: PLC0415

    return Hint(start, Former(prices, gap))
