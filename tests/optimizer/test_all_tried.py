"""Searches that try all that could be better, against brute force: both what they find and what they rule out."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import degenerate_instances as degenerate
import numpy as np
import ordinary_problems as ordinary
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seeds import sample
from small_placements import keeps_rules, placements

from models.planning.placement import Placement
from models.planning.selection import OperatorSelection, QuerySelection
from optimizer.common.enumeration import Tried, better_levels, better_queries, colouring, first_of_some_orders
from optimizer.verify.better_assignment import better_assignment, good_prices
from optimizer.verify.constraints import constraint_violations
from optimizer.verify.knapsack_core import better_by_core, filled_levels, lagrangian_bound, price_of_capacity
from optimizer.verify.placement_enumeration import placement_within
from optimizer.verify.replica_bounds import bounds_of, most_cost
from optimizer.verify.replicas import least_of_subsets
from optimizer.verify.selection import filled_queries


def shifted(best: Fraction, draw: np.random.Generator) -> float:
    """A value at, above, or below the best one."""
    return float(best) * float(draw.choice([1.0, 1.0, 1 + 1e-6, 1 - 1e-6, 0.5, 0.9]))


def total(values: np.ndarray) -> Fraction:
    return sum(map(Fraction, values.tolist()), Fraction(0))


def check(tried: Tried, worth: Any, best: Fraction, than: float) -> int:
    """What was found, or ruled out, against the best value, up to the last digit; whether that was decided."""
    if tried.best is not None:
        assert worth(tried.best) > Fraction(than)
    elif tried.decided:
        assert best <= Fraction(than) * (1 + Fraction(1, 2**50))
    return tried.decided


@pytest.mark.parametrize("first", sample(1, 10))
def test_levels_that_are_better_are_found_whatever_the_numbers_and_the_price(first: int) -> None:
    decided = 0
    for seed in range(30 * first, 30 * first + 30):
        draw = np.random.default_rng(seed)
        problem = (degenerate.selection if seed % 2 else ordinary.selection)(seed)
        best = degenerate.true_selection(problem).best
        assert best is not None
        than, price = shifted(best, draw), price_of_capacity(problem)

        def worth(level: np.ndarray, problem: OperatorSelection = problem) -> Fraction:
            assert problem.fits(level)
            return total(problem.level_values[np.arange(len(level)), level])

        decided += check(better_by_core(problem, than, price), worth, best, than)
        decided += check(better_by_core(problem, than, price * float(draw.random() * 2)), worth, best, than)
        assert check(better_levels(problem, than), worth, best, than)
        assert Fraction(lagrangian_bound(problem, price)) >= best
        assert worth(filled_levels(problem, price)) <= best
    assert decided > 45


@pytest.mark.parametrize("first", sample(1, 10))
def test_queries_that_are_better_are_found_whatever_the_numbers(first: int) -> None:
    for seed in range(30 * first, 30 * first + 30):
        problem = (degenerate.queries if seed % 2 else ordinary.queries)(seed)
        best = degenerate.true_queries(problem).best
        assert best is not None
        than = shifted(best, np.random.default_rng(seed))

        def worth(chosen: np.ndarray, problem: QuerySelection = problem) -> Fraction:
            assert problem.fits(problem.union(chosen))
            return total(problem.value[chosen])

        assert check(better_queries(problem, than), worth, best, than)
        assert worth(filled_queries(problem)) <= best


@pytest.mark.parametrize("first", sample(1, 10))
def test_assignments_that_are_cheaper_are_found_at_any_prices(first: int) -> None:
    for seed in range(60 * first, 60 * first + 60):
        draw = np.random.default_rng(seed)
        problem = (degenerate.allocation if seed % 2 else ordinary.allocation)(seed)
        best = degenerate.true_allocation(problem).best
        than = 1.0 if best is None else shifted(best, draw)
        drawn = 10.0 ** draw.integers(-3, 3) * draw.random(problem.n_nodes)
        for prices in (None, good_prices(problem, than), drawn if problem.capacity is not None else None):
            tried = better_assignment(problem, than, prices=prices)
            assert tried.decided
            if tried.best is not None:
                assert constraint_violations(problem, tried.best) == []
                assert total(problem.cost[np.arange(len(tried.best)), tried.best].astype(float)) < Fraction(than)
            else:
                assert best is None or best >= Fraction(than)
        any_at_all = better_assignment(problem, np.inf)
        assert (any_at_all.decided, any_at_all.best is None) == (True, best is None)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(placements(hosts=3, most=5), st.integers(1, 3), st.integers(1, 3), st.integers(0, 30), st.booleans())
def test_placements_within_limits_are_found_or_there_are_none(
    problem: Placement, colours: int, hosts: int, worth: int, moving: bool
) -> None:
    if moving:
        current = np.arange(problem.n_instances) % (problem.n_hosts + 1) - 1
        problem = replace(problem, current=current, max_moves=1)

    def good(host: np.ndarray, *, whole: bool) -> bool:
        moves = problem.max_moves is None or problem.moves(host) <= problem.max_moves
        fixed = ((problem.fixed_hosts < 0) | (problem.fixed_hosts == host)).all()
        return moves and bool(fixed) and keeps_rules(problem, host) and not (whole and (host < 0).any())

    every = [np.array(one) for one in itertools.product(range(-1, problem.n_hosts), repeat=problem.n_instances)]
    within = [
        one
        for one in every
        if good(one, whole=True) and problem.most_colours(one) <= colours and problem.hosts_used(one) <= hosts
    ]
    tried = placement_within(problem, most_colours=colours, most_hosts=hosts)
    assert (tried.decided, tried.best is None) == (True, not within)
    assert tried.best is None or any((one == tried.best).all() for one in within)
    valuable = [one for one in every if good(one, whole=False) and problem.values[one >= 0].sum() > worth]
    tried = placement_within(problem, more_than=float(worth))
    assert (tried.decided, tried.best is None) == (True, not valuable)
    assert tried.best is None or any((one == tried.best).all() for one in valuable)


def test_no_plan_of_replicas_is_below_the_bound_over_all_sets_of_operators() -> None:
    close = 0
    for seed in range(8):
        problem = ordinary.replicas(seed)
        best = ordinary.best_replicas(problem)
        if best is not None:
            bound = least_of_subsets(bounds_of(problem), most_cost(problem))
            assert bound <= best * (1 + 1e-12)
            close += bound >= best * (1 - 1e-9)
    assert close >= 2


def test_a_colouring_has_as_many_colours_as_it_may_and_no_fewer_than_it_must() -> None:
    triangle = np.array([[0, 1], [1, 2], [2, 0]])
    assert colouring(triangle, 2) == Tried(None, True)
    assert colouring(triangle, 3).best.tolist() == [0, 1, 2]
    assert colouring(np.repeat(triangle, 40, axis=0), 80, most=50) == Tried(None, False)


def test_a_schedule_of_some_orders_keeps_hosts_apart() -> None:
    start, end = first_of_some_orders(np.array([[0, 1], [1, 2], [3, 4]]), np.array([2.0, 3.0, 4.0]))
    assert (sorted(start.tolist()), end) == ([0.0, 0.0, 3.0], 5.0)
