"""Laws of lengths: against closed forms, scipy's own fits, and laws that the data were drawn by."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from analysis.failure_logs.lifetimes import (
    Fit,
    _chance,
    _drawn,
    _fit,
    _sample,
    fits,
    mean_interval,
    rate_interval,
    seen_survival,
    spread_of,
    survival_of,
    verdict,
)
from models.reliability.failure_log import LONGER, SEEN, SHORTER, CensoredDurations


def durations_of(length: np.ndarray, kind: np.ndarray | None = None, tick_s: float = 0.0) -> CensoredDurations:
    kind = np.full(length.size, SEEN) if kind is None else kind
    return CensoredDurations(length.astype(float), kind.astype(np.int64), np.zeros(0), tick_s)


def by_law(found: tuple[Fit, ...]) -> dict[str, Fit]:
    return {fit.law: fit for fit in found}


def drawn_until(window_s: float, hosts: int, draw) -> CensoredDurations:  # type: ignore[no-untyped-def]
    """Lengths one after the other in each host's window."""
    lengths, kinds = [], []
    for _ in range(hosts):
        left = window_s
        while left > 0:
            length = draw()
            lengths.append(min(length, left))
            kinds.append(LONGER if length > left else SEEN)
            left -= length
    return CensoredDurations(np.array(lengths), np.array(kinds), np.full(hosts, window_s), 0.0)


def test_the_exponential_mean_is_all_time_by_what_ended() -> None:
    found = by_law(fits(durations_of(np.array([1.0, 2.0, 3.0, 6.0]), np.array([SEEN, SEEN, SEEN, LONGER])), draws=0))
    assert found["exponential"].mean_s == pytest.approx(4.0)
    assert found["exponential"].log_likelihood == pytest.approx(-3 * math.log(4.0) - 12 / 4)
    assert found["exponential"].rejected is None


def test_laws_equal_scipys_fits_with_lengths_that_were_not_seen_to_their_end() -> None:
    rng = np.random.default_rng(5)
    length = rng.weibull(0.7, 400) * 50
    limit = rng.uniform(20, 200, 400)
    kind = np.where(length > limit, LONGER, SEEN)
    length = np.minimum(length, limit)
    found = by_law(fits(durations_of(length, kind), draws=0))
    data = stats.CensoredData(uncensored=length[kind == SEEN], right=length[kind == LONGER])
    shape, _, scale = stats.weibull_min.fit(data, floc=0)
    assert found["weibull"].parameters["shape"] == pytest.approx(shape, rel=1e-3)
    assert found["weibull"].parameters["scale_s"] == pytest.approx(scale, rel=1e-3)
    sigma, _, median = stats.lognorm.fit(data, floc=0)
    assert found["lognormal"].parameters["sigma"] == pytest.approx(sigma, rel=1e-3)
    assert found["lognormal"].parameters["median_s"] == pytest.approx(median, rel=1e-3)
    shape, _, scale = stats.gamma.fit(data, floc=0)
    assert found["gamma"].parameters["shape"] == pytest.approx(shape, rel=1e-3)
    assert found["gamma"].mean_s == pytest.approx(shape * scale, rel=1e-3)


@pytest.mark.parametrize(
    "law, frozen",
    [
        ("exponential", stats.expon(scale=2.0)),
        ("weibull", stats.weibull_min(1.6, scale=2.0)),
        ("gamma", stats.gamma(3.0, scale=2.0)),
        ("lognormal", stats.lognorm(0.8, scale=2.0)),
    ],
)
def test_moments_and_survival_are_those_of_the_law(law: str, frozen) -> None:  # type: ignore[no-untyped-def]
    found = by_law(fits(durations_of(frozen.ppf((np.arange(2000) + 0.5) / 2000)), draws=0))[law]
    assert found.mean_s == pytest.approx(frozen.mean(), rel=0.02)
    assert found.variation == pytest.approx(frozen.std() / frozen.mean(), rel=0.03)
    at = np.array([0.1, 1.0, 5.0, 20.0])
    assert survival_of(found, at) == pytest.approx(frozen.sf(at), abs=0.01)
    assert found.distance < 0.01


def test_the_law_that_data_are_drawn_by_is_kept_and_a_wrong_one_rejected() -> None:
    rng = np.random.default_rng(11)
    durations = drawn_until(300.0, 10, lambda: float(rng.weibull(0.6)) * 10)
    sample = _sample(durations.length_s, durations.kind)
    found = {law: _fit(law, durations, sample, 1.0, draws=19, seed=2) for law in ("weibull", "exponential")}
    assert found["weibull"].p is not None
    assert found["weibull"].p > 0.05
    assert found["exponential"].rejected
    assert found["exponential"].draws == 19  # clear after so many
    assert found["weibull"].aic < found["exponential"].aic


def test_a_true_law_is_rejected_about_as_often_as_stated() -> None:
    rng = np.random.default_rng(8)
    rejected = 0
    for seed in range(60):
        durations = durations_of(rng.exponential(3.0, 40))
        fit = _fit("exponential", durations, _sample(durations.length_s, durations.kind), 1.0, draws=19, seed=seed)
        rejected += bool(fit.rejected)
    assert rejected <= 8  # binomial(60, 0.05): more with probability 0.4 %


def test_draws_without_a_length_seen_to_its_end_do_not_count() -> None:
    # One host in a window as long as the mean: no failure is seen in about 37 % of the draws.
    log = CensoredDurations(np.array([0.5, 0.5]), np.array([SEEN, LONGER]), np.array([1.0]), 0.0)
    rng = np.random.default_rng(np.random.SeedSequence(1, spawn_key=(0,)))
    kinds = [_drawn("exponential", (0.0,), log, 1.0, rng)[1] for _ in range(15)]
    seen = sum(bool(np.any(kind == SEEN)) for kind in kinds)
    assert 0 < seen < 15
    # No distance is as great as 2: p is that of the draws that have a distance.
    assert _chance("exponential", (0.0,), log, 1.0, 2.0, 15, seed=1) == (1 / (seen + 1), seen)


def test_lengths_shorter_than_the_tick_count_as_that() -> None:
    rng = np.random.default_rng(4)
    whole = rng.exponential(2.0, 4000)
    rounded = np.round(whole)
    kind = np.where(rounded == 0, SHORTER, SEEN)
    found = by_law(fits(durations_of(np.where(rounded == 0, 0.5, rounded), kind, tick_s=1.0), draws=0))
    assert found["exponential"].mean_s == pytest.approx(2.0, rel=0.05)


def test_draws_are_decided_by_the_seed() -> None:
    durations = durations_of(np.random.default_rng(1).gamma(2.0, size=60))
    sample = _sample(durations.length_s, durations.kind)
    found = [_fit("weibull", durations, sample, 1.0, draws=3, seed=seed) for seed in (3, 3, 4)]
    assert found[0] == found[1]
    assert found[0].parameters == found[2].parameters


def test_few_lengths_have_one_law_and_none_has_none() -> None:
    assert [fit.law for fit in fits(durations_of(np.array([1.0, 2.0])), draws=0)] == ["exponential"]
    assert fits(durations_of(np.array([1.0]), np.array([LONGER]))) == ()
    assert verdict("Up times", ()) == "Up times: too few were seen to their end to fit a law."


def test_kaplan_and_meier_by_hand() -> None:
    at, share = seen_survival(durations_of(np.array([1.0, 2.0, 2.0, 3.0]), np.array([SEEN, SEEN, LONGER, SEEN])))
    assert at.tolist() == [1, 2, 3]
    assert share == pytest.approx([0.75, 0.5, 0.0])


def test_the_interval_of_a_rate_is_garwoods() -> None:
    low, high = rate_interval(10, 2.0)
    assert (low, high) == pytest.approx((stats.chi2.ppf(0.025, 20) / 4, stats.chi2.ppf(0.975, 22) / 4))
    assert rate_interval(0, 2.0) == (0.0, pytest.approx(-math.log(0.025) / 2))


def test_hosts_that_differ_are_told_from_hosts_that_do_not() -> None:
    rng = np.random.default_rng(6)
    alike = spread_of(rng.poisson(5.0, 200), np.ones(200))
    unlike = spread_of(rng.poisson(np.where(np.arange(200) < 20, 50.0, 1.0)), np.ones(200))
    assert alike.p is not None
    assert alike.p > 0.01
    assert unlike.p is not None
    assert unlike.p < 1e-12
    assert spread_of(np.array([3]), np.ones(1)).p is None


def test_the_interval_of_a_mean_is_that_of_its_standard_error() -> None:
    assert mean_interval(np.array([1.0])) is None
    assert mean_interval(np.array([1.0, 3.0])) == (pytest.approx(2 - 1.96), pytest.approx(2 + 1.96))
