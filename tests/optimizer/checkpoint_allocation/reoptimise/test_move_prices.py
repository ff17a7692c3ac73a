"""Prices of the linear program of moves against the whole program, and what they prove."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.candidates import candidates
from optimizer.checkpoint_allocation.reoptimise import best_prices, moves_of
from optimizer.verify.checkpoint_bounds import move_bound


def drawn(seed: int) -> CheckpointAllocation:
    """A running plan that one host has too little room for; some checkpoints may not stay, loads may differ by node."""
    draw = np.random.default_rng(seed)
    j, n = 60, 5
    load = draw.lognormal(0, 0.5, (j, n) if seed % 2 else j)
    current = draw.integers(0, n, j)
    held = np.bincount(current, load[np.arange(j), current] if seed % 2 else load, n)
    capacity = held * np.where(np.arange(n) == seed % n, 0.8, 1.3)
    forbidden = [[int(row), int(current[row])] for row in draw.permutation(j)[: seed % 3]]
    cost = draw.uniform(-1, 1, (j, n)) * load.reshape(j, -1)
    moves = int(draw.integers(6, 15))
    return CheckpointAllocation(
        cost=cost, load=load, capacity=capacity, current=current, max_moves=moves, forbidden=forbidden
    )


def whole_program(problem: CheckpointAllocation) -> float:
    """The value of the linear relaxation with all pairs, as HiGHS has it."""
    j, n = np.nonzero(problem.allowed & (problem.weights <= problem.upper))
    loads = np.zeros((problem.n_nodes + 1, len(j)))
    loads[n, np.arange(len(j))] = problem.weights[j, n]
    loads[-1] = n != problem.current[j]
    once = np.zeros((problem.n_checkpoints, len(j)))
    once[j, np.arange(len(j))] = 1
    limits = [*problem.upper, problem.max_moves]
    answer = linprog(problem.cost[j, n], loads, limits, once, np.ones(len(once)), bounds=(0, 1))
    assert answer.status == 0
    return float(answer.fun)


@pytest.mark.parametrize("seed", range(12))
def test_prices_prove_what_the_whole_linear_program_says_from_any_start(seed):
    problem = drawn(seed)
    cost, value = problem.objective(problem.current), whole_program(problem)
    for start in (np.zeros(5), np.random.default_rng(seed).uniform(0, 2, 5), np.full(5, 1e6)):
        found = candidates(problem, np.zeros(5), problem.n_nodes)
        evaluated = best_prices(moves_of(problem, found), start, abs(cost))
        assert cost + evaluated.value == pytest.approx(value, rel=1e-5)
        assert move_bound(problem, evaluated.prices) == pytest.approx(cost + evaluated.value, rel=1e-9)
        assert evaluated.toll >= 0


def test_moves_are_all_pairs_but_those_of_where_checkpoints_run():
    problem = drawn(4)
    moves = moves_of(problem, candidates(problem, np.zeros(5), problem.n_nodes))
    fits = problem.allowed & (problem.weights <= problem.upper)
    fits[np.arange(60), problem.current] = False
    assert sorted(zip(moves.row.tolist(), moves.node.tolist(), strict=True)) == list(map(tuple, np.argwhere(fits)))
    assert moves.must.tolist() == (~problem.allowed[np.arange(60), problem.current]).tolist()
    assert moves.must.sum() == 1
