"""Linear programs on a core: duals of the whole program, and dives that decide heavy checkpoints first."""

from dataclasses import replace

import numpy as np
import pytest
from seeds import sample

from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation import linear_core
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.candidates import candidates
from optimizer.checkpoint_allocation.lagrangian.bound import dual_prices
from optimizer.checkpoint_allocation.lagrangian.heuristic import lagrangian_heuristic
from optimizer.checkpoint_allocation.linear_core import dived, relaxed
from optimizer.checkpoint_allocation.local_search.exchange import Exchange
from optimizer.checkpoint_allocation.params import DEFAULT, PIECES
from optimizer.verify.checkpoint_bounds import lagrangian_bound
from optimizer.verify.constraints import constraint_violations


def with_heavy(seed: int, j: int = 300, n: int = 10, **given: object) -> CheckpointAllocation:
    """Loads of lognormal(0, 1), some a third of a node; loads depend on the node in some."""
    draw = np.random.default_rng(seed)
    load = draw.lognormal(0, 1, j)
    load[:: j // 12] = load.sum() / n / 3
    cost = load[:, None] * (draw.normal(size=(j, n)) / 10 + draw.normal(size=n))
    weights = load[:, None] * draw.uniform(0.9, 1.1, n) if seed % 3 == 0 else load
    given = {"capacity": np.full(n, 1.1 * load.sum() / n)} | given
    return CheckpointAllocation(cost=cost, load=weights, **given)


@pytest.mark.parametrize("seed", sample(4, 8))
def test_a_dive_puts_each_checkpoint_on_a_candidate_and_heavy_ones_mostly_fit(seed):
    problem = with_heavy(seed)
    prices = dual_prices(problem)
    found = candidates(problem, prices, 6)
    state = Exchange(problem, found, prices)
    assert state.repair()
    at = dived(problem, found, prices, Budget(), gain=state.cost() - lagrangian_bound(problem, prices), share=0.05)
    assert at is not None
    assert at.shape == (300,)
    assert np.isfinite(found.cost[np.arange(300), at]).all()
    state.place(at)
    light = np.median(problem.weights)
    over = (state.loads - problem.upper).max()
    state.place(state.priced.argmin(axis=1))
    assert over < (state.loads - problem.upper).max()
    assert over < 20 * light
    assert (
        dived(problem, found, prices, Budget(), gain=1.0, share=0.05).tolist()
        == dived(problem, found, prices, Budget(), gain=1.0, share=0.05).tolist()
    )


def test_nothing_heavy_no_capacity_or_no_prices_is_no_dive():
    problem = with_heavy(1)
    prices = dual_prices(problem)
    found = candidates(problem, prices, 6)
    assert dived(problem, found, prices, Budget(), gain=1.0, share=1.0) is None
    assert dived(problem, found, np.zeros(10), Budget(), gain=1.0, share=0.05) is None
    free = CheckpointAllocation(cost=problem.cost, load=problem.load)
    assert dived(free, candidates(free, prices, 6), prices, Budget(), gain=1.0, share=0.05) is None


def test_a_program_that_fails_is_no_dive(monkeypatch):
    monkeypatch.setattr(linear_core, "_solved", lambda *_: None)
    problem = with_heavy(1)
    prices = dual_prices(problem)
    found = candidates(problem, prices, 6)
    assert dived(problem, found, prices, Budget(), gain=1.0, share=0.05) is None
    assert relaxed(problem, found, prices, Budget()) is None


@pytest.mark.parametrize(
    ("seeds", "j", "n"), [(range(2), 200, 8), pytest.param(range(10), 400, 12, marks=pytest.mark.slow)]
)
def test_dives_find_cheaper_answers_where_some_are_heavy(seeds, j, n):
    dives = replace(DEFAULT, lagrangian=replace(DEFAULT.lagrangian, turns=()))
    none = replace(dives, pieces=PIECES - {"core dives"})
    without, within = [], []
    for seed in seeds:
        problem = with_heavy(seed, j, n)
        plain = lagrangian_heuristic(problem, Budget.of_seconds(100.0, 100.0), none)
        better = lagrangian_heuristic(problem, Budget.of_seconds(100.0, 100.0), dives)
        assert better.assignment is not None and plain.assignment is not None
        assert constraint_violations(problem, better.assignment) == []
        assert better.bound == plain.bound <= problem.objective(better.assignment)
        without.append(problem.objective(plain.assignment) - plain.bound)
        within.append(problem.objective(better.assignment) - better.bound)
        assert within[-1] <= without[-1]
    assert sum(within) < 0.6 * sum(without)


@pytest.mark.parametrize("seed", range(4))
def test_duals_of_the_core_are_those_of_the_whole_program(seed):
    problem = with_heavy(3 * seed + 1, 120, 6)
    prices = dual_prices(problem)
    found = candidates(problem, prices, 6)
    linear = relaxed(problem, found, prices, Budget())
    assert linear is not None
    best = lagrangian_bound(problem, prices)  # the duals of the whole program
    assert lagrangian_bound(problem, linear[0]) == pytest.approx(best, rel=1e-7)
