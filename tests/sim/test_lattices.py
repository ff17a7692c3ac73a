"""Both planes where everything coincides: random nanoseconds never hit `<` against `<=`.

Oracle: `sim.plain`, by equality of all columns.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lattices import coincidences, lattice_job
from test_planes import METHODS, on_both

from models.scenario.scenario import Scenario
from sim.engine import simulate


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), method=st.sampled_from(METHODS))
def test_both_planes_give_equal_rows_on_a_lattice(seed: int, method: dict[str, Any]) -> None:
    assert on_both(lattice_job(Random(seed), fault_tolerance=method)) == []


@pytest.mark.slow
def test_a_long_campaign_of_equal_rows_on_a_lattice() -> None:
    for seed in range(1000):
        assert on_both(lattice_job(Random(seed), fault_tolerance=METHODS[seed % 4])) == [], seed


def test_events_of_all_kinds_do_coincide() -> None:
    found: Counter[str] = Counter()
    for seed in range(40):
        raw = lattice_job(Random(seed))
        made = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
        found.update(coincidences(simulate(made)))
    assert min(found[kind] for kind in ("arrival", "checkpoint", "crash")) > 10, found
