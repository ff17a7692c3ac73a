"""What ingest does with rows, files and options that are wrong."""

from __future__ import annotations

import datetime
import gzip
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_traces import SCHEMA, write

from analysis.spark.ingest import ingest
from models.errors import InputError

pytestmark = pytest.mark.spark


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
