"""The reader with Spark finds what the plain one does, in every count and outage."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_failure_reader import LANL, TRICKY

from analysis.failure_logs.reader import read_plain
from analysis.failure_logs.records import LogQuestion, Records, kind_of
from analysis.spark.failures import read_with_spark
from analysis.spark.sources import open_sources

pytestmark = pytest.mark.spark


def assert_same(one: Records, other: Records) -> None:
    for field in fields(Records):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        assert np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs, field.name


def test_the_laboratorys_log_is_read_alike(spark: Any) -> None:
    question = LogQuestion(zone="America/Denver", causes=("Hardware", "Network"))
    sources = open_sources([LANL])
    assert_same(read_plain(sources, "lanl", question), read_with_spark(sources, "lanl", question, spark=spark))


def test_bad_records_of_csv_are_kept_as_they_are_written(spark: Any, tmp_path: Path) -> None:
    lines = ('"a, b",x,9,', " c , 5x,6 ,", 'd,"7,8",9,"say ""so"""', "e,,,", '"f","7,8', "NaN,NaN,1,", "g,9,1, why ")
    (tmp_path / "a.csv").write_text("\n".join(("host,down,up,cause", *lines)) + "\n")
    sources, question = open_sources([tmp_path / "a.csv"]), LogQuestion()
    plain = read_plain(sources, "table", question)
    assert sorted(raw for _, _, raw in plain.examples) == sorted(lines)
    assert read_with_spark(sources, "table", question, spark=spark).examples == plain.examples


def test_tricky_records_of_csv_and_parquet_are_read_alike(spark: Any, tmp_path: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    (tmp_path / "a.csv").write_text(TRICKY)
    at = pa.array([np.datetime64("2021-01-02T03:04:05.5", "ns"), None, np.datetime64("2021-01-02T03:05", "ns")])
    columns = {"host": ["d", "d", "e"], "down": at, "up": [float("nan"), 7.0, 1e10], "cause": ["x", None, " "]}
    pq.write_table(pa.table(columns), tmp_path / "b.parquet")
    sources = open_sources([tmp_path / "a.csv", tmp_path / "b.parquet"])
    question = LogQuestion(zone="America/Denver")
    kind = kind_of(sources[0].columns, "a.csv")
    plain, with_spark = read_plain(sources, kind, question), read_with_spark(sources, kind, question, spark=spark)
    assert plain.read == 18
    assert [row[:2] for row in plain.examples] == [row[:2] for row in with_spark.examples]
    for one in (plain, with_spark):
        object.__setattr__(one, "examples", ())  # their text may differ: Spark has no text of a Parquet row
        object.__setattr__(one, "first_bad", "")  # and no line numbers
    assert_same(plain, with_spark)
