"""The checkpoint interval of least slowdown, under a recovery target for streams.

    minimise   slowdown(T - delta)    subject to   recovery(T) <= target,  T >= C,  T > delta / (1 - rho)

slowdown falls up to its exact minimum and rises beyond, and the intervals that meet the target are those between the
two roots of a quadratic, so the answer is the exact minimum or the root next to it. See
`models.planning.checkpoint_interval`.
"""

from __future__ import annotations

import math
import time

from models import display
from models.planning.checkpoint_interval import (
    CheckpointInterval,
    IntervalPlan,
    allowed_intervals,
    exact,
    mean_recovery_s,
    quickest_recovery_interval_s,
    slowdown,
    useful_within,
    worst_recovery_s,
)
from models.planning.solution import Status

_ROUNDING = 1e-12  # relative: what float64 may add to a slowdown


def solve(problem: CheckpointInterval) -> IntervalPlan:
    """Return the best interval; infeasible, with the interval of the shortest recovery, where none meets the target.

    The objective is the slowdown (Daly 2006): expected time of work with failures and checkpoints, per time of the work
    alone. The bound is the same less its rounding, since the optimum is exact within the limits. Without a target the
    status is feasible where the optimum leaves too little time for the work, and unknown where float64 cannot hold the
    slowdown. All times are in seconds.
    """
    began = time.perf_counter()
    allowed = allowed_intervals(problem)
    # None: the recovery target alone leaves no interval.
    if allowed is None:
        return _infeasible(problem, began)
    shortest, longest = allowed
    delta = problem.checkpoint_s
    useful = useful_within(problem, shortest - delta, longest - delta)
    steady = delta / (1 - (problem.utilisation or 0.0))
    # At this length the work just keeps up, so the queue never shrinks: only longer intervals are steady.
    if useful + delta <= steady:  # only without a target: with one all allowed intervals are longer
        return _unsteady(problem, steady, began)
    objective = slowdown(useful, delta, problem.mtbf_s, problem.restart_s)
    if not math.isfinite(objective):
        return _endless(began)
    best = exact(delta, problem.mtbf_s)
    # Below the free optimum the target decides, above it the shortest possible interval.
    note = "" if useful == best else f"the {'recovery target' if useful < best else 'limit below'} decides"
    return _plan(problem, Status.OPTIMAL, useful + delta, objective, objective * (1 - _ROUNDING), note, allowed, began)


def _unsteady(problem: CheckpointInterval, steady_s: float, began: float) -> IntervalPlan:
    """Return the interval that recovers soonest, where the cheapest one leaves too little time for the work."""
    delta = problem.checkpoint_s
    interval = quickest_recovery_interval_s(problem)
    objective = slowdown(interval - delta, delta, problem.mtbf_s, problem.restart_s)
    if not math.isfinite(objective):
        return _endless(began)
    # The infimum over steady intervals is at the excluded end: a bound, but no interval reaches it.
    bound = slowdown(steady_s - delta, delta, problem.mtbf_s, problem.restart_s) * (1 - _ROUNDING)
    note = (
        f"intervals up to {display.duration(steady_s, 6)} leave too little time for the work; this one recovers soonest"
    )
    return _plan(problem, Status.FEASIBLE, interval, objective, bound, note, (steady_s, math.inf), began)


def _endless(began: float) -> IntervalPlan:
    note = "work ends before the next failure so rarely that no float64 holds how long it takes"
    return IntervalPlan(status=Status.UNKNOWN, note=note, wall_s=time.perf_counter() - began)


def _infeasible(problem: CheckpointInterval, began: float) -> IntervalPlan:
    """Return the plan where no interval meets the target: the interval of the shortest recovery, in the note too."""
    interval = quickest_recovery_interval_s(problem)
    possible = worst_recovery_s(problem, interval)
    note = (
        f"no interval recovers within {display.duration(problem.recovery_target_s, 6)}: "
        f"the best that is possible is {display.duration(possible, 6)}, every {display.duration(interval, 6)}"
    )
    return _plan(problem, Status.INFEASIBLE, interval, None, None, note, None, began)


def _plan(
    problem: CheckpointInterval,
    status: Status,
    interval: float,
    objective: float | None,
    bound: float | None,
    note: str,
    allowed: tuple[float, float] | None,
    began: float,
) -> IntervalPlan:
    """Return the plan of an interval [s]; times of recovery only where a utilisation is given."""
    streams = problem.utilisation is not None
    # On average a failure comes in the middle of an interval, and the newest checkpoint may not be complete.
    back = interval / 2 + problem.until_complete_s
    return IntervalPlan(
        status=status,
        objective=objective,
        bound=bound,
        wall_s=time.perf_counter() - began,
        note=note,
        interval_s=interval,
        useful_s=interval - problem.checkpoint_s,
        worst_recovery_s=worst_recovery_s(problem, interval) if streams else None,
        mean_recovery_s=mean_recovery_s(problem, interval) if streams else None,
        least_interval_s=None if allowed is None else allowed[0],
        most_interval_s=None if allowed is None or math.isinf(allowed[1]) else allowed[1],
        mean_replay_records=None if problem.rate_per_s is None else problem.rate_per_s * back,
    )
