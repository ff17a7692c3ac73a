"""Ejection chains against all chains of a small problem."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from optimizer.checkpoint_allocation import solve
from optimizer.checkpoint_allocation.candidates import candidates
from optimizer.checkpoint_allocation.local_search.ejection_chains import EjectionChains
from optimizer.checkpoint_allocation.local_search.exchange import Exchange


def drawn(seed: int) -> tuple[CheckpointAllocation, CheckpointPlan]:
    """Equal loads, two on each of five nodes, at least cost: then chains are shortest paths, and no cycle saves."""
    cost = np.random.default_rng(seed).integers(0, 100, (10, 5)).astype(float)
    problem = CheckpointAllocation(cost=cost, load=np.ones(10), capacity=np.full(5, 2.0))
    return problem, solve(problem)


def with_room(problem: CheckpointAllocation, node: int, room: float) -> CheckpointAllocation:
    capacity = problem.capacity.copy()
    capacity[node] += room
    return dataclasses.replace(problem, capacity=capacity)


def state_of(problem: CheckpointAllocation, running: np.ndarray, prices: np.ndarray) -> Exchange:
    state = Exchange(problem, candidates(problem, prices, problem.n_nodes), prices)
    state.start_from(running)
    return state


def cheapest_chain(problem: CheckpointAllocation, running: np.ndarray) -> float:
    """What the best chain from any node to one with room saves, by trying all of up to three moves."""
    best = 0.0
    free = np.flatnonzero(np.bincount(running, minlength=5) < problem.capacity)
    for length in (1, 2, 3):
        for rows in itertools.permutations(range(10), length):
            nodes = [int(running[row]) for row in rows]
            if len(set(nodes)) < length:
                continue
            for end in set(free.tolist()) - set(nodes):
                change = sum(
                    problem.cost[row, to] - problem.cost[row, running[row]]
                    for row, to in zip(rows, [*nodes[1:], end], strict=True)
                )
                best = min(best, change)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_the_chain_that_fills_room_saves_no_less_than_any_of_three_moves(seed):
    before, plan = drawn(seed)
    problem = with_room(before, seed % 5, 1.0)
    state = state_of(problem, plan.assignment, np.maximum(plan.prices, 0.0))
    made = EjectionChains(state, 10_000, 0.0).fill()
    saved = problem.objective(state.assignment) - problem.objective(plan.assignment)
    assert made == (saved < 0)
    assert (
        solve(problem).objective <= plan.objective + saved <= plan.objective + cheapest_chain(problem, plan.assignment)
    )
    assert (state.loads <= problem.upper).all()


@pytest.mark.parametrize("seed", range(12))
def test_a_chain_that_closes_undoes_a_swap(seed):
    problem, plan = drawn(seed)
    running = plan.assignment.copy()
    one, other = 0, int(np.flatnonzero(running != running[0])[seed % 8])
    running[[one, other]] = running[[other, one]]
    lost = problem.objective(running) - plan.objective
    state = state_of(problem, running, np.maximum(plan.prices, 0.0))
    made = [EjectionChains(state, 10_000, 0.0).improve(row) for row in (one, other)]
    assert any(made) == (lost > 0)
    assert problem.objective(state.assignment) == plan.objective
    assert (state.loads <= problem.upper).all()


def test_what_has_too_much_is_relieved_and_no_other_node_gets_too_much():
    before, plan = drawn(1)
    problem = with_room(before, 0, 2.0)
    running = np.where(plan.assignment == 3, 1, plan.assignment)  # four on node 1
    state = state_of(problem, running, np.maximum(plan.prices, 0.0))
    over = np.maximum(state.loads - problem.upper, 0)
    assert over.sum() == pytest.approx(2)
    chains = EjectionChains(state, 10_000, 0.0)
    while (state.loads > problem.upper).any():
        assert chains.leave(int((state.loads - problem.upper).argmax()))
        assert np.maximum(state.loads - problem.upper, 0).sum() < over.sum()
        over = np.maximum(state.loads - problem.upper, 0)


@pytest.mark.parametrize("seed", range(6))
def test_chains_keep_the_limit_on_moves(seed):
    before, plan = drawn(seed)
    limited = dataclasses.replace(with_room(before, 2, 3.0), current=plan.assignment, max_moves=2)
    state = state_of(limited, plan.assignment, np.maximum(plan.prices, 0.0))
    chains = EjectionChains(state, 10_000, 0.0)
    while chains.fill() or any(chains.improve(row) for row in range(10)):
        assert limited.moves(state.assignment) <= 2
    assert limited.moves(state.assignment) <= 2


def test_no_chain_is_made_that_saves_less_than_its_moves_must():
    before, plan = drawn(3)
    problem = dataclasses.replace(with_room(before, 3, 1.0), current=plan.assignment, max_moves=9)
    made = {}
    for toll in (0.0, 1e4):
        state = state_of(problem, plan.assignment, np.maximum(plan.prices, 0.0))
        made[toll] = EjectionChains(state, 10_000, toll).fill()
    assert made == {0.0: True, 1e4: False}
