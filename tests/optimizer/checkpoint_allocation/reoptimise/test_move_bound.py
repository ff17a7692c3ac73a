"""The bound of prices with few moves: never above the truth, never below the bound without moves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from work_limits import as_much_work_as_in

from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import Status
from optimizer.checkpoint_allocation import solve
from optimizer.verify.checkpoint_bounds import lagrangian_bound, move_bound
from optimizer.verify.checkpoints import verify_checkpoints
from optimizer.verify.constraints import constraint_violations


def drawn(seed: int) -> CheckpointAllocation:
    draw = np.random.default_rng(seed)
    j, n = int(draw.integers(2, 7)), int(draw.integers(2, 4))
    load = draw.integers(0, 6, (j, n))
    return CheckpointAllocation(
        cost=draw.integers(0, 20, (j, n)),
        load=load,
        capacity=np.maximum(load.sum(axis=0) * draw.uniform(0.5, 0.9, n), load.max()),
        capacity_min=np.minimum(load.sum(axis=0) * 0.1, 1.0),
        current=draw.integers(0, n, j),
        max_moves=int(draw.integers(0, j + 1)),
        forbidden=[[0, int(draw.integers(n))]] if draw.random() < 0.3 else [],
    )


def least(problem: CheckpointAllocation) -> float:
    every = (np.array(one) for one in itertools.product(range(problem.n_nodes), repeat=problem.n_checkpoints))
    return min((problem.objective(one) for one in every if not constraint_violations(problem, one)), default=np.inf)


def test_no_prices_prove_more_than_is_true_nor_less_than_without_moves():
    met = sharper = 0
    for seed in range(60):
        problem = drawn(seed)
        truth, draw = least(problem), np.random.default_rng(seed)
        met += np.isfinite(truth)
        for prices in (np.zeros(problem.n_nodes), *draw.normal(1.0, 3.0, (8, problem.n_nodes))):
            found, without = move_bound(problem, prices), lagrangian_bound(problem, prices)
            assert found <= truth
            assert found >= without - 1e-9 * max(1.0, abs(without))
            sharper += found > without + 1e-6
    assert met >= 20
    assert sharper >= 100


@pytest.mark.parametrize("checkpoints", [300, 3_000])
def test_one_move_away_from_a_poor_plan_is_proven_at_once(checkpoints):
    """Room for all but a little: the least costs are far below what one move reaches."""
    draw = np.random.default_rng(0)
    cost = draw.random((checkpoints, 4))
    current = np.zeros(checkpoints, dtype=np.int64)
    load, capacity = draw.uniform(0.5, 1.0, checkpoints), np.full(4, 1.0 * checkpoints)
    problem = CheckpointAllocation(
        cost=cost, load=load, capacity=capacity, capacity_min=np.array([0.5, 0, 0, 0]), current=current, max_moves=1
    )
    with as_much_work_as_in(1.0) as seconds:
        plan = solve(problem, time_limit_s=seconds)
    best = cost[:, 0].sum() - (cost[:, 0] - cost.min(axis=1)).max()
    assert plan.objective == pytest.approx(best, rel=1e-12)
    assert plan.status is Status.OPTIMAL
    verdict = verify_checkpoints(problem, plan)
    assert (verdict.violations, verdict.not_checked) == ((), ())


def test_a_plan_of_few_moves_is_not_proven_above_the_truth_by_its_prices():
    problem = drawn(1)
    with as_much_work_as_in(1.0) as seconds:
        plan = solve(problem, time_limit_s=seconds)
    assert plan.objective == least(problem)
    assert plan.bound <= plan.objective
