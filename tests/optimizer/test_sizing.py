"""The cheapest system against brute force over plans and a fine grid of intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from models.sizing.answer import Verdict
from models.sizing.chain import not_there
from models.sizing.description import sizing_from
from models.sizing.problem import SizingProblem, SystemPlan
from models.solution import Status
from models.units import parse
from optimizer.sizing import solve
from optimizer.sizing.judge import judge

MTTF, MTTR = 40_000.0, 1200.0


def problem(availability: float = 0.999, mttf_s: float = MTTF, **tables: dict[str, Any]) -> SizingProblem:
    raw: dict[str, Any] = {
        "target": {"availability": availability, "recovery_s": 90.0},
        "work": {"load": 2.2, "utilisation": 0.9},
        "hosts": {"most": 9},
        "failures": {"mttf_s": mttf_s, "mttr_s": MTTR, "crews": (1, 3)},
        "copies": {"levels": (1, 2), "take_over_s": 2.0, "coverage": 0.97, "load": 0.6, "rebuild_s": 100.0},
        "checkpoints": {"pause_s": 0.2, "complete_s": 2.0, "detection_s": 1.0, "restart_s": 4.0},
    }
    for name, table in tables.items():
        raw[name] = raw.get(name, {}) | table
    return SizingProblem(sizing_from(raw, from_file=False), mttf_s, MTTR)


def by_grid(asked: SizingProblem, plan: SystemPlan) -> float:
    """The least unavailability on a fine grid of the allowed intervals; 1 where there is none."""
    if asked.spare(plan) < 1:
        return 1.0
    limits = asked.intervals(plan)
    if limits is None:
        return 1.0
    at = np.geomspace(limits[0], min(limits[1], 500.0), 800)
    found = not_there(asked, plan, asked.recoveries(plan, at), asked.recoveries(plan, at, asked.standing_s(plan)))
    return float(found.total.min())


@pytest.mark.parametrize("availability", [0.99, 0.996, 0.998, 0.9991])
@pytest.mark.parametrize("prices", [{}, {"price_per_s": 1.0}])
def test_the_cheapest_plan_is_that_of_brute_force(availability: float, prices: dict[str, float]) -> None:
    asked = problem(availability, hosts={"most": 9, **prices}, failures={"crew_price_per_s": 0.7} if prices else {})
    found = solve(asked, curve=False)
    meets = [plan for plan in asked.plans() if by_grid(asked, plan) <= asked.allowed]
    if not meets:
        assert found.status is Status.INFEASIBLE
        assert found.chosen is None
        return
    assert found.status is Status.OPTIMAL
    assert found.chosen is not None
    assert found.objective == found.bound == min(map(asked.cost, meets))
    assert found.chosen.plan == meets[0]
    assert found.figures is not None
    assert found.figures.unavailability <= asked.allowed * (1 + 1e-9)


def test_verdicts_hold_for_every_interval_and_bounds_are_close() -> None:
    asked = problem(0.998)
    seen = set()
    for plan in asked.plans():
        one, least = judge(asked, plan), by_grid(asked, plan)
        seen.add(one.verdict)
        assert (one.verdict is Verdict.MEETS) == (least <= asked.allowed)
        if one.least is not None:
            assert one.least <= least
    assert seen == {Verdict.MEETS, Verdict.FAILS}


def test_one_unit_less_of_each_kind_stands_beside_the_plan_with_the_reason() -> None:
    asked = problem(0.998)
    found = solve(asked, curve=False)
    assert found.chosen is not None
    assert found.next_cheaper
    assert {one.verdict for one in found.next_cheaper} == {Verdict.FAILS}
    assert all(one.why and one.cost <= found.chosen.cost for one in found.next_cheaper)
    assert SystemPlan(found.chosen.plan.hosts - 1, found.chosen.plan.copies, found.chosen.plan.crews) in [
        one.plan for one in found.next_cheaper
    ]


def test_what_is_said_of_a_plan_that_fails_is_proven_for_all_its_intervals() -> None:
    asked = problem(0.9985)
    found = solve(asked, curve=False)
    assert found.next_cheaper
    for one in found.next_cheaper:
        if one.best is None:
            continue
        said_s = parse(one.why.split("at least ")[1].split(" a month")[0], "s")
        least_s = by_grid(asked, one.plan) * 30.4375 * 86_400
        assert said_s <= least_s * (1 + 5e-3)  # three digits
        assert one.best.unavailability * 30.4375 * 86_400 == pytest.approx(least_s, rel=1e-4)


def test_the_interval_costs_least_work_of_those_that_meet_the_targets() -> None:
    loose = solve(problem(0.9, target={"recovery_s": None}), curve=False)
    assert loose.interval_note == "costs least work"
    late = solve(problem(0.9), curve=False)
    assert late.interval_note == "the recovery target decides"
    assert late.figures is not None
    assert late.figures.promised_recovery_s == pytest.approx(90.0)
    strict = problem(0.998, target={"recovery_s": None})
    tight = solve(strict, curve=False)
    assert tight.interval_note == "the availability decides"
    assert tight.figures is not None
    assert tight.figures.unavailability == pytest.approx(strict.allowed, rel=1e-6)


def test_an_impossible_target_has_the_best_that_is_possible() -> None:
    asked = problem(0.99999)
    found = solve(asked, curve=False)
    assert found.status is Status.INFEASIBLE
    assert found.possible is not None
    assert found.possible.best is not None
    least = min(by_grid(asked, plan) for plan in asked.plans())
    assert found.possible.best.unavailability == pytest.approx(least, rel=1e-3)
    assert found.possible.best.unavailability <= least * (1 + 1e-9)


def test_a_recovery_that_no_plan_has_names_the_shortest() -> None:
    found = solve(problem(0.9, target={"recovery_s": 6.0}), curve=False)
    assert found.status is Status.INFEASIBLE
    assert found.possible is not None
    assert found.possible.best is None
    assert found.possible.worst_recovery_s == min(
        one.worst_recovery_s for one in found.judged if one.worst_recovery_s is not None
    )


def test_a_budget_below_the_cheapest_plan_makes_it_infeasible() -> None:
    free = solve(problem(0.998, hosts={"most": 9, "price_per_s": 1.0}), curve=False)
    assert free.objective is not None
    for more, status in ((-0.5, Status.INFEASIBLE), (0.0, Status.OPTIMAL)):
        budget = {"availability": 0.998, "budget_per_s": free.objective + more}
        found = solve(problem(0.998, hosts={"most": 9, "price_per_s": 1.0}, target=budget), curve=True)
        assert found.status is status
        assert all(one.cost <= free.objective + more for one in found.judged)
        asked = next(point for point in found.curve if point.unavailability == 0.002)
        assert asked.cost == free.objective  # the curve says what it would cost


def test_the_curve_rises_with_what_is_asked_and_agrees_with_single_answers() -> None:
    found = solve(problem(0.998))
    costs = [point.cost for point in found.curve if point.cost is not None]
    assert costs == sorted(costs)
    assert len(set(costs)) > 1
    for point in found.curve[::3]:
        alone = solve(problem(1 - point.unavailability), curve=False)
        assert alone.objective == point.cost
    assert found.curve[-1].plan is None


def test_more_hosts_can_be_worse_so_that_none_may_be_skipped() -> None:
    asked = problem(0.99, target={"recovery_s": None}, hosts={"most": 60})
    unavailable = [by_grid(asked, SystemPlan(n, 1, 3)) for n in (4, 6, 30, 60)]
    assert unavailable[0] > unavailable[1]
    assert unavailable[3] > unavailable[2]
