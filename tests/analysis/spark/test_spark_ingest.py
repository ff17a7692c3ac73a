"""Ingest against pandas on real flights, and what it does with rows, files and options that are wrong."""

from __future__ import annotations

import datetime
import gzip
import os
import zlib
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from analysis.spark.files import spark_errors
from analysis.spark.ingest import ingest
from analysis.spark.session import Setup, setup
from models.errors import InputError
from models.records.profile import Profile
from models.scenario.key_groups import crc32_group
from scenarios.files.profiles import FILES, write_profile

pytestmark = pytest.mark.spark
FLIGHTS = Path(__file__).parents[3] / "scenarios" / "data" / "flights_nyc_2017.parquet"
ROWS = 12_000
SCHEMA = "ts TIMESTAMP, key STRING, size INT"


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


def write(path: Path, lines: list[str], good: int = 60) -> Path:
    text = "\n".join(["ts,key,size", *lines, *["2020-01-01T00:00:01,k,1"] * good]) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


BAD_ROWS = [
    ("2020-01-01T00:00:00,too few", "malformed line"),
    ("2020-01-01T00:00:00,too,many,1", "malformed line"),
    ('2020-01-01T00:00:00,"no end,1', "malformed line"),
    (",no time,1", "ts: missing"),
    ("12:30,time of day,1", "ts: not a TIMESTAMP"),
    ("2020-02-30T00:00:00,no such day,1", "ts: not a TIMESTAMP"),
    ("0000-01-01T00:00:00,year zero,1", "ts: not in the years 1 to 9999"),
    ("2020-01-01T00:00:00,text,many", "size: not an INT"),
    ("2020-01-01T00:00:00,half,12.5", "size: not an INT"),
    ("2020-01-01T00:00:00,vast,99999999999", "size: not an INT"),
    ("2020-01-01T00:00:00,latin\udce9,1", "key: not UTF-8"),
]


@pytest.mark.parametrize("name", ["_hidden.csv", "odd {a,b}[1]*?.csv", "with space.csv.gz"])
def test_bad_rows_are_set_aside_with_reason_and_file(spark: Any, tmp_path: Path, name: str) -> None:
    lines = [row for row, _ in BAD_ROWS if not name.endswith("gz") or row.isascii()]
    path = write(tmp_path / name, lines, good=300)
    profile, bad = ingest([path], key="key", time="ts", key_groups=4, bin_s=1.0, schema=SCHEMA, spark=spark)
    shown = lambda row: row.replace("\udce9", "\ufffd")  # noqa: E731
    expected = {(shown(row), why, name) for row, why in BAD_ROWS if row in lines}
    assert {(row["raw"], row["why"], row["file"]) for row in bad.to_pylist()} == expected
    assert profile.totals["rows_quarantined"] == len(lines)
    assert profile.totals["rows_kept"] == 300


def test_numbers_with_point_zero_nulls_and_zones_are_good(spark: Any, tmp_path: Path) -> None:
    lines = ["2020-01-01T00:00:00,a,12.0", "2020-01-01 00:00,a,", "2020-01-01T01:00:00+01:00,a,-3.00",
             "2020-01-01,a,007", '"2020-01-01T00:00:00Z","a","5"', "2020-01-01T00:00:00.99,,4",
             ""]  # fmt: skip
    path = write(tmp_path / "good.csv", lines, good=0)
    profile, bad = ingest(
        [path],
        key="key",
        time="ts",
        key_groups=1,
        bin_s=1.0,
        schema=SCHEMA,
        streams={"big": "size > 4"},
        spark=spark,
    )
    assert bad.num_rows == 0
    assert profile.counts.tolist() == [[[5]], [[3]]]
    assert profile.totals["rows_dropped"] == 1


def test_too_many_bad_rows_stop_with_share_limit_and_reasons_and_show_none(spark: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "bad.csv", ["x,a,1"] * 4, good=36)
    with pytest.raises(InputError) as caught:
        ingest([path], key="key", time="ts", key_groups=1, bin_s=1, schema=SCHEMA, spark=spark)
    text = str(caught.value)
    assert text.startswith("ingest.max_bad_share = 0.05: 4 of 40 rows (10 %)")
    assert text.count("bad.csv: ts: not a TIMESTAMP") == 1
    assert "x,a,1" not in text
    profile, bad = ingest(
        [path], key="key", time="ts", key_groups=1, bin_s=1, schema=SCHEMA, max_bad_share=0.1, spark=spark
    )
    assert (profile.totals["rows_kept"], bad.num_rows) == (36, 4)


def test_parquet_nanoseconds_time_zones_and_unwanted_types(spark: Any, tmp_path: Path) -> None:
    texts = ["2020-01-01 00:00:00.999999999", "2020-01-01 00:00:01", "1969-12-31 23:59:59.5"]
    stamps = pd.to_datetime(texts, format="ISO8601")
    frame = pd.DataFrame({"ts": stamps, "key": ["a", "b", "c"], "size": [1.0, np.nan, 3.5], "list": [[1]] * 3})
    frame.to_parquet(tmp_path / "nanos.parquet")
    frame.assign(ts=stamps.tz_localize("UTC").tz_convert("Asia/Tokyo")).to_parquet(tmp_path / "zoned.parquet")
    for name in ("nanos.parquet", "zoned.parquet"):
        profile, bad = ingest(
            [tmp_path / name], key="key", time="ts", key_groups=1, bin_s=1, schema=SCHEMA, max_bad_share=0.5,
            spark=spark, where="ts > '2000-01-01'",
        )  # fmt: skip
        assert profile.start == "2020-01-01T00:00:00Z"
        assert profile.counts.tolist() == [[[1, 1]]]
        assert bad["why"].to_pylist() == ["size: not an INT"]


def test_parquet_without_a_schema_keeps_its_own_columns(spark: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame({"at": pd.date_range("2021-05-01", periods=6, freq="h"), "user id": [1, 2, 3, 1, 1, 2]})
    frame = frame.assign(nested=[{"a": 1}] * 6, blob=[b"x"] * 6, clock=[datetime.time(1)] * 6, none=None)
    frame.to_parquet(tmp_path / "web.parquet")
    profile, _ = ingest(
        [tmp_path / "web.parquet"], key="user id", time="at", key_groups=3, bin_s=3600, spark=spark,
        where="`user id` < 3",
    )  # fmt: skip
    assert profile.streams == ("all",)
    assert profile.top_keys == (("1", 3), ("2", 2))
    assert profile.minutes_in_air is None


BAD_SQL = {
    "size >": "not a condition in SQL",
    "size > 1; drop table x": "not a condition in SQL",
    "": "must be a condition",
    "size + 1": "must be true or false, it is int",
    "*": "must be true or false, it is 3 columns",
    "siz > 1": "siz is not a column of every file (did you mean size?)",
    "_hf_why is null": "is not a column",
    "exists (select 1)": "subquery",
    "size in (select 1)": "subquery",
    "(select true)": "subquery",
    "count(*) > 1": "one row alone",
    "row_number() over (order by size) > 1": "one row alone",
    "explode(array(true))": "one row alone",
    "rand() > 0.5": "same answer in every run",
    "ts < current_timestamp": "same answer in every run",
    "ts < now()": "same answer in every run",
    "input_file_name() = ''": "same answer in every run",
    "reflect('java.lang.System', 'exit', '3') is null": "must not call reflect",
    "java_method('java.lang.System', 'exit', '3') is null": "must not call java_method",
    "try_reflect('java.lang.System', 'exit', '3') is null": "must not call try_reflect",
    "system.builtin.reflect('java.lang.System', 'exit', '3') is null": "must not call reflect",
    "identifier('reflect')('java.lang.System', 'exit', '3') is null": "must not hold IDENTIFIER",
    "nosuch(size) > 1": "cannot be used",
}


@pytest.mark.parametrize("sql", BAD_SQL)
def test_sql_that_is_no_condition_on_a_row_is_refused(spark: Any, tmp_path: Path, sql: str) -> None:
    path = write(tmp_path / "a.csv", [], good=1)
    options: Any = {"key": "key", "time": "ts", "key_groups": 1, "bin_s": 1, "schema": SCHEMA, "spark": spark}
    with pytest.raises(InputError, match=r"ingest\.where") as caught:
        ingest([path], where=sql, **options)
    assert BAD_SQL[sql] in str(caught.value)
    with pytest.raises(InputError, match=r"ingest\.streams\.s"):
        ingest([path], streams={"s": sql}, **options)


def test_sql_that_fails_on_a_row_is_an_input_error(spark: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ["2020-01-01,a,0"], good=1)
    with pytest.raises(InputError, match="Division by zero"):
        ingest(
            [path],
            key="key",
            time="ts",
            key_groups=1,
            bin_s=1,
            schema=SCHEMA,
            where="1 / size > 0",
            spark=spark,
        )


def test_whole_numbers_of_types_beyond_spark_are_read_by_a_schema(spark: Any, tmp_path: Path) -> None:
    decimals = pa.array([Decimal("2.00"), Decimal("2.50"), None], pa.decimal128(10, 2))
    ids = pa.array([2**64 - 1, 7, 7], pa.uint64())
    stamps = pa.array([0] * 3, pa.timestamp("us"))
    pq.write_table(pa.table({"id": ids, "n": decimals, "ts": stamps}), tmp_path / "a.parquet")
    options: Any = {"time": "ts", "key_groups": 1, "bin_s": 60, "weight": "n", "max_bad_share": 1, "spark": spark}
    profile, bad = ingest([tmp_path / "a.parquet"], key="id", schema="id STRING, n INT, ts TIMESTAMP_NTZ", **options)
    assert profile.top_keys == ((str(2**64 - 1), 2),)
    assert sorted(bad["why"].to_pylist()) == ["n: missing", "n: not an INT"]


def test_a_gzip_file_that_ends_too_early_is_an_input_error(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = write(tmp_path / "a.csv.gz", [f"2020-01-01,{key},1" for key in rng.integers(0, 10**9, 60_000)])
    path.write_bytes(path.read_bytes()[:200_000])
    with pytest.raises(InputError, match="cannot be read"):
        ingest([path], key="key", time="ts", key_groups=1, bin_s=1, schema=SCHEMA, spark=spark)


@pytest.mark.parametrize(
    ("lines", "where", "rule"),
    [([], None, "no rows"), (["2020-01-01,,1"], None, "no row is left of 1: 0 are bad, 0 not wanted"),
     (["2020-01-01,a,1"], "size = 2", "1 not wanted by where")],
)  # fmt: skip
def test_nothing_to_count_is_an_input_error(
    spark: Any, tmp_path: Path, lines: list[str], where: str | None, rule: str
) -> None:
    path = write(tmp_path / "a.csv", lines, good=0)
    with pytest.raises(InputError, match=rule):
        ingest([path], key="key", time="ts", key_groups=1, bin_s=1, schema=SCHEMA, where=where, spark=spark)


@pytest.mark.parametrize(
    ("key", "time", "rule"),
    [
        ("ts", "ts", "ingest.key = ts: must be text"),
        ("key", "size", "ingest.time = size: must be a timestamp"),
    ],
)
def test_key_and_time_columns_must_have_fitting_types(
    spark: Any, tmp_path: Path, key: str, time: str, rule: str
) -> None:
    path = write(tmp_path / "a.csv", [], good=1)
    with pytest.raises(InputError, match=rule):
        ingest([path], key=key, time=time, key_groups=1, bin_s=1, schema=SCHEMA, spark=spark)


def test_bins_too_short_for_the_span_are_refused(spark: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ["1900-01-01,a,1"], good=1)
    with pytest.raises(InputError, match=r"ingest\.bin = 1: makes \d+ bins, too many"):
        ingest([path], key="key", time="ts", key_groups=1, bin_s=1, schema=SCHEMA, spark=spark)


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


SETUPS = {"at once": setup(0, 1), "on Spark": setup(2**40, 3)}


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


BAD_LINES = {
    '{"ts":"2020-01-01","user":{"id":"a"},"n":1': "malformed line",
    '{"ts":"2020-01-01","user":"a","n":1}': "malformed line",
    '{"ts":"2020-01-01","user":{"id":"a"},"n":1} more': "malformed line",
    '{"ts":"2020-01-01","user":{"id":"a"}}{"n":1}': "malformed line",
    '[{"ts":"2020-01-01","user":{"id":"a"},"n":1}]': "malformed line",
    "{'ts':'2020-01-01','n':1}": "malformed line",
    "7": "malformed line",
    '{"user":{"id":"a"},"n":1}': "ts: missing",
    '{"ts":1577836800,"user":{"id":"a"},"n":1}': "ts: not a TIMESTAMP",
    '{"ts":"2020-01-01","user":{"id":"a"},"n":"many"}': "n: not an INT",
    '{"ts":"2020-01-01","user":{"id":"a"},"n":1.5}': "n: not an INT",
    '{"ts":"2020-01-01","user":{"id":"a"},"n":{"m":1}}': "n: not an INT",
    '{"ts":"2020-01-01","user":{"id":"caf\udce9"},"n":1}': "user.id: not UTF-8",
}


@pytest.mark.parametrize("suffix", ["jsonl", "ndjson.gz"])
def test_bad_lines_of_json_are_set_aside_as_they_are(spark: Any, tmp_path: Path, suffix: str) -> None:
    good = ['{"n":2.0, "ts":"2020-01-01T00:00:00Z", "user":{"id":7, "age":3}, "more":[1]}', "", "  "]
    good += ['  {"user":{"id":"\\u00e9"},"ts":"2020-01-01T00:00:01"}', '{"ts":"2020-01-01","user":null,"n":null}']
    content = ("\ufeff" + "\r\n".join([*good, *BAD_LINES])).encode("utf-8", "surrogateescape")
    path = tmp_path / f"rows.{suffix}"
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    options: Any = {"key": "user.id", "time": "ts", "key_groups": 1, "bin_s": 1.0, "max_bad_share": 1, "spark": spark}
    profile, bad = ingest([path], schema="n INT, ts TIMESTAMP, user.id STRING", **options)
    shown = {line.replace("\udce9", "\ufffd"): why for line, why in BAD_LINES.items()}
    assert {row["raw"]: row["why"] for row in bad.to_pylist()} == shown
    assert profile.top_keys == (("7", 1), ("é", 1))
    assert profile.totals["rows_dropped"] == 1


def test_json_lines_need_no_schema_and_stand_beside_other_files(spark: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame({"at": ["2021-05-01T00:00:00", "2021-05-01T02:00:00"], "user": [3, 4], "ok": [True, False]})
    frame.to_json(tmp_path / "a.json", orient="records", lines=True)
    frame.assign(at=pd.to_datetime(frame["at"])).to_parquet(tmp_path / "b.parquet")
    options: Any = {"key": "user", "time": "at", "key_groups": 3, "bin_s": 3600, "spark": spark, "where": "ok"}
    for names in (["a.json"], ["a.json", "b.parquet"], ["b.parquet", "a.json"]):
        profile, bad = ingest([tmp_path / name for name in names], **options)
        assert (profile.top_keys, bad.num_rows) == ((("3", len(names)),), 0)


BAD_WEIGHTS = {
    "-1": "size: negative", "": "size: missing", "1.5": "size: not a BIGINT", "x": "size: not a BIGINT",
    "1000000001": "size: more than 1000000000", "99999999999999999999": "size: not a BIGINT",
}  # fmt: skip


def test_a_row_whose_weight_cannot_be_is_bad_and_counts_once(spark: Any, tmp_path: Path) -> None:
    lines = [f"2020-01-01,a,{weight}" for weight in BAD_WEIGHTS]
    lines += ["soon,a,7", "2020-01-01,a,3,too many", "soon,a,0", "2020-01-01,b,0", "2020-01-01,,4"]
    path = write(tmp_path / "a.csv", lines, good=1)
    profile, bad = ingest(
        [path], key="key", time="ts", key_groups=1, bin_s=60, schema="ts TIMESTAMP, key STRING, size BIGINT",
        weight="size", max_bad_share=1, spark=spark,
    )  # fmt: skip
    expected = [*BAD_WEIGHTS.values(), "ts: not a TIMESTAMP", "malformed line"]
    assert sorted(bad["why"].to_pylist()) == sorted(expected)
    quarantined = len(BAD_WEIGHTS) + 7 + 1  # the weight of a malformed line is none
    assert dict(profile.totals) == {
        "rows_read": quarantined + 4 + 1, "rows_kept": 1, "rows_dropped": 4, "rows_quarantined": quarantined,
    }  # fmt: skip
    assert profile.keys == 1


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_weight_that_is_no_whole_number_is_one_bad_row_without_a_schema_too(
    spark: Any, tmp_path: Path, suffix: str
) -> None:
    frame = pd.DataFrame({"ts": pd.Timestamp("2020-01-01"), "key": list("abcd"), "n": [2.0, 3.0, 2.5, np.nan]})
    path = tmp_path / f"a.{suffix}"
    if suffix == "parquet":
        frame.to_parquet(path)
    else:
        path.write_text("\n".join(f'{{"ts":"2020-01-01","key":"{k}","n":{n}}}' for k, n in
                                  zip("abcd", ("2", "3.0", "2.5", "null"), strict=True)))  # fmt: skip
    options: Any = {"key": "key", "time": "ts", "key_groups": 1, "bin_s": 60, "weight": "n", "max_bad_share": 1}
    profile, bad = ingest([path], where="n < 9", spark=spark, **options)
    assert profile.top_keys == (("b", 3), ("a", 2))
    assert sorted(bad["why"].to_pylist()) == ["n: missing", "n: not a BIGINT"]


@pytest.mark.parametrize("sizing", SETUPS.values(), ids=list(SETUPS))
def test_weights_that_add_up_to_too_much_are_an_input_error(spark: Any, tmp_path: Path, sizing: Setup) -> None:
    path = tmp_path / "a.csv"
    path.write_text("ts,key,size,air_time\n" + "2020-01-01,a,1000000000,9000000000000000000\n" * 2)
    with pytest.raises(InputError, match=r"overflow|64 bits"):
        ingest(
            [path], key="key", time="ts", key_groups=1, bin_s=60, weight="size", spark=spark, sizing=sizing,
            schema="ts TIMESTAMP, key STRING, size INT, air_time BIGINT",
        )  # fmt: skip


def test_a_gzip_file_that_breaks_off_or_is_broken_is_named_with_the_cause(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lines = [f"2020-01-01,{key},1" for key in rng.integers(0, 10**9, 3000)]
    packed = gzip.compress("\n".join(["ts,key,size", *lines]).encode())
    half = len(packed) // 2
    for name, content, cause in (
        ("short.csv.gz", packed[:half], "the gzip file ends too early"),
        ("broken.csv.gz", packed[:half] + bytes(9) + packed[half + 9 :], "the gzip file is broken"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError) as caught:
            ingest([tmp_path / name], key="key", time="ts", key_groups=1, bin_s=60, schema=SCHEMA, spark=spark)
        (fault,) = caught.value.faults
        assert (fault.value, fault.rule) == (str(tmp_path / name), f"cannot be read: {cause}")


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
