"""All nodes packed again at once: exchanges over many nodes, and nothing that breaks a capacity."""

import numpy as np
import pytest

from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.candidates import candidates
from optimizer.checkpoint_allocation.lagrangian.bound import dual_prices
from optimizer.checkpoint_allocation.local_search.exchange import Exchange, pack_all
from optimizer.verify.checkpoint_bounds import lagrangian_bound
from optimizer.verify.constraints import constraint_violations


def ring(n: int) -> CheckpointAllocation:
    """Checkpoint j is cheapest on node j, and dearer by 1 on the next; each node has room for one."""
    cost = np.full((n, n), 100.0)
    here = np.arange(n)
    cost[here, here], cost[here, (here + 1) % n] = 0.0, 1.0
    return CheckpointAllocation(cost=cost, load=np.ones(n), capacity=np.ones(n))


def later(seconds: float = 60.0) -> Budget:
    return Budget.of_seconds(seconds)


def test_a_rotation_over_all_nodes_is_found():
    problem = ring(12)
    state = Exchange(problem, candidates(problem, np.zeros(12), 12), np.zeros(12))
    state.start_from((np.arange(12) + 1) % 12)
    assert pack_all(state, later(), size=1.6, branches=1, target=0.0)
    assert state.assignment.tolist() == list(range(12))


@pytest.mark.parametrize("seed", range(30))
def test_what_is_packed_again_keeps_the_capacities_and_costs_no_more(seed):
    random = np.random.default_rng(seed)
    n, j = int(random.integers(2, 12)), 120
    load = random.integers(1, 20, j) * 1.0 if seed % 2 else random.lognormal(0, 1, j)
    weights = load[:, None] * random.uniform(0.8, 1.2, n) if seed % 3 == 0 else load
    total = load.sum() / n
    problem = CheckpointAllocation(
        cost=random.normal(size=(j, n)), load=weights, capacity=np.full(n, 1.2 * total),
        capacity_min=np.full(n, 0.7 * total) if seed % 5 == 0 else None,
        forbidden=np.argwhere(random.random((j, n)) < 0.05),
    )  # fmt: skip
    prices = dual_prices(problem)
    state = Exchange(problem, candidates(problem, prices, min(n, 6)), prices)
    if not state.repair() or constraint_violations(problem, state.assignment):
        return
    before = problem.objective(state.assignment)
    assert pack_all(state, later(), size=1.4, branches=5, target=0.0)
    assert constraint_violations(problem, state.assignment) == []
    assert lagrangian_bound(problem, prices) <= problem.objective(state.assignment) <= before


@pytest.mark.parametrize("most", [0, 3, 5, 12])
def test_moves_are_counted(most):
    """Of two rings of four and eight the one that fits is turned."""
    small, large = ring(4).cost, ring(8).cost
    cost = np.full((12, 12), 100.0)
    cost[:4, :4], cost[4:, 4:] = small, large
    running = np.concatenate([(np.arange(4) + 1) % 4, 4 + (np.arange(8) + 1) % 8])
    problem = CheckpointAllocation(cost=cost, load=np.ones(12), capacity=np.ones(12), current=running, max_moves=most)
    state = Exchange(problem, candidates(problem, np.zeros(12), 12), np.zeros(12))
    state.start_from(running)
    assert pack_all(state, later(), size=1.4, branches=10, target=0.0, toll=0.1)
    assert problem.objective(state.assignment) == {0: 12, 3: 12, 5: 8, 12: 0}[most]
    assert problem.moves(state.assignment) <= most


def test_nothing_is_tried_within_the_target_or_when_the_clock_struck():
    problem = ring(12)
    state = Exchange(problem, candidates(problem, np.zeros(12), 12), np.zeros(12))
    state.start_from((np.arange(12) + 1) % 12)
    assert pack_all(state, later(), size=1.0, branches=1, target=12.0)
    assert not pack_all(state, later(-1.0), size=1.0, branches=1, target=0.0)
    assert problem.objective(state.assignment) == 12


def test_a_start_outside_the_candidates_moves_nobody_in_another_state_of_the_same_ones():
    """The first state is on a node that is dearest at the prices of the second, which replaces it by another."""
    problem = CheckpointAllocation(cost=[[0.0, 1.0, 2.0], [0.0, 3.0, 1.0]], load=np.ones(2), capacity=np.ones(3))
    found = candidates(problem, np.zeros(3), 2)
    kept = Exchange(problem, found, np.array([9.0, 0.0, 0.0]))
    here = kept.assignment.tolist()
    assert here == [1, 2]
    other = Exchange(problem, found, np.zeros(3))
    other.start_from(np.array([2, 1]))
    assert other.assignment.tolist() == [2, 1]
    assert kept.assignment.tolist() == here
    kept.look_at(other.found)
    assert kept.assignment.tolist() == here
    assert kept.loads.tolist() == problem.node_loads(kept.assignment).tolist()
