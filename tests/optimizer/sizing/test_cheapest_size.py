"""The cheapest system against brute force over plans and a fine grid of intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from seeds import sample

from models.planning.sizing.chain import not_there
from models.planning.sizing.description import sizing_from
from models.planning.sizing.problem import SizingProblem, SystemPlan, Verdict
from models.planning.solution import Status
from models.units import in_unit, parse
from optimizer.sizing import solve
from optimizer.sizing.feasible_interval import evaluate_plan

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


def recovers_in_time(instance: SizingProblem, plan: SystemPlan, interval_s: float) -> bool:
    """Whether enough losses of all copies of a task recover in time: loss by loss, from scratch."""
    target, points, copies = instance.description.target, instance.description.checkpoints, instance.description.copies
    assert points.complete_s is not None
    down_s, left = points.detection_s + points.restart_s, 1 - points.pause_s / interval_s
    load = instance.description.load * (1 + (plan.copies - 1) * copies.load)
    if interval_s < points.complete_s or plan.hosts * left <= load:
        return False
    if target.recovery_s is None:
        return True
    hosts = plan.hosts - plan.copies  # no fewer hosts can lose a task
    free = hosts * left - load  # hosts that are left to catch up
    stands = hosts < plan.copies or load > hosts * instance.description.work.utilisation or free <= 0
    if stands or (plan.copies > 1 and copies.take_over_s > target.recovery_s):
        return False
    rolled_back_s = points.complete_s + interval_s * (np.arange(2000) + 0.5) / 2000
    recovery_s = down_s + load * (rolled_back_s + down_s) / free
    return bool(np.mean(recovery_s <= target.recovery_s) >= target.recovery_share)


def by_grid(instance: SizingProblem, plan: SystemPlan) -> float:
    """The least unavailability on a fine grid of the intervals that recover in time; 1 where there is none."""
    if instance.spare(plan) < 0:
        return 1.0
    at = np.array([one for one in np.geomspace(0.2, 500.0, 600) if recovers_in_time(instance, plan, one)])
    if not at.size:
        return 1.0
    found = not_there(
        instance, plan, instance.recoveries(plan, at), instance.recoveries(plan, at, instance.standing_s(plan))
    )
    return float(found.total.min())


def levels_problem(rng: np.random.Generator) -> SizingProblem:
    """A problem with up to three copies, whose recovery target decides for some of its plans."""
    coverage, share = float(rng.choice([1.0, 0.97, 0.5])), float(rng.choice([1.0, 0.98, 0.6]))
    return problem(
        float(rng.choice([0.99, 0.998, 0.9995, 0.9999])),
        target={"recovery_s": float(rng.uniform(10, 120)), "recovery_share": share},
        work={"load": float(rng.uniform(0.5, 3.0))},
        copies={"levels": (1, 2, 3), "coverage": coverage, "load": float(rng.choice([0.0, 0.2, 0.6]))},
        checkpoints={"complete_s": float(rng.uniform(0.3, 8.0))},
    )


@pytest.mark.parametrize("seed", sample(2, 60))
def test_with_levels_the_cheapest_plan_recovers_in_time_where_all_copies_are_lost(seed: int) -> None:
    instance = levels_problem(np.random.default_rng(seed))
    found = solve(instance, curve=False)
    met = next((plan for plan in instance.plans() if by_grid(instance, plan) <= instance.allowed), None)
    assert (None if found.chosen is None else found.chosen.plan) == met
    if found.chosen is None:
        return
    assert found.figures is not None
    assert recovers_in_time(instance, found.chosen.plan, found.figures.interval_s * (1 - 1e-3))
    assert found.figures.quantile_recovery_s <= (instance.description.target.recovery_s or 0.0) * (1 + 1e-9)


@pytest.mark.parametrize("seed", sample(3, 60))
def test_the_allowed_intervals_are_those_that_recover_in_time(seed: int) -> None:
    instance = levels_problem(np.random.default_rng(100 + seed))
    seen = set()
    for plan in instance.plans():
        if instance.spare(plan) < 0:
            continue
        limits = instance.intervals(plan)
        for interval_s in np.geomspace(0.1, 2000.0, 60).tolist():
            if limits is not None and min(abs(interval_s / one - 1) for one in limits) < 0.01:
                continue  # the oracle has a finite number of losses
            allowed = limits is not None and limits[0] <= interval_s <= limits[1]
            seen.add((plan.copies, allowed))
            late = plan.copies > 1 and instance.description.copies.take_over_s > (
                instance.description.target.recovery_s or 0.0
            )
            assert recovers_in_time(instance, plan, interval_s) == (allowed and not late)
    assert {allowed for _, allowed in seen} == {True, False}


def test_without_an_availability_to_decide_copies_do_not_stretch_the_interval_beyond_the_recovery_target() -> None:
    copies = {"levels": (2,), "coverage": 1.0}
    instance = problem(0.9, target={"recovery_s": 60.0}, copies=copies)
    found = solve(instance, curve=False)
    assert found.figures is not None
    assert found.interval_note == "the recovery target decides"
    assert found.figures.worst_recovery_s == pytest.approx(60.0)
    free = solve(problem(0.9, target={"recovery_s": None}, copies=copies), curve=False)
    assert free.figures is not None
    assert free.figures.interval_s > 20 * found.figures.interval_s  # losses of both copies are rare


def test_copies_on_so_few_hosts_that_the_loss_of_all_waits_for_a_repair_miss_any_recovery_target() -> None:
    pair: dict[str, Any] = {"copies": {"levels": (2,), "load": 0.0}, "work": {"load": 0.5}}
    one = evaluate_plan(problem(0.9, target={"recovery_s": 1e6}, **pair), SystemPlan(2, 2, 1))
    assert one.verdict is Verdict.FAILS
    assert "stands until a repair" in one.why
    assert evaluate_plan(problem(0.9, target={"recovery_s": 1e6}, **pair), SystemPlan(4, 2, 1)).verdict is Verdict.MEETS
    free = evaluate_plan(problem(0.9, target={"recovery_s": None}, **pair), SystemPlan(2, 2, 1))
    assert free.verdict is Verdict.MEETS
    assert free.at is not None
    assert free.at.worst_recovery_s == math.inf
    assert free.at.mean_recovery_s > MTTR


def test_a_page_of_answers_shares_one_figure_for_the_chosen_plan() -> None:
    found = solve(problem(0.9, target={"recovery_s": None}))
    assert found.chosen is not None
    assert found.evaluated[-1] is found.chosen
    instance = next(point for point in found.curve if point.allowed == problem(0.9).allowed)
    assert instance.at == found.figures == found.chosen.at
    stricter = [one for one in found.curve if one.plan == found.chosen.plan and one.allowed < instance.allowed]
    assert stricter
    for point in stricter:  # the same plan does that at another interval, which is said
        assert point.at is not None
        assert point.at.unavailability <= point.allowed
        assert point.at.interval_s <= instance.at.interval_s  # type: ignore[union-attr]


@pytest.mark.parametrize("availability", [0.99, 0.996, 0.998, 0.9991])
@pytest.mark.parametrize("prices", [{}, {"price_per_s": 1.0}])
def test_the_cheapest_plan_is_that_of_brute_force(availability: float, prices: dict[str, float]) -> None:
    instance = problem(availability, hosts={"most": 9, **prices}, failures={"crew_price_per_s": 0.7} if prices else {})
    found = solve(instance, curve=False)
    meets = [plan for plan in instance.plans() if by_grid(instance, plan) <= instance.allowed]
    if not meets:
        assert found.status is Status.INFEASIBLE
        assert found.chosen is None
        return
    assert found.status is Status.OPTIMAL
    assert found.chosen is not None
    assert found.objective == found.bound == min(map(instance.cost, meets))
    assert found.chosen.plan == meets[0]
    assert found.figures is not None
    assert found.figures.unavailability <= instance.allowed * (1 + 1e-9)


def test_verdicts_hold_for_every_interval_and_bounds_are_close() -> None:
    instance = problem(0.998)
    seen = set()
    for plan in instance.plans():
        one, least = evaluate_plan(instance, plan), by_grid(instance, plan)
        seen.add(one.verdict)
        assert (one.verdict is Verdict.MEETS) == (least <= instance.allowed)
        if one.least is not None:
            assert one.least <= least
    assert seen == {Verdict.MEETS, Verdict.FAILS}


def test_one_unit_less_of_each_kind_stands_beside_the_plan_with_the_reason() -> None:
    instance = problem(0.998)
    found = solve(instance, curve=False)
    assert found.chosen is not None
    assert found.next_cheaper
    assert {one.verdict for one in found.next_cheaper} == {Verdict.FAILS}
    assert all(one.why and one.cost <= found.chosen.cost for one in found.next_cheaper)
    assert SystemPlan(found.chosen.plan.hosts - 1, found.chosen.plan.copies, found.chosen.plan.crews) in [
        one.plan for one in found.next_cheaper
    ]


def test_what_is_said_of_a_plan_that_fails_is_proven_for_all_its_intervals() -> None:
    instance = problem(0.9985)
    found = solve(instance, curve=False)
    assert found.next_cheaper
    for one in found.next_cheaper:
        if one.at is None:
            continue
        said_s = parse(one.why.split("at least ")[1].split(" a month")[0], "s")
        least_s = by_grid(instance, one.plan) * 30.4375 * 86_400
        assert said_s <= least_s * (1 + 5e-3)  # three digits
        assert one.at.unavailability * 30.4375 * 86_400 == pytest.approx(least_s, rel=1e-4)


def test_the_interval_costs_least_work_of_those_that_meet_the_targets() -> None:
    loose = solve(problem(0.9, target={"recovery_s": None}), curve=False)
    assert loose.interval_note == "costs least work"
    late = solve(problem(0.9), curve=False)
    assert late.interval_note == "the recovery target decides"
    assert late.figures is not None
    assert late.figures.quantile_recovery_s == pytest.approx(90.0)
    strict = problem(0.998, target={"recovery_s": None})
    tight = solve(strict, curve=False)
    assert tight.interval_note == "the availability decides"
    assert tight.figures is not None
    assert tight.figures.unavailability == pytest.approx(strict.allowed, rel=1e-6)


def test_an_impossible_target_has_the_best_that_is_possible() -> None:
    instance = problem(0.99999)
    found = solve(instance, curve=False)
    assert found.status is Status.INFEASIBLE
    assert found.possible is not None
    assert found.possible.at is not None
    least = min(by_grid(instance, plan) for plan in instance.plans())
    assert found.possible.at.unavailability == pytest.approx(least, rel=1e-3)
    assert found.possible.at.unavailability <= least * (1 + 1e-9)


def test_a_recovery_that_no_plan_has_names_the_shortest() -> None:
    found = solve(problem(0.9, target={"recovery_s": 6.0}), curve=False)
    assert found.status is Status.INFEASIBLE
    assert found.possible is not None
    assert found.possible.at is None
    assert found.possible.shortest_recovery_s == min(
        one.shortest_recovery_s for one in found.evaluated if one.shortest_recovery_s is not None
    )


def test_a_budget_below_the_cheapest_plan_makes_it_infeasible() -> None:
    free = solve(problem(0.998, hosts={"most": 9, "price_per_s": 1.0}), curve=False)
    assert free.objective is not None
    for more, status in ((-0.5, Status.INFEASIBLE), (0.0, Status.OPTIMAL)):
        budget = {"availability": 0.998, "budget_per_s": free.objective + more}
        found = solve(problem(0.998, hosts={"most": 9, "price_per_s": 1.0}, target=budget), curve=True)
        assert found.status is status
        assert all(one.cost <= free.objective + more for one in found.evaluated)
        instance = next(point for point in found.curve if point.allowed == 0.002)
        assert instance.cost == free.objective  # the curve says what it would cost


def test_the_curve_rises_with_what_is_asked_and_agrees_with_single_answers() -> None:
    found = solve(problem(0.998))
    costs = [point.cost for point in found.curve if point.cost is not None]
    assert costs == sorted(costs)
    assert len(set(costs)) > 1
    for point in found.curve[::3]:
        alone = solve(problem(1 - point.allowed), curve=False)
        assert alone.objective == point.cost
    assert found.curve[-1].plan is None


def test_more_hosts_can_be_worse_so_that_none_may_be_skipped() -> None:
    instance = problem(0.99, target={"recovery_s": None}, hosts={"most": 60})
    unavailable = [by_grid(instance, SystemPlan(n, 1, 3)) for n in (4, 6, 30, 60)]
    assert unavailable[0] > unavailable[1]
    assert unavailable[3] > unavailable[2]


def test_a_cost_is_the_sum_of_the_prices_as_they_are_written() -> None:
    raw: dict[str, Any] = {
        "target": {"availability": 0.99},
        "work": {"load": 1.0},
        "hosts": {"most": 40, "price": "0.7 USD/h"},
        "failures": {"mttf": "20 d", "mttr": "2 h", "crews": [1, 3], "crew_price": "0.1 USD/h"},
        "checkpoints": {"pause": "0.2 s"},
    }
    instance = SizingProblem(sizing_from(raw), 20 * 86_400.0, 7200.0)
    for plan in instance.plans():
        cents = 70 * plan.hosts + 10 * plan.crews
        assert in_unit(instance.cost(plan), "USD/s", "USD/h") == cents / 100
        assert instance.cost(plan) == parse(f"{cents / 100} USD/h", "USD/s")
    assert 18 * (0.7 / 3600) * 3600 != 12.6  # what a sum of floats would be
