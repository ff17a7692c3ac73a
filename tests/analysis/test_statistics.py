"""Means with intervals (oracle: printed t table, scipy), exact quantiles (oracle: numpy's inverted_cdf)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.statistics import Described, described, mean_of, quantiles, ratio_mean, student_t95

FIXED = settings(derandomize=True, deadline=None, max_examples=100)


@pytest.mark.parametrize(("degrees", "printed"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (29, 2.045)])
def test_student_t_agrees_with_the_printed_table(degrees, printed):
    assert student_t95(degrees) == pytest.approx(printed, abs=6e-4)


def test_the_interval_of_a_mean_by_hand():
    # 1, 2, 3: standard deviation 1, standard error 1 / sqrt 3, t with 2 degrees of freedom 4.3027.
    found = mean_of([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.ci95 == pytest.approx((2 - 4.302653 / math.sqrt(3), 2 + 4.302653 / math.sqrt(3)))


def test_one_replication_has_a_mean_and_no_interval():
    assert mean_of([5.0]).mean == 5.0
    assert mean_of([5.0]).ci95 is None


def test_nothing_has_neither():
    assert (mean_of([]).mean, ratio_mean([0.0], [0]).mean, ratio_mean([], []).ci95) == (None, None, None)


def test_replications_of_different_size_are_pooled_and_the_interval_is_around_the_pooled_mean():
    found = ratio_mean([10, 60], [1, 3])
    assert found.mean == 17.5
    assert sum(found.ci95) / 2 == pytest.approx(17.5)
    # z = (10 - 17.5, 60 - 52.5) / 2 = (-3.75, 3.75); variance of the mean = 2 x 3.75^2 / 2
    assert found.ci95[1] - 17.5 == pytest.approx(student_t95(1) * 3.75)


def test_a_replication_without_a_value_changes_nothing():
    assert ratio_mean([10, 60, 0], [1, 3, 0]) == ratio_mean([10, 60], [1, 3])


def test_intervals_cover_the_truth_as_often_as_they_say():
    # 2,000 means of 5 normal values, seed fixed: coverage 95 % within 4 standard errors (0.5 % each).
    draws = np.random.default_rng(7).normal(3.0, 2.0, (2000, 5))
    inside = [low <= 3.0 <= high for low, high in (mean_of(row.tolist()).ci95 for row in draws)]
    assert abs(np.mean(inside) - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 2000)


@FIXED
@given(
    st.lists(st.integers(0, 2**62), min_size=1, max_size=50),
    st.lists(st.sampled_from([0.01, 0.25, 0.5, 0.75, 0.99, 0.999]), min_size=1, max_size=4),
)
def test_quantiles_are_those_of_the_inverted_distribution_function(values, shares):
    exact = [sorted(values)[math.ceil(round(share * 1000) * len(values) / 1000) - 1] for share in shares]
    assert quantiles(np.array(values), shares) == exact


@FIXED
@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=40), st.sampled_from([0.25, 0.5, 0.75]))
def test_quantiles_agree_with_numpy_where_the_share_is_an_exact_float(values, share):
    assert quantiles(np.array(values), [share]) == [np.quantile(values, share, method="inverted_cdf")]


def test_times_are_pooled_in_seconds():
    found = described([np.array([10**9, 3 * 10**9]), np.array([2 * 10**9])], [0.5])
    assert (found.mean, found.quantiles, found.max, found.count) == (2.0, (2.0,), 3.0, 3)


def test_times_of_nothing_are_none():
    assert described([], [0.5]) == Described(None, (None,), None, 0, None)
    assert described([np.empty(0, np.int64)], []).count == 0
