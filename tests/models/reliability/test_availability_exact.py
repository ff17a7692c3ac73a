"""Exact unavailability against every failure set by hand, in fractions; all methods against each other."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_availability import broken_by_hand, chance, close, random_queries, runs, small_queries

import models.reliability.cuts as cuts_module
from models.errors import InputError
from models.reliability.cuts import components, joint_cuts, minimal, query_cuts, sandwich, support
from models.reliability.exact import (
    BOUNDS,
    Engine,
    TooManyNodes,
    at_equal_chance,
    bracketed,
    breaking_sets,
    counts_by_size,
    eliminated,
    elimination_order,
    factored,
    mean_broken,
    some_broken,
    unavailability,
)
from models.reliability.queries import Failures, Queries, equal_hosts, with_common_cause


@settings(max_examples=60, deadline=None)
@given(small_queries(), st.lists(chance, min_size=1, max_size=2))
def test_equal_hosts_keep_twelve_digits(queries: Queries, p: list[float]) -> None:
    failures = equal_hosts(p, queries.n_hosts)
    found = unavailability(queries, failures)
    assert found.exact
    for setting in range(len(p)):
        by_hand = broken_by_hand(queries, failures, setting)
        assert all(close(x, y) for x, y in zip(found.low[setting], by_hand, strict=True)), found.methods


@settings(max_examples=60, deadline=None)
@given(small_queries(5), st.data())
def test_unequal_hosts_and_shocks_keep_twelve_digits(queries: Queries, data: st.DataObject) -> None:
    n = queries.n_hosts
    down = [data.draw(st.lists(chance, min_size=n, max_size=n))]
    group = st.lists(st.integers(0, n - 1), min_size=1, max_size=n, unique=True)
    groups = data.draw(st.lists(group, max_size=2))
    shocks = data.draw(st.lists(chance, min_size=len(groups), max_size=len(groups)))
    failures = Failures(np.array(down), tuple(map(tuple, groups)), np.array([shocks]).reshape(1, -1))
    found = unavailability(queries, failures)
    assert found.exact
    assert all(close(x, y) for x, y in zip(found.low[0], broken_by_hand(queries, failures, 0), strict=True))


def test_nine_nines_keep_twelve_digits() -> None:
    """Two operators with a replica each, sharing a host: q^2 (2 - q)."""
    queries = Queries(3, ((0, 1), (1, 2)), ((0, 1),))
    for q in (1e-5, 3.1e-8, 1e-12):
        found = unavailability(queries, equal_hosts(q, 3)).low[0, 0]
        assert close(found, Fraction(q) ** 2 * (2 - Fraction(q)), 14)


def big_query(n_cuts: int) -> Queries:
    """A ring: operator k on hosts k and k + 1; as many cuts as hosts, all in one part."""
    return Queries(n_cuts, tuple((k, (k + 1) % n_cuts) for k in range(n_cuts)), (tuple(range(n_cuts)),))


def ring_works(n: int, q: Fraction) -> Fraction:
    """P(no two neighbours of a ring are down), by the number of failed: n / (n - k) C(n - k, k) sets of k."""
    from math import comb  # noqa: PLC0415

    total = Fraction(0)
    for k in range(n // 2 + 1):
        total += Fraction(n * comb(n - k, k), n - k) * q**k * (1 - q) ** (n - k)
    return total


@pytest.mark.parametrize(("n", "method"), [(5, "inclusion-exclusion"), (16, "inclusion-exclusion"), (17, "factoring")])
@pytest.mark.parametrize("q", [0.5, 0.02, 1e-9])
def test_a_ring_equals_its_closed_form(n: int, method: str, q: float) -> None:
    found = unavailability(big_query(n), equal_hosts(q, n))
    assert found.methods == (method,)
    assert close(found.low[0, 0], 1 - ring_works(n, Fraction(q)))


def test_a_large_ring_is_eliminated() -> None:
    found = unavailability(big_query(200), equal_hosts(0.02, 200))
    assert found.methods == ("elimination",)
    assert close(found.low[0, 0], 1 - ring_works(200, Fraction(0.02)))


def grid(side: int) -> Queries:
    """One query over the edges of a grid: its width is the side, its factoring explodes."""
    at = [(r, c) for r in range(side) for c in range(side)]
    edges = [(r * side + c, r * side + c + 1) for r, c in at if c + 1 < side]
    edges += [(r * side + c, (r + 1) * side + c) for r, c in at if r + 1 < side]
    return Queries(side * side, tuple(edges), (tuple(range(len(edges))),))


def test_what_is_too_large_for_all_methods_is_bracketed_and_says_so() -> None:
    queries, failures = grid(20), equal_hosts([0.02, 1e-4], 20 * 20)
    found = unavailability(queries, failures, most_nodes=40)
    assert found.methods == (BOUNDS,)
    assert not found.exact
    assert (found.low < found.high).all()
    assert (found.high[1] < 1.01 * found.low[1]).all()
    low, high = mean_broken(queries, found)
    assert (low == found.low[:, 0]).all()
    assert (high == found.high[:, 0]).all()


def test_bounds_hold_the_exact_value_and_tighten_with_nodes() -> None:
    queries, failures = grid(6), equal_hosts([0.3, 0.02], 36)
    (cuts,) = query_cuts(queries, failures)
    exact = eliminated(cuts, failures.chances)
    assert exact is not None
    widths = []
    for nodes in (1, 30, 1000):
        low, high = bracketed(cuts, failures.chances, nodes)
        assert (low <= exact * (1 + 1e-12)).all()
        assert (exact <= high * (1 + 1e-12)).all()
        widths.append(high - low)
    assert (widths[2] < widths[1]).all()
    assert (widths[1] < widths[0]).all()


def test_the_sandwich_is_esary_and_proschan_above() -> None:
    cuts = (0b011, 0b110)
    chances = np.full((1, 3), 0.5)
    low, high = sandwich(cuts, chances)
    assert np.isclose(high[0], 1 - 0.75**2, rtol=1e-14)
    assert low[0] <= 0.375 <= high[0]


@settings(max_examples=60, deadline=None)
@given(small_queries(9), st.integers(0, 2**31))
def test_all_methods_agree(queries: Queries, seed: int) -> None:
    chances = np.random.default_rng(seed).uniform(0, 0.6, (3, queries.n_hosts))
    joint = joint_cuts(query_cuts(queries, equal_hosts(0.1, queries.n_hosts)))
    by_factoring = factored(joint, chances)
    by_elimination = eliminated(joint, chances)
    assert by_elimination is not None
    assert np.allclose(by_factoring, by_elimination, rtol=1e-13, atol=0)
    assert breaking_sets(joint) == counts_by_size(joint) if len(joint) <= 16 else True
    some = some_broken(queries, Failures(chances))
    assert np.allclose(some.low[:, 0], by_factoring, rtol=1e-13, atol=0)


@settings(max_examples=40, deadline=None)
@given(small_queries(6))
def test_counts_are_those_of_all_failure_sets(queries: Queries) -> None:
    for query, cuts in enumerate(query_cuts(queries, equal_hosts(0.1, queries.n_hosts))):
        touched = [host for host in range(queries.n_hosts) if support(cuts) >> host & 1]
        by_hand = [
            sum(not runs(queries, query, set(down)) for down in combinations(touched, k))
            for k in range(len(touched) + 1)
        ]
        assert list(counts_by_size(cuts)) == by_hand
        assert list(breaking_sets(cuts)) == by_hand


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(small_queries(10), st.integers(0, 2**31))
def test_all_methods_and_bounds_agree_in_a_long_campaign(queries: Queries, seed: int) -> None:
    failures = Failures(np.random.default_rng(seed).uniform(0, 1, (2, queries.n_hosts)) ** 3)
    for cuts in query_cuts(queries, failures):
        exact = factored(cuts, failures.chances)
        assert np.allclose(eliminated(cuts, failures.chances), exact, rtol=1e-13, atol=0)
        for nodes in (1, 4, 20):
            low, high = bracketed(cuts, failures.chances, nodes)
            assert (low <= exact * (1 + 1e-12)).all()
            assert (exact <= high * (1 + 1e-12)).all()


def test_counts_of_many_cuts_by_arrays_equal_those_of_factoring() -> None:
    for n in (7, 12, 16):
        (cuts,) = query_cuts(big_query(n), equal_hosts(0.1, n))
        assert breaking_sets(cuts) == counts_by_size(cuts)
        assert at_equal_chance(breaking_sets(cuts), np.array([1.0, 0.0])).tolist() == [1.0, 0.0]


def test_a_placement_of_real_size_is_exact_by_two_independent_ways() -> None:
    queries = random_queries(np.random.default_rng(5), 102, 100)
    failures = equal_hosts([0.0025, 0.03], 102)
    found = unavailability(queries, failures)
    assert found.exact
    again = [eliminated(cuts, failures.chances) for cuts in query_cuts(queries, failures)]
    assert np.allclose(found.low, np.array(again).T, rtol=1e-12, atol=0)


def test_forgetting_absorption_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product over operators, which counts a host once for each operator, must differ."""
    queries = Queries(2, ((0,), (0, 1)), ((0, 1),))
    failures = equal_hosts(0.1, 2)
    assert close(unavailability(queries, failures).low[0, 0], Fraction(0.1))
    monkeypatch.setattr(cuts_module, "minimal", tuple)
    monkeypatch.setattr("models.reliability.exact.components", lambda cuts: [(cut,) for cut in cuts])
    assert not close(unavailability(queries, failures).low[0, 0], Fraction(0.1))


def test_shocks_take_a_rack_at_once() -> None:
    """A pair in one rack: the shock, or both; in two racks: both of (host or its rack)."""
    q, s = Fraction(0.01), Fraction(0.001)
    groups = ((0, 1), (2,))
    failures = Failures(np.full((1, 3), 0.01), groups, np.full((1, 2), 0.001))
    found = unavailability(Queries(3, ((0, 1), (0, 2)), ((0,), (1,))), failures).low[0]
    assert close(found[0], s + (1 - s) * q**2)
    assert close(found[1], (q + s - q * s) ** 2)


def test_the_beta_factor_keeps_each_host_and_takes_over_once_beta_is_above_p() -> None:
    down = np.full((1, 3), 0.01)
    failures = with_common_cause(down, [(0, 1)], 0.1)
    alone = unavailability(Queries(3, ((0,), (2,), (0, 1), (0, 2)), ((0,), (1,), (2,), (3,))), failures).low[0]
    assert np.allclose(alone[:2], 0.01, rtol=1e-13)
    own = (1 - 0.1) * 0.01 / (1 - 0.001)
    assert np.isclose(alone[2], 0.001 + 0.999 * own**2, rtol=1e-12)
    assert np.isclose(alone[3], 1e-4, rtol=1e-12)
    assert alone[2] > 10 * alone[3]
    for beta in (0.0, 1.0):
        pair = unavailability(Queries(3, ((0, 1),), ((0,),)), with_common_cause(down, [(0, 1)], beta)).low[0, 0]
        assert np.isclose(pair, [1e-4, 0.01][int(beta)], rtol=1e-13)


def test_late_take_overs_break_an_operator_though_its_replica_is_up() -> None:
    """Primary down and not taken over, or both down; each host stays down with probability q."""
    failures = Failures(np.full((1, 2), 0.01), late=np.full((1, 2), 0.002))
    found = unavailability(Queries(2, ((0, 1), (0,), (1,)), ((0,), (1,), (2,))), failures).low[0]
    assert np.isclose(found[0], 0.002 + (0.01 - 0.002) * 0.01, rtol=1e-12)
    assert np.allclose(found[1:], 0.01, rtol=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 2**10 - 1), min_size=65, max_size=120))
def test_many_masks_are_reduced_as_few_are(masks: list[int]) -> None:
    plain = {mask for mask in masks if not any(one & mask == one != mask for one in masks)}
    assert set(minimal(masks)) == plain
    assert set(minimal(masks[:64])) == {
        mask for mask in masks[:64] if not any(one & mask == one != mask for one in masks[:64])
    }


def test_components_share_nothing_and_lose_nothing() -> None:
    cuts = minimal([0b1, 0b110, 0b11000, 0b10100, 0b1100000])
    parts = components(cuts)
    assert sorted(cut for part in parts for cut in part) == sorted(cuts)
    assert sum(support(part).bit_count() for part in parts) == support(cuts).bit_count()
    assert len(parts) == 3


def test_the_width_of_a_grid_is_its_side() -> None:
    (cuts,) = query_cuts(grid(4), equal_hosts(0.1, 16))
    order, width = elimination_order(cuts)
    assert sorted(order) == list(range(16))
    assert width == 4
    assert eliminated(cuts, equal_hosts(0.1, 16).chances, most_width=3) is None
    assert len(elimination_order(cuts, 3)[0]) < 16


def test_a_budget_of_nodes_is_kept() -> None:
    (cuts,) = query_cuts(grid(6), equal_hosts(0.1, 36))
    with pytest.raises(TooManyNodes):
        factored(cuts, equal_hosts(0.1, 36).chances, 50)
    found = Engine(equal_hosts(0.1, 36), most_nodes=50).of([cuts])
    assert found.methods == ("elimination",)


def test_weights_make_the_mean() -> None:
    queries = Queries(2, ((0,), (0, 1)), ((0,), (1,)), weights=(3, 1))
    found = unavailability(queries, equal_hosts(0.1, 2))
    assert np.allclose(mean_broken(queries, found)[0], (3 * 0.1 + 0.01) / 4, rtol=1e-14)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Queries(2, ((0, 0),), ((0,),)), "instances[0][1] = 0: stands there twice"),
        (lambda: Queries(2, ((2,),), ((0,),)), "instances[0][0] = 2: is not a host: there are 2"),
        (lambda: Queries(2, ((0,),), ((1,),)), "operators[0][0] = 1: is not an operator: there are 1"),
        (lambda: Queries(2, ((0,),), ((),)), "operators[0]: must hold an operator at least"),
        (lambda: Queries(2, ((0,),), ()), "operators: must have a query at least"),
        (lambda: Queries(2, ((0,),), ((0,),), (0.0,)), "weights[0] = 0.0: must be positive and finite"),
        (lambda: equal_hosts([0.1, 1.5], 2), "p[1] = 1.5: must be a probability, between 0 and 1"),
        (lambda: equal_hosts(float("nan"), 2), "p[0] = nan: must be a probability, between 0 and 1"),
        (lambda: Failures(np.array([[0.1]]), ((1,),)), "groups[0][0] = 1: is not a host: there are 1"),
        (lambda: Failures(np.array([[0.1]]), ((0,),), np.array([[2.0]])), "shocks[0][0] = 2.0: must be a probability"),
        (lambda: Failures(np.array([[0.1]]), late=np.array([[0.2]])), "late = 0.2: must not exceed"),
        (lambda: with_common_cause(np.array([[0.1, 0.2]]), [(0, 1)], 0.1), "groups[0]: must be of hosts that fail"),
        (lambda: with_common_cause(np.array([[0.1, 0.1]]), [(0,), (0,)], 0.1), "groups: must not share hosts"),
        (lambda: with_common_cause(np.array([[0.1]]), [(0,)], 2.0), "beta = 2.0: must be between 0 and 1"),
    ],
)
def test_bad_problems_are_refused_with_path_value_and_rule(make, says) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError) as error:
        make()
    assert says in str(error.value)
