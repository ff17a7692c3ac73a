"""How long Flink's restart strategies wait, and when they give up."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from models.engines.restart_strategies import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    RestartState,
    RestartStrategy,
)
from models.errors import InputError

NO_JITTER = ExponentialDelay(jitter=0.0)


def delays(strategy: RestartStrategy, failures_s: list[float]) -> list[float | None]:
    state, found = RestartState(), []
    for failure_s in failures_s:
        state, delay_s = strategy.after_failure(state, failure_s)
        found.append(delay_s)
    return found


def test_a_fixed_delay_gives_up_after_its_attempts() -> None:
    assert delays(FixedDelay(delay_s=2.0, attempts=2), [0, 100, 10_000]) == [2.0, 2.0, None]
    assert delays(FixedDelay(), [0, 100]) == [1.0, None]
    assert delays(FixedDelay(attempts=0), [0]) == [None]


def test_an_exponential_delay_grows_to_its_maximum() -> None:
    assert delays(ExponentialDelay(multiplier=2.0, maximum_s=5.0), [0, 10, 20, 30, 40]) == [1, 2, 4, 5, 5]


def test_an_exponential_delay_grows_across_failures_until_the_job_ran_for_the_threshold() -> None:
    # The second restart is at 3001.5 s: one hour after that the delay is the initial one again.
    assert delays(NO_JITTER, [0, 3000, 3001.5 + 3599]) == [1.0, 1.5, 2.25]
    assert delays(NO_JITTER, [0, 3000, 3001.5 + 3600]) == [1.0, 1.5, 1.0]


def test_a_failure_before_the_planned_restart_waits_for_that_restart() -> None:
    assert delays(NO_JITTER, [0, 0.25, 0.75, 1.5]) == [1.0, 0.75, 0.25, 1.5]


def test_a_failure_at_the_restart_is_a_failure_of_that_restart() -> None:
    assert delays(NO_JITTER, [0, 1.0, 2.5]) == [1.0, 1.5, 2.25]


def test_an_exponential_delay_with_a_limit_gives_up_until_it_is_reset() -> None:
    strategy = ExponentialDelay(attempts=2, jitter=0.0)
    assert delays(strategy, [0, 2, 5]) == [1.0, 1.5, None]
    assert delays(strategy, [0, 2, 5000]) == [1.0, 1.5, 1.0]


def test_jitter_stays_between_the_initial_delay_and_the_maximum() -> None:
    strategy = ExponentialDelay(multiplier=2.0, maximum_s=4.0, jitter=0.25)
    state, first_s = strategy.after_failure(RestartState(), 0.0, -1.0)
    state, second_s = strategy.after_failure(state, 10.0, -1.0)
    _, third_s = strategy.after_failure(state, 20.0, 1.0)
    assert (first_s, second_s, third_s) == (1.0, 1.5, 4.0)


def test_the_delay_of_thousands_of_attempts_is_the_maximum() -> None:
    long_ago = RestartState(attempts=10**6, restart_s=0.0)
    assert ExponentialDelay().after_failure(long_ago, 1.0, -1.0)[1] == 60.0


def test_a_failure_rate_gives_up_at_one_failure_more_than_allowed_in_the_interval() -> None:
    strategy = FailureRate(failures=2, interval_s=60.0, delay_s=3.0)
    assert delays(strategy, [0, 30, 61]) == [3.0, 3.0, 3.0]
    assert delays(strategy, [0, 30, 60]) == [3.0, 3.0, None]


@given(
    failures_s=st.lists(st.floats(0, 1e5), min_size=1).map(sorted),
    jitters=st.lists(st.floats(-1, 1), min_size=1),
    origin_s=st.sampled_from([0.0, 4.0, 4096.0]),
)
def test_exponential_delays_keep_their_limits_on_every_clock(
    failures_s: list[float], jitters: list[float], origin_s: float
) -> None:
    strategy, state, moved = ExponentialDelay(), RestartState(), RestartState()
    for number, failure_s in enumerate(round(4 * failure_s) / 4 for failure_s in failures_s):
        jitter = jitters[number % len(jitters)]
        merged = failure_s < state.restart_s
        state, delay_s = strategy.after_failure(state, failure_s, jitter)
        moved, moved_s = strategy.after_failure(moved.counted_from(0.0), failure_s - origin_s, jitter)
        assert delay_s is not None and moved_s is not None
        assert (0 if merged else 1) <= delay_s <= 60
        assert moved_s == pytest.approx(delay_s)
        assert moved.restart_s == pytest.approx(state.counted_from(origin_s).restart_s)


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: FixedDelay(delay_s=-1.0), "delay"),
        (lambda: FixedDelay(attempts=-1), "attempts"),
        (lambda: ExponentialDelay(initial_s=0.0), "initial"),
        (lambda: ExponentialDelay(multiplier=1.0), "multiplier"),
        (lambda: ExponentialDelay(maximum_s=math.nan), "maximum"),
        (lambda: ExponentialDelay(jitter=1.5), "jitter"),
        (lambda: ExponentialDelay(reset_s=0.0), "reset"),
        (lambda: ExponentialDelay(attempts=0), "attempts"),
        (lambda: FailureRate(failures=0), "failures"),
        (lambda: FailureRate(interval_s=0.0), "interval"),
        (lambda: FailureRate(delay_s=math.inf), "delay"),
    ],
)
def test_impossible_settings_are_refused(make: Callable[[], object], path: str) -> None:
    with pytest.raises(ValidationError, match=rf"\n{path}(_s)?\n"):
        make()


def test_a_jitter_is_between_minus_one_and_one() -> None:
    with pytest.raises(InputError, match=r"^jitter = 1.5"):
        ExponentialDelay().after_failure(RestartState(), 0.0, 1.5)
