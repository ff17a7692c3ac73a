"""Verdicts on plans whose units stay: nothing is said that the bounds do not say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from models.planning.sizing.description import sizing_from
from models.planning.sizing.problem import SizingProblem, SystemPlan, Verdict
from models.planning.sizing.sticky_placement import StickyPlacement, at_most
from models.planning.solution import Status
from optimizer.sizing import solve
from optimizer.sizing.feasible_interval import evaluate_plan

MTTF, MTTR = 40_000.0, 600.0


def problem(availability: float, **tables: dict[str, Any]) -> SizingProblem:
    raw: dict[str, Any] = {
        "target": {"availability": availability},
        "work": {"load": 1.2},
        "hosts": {"most": 5},
        "failures": {"mttf_s": MTTF, "mttr_s": MTTR, "crews": 2},
        "checkpoints": {"pause_s": 0.1, "complete_s": 1.0, "detection_s": 1.0, "restart_s": 4.0},
        "units": {"count": 10},
    }
    for name, table in tables.items():
        raw[name] = raw.get(name, {}) | table
    return SizingProblem(sizing_from(raw, from_file=False), MTTF, MTTR)


def bounds(instance: SizingProblem, plan: SystemPlan) -> tuple[float, float]:
    """The least of either bound on a fine grid of intervals."""
    sticky = StickyPlacement.of(instance, plan)
    assert sticky is not None
    times = [float(one) for one in np.geomspace(1.0, 600.0, 60)]
    target, share = instance.description.target.recovery_s, instance.description.target.recovery_share
    good = [one for one in times if target is None or sticky.in_time(one, target) >= share]
    high = min((at_most(sticky, one).total for one in good[::8]), default=1.0)
    return min(sticky.at_least(one, one) for one in times), high


@pytest.mark.parametrize("availability, recovery_s", [(0.97, None), (0.995, 30.0), (0.9995, None)])
def test_plans_meet_and_fail_only_where_the_bounds_of_a_fine_grid_say_so(
    availability: float, recovery_s: float | None
) -> None:
    instance = problem(
        availability, target={"availability": availability, "recovery_s": recovery_s, "recovery_share": 0.6}
    )
    found = solve(instance, curve=False)
    for one in found.evaluated:
        if instance.spare(one.plan) < 0:
            continue
        low, high = bounds(instance, one.plan)
        if one.verdict is Verdict.MEETS:
            assert low <= instance.allowed
            assert one.at is not None
            assert one.at.unavailability <= instance.allowed
        elif one.verdict is Verdict.FAILS and one.least is not None:
            assert one.least <= low * (1 + 1e-9)
            assert low > instance.allowed
        else:
            assert high > instance.allowed * (1 - 0.02)  # the intervals looked at are fewer
    if found.chosen is not None:
        before = [one.verdict for one in found.evaluated[:-1]]
        assert (found.status is Status.OPTIMAL) == (found.bound == found.objective)
        assert (Verdict.OPEN in before) or found.status is Status.OPTIMAL


def test_a_plan_on_the_curve_recovers_in_time_and_its_bound_is_below_its_cost() -> None:
    target = {"availability": 0.9995, "recovery_s": 20.0, "recovery_share": 0.5}
    instance = problem(0.9995, target=target)
    found = solve(instance)
    assert any(point.plan is not None for point in found.curve)
    for point in found.curve:
        if point.plan is None or point.cost is None:
            continue
        assert point.bound is not None
        assert point.bound <= point.cost
        one = evaluate_plan(instance, point.plan, point.allowed)
        assert one.verdict is Verdict.MEETS
        assert one.at is not None
        sticky = StickyPlacement.of(instance, point.plan)
        assert sticky is not None
        assert sticky.in_time(one.at.interval_s, 20.0) >= 0.5


def test_the_interval_that_is_used_meets_the_targets() -> None:
    target = {"availability": 0.99, "recovery_s": 25.0, "recovery_share": 0.6}
    instance = problem(0.99, target=target)
    found = solve(instance, curve=False)
    assert found.chosen is not None
    assert found.figures is not None
    sticky = StickyPlacement.of(instance, found.chosen.plan)
    assert sticky is not None
    assert at_most(sticky, found.figures.interval_s).total <= instance.allowed
    assert sticky.in_time(found.figures.interval_s, 25.0) >= 0.6
    assert found.figures.quantile_recovery_s is not None
    assert found.figures.quantile_recovery_s <= 25.0 * (1 + 1e-9)


def test_the_mean_recovery_is_at_most_the_longest() -> None:
    found = solve(problem(0.99, target={"availability": 0.99, "recovery_s": 60.0}))
    evaluated = [one.at for one in found.evaluated if one.at is not None]
    assert evaluated
    assert all(one.mean_recovery_s <= one.worst_recovery_s for one in evaluated)


def test_fewer_crews_are_never_better_and_too_many_placements_are_left_open() -> None:
    instance = problem(0.9)
    one, two = (StickyPlacement.of(instance, SystemPlan(4, 1, crews)) for crews in (1, 2))
    assert one is not None
    assert two is not None
    assert at_most(one, 30.0).total > at_most(two, 30.0).total
    large = problem(0.9, units={"count": 64}, hosts={"most": 12})
    verdict = evaluate_plan(large, SystemPlan(12, 1))
    assert verdict.verdict is Verdict.OPEN
    assert "too many placements" in verdict.why
