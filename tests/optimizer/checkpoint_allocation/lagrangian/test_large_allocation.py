"""The search for problems too large for a whole program, on problems small enough to know the answer."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seeds import sample

from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import Status
from optimizer.checkpoint_allocation import solve
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.candidates import candidates
from optimizer.checkpoint_allocation.lagrangian.bound import dual_prices
from optimizer.checkpoint_allocation.lagrangian.heuristic import lagrangian_heuristic
from optimizer.checkpoint_allocation.local_search.exchange import Exchange, _equi_join, _node_disjoint
from optimizer.checkpoint_allocation.params import DEFAULT
from optimizer.verify.checkpoint_bounds import lagrangian_bound
from optimizer.verify.checkpoints import verify_checkpoints
from optimizer.verify.constraints import constraint_violations


def tight_problem(seed, j=None, n=None, slack=1.2):
    random = np.random.default_rng(seed)
    j, n = j or int(random.integers(2, 7)), n or int(random.integers(2, 4))
    whole = seed % 2 == 0
    load = random.integers(1, 20, (j, n)) * 1.0 if whole else random.lognormal(0, 0.7, j)
    cost = random.integers(1, 60, (j, n)) * 1.0 if whole else random.normal(size=(j, n))
    total = load.mean(axis=1).sum() if whole else load.sum()
    low = np.full(n, 0.5 * total / n) if seed % 5 == 0 else None
    return CheckpointAllocation(
        cost=cost, load=load, capacity=np.full(n, slack * total / n), capacity_min=low,
        forbidden=np.argwhere(random.random((j, n)) < 0.1),
    )  # fmt: skip


def best_by_brute_force(problem):
    every = (np.array(a) for a in itertools.product(range(problem.n_nodes), repeat=problem.n_checkpoints))
    return min((problem.objective(a) for a in every if not constraint_violations(problem, a)), default=None)


def check_search(seed):
    """Compare the search with brute force on one problem."""
    problem = tight_problem(seed)
    if not problem.allowed.any(axis=1).all():
        return
    best = best_by_brute_force(problem)
    found = searched(problem)
    if best is None:
        assert found.assignment is None
        return
    assert found.bound <= best + 1e-12 * np.abs(problem.cost).sum()
    if found.assignment is not None:
        assert constraint_violations(problem, found.assignment) == []


def searched(problem):
    """Search with little work: no clock decides when it ends."""
    return lagrangian_heuristic(problem, Budget.of_seconds(300.0, 0.3))


@settings(derandomize=True, deadline=None, max_examples=20)
@given(st.integers(0, 2**32))
def test_the_search_is_feasible_and_its_bound_is_below_the_optimum(seed):
    check_search(seed)


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=400)
@given(st.integers(0, 2**32))
def test_the_search_is_feasible_and_its_bound_is_below_the_optimum_in_many_problems(seed):
    check_search(seed)


def exact_bound(problem, prices):
    """L(prices) in rational numbers, over all pairs."""
    price = [Fraction(float(p)) for p in prices]
    least = Fraction(0)
    for j in range(problem.n_checkpoints):
        pairs = np.flatnonzero(problem.allowed[j] & (problem.weights[j] <= problem.upper))
        costs = (Fraction(float(problem.cost[j, n])) + price[n] * Fraction(float(problem.weights[j, n])) for n in pairs)
        least += min(costs)
    return least - sum(p * Fraction(float(u)) for p, u in zip(price, problem.upper, strict=True))


@pytest.mark.parametrize("seed", sample(3, 6))
def test_the_bound_is_not_above_the_one_in_rational_numbers(seed):
    problem = tight_problem(seed, 40, 6)
    found = searched(problem)
    assert Fraction(lagrangian_bound(problem, found.prices)) <= exact_bound(problem, found.prices)
    assert Fraction(found.bound) <= exact_bound(problem, found.prices)


@pytest.mark.parametrize("seed", range(4))
def test_prices_of_the_core_are_as_good_as_the_dual_prices_of_the_whole_linear_program(seed):
    problem = tight_problem(2 * seed, 200, 12)
    found = searched(problem)
    best = lagrangian_bound(problem, dual_prices(problem))
    assert found.bound == pytest.approx(best, rel=1e-6)


def test_large_problems_are_near_their_bound_and_the_same_every_time():
    turns = replace(DEFAULT.lagrangian, turns=((1.0, 0.01, 0.1),))  # of 100 s: work decides, not the clock
    parameters = replace(DEFAULT, lagrangian=turns, sizes=replace(DEFAULT.sizes, columns=0))
    problem = tight_problem(7, 400, 20, slack=1.1)
    plans = [solve(problem, time_limit_s=100.0, workers=w, parameters=parameters) for w in (1, 2)]
    assert len({(p.objective, p.bound, p.note, p.assignment.tobytes()) for p in plans}) == 1
    assert plans[0].note == "Lagrangian heuristic and local search"
    assert plans[0].status is Status.FEASIBLE
    assert plans[0].gap < 0.006
    assert verify_checkpoints(problem, plans[0]).ok


def test_each_step_of_the_exchange_saves_cost_and_keeps_the_capacities():
    problem = tight_problem(3, 200, 10, slack=1.15)
    prices = np.random.default_rng(1).random(10)
    state = Exchange(problem, candidates(problem, prices, 6), prices)
    assert state.repair()
    steps = 0
    for _ in range(10):
        for step in (state.shift, lambda: state.swap(1.0)):
            before = problem.objective(state.assignment)
            changed = step()
            assert constraint_violations(problem, state.assignment) == []
            assert (problem.objective(state.assignment) < before) == changed
            steps += changed
    assert steps > 3


def test_moves_taken_together_touch_no_node_twice_and_take_the_best_first():
    random = np.random.default_rng(0)
    for _ in range(50):
        value = np.where(random.random(30) < 0.2, np.inf, random.normal(size=30))
        a, b = random.integers(0, 8, 30), random.integers(0, 8, 30)
        chosen = _node_disjoint(value, a, b, 8)
        pairs = [{int(a[k]), int(b[k])} for k in chosen]
        assert sum(map(len, pairs)) == len(set().union(*pairs))
        assert not len(chosen) or value[chosen].min() == value.min()


def test_a_join_finds_all_pairs_of_equal_keys():
    random = np.random.default_rng(0)
    keys, others = random.integers(0, 9, 40), random.integers(0, 9, 30)
    found = set(zip(*(x.tolist() for x in _equi_join(keys, others, 1_000)), strict=True))
    assert found == {(i, k) for i in range(40) for k in range(30) if keys[i] == others[k]}
