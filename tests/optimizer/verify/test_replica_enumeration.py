"""The walk through all plans of replicas: against brute force, and on problems that it has to get through."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replica_cases import drawn, every_plan, problems, value

from models.planning.replicas import ReplicaProblem
from models.planning.solution import Status
from optimizer.replicas.optimise import most_available
from optimizer.verify.replica_enumeration import exact_front


def front_by_hand(problem: ReplicaProblem) -> list[tuple[float, float]]:
    """Return all pairs of cost and value that no other plan is as good as, from every plan."""
    points: list[tuple[float, float]] = []
    for cost, broken in sorted((problem.cost(made), value(problem, made)) for made in every_plan(problem)):
        if not points or broken < points[-1][1] * (1 - 1e-11):
            points.append((cost, broken))
    return points


def same_front(problem: ReplicaProblem) -> None:
    found, wanted = exact_front(problem), front_by_hand(problem)
    assert found is not None
    assert [one.cost for one in found] == pytest.approx([cost for cost, _ in wanted], abs=1e-12)
    assert [one.value for one in found] == pytest.approx([broken for _, broken in wanted], rel=1e-10)
    assert all(problem.violations(one.instances) == [] for one in found)


@settings(max_examples=10, deadline=None)
@given(problems(), st.sampled_from([None, 0, 1, 2]))
def test_the_front_has_every_point_that_brute_force_has(problem: ReplicaProblem, most: int | None) -> None:
    same_front(replace(problem, max_replicas=most))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_the_front_of_four_operators_has_every_point_that_brute_force_has(seed: int) -> None:
    same_front(drawn(seed, n=4, hosts=3 + seed % 2))


@pytest.mark.parametrize("seed", [10, 16, 17, 39])
def test_deployments_of_six_operators_on_five_hosts_are_proven(seed: int) -> None:
    found = most_available(drawn(seed, n=6, hosts=5))
    assert (found.status, found.methods) == (Status.OPTIMAL, ("optimised", "exhaustive"))


def test_a_branch_beyond_the_budget_is_not_walked_to_its_end() -> None:
    """Without replicas that fit, the walk has one level of sets: far fewer nodes than plans."""
    problem = replace(drawn(3, n=6, hosts=5), budget=0.01)
    assert exact_front(problem, most=3_000) is not None
    assert exact_front(replace(problem, budget=None, max_replicas=0), most=3_000) is not None


def test_a_walk_that_may_not_end_gives_up() -> None:
    problem = drawn(3, n=6, hosts=5)
    assert exact_front(problem, most=10) is None
    assert exact_front(problem, deadline=0.0) is None


@settings(max_examples=10, deadline=None)
@given(problems(), st.integers(0, 2**31))
def test_a_plan_that_is_known_changes_no_point(problem: ReplicaProblem, seed: int) -> None:
    every = list(every_plan(problem))
    known = [every[int(np.random.default_rng(seed).integers(len(every)))]] if every else []
    plain, found = exact_front(problem), exact_front(problem, known=known)
    assert plain is not None
    assert found is not None
    assert [one.cost for one in found] == pytest.approx([one.cost for one in plain], abs=1e-12)
    assert [one.value for one in found] == pytest.approx([one.value for one in plain], rel=1e-10)


@settings(max_examples=10, deadline=None)
@given(problems(), st.sampled_from([0.0, 1e-4, 0.01, 0.1]))
def test_the_cheapest_plan_that_is_good_enough_is_found_or_else_the_best(
    problem: ReplicaProblem, allowed: float
) -> None:
    wanted, found = front_by_hand(problem), exact_front(problem, allowed=allowed)
    assert found is not None
    assert bool(found) == bool(wanted)
    good = [cost for cost, broken in wanted if broken <= allowed]
    if good:
        assert next(one.cost for one in found if one.value <= allowed) == pytest.approx(good[0], abs=1e-12)
    elif wanted:
        assert found[-1].value == pytest.approx(wanted[-1][1], rel=1e-10)
        assert found[-1].cost == pytest.approx(wanted[-1][0], abs=1e-12)
