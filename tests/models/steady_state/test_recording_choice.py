"""Which recording a scenario gets: rows while they are few and fit, histograms above, or what it says."""

from __future__ import annotations

import pytest
from small_runs import small_scenario

from models.errors import InputError
from models.records.tables import bucket_ns
from models.scenario.events import MOST_TUPLE_STEPS
from models.scenario.reading import raw_of, scenario_from
from models.steady_state.estimate import BYTES_PER_STEP, BYTES_PER_WAITING_IN_SCAN, Estimate, check_limits, estimate

S = 10**9


def sized(rate_per_s: float, **changes: object) -> Estimate:
    workload = {"in": {"rate": f"{rate_per_s} /s", "keys": {"distribution": "uniform", "count": 4}}}
    return estimate(small_scenario(workload=workload, **changes))


def test_rows_are_kept_up_to_a_number_of_steps() -> None:
    few = sized(1000)
    per_rate = few.steps / 1000
    below, above = sized(0.99 * MOST_TUPLE_STEPS / per_rate), sized(1.01 * MOST_TUPLE_STEPS / per_rate)
    assert (few.detail, below.detail, above.detail) == ("tuples", "tuples", "histograms")
    assert below.memory_bytes > above.memory_bytes
    assert below.memory_bytes >= below.steps * BYTES_PER_STEP


def test_rows_that_do_not_fit_into_the_memory_are_binned_where_nobody_asked_for_them() -> None:
    limits = {"memory_bytes": 20e6}
    assert sized(10_000, limits=limits).detail == "histograms"
    asked = small_scenario(
        workload={"in": {"rate": "10000 /s", "keys": {"distribution": "uniform", "count": 4}}},
        recording={"detail": "tuples"},
        limits=limits,
    )
    assert estimate(asked).detail == "tuples"
    with pytest.raises(InputError, match=r"limits\.memory"):
        check_limits(asked, estimate(asked))


@pytest.mark.parametrize("detail", ["tuples", "histograms"])
def test_what_the_scenario_says_is_done(detail: str) -> None:
    assert {sized(rate, recording={"detail": detail}).detail for rate in (1, 10_000_000)} == {detail}


def test_histograms_take_the_same_memory_for_any_number_of_tuples() -> None:
    scenario = small_scenario(recording={"detail": "histograms"})
    quick = {name: one.model_copy(update={"service": None}) for name, one in scenario.operators.items()}
    once, often = (
        estimate(scenario.model_copy(update={"operators": quick, "workload": at(rate)})).memory_bytes
        for rate in (1, 1_000_000)
    )
    assert once == often


def at(rate_per_s: float) -> object:
    workload = {"in": {"rate": f"{rate_per_s} /s", "keys": {"distribution": "uniform", "count": 4}}}
    return small_scenario(workload=workload).workload


def test_a_backlog_counts_with_histograms_and_is_refused_where_it_does_not_fit() -> None:
    below, above = (sized(rate, recording={"detail": "histograms"}) for rate in (0.9, 1_000_000))
    waiting = (1_000_000 - 1) * 10.0  # all four keys go to one task, which serves one a second for ten seconds
    assert above.memory_bytes - below.memory_bytes == pytest.approx(waiting * BYTES_PER_WAITING_IN_SCAN, rel=1e-9)
    crowded = small_scenario(
        workload={"in": {"rate": "1000000 /s", "keys": {"distribution": "uniform", "count": 4}}},
        recording={"detail": "histograms"},
        limits={"memory_bytes": 500e6},
    )
    with pytest.raises(InputError, match=r"limits\.memory = 500 MB: the run needs about 70\d MB"):
        check_limits(crowded, estimate(crowded))


def test_replications_count_together() -> None:
    rate = 0.6 * MOST_TUPLE_STEPS / (sized(1000).steps / 1000)
    assert [sized(rate, replications=n).detail for n in (1, 2)] == ["tuples", "histograms"]


def test_intervals_are_whole_seconds_and_at_most_an_hour_of_them() -> None:
    lengths = [bucket_ns(duration) for duration in (1, S, 3600 * S, 3600 * S + 1, 7200 * S, 10**9 * S)]
    assert lengths == [S, S, S, 2 * S, 2 * S, 277_778 * S]


def test_a_file_says_what_is_recorded_and_comes_back() -> None:
    raw = {
        "format": 1,
        "duration": "10 min",
        "workload": {"a": {"rate": "5 /s"}},
        "operators": {"a": {"kind": "source"}, "b": {"kind": "sink", "inputs": {"a": "shuffle"}}},
        "hosts": {"worker": {}},
        "recording": {"detail": "histograms"},
    }
    scenario = scenario_from(raw)
    assert scenario.recording.detail == "histograms"
    assert raw_of(scenario) == raw
    with pytest.raises(InputError, match=r"recording\.detail"):
        scenario_from(raw | {"recording": {"detail": "rows"}})
