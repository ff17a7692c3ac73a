"""What is told while code is compiled."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sim.kernel.choice import time_share


def test_the_share_of_the_time_rises_to_one_and_stays_there() -> None:
    shares = [time_share(done, 112) for done in range(120)]
    assert shares[0] == 0.0
    assert all(before < after for before, after in pairwise(shares[:113]))
    assert set(shares[112:]) == {1.0}


@pytest.mark.parametrize(("functions", "seconds"), [(0.264, 3.5), (0.518, 8.17), (0.773, 13.86), (0.918, 20.48)])
def test_what_is_left_of_compiling_is_within_a_third_of_what_was_measured(functions: float, seconds: float) -> None:
    """CPU time of the scan for mm1 with an empty cache: 23.6 s."""
    share = time_share(round(1000 * functions), 1000)
    assert seconds * (1 - share) / share == pytest.approx(23.6 - seconds, rel=1 / 3)
