"""Iterated local search, and forced moves: what no chain finds alone, and the same every time."""

import dataclasses
import math
import time

import numpy as np
import pytest
from seeds import parts, sample

from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.candidates import candidates
from optimizer.checkpoint_allocation.lagrangian.bound import dual_prices
from optimizer.checkpoint_allocation.local_search.ejection_chains import (
    EjectionChains,
    apply_chains,
    forced_moves,
    iterated_local_search,
)
from optimizer.checkpoint_allocation.local_search.exchange import Exchange
from optimizer.verify.checkpoint_bounds import lagrangian_bound
from optimizer.verify.constraints import constraint_violations


def drawn(seed: int, **given: object) -> CheckpointAllocation:
    """120 checkpoints on up to eight nodes with little room; minima, or loads that depend on the node, in some."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(3, 9))
    load = draw.lognormal(0, 1, 120)
    load = np.minimum(load, load.sum() / n / 3)
    weights = load[:, None] * draw.uniform(0.9, 1.1, n) if seed % 3 == 0 else load
    total = load.sum() / n
    given = {"capacity_min": np.full(n, 0.7 * total)} | given if seed % 4 == 1 else given
    cost = draw.normal(size=(120, n)) * load[:, None]
    return CheckpointAllocation(cost=cost, load=weights, capacity=np.full(n, 1.15 * total), **given)


def improved(problem: CheckpointAllocation) -> Exchange | None:
    """A state in which no chain saves, None where none keeps the constraints."""
    prices = dual_prices(problem)
    state = Exchange(problem, candidates(problem, prices, problem.n_nodes), prices)
    if not state.repair() or constraint_violations(problem, state.assignment):
        return None
    while apply_chains(EjectionChains(state, 10_000, 0.0), 200):
        pass
    return state


def later() -> float:
    return time.perf_counter() + 60.0


@pytest.mark.parametrize(("search", "most"), [(iterated_local_search, 50), (forced_moves, 1)])
def test_two_chains_that_only_save_together_are_found(search, most):
    """The heavy one goes to node 1 when both light ones have left it: no chain takes two from one node."""
    cost = np.array([[5.0, 0.0, 9.0, 9.0], [9.0, 0.0, 1.0, 9.0], [9.0, 0.0, 9.0, 1.0]])
    problem = CheckpointAllocation(cost=cost, load=np.array([2.0, 1.0, 1.0]), capacity=np.array([2.0, 2.0, 1.0, 1.0]))
    prices = np.array([0.0, 2.0, 0.0, 0.0])
    state = Exchange(problem, candidates(problem, prices, 4), prices)
    state.start_from(np.array([0, 1, 1]))
    chains = EjectionChains(state, 100, 0.0)
    assert apply_chains(chains, 10) == 0
    assert search(chains, most, budget=Budget.of_seconds(60.0), target=0.0)
    assert state.assignment.tolist() == [1, 2, 3]


@pytest.mark.parametrize("search", [iterated_local_search, forced_moves])
@pytest.mark.parametrize("seed", sample(3, 24))
def test_what_is_found_keeps_the_constraints_costs_no_more_and_is_the_same_again(seed, search):
    problem = drawn(seed)
    state = improved(problem)
    if state is None:
        return
    before, at = problem.objective(state.assignment), state.at.copy()
    assert search(EjectionChains(state, 10_000, 0.0), 30, budget=Budget.of_seconds(60.0), target=0.0)
    found = state.at.copy()
    assert constraint_violations(problem, state.assignment) == []
    assert lagrangian_bound(problem, state.prices) <= problem.objective(state.assignment) <= before
    state.place(at)
    search(EjectionChains(state, 10_000, 0.0), 30, budget=Budget.of_seconds(60.0), target=0.0)
    assert state.at.tolist() == found.tolist()


@pytest.mark.parametrize("seeds", parts(12, 36))
def test_some_local_optima_are_left(seeds):
    better = 0
    states = [state for seed in seeds if (state := improved(drawn(seed))) is not None]
    for state in states:
        before = state.cost()
        iterated_local_search(EjectionChains(state, 10_000, 0.0), 30, budget=Budget(), target=0.0)
        better += state.cost() < before
    assert len(states) > 6
    assert better >= 2


@pytest.mark.parametrize("search", [iterated_local_search, forced_moves])
@pytest.mark.parametrize("most", [0, 2, 5])
def test_moves_are_counted(most, search):
    problem = drawn(2)
    start = improved(problem)
    assert start is not None
    limited = dataclasses.replace(problem, current=start.assignment, max_moves=most)
    state = Exchange(limited, start.found, start.prices)
    state.start_from(start.assignment)
    search(EjectionChains(state, 10_000, 0.0), 60, budget=Budget(), target=0.0)
    assert limited.moves(state.assignment) <= most
    assert constraint_violations(limited, state.assignment) == []


@pytest.mark.parametrize("search", [iterated_local_search, forced_moves])
def test_nothing_is_tried_within_the_target_or_when_the_clock_struck(search):
    state = improved(drawn(0))
    assert state is not None
    at = state.at.copy()
    assert search(EjectionChains(state, 10_000, 0.0), 30, budget=Budget(), target=math.inf)
    assert not search(EjectionChains(state, 10_000, 0.0), 30, budget=Budget.of_seconds(-1.0), target=0.0)
    assert state.at.tolist() == at.tolist()


@pytest.mark.parametrize("seed", range(6))
def test_a_node_that_was_no_candidate_may_be_the_cheapest(seed):
    draw = np.random.default_rng(seed)
    problem = drawn(seed)
    prices = draw.uniform(0, 10, problem.n_nodes)
    state = Exchange(problem, candidates(problem, np.zeros(problem.n_nodes), 2), prices)
    state.start_from(draw.integers(0, problem.n_nodes, problem.n_checkpoints))
    assert state.dear().min() >= 0
    iterated_local_search(EjectionChains(state, 10_000, 0.0), 4, budget=Budget.of_seconds(60.0), target=0.0)
