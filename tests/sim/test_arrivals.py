"""When tuples arrive: closed forms of rate curves, spacing, batches, gaps, and conservation of counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from small_jobs import NS, queue

from models.scenario.inputs import RateSeries
from models.scenario.scenario import Scenario
from sim.arrivals import RateCurve, draw_arrivals, rate_curve

LEVEL = 0.001
LAW = {"distribution": "exponential", "mean": "1 ms"}


def source(tasks: int = 1, duration: str = "100 s", **workload: Any) -> Scenario:
    """A scenario whose source has this workload."""
    operators = {
        "src": {"kind": "source", "parallelism": tasks},
        "q": {"kind": "map", "inputs": {"src": "shuffle"}, "service": LAW},
        "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
    }
    return queue(LAW, duration=duration, workload={"src": workload}, operators=operators)


def arrival_times(made: Scenario, task: int = 0, series: RateSeries | None = None, replication: int = 0) -> np.ndarray:
    return draw_arrivals(made, "src", task, replication, series)[0]


def test_deterministic_arrivals_are_evenly_spaced_over_all_tasks() -> None:
    made = source(3, duration="2 s", rate="10 /s", arrivals="deterministic")
    merged = sorted(np.concatenate([arrival_times(made, task) for task in range(3)]).tolist())
    assert merged == [k * NS // 10 for k in range(1, 20)]  # the 20th would be created at the end, which is outside
    assert arrival_times(made, 1).tolist() == [k * NS // 10 for k in range(2, 20, 3)]


def test_a_ramp_arrives_at_the_roots_of_its_integral() -> None:
    # From 0 to 20 /s over 10 s: n tuples by t = sqrt(n); then 20 /s.
    rate = {"ramp": {"start": "0 /s", "end": "20 /s", "over": "10 s"}}
    times = arrival_times(source(duration="12 s", rate=rate, arrivals="deterministic"))
    expected = [round(n**0.5 * NS) for n in range(1, 101)] + [10 * NS + k * NS // 20 for k in range(1, 40)]
    np.testing.assert_allclose(times, expected, atol=1)


def test_a_falling_ramp_counts_down() -> None:
    rate = {"ramp": {"start": "20 /s", "end": "0 /s", "over": "10 s"}}
    times = arrival_times(source(duration="12 s", rate=rate, arrivals="deterministic"))
    assert times.size == 100
    np.testing.assert_allclose(times[:99], [round((10 - (100 - n) ** 0.5) * NS) for n in range(1, 100)], atol=2)


def test_steps_change_the_spacing_at_their_instants() -> None:
    steps = [{"at": "0 s", "rate": "10 /s"}, {"at": "1 s", "rate": "0 /s"}, {"at": "3 s", "rate": "5 /s"}]
    times = arrival_times(source(duration="4 s", rate={"steps": steps}, arrivals="deterministic"))
    assert times.tolist() == [k * NS // 10 for k in range(1, 11)] + [3 * NS + k * NS // 5 for k in range(1, 5)]


def test_a_step_after_the_end_is_not_reached() -> None:
    steps = [{"at": "0 s", "rate": "10 /s"}, {"at": "50 s", "rate": "1000 /s"}]
    assert arrival_times(source(duration="4 s", rate={"steps": steps}, arrivals="deterministic")).size == 39


def test_a_zero_rate_has_no_arrivals() -> None:
    for law in ("poisson", "deterministic", {"distribution": "gamma", "shape": 2.0}):
        assert arrival_times(source(rate="0 /s", arrivals=law)).size == 0


def test_inverse_undoes_cumulative() -> None:
    curve = RateCurve(np.array([0.0, 1, 3, 4]), np.array([2.0, 5, 0]), np.array([4.0, 1, 6]))
    np.testing.assert_allclose(curve.cumulative(), [0, 3, 9, 12])
    np.testing.assert_allclose(curve.inverse(np.array([0.0, 3, 9, 12])), [0, 1, 3, 4], atol=1e-12)
    # Within the second segment the integral is 5 x - x^2.
    np.testing.assert_allclose(curve.inverse(np.array([3 + 5 * 0.7 - 0.49])), [1.7])


@pytest.mark.parametrize("duration", ["3 s", "7 s", "20 s"])
def test_the_curve_ends_with_the_run(duration: str) -> None:
    rate = {"ramp": {"start": "1 /s", "end": "9 /s", "over": "10 s"}}
    made = source(duration=duration, rate=rate)
    t = made.duration_s
    curve = rate_curve(made.workload["src"], t, None)
    expected = t + 0.4 * t**2 if t <= 10 else 50 + 9 * (t - 10)
    assert curve.cumulative()[-1] == pytest.approx(expected)


@pytest.mark.parametrize("law", ["poisson", {"distribution": "gamma", "shape": 4.0}], ids=str)
@pytest.mark.parametrize("tasks", [1, 4])
def test_expected_counts_are_conserved(law: Any, tasks: int) -> None:
    # A renewal process started with a full gap is short of (1 - scv) / 2 arrivals on average (Cox, Renewal Theory,
    # 4.4).
    made = source(
        tasks, rate={"steps": [{"at": "0 s", "rate": "10 /s"}, {"at": "40 s", "rate": "30 /s"}]}, arrivals=law
    )
    scv = 1.0 if law == "poisson" else 0.25
    counts = [sum(arrival_times(made, task, replication=k).size for task in range(tasks)) for k in range(60)]
    assert stats.ttest_1samp(counts, 2200 - tasks * (1 - scv) / 2).pvalue > LEVEL


@pytest.mark.parametrize(
    ("word", "law"),
    [("poisson", {"distribution": "exponential"}), ("deterministic", {"distribution": "deterministic"})],
)
def test_a_law_by_word_and_as_a_table_gives_the_same_arrivals(word: str, law: dict[str, Any]) -> None:
    by_word, as_table = (arrival_times(source(duration="30 s", rate="50 /s", arrivals=given)) for given in (word, law))
    assert np.array_equal(by_word, as_table)


def test_erlang_gaps_are_gamma_gaps_of_the_same_shape() -> None:
    erlang, gamma = (
        arrival_times(source(duration="30 s", rate="50 /s", arrivals={"distribution": name, "shape": 3}))
        for name in ("erlang", "gamma")
    )
    assert np.array_equal(erlang, gamma)


def test_poisson_gaps_are_exponential() -> None:
    gaps = np.diff(arrival_times(source(duration="300 s", rate="50 /s"))) / NS
    assert stats.kstest(gaps, "expon", args=(0, 0.02)).pvalue > LEVEL


@pytest.mark.parametrize(
    ("law", "scv"),
    [
        ({"distribution": "gamma", "shape": 0.5}, 2.0),
        ({"distribution": "lognormal", "cv": 0.5}, 0.25),
        ({"distribution": "uniform", "spread": 0.6}, 0.12),
    ],
    ids=["gamma", "lognormal", "uniform"],
)
def test_renewal_gaps_have_the_mean_and_variance_of_their_law(law: dict[str, Any], scv: float) -> None:
    gaps = np.diff(arrival_times(source(duration="400 s", rate="50 /s", arrivals=law))) / NS
    assert stats.ttest_1samp(gaps, 0.02).pvalue > LEVEL
    assert stats.ttest_1samp((gaps - 0.02) ** 2, scv * 0.02**2).pvalue > LEVEL


def test_a_fixed_batch_arrives_together() -> None:
    times = arrival_times(source(duration="2 s", rate="20 /s", arrivals="deterministic", batch=4))
    assert times.tolist() == [k * NS // 5 for k in range(1, 10) for _ in range(4)]


def test_geometric_batches_keep_the_rate_and_have_their_mean() -> None:
    made = source(duration="400 s", rate="50 /s", batch={"distribution": "geometric", "mean": 2.5})
    times = arrival_times(made)
    _, sizes = np.unique(times, return_counts=True)
    assert stats.ttest_1samp(sizes, 2.5).pvalue > LEVEL
    assert stats.ttest_1samp((sizes - 2.5) ** 2, 2.5 * 1.5).pvalue > LEVEL
    totals = [arrival_times(made, replication=k).size for k in range(30)]
    assert stats.ttest_1samp(totals, 20_000).pvalue > LEVEL


def profile(weights: list[list[float]], rate: list[float]) -> RateSeries:
    edges = np.arange(len(rate) + 1, dtype=float)
    return RateSeries(edges, np.array(rate), np.array(weights))


def profile_source(arrivals: str = "deterministic") -> Scenario:
    """As a file would have it, but with the series at hand: the rules ask for a profile directory."""
    made = source(duration="3 s", rate="1 /s", arrivals=arrivals)
    keyed = made.workload["src"].model_copy(update={"keys": _profile_keys()})
    return made.model_copy(update={"workload": {"src": keyed}})


def _profile_keys() -> object:
    from models.scenario.workload import ProfileKeys  # noqa: PLC0415

    return ProfileKeys()


def test_keys_of_a_profile_are_those_of_the_bin_of_arrival() -> None:
    # The tenth tuple is created on the edge between two bins and belongs to the first; bin 1 has neither rate nor keys.
    series = profile([[1, 0, 0], [0, 0, 3]], [10, 0, 10])
    times, keys = draw_arrivals(profile_source(), "src", 0, 0, series)
    assert times[:10].tolist() == [k * NS // 10 for k in range(1, 11)]
    assert keys.tolist() == [0] * 10 + [1] * 9


def test_keys_of_a_profile_are_as_likely_as_in_their_bin() -> None:
    series = profile([[1, 5], [2, 0], [7, 5]], [3000, 2000])
    times, keys = draw_arrivals(profile_source("poisson"), "src", 0, 0, series)
    first = times <= NS
    assert (
        stats.chisquare(np.bincount(keys[first], minlength=3), first.sum() * np.array([0.1, 0.2, 0.7])).pvalue > LEVEL
    )
    late = np.bincount(keys[~first], minlength=3)
    assert late[1] == 0
    assert stats.binomtest(int(late[0]), int(late.sum()), 0.5).pvalue > LEVEL
    assert times.max() <= 2 * NS  # after the last edge the rate is zero


def test_tasks_and_replications_have_arrivals_of_their_own() -> None:
    made = source(2, rate="10 /s")
    runs = [arrival_times(made, task, replication=k).tolist() for task in range(2) for k in range(2)]
    assert all(runs[a] != runs[b] for a in range(4) for b in range(a))
    assert arrival_times(made).tolist() == runs[0]
