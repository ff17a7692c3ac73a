"""Moves by force: what no chain finds, nothing that breaks a constraint, and the same every time."""

import dataclasses
import math
import time

import numpy as np
import pytest
from test_disturbed_chains import drawn, improved

from models.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.candidates import candidates
from optimizer.checkpoint_allocation.chains import Chains, chained
from optimizer.checkpoint_allocation.exchange import Exchange
from optimizer.checkpoint_allocation.forced import forced
from optimizer.checkpoint_allocation.prices import price_bound
from optimizer.verify import constraint_violations


def test_a_heavy_checkpoint_gets_the_room_of_two_light_ones():
    """The heavy one goes to node 1 when both light ones have left it: no chain takes two from one node."""
    cost = np.array([[5.0, 0.0, 9.0, 9.0], [9.0, 0.0, 1.0, 9.0], [9.0, 0.0, 9.0, 1.0]])
    problem = CheckpointAllocation(cost=cost, load=np.array([2.0, 1.0, 1.0]), capacity=np.array([2.0, 2.0, 1.0, 1.0]))
    prices = np.array([0.0, 2.0, 0.0, 0.0])
    state = Exchange(problem, candidates(problem, prices, 4), prices)
    state.start_from(np.array([0, 1, 1]))
    chains = Chains(state, 100, 0.0)
    assert chained(chains, 10) == 0
    assert forced(chains, 1, until=math.inf, target=0.0)
    assert state.assignment.tolist() == [1, 2, 3]


@pytest.mark.parametrize("seed", range(24))
def test_what_is_found_keeps_the_constraints_costs_no_more_and_is_the_same_again(seed):
    problem = drawn(seed)
    state = improved(problem)
    if state is None:
        return
    before, at = problem.objective(state.assignment), state.at.copy()
    assert forced(Chains(state, 10_000, 0.0), 40, until=math.inf, target=0.0)
    found = state.at.copy()
    assert constraint_violations(problem, state.assignment) == []
    assert price_bound(problem, state.prices) <= problem.objective(state.assignment) <= before
    state.place(at)
    forced(Chains(state, 10_000, 0.0), 40, until=math.inf, target=0.0)
    assert state.at.tolist() == found.tolist()


@pytest.mark.parametrize("most", [0, 2, 5])
def test_moves_are_counted(most):
    problem = drawn(2)
    start = improved(problem)
    assert start is not None
    limited = dataclasses.replace(problem, current=start.assignment, max_moves=most)
    state = Exchange(limited, start.found, start.prices)
    state.start_from(start.assignment)
    forced(Chains(state, 10_000, 0.0), 40, until=math.inf, target=0.0)
    assert limited.moves(state.assignment) <= most
    assert constraint_violations(limited, state.assignment) == []


def test_nothing_is_tried_within_the_target_or_when_the_clock_struck():
    state = improved(drawn(0))
    assert state is not None
    at = state.at.copy()
    assert forced(Chains(state, 10_000, 0.0), 30, until=math.inf, target=math.inf)
    assert not forced(Chains(state, 10_000, 0.0), 30, until=time.perf_counter() - 1.0, target=0.0)
    assert state.at.tolist() == at.tolist()
