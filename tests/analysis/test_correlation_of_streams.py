"""The mean correlation between streams against a plain loop over pairs."""

import numpy as np

from analysis.correlation import between_streams, between_totals, pearson
from models.records.profile import Profile, selectivities


def profile_of(counts: np.ndarray) -> Profile:
    streams, kept = ("all", "delayed"), int(counts[0].sum())
    totals = {"rows_read": kept, "rows_kept": kept, "rows_dropped": 0, "rows_quarantined": 0}
    return Profile(
        sources=("a.csv",), key="k", time="t", where=None, key_groups=counts.shape[1], bin_s=1.0,
        start="2020-01-01T00:00:00Z", streams=streams, counts=counts, totals=totals,
        selectivity=selectivities(streams, counts), correlation=pearson(counts.reshape(-1, counts.shape[2])),
    )  # fmt: skip


def test_between_streams_is_the_mean_over_pairs_of_different_series() -> None:
    every = np.random.default_rng(0).integers(0, 9, (1, 3, 30))
    profile = profile_of(np.concatenate([every, every // 2]))
    r = profile.correlation
    for a in range(2):
        for b in range(2):
            pairs = [(a * 3 + i, b * 3 + j) for i in range(3) for j in range(3) if (a, i) != (b, j)]
            mean = sum(r[pair] for pair in pairs) / len(pairs)
            assert np.isclose(between_streams(profile)[a, b], mean, rtol=0, atol=1e-12)


def test_one_key_group_has_no_pair_within_a_stream() -> None:
    every = np.random.default_rng(0).integers(0, 9, (1, 1, 30))
    profile = profile_of(np.concatenate([every, every // 2]))
    assert between_streams(profile).diagonal().tolist() == [0.0, 0.0]


def test_between_totals_correlates_the_sums_over_key_groups() -> None:
    every = np.random.default_rng(0).integers(0, 9, (1, 3, 30))
    profile = profile_of(np.concatenate([every, every // 2]))
    expected = np.corrcoef(profile.counts.sum(axis=1))
    assert np.allclose(between_totals(profile), expected, rtol=0, atol=1e-12)
