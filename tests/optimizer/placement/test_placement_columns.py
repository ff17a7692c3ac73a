"""The bound by columns, its dynamic program, and what the search and the columns find of planted placements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_placements import placements

from models.planning.placement import Placement
from models.planning.solution import Status
from optimizer.placement import best_fit, fitted, solve
from optimizer.placement.columns import column_bound, dearest_column, dive
from optimizer.placement.search import Search, start
from optimizer.verify.placement import broken_rules
from optimizer.verify.plans import verify_plan


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3), st.integers(0, 20)), min_size=1, max_size=4),
    st.integers(0, 20),
)
def test_the_dearest_column_of_all(items, room):
    sizes, counts, prices = (np.array(each) for each in zip(*items, strict=True))
    found, column = dearest_column(sizes, counts, prices, room)
    every = [np.array(one) for one in itertools.product(*[range(c + 1) for c in counts])]
    assert found == max(int(one @ prices) for one in every if one @ sizes <= room)
    assert column @ sizes <= room
    assert (column <= counts).all()
    assert column @ prices == found


@settings(max_examples=40, deadline=None, derandomize=True)
@given(placements(most=6, hosts=4, goal="hosts"))
def test_no_placement_uses_less_hosts_than_columns_say(problem):
    plan = solve(problem)
    made = column_bound(problem, 99, float("inf"))
    if plan.status is Status.OPTIMAL and made is not None:
        assert made.bound.value <= plan.hosts


def test_diving_covers_every_size():
    draw = np.random.default_rng(1)
    problem = Placement(draw.integers(20, 101, 60), np.full(60, 150), goal="hosts")
    made = column_bound(problem, 99, float("inf"))
    _, taken = dive(made, 99, float("inf"))
    assert (taken.sum(axis=1) >= made.counts).all()
    assert (taken.T @ made.sizes <= made.room).all()


def test_bin_packing_that_best_fit_misses_is_solved_with_proof():
    """Uniform sizes of Falkenauer (1996), a hundred and twenty of them."""
    draw = np.random.default_rng(3)
    problem = Placement(draw.integers(20, 101, 120), np.full(120, 150), goal="hosts")
    plan = solve(problem)
    assert plan.status is Status.OPTIMAL
    assert plan.objective == plan.bound == np.ceil(problem.cpu.sum() / 150)
    assert fitted(problem, "best-fit").objective > plan.objective
    assert verify_plan(problem, plan).not_checked == ()


def planted(hosts: int, colours: int, seed: int) -> Placement:
    """Three instances on each host, of two colours, that take exactly 95 % of both resources."""
    draw = np.random.default_rng(seed)
    loads = np.diff(np.sort(draw.integers(1, 95, (hosts, 2))), prepend=0, append=95)
    more = np.diff(np.sort(draw.integers(1, 95, (hosts, 2))), prepend=0, append=95)
    pairs = np.array([draw.choice(colours, 2, replace=False) for _ in range(hosts)])
    mixed = draw.permutation(3 * hosts)
    return Placement(
        loads.ravel()[mixed],
        np.full(hosts, 100),
        network=more.ravel()[mixed],
        host_network=np.full(hosts, 100),
        colour=pairs[:, [0, 1, 1]].ravel()[mixed],
    )


@pytest.mark.parametrize("seed", range(3))
def test_planted_colours_on_hosts_that_are_95_percent_full_are_reached(seed):
    problem, everything = planted(40, 30, seed), np.ones(40, dtype=np.bool_)
    assert (best_fit(problem, max_colours=2) < 0).any()
    search = Search(problem, start(problem, 2, everything, None), 2, everything, [seed])
    assert search.run(10**8, float("inf"))
    assert problem.most_colours(search.host) <= 2
    assert (problem.used(search.host) <= problem.rooms).all()
    assert list(broken_rules(problem, search.host)) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_planted_colours_are_reached_with_a_bound_that_proves_them(seed):
    problem = planted(100, 20, seed)
    plan = solve(problem)
    assert (plan.objective, plan.bound) == (2.0, 2.0)
    assert verify_plan(problem, plan, gap=plan.gap).ok
