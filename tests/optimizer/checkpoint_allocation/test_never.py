"""Equal loads beside costs that mean "never": the flow has too few bits for both at once."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import Status
from optimizer.checkpoint_allocation import solve
from optimizer.checkpoint_allocation.exact import _by_count
from optimizer.checkpoint_allocation.params import DEFAULT
from optimizer.verify.checkpoints import verify_checkpoints


def counted(never: float, *, checkpoints: int = 300, nodes: int = 12, dtype: type = np.float64) -> CheckpointAllocation:
    """Costs from 1 to 10, of which each third is "never", and room for one checkpoint more than there must be."""
    draw = np.random.default_rng(1)
    cost = draw.uniform(1, 10, (checkpoints, nodes)).astype(np.float32)
    cost[draw.random(cost.shape) < 0.3] = never
    room = np.full(nodes, checkpoints // nodes + 1.0)
    return CheckpointAllocation(cost.astype(dtype), np.ones(checkpoints), capacity=room)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("never", [1e9, 1e12, 1e15, 1e30])
def test_never_is_as_good_as_forbidden(never, dtype):
    problem = counted(never, dtype=dtype)
    forbidden = np.argwhere(problem.cost > 10)
    true = solve(replace(problem, cost=np.minimum(problem.cost, 10), forbidden=forbidden))
    plan = solve(problem)
    assert (plan.status, plan.objective) == (Status.OPTIMAL, true.objective)
    verdict = verify_checkpoints(problem, plan)
    assert (verdict.ok, verdict.not_checked) == (True, ())


def test_a_core_of_the_pairs_is_proven_beside_never():
    true = solve(counted(1e12))
    sizes = replace(DEFAULT.sizes, flow=0)
    plan = solve(counted(1e15), parameters=replace(DEFAULT, sizes=sizes))
    assert "core" in plan.note
    assert (plan.status, plan.objective) == (Status.OPTIMAL, true.objective)


COSTS = st.sampled_from([0.0, 0.1, 1.0, 3.0, 7.5, -2.0, 1e12, 1e15, 3e15, 1e30])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(COSTS, min_size=3, max_size=3), min_size=2, max_size=5), st.integers(1, 3))
def test_no_bound_is_above_the_best_of_all(cost, room):
    problem = CheckpointAllocation(cost, np.ones(len(cost)), capacity=[room, room, 1])
    found = _by_count(problem, DEFAULT)
    values = [
        sum(Fraction(row[n]) for row, n in zip(cost, nodes, strict=True))
        for nodes in itertools.product(range(3), repeat=len(cost))
        if (np.bincount(nodes, minlength=3) <= [room, room, 1]).all()
    ]
    if found.assignment is None:
        assert not values
        return
    best = min(values)
    assert found.bound <= float(best)  # the nearest float64 of the exact sum, as objectives are
    assert sum(Fraction(row[n]) for row, n in zip(cost, found.assignment.tolist(), strict=True)) >= best
    plan = solve(problem)
    if plan.status is Status.OPTIMAL:
        assert abs(Fraction(plan.objective) - best) <= Fraction(1e-9) * abs(best)
