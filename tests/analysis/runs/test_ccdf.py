"""The tail of latency against a count of all values."""

from __future__ import annotations

import numpy as np
import pytest
from small_runs import S

from analysis.runs.histograms import latency_histogram, survival
from models.records.histogram import histogram


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("most", [300, 7])
def test_every_point_is_the_share_of_values_that_are_not_smaller(seed: int, most: int) -> None:
    values = np.random.default_rng(seed).lognormal(12, 2, 5000).astype(np.int64)
    at, share = survival(histogram(values), most)
    assert 2 <= at.size <= most + 1
    assert share[0] == 1
    assert at[-1] == values.max()
    assert (np.diff(at) > 0).all()
    assert (np.diff(share) < 0).all() or share[-1] == share[-2] == 1 / values.size
    for when, part in zip(at.tolist(), share.tolist(), strict=True):
        assert part == (values >= when).mean()


def test_values_that_are_all_the_same_are_one_point() -> None:
    at, share = survival(histogram([700, 700]))
    assert (at.tolist(), share.tolist()) == ([700.0], [1.0])


def test_nothing_has_no_tail() -> None:
    assert [part.size for part in survival(histogram([]))] == [0, 0]


def test_rows_and_histograms_have_the_same_tail(make) -> None:
    rows = make.random(3)
    plain, binned = latency_histogram(rows), latency_histogram(make.binned(rows))
    assert plain.counts.tolist() == binned.counts.tolist()
    assert (plain.min_ns, plain.max_ns, plain.sum_ns) == (binned.min_ns, binned.max_ns, binned.sum_ns)


def test_only_what_is_created_after_the_warm_up_counts(make) -> None:
    one = make.records(deliveries=[(2, 1 * S, 9 * S), (2, 2 * S, 3 * S)])
    assert latency_histogram(one).count == 1
