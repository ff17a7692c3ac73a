"""The cheapest system of hosts, copies and crews for which some checkpoint interval meets the target.

    minimise   cost(N, r, c)    subject to   recovery of a single failure <= target,
                                             P(not serving; N, r, c, T) <= 1 - availability   for some interval T

There are few plans (N, r, c): all are gone through by rising cost, each with a verdict that holds for every interval
(`evaluate_plan`). The first that meets the target is the cheapest, as all before it were shown to fail: that list is
the proof. More hosts are not always better (each one more fails too), so nothing is skipped by monotony.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from models import display
from models.planning.sizing.problem import CurvePoint, EvaluatedPlan, SizingPlan, SizingProblem, Verdict
from models.planning.solution import Status
from optimizer.sizing.feasible_interval import evaluate_plan, in_use, tightened

NINES = tuple(
    round(10 ** (-half / 2), 2 + (half + 1) // 2) for half in range(2, 13)
)  # the unavailabilities of the curve: 0.1 down to 1e-6
_ROUNDING = 1e-9


def solve(
    problem: SizingProblem, *, curve: bool = True, on_plan: Callable[[int], None] = lambda number: None
) -> SizingPlan:
    """Return the cheapest plan (cost per second); infeasible, with the best possible plan, where none meets the target.

    `curve`: also the cheapest plan for other availabilities. `on_plan` hears of each plan that is looked at.
    """
    began = time.perf_counter()
    evaluated: list[EvaluatedPlan] = []
    chosen: EvaluatedPlan | None = None
    for number, plan in enumerate(problem.plans()):
        on_plan(number)
        # Plans come by rising cost: the first that is too dear ends the search, and the first that meets is the
        # cheapest.
        if _too_dear(problem, problem.cost(plan)):
            break  # and all that follow
        evaluated.append(evaluate_plan(problem, plan))
        if evaluated[-1].verdict is Verdict.MEETS:
            chosen = evaluated[-1]
            break
    line = _curve(problem, evaluated) if curve else ()
    spent = time.perf_counter() - began
    if chosen is None:
        return _without(problem, evaluated, line, spent)
    at, note = in_use(problem, chosen, problem.allowed)
    chosen = replace(chosen, at=at)
    before = _closest_tightened(problem, evaluated[:-1])
    # An open plan may be the answer: its cost is all that is proven.
    bound = next((one.cost for one in evaluated if one.verdict is not Verdict.FAILS), chosen.cost)
    return SizingPlan(
        status=Status.OPTIMAL if bound == chosen.cost else Status.FEASIBLE,
        objective=chosen.cost,
        bound=bound,
        wall_s=spent,
        note=_note(before),
        chosen=chosen,
        next_cheaper=tuple(sorted(_closest(problem, before), key=lambda one: (-one.cost, one.plan))),
        evaluated=(*before, chosen),
        curve=line,
        interval_note=note,
    )


def _note(before: Sequence[EvaluatedPlan]) -> str:
    open_ = sum(one.verdict is Verdict.OPEN for one in before)
    said = f"{display.count(len(before) - open_, 'cheaper plan')} fail{'s' * (len(before) - open_ == 1)}"
    return f"{said}, {display.number(open_)} may meet it" if open_ else said


def _none(plans: int, open_: int) -> str:
    if not open_:
        return f"none of {plans} plans meets the target"
    return f"none of {plans} plans is certain to meet the target, {open_} may"


def _too_dear(problem: SizingProblem, cost: float) -> bool:
    budget = problem.description.target.budget_per_s
    return budget is not None and cost > budget * (1 + _ROUNDING)


def _without(
    problem: SizingProblem, evaluated: Sequence[EvaluatedPlan], line: tuple[CurvePoint, ...], spent: float
) -> SizingPlan:
    """Return the best plan within the limits where none meets the target."""
    evaluated = _with_best(problem, evaluated)
    open_ = [one for one in evaluated if one.verdict is Verdict.OPEN]
    there = [one for one in evaluated if one.at is not None]
    late = [one for one in evaluated if one.shortest_recovery_s is not None]
    possible: EvaluatedPlan | None = None
    if there:
        possible = min(there, key=lambda one: (one.at.unavailability if one.at else 1.0, one.cost))
    elif late:
        # Nothing recovers in time: the plan that recovers soonest says how far the target is.
        possible = min(late, key=lambda one: (one.shortest_recovery_s or 0.0, one.cost))
    elif evaluated:  # the work fits nowhere: the plan that comes nearest
        possible = min(evaluated, key=lambda one: (one.plan.copies, -one.plan.hosts, one.cost))
    return SizingPlan(
        status=Status.UNKNOWN if open_ else Status.INFEASIBLE,
        bound=min((one.cost for one in open_), default=None),
        wall_s=spent,
        note=_none(len(evaluated), len(open_)),
        evaluated=tuple(evaluated),
        curve=line,
        possible=possible,
    )


def _with_best(problem: SizingProblem, evaluated: Sequence[EvaluatedPlan]) -> list[EvaluatedPlan]:
    """Return the verdicts with the least unavailability found to its last digits: no other bound is below it."""
    found = list(evaluated)
    least = math.inf
    # Most promising first: once a bound is not below the best found, all that follow are worse.
    for index in sorted(range(len(found)), key=lambda k: math.inf if found[k].least is None else found[k].least or 0.0):
        one = found[index]
        if one.at is None or one.least is None or one.least >= least:
            break
        found[index] = tightened(problem, one)
        least = min(least, found[index].at.unavailability)  # type: ignore[union-attr]
    return found


def _closest(problem: SizingProblem, cheaper: Sequence[EvaluatedPlan]) -> Collection[EvaluatedPlan]:
    """Return, for each number of copies and crews, the most expensive plan before the chosen one."""
    asked = [crews or 0 for crews in problem.description.crews]
    found: dict[tuple[int, int], EvaluatedPlan] = {}
    for one in cheaper:
        if one.plan.crews in asked:
            # A later plan with the same copies and crews replaces the earlier: only the last before the chosen one is
            # asked for.
            found[one.plan.copies, one.plan.crews] = one  # by rising cost: the last one stays
    return found.values()


def _closest_tightened(problem: SizingProblem, cheaper: Sequence[EvaluatedPlan]) -> list[EvaluatedPlan]:
    """Return the verdicts with those that readers look at first, the closest ones, at their best interval."""
    plans = {one.plan for one in _closest(problem, cheaper)}
    return [tightened(problem, one) if one.plan in plans else one for one in cheaper]


def _curve(problem: SizingProblem, evaluated: Sequence[EvaluatedPlan]) -> tuple[CurvePoint, ...]:
    """Return the cheapest plan for each of NINES and the target; further plans are evaluated when needed.

    The budget does not count: the curve says what more would cost.
    """
    known = {one.plan: one for one in evaluated}
    seen: list[EvaluatedPlan] = []
    # From lax to strict: the cheapest plan for a stricter target is never cheaper, so one pass over the plans is
    # enough.
    wanted = sorted({*NINES, problem.allowed}, reverse=True)
    points: list[CurvePoint] = []
    for plan in problem.plans():
        one = known.get(plan)
        seen += [one] if one is not None else []
        while len(points) < len(wanted):
            allowed = wanted[len(points)]
            # Evaluated again only where what is known leaves this target open.
            if one is None or not _settles(one, allowed):
                one = evaluate_plan(problem, plan, allowed)
                seen.append(one)
            if one.at is None or one.at.unavailability > allowed * (1 + _ROUNDING):
                break
            bound = one.cost if problem.description.units is None else _not_excluded(seen, allowed)
            at, _ = in_use(problem, one, allowed)
            points.append(CurvePoint(allowed=allowed, plan=plan, cost=one.cost, bound=bound, at=at))
        if len(points) == len(wanted):
            break
    left = wanted[len(points) :]
    nothing = [None if problem.description.units is None else _not_excluded(seen, one) for one in left]
    ends = [CurvePoint(allowed=o, plan=None, cost=None, bound=b) for o, b in zip(left, nothing, strict=True)]
    return (*points, *ends)


def _not_excluded(seen: Sequence[EvaluatedPlan], allowed: float) -> float | None:
    """Return the least cost of the plans that were not shown to miss an unavailability; None: all were."""

    def out(one: EvaluatedPlan) -> bool:
        return one.verdict is Verdict.FAILS if one.least is None else one.least > allowed

    return min((one.cost for one in seen if not out(one)), default=None)


def _settles(one: EvaluatedPlan, allowed: float) -> bool:
    """Return whether what is known of the plan says if it meets another target."""
    if one.at is None:
        return True
    assert one.least is not None
    return one.at.unavailability <= allowed or one.least > allowed
