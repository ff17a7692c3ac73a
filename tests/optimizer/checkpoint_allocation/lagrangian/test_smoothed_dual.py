"""The smoothed dual against a plain loop, its slope against differences, and its prices against the linear program."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from seeds import sample

from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.candidates import candidates, scale_of
from optimizer.checkpoint_allocation.lagrangian import heuristic
from optimizer.checkpoint_allocation.lagrangian.bound import (
    SmoothedDual,
    dual_prices,
    first_prices,
    smoothed_dual_prices,
)
from optimizer.checkpoint_allocation.params import DEFAULT
from optimizer.verify.checkpoint_bounds import lagrangian_bound


def tight(seed: int, j: int = 400, n: int = 10, **given: object) -> CheckpointAllocation:
    """Every checkpoint likes the same nodes; loads depend on the node in some."""
    random = np.random.default_rng(seed)
    load = random.lognormal(0, 0.5, j)
    cost = (random.uniform(-1, 1, (j, n)) + random.normal(size=n)) * load[:, None]
    weights = load[:, None] * random.uniform(0.5, 1.5, n) if seed % 2 else load
    given = {
        "capacity": np.full(n, 1.1 * load.sum() / n),
        "forbidden": np.argwhere(random.random((j, n)) < 0.1),
    } | given
    return CheckpointAllocation(cost=cost, load=weights, **given)


def plain(problem: CheckpointAllocation, prices: np.ndarray, temperature: float) -> float:
    """L_t over all pairs that fit, as the module's first lines have it."""
    value = -float(prices @ problem.upper)
    for j in range(problem.n_checkpoints):
        allowed = np.flatnonzero(problem.allowed[j] & (problem.weights[j] <= problem.upper))
        load = problem.weights[j, allowed]
        t = temperature * load.mean()
        value -= t * math.log(sum(math.exp(-x / t) for x in problem.cost[j, allowed] + prices[allowed] * load))
    return value


@pytest.mark.parametrize("seed", range(4))
def test_values_and_slopes_are_those_of_a_plain_sum(seed):
    problem = tight(seed, 30, 6)
    random = np.random.default_rng(seed)
    begin, temperature = random.random(6), 0.2
    dual = SmoothedDual(problem, candidates(problem, begin, 6), begin, temperature, 1.0)
    unit = temperature * dual.total
    base, slope = dual.below(np.zeros(6))
    origin = plain(problem, begin, temperature)
    for _ in range(5):
        added = random.normal(size=6)
        fell = (dual.below(added)[0] - base) * unit
        assert fell == pytest.approx(
            origin - plain(problem, begin + added * temperature, temperature), rel=1e-4, abs=1e-4
        )
    for n in range(6):
        step = 1e-4 * np.eye(6)[n]
        ways = [plain(problem, begin + way * step * temperature, temperature) for way in (1, -1)]
        assert slope[n] * unit == pytest.approx((ways[1] - ways[0]) / 2e-4, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("seed", sample(3, 6))
def test_prices_reach_the_bound_of_the_linear_program(seed):
    problem = tight(seed)
    scale = scale_of(problem)
    prices = first_prices(problem, scale)
    for temperature in (1e-2, 1e-3, 1e-4):
        found = candidates(problem, prices, 8)
        prices = smoothed_dual_prices(problem, found, prices, temperature * scale, steps=60)
    best, zero = lagrangian_bound(problem, dual_prices(problem)), lagrangian_bound(problem, np.zeros(10))
    assert lagrangian_bound(problem, prices) <= best + 1e-9 * abs(best)
    assert best - lagrangian_bound(problem, prices) < 1e-4 * (best - zero)


def test_nodes_without_a_limit_have_no_price_and_prices_are_never_negative():
    problem = tight(0, capacity=np.full(10, 1e9))
    found = candidates(problem, np.zeros(10), 8)
    assert smoothed_dual_prices(problem, found, np.full(10, 5.0), 0.1, steps=30).max() < 1e-6
    free = CheckpointAllocation(cost=problem.cost, load=problem.load)
    assert smoothed_dual_prices(free, found, np.full(10, 5.0), 0.1, steps=30).tolist() == [0.0] * 10


@pytest.mark.parametrize("seed", sample(2, 4))
def test_candidates_at_better_prices_raise_the_bound_where_rows_are_alike(seed):
    random = np.random.default_rng(seed)
    load = random.lognormal(0, 0.7, 120)
    cost = load[:, None] * (random.uniform(-1, 1, 12) + 0.1 * random.normal(size=(120, 12)))
    problem = CheckpointAllocation(cost=cost, load=load, capacity=np.full(12, 1.2 * load.sum() / 12))
    few = replace(DEFAULT, lagrangian=replace(DEFAULT.lagrangian, kept=4))
    search = heuristic._Search(problem, Budget(), few)
    found, prices = search.found, search.prices
    first = candidates(problem, np.zeros(12), 4)
    poor = smoothed_dual_prices(problem, first, np.zeros(12), 1e-3 * scale_of(problem), steps=60)
    assert lagrangian_bound(problem, prices) > lagrangian_bound(problem, poor)
    assert found.nodes.shape == (120, 4)
    best = lagrangian_bound(problem, dual_prices(problem))
    assert best - lagrangian_bound(problem, prices) < 1e-3 * abs(best)


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_huge_and_tiny_numbers_end_without_a_warning(size):
    problem = tight(0)
    extreme = CheckpointAllocation(cost=problem.cost * size, load=problem.load, capacity=problem.capacity)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scale = scale_of(extreme)
        prices = smoothed_dual_prices(
            extreme, candidates(extreme, np.zeros(10), 8), np.zeros(10), 1e-3 * scale, steps=40
        )
    assert np.isfinite(prices).all()


def test_what_does_not_fit_at_all_ends():
    """The dual rises for ever: a counted number of steps, and finite prices."""
    problem = tight(0, capacity=np.full(10, 6.0))
    prices = smoothed_dual_prices(problem, candidates(problem, np.zeros(10), 8), np.zeros(10), 0.01, steps=50)
    assert np.isfinite(prices).all()
    assert (prices > 0).all()
