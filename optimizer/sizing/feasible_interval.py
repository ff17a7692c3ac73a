"""The feasible interval of a plan, if any meets the target: branch and bound on the checkpoint interval.

With R_f(T) the mean recovery with f hosts down, P(not serving) rises with each R_f apart
(models.planning.sizing.chain). Each R_f falls up to its own T_f and rises after it. So below the least T_f shorter
intervals are worse for all f, above the greatest longer ones are: the best interval lies between, within what the
recovery target allows. On a cell [a, b] of that, R_f >= R_f(T_f moved into [a, b]), and these together give a lower
bound for all intervals of the cell. Cells whose bound is above the best that was found, or above the target, are done;
the others are split.
"""

from __future__ import annotations

import math

import numpy as np

from models import display
from models.checked_arrays import FloatArray
from models.planning.checkpoint_interval import exact
from models.planning.sizing.chain import NotThere, not_there
from models.planning.sizing.problem import EvaluatedPlan, PlanFigures, SizingProblem, SystemPlan, Verdict
from models.reliability.times import downtime_s
from optimizer.sizing.sticky_feasible_interval import evaluate_sticky, sticky_in_use

_CELLS = 32
_ROUNDS = 8
_CLOSE = 1e-7  # relative: bounds so near to what was found need no further cells
_ROUNDING = 1e-9  # relative: what a chain of some hundred states may be off by
_STEPS = 8  # each makes a piece `_CELLS` times shorter


def evaluate_plan(problem: SizingProblem, plan: SystemPlan, allowed: float | None = None) -> EvaluatedPlan:
    """Return the verdict on a plan beside an unavailability (None: that of the target)."""
    allowed = problem.allowed if allowed is None else allowed
    cost = problem.cost(plan)
    # Cheapest refusal first: a plan that cannot hold the work needs no interval.
    if problem.spare(plan) < 0:
        return EvaluatedPlan(plan=plan, cost=cost, verdict=Verdict.FAILS, why=_too_small(problem, plan))
    if problem.description.units is not None:
        return evaluate_sticky(problem, plan, allowed)
    late = _too_late(problem, plan)
    if late is not None:
        return EvaluatedPlan(plan=plan, cost=cost, verdict=Verdict.FAILS, why=late[0], shortest_recovery_s=late[1])
    interval, least = _best_interval(problem, plan, allowed)
    return _evaluated(problem, plan, allowed, interval, least)


def tightened(problem: SizingProblem, one: EvaluatedPlan) -> EvaluatedPlan:
    """Return the verdict again, with the best interval found to its last digits."""
    if one.at is None or problem.description.units is not None:
        return one
    return _evaluated(problem, one.plan, problem.allowed, *_best_interval(problem, one.plan, None))


def _evaluated(
    problem: SizingProblem, plan: SystemPlan, allowed: float, interval: float, least: float
) -> EvaluatedPlan:
    """Return the verdict from the best interval [s] found, and the lower bound over all intervals."""
    cost, best = problem.cost(plan), figures(problem, plan, interval)
    # A hair above the target still meets it: the chain of states is solved in floating point.
    if best.unavailability <= allowed * (1 + _ROUNDING):
        verdict, why = Verdict.MEETS, ""
    elif least > allowed:
        verdict, why = Verdict.FAILS, _why(best, min(least, best.unavailability), allowed)
    # Neither met nor excluded: claiming either would be a guess.
    else:
        verdict, why = Verdict.OPEN, "the bound of its unavailability is below the target, and no interval was found"
    return EvaluatedPlan(plan=plan, cost=cost, verdict=verdict, why=why, least=min(least, best.unavailability), at=best)


def figures(problem: SizingProblem, plan: SystemPlan, interval_s: float) -> PlanFigures:
    """Return all figures of the plan at an interval."""
    found = _at(problem, plan, np.array([interval_s]))
    used = float(found.recoveries_per_s[0])
    return PlanFigures(
        interval_s=interval_s,
        unavailability=float(found.total[0]),
        standing=float(found.standing[0]),
        recovering=float(found.recovering[0]),
        switching=float(found.switching[0]),
        utilisation=problem.busy(plan, 0) + problem.description.checkpoints.pause_s / interval_s,
        worst_recovery_s=problem.recovery_s(plan, interval_s, 1.0),
        quantile_recovery_s=problem.recovery_s(plan, interval_s, problem.description.target.recovery_share),
        mean_recovery_s=problem.mean_recovery_s(plan, interval_s),
        mean_between_recoveries_s=1 / used if used else None,
    )


def in_use(problem: SizingProblem, one: EvaluatedPlan, allowed: float) -> tuple[PlanFigures, str]:
    """Return the plan at the interval to use if `allowed` is the target, and what decides that interval.

    The interval of least slowdown is the exact optimum for the mean time between recoveries, within the limits of the
    recovery target. Where it misses the availability, the nearest one that does not is used.
    """
    assert one.at is not None
    if problem.description.units is not None:
        return sticky_in_use(problem, one.plan, one.at, allowed)
    limits = problem.intervals(one.plan)
    assert limits is not None
    free = _of_least_slowdown(problem, one.plan, limits)
    wanted = min(max(free, limits[0]), limits[1])
    found = figures(problem, one.plan, wanted)
    if found.unavailability <= allowed:
        note = "costs least work" if wanted == free else "the recovery target decides"
        return found, note if wanted <= free else "the shortest that is possible"
    return figures(problem, one.plan, _nearest(problem, one, wanted, allowed)), "the availability decides"


def _of_least_slowdown(problem: SizingProblem, plan: SystemPlan, limits: tuple[float, float]) -> float:
    """Return the interval [s] that costs least work; it depends on the plan alone, not on the availability asked."""
    pause = problem.description.checkpoints.pause_s
    used = float(_at(problem, plan, np.array([_span(problem, plan, limits)[0]])).recoveries_per_s[0])
    return exact(pause, 1 / used if used else problem.mttf_s) + pause


def _nearest(problem: SizingProblem, one: EvaluatedPlan, wanted: float, allowed: float) -> float:
    """Return the interval next to `wanted`, which misses the target, on the way from the best one, which meets it."""
    assert one.at is not None
    inside, outside = one.at.interval_s, wanted
    # Points in ratio, not in steps: intervals span several orders of magnitude.
    for _ in range(_STEPS):
        points = np.geomspace(inside, outside, _CELLS + 1)
        # From the side that meets the target: `inside` always does, so the answer is safe at any precision.
        meets = _at(problem, one.plan, points).total <= allowed
        last = int(np.flatnonzero(meets[1:-1])[-1]) + 1 if meets[1:-1].any() else 0
        inside, outside = (inside if last == 0 else float(points[last])), float(points[last + 1])
    return inside


def _at(problem: SizingProblem, plan: SystemPlan, interval_s: FloatArray) -> NotThere:
    resume = problem.recoveries(plan, interval_s, problem.standing_s(plan))
    return not_there(problem, plan, problem.recoveries(plan, interval_s), resume)


def _best_interval(problem: SizingProblem, plan: SystemPlan, allowed: float | None) -> tuple[float, float]:
    """Return (interval, lower bound of the unavailability of all intervals): close together, or clear of `allowed`."""
    limits = problem.intervals(plan)
    assert limits is not None
    first, last = _span(problem, plan, limits)
    cells = [(first, last)]  # often enough to tell
    best, at, done = math.inf, first, math.inf
    for _ in range(_ROUNDS):
        ends = np.array(cells)
        points = np.unique(ends)
        found = _at(problem, plan, points).total
        if float(found.min()) < best:
            best, at = float(found.min()), float(points[int(found.argmin())])
        # Rounded down: a cell is given up only when its bound is above by more than rounding.
        least = _least(problem, plan, ends) * (1 - _ROUNDING)
        open_ = least < best * (1 - _CLOSE)
        if allowed is not None and best > allowed:
            # Without a feasible interval so far, only cells that could still meet the target are split.
            open_ &= least <= allowed
        # Closed cells keep counting: the bound of all intervals is the least over open and closed ones.
        done = min(done, float(least[~open_].min(initial=math.inf)))
        bound = min(done, float(least[open_].min(initial=math.inf)))
        if not open_.any() or (allowed is not None and (best <= allowed or bound > allowed)):
            return at, min(bound, best)
        kept = ends[open_]
        # The number of pieces falls as cells remain, so a round looks at about as many points as the one before.
        pieces = max(2, _CELLS // len(kept))
        cells = [cell for a, b in kept.tolist() for cell in _split(a, b, pieces)]
    return at, min(bound, best)


def _span(problem: SizingProblem, plan: SystemPlan, limits: tuple[float, float]) -> tuple[float, float]:
    """Return two intervals between which the best one is."""
    # All T_f, with and without standing: between their extremes every R_f is monotone in one direction.
    quickest = np.concatenate([problem.quickest(plan), problem.quickest(plan, problem.standing_s(plan))])
    first, last = (min(max(float(one), limits[0]), limits[1]) for one in (quickest.min(), quickest.max()))
    return first, last


def _split(first: float, last: float, pieces: int = _CELLS) -> list[tuple[float, float]]:
    edges = np.geomspace(first, last, pieces + 1)
    # `geomspace` rounds its ends: the span must be covered exactly, or the bound would miss a hair of it.
    edges[0], edges[-1] = first, last
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def _least(problem: SizingProblem, plan: SystemPlan, cells: FloatArray) -> FloatArray:
    """Return a lower bound of the unavailability in each cell (n, 2)."""
    below, above = cells.T[:, None, :]

    def shortest(more_s: float) -> FloatArray:
        # Each R_f has its minimum at its own T_f, so the nearest point of the cell gives the least value in it.
        nearest = np.clip(problem.quickest(plan, more_s)[:, None], below, above)
        return problem.recoveries(plan, nearest, more_s)

    return not_there(problem, plan, shortest(0.0), shortest(problem.standing_s(plan))).total


def _too_small(problem: SizingProblem, plan: SystemPlan) -> str:
    return f"the work needs {problem.fewest_hosts(plan.copies)} hosts"


def _too_late(problem: SizingProblem, plan: SystemPlan) -> tuple[str, float] | None:
    """Return why no interval recovers in time, and the shortest recovery [s]; None where one does."""
    target, take_over_s = problem.description.target.recovery_s, problem.description.copies.take_over_s
    if target is None:
        return None
    if not problem.survives_loss(plan):
        return _stands(plan), problem.standing_s(plan)
    if plan.copies > 1 and take_over_s > target:
        return f"the take-over takes {display.duration(take_over_s)}", take_over_s
    if problem.intervals(plan) is not None:
        return None
    quickest = problem.quickest_recovery_s(plan)
    best, required = display.apart(quickest, target)
    lost = f" where all {plan.copies} copies of a task are lost" if plan.copies > 1 else ""
    return f"recovery takes {best} at best{lost}, {required} asked", quickest


def _stands(plan: SystemPlan) -> str:
    """Return why the loss of all copies of a task waits for a repair."""
    if plan.copies == 1:
        return "with one host down the work does not fit: it stands until the repair"
    lost = f"with {plan.copies} hosts down, which may hold all copies of a task,"
    return f"{lost} the work does not fit: it stands until a repair"


def _why(best: PlanFigures, least: float, allowed: float) -> str:
    """Return why it fails: `least` is proven for all intervals, `best` only the best of those that were looked at."""
    parts = {"too few hosts": best.standing, "recoveries": best.recovering, "take-overs": best.switching}
    name = max(parts, key=lambda key: parts[key])
    down, most = display.apart(downtime_s(least), downtime_s(allowed), rounding=("down",))
    return f"down at least {down} a month, {most} allowed; most of it: {name}"
