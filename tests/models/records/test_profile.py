"""A profile cannot be wrong, cannot be changed, and can be cut and coarsened."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from models.correlation import pearson
from models.errors import InputError
from models.records.profile import Profile, selectivities


def parts(made: np.ndarray | None = None, **changes: Any) -> dict[str, Any]:
    counts = made
    if counts is None:
        rng = np.random.default_rng(3)
        every = rng.integers(0, 20, (1, 4, 10))
        counts = np.concatenate([every, every // 3])
    kept = int(counts[0].sum())
    streams = ("all", "delayed")[: len(counts)]
    totals = {"rows_read": kept + 9, "rows_kept": kept, "rows_dropped": 7, "rows_quarantined": 2}
    found = {
        "sources": ("a.csv",), "key": "k", "time": "t", "where": None, "bin_s": 60.0,
        "key_groups": counts.shape[1],
        "start": "2017-01-01T00:00:00Z", "streams": streams, "counts": counts, "totals": totals,
        "selectivity": selectivities(streams, counts),
        "correlation": pearson(counts.reshape(-1, counts.shape[2])),
    }  # fmt: skip
    return {**found, **changes}


def test_arrays_and_maps_are_read_only() -> None:
    profile = Profile(**parts())
    with pytest.raises(ValueError, match="read-only"):
        profile.counts[0, 0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        profile.correlation[0, 0] = 1
    with pytest.raises(TypeError):
        profile.totals["rows_read"] = 1  # type: ignore[index]


def test_arrays_are_copies_of_what_was_given() -> None:
    given = parts()
    profile = Profile(**given)
    before = profile.counts.copy()
    given["counts"][:] = 0
    assert np.array_equal(profile.counts, before)


def test_counts_of_several_copies_add_up_to_as_many_times_the_rows() -> None:
    counts = parts()["counts"] * 3
    kept = int(counts[0].sum()) // 3
    totals = {"rows_read": kept, "rows_kept": kept, "rows_dropped": 0, "rows_quarantined": 0}
    profile = Profile(**parts(counts, copies=3, hash="crc32-splitmix64", totals=totals))
    assert profile.window(2, 5).totals["rows_kept"] * 3 == profile.counts[0, :, 2:5].sum()
    with pytest.raises(InputError, match="must be the sum of the counts over 3 copies"):
        Profile(**parts(counts, copies=3, hash="crc32-splitmix64"))
    with pytest.raises(InputError, match="must be crc32 of one copy, crc32-splitmix64 of several"):
        Profile(**parts(counts, copies=3, totals=totals))


def test_a_profile_survives_pickling() -> None:
    profile = Profile(**parts())
    again = pickle.loads(pickle.dumps(profile))
    assert np.array_equal(again.counts, profile.counts)
    assert again.totals == profile.totals


BAD = {
    "sources": ((), "at least one file"),
    "key": ("", "name of a column"),
    "hash": ("murmur", "must be one of crc32"),
    "copies": (0, "must be a whole number, at least 1"),
    "key_groups": (0, "at least 1"),
    "bin_s": (float("nan"), "must be positive"),
    "start": ("yesterday", "ISO 8601"),
    "streams": (("delayed", "all"), '"all" first'),
    "counts": (np.full((2, 4, 10), -1), "at least 0"),
    "correlation": (np.full((8, 8), 2.0), "between -1 and 1"),
    "totals": ({"rows_read": 1}, "rows_kept"),
    "selectivity": ({"all": 1.0}, "every stream"),
    "filters": ({"late": "x > 0"}, "named as the streams"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_named_with_its_rule(name: str) -> None:
    value, rule = BAD[name]
    with pytest.raises(InputError, match=f"profile.{name}") as caught:
        Profile(**parts(**{name: value}))
    assert rule in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"counts": np.ones((2, 4), dtype=int)}, "must have shape"),
        ({"counts": np.ones((2, 4, 10))}, "whole numbers"),
        ({"counts": np.arange(2)[:, None, None] * np.ones((2, 4, 10), dtype=int)}, "no stream has more rows"),
        ({"correlation": np.triu(np.full((8, 8), 0.5))}, "symmetric"),
        ({"correlation": np.full((8, 8), np.nan)}, "between -1 and 1"),
        (
            {"totals": {"rows_read": 5, "rows_kept": 1, "rows_dropped": 1, "rows_quarantined": 1}},
            "the sum of",
        ),
    ],
)
def test_arrays_and_totals_that_do_not_fit_are_refused(changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        Profile(**parts(**changes))


def test_several_faults_come_together() -> None:
    with pytest.raises(InputError) as caught:
        Profile(**parts(key="", bin_s=-1.0, hash="x"))
    assert len(caught.value.faults) == 3


def test_rates_are_rows_per_second() -> None:
    counts = np.zeros((1, 2, 3), dtype=int)
    counts[0] = [[60, 0, 120], [0, 0, 60]]
    profile = Profile(**parts(counts))
    assert profile.mean_rate_per_s.tolist() == [[1.0, 1 / 3]]
    assert profile.load("all").tolist() == [[1.0, 0.0, 2.0], [0.0, 0.0, 1.0]]
    assert profile.rates == {"all": {"mean_per_s": 4 / 3, "peak_per_s": 3.0, "peak_rows_per_bin": 180}}


def test_unknown_stream_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match="must be one of all, delayed"):
        Profile(**parts()).load("late")


def test_window_keeps_its_bins_and_counts_the_rest_as_dropped() -> None:
    profile = Profile(**parts(top_keys=(("a", 3),), keys=1, minutes_in_air={"total": 1, "mean": 1.0}))
    part = profile.window(2, 5)
    assert np.array_equal(part.counts, profile.counts[:, :, 2:5])
    assert part.start == "2017-01-01T00:02:00Z"
    assert part.totals["rows_read"] == profile.totals["rows_read"]
    assert part.totals["rows_kept"] == profile.counts[0, :, 2:5].sum()
    assert np.array_equal(part.correlation, pearson(profile.counts[:, :, 2:5].reshape(8, 3)))
    assert (part.top_keys, part.keys, part.minutes_in_air) == ((), None, None)
    assert profile.window(0, 10) is profile


@pytest.mark.parametrize(("first", "last"), [(-1, 3), (3, 3), (5, 2), (0, 11)])
def test_window_outside_the_bins_is_refused(first: int, last: int) -> None:
    with pytest.raises(InputError, match="window"):
        Profile(**parts()).window(first, last)


@pytest.mark.parametrize("factor", [1, 2, 3, 5, 10])
def test_rebinned_sums_neighbours_and_drops_an_incomplete_last_bin(factor: int) -> None:
    profile = Profile(**parts())
    coarse = profile.rebinned(factor)
    whole = 10 // factor * factor
    expected = [
        [[sum(row[b : b + factor]) for b in range(0, whole, factor)] for row in stream]
        for stream in profile.counts.tolist()
    ]
    assert coarse.counts.tolist() == expected
    assert coarse.bin_s == 60.0 * factor
    assert coarse.totals["rows_kept"] == coarse.counts[0].sum()


@pytest.mark.parametrize("factor", [0, -2, 11, 1.5, True])
def test_rebinning_by_nonsense_is_refused(factor: Any) -> None:
    with pytest.raises(InputError, match="factor"):
        Profile(**parts()).rebinned(factor)
