"""Loads of any size, and prices of a former plan that no price can be: no warning, and the answer is the same."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from models.planning.solution import Status
from optimizer.checkpoint_allocation import solve
from optimizer.checkpoint_allocation.units import units_of
from optimizer.verify.checkpoints import verify_checkpoints

POWERS = (-330, 320)


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def drawn(n_checkpoints: int, n_nodes: int, factor: float = 1.0, *, spread: bool = False) -> CheckpointAllocation:
    """A problem whose loads are those of factor 1, times a factor; `spread`: with other loads on each node."""
    draw = np.random.default_rng(5)
    cost = draw.random((n_checkpoints, n_nodes))
    load = draw.integers(4, 9, size=cost.shape if spread else n_checkpoints) / 8.0
    room = np.full(n_nodes, 1.1 * 0.75 * n_checkpoints / n_nodes)
    return CheckpointAllocation(cost, load * factor, room * factor)


def figures(plan: CheckpointPlan) -> tuple[object, ...]:
    assert plan.assignment is not None
    return plan.objective, plan.bound, plan.status, plan.assignment.tolist()


@pytest.mark.parametrize(("n_checkpoints", "n_nodes", "spread"), [(12, 4, True), (24, 5, False)])
def test_loads_and_capacities_times_a_power_of_two_change_nothing_but_prices(n_checkpoints, n_nodes, spread):
    plain = solve(drawn(n_checkpoints, n_nodes, spread=spread))
    for power in POWERS:
        problem = drawn(n_checkpoints, n_nodes, 2.0**power, spread=spread)
        plan = solve(problem)
        assert figures(plan) == figures(plain), power
        verdict = verify_checkpoints(problem, plan)
        assert verdict.ok
        assert (
            verdict.not_checked == verify_checkpoints(drawn(n_checkpoints, n_nodes, spread=spread), plain).not_checked
        )
        again = solve(problem, hint=plan)
        assert again.objective == plan.objective


def test_room_far_above_tiny_loads_and_loads_below_all_precision_are_solved():
    problem = drawn(40, 5, 2.0**-330)
    roomy = replace(problem, capacity=np.full(5, 1e100))
    assert solve(roomy).objective == solve(replace(problem, capacity=None)).objective
    tiny = replace(problem, load=problem.load * 2.0**-690, capacity=problem.upper * 2.0**-690)
    plan = solve(tiny)
    assert plan.objective == solve(problem).objective
    assert verify_checkpoints(tiny, plan).ok


@pytest.mark.slow
@pytest.mark.parametrize(("price", "factor"), [(1e39, 1.0), (-1e39, 1.0), (1e148, 2.0**-200), (1e39, 2.0**200)])
def test_prices_of_a_former_plan_that_no_price_can_be_are_none(price, factor):
    first = drawn(256, 20, factor)
    plan = solve(first)
    changed = replace(first, current=plan.assignment, max_moves=20, capacity=first.upper * np.linspace(0.9, 1.4, 20))
    bare = replace(plan, prices=None)
    absurd = replace(plan, prices=np.full(20, price / factor))
    assert figures(solve(changed, hint=absurd)) == figures(solve(changed, hint=bare))


def test_room_is_never_cut_below_the_loads():
    """The smallest load keeps the unit near 1, where the largest are far above what room is cut to."""
    problem = CheckpointAllocation(
        cost=np.zeros((3, 1)), load=np.array([1e90, 1e90, 1e-300]), capacity=np.array([2e90])
    )
    scaled = units_of(problem).scaled(problem)
    assert scaled.capacity is not None
    assert (scaled.load.sum() <= scaled.capacity).all()
    assert solve(problem).status is Status.OPTIMAL


def test_loads_whose_sum_no_capacity_may_be_are_infeasible_and_no_error():
    problem = CheckpointAllocation(cost=np.zeros((3, 1)), load=np.full(3, 4e99), capacity=np.array([1e100]))
    plan = solve(problem)
    assert plan.status is Status.INFEASIBLE
    assert "exceeds" in plan.note
