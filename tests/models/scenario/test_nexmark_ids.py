"""How many different persons and auctions the events of NEXMark refer to.

Oracle: ids that the generator of keys draws, counted; one fixed seed. Tolerance: four standard deviations of a count
of rare ids, and 1.5 % for the integral.
"""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from models.scenario.nexmark import Field, expected_ids
from models.scenario.workload import NexmarkKeys
from sim.nexmark_keys import nexmark_keys


@pytest.mark.parametrize("field", get_args(Field))
@pytest.mark.parametrize("in_flight", [100, 20_000])
@pytest.mark.parametrize(
    ("events", "share"), [(100, 1.0), (2_000, 0.2), (60_000, 1.0), (300_000, 0.2), (300_000, 0.01)]
)
def test_as_many_ids_are_expected_as_the_generator_draws(
    field: Field, in_flight: int, events: int, share: float
) -> None:
    random = np.random.default_rng(7)
    numbers = np.arange(events)[random.random(events) < share]
    keys = NexmarkKeys(field=field, in_flight=in_flight if field == "bid.auction" else 100)
    drawn = np.unique(nexmark_keys(keys, numbers, random.random(numbers.size))).size
    found = expected_ids(field, events, numbers.size, keys.in_flight)
    assert abs(found - drawn) <= 4 * drawn**0.5 + 0.015 * drawn


@pytest.mark.parametrize("field", get_args(Field))
def test_nobody_is_referred_to_by_no_event(field: Field) -> None:
    assert expected_ids(field, 0.0, 0.0, 100) == 0
    assert expected_ids(field, 1000.0, 0.0, 100) == 0


@pytest.mark.parametrize("field", get_args(Field))
def test_there_are_never_more_ids_than_events(field: Field) -> None:
    for events in (1.0, 10.0, 1e4, 1e12):
        assert 0 < expected_ids(field, events, events / 3, 100) <= events / 3
