"""Static systems without events: every row equals that of the run of events."""

from __future__ import annotations

import numpy as np
import pytest
from fleet_systems import AT_ONE_INSTANT, STATIC, static_system
from hypothesis import given, settings
from hypothesis import strategies as st

from models.errors import InputError
from sim.fleet.engine import simulate_fleet
from sim.fleet.outages import flat, inside, union


@pytest.mark.parametrize("name", [*STATIC, *AT_ONE_INSTANT])
def test_merged_timelines_have_the_rows_of_the_events(name: str) -> None:
    keys = {**STATIC, **AT_ONE_INSTANT}[name]
    for replication, weather in ((0, 3), (1, 4)):
        system = static_system(seed=weather, duration="100 d", **keys)
        merged, events = (simulate_fleet(system, replication, method=one) for one in ("merged", "events"))
        assert merged.rows == events.rows
        assert (merged.method, events.method) == ("merged", "events")
        assert bool(merged.rows["outages"]) == (name != "never down")


def test_a_run_repeats_and_another_replication_differs() -> None:
    system = static_system(duration="200 d")
    first, again, other = (simulate_fleet(system, k).rows for k in (0, 0, 1))
    assert first == again
    assert first != other


def test_a_query_that_comes_later_needs_events() -> None:
    system = static_system(queries={"q": {"operators": ["o0"], "arrives": "1 d"}})
    with pytest.raises(InputError, match="without a manager"):
        simulate_fleet(system, method="merged")
    assert simulate_fleet(system).method == "events"


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)).map(lambda one: (one[0], sum(one))), max_size=6)


@given(st.lists(spans, max_size=4), st.integers(1, 50))
@settings(max_examples=100, deadline=None)
def test_a_union_is_down_where_one_of_its_parts_is(parts: list[list[tuple[int, int]]], end: int) -> None:
    timelines = [flat(sorted(one), end) for one in parts]
    found = union(timelines)
    assert (np.diff(found) > 0).all()
    at = np.arange(60)
    by_hand = [any(a <= t < min(b, end) for one in parts for a, b in one) for t in at.tolist()]
    assert inside(found, at).tolist() == by_hand
