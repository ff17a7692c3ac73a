"""The feasible interval of a plan, if any meets the target: branch and bound on the checkpoint interval.

With R_f(T) the mean recovery with f hosts down, P(not serving) rises with each R_f apart
(models.planning.sizing.chain). Each R_f falls up to its own T_f and rises after it. So below the least T_f shorter
intervals are worse for all f, above the greatest longer ones are: the best interval lies between, within what the
recovery target allows. On a cell [a, b] of that, R_f >= R_f(T_f moved into [a, b]), and these together give a lower
bound for all intervals of the cell. Cells whose bound is above the best that was found, or above the target, are done;
the others are split.

With sticky placement there is no exact figure (models.planning.sizing.sticky_placement), but bounds of both sides: a
plan meets the target if at some interval the bound from above does, and fails if the bound from below misses it at
every interval. On a cell [a, b] of intervals that one is taken with what a rolls back and the time that b leaves;
behind the last cell is [z, infinity). Plans between stay open, and what is found is then no more than feasible, with
the cheapest open plan as the bound of the cost."""

from __future__ import annotations

import math

import numpy as np

from models import display
from models.checked_arrays import FloatArray
from models.planning.checkpoint_interval import exact
from models.planning.sizing.chain import NotThere, not_there
from models.planning.sizing.problem import EvaluatedPlan, PlanFigures, SizingProblem, SystemPlan, Verdict
from models.planning.sizing.sticky_placement import StickyPlacement, at_most
from models.reliability.times import downtime_s

_POINTS = 9
_LONGEST = 32.0  # of the interval of least slowdown
_STICKY_ROUNDING = 1e-6  # relative: what a sparse solution may be off by
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
    least = _least_of_sticky(sticky, points) * (1 - _STICKY_ROUNDING)
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
        unavailability=found.total * (1 + _STICKY_ROUNDING),
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


def _least_of_sticky(sticky: StickyPlacement, points: list[float]) -> float:
    """Return a bound of the unavailability at every interval."""
    return min(sticky.at_least(one, other) for one, other in _cells(points))


def _late(sticky: StickyPlacement, points: list[float]) -> str:
    """Return why no interval recovers failures in time; empty where one may."""
    target, share = sticky.problem.description.target.recovery_s, sticky.problem.description.target.recovery_share
    if target is None:
        return ""
    most = max(sticky.at_best_in_time(one, other, target) for one, other in _cells(points))
    if most >= share * (1 - _STICKY_ROUNDING):
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
        verdict, why = Verdict.FAILS, _why(problem, best, min(least, best.unavailability), allowed)
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
    fewest = display.count(problem.fewest_hosts(plan.copies), problem.host_word)
    tasks, slots = problem.description.work.parallelism, problem.description.hosts.slots or 1
    if tasks is not None and plan.hosts * slots < tasks:
        return f"{display.count(tasks, 'task')} need {fewest}, which have {display.count(slots, 'slot')} each"
    return f"the work needs {fewest}"


def _too_late(problem: SizingProblem, plan: SystemPlan) -> tuple[str, float] | None:
    """Return why no interval recovers in time, and the shortest recovery [s]; None where one does."""
    target, take_over_s = problem.description.target.recovery_s, problem.description.copies.take_over_s
    if target is None:
        return None
    if not problem.survives_loss(plan):
        return _stands(problem, plan), problem.standing_s(plan)
    if plan.copies > 1 and take_over_s > target:
        return f"the take-over takes {display.duration(take_over_s)}", take_over_s
    if problem.intervals(plan) is not None:
        return None
    quickest = problem.quickest_recovery_s(plan)
    best, required = display.apart(quickest, target)
    lost = f" where all {plan.copies} copies of a task are lost" if plan.copies > 1 else ""
    return f"recovery takes {best} at best{lost}, {required} asked", quickest


def _stands(problem: SizingProblem, plan: SystemPlan) -> str:
    """Return why the loss of all copies of a task waits for a repair."""
    if plan.copies == 1:
        return f"with one {problem.host_word} down the work does not fit: it stands until the repair"
    lost = f"with {plan.copies} hosts down, which may hold all copies of a task,"
    return f"{lost} the work does not fit: it stands until a repair"


def _why(problem: SizingProblem, best: PlanFigures, least: float, allowed: float) -> str:
    """Return why it fails: `least` is proven for all intervals, `best` only the best of those that were looked at."""
    few = f"too few {problem.host_word}s"
    parts = {few: best.standing, "recoveries": best.recovering, "take-overs": best.switching}
    name = max(parts, key=lambda key: parts[key])
    down, most = display.apart(downtime_s(least), downtime_s(allowed), rounding=("down",))
    return f"down at least {down} a month, {most} allowed; most of it: {name}"
