"""The compiled plane against its specification where queues have bounds: equal rows, in every table.

Oracle: `sim.plain`, by equality of all columns; no tolerance.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_jobs import random_job, storm, with_buffers
from test_planes import METHODS, on_both


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), stormy=st.booleans(), method=st.sampled_from(METHODS))
def test_both_planes_give_equal_rows_with_buffers(seed: int, stormy: bool, method: dict[str, Any]) -> None:
    make = storm if stormy else random_job
    assert on_both(with_buffers(Random(seed + 1), make(Random(seed), fault_tolerance=method))) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_equal_rows_with_buffers(part: int) -> None:
    for seed in range(part * 1000, part * 1000 + 1000):
        make = storm if seed % 3 == 0 else random_job
        raw = with_buffers(Random(seed + 1), make(Random(seed), fault_tolerance=METHODS[seed % 4]))
        assert on_both(raw) == [], seed
