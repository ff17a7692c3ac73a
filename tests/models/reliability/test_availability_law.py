"""The law of the number of broken queries against all failure sets by hand; brackets hold what is exact."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_availability import chance, close, law_by_hand, random_queries, small_queries

from models.errors import InputError
from models.reliability import law
from models.reliability.cuts import query_cuts
from models.reliability.exact import mean_broken, some_broken, unavailability
from models.reliability.law import broken_law
from models.reliability.queries import Failures, Queries, equal_hosts


def law_of_small_sets(queries: Queries, failures: Failures, most: int) -> np.ndarray:
    """The mass of sets of up to `most` elements, one set after the other."""
    of_queries, n = query_cuts(queries, failures), failures.chances.shape[1]
    mass = np.zeros((failures.n_settings, queries.n_queries + 1))
    for size in range(most + 1):
        for members in combinations(range(n), size):
            down = sum(1 << member for member in members)
            broken = sum(any(cut & down == cut for cut in cuts) for cuts in of_queries)
            state = np.isin(np.arange(n), members)
            mass[:, broken] += np.where(state, failures.chances, 1 - failures.chances).prod(axis=1)
    return mass


@settings(max_examples=50, deadline=None)
@given(small_queries(6), st.data())
def test_the_law_of_few_hosts_is_exact_to_twelve_digits(queries: Queries, data: st.DataObject) -> None:
    down = data.draw(st.lists(chance, min_size=queries.n_hosts, max_size=queries.n_hosts))
    failures = Failures(np.array([down, [0.02] * queries.n_hosts]))
    found = broken_law(queries, failures)
    assert found.sets is None
    assert (found.open == 0).all()
    for setting in range(2):
        by_hand = law_by_hand(queries, failures, setting)
        assert all(close(x, y) for x, y in zip(found.mass[setting], by_hand, strict=True))


@pytest.mark.parametrize("alike", [True, False])
def test_small_sets_are_all_gone_through(monkeypatch: pytest.MonkeyPatch, alike: bool) -> None:
    monkeypatch.setattr(law, "MOST_ELEMENTS", 0)
    rng = np.random.default_rng(3)
    queries = random_queries(rng, 12, 70)
    queries = Queries(12, (*queries.instances, (0, 1, 2), (3, 5, 7)), (*queries.operators, (len(queries.instances),)))
    down = np.full((2, 12), 0.05) if alike else rng.uniform(0, 0.2, (2, 12))
    failures = Failures(down)
    found = broken_law(queries, failures)
    assert found.sets == 3
    assert np.allclose(found.mass, law_of_small_sets(queries, failures, 3), rtol=1e-12, atol=1e-300)
    assert np.allclose(found.mass.sum(axis=1) + found.open, 1, rtol=1e-14)


def test_brackets_hold_what_is_exact_with_shocks_and_certain_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    queries = random_queries(rng, 12, 9)
    down = rng.uniform(0, 0.3, (3, 12))
    down[1, 4] = 1.0
    failures = Failures(down, ((0, 1, 2), (5,)), np.full((3, 2), 0.01))
    exact = broken_law(queries, failures)
    monkeypatch.setattr(law, "MOST_ELEMENTS", 0)
    bracket = broken_law(queries, failures)
    assert (exact.sets, bracket.sets) == (None, 3)
    for share in (0.0, 0.5, 2 / 3, 0.9, 1.0):
        low, high = bracket.short_of(share)
        value = exact.short_of(share)[0]
        assert (low <= value * (1 + 1e-12)).all()
        assert (value <= high * (1 + 1e-12)).all()
    for level in (0.3, 0.5, 0.9):
        low, high = bracket.running_with(level)
        value = exact.running_with(level)[0]
        assert (low <= value).all()
        assert (value <= high).all()


def test_the_law_agrees_with_the_mean_and_with_some_broken() -> None:
    queries = random_queries(np.random.default_rng(6), 14, 40)
    failures = equal_hosts([0.001, 0.1], 14)
    found = broken_law(queries, failures)
    mean = found.mass @ np.arange(41) / 40
    assert np.allclose(mean, mean_broken(queries, unavailability(queries, failures))[0], rtol=1e-12)
    assert np.allclose(found.short_of(1.0)[0], some_broken(queries, failures).low[:, 0], rtol=1e-12)


def test_a_query_that_can_never_run_is_always_broken() -> None:
    queries = Queries(2, ((0,), (1,)), ((0,), (1,)))
    found = broken_law(queries, Failures(np.array([[1.0, 0.0]])))
    assert found.mass.tolist() == [[0, 1, 0]]
    assert found.short_of(0.5)[0].tolist() == [0]
    assert found.short_of(0.51)[0].tolist() == [1]
    assert found.running_with(1.0)[0].tolist() == [0.5]


@pytest.mark.parametrize("ask", [lambda found: found.short_of(1.5), lambda found: found.running_with(-0.1)])
def test_shares_and_levels_outside_of_zero_to_one_are_refused(ask) -> None:  # type: ignore[no-untyped-def]
    found = broken_law(Queries(1, ((0,),), ((0,),)), equal_hosts(0.1, 1))
    with pytest.raises(InputError, match="must be between 0 and 1"):
        ask(found)


def test_less_is_gone_through_where_there_are_too_many_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, failures = random_queries(np.random.default_rng(7), 40, 20), equal_hosts(0.01, 40)
    monkeypatch.setattr(law, "_MOST_WORDS", 1000)
    fewer = broken_law(queries, failures)
    monkeypatch.setattr(law, "_MOST_WORDS", 100_000)
    more = broken_law(queries, failures)
    monkeypatch.setattr(law, "_MOST_PAIRS", 1000)
    assert (fewer.sets, more.sets, broken_law(queries, failures).sets) == (2, 3, 1)
    assert fewer.open[0] > more.open[0]
    assert fewer.short_of(0.9)[0] <= more.short_of(0.9)[0] <= more.short_of(0.9)[1] <= fewer.short_of(0.9)[1]
