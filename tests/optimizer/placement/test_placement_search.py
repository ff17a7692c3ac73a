"""Placements of everything against all placements, and what counting proves."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_placements import keeps_rules, placements
from work_limits import as_much_work_as_in

from models.planning.placement import Placement
from models.planning.solution import Status
from optimizer.placement import all_placed, most_value, solve
from optimizer.verify.placement_bounds import colour_bound, host_bound, impossible


def all_placements(problem: Placement) -> list[np.ndarray]:
    """Every placement that keeps the rules, by trying every host of every instance."""
    choices = [range(problem.n_hosts) if f < 0 else (f,) for f in problem.fixed_hosts.tolist()]
    found = [np.array(one) for one in itertools.product(*choices)]
    most = problem.max_moves
    return [one for one in found if keeps_rules(problem, one) and (most is None or problem.moves(one) <= most)]


def check_against_all(problem: Placement) -> None:
    everything = all_placements(problem)
    infeasible_set = impossible(problem)
    plan = solve(problem)
    if not everything:
        assert plan.status is Status.INFEASIBLE
        assert plan.reason
        return
    assert infeasible_set is None
    assert plan.status is Status.OPTIMAL
    best = min((int(problem.objective(one)), problem.hosts_used(one)) for one in everything)
    assert (plan.objective, plan.hosts) == best
    assert plan.bound == plan.objective
    assert keeps_rules(problem, plan.host)
    assert problem.fixed is None or (plan.host == problem.fixed)[problem.fixed >= 0].all()
    assert plan.moves == problem.moves(plan.host)
    same = [one for one in everything if (int(problem.objective(one)), problem.hosts_used(one)) == best]
    assert plan.moves == min(map(problem.moves, same))
    assert problem.max_moves is None or plan.moves <= problem.max_moves
    assert host_bound(problem, plan.colours).value <= plan.hosts
    if problem.goal == "colours":
        assert colour_bound(problem).value <= plan.colours


@settings(max_examples=60, deadline=None, derandomize=True)
@given(placements(most=6, hosts=3))
def test_fewest_colours_then_hosts_of_all_placements(problem):
    check_against_all(problem)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(placements(most=6, hosts=3, goal="hosts"))
def test_fewest_hosts_of_all_placements(problem):
    check_against_all(problem)


@st.composite
def running(draw):
    problem = draw(placements(most=5, hosts=3))
    hosts = st.integers(-1, problem.n_hosts - 1)
    current = draw(st.lists(hosts, min_size=problem.n_instances, max_size=problem.n_instances))
    return replace(problem, current=current, max_moves=draw(st.integers(0, 3)))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(running())
def test_few_moves_away_from_a_running_placement_of_all_placements(problem):
    check_against_all(problem)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(running())
def test_the_search_alone_keeps_every_rule_and_counts_moves(problem):
    """Where exact models are not asked, what is said to be a placement is one, and nothing more is claimed."""
    everything = all_placements(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(all_placed, "_SMALL", 0)
        patch.setattr(all_placed, "_MODEL_FIRST", 0)
        with as_much_work_as_in(0.1) as seconds:
            plan = solve(problem, time_limit_s=seconds)
    if plan.status in (Status.OPTIMAL, Status.FEASIBLE):
        assert any((plan.host == one).all() for one in everything)
        assert plan.bound <= min(problem.objective(one) for one in everything) <= plan.objective
    if plan.status is Status.OPTIMAL:
        assert plan.hosts == min((problem.objective(one), problem.hosts_used(one)) for one in everything)[1]
    if plan.status is Status.INFEASIBLE:
        assert not everything
    if plan.status is Status.UNKNOWN and plan.host is not None:
        assert keeps_rules(problem, plan.host)


def all_that_may_be_left_out(problem: Placement) -> list[np.ndarray]:
    choices = [range(-1, problem.n_hosts) if f < 0 else (f,) for f in problem.fixed_hosts.tolist()]
    found = [np.array(one) for one in itertools.product(*choices)]
    most = problem.max_moves
    return [one for one in found if keeps_rules(problem, one) and (most is None or problem.moves(one) <= most)]


@st.composite
def of_most_value(draw):
    problem = replace(draw(st.one_of(placements(most=5, hosts=3), running())), goal="value")
    if draw(st.booleans()):
        return replace(problem, value=problem.values / 7)
    return problem


@pytest.mark.parametrize("small", [3_000, 0])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(problem=of_most_value())
def test_most_value_of_all_that_can_be_placed(small, problem):
    """With 0 no exact model of the whole is asked: then the bound is above and the value below the best."""
    everything = all_that_may_be_left_out(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(most_value, "_SMALL", small)
        plan = solve(problem)
    if not everything:
        assert plan.status is Status.INFEASIBLE
        return
    best = max(problem.objective(one) for one in everything)
    assert plan.objective <= best * (1 + 1e-12) <= plan.bound * (1 + 2e-12)
    assert any((plan.host == one).all() for one in everything)
    if small or plan.status is Status.OPTIMAL:
        assert plan.status is Status.OPTIMAL
        assert plan.objective == pytest.approx(best, rel=1e-9)


@pytest.mark.slow
@settings(max_examples=2_000, deadline=None, derandomize=True)
@given(st.one_of(placements(most=6, hosts=3), running(), placements(most=6, hosts=3, goal="hosts")))
def test_all_goals_of_many_more_placements(problem):
    check_against_all(problem)
