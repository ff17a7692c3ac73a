"""Profile directories: what is written is read back, and what is broken is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from models.correlation import pearson
from models.errors import InputError
from models.records.profile import Profile, selectivities
from scenarios.files.profiles import check_target, profile_summary, read_profile, read_quarantine, write_profile


def small_profile(seed: int = 0) -> Profile:
    every = np.random.default_rng(seed).poisson(3, (1, 4, 12))
    counts = np.concatenate([every, every // 2])
    kept = int(every.sum())
    streams = ("all", "delayed")
    return Profile(
        sources=("a.csv", "b.parquet"), key="tail", time="ts", where="x > 'é'", key_groups=4, bin_s=0.5,
        start="2017-01-01T05:00:00.500000Z", streams=streams, counts=counts, filters={"delayed": "late > 0"},
        selectivity=selectivities(streams, counts), correlation=pearson(counts.reshape(8, 12)),
        totals={"rows_read": kept + 3, "rows_kept": kept, "rows_dropped": 1, "rows_quarantined": 2},
        top_keys=(("N1", 9), ("鍵", 2)), keys=2, 
        minutes_in_air={"total": 7, "mean": 3.5}, versions={"spark": "4"},
    )  # fmt: skip


def quarantine() -> pa.Table:
    return pa.table({"raw": ["1,2", '"'], "why": ["malformed line"] * 2, "file": ["a.csv"] * 2})


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return write_profile(small_profile(), tmp_path / "profile", quarantine())


def test_a_profile_is_read_back_as_it_was(written: Path) -> None:
    before, after = small_profile(), read_profile(written)
    assert np.array_equal(after.counts, before.counts)
    assert np.array_equal(after.correlation, before.correlation)
    for name in ("sources", "key", "time", "where", "hash", "key_groups", "bin_s", "start", "streams",
                 "filters", "selectivity", "totals", "top_keys", "keys", "minutes_in_air",
                 "versions"):  # fmt: skip
        assert getattr(after, name) == getattr(before, name)
    assert read_quarantine(written) == quarantine().to_pylist()


def test_the_directory_holds_four_files_and_series_without_zeros(written: Path) -> None:
    names = sorted(path.name for path in written.iterdir())
    assert names == ["correlation.parquet", "profile.json", "quarantine.parquet", "series.parquet"]
    series = pq.read_table(written / "series.parquet")
    assert series.column_names == ["operator", "key_group", "bin", "count"]
    assert min(series["count"].to_pylist()) == 1
    assert series.num_rows == np.count_nonzero(small_profile().counts)
    assert sorted(path.name for path in written.parent.iterdir()) == ["profile"]


def test_the_same_profile_gives_the_same_bytes(written: Path, tmp_path: Path) -> None:
    again = write_profile(small_profile(), tmp_path / "again", quarantine())
    for path in written.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes()


def test_a_profile_is_replaced_with_force_alone(written: Path) -> None:
    with pytest.raises(InputError, match="not overwritten"):
        write_profile(small_profile(1), written)
    with pytest.raises(InputError, match="--force"):
        check_target(written)
    check_target(written, force=True)
    write_profile(small_profile(1), written, force=True)
    assert np.array_equal(read_profile(written).counts, small_profile(1).counts)
    assert sorted(path.name for path in written.parent.iterdir()) == ["profile"]


def test_force_does_not_replace_other_files(written: Path) -> None:
    (written / "thesis.txt").write_text("years of work", encoding="utf-8")
    for act in (
        lambda: check_target(written, force=True),
        lambda: write_profile(small_profile(), written, force=True),
    ):
        with pytest.raises(InputError, match="not overwritten"):
            act()
    assert (written / "thesis.txt").read_text(encoding="utf-8") == "years of work"


def test_an_empty_directory_and_missing_parents_are_fine(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "deep/er"):
        check_target(tmp_path / name)
        write_profile(small_profile(), tmp_path / name)
        assert read_profile(tmp_path / name).bins == 12


def test_links_and_files_in_the_place_of_the_directory_are_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "file").write_text("", encoding="utf-8")
    for name in ("link", "file"):
        with pytest.raises(InputError):
            check_target(tmp_path / name, force=True)
        with pytest.raises(InputError):
            write_profile(small_profile(), tmp_path / name, force=True)
    assert not list((tmp_path / "elsewhere").iterdir())


def edited(**changes: Any) -> Callable[[Path], None]:
    def edit(directory: Path) -> None:
        path = directory / "profile.json"
        document = json.loads(path.read_text(encoding="utf-8"))
        document = {key: value for key, value in {**document, **changes}.items() if value is not Ellipsis}
        path.write_text(json.dumps(document), encoding="utf-8")

    return edit


def series(**changes: list[Any]) -> Callable[[Path], None]:
    rows = {"operator": ["all"], "key_group": [0], "bin": [0], "count": [1], **changes}
    return lambda directory: pq.write_table(pa.table(rows), directory / "series.parquet")


def removed(name: str) -> Callable[[Path], None]:
    return lambda directory: (directory / name).unlink()


def linked(directory: Path) -> None:
    (directory / "series.parquet").rename(directory.parent / "series.parquet")
    (directory / "series.parquet").symlink_to(directory.parent / "series.parquet")


def garbage(name: str) -> Callable[[Path], None]:
    return lambda directory: (directory / name).write_bytes(b"\x00nonsense")


def other_correlation(directory: Path) -> None:
    table = pq.read_table(directory / "correlation.parquet")
    rows = pa.array(np.eye(8).tolist())
    pq.write_table(table.set_column(2, "correlation", rows), directory / "correlation.parquet")


BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "no series": (removed("series.parquet"), "is missing"),
    "no quarantine": (removed("quarantine.parquet"), "is missing"),
    "a link": (linked, "not a plain file"),
    "garbage json": (garbage("profile.json"), "is not JSON"),
    "garbage series": (garbage("series.parquet"), "is not a Parquet file"),
    "garbage correlation": (garbage("correlation.parquet"), "is not a Parquet file"),
    "another format": (edited(format=1), "profile.format = 1: must be 2"),
    "another hash": (edited(hash="murmur"), "must be one of crc32"),
    "copies of one hash": (edited(copies=2), "must be crc32 of one copy, crc32-splitmix64 of several"),
    "half a copy": (edited(copies=0.5), "profile.copies"),
    "a key too many": (edited(extra=1), "has 1 unknown key"),
    "a key too few": (edited(totals=...), "totals"),
    "text for a number": (edited(key_groups="4"), "must be int"),
    "true for a number": (edited(bins=True), "must be int"),
    "no bins": (edited(bins=0), "at least 1"),
    "vast": (edited(bins=10**12), "at most"),
    "other sources": (edited(sources=[1]), "must hold text"),
    "other top keys": (edited(top_keys=[["a"]]), "pairs of key and rows"),
    "other selectivity": (edited(selectivity={"all": "x", "delayed": 1}), "must hold numbers"),
    "other totals": (edited(totals={"rows_read": 1}), "profile.totals"),
    "other start": (edited(start="soon"), "ISO 8601"),
    "series of text": (series(count=["x"]), "whole numbers"),
    "series without a column": (
        lambda d: pq.write_table(pa.table({"operator": ["all"]}), d / "series.parquet"),
        "must have the columns",
    ),
    "a null": (series(count=[None]), "must not hold nulls"),
    "a negative count": (series(count=[-1]), "count = -1: must be at least 1"),
    "a count of zero": (series(count=[0]), "must be at least 1"),
    "a group outside": (series(key_group=[4]), "key_group = 4: must be between 0 and 3"),
    "a bin outside": (series(bin=[-1]), "bin = -1: must be between 0 and 11"),
    "an unknown stream": (series(operator=["late"]), "operator must be one of all, delayed"),
    "a bin twice": (
        series(operator=["all"] * 2, key_group=[0] * 2, bin=[0] * 2, count=[1] * 2), "more than once",
    ),
    "fewer rows": (series(), "must be the sum of the counts"),
    "another correlation": (other_correlation, "is not the correlation of the series"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_profile_is_refused_with_what_is_wrong(written: Path, name: str) -> None:
    damage, rule = BROKEN[name]
    damage(written)
    with pytest.raises(InputError) as caught:
        read_profile(written)
    assert rule in str(caught.value)


def test_no_directory_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such directory"):
        read_profile(tmp_path / "nothing")


def test_the_summary_is_plain_json_with_every_number(written: Path) -> None:
    profile = read_profile(written)
    summary = json.loads(json.dumps(profile_summary(profile), allow_nan=False))
    assert summary["totals"] == dict(profile.totals)
    assert summary["selectivity"] == dict(profile.selectivity)
    assert summary["top_keys"][1] == {"key": "鍵", "rows": 2}
    assert summary["rates"]["delayed"]["rows_by_group"] == profile.counts[1].sum(axis=1).tolist()
    assert summary["rates"]["all"]["mean_per_s"] == profile.counts[0].sum() / 6.0
    assert set(summary["correlation"]["between_groups"]["all"]) == {"all", "delayed"}
