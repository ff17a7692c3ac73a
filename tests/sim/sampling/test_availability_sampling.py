"""Sampled availability against what is exact: kernels bit by bit, estimates within intervals of stated confidence."""

from __future__ import annotations

import math
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_availability import broken_by_hand, random_queries, runs, small_queries
from scipy.special import betaincinv

from models.errors import InputError
from models.reliability.cuts import query_cuts
from models.reliability.exact import mean_broken, some_broken, unavailability
from models.reliability.law import broken_law
from models.reliability.queries import Failures, Queries, equal_hosts
from models.reliability.times import Interval, at_most, effective, wilson
from sim.sampling.importance_sampling import exactly_down, log_weights, stratified, tilted_chances, weighted
from sim.sampling.plain import BLOCK, arrays_of, in_parts, sampled
from sim.sampling.states import add_bits, break_words, draw_words, ones, tell_numbers, uniform

FIVE_SIGMA = 1 - 5.7e-7
QUERIES = random_queries(np.random.default_rng(11), 30, 25)
UNEQUAL = Failures(np.random.default_rng(12).uniform(0, 0.1, (1, 30)), ((0, 1, 2),), np.array([[0.01]]))


@settings(max_examples=12, deadline=None)
@given(small_queries(), st.integers(0, 2**63), st.floats(0, 1))
def test_the_kernel_says_what_each_run_says_by_the_definition(queries: Queries, seed: int, p: float) -> None:
    words = 2
    down = np.zeros((queries.n_hosts, words), dtype=np.uint64)
    draw_words(np.array([seed], dtype=np.uint64), down, np.full(queries.n_hosts, p))
    failures = equal_hosts(0.1, queries.n_hosts)
    arrays = arrays_of(query_cuts(queries, failures))
    planes = np.zeros((queries.n_queries.bit_length(), words), dtype=np.uint64)
    own, scratch, law = (np.zeros(size, dtype=kind) for size, kind in ((words, "u8"), (words, "u8"), (5, "i8")))
    by_hand = np.zeros(5, dtype=np.int64)
    for query in range(queries.n_queries):
        break_words(own, down, scratch, query, *arrays.all)
        for run in range(64 * words):
            failed = {host for host in range(queries.n_hosts) if int(down[host, run // 64]) >> run % 64 & 1}
            assert (int(own[run // 64]) >> run % 64 & 1) == (not runs(queries, query, failed))
        add_bits(planes, own)
    tell_numbers(planes, law)
    for run in range(64 * words):
        failed = {host for host in range(queries.n_hosts) if int(down[host, run // 64]) >> run % 64 & 1}
        by_hand[sum(not runs(queries, query, failed) for query in range(queries.n_queries))] += 1
    assert law.tolist() == by_hand.tolist()


@pytest.mark.parametrize("word", [0, 1, 2**63, 2**64 - 1, 0x0123456789ABCDEF])
def test_bits_are_counted(word: int) -> None:
    assert ones(np.uint64(word)) == word.bit_count()


def unmixed(word: int) -> int:
    """Return the state of SplitMix64 whose next output is this word."""
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
        word ^= word >> shift ^ word >> 2 * shift  # undoes x ^ (x >> shift): what is shifted three times is gone
        word = word * pow(factor, -1, 2**64) % 2**64
    return (word - 0x9E3779B97F4A7C15) % 2**64


@pytest.mark.parametrize(
    ("word", "number"),
    [
        (0, 2.0**-54),
        (2**63, 0.5),  # half way between two floats: to the even one
        (2**64 - 2**12 - 1, 1 - 2.0**-52),
        (2**64 - 2**11 - 1, 1 - 2.0**-52),
        (2**64 - 2**11, 1 - 2.0**-53),
        (2**64 - 1, 1 - 2.0**-53),
    ],
)
def test_draws_stay_between_zero_and_one(word: int, number: float) -> None:
    assert uniform(np.array([unmixed(word)], dtype=np.uint64)) == number


@pytest.mark.parametrize("p", [1e-5, 0.003, 0.5, 0.97])
def test_gaps_make_independent_failures_of_the_right_frequency(p: float) -> None:
    """Single words, pairs of neighbours in time, and pairs of hosts: all within five standard errors."""
    down = np.zeros((4, 4096), dtype=np.uint64)
    draw_words(np.array([77], dtype=np.uint64), down, np.full(4, p))
    bits = np.unpackbits(down.view(np.uint8), axis=1, bitorder="little")
    checks = [(bits, p), (bits[:, 1:] & bits[:, :-1], p * p), (bits[0] & bits[1], p * p)]
    for found, expected in checks:
        low, high = wilson(int(found.sum()), found.size, FIVE_SIGMA)
        assert low <= expected <= high


@pytest.mark.parametrize(("p", "expected"), [(0.0, 0), (1.0, 64), (1e-300, 0)])
def test_certain_and_impossible_failures(p: float, expected: int) -> None:
    down = np.full((1, 1), 5, dtype=np.uint64)
    draw_words(np.array([1], dtype=np.uint64), down, np.array([p]))
    assert int(down[0, 0]).bit_count() == expected


METHODS = {
    "monte-carlo": (sampled, 200_000),
    "stratified": (stratified, 30_000),
    "importance-sampling": (weighted, 30_000),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("failures", [equal_hosts(0.02, 30), UNEQUAL], ids=["equal", "unequal"])
def test_intervals_hold_what_is_exact(name: str, failures: Failures) -> None:
    """Of 25 queries at 95 % at least 18 are held with probability 0.9998; of five means at least three with 0.999."""
    sample, n = METHODS[name]
    exact = unavailability(QUERIES, failures).low[0]
    targets = mean_broken(QUERIES, unavailability(QUERIES, failures))[0][0], some_broken(QUERIES, failures).low[0, 0]
    held = [0, 0]
    for seed in range(5):
        found = sample(QUERIES, failures, runs=n, seed=seed)
        assert found.method == name
        inside = [one.interval[0] <= x <= one.interval[1] for one, x in zip(found.queries, exact, strict=True)]
        assert sum(inside) >= 18
        for k, (one, x) in enumerate(zip((found.mean, found.some), targets, strict=True)):
            held[k] += one.interval[0] <= x <= one.interval[1]
            assert one.interval[0] <= one.value <= one.interval[1]
    assert min(held) >= 3


def test_the_sampled_law_is_the_exact_one() -> None:
    queries, failures = random_queries(np.random.default_rng(2), 12, 6), equal_hosts(0.1, 12)
    found, exact = sampled(queries, failures, runs=500_000), broken_law(queries, failures).mass[0]
    assert found.law is not None
    assert found.law.sum() == found.runs
    for count, chance in zip(found.law.tolist(), exact.tolist(), strict=True):
        low, high = wilson(count, found.runs, FIVE_SIGMA)
        assert low <= chance <= high


def test_nine_nines_by_strata_and_by_weights() -> None:
    """Pairs at q = 1e-5: 1e-10 each. Plain sampling sees nothing, and says at most 3 / runs."""
    queries = Queries(8, ((0, 1), (2, 3), (4, 5), (6, 7)), ((0,), (1,), (2,), (3,)))
    failures = equal_hosts(1e-5, 8)
    for sample in (stratified, weighted):
        found = sample(queries, failures, runs=200_000)
        assert found.mean.interval[0] <= 1e-10 <= found.mean.interval[1]
        assert found.mean.interval[1] < 1.1e-10
        assert found.mean.interval[0] > 0.9e-10
    plain = sampled(queries, failures, runs=100_000)
    assert plain.mean.value == plain.some.value == 0
    assert plain.mean.interval[1] == pytest.approx(3 / plain.runs, rel=0.01)


@pytest.mark.parametrize("name", METHODS)
def test_any_number_of_workers_gives_the_same_bits(name: str) -> None:
    sample, n_runs = METHODS[name][0], BLOCK * (70 if name == "monte-carlo" else 6)
    one, three = (sample(QUERIES, UNEQUAL, runs=n_runs, seed=5, workers=n) for n in (1, 3))
    assert (one.queries, one.mean, one.some, one.runs) == (three.queries, three.mean, three.some, three.runs)
    other = sample(QUERIES, UNEQUAL, runs=n_runs, seed=6)
    assert other.mean != one.mean


@pytest.mark.parametrize("name", METHODS)
def test_certain_failures_and_weights_are_met_by_every_method(name: str) -> None:
    queries = Queries(3, ((0,), (1, 2), (1,)), ((0,), (1,), (2,)), weights=(2, 1, 1))
    failures = Failures(np.array([[1.0, 0.2, 0.0]]))
    found = METHODS[name][0](queries, failures, runs=20_000)
    assert found.queries[0].value == pytest.approx(1, rel=0.01)
    assert found.queries[1].value == 0
    assert found.mean.interval[0] <= 0.5 + 0.2 / 4 <= found.mean.interval[1]
    assert found.some.value == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("name", METHODS)
def test_where_nothing_can_fail_nothing_is_broken(name: str) -> None:
    found = METHODS[name][0](Queries(2, ((0, 1),), ((0,),)), equal_hosts(0.0, 2), runs=5000)
    assert found.mean.value == 0
    assert found.mean.interval[1] <= at_most(5000)


def test_strata_need_a_fraction_of_the_runs() -> None:
    """Variance for the same number of runs at p = 0.0025, from the widths of the intervals."""
    queries, failures = random_queries(np.random.default_rng(1), 100, 100, unreplicated=0.0), equal_hosts(0.0025, 100)
    plain, strata = (sample(queries, failures, runs=100_000) for sample in (sampled, stratified))
    widths = [one.mean.interval[1] - one.mean.interval[0] for one in (plain, strata)]
    assert (widths[0] / widths[1]) ** 2 * plain.runs / strata.runs > 10


def test_the_law_of_the_number_down_is_the_binomial() -> None:
    law = exactly_down(np.full(6, 0.3))
    assert np.allclose(law[0], [math.comb(6, k) * 0.3**k * 0.7 ** (6 - k) for k in range(7)], rtol=1e-13)


def test_weights_have_the_mean_one() -> None:
    """Over all states of three elements, one of them certain."""
    chances = np.array([0.1, 1.0, 0.3])
    tilted = tilted_chances(chances, 3.0)
    base, change = log_weights(chances, tilted)
    total = 0.0
    for state in range(8):
        down = np.array([state >> k & 1 for k in range(3)], dtype=bool)
        total += np.where(down, tilted, 1 - tilted).prod() * math.exp(base + change[down].sum())
    assert total == pytest.approx(1, rel=1e-14)
    assert tilted_chances(chances, None).sum() >= chances.sum()


def clopper_pearson(events: int, runs: int, level: float = 0.95) -> Interval:
    """Return the interval that covers with at least this probability, whatever the truth; `at_most` as in `wilson`.

    Source: Clopper and Pearson, The use of confidence or fiducial limits (Biometrika 1934).
    """
    if events <= 0:
        return 0.0, at_most(runs, level)
    if events >= runs:
        return 1 - at_most(runs, level), 1.0
    tail = (1 - level) / 2
    low = float(betaincinv(events, runs - events + 1, tail))
    return low, float(betaincinv(events + 1, runs - events, 1 - tail))


@pytest.mark.parametrize("share", [0.001, 0.03, 0.5])
def test_intervals_cover_as_often_as_they_say(share: float) -> None:
    """All outcomes of 2,000 runs with their binomial probabilities: Clopper-Pearson at least, Wilson nearly."""
    n = 2000
    logs = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(n + 1)]
    chances = [math.exp(logs[k] + k * math.log(share) + (n - k) * math.log1p(-share)) for k in range(n + 1)]
    likely = [k for k in range(n + 1) if chances[k] > 1e-9]
    for interval, least in ((clopper_pearson, 0.95), (wilson, 0.92)):
        held = sum(chances[k] for k in likely if interval(k, n)[0] <= share <= interval(k, n)[1])
        assert least <= held + 1e-6


def test_what_was_never_seen_is_at_most_three_in_n() -> None:
    for interval in (wilson, clopper_pearson):
        assert interval(0, 1000) == (0.0, at_most(1000))
        assert interval(1000, 1000) == (1 - at_most(1000), 1.0)
    assert at_most(10**6) == pytest.approx(3e-6, rel=0.01)
    assert at_most(0) == 1.0
    assert effective(0.25, 0.25 * 0.75 / 500, 1000) == pytest.approx((125, 500))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"runs": 0}, "runs = 0: must be between 1 and 1e12"),
        ({"runs": 10, "setting": 1}, "setting = 1: is not a setting: there are 1"),
        ({"runs": 10, "workers": 0}, "workers = 0: must be at least 1"),
    ],
)
def test_bad_numbers_are_refused(arguments: dict[str, int], says: str) -> None:
    for sample in (sampled, stratified, weighted):
        with pytest.raises(InputError) as error:
            sample(QUERIES, equal_hosts(0.1, 30), **arguments)
        assert str(error.value) == says


def test_a_tilt_below_one_is_refused() -> None:
    with pytest.raises(InputError, match=r"tilt = 0\.5: must be at least 1"):
        weighted(QUERIES, equal_hosts(0.1, 30), runs=10, tilt=0.5)


def test_shares_by_hand_are_what_strata_know_of_one_failure() -> None:
    queries, failures = Queries(3, ((0,), (1, 2)), ((0,), (1,))), equal_hosts(1e-6, 3)
    found, by_hand = stratified(queries, failures, runs=2000), broken_by_hand(queries, failures, 0)
    assert found.queries[0].value == pytest.approx(float(by_hand[0]), rel=1e-5)
    assert found.queries[1].interval[0] <= float(by_hand[1]) <= found.queries[1].interval[1]


class Interrupted(list[int]):
    """Parts of which Ctrl-C comes while the last is handed to a thread; `now` says so."""

    now = threading.Event()

    def __getitem__(self, which):
        if not isinstance(which, slice):
            return super().__getitem__(which)
        return self._rest()

    def _rest(self):
        yield from list(self)[1:]
        self.now.set()
        raise KeyboardInterrupt


def test_ctrl_c_does_not_wait_for_parts_that_nobody_has_begun():
    done, parts = [], Interrupted(range(1000))

    def work(part):
        if part:
            parts.now.wait()
            time.sleep(0.01)
        done.append(part)

    with pytest.raises(KeyboardInterrupt):
        in_parts(work, parts, 2)
    assert len(done) < 1000
