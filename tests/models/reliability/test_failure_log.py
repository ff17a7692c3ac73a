"""Failure logs: what overlaps is one outage, what is not seen to its end is known to be longer."""

from __future__ import annotations

import numpy as np
import pytest

from models.errors import InputError
from models.reliability.failure_log import LONGER, SEEN, SHORTER, STILL_DOWN, US, FailureLog, merged, within


def log_of(outages: list[tuple[int, int, int]], begin: list[int], end: list[int]) -> FailureLog:
    """A log of (host, down [s], up [s] or STILL_DOWN)."""
    rows = np.array(outages, dtype=np.int64).reshape(-1, 3)
    scaled = [np.where(column == STILL_DOWN, STILL_DOWN, column * US) for column in rows.T[1:]]
    hosts = tuple(f"h{k}" for k in range(len(begin)))
    return FailureLog(hosts, np.array(begin) * US, np.array(end) * US, rows[:, 0].copy(), *scaled)


def test_outages_that_overlap_or_touch_are_one_by_brute_force_over_ticks() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        host = rng.integers(0, 3, 12)
        down = rng.integers(0, 40, 12)
        up = down + rng.integers(0, 6, 12)
        found = merged(host, down, up)
        for one in range(3):
            # Half ticks tell a gap between two outages from outages that touch.
            seen = np.zeros(100, dtype=bool)
            for begin, end in zip(down[host == one], up[host == one], strict=True):
                seen[2 * begin : 2 * end + 1] = True
            again = np.zeros(100, dtype=bool)
            for begin, end in zip(found[1][found[0] == one], found[2][found[0] == one], strict=True):
                assert not again[2 * begin : 2 * end + 1].any()
                again[2 * begin : 2 * end + 1] = True
            assert np.array_equal(seen, again)


def test_an_outage_without_an_end_takes_in_all_that_follows() -> None:
    host, down, up = merged(np.zeros(3, dtype=np.int64), np.array([5, 1, 8]), np.array([STILL_DOWN, 2, 9]))
    assert (host.tolist(), down.tolist(), up.tolist()) == ([0, 0], [1, 5], [2, STILL_DOWN])


def test_up_times_end_in_failures_and_the_last_one_is_longer() -> None:
    log = log_of([(0, 10, 12), (0, 20, 20), (2, 0, 3)], [0, 0, 0], [30, 30, 30])
    up = log.up_times()
    assert up.length_s.tolist() == [10, 8, 10, 30, 27]
    assert up.kind.tolist() == [SEEN, SEEN, LONGER, LONGER, LONGER]
    assert log.failures == 2  # the third host was down when it began to be watched
    assert log.failures_of.tolist() == [2, 0, 0]
    assert log.up_s_of.tolist() == [28, 30, 27]
    assert up.exposure_s.sum() == up.length_s.sum()


def test_repairs_within_a_tick_are_shorter_and_those_that_go_on_longer() -> None:
    log = log_of([(0, 10, 12), (0, 20, 20), (1, 0, 3), (1, 26, STILL_DOWN)], [0, 0], [30, 30])
    repair = log.repair_times()
    assert log.tick_s == 1
    assert repair.length_s.tolist() == [2, 1, 4]
    assert repair.kind.tolist() == [SEEN, SHORTER, LONGER]
    assert repair.ended == 2


def test_a_window_cuts_outages_and_leaves_out_hosts_that_were_not_watched() -> None:
    log = log_of([(0, 10, 20), (0, 40, 50), (0, 90, 95), (1, 1, 2)], [0, 0], [100, 9])
    cut = within(log, 15 * US, 45 * US)
    assert cut.hosts == ("h0",)
    assert (cut.down_us // US).tolist() == [15, 40]
    assert cut.up_us.tolist() == [20 * US, STILL_DOWN]
    assert cut.failures == 1  # it was down when the window began
    assert cut.repair_times().kind.tolist() == [LONGER]
    assert cut.notes["outside_window"] == 2


@pytest.mark.parametrize("begin, end, rule", [(50, 50, "must end after it begins"), (200, 300, "has no host")])
def test_a_window_without_hosts_is_refused(begin: int, end: int, rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        within(log_of([(0, 10, 20)], [0], [100]), begin * US, end * US)


@pytest.mark.parametrize(
    "outages, rule",
    [
        ([(0, 10, 20), (0, 15, 30)], "before the one before it ended"),
        ([(0, 20, 10)], "ends before it begins"),
        ([(0, 90, 101)], "outside of the window"),
        ([(1, 1, 2)], "hosts that the log does not have"),
    ],
)
def test_a_log_that_cannot_be_is_refused(outages: list[tuple[int, int, int]], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        log_of(outages, [0], [100])
