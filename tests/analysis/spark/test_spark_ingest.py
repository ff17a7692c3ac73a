"""Ingest against pandas on real flights, with weights, and with every setup of Spark."""

from __future__ import annotations

import os
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.errors import PySparkException
from spark_traces import SCHEMA, SETUPS, write

from analysis.spark.files import spark_errors
from analysis.spark.ingest import ingest
from analysis.spark.session import Setup
from models.errors import InputError
from models.records.profile import Profile
from models.scenario.key_groups import crc32_group
from scenarios.files.profiles import FILES, write_profile

pytestmark = pytest.mark.spark
FLIGHTS = Path(__file__).parents[3] / "scenarios" / "data" / "flights_nyc_2017.parquet"
ROWS = 12_000


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    """Real rows, spread over the year."""
    every = pd.read_parquet(FLIGHTS)
    return every.iloc[:: len(every) // ROWS].reset_index(drop=True)


@pytest.fixture(scope="module")
def files(flights: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same rows as CSV, CSV.gz and Parquet."""
    folder = tmp_path_factory.mktemp("flights")
    found = {suffix: folder / f"flights.{suffix}" for suffix in ("csv", "csv.gz", "parquet")}
    text = flights.astype({"arr_delay": "float64", "air_time": "float64"})  # integers with nulls as 12.0
    text.to_csv(found["csv"], index=False)
    text.to_csv(found["csv.gz"], index=False)
    flights.to_parquet(found["parquet"], index=False)
    return found


def profile_by_pandas(flights: pd.DataFrame, groups: int, bin_s: int) -> dict[str, Any]:
    """The oracle: the same numbers by pandas and numpy."""
    kept = flights[flights.tailnum.notna()]
    number = kept.sched_dep_ts.astype("datetime64[us]").astype("int64") // (bin_s * 1_000_000)
    group = kept.tailnum.map(lambda key: crc32_group(key, groups))
    first, bins = number.min(), number.max() - number.min() + 1
    masks = {
        "all": kept.tailnum.notna(),
        "delayed": kept.arr_delay.astype("float64") > 0,
        "airborne": kept.air_time.notna(),
    }
    counts = np.zeros((3, groups, bins), dtype=np.int64)
    for k, mask in enumerate(masks.values()):
        np.add.at(counts[k], (group[mask].to_numpy(), (number[mask] - first).to_numpy()), 1)
    tops = kept.tailnum.value_counts().reset_index().sort_values(["count", "tailnum"], ascending=[False, True])
    return {
        "start": pd.Timestamp(first * bin_s, unit="s").isoformat() + "Z",
        "counts": counts,
        "selectivity": {name: float(mask.mean()) for name, mask in masks.items()},
        "totals": {
            "rows_read": len(flights), "rows_kept": len(kept), "rows_dropped": len(flights) - len(kept),
            "rows_quarantined": 0,
        },
        "top_keys": tuple(zip(tops["tailnum"][:20], tops["count"][:20], strict=True)),
        "keys": kept.tailnum.nunique(),
        "minutes_in_air": {"total": kept.air_time.sum(), "mean": kept.air_time.mean()},
    }  # fmt: skip


def assert_profile(profile: Profile, expected: dict[str, Any]) -> None:
    assert profile.start == expected["start"]
    assert np.array_equal(profile.counts, expected["counts"])
    assert profile.selectivity == expected["selectivity"]
    assert profile.totals == expected["totals"]
    assert profile.top_keys == expected["top_keys"]
    assert profile.keys == expected["keys"]
    assert profile.minutes_in_air == expected["minutes_in_air"]
    n = profile.counts.shape[0] * profile.key_groups
    with np.errstate(invalid="ignore", divide="ignore"):
        r = np.corrcoef(profile.counts.reshape(n, -1))
    assert np.allclose(profile.correlation, np.nan_to_num(r), rtol=0, atol=1e-12)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_profile_equals_pandas_from_every_kind_of_file(
    spark: Any, files: dict[str, Path], flights: pd.DataFrame, suffix: str
) -> None:
    assert len(flights) >= 10_000
    profile, bad = ingest([files[suffix]], key="tailnum", time="sched_dep_ts", key_groups=32, bin_s=3600.0, spark=spark)
    assert_profile(profile, profile_by_pandas(flights, 32, 3600))
    assert bad.num_rows == 0
    assert bad.column_names == ["raw", "why", "file"]


def test_several_files_of_different_kinds_are_one_trace(spark: Any, flights: pd.DataFrame, tmp_path: Path) -> None:
    flights[:4000].to_csv(tmp_path / "a.csv", index=False)
    flights[8000:].to_parquet(tmp_path / "c.parquet")
    reordered = flights[4000:8000][flights.columns[::-1]]
    reordered.to_csv(tmp_path / "b.csv.gz", index=False)
    names = [tmp_path / name for name in ("a.csv", "b.csv.gz", "c.parquet")]
    profile, _ = ingest(names, key="tailnum", time="sched_dep_ts", key_groups=7, bin_s=86400, spark=spark)
    assert_profile(profile, profile_by_pandas(flights, 7, 86400))
    assert profile.sources == ("a.csv", "b.csv.gz", "c.parquet")


def test_copies_have_key_groups_of_their_own_and_are_summed(
    spark: Any, files: dict[str, Path], flights: pd.DataFrame
) -> None:
    options: dict[str, Any] = {"key": "tailnum", "time": "sched_dep_ts", "key_groups": 8, "bin_s": 86400.0}
    one, _ = ingest([files["parquet"]], spark=spark, **options)
    profile, _ = ingest([files["parquet"]], copies=3, spark=spark, **options)
    kept = flights[flights.tailnum.notna()]
    bins = kept.sched_dep_ts.astype("datetime64[us]").astype("int64").to_numpy() // 86_400_000_000
    late = (kept.arr_delay.astype("float64") > 0).to_numpy()
    expected = np.zeros_like(profile.counts[:2])
    crc = [zlib.crc32(key.encode()) for key in kept.tailnum]
    for salt in range(3):
        group = np.array([mixed(code, salt) % 8 for code in crc])
        np.add.at(expected[0], (group, bins - bins.min()), 1)
        np.add.at(expected[1], (group[late], (bins - bins.min())[late]), 1)
    assert np.array_equal(profile.counts[:2], expected)
    assert (profile.hash, profile.copies) == ("crc32-splitmix64", 3)
    same = ("totals", "selectivity", "top_keys", "keys", "minutes_in_air", "start")
    assert {name: getattr(profile, name) for name in same} == {name: getattr(one, name) for name in same}
    with pytest.raises(InputError, match=r"ingest\.copies = 0: must be a whole number between 1 and 1000"):
        ingest([files["parquet"]], copies=0, spark=spark, **options)


def mixed(code: int, salt: int) -> int:
    """The oracle: SplitMix64's finaliser in whole numbers of any size."""

    def bits(x: int) -> int:
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        return x ^ (x >> 31)

    return bits(code ^ bits((salt + 0x9E3779B97F4A7C15) % 2**64))


def test_where_and_streams_are_sql(spark: Any, files: dict[str, Path], flights: pd.DataFrame) -> None:
    profile, _ = ingest(
        [files["csv"]], key="carrier", time="sched_dep_ts", key_groups=5, bin_s=86400.0, spark=spark,
        where="origin = 'JFK'", streams={"far": "distance > 1000 AND arr_delay >= 0", "none": "distance < 0"},
    )  # fmt: skip
    kept = flights[flights.origin == "JFK"]
    far = (kept.distance > 1000) & (kept.arr_delay >= 0)
    assert profile.streams == ("all", "far", "none")
    assert profile.counts.sum(axis=(1, 2)).tolist() == [len(kept), far.sum(), 0]
    by_group = kept[far].carrier.map(lambda key: crc32_group(key, 5)).value_counts()
    assert profile.counts[1].sum(axis=1).tolist() == [by_group.get(g, 0) for g in range(5)]
    assert profile.totals["rows_dropped"] == len(flights) - len(kept)
    assert profile.filters["far"] == "distance > 1000 AND arr_delay >= 0"


HOSTILE = ["", " ", "a,b", 'he said "hi"', "ключ", "鍵", "\U0001f6eb", "x" * 3000, "'; drop", "null", "NULL",
           "\\", "a\tb",           "`", "\u2028", "N1\r", "0", "-1", "None", "é", "e\u0301"]  # fmt: skip


def test_spark_hashes_every_key_as_zlib_does(spark: Any, tmp_path: Path) -> None:
    # The number of rows of the k-th key is k + 1, so that each can be told from the others.
    keys = [key for key in HOSTILE for _ in range(HOSTILE.index(key) + 1)]
    frame = pd.DataFrame({"ts": pd.Timestamp("2020-01-01"), "key": keys, "size": 1})
    frame.to_parquet(tmp_path / "keys.parquet")
    profile, _ = ingest(
        [tmp_path / "keys.parquet"], key="key", time="ts", key_groups=97, bin_s=60, schema=SCHEMA, spark=spark
    )
    expected = np.zeros(97, dtype=int)
    for key in keys:
        expected[crc32_group(key, 97)] += key != ""
    assert profile.counts[0, :, 0].tolist() == expected.tolist()
    assert profile.totals["rows_dropped"] == 1  # the empty key
    assert dict(profile.top_keys)["é"] == HOSTILE.index("é") + 1


def test_hostile_keys_survive_csv(spark: Any, tmp_path: Path) -> None:
    keys = [key for key in HOSTILE if key not in ("N1\r", "\u2028")]  # a row of CSV is one line here
    frame = pd.DataFrame({"ts": "2020-01-01T00:00:00", "key": keys, "size": 1})
    frame.to_csv(tmp_path / "keys.csv", index=False)
    profile, bad = ingest(
        [tmp_path / "keys.csv"], key="key", time="ts", key_groups=97, bin_s=60, schema=SCHEMA, spark=spark
    )
    assert bad.num_rows == 0
    expected = np.bincount([crc32_group(key, 97) for key in keys if key], minlength=97)
    assert profile.counts[0, :, 0].tolist() == expected.tolist()


def test_the_callers_session_keeps_its_settings(spark: Any, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    path = write(tmp_path / "a.csv", [], good=1)
    try:
        profile, _ = ingest([path], key="key", time="ts", key_groups=1, bin_s=60, schema=SCHEMA, spark=spark)
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert profile.start == "2020-01-01T00:00:00Z"


@pytest.mark.parametrize("copies", [pytest.param(1, marks=pytest.mark.slow), 5])
def test_no_setup_changes_a_profile_or_its_quarantine(
    spark: Any, flights: pd.DataFrame, tmp_path: Path, copies: int
) -> None:
    good = flights[:3000].assign(air_time=lambda frame: frame.air_time.astype("float64"))
    good.to_csv(tmp_path / "b.csv", index=False)
    header, *lines = (tmp_path / "b.csv").read_text().splitlines()
    bad = [line.replace("2017-", "2O17-") for line in lines[5::150]] + ["1,2", "short", lines[0] + ",1"]
    (tmp_path / "a.csv").write_text("\n".join([header, *bad, *lines[::-2], *bad[:3]]) + "\n")
    found = {
        name: ingest(
            [tmp_path / "a.csv", tmp_path / "b.csv"], key="tailnum", time="sched_dep_ts", key_groups=6, bin_s=86400.0,
            where="origin <> 'JFK' OR carrier = 'B6'", copies=copies, weight="distance", sizing=sizing, spark=spark,
        )
        for name, sizing in SETUPS.items()
    }  # fmt: skip
    (one, one_bad), (other, other_bad) = found.values()
    assert one_bad.num_rows == len(bad) + 3
    assert one_bad.equals(other_bad)
    for name, profile in zip(SETUPS, (one, other), strict=True):
        write_profile(profile, tmp_path / name, one_bad)
    for file in FILES:
        assert (tmp_path / "at once" / file).read_bytes() == (tmp_path / "on Spark" / file).read_bytes()


@pytest.mark.parametrize(
    ("suffix", "sizing"),
    [
        pytest.param(suffix, SETUPS[name], id=f"{suffix}-{name}", marks=() if now else pytest.mark.slow)
        for suffix, name, now in (
            ("csv", "at once", False), ("csv", "on Spark", True), ("parquet", "at once", True),
            ("parquet", "on Spark", False), ("jsonl", "at once", True), ("jsonl", "on Spark", False),
        )
    ],
)  # fmt: skip
def test_weighed_rows_make_the_profile_of_the_rows_repeated(
    spark: Any, flights: pd.DataFrame, tmp_path: Path, suffix: str, sizing: Setup
) -> None:
    rng = np.random.default_rng(3)
    rows = flights[["sched_dep_ts", "tailnum", "arr_delay", "air_time"]][:1500].assign(n=rng.integers(0, 5, 1500))
    options: Any = {
        "key": "tailnum", "time": "sched_dep_ts", "key_groups": 5, "bin_s": 86400.0, "spark": spark, "sizing": sizing,
        "copies": 2, "streams": {"late": "arr_delay > 0"}, "where": "air_time > 60 OR air_time IS NULL",
        "schema": "sched_dep_ts TIMESTAMP, tailnum STRING, arr_delay INT, air_time INT, n BIGINT",
    }  # fmt: skip
    paths = [tmp_path / f"weighed.{suffix}", tmp_path / f"repeated.{suffix}"]
    for path, frame in zip(paths, (rows, rows.loc[rows.index.repeat(rows.n)].assign(n=1)), strict=True):
        if suffix == "parquet":
            frame.to_parquet(path)
        elif suffix == "csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_json(path, orient="records", lines=True, date_format="iso")
    weighed, _ = ingest([paths[0]], weight="n", **options)
    repeated, _ = ingest([paths[1]], **options)
    assert weighed.weight == "n"
    assert weighed.totals["rows_kept"] > 1000
    same = replace(weighed, weight=None, sources=repeated.sources)
    for name, profile in (("a", same), ("b", repeated)):
        write_profile(profile, tmp_path / name)
    for file in FILES:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


@pytest.mark.parametrize("sizing", SETUPS.values(), ids=list(SETUPS))
def test_weights_that_add_up_to_too_much_are_an_input_error(spark: Any, tmp_path: Path, sizing: Setup) -> None:
    path = tmp_path / "a.csv"
    path.write_text("ts,key,size,air_time\n" + "2020-01-01,a,1000000000,9000000000000000000\n" * 2)
    with pytest.raises(InputError, match=r"overflow|64 bits"):
        ingest(
            [path], key="key", time="ts", key_groups=1, bin_s=60, weight="size", spark=spark, sizing=sizing,
            schema="ts TIMESTAMP, key STRING, size INT, air_time BIGINT",
        )  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif("HOLDFAST_DATA" not in os.environ, reason="HOLDFAST_DATA does not name the data folder")
@pytest.mark.parametrize(
    "name",
    ["flights_nyc_2017.parquet", "flights_abq_2008_2017.parquet", "flights_us_sample_1987_2008.csv.gz"],
)
def test_large_files_equal_pandas(spark: Any, name: str) -> None:
    path = Path(os.environ["HOLDFAST_DATA"]) / "airline" / name
    read = pd.read_parquet if path.suffix == ".parquet" else pd.read_csv
    flights = read(path)
    flights["sched_dep_ts"] = pd.to_datetime(flights.sched_dep_ts)
    profile, bad = ingest([path], key="tailnum", time="sched_dep_ts", key_groups=32, bin_s=3600, spark=spark)
    assert bad.num_rows == 0
    assert_profile(profile, profile_by_pandas(flights, 32, 3600))


def test_an_interrupt_is_not_taken_for_an_error_of_the_input() -> None:
    def cancelled() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise PySparkException("the job was cancelled")

    with pytest.raises(KeyboardInterrupt), spark_errors("ingest"):
        cancelled()
    with pytest.raises(InputError, match="the rows cannot be read"), spark_errors("ingest"):
        raise PySparkException("a broken file")
