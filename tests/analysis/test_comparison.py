"""Differences of two designs. Oracles: scipy's t tests, and how often intervals hold the truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from analysis.comparison import Replications, common_metrics, compare


def design(values: list[float], name: str = "x") -> Replications:
    return {number: {name: value} for number, value in enumerate(values)}


def test_pairs_have_the_interval_of_the_paired_t_test() -> None:
    rng = np.random.default_rng(5)
    one = rng.normal(10, 3, 12)
    other = one + rng.normal(0.5, 0.4, 12)
    (found,) = compare(design(list(one)), design(list(other)), same_numbers=True, metrics=["x"])
    theirs = stats.ttest_rel(other, one).confidence_interval(0.95)
    assert found.paired
    assert found.difference.ci95 == pytest.approx((theirs.low, theirs.high))
    assert found.shown == "higher"
    apart = stats.ttest_ind(other, one, equal_var=False).confidence_interval(0.95)
    assert found.narrower == pytest.approx((apart.high - apart.low) / (theirs.high - theirs.low))


def test_other_seeds_have_the_interval_of_welch() -> None:
    rng = np.random.default_rng(6)
    one, other = rng.normal(10, 1, 7), rng.normal(8, 4, 15)
    (found,) = compare(design(list(one)), design(list(other)), same_numbers=False, metrics=["x"])
    theirs = stats.ttest_ind(other, one, equal_var=False).confidence_interval(0.95)
    assert not found.paired
    assert found.difference.ci95 == pytest.approx((theirs.low, theirs.high))


def test_intervals_hold_the_truth_in_95_of_100_comparisons() -> None:
    rng, held = np.random.default_rng(7), {True: 0, False: 0}
    for _ in range(2000):
        common = rng.normal(0, 5, 6)
        one, other = common + rng.normal(0, 1, 6), common + 2 + rng.normal(0, 1, 6)
        for pairs in held:
            second = other if pairs else rng.normal(2, 5, 9)
            (found,) = compare(design(list(one)), design(list(second)), same_numbers=pairs, metrics=["x"])
            assert found.difference.ci95 is not None
            held[pairs] += found.difference.ci95[0] <= 2 <= found.difference.ci95[1]
    assert all(1860 <= count <= 1940 for count in held.values()), held  # 1,900 +- 4 standard deviations


def test_only_replications_that_both_have_are_pairs() -> None:
    one, other = design([1.0, 2.0, 3.0]), {1: {"x": 5.0}, 2: {"x": 7.0}, 9: {"x": 100.0}}
    (found,) = compare(one, other, same_numbers=True, metrics=["x"])
    assert found.difference.mean == 3.5
    assert (found.first.mean, found.second.mean, found.counts) == (2.5, 6.0, (2, 2))
    assert found.relative == 3.5 / 2.5
    (found,) = compare(one, other, same_numbers=False, metrics=["x"])
    assert (found.first.mean, found.second.mean, found.counts) == (2.0, pytest.approx(112 / 3), (3, 3))


def test_without_an_interval_nothing_is_shown() -> None:
    (found,) = compare(design([1.0]), design([2.0]), same_numbers=True, metrics=["x"])
    assert (found.difference.mean, found.difference.ci95, found.shown) == (1.0, None, "unclear")
    (found,) = compare(design([2.0]), design([2.0]), same_numbers=True, metrics=["x"])
    assert found.shown == "equal"  # the only pair is
    (found,) = compare(design([1.0, 1.0]), design([1.0, 1.0]), same_numbers=True, metrics=["x"])
    assert found.shown == "equal"
    assert found.relative == 0.0
    (found,) = compare(design([0.0, 0.0]), design([]), same_numbers=True, metrics=["x"])
    assert (found.difference.mean, found.relative, found.shown) == (None, None, "unclear")


def test_the_relative_difference_has_the_interval_of_the_difference() -> None:
    (found,) = compare(design([1.0, 2.0, 3.0]), design([2.0, 3.5, 3.5]), same_numbers=True, metrics=["x"])
    assert found.difference.ci95 is not None
    assert found.relative_to_first.mean == found.relative == 0.5
    assert found.relative_to_first.ci95 == pytest.approx([edge / 2 for edge in found.difference.ci95])
    assert found.per_cent == "+50 ± 62 %"


def test_bonferroni_multiplies_the_p_value_by_the_number_of_comparisons() -> None:
    rng = np.random.default_rng(8)
    one, seen = rng.normal(10, 1, 6), set()
    for shift in np.linspace(0.1, 3, 30):
        other = one + rng.normal(shift, 0.5, 6)
        for paired in (True, False):
            (found,) = compare(design(list(one)), design(list(other)), same_numbers=paired, metrics=["x"])
            p_value = (stats.ttest_rel(other, one) if paired else stats.ttest_ind(other, one, equal_var=False)).pvalue
            for comparisons in (1, 5, 50):
                expected = bool(p_value * comparisons < 0.05)
                assert found.significant_among(comparisons) == expected
                seen.add((paired, comparisons, expected))
    assert len(seen) == 12  # each way, with each number of comparisons, both verdicts


def test_a_difference_that_does_not_vary_stays_significant_among_many() -> None:
    (found,) = compare(design([1.0, 2.0]), design([2.0, 3.0]), same_numbers=True, metrics=["x"])
    assert found.difference.ci95 == (1.0, 1.0)
    assert found.significant_among(1000)


def test_common_metrics_are_those_with_a_value_everywhere() -> None:
    one: Replications = {0: {"a": 1.0, "b": None, "c": 2.0}}
    other: Replications = {0: {"c": 1.0, "a": None}, 1: {"a": 3.0}}
    assert common_metrics(one, other) == ["a", "c"]
