"""Sampling with very many runs says first how long it takes, and is refused where that is more than a day."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from models.errors import InputError
from models.reliability.description import availability_from
from scenarios.reliability import availability
from scenarios.reliability.availability import BATCH, MEASURED, SamplingTime

ASKED = availability_from(
    {
        "hosts": ["a", "b"],
        "operators": {"o": ["a", "b"]},
        "queries": {"q": ["o"]},
        "p": 0.1,
    }
)


def clock_of(batch_s: float) -> Callable[[], float]:
    """A clock by which each batch takes that long."""
    times: Iterator[float] = iter((0.0, batch_s))
    return lambda: next(times)


def test_the_expected_time_is_that_of_the_batch_times_runs_and_settings() -> None:
    said: list[str] = []
    made: list[int] = []
    expected = SamplingTime(10**9, 3, said.append, clock_of(0.5))
    expected.check(made.append)
    expected.check(made.append)
    assert said == ["sampling 1,000,000,000 runs for each of 3 settings takes about 25 min"]
    assert made[-1] == BATCH
    assert len(made) == 2


def test_more_than_a_day_is_refused_with_the_runs_that_fit() -> None:
    with pytest.raises(InputError) as refused:
        SamplingTime(10**12, 1, _never, clock_of(1.0)).check(lambda _: None)
    assert "--runs = 1000000000000: sampling 1,000,000,000,000 runs takes about 11.6 d: at most a day" in str(
        refused.value
    )
    assert "about 90,000,000,000 runs take a day" in str(refused.value)


def test_few_runs_are_not_timed() -> None:
    made: list[int] = []
    SamplingTime(MEASURED, 1, _never, clock_of(1.0)).check(made.append)
    assert made == []


@pytest.mark.parametrize("method", ["monte-carlo", "stratified", "importance-sampling"])
def test_of_a_million_million_runs_only_the_batch_is_sampled_before_the_refusal(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    made: list[int] = []
    monkeypatch.setattr(availability, "_sampled", lambda *given: made.append(given[3]))
    slow = lambda *given: SamplingTime(*given, clock_of(10.0))  # noqa: E731
    monkeypatch.setattr(availability, "SamplingTime", slow)
    with pytest.raises(InputError, match=r"--runs = 1000000000000: sampling"):
        availability.answer(ASKED, method=method, runs=10**12)
    assert max(made) == BATCH


def test_what_is_exact_asks_for_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "_sampled", _never)
    found = availability.answer(ASKED, runs=10**12, on_progress=_never)
    assert found.lines[0].mean.value == pytest.approx(0.01)


def _never(*given: Any) -> None:
    raise AssertionError(f"called with {given}")
