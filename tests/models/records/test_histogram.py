"""The log-linear histogram: bins, edges, quantiles within 0.4 %, merging as addition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.records.histogram import BINS, bin_of, bounds, exact_sum, histogram, merge, rank_of, representative

FIXED = settings(derandomize=True, deadline=None, max_examples=150)
LATENCIES = st.lists(st.integers(0, 2**63 - 1), max_size=60)
MIXED = st.lists(st.one_of(st.integers(0, 300), st.integers(0, 10**10), st.integers(0, 2**63 - 1)), max_size=60)


def test_the_first_and_the_last_value_have_the_first_and_the_last_bin():
    assert bin_of([0, 1, 2, 2**63 - 1]).tolist() == [0, 1, 129, BINS - 1]


@FIXED
@given(MIXED)
def test_every_value_lies_within_the_edges_of_its_bin(values):
    low, high = bounds(bin_of(values))
    assert all(int(a) <= value < int(b) or a == value for a, value, b in zip(low, values, high, strict=True))


@FIXED
@given(MIXED)
def test_bins_are_ordered_as_values(values):
    assert bin_of(sorted(values)).tolist() == sorted(bin_of(values).tolist())


def test_edges_follow_each_other_without_gap():
    low, high = bounds(np.arange(BINS))
    assert np.array_equal(high[:-1], low[1:])


def test_values_next_to_an_edge_above_the_exact_floats_keep_their_bin():
    edge = 2**60
    assert bin_of([edge - 1, edge]).tolist() == [60 * 128, 60 * 128 + 1]


def test_integers_below_256_are_represented_exactly():
    values = np.arange(256)
    assert representative(bin_of(values)).tolist() == values.tolist()


@FIXED
@given(MIXED.filter(bool), st.sampled_from([0.0, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0]))
def test_a_quantile_is_within_one_in_256_of_the_exact_one(values, q):
    exact = sorted(values)[rank_of(q, len(values)) - 1]
    read = histogram(values).quantile(q)
    assert abs(read - exact) <= exact / 256 * (1 + 1e-9)


@FIXED
@given(LATENCIES, LATENCIES, LATENCIES)
def test_merging_is_addition_in_any_order(one, two, three):
    whole = histogram(one + two + three)
    parts = merge(histogram(three), merge(histogram(one), histogram(two)))
    assert np.array_equal(whole.counts, parts.counts)
    assert (whole.sum_ns, whole.min_ns, whole.max_ns) == (parts.sum_ns, parts.min_ns, parts.max_ns)


@FIXED
@given(LATENCIES)
def test_the_sum_is_exact_where_64_bits_overflow(values):
    assert exact_sum(np.array(values, dtype=np.int64)) == sum(values)


@pytest.mark.parametrize(("q", "count", "rank"), [(0.7, 10, 7), (0.5, 4, 2), (0.5, 5, 3), (0.0, 3, 1), (1, 3, 3)])
def test_the_rank_is_the_smallest_one_that_reaches_the_share(q, count, rank):
    assert rank_of(q, count) == rank


def test_an_empty_histogram_has_no_quantile_and_no_mean():
    empty = merge()
    assert (empty.count, empty.quantile(0.5), empty.mean(), empty.min_ns) == (0, None, None, None)


@pytest.mark.parametrize("call", [lambda: bin_of([-1]), lambda: bounds([BINS]), lambda: rank_of(1.1, 3)])
def test_what_cannot_be_is_refused(call):
    with pytest.raises(ValueError, match=r"negative|bins are|no rank"):
        call()
