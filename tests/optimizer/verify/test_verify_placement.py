"""Plans of placement that were made wrong on purpose: each rule and each claim is checked without a solver."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_placements import keeps_rules, placements

from models.planning.placement import Placement, PlacementPlan
from models.planning.solution import Status
from optimizer.common.reasons import placement_reasons
from optimizer.placement import FITS, fitted, solve
from optimizer.placement.budget import Budget, infeasible_plan
from optimizer.verify.placement import broken_rules, counted_bound, only
from optimizer.verify.placement_bounds import impossible
from optimizer.verify.plans import verify_plan

PROBLEM = Placement(
    [3, 3, 2, 2],
    [6, 6, 6],
    network=[1, 1, 1, 1],
    host_network=[2, 2, 2],
    operator=[0, 0, 1, 2],
    colour=[0, 0, 1, 1],
    failure_domain=[0, 0, 1],
    fixed=[0, -1, -1, -1],
    current=[0, 1, 2, 2],
)


def plan_of(host):
    return PlacementPlan(status=Status.FEASIBLE, host=host)


def test_a_right_plan_holds():
    plan = solve(PROBLEM)
    assert (plan.status, plan.objective, plan.hosts) == (Status.OPTIMAL, 1.0, 3)
    verdict = verify_plan(PROBLEM, plan, gap=plan.gap)
    assert verdict.ok
    assert verdict.not_checked == ()


@pytest.mark.parametrize(
    ("changes", "host", "kind", "text"),
    [
        ({}, (0, 1, 2), "shape", "each of 4 instances"),
        ({}, (0, 1, 2, 3), "range", "instance 3 is on host 3"),
        ({}, (0, 1, 2, -1), "unplaced", "instance 3 is on no host"),
        ({"cpu": [3, 5, 2, 2]}, (0, 1, 1, 2), "capacity", "host 1 has cpu 6.0, 7.0 is taken"),
        ({}, (0, 1, 1, 1), "capacity", "host 1 has network 2.0, 3.0 is taken"),
        ({"fixed": None}, (0, 0, 1, 1), "anti_affinity", "instances 0 and 1 of operator 0 share a host"),
        ({"anti_affinity": "domain"}, (0, 1, 2, 2), "anti_affinity", "share a failure domain"),
        ({"max_colours": 1}, (0, 1, 1, 2), "colours", "host 1 has 2 colours"),
        ({}, (1, 0, 2, 2), "fixed", "instance 0 is on host 1"),
        ({"max_moves": 0}, (0, 2, 1, 1), "moves", "3 instances move"),
    ],
)
def test_each_broken_rule_is_named(changes, host, kind, text):
    problem = replace(PROBLEM, **changes)
    found = list(broken_rules(problem, plan_of(host).host))
    assert any(one.kind == kind and text in one.text for one in found)
    assert not verify_plan(problem, plan_of(host)).ok


@pytest.mark.parametrize(
    ("claims", "text"),
    [
        ({"objective": 2.0}, "says objective 2.0, recomputed 1.0"),
        ({"colours": 2}, "says colours 2, recounted 1"),
        ({"hosts": 2}, "says hosts 2, recounted 3"),
        ({"moves": 9}, "says moves 9, recounted 0"),
        ({"unplaced": 1}, "says unplaced 1, recounted 0"),
        ({"hosts_bound": 4}, "says at least 4 hosts, uses 3"),
        ({"hosts_bound": 2}, "says optimal with 3 hosts and a bound of 2"),
        ({"bound": 2.0}, "says bound 2.0"),
        ({"bound": 0.5}, "says optimal with gap"),
        ({"host": None, "objective": None}, "without a placement"),
    ],
)
def test_each_false_claim_is_named(claims, text):
    plan = replace(solve(PROBLEM), **claims)
    assert any(text in one.text for one in verify_plan(PROBLEM, plan).violations)


def test_a_false_infeasible_is_refuted_by_a_placement():
    verdict = verify_plan(PROBLEM, PlacementPlan(status=Status.INFEASIBLE))
    assert not verdict.ok
    assert verdict.counterexample is not None


def test_what_counting_shows_to_be_infeasible_is_proven():
    problem = Placement([4, 4, 4], [6, 6], goal="hosts")
    plan = solve(problem)
    assert plan.status is Status.INFEASIBLE
    assert "which counting proves" in verify_plan(problem, plan).checked[0]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(placements(), st.sampled_from(["colours", "hosts", "value"]), st.sampled_from(list(FITS)))
def test_plans_of_fits_hold_and_never_pass_the_bound_that_counting_proves(problem, goal, method):
    problem = replace(problem, goal=goal)
    plan = fitted(problem, method)
    verdict = verify_plan(problem, plan, gap=plan.gap)
    assert verdict.ok
    if plan.status in (Status.OPTIMAL, Status.FEASIBLE):
        sign = 1 if goal == "value" else -1
        assert sign * (counted_bound(problem) - plan.objective) >= -1e-9
        assert plan.unplaced == (plan.host < 0).sum()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(placements(), st.sampled_from(["colours", "hosts", "value"]))
def test_whatever_is_solved_holds(problem, goal):
    problem = replace(problem, goal=goal)
    plan = solve(problem)
    assert verify_plan(problem, plan, gap=plan.gap).ok


@settings(max_examples=60, deadline=None, derandomize=True)
@given(placements())
def test_a_reason_against_a_host_names_a_rule_that_would_break(problem):
    plan = solve(problem)
    if plan.host is None:
        return
    most = plan.colours
    for row in placement_reasons(problem, plan):
        assert row.host == plan.host[row.instance]
        for other in row.elsewhere:
            trial = plan.host.copy()
            trial[row.instance] = other.host
            possible = keeps_rules(replace(problem, max_colours=most), trial) and problem.fixed_hosts[row.instance] < 0
            assert possible == (other.why_not in ("it would take one more host", "nothing is gained"))


@pytest.mark.parametrize("colours", [1, None])
def test_a_bound_of_hosts_is_refuted_by_a_placement_whether_or_not_the_plan_names_its_colours(colours):
    problem = Placement([1, 1, 1, 1], [2, 2, 2, 2], colour=[0, 0, 1, 1])
    plan = replace(solve(problem), host=[0, 1, 2, 3], hosts=4, hosts_bound=4, colours=colours)
    verdict = verify_plan(problem, plan)
    assert "a placement of as few colours uses 2" in verdict.violations[0].text
    assert verdict.counterexample == (0, 0, 1, 1)


@settings(max_examples=60, deadline=None)
@given(placements(goal="hosts", hosts=3, most=5))
def test_an_infeasible_set_is_proven_or_refuted_or_said_not_to_be_checked(problem):
    counted = impossible(problem)
    if counted is None:
        return
    plan = infeasible_plan(counted, Budget(10.0))
    verdict = verify_plan(problem, plan)
    assert (verdict.ok, verdict.not_checked) == (True, ())
    assert "by themselves, which counting proves" in verdict.checked[-1]
    fewer = replace(plan, infeasible_set=plan.infeasible_set[:-1])
    alone, verdict = only(problem, fewer.infeasible_set), verify_plan(problem, fewer)
    possible = any(
        keeps_rules(alone, np.array(host)) and all(f in (-1, h) for f, h in zip(alone.fixed_hosts, host, strict=True))
        for host in itertools.product(range(problem.n_hosts), repeat=alone.n_instances)
    )
    if not verdict.ok:
        assert possible or not len(fewer.infeasible_set)
    elif not verdict.not_checked:
        assert not possible


@pytest.mark.parametrize(
    ("infeasible_set", "text"),
    [([1, 3], "which can be placed by themselves"), ([], "must be different"), ([1, 3, 9], "0 .. 4")],
)
def test_an_infeasible_set_that_is_none_does_not_hold(infeasible_set, text):
    problem = Placement([1, 4, 1, 4, 4], [5, 5], goal="hosts")
    plan = solve(problem)
    assert verify_plan(problem, plan).ok
    verdict = verify_plan(problem, replace(plan, infeasible_set=infeasible_set))
    assert not verdict.ok
    assert text in verdict.violations[0].text


def test_an_infeasibility_that_counting_does_not_show_is_proven_by_trying_all():
    problem = Placement([5, 5, 5, 3, 3, 3], [7, 8, 9], goal="hosts")
    assert impossible(problem) is None
    plan = solve(problem)
    assert plan.status is Status.INFEASIBLE
    verdict = verify_plan(problem, plan)
    assert (verdict.holds, verdict.not_checked) == (True, ())
    assert verdict.checked[0] == "that there is no placement, which all placements prove"


def test_with_goal_value_a_placement_may_leave_instances_out_so_it_is_not_infeasible():
    current = {"current": [1, 0, 0, 1, 1], "max_moves": 2}
    problem = Placement([3, 4, 3, 3, 2], [6, 6], goal="value", value=[16, 19, 18, 5, 6], **current)
    verdict = verify_plan(problem, PlacementPlan(status=Status.INFEASIBLE))
    assert (verdict.holds, verdict.counterexample is None) == (False, False)


def test_an_infeasibility_that_takes_a_solver_is_said_not_to_be_proven():
    draw = np.random.default_rng(0)
    load = draw.integers(300, 600, 48)
    problem = Placement(load, [float(load.sum() // 16 + 1)] * 16, goal="hosts")
    assert impossible(problem) is None
    verdict = verify_plan(problem, PlacementPlan(status=Status.INFEASIBLE))
    assert verdict.not_checked == ("that there is no placement, which takes a solver",)
    assert verdict.holds is None
