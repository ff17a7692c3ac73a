"""Where keys of states are in their table."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.hash_tables import KEY, away_from_home


def test_every_key_away_from_home_is_found_where_it_was_put() -> None:
    rng = np.random.default_rng(5)
    table = np.zeros(256, KEY)
    table["partition"] = NONE
    table["partition"][:64] = 99  # homes that are taken
    put: dict[tuple[int, int], int] = {}
    for partition, key in rng.integers(0, 40, (400, 2)).tolist():
        place = int(away_from_home(table, partition, key))
        if (partition, key) in put:
            assert place == put[partition, key]
        elif len(put) < 64:  # at most half full
            assert table["partition"][place] == NONE
            table["partition"][place], table["key"][place] = partition, key
            put[partition, key] = place
        else:
            assert table["partition"][place] == NONE
    assert len(set(put.values())) == 64
