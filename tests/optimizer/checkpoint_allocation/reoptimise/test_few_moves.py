"""Answers with few moves: never worse than the best single move, whatever the magnitudes."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from seeds import sample

from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import relative_gap
from optimizer.checkpoint_allocation import reoptimise
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.lagrangian.bound import first_prices
from optimizer.checkpoint_allocation.reoptimise import Former, few_moves
from optimizer.verify.constraints import constraint_violations


def drawn(seed: int, checkpoints: int = 60, *, whole: bool = False) -> CheckpointAllocation:
    """A running plan that keeps its capacities, and its minima, with little room."""
    draw = np.random.default_rng(seed)
    n = 5
    load = draw.integers(1, 20, checkpoints).astype(float) if whole else draw.lognormal(0, 0.5, checkpoints)
    current = draw.integers(0, n, checkpoints)
    held = np.bincount(current, load, n)
    return CheckpointAllocation(
        cost=draw.uniform(-1, 1, (checkpoints, n)) * load[:, None],
        load=load,
        capacity=held + draw.uniform(0, 1.5, n) * load.mean(),
        capacity_min=held * draw.choice([0.0, 0.95], n),
        current=current,
        max_moves=int(draw.integers(1, 6)),
    )


def best_single_move(problem: CheckpointAllocation) -> float:
    """The least objective after at most one move, by trying all."""
    best = problem.objective(problem.current)
    for row, node in np.ndindex(problem.cost.shape):
        answer = problem.current.copy()
        answer[row] = node
        if not constraint_violations(problem, answer):
            best = min(best, problem.objective(answer))
    return best


@pytest.mark.parametrize("seed", sample(5, 10))
def test_no_single_move_is_missed(seed):
    problem = drawn(seed)
    best = best_single_move(problem)
    found = few_moves(problem, None)
    assert not constraint_violations(problem, found.assignment)
    assert found.bound <= problem.objective(found.assignment) <= best


def test_loads_of_zero_have_prices_of_zero_and_no_warning():
    problem = CheckpointAllocation(cost=np.eye(6, 3), load=np.zeros(6), capacity=np.ones(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert first_prices(problem, 1.0).tolist() == [0, 0, 0]


def running(load: np.ndarray, *, room: float = 1.3, cost: float = 1.0, **given: object) -> CheckpointAllocation:
    """A plan that runs, checkpoint j on host j modulo 20, with so much room as a share of what each holds."""
    n, current = 20, np.arange(len(load)) % 20
    given = {"capacity": np.bincount(current, load, n) * room, "max_moves": 3} | given
    costs = np.random.default_rng(3).random((len(load), n)) * cost
    return CheckpointAllocation(cost=costs, load=load, current=current, **given)


def odd_magnitudes() -> dict[str, CheckpointAllocation]:
    """Problems whose costs, loads, and room have little to do with each other."""
    load = np.random.default_rng(4).random(300)
    few = np.where(np.arange(300) % 5 > 0, 0.0, load)
    one_host = np.where(np.arange(20) == 2, 1e6, np.bincount(np.arange(300) % 20, load * 1e-12, 20))
    return {
        "few weigh something": running(few, cost=1e9, capacity=np.full(20, 1e3)),
        "room is far above loads": running(load * 1e-12, capacity=np.full(20, 1.0)),
        "one host has all the room": running(load * 1e-12, capacity=one_host),
    }


@pytest.mark.parametrize("name", odd_magnitudes())
def test_few_moves_are_found_whatever_the_magnitudes_without_a_warning(name):
    problem = odd_magnitudes()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = few_moves(problem, None)
    assert not constraint_violations(problem, found.assignment)
    least = problem.objective(found.assignment)
    assert found.bound <= least < problem.objective(problem.current)
    assert found.bound >= least - 0.01 * abs(least)


def test_what_must_leave_a_host_leaves_it_where_all_costs_are_equal():
    gone = [(j, 3) for j in range(300)]
    load = np.random.default_rng(4).random(300)
    problem = running(load, cost=0.0, max_moves=20, forbidden=gone)
    found = few_moves(problem, None)
    assert constraint_violations(problem, found.assignment) == []


@pytest.mark.parametrize(("share", "enough"), [(1.01, True), (0.99, False), (math.inf, True)])
def test_moves_are_forced_only_where_the_gap_is_larger_than_that_of_the_former_plan(share, enough, monkeypatch):
    problem = running(np.random.default_rng(5).random(400) + 0.2, room=1.02, max_moves=30)
    first = few_moves(problem, Former(np.zeros(20)))
    gap = relative_gap(problem.objective(first.assignment), first.bound)
    assert gap > 1e-4
    said = []

    def noted(chains, most, budget, *, target):
        said.append(chains.state.losses().sum() <= target)
        return True

    monkeypatch.setattr(reoptimise, "forced_moves", noted)
    again = few_moves(problem, Former(np.zeros(20), share * gap))
    assert len(said) == 1 and (said[0] or not enough)
    assert problem.objective(again.assignment) <= problem.objective(first.assignment)
    assert constraint_violations(problem, again.assignment) == []


@pytest.mark.parametrize("seed", sample(2, 5))
def test_when_the_clock_has_struck_the_plan_is_feasible_and_nothing_is_improved_any_more(seed, monkeypatch):
    for name in ("apply_chains", "forced_moves"):
        monkeypatch.setattr(reoptimise, name, lambda *given, **named: pytest.fail("the clock has struck"))
    problem = drawn(seed)
    found = few_moves(problem, None, budget=Budget(until=0.0))
    assert found.struck
    assert constraint_violations(problem, found.assignment) == []
    assert found.bound <= problem.objective(found.assignment)
