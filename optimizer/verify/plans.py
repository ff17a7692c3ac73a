"""Checking selections, steps, placements and intervals without a solver: values recomputed, false claims listed.

Sums are exact. A bound is proven by what the plan carries, by the problem alone, or by trying all that could be better;
it is refuted by a better answer. Where neither succeeds the verdict says so.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from models import display
from models.checked_arrays import LARGEST, FloatArray, IntArray
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
from models.planning.migration_steps import MigrationSteps, StepsPlan
from models.planning.placement import Placement, PlacementPlan
from models.planning.selection import OperatorSelection, QueryPlan, QuerySelection, SelectionPlan
from models.planning.solution import Solution
from optimizer.common.edge_colouring import busiest, coloured
from optimizer.common.enumeration import MOST_ORDERED, colouring, first_of_all_orders, first_of_some_orders
from optimizer.verify.claims import Better, Evidence, Recomputed, Verdict, as_answer, slack, verdict_of
from optimizer.verify.constraints import MOST_LISTED, Violation
from optimizer.verify.placement import verify_placement
from optimizer.verify.selection import recomputed_queries, recomputed_selection

_ROUNDING = 1e-12  # relative: more than float64 adds to a slowdown

Problem = OperatorSelection | QuerySelection | MigrationSteps | Placement | CheckpointInterval


def verify_plan(problem: Problem, plan: Solution, *, gap: float | None = None) -> Verdict:
    """Return the verdict on a plan of the problem's kind; `gap` is what a file claims beside objective and bound.

    The type of the problem decides which verifier is asked, and the plan must be of the same kind. Plans of checkpoints
    and of replicas have entry points of their own (`verify_checkpoints`, `verify_replicas`).
    """
    if isinstance(problem, OperatorSelection):
        assert isinstance(plan, SelectionPlan)
        return verdict_of(plan, gap, recomputed_selection(problem, plan))
    if isinstance(problem, QuerySelection):
        assert isinstance(plan, QueryPlan)
        return verdict_of(plan, gap, recomputed_queries(problem, plan))
    if isinstance(problem, Placement):
        assert isinstance(plan, PlacementPlan)
        return verify_placement(problem, plan, gap=gap)
    if isinstance(problem, CheckpointInterval):
        assert isinstance(plan, IntervalPlan)
        return verdict_of(plan, gap, _interval(problem, plan))
    assert isinstance(plan, StepsPlan)
    return verdict_of(plan, gap, _steps(problem, plan))


def _steps(problem: MigrationSteps, plan: StepsPlan) -> Recomputed:
    durations = problem.durations_s
    weights = np.ones(problem.n_moves) if durations is None else durations
    evidence = _evidence_of_steps(problem, plan.bound, weights)
    at = plan.step if durations is None else plan.start_s
    if at is None:
        return Recomputed([], None, -1, evidence)
    if at.shape != (problem.n_moves,) or (at < 0).any():
        what = "step" if durations is None else "instant"
        rule = f"must have a {what}, at least 0, for each of {problem.n_moves} moves"
        return Recomputed([Violation("shape", rule)], None, -1, evidence)
    found: list[Violation] = []
    ends = at + weights
    for moves in _moves_of_hosts(problem):
        here = moves[np.lexsort((ends[moves], at[moves]))]  # what takes no time may begin with another
        rounding = 1e-9 * float(ends[here].max(initial=0.0))
        for first, second in zip(here[:-1].tolist(), here[1:].tolist(), strict=True):
            if ends[first] > at[second] + rounding and len(found) < MOST_LISTED:
                found.append(Violation("host", f"moves {first} and {second} share a host and overlap"))
    return Recomputed(found, float(ends.max(initial=0.0)), -1, evidence)


def _moves_of_hosts(problem: MigrationSteps) -> list[IntArray]:
    """Return the moves of each host that has any."""
    order = np.argsort(problem.ends.ravel(), kind="stable")
    _, first = np.unique(problem.ends.ravel()[order], return_index=True)
    return np.split(order // 2, first[1:]) if len(order) else []


def _evidence_of_steps(problem: MigrationSteps, bound: float | None, weights: FloatArray) -> Evidence:
    """Return what the busiest hosts need; where the bound is more, a better plan, or a proof that there is none."""
    busy = busiest(problem.ends, weights)[0]
    if problem.durations_s is None:
        known = Evidence(float(math.ceil(busy)), "the busiest hosts prove")
        return known if bound is None else _with_fewer_steps(problem, bound, known)
    known = Evidence(busy, "the busiest hosts prove")
    if bound is None or bound <= busy + slack(busy):
        return known
    few = problem.n_moves <= MOST_ORDERED
    start, end = (first_of_all_orders if few else first_of_some_orders)(problem.ends, weights)
    better = Better(end, as_answer(start))
    return Evidence(end, "all orders of the moves prove", better) if few else Evidence(busy, known.how, better)


def _with_fewer_steps(problem: MigrationSteps, bound: float, known: Evidence) -> Evidence:
    """Return the evidence on a bound of steps: swaps of colours, else all colourings, find fewer steps or none."""
    assert known.bound is not None
    if bound <= known.bound:
        return known
    step, count = coloured(problem.ends, int(known.bound))
    if count < bound - slack(bound):
        return replace(known, better=Better(float(count), as_answer(step)))
    tried = colouring(problem.ends, math.ceil(bound - slack(bound)) - 1)
    if tried.best is not None:
        return replace(known, better=Better(float(tried.best.max() + 1), as_answer(tried.best)))
    return Evidence(bound, "all ways with fewer steps prove") if tried.decided else known


def _interval(problem: CheckpointInterval, plan: IntervalPlan) -> Recomputed:
    allowed = allowed_intervals(problem)
    delta, rho = problem.checkpoint_s, problem.utilisation
    if allowed is None:
        quickest = worst_recovery_s(problem, quickest_recovery_interval_s(problem))
        assert problem.recovery_target_s is not None
        takes, required = display.apart(quickest, problem.recovery_target_s)
        how = f"the shortest recovery is {takes}, {required} is asked"
        beyond = problem.recovery_target_s is not None and quickest > problem.recovery_target_s * (1 - 1e-9)
        found = _said("interval_s", plan.interval_s, quickest_recovery_interval_s(problem)) + _beside(problem, plan)
        return Recomputed(found, None, -1, no_answer=how if beyond else "")
    shortest = max(allowed[0], delta / (1 - (rho or 0.0)))
    evidence = _evidence_of_interval(problem, shortest - delta, allowed[1] - delta)
    interval = plan.interval_s
    if interval is None:
        return Recomputed([], None, -1, evidence)
    found = []
    for least, what in (
        (problem.until_complete_s, "a checkpoint must be complete"),
        (shortest, "the work must keep up"),
    ):
        if not interval >= least * (1 - _ROUNDING):
            found.append(Violation("interval", f"is {interval!r} s, at least {least!r} s are needed: {what}"))
    recovery = worst_recovery_s(problem, interval) if rho is not None and interval > 0 else 0.0
    if problem.recovery_target_s is not None and not recovery <= problem.recovery_target_s * (1 + 1e-9):
        takes, required = display.apart(recovery, problem.recovery_target_s)
        text = f"catching up after a failure may take {takes}, {required} is asked"
        found.append(Violation("recovery", text))
    found += _beside(problem, plan)
    found += _said("most_interval_s", plan.most_interval_s, allowed[1])
    if plan.least_interval_s not in (allowed[0], shortest):  # of the target, or of the work that must keep up as well
        found += _said("least_interval_s", plan.least_interval_s, shortest)
    objective = slowdown(interval - delta, delta, problem.mtbf_s, problem.restart_s) if interval > delta else None
    return Recomputed(found, objective, -1, evidence)


def _evidence_of_interval(problem: CheckpointInterval, least_s: float, most_s: float) -> Evidence:
    """Return the bound of tangents on the slowdown, and the slowdown of the best useful time within the limits."""
    useful = useful_within(problem, least_s, most_s)
    better = None
    if useful > 0:
        objective = slowdown(useful, problem.checkpoint_s, problem.mtbf_s, problem.restart_s)
        better = Better(objective, (useful + problem.checkpoint_s,))
    return Evidence(slowdown_bound(problem, least_s, most_s), "tangents of the slowdown prove", better)


def _beside(problem: CheckpointInterval, plan: IntervalPlan) -> list[Violation]:
    """Return the figures of its interval that a plan states wrongly."""
    interval = plan.interval_s
    if interval is None or not interval > 0:
        return []
    values = {"useful_s": interval - problem.checkpoint_s}
    if problem.utilisation is not None:
        values["worst_recovery_s"] = worst_recovery_s(problem, interval)
        values["mean_recovery_s"] = mean_recovery_s(problem, interval)
    if problem.rate_per_s is not None:
        values["mean_replay_records"] = problem.rate_per_s * (interval / 2 + problem.until_complete_s)
    return [one for name, value in values.items() for one in _said(name, getattr(plan, name), value, interval)]


def _said(name: str, said: float | None, value: float, size: float = 0.0) -> list[Violation]:
    """Return a violation where a number is not the one that comes out; `size` is what it was computed from."""
    if said is None or said == value or abs(said - value) <= min(slack(max(abs(value), size)), LARGEST):
        return []
    return [Violation(name.removesuffix("_s"), f"says {name} {said!r}, recomputed {value!r}")]


def slowdown_bound(problem: CheckpointInterval, least_s: float, most_s: float) -> float:
    """Return a lower bound of the slowdown between two limits of useful time [s]: the best of some tangents.

    The slowdown is that of Daly (2006), e^(R/M) (e^((tau + delta) / M) - 1) M / tau, for useful time tau, checkpoint
    delta, restart R and mean time between failures M. The exponential is above its tangents, e^x >= e^y (1 + x - y), so
    slowdown(tau) >= e^(R/M) (e^y + B(y) / tau) with B(y) = M (e^y (1 - y + delta / M) - 1). The right side is least at
    the upper limit where B > 0, else at the lower.
    """
    mean = problem.mtbf_s
    best = 1.0
    top = min(most_s, 700.0 * mean)
    middle = exact(problem.checkpoint_s, mean)
    within = min(max(middle, least_s), top)
    touched = [(useful + problem.checkpoint_s) / mean for useful in (least_s, within, top)]
    # a hair below the optimum B is above 0 whatever rounding does: then no lower limit is needed
    for y in (*touched, touched[1] - 1e-12 * (1 + touched[1])):
        if not 0 < y <= 700.0:
            continue
        # e^y (1 - y + d) - 1 without cancellation for small y: (e^y - 1)(1 - y + d) - (y - d)
        d = problem.checkpoint_s / mean
        slope = mean * (math.expm1(y) * (1 - y + d) - (y - d))
        at = most_s if slope > 0 else least_s
        if at > 0:
            best = max(best, math.exp(problem.restart_s / mean) * (math.exp(y) + slope / at))
    return best * (1 - _ROUNDING)


def reason_of_bound(problem: MigrationSteps, bound: float, nodes: tuple[int, ...] | None = None) -> str:
    """Return in words what proves the bound of a migration: the hosts whose moves take so many steps, or so long.

    `nodes` are the busiest ends, if they are known already. Where transfers are duplex, an end is a host that sends
    (numbers from 0) or one that receives (numbers from the highest host number + 1).
    """
    durations = problem.durations_s
    if nodes is None:
        _, nodes = busiest(problem.ends, np.ones(problem.n_moves) if durations is None else durations)
    amount = f"{int(bound)} steps" if durations is None else display.duration(bound, 6)
    if not nodes:
        return "there is nothing to move"
    if len(nodes) > 1:
        return f"moves among hosts {', '.join(map(str, nodes[:12]))} need {amount}"
    if not problem.duplex:
        return f"host {nodes[0]} takes part in moves that need {amount}"
    offset = int(problem.moves.max()) + 1
    side = "sends" if nodes[0] < offset else "receives"
    return f"host {nodes[0] % offset} {side} in {amount}, one move at a time"
