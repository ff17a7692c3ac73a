"""The feasible interval of a plan with sticky placement, from bounds of both sides.

There is no exact figure (models.planning.sizing.sticky_placement): a plan meets the target if at some interval the
bound from above does, and fails if the bound from below misses it at every interval. On a cell [a, b] of intervals that
one is taken with what a rolls back and the time that b leaves; behind the last cell is [z, infinity). Plans between
stay open, and what is found is then no more than feasible, with the cheapest open plan as the bound of the cost.
"""

from __future__ import annotations

import math

import numpy as np

from models import display
from models.planning.checkpoint_interval import exact
from models.planning.sizing.problem import EvaluatedPlan, PlanFigures, SizingProblem, SystemPlan, Verdict
from models.planning.sizing.sticky_placement import StickyPlacement, at_most
from models.reliability.times import downtime_s

_POINTS = 9
_LONGEST = 32.0  # of the interval of least slowdown
_ROUNDING = 1e-6  # relative: what a sparse solution may be off by
_HALVINGS = 60


def evaluate_sticky(problem: SizingProblem, plan: SystemPlan, allowed: float) -> EvaluatedPlan:
    """Return the verdict on a plan that is large enough for the work."""
    cost = problem.cost(plan)
    sticky = StickyPlacement.of(problem, plan)
    if sticky is None:
        return EvaluatedPlan(
            plan=plan, cost=cost, verdict=Verdict.OPEN, why="too many placements of the units to look at"
        )
    points = _points(problem, plan)
    late = _late(sticky, points)
    if late:
        return EvaluatedPlan(plan=plan, cost=cost, verdict=Verdict.FAILS, why=late)
    # Rounded down, as bounds from below are; those from above are rounded up in `sticky_figures`.
    least = _least(sticky, points) * (1 - _ROUNDING)
    target, share = problem.description.target.recovery_s, problem.description.target.recovery_share
    good = [one for one in points if target is None or sticky.in_time(one, target) >= share]
    # The bound holds for every interval and every placement of units: only this is a proof of failure.
    if least > allowed:
        down, most = display.apart(downtime_s(least), downtime_s(allowed), rounding=("down",))
        why = f"down at least {down} a month, {most} allowed, wherever the units are"
        best = sticky_figures(sticky, good[len(good) // 2], least) if good else None  # what it would have, about
        return EvaluatedPlan(plan=plan, cost=cost, verdict=Verdict.FAILS, why=why, least=least, at=best)
    if not good:
        why = f"no interval is certain to recover {display.share(share, 6)} of failures in time"
        return EvaluatedPlan(plan=plan, cost=cost, verdict=Verdict.OPEN, why=why, least=least)
    return _between(sticky, good, allowed, least)


def _between(sticky: StickyPlacement, points: list[float], allowed: float, least: float) -> EvaluatedPlan:
    """Return the verdict at these intervals, all of which recover in time: met at one of them, or open."""
    best: PlanFigures | None = None
    # From the middle outwards: the unavailability is flat near its best interval, so the first ones often meet the
    # target.
    for one in sorted(points, key=lambda point: abs(math.log(point / points[len(points) // 2]))):
        found = sticky_figures(sticky, one, least)
        best = found if best is None or found.unavailability < best.unavailability else best
        if best.unavailability <= allowed:
            break
    assert best is not None
    meets = best.unavailability <= allowed
    why = "" if meets else _open(least, best.unavailability, allowed)
    verdict = Verdict.MEETS if meets else Verdict.OPEN
    return EvaluatedPlan(
        plan=sticky.plan, cost=sticky.problem.cost(sticky.plan), verdict=verdict, why=why, least=least, at=best
    )


def _open(least: float, most: float, allowed: float) -> str:
    """Return what the bounds leave open."""
    low, high, limit = display.apart(*map(downtime_s, (least, most, allowed)), rounding=("down", "up"))
    return f"down {low} to {high} a month, {limit} allowed"


def sticky_figures(sticky: StickyPlacement, interval_s: float, least: float) -> PlanFigures:
    """Return the plan at an interval: all from above, but for `least`, which no interval is below."""
    problem, plan = sticky.problem, sticky.plan
    found = at_most(sticky, interval_s)
    share = problem.description.target.recovery_share
    uses = sticky.uses_per_s()
    longest_s = _within(sticky, interval_s, 1.0)
    return PlanFigures(
        interval_s=interval_s,
        unavailability=found.total * (1 + _ROUNDING),
        standing=found.too_full,
        recovering=found.recovering,
        switching=0.0,
        utilisation=problem.busy(plan, 0) + problem.description.checkpoints.pause_s / interval_s,
        worst_recovery_s=longest_s,
        quantile_recovery_s=_within(sticky, interval_s, share),
        mean_recovery_s=min(longest_s, sticky.mean_recovery_s(interval_s)),
        mean_between_recoveries_s=1 / uses if uses else None,
        unavailability_at_least=least,
    )


def sticky_in_use(
    problem: SizingProblem, plan: SystemPlan, best: PlanFigures, allowed: float
) -> tuple[PlanFigures, str]:
    """Return the longest interval of those looked at, up to that of least slowdown, that surely meets the targets."""
    sticky = StickyPlacement.of(problem, plan)
    assert sticky is not None
    pause = problem.description.checkpoints.pause_s
    free = exact(pause, best.mean_between_recoveries_s or problem.mttf_s) + pause
    target, share = problem.description.target.recovery_s, problem.description.target.recovery_share
    # Longest first: longer intervals cost less work, so the first that meets the targets is the one to use.
    for one in sorted({*_points(problem, plan), free}, reverse=True):
        if best.interval_s < one <= free and (target is None or sticky.in_time(one, target) >= share):
            found = sticky_figures(sticky, one, best.unavailability_at_least or 0.0)
            if found.unavailability <= allowed:
                return found, "costs least work" if one == free else "the targets decide"
    return best, "the bound of the unavailability is least there"


def _points(problem: SizingProblem, plan: SystemPlan) -> list[float]:
    """Return rising intervals, from the shortest that leaves time for the work to far beyond the cheapest."""
    pause = problem.description.checkpoints.pause_s
    free = 1 - problem.busy(plan, 0)
    shortest = max(problem.complete_s, pause / free * (1 + 1e-9))
    longest = max(_LONGEST * exact(pause, problem.mttf_s / plan.hosts), 4 * shortest)
    points = np.geomspace(shortest, longest, _POINTS)
    points[0] = shortest
    return [float(one) for one in points]


def _cells(points: list[float]) -> list[tuple[float, float]]:
    # The last cell is open to infinity: every interval lies in some cell.
    return list(zip(points, [*points[1:], math.inf], strict=True))


def _least(sticky: StickyPlacement, points: list[float]) -> float:
    """Return a bound of the unavailability at every interval."""
    return min(sticky.at_least(one, other) for one, other in _cells(points))


def _late(sticky: StickyPlacement, points: list[float]) -> str:
    """Return why no interval recovers failures in time; empty where one may."""
    target, share = sticky.problem.description.target.recovery_s, sticky.problem.description.target.recovery_share
    if target is None:
        return ""
    most = max(sticky.at_best_in_time(one, other, target) for one, other in _cells(points))
    if most >= share * (1 - _ROUNDING):
        return ""
    within = f"can be recovered in {display.duration(target)}"
    few, required = display.apart(most, share, form=display.share, rounding=("up",))
    return f"at most {few} of failures {within}, {required} asked"


def _within(sticky: StickyPlacement, interval_s: float, share: float) -> float:
    """Return the shortest time in which that share of failures is surely worked off; infinite where it never is."""
    low, high = 0.0, 1.0
    # Doubling, then halving: no upper limit is known before.
    while sticky.in_time(interval_s, high) < share * (1 - 1e-12):
        low, high = high, 2 * high
        if high > 1e12:
            return math.inf
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if sticky.in_time(interval_s, middle) >= share * (1 - 1e-12) else (middle, high)
    # The upper end: a time that is surely enough, not one that is nearly so.
    return high
