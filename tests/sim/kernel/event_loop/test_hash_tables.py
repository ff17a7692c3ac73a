"""Where keys of states are in their table."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.hash_tables import away_from_home
from sim.kernel.event_loop.state import KEY, NONE


def test_every_key_away_from_home_is_found_where_it_was_put() -> None:
    rng = np.random.default_rng(5)
    table = np.zeros(256, KEY)
    table["unit"] = NONE
    table["unit"][:64] = 99  # homes that are taken
    put: dict[tuple[int, int], int] = {}
    for unit, key in rng.integers(0, 40, (400, 2)).tolist():
        place = int(away_from_home(table, unit, key))
        if (unit, key) in put:
            assert place == put[unit, key]
        elif len(put) < 64:  # at most half full
            assert table["unit"][place] == NONE
            table["unit"][place], table["key"][place] = unit, key
            put[unit, key] = place
        else:
            assert table["unit"][place] == NONE
    assert len(set(put.values())) == 64
