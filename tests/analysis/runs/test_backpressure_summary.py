"""What bounded queues did, from rows by hand: 10 s of which 2 s are warm-up."""

from __future__ import annotations

import pytest

from analysis.runs.timelines import backpressure

S = 10**9


def bounded(make):
    operators = make.scenario().model_dump(mode="json", exclude_none=True)["operators"]
    operators["count"]["buffer"] = 4
    return make.scenario(operators=operators)


def test_it_is_counted_after_the_warm_up_over_all_replications(make):
    rows = [(at * S, 0, 0, 1, max(0, at - 6) * S // 2) for at in range(1, 11)]  # the source waits half of the last 4 s
    rows += [(at * S, 1, 4 if at == 1 else 2, 0, 0) for at in range(1, 11)]
    lag = [(at * S, 0, 100 if at == 1 else at) for at in range(1, 11)]
    held = backpressure(
        bounded(make),
        [make.records(buffers=[(*row, 0, 0, 0) for row in rows], lag=lag), make.records(1, lag=[(5 * S, 0, 0)])],
    )
    assert list(held) == ["in", "count"]
    source, count = held["in"], held["count"]
    assert (source.places, source.fullest, source.held_back, source.lag_max) == (None, None, 2 / 8, 10)
    assert source.lag_mean == pytest.approx(sum(range(2, 11)) / 10)
    assert (count.places, count.fullest, count.held_back, count.lag_max) == (4, 0.5, 0.0, None)


def test_a_run_without_bounded_queues_and_without_lag_has_nothing_to_say(make):
    assert backpressure(make.scenario(), [make.records(lag=[(5 * S, 0, 0)])]) == {}
