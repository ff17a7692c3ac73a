"""Files, schemas and options that ingest refuses before it starts Spark."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.spark.ingest import ingest
from analysis.spark.schema import parse_schema
from analysis.spark.sources import FLIGHT_COLUMNS, FLIGHT_SCHEMA, check_columns, common_columns, open_sources
from models.errors import InputError

GOOD: dict[str, Any] = {"key": "tailnum", "time": "sched_dep_ts", "key_groups": 4, "bin_s": 60.0}


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    path = tmp_path / "flights.csv"
    path.write_text("sched_dep_ts,tailnum,arr_delay\n2017-01-01T00:00:00,N1,3\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("change", "path", "rule"),
    [
        ({"key_groups": 0}, "ingest.key_groups", "at least 1"),
        ({"key_groups": 2.0}, "ingest.key_groups", "whole number"),
        ({"key_groups": 100_000}, "ingest.key_groups", "at most 7071"),
        ({"bin_s": 0}, "ingest.bin", "positive"),
        ({"bin_s": -1.0}, "ingest.bin", "positive"),
        ({"bin_s": float("nan")}, "ingest.bin", "positive"),
        ({"bin_s": 1e-7}, "ingest.bin", "microseconds"),
        ({"max_bad_share": 1.5}, "ingest.max_bad_share", "between 0 and 1"),
        ({"streams": {"all": "true"}}, "ingest.streams", '"all"'),
        ({"streams": {"": "true"}}, "ingest.streams", "must have a name"),
        ({"schema": "ts"}, "ingest.schema", "columns with types"),
        ({"schema": "ts MAP<INT, INT>"}, "ingest.schema", "columns with types"),
        ({"schema": "ts INTERVAL"}, "ingest.schema.ts", "must be one of"),
        ({"schema": "a INT, A STRING"}, "ingest.schema", "more than once"),
        ({"schema": " "}, "ingest.schema", "at least one column"),
        (
            {"schema": "sched_dep_ts TIMESTAMP, tailnum STRING"},
            "ingest.files",
            "that the schema lacks: number 3",
        ),
        (
            {"schema": "sched_dep_ts DATE, tailnum STRING, arr_delay INT, x INT"},
            "ingest.files",
            "lacks columns",
        ),
        ({"key": "tail_num"}, "ingest.key", "did you mean tailnum?"),
        ({"time": "dep_time"}, "ingest.time", "not a column of every file"),
    ],
)
def test_options_that_cannot_be_are_named(flights: Path, change: dict[str, Any], path: str, rule: str) -> None:
    with pytest.raises(InputError) as caught:
        ingest([flights], **{**GOOD, **change})
    assert path in str(caught.value)
    assert rule in str(caught.value)


def test_several_faults_come_together(flights: Path) -> None:
    with pytest.raises(InputError) as caught:
        ingest([flights], **{**GOOD, "key_groups": 0, "bin_s": 0, "max_bad_share": 2})
    assert len(caught.value.faults) == 3


def test_files_that_cannot_be_used_are_all_named(tmp_path: Path) -> None:
    contents = {
        "empty.csv": b"", "blank.csv": b"\n1,2\n", "latin.csv": b"caf\xe9,b\n", "plain.csv.gz": b"a,b\n",
        "short.csv.gz": gzip.compress(b"a,b\n" * 1000)[:20], "twice.csv": b"a,A\n", "noname.csv": b",a\n",
        "not.parquet": b"PAR1 no", "what.txt": b"{}", "empty.jsonl": b"", "array.json": b'[\n{"a": 1}\n]\n',
        "cr.csv": b"a,b\r1,2\r", "wide.csv": b"a" * 200_000 + b"\n",
        "no.ndjson": b"a,b\n1,2\n", "plain.json.gz": b"{}\n", "case.jsonl": b'{"a": 1, "A": 2}\n',
    }  # fmt: skip
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.parquet").mkdir()
    names = [*contents, "folder.parquet", "missing.csv"]
    with pytest.raises(InputError) as caught:
        open_sources([tmp_path / name for name in names])
    assert len(caught.value.faults) == len(names)
    for name, fault in zip(names, caught.value.faults, strict=True):
        assert name in str(fault)


def test_a_csv_file_whose_lines_end_in_cr_alone_is_told_how_to_become_one(tmp_path: Path) -> None:
    (tmp_path / "cr.csv").write_bytes(b"ts,id\r2020-01-01,a\r")
    with pytest.raises(InputError, match=r"cr\.csv: has a line that ends in CR alone \(lines end in LF or CR LF"):
        open_sources([tmp_path / "cr.csv"])


def test_columns_of_json_lines_are_those_of_the_first_lines_by_dotted_path(tmp_path: Path) -> None:
    lines = [
        '{"ts": "2020", "user": {"id": 1, "name": null}, "n": 1, "list": [], "mixed": 1, "here": {"a": 1}}',
        '{"mixed": "x", "here": 3, "user": {}}',
        "not JSON",
        '{"late": true, "user": {"id": 2}, "n": 1.5, "mixed": "x", "here": 3, "a.b": 1, "": 2}',
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    source = open_sources([tmp_path / "a.jsonl"])[0]
    types = {"ts": "string", "user.id": "bigint", "user.name": "string", "n": "double", "mixed": "string",
             "here": "bigint", "late": "boolean"}  # fmt: skip
    assert dict(source.types) == types
    assert source.columns == tuple(types)


@pytest.mark.usefixtures("no_spark")
def test_columns_of_json_lines_that_are_not_there_are_refused_before_spark_starts(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"ts": "2020-01-01", "user": {"id": 1.5}}\n', encoding="utf-8")
    for change, rule in (
        ({"key": "user"}, r"ingest\.key = user: is not a column of every file \(did you mean user\.id\?\)"),
        ({"key": "user.id"}, r"ingest\.key = user\.id: must be text, a whole number or a boolean, it is double"),
        ({"weight": "n"}, r"ingest\.weight = n: is not a column of every file"),
        ({"weight": "ts"}, r"ingest\.weight = ts: must be a whole number, it is string"),
        ({"schema": "ts DATE, user STRING, user.id STRING"}, r"ingest\.schema = user\.id: is part of user"),
    ):
        with pytest.raises(InputError, match=rule):
            ingest([path], **{**GOOD, "key": "ts", "time": "ts", **change})


def test_a_name_in_another_case_is_the_nearest(flights: Path) -> None:
    with pytest.raises(InputError, match=r"ingest\.key = TAILNUM: is not .* \(did you mean tailnum\?\)"):
        ingest([flights], **{**GOOD, "key": "TAILNUM"})
    (flights.parent / "n.jsonl").write_text('{"n": 1, "ts": 1}', encoding="utf-8")
    with pytest.raises(InputError, match=r"ingest\.weight = N: is not .* \(did you mean n\?\)"):
        check_columns(open_sources([flights.parent / "n.jsonl"]), None, {"weight": "N"})


def test_fields_of_json_lines_that_differ_in_case_alone_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "user": 1}\n{"User": 2, "_hf_x": 1}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.jsonl: has fields whose names differ in case alone: 'User', 'user'$"):
        open_sources([tmp_path / "a.jsonl"])
    (tmp_path / "b.jsonl").write_text('{"_hf_x": 1}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"b\.jsonl: has columns that begin with _hf_: '_hf_x'$"):
        open_sources([tmp_path / "b.jsonl"])


def test_no_file_and_a_file_named_twice_are_refused(flights: Path) -> None:
    with pytest.raises(InputError, match="at least one file"):
        open_sources([])
    with pytest.raises(InputError, match="more than once"):
        open_sources([flights, flights.parent / "." / flights.name])


def test_columns_of_a_csv_file_that_flights_do_not_have_are_refused_with_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("sched_dep_ts,tailnum,arr_dely\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"number 3 \(did you mean arr_delay in column 3\?\)"):
        check_columns(open_sources([path]), None, {"key": "tailnum", "time": "sched_dep_ts"})


def test_parquet_files_may_have_more_columns_but_not_fewer(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ts": [1], "id": ["a"], "more": [2]}), tmp_path / "a.parquet")
    sources = open_sources([tmp_path / "a.parquet"])
    check_columns(sources, ["ts", "id"], {"key": "id", "time": "ts"})
    with pytest.raises(InputError, match="lacks columns of the schema: size"):
        check_columns(sources, ["ts", "id", "size"], {"key": "id", "time": "ts"})


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\r\n", encoding="utf-8-sig")
    assert open_sources([tmp_path / "a.csv"])[0].columns == ("a", "b")


def test_common_columns_keep_the_order_of_the_first_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("c,b,a\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("a,c\n", encoding="utf-8")
    assert common_columns(open_sources([tmp_path / "a.csv", tmp_path / "b.csv"])) == ("c", "a")


def test_the_schema_of_flights_can_be_read_and_has_the_flight_columns() -> None:
    assert tuple(name for name, _ in parse_schema(FLIGHT_SCHEMA)) == FLIGHT_COLUMNS


def test_schema_names_may_be_quoted_and_types_have_several_names() -> None:
    found = parse_schema("`a b` integer, `c``d`: LONG,e real")
    assert found == (("a b", "int"), ("c`d", "bigint"), ("e", "float"))


def test_importing_ingest_needs_neither_pyspark_nor_java() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import analysis.spark.ingest, analysis.spark.session"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("analysis.spark.profiling.session_for", started)


@pytest.mark.parametrize(
    ("kind", "called"),
    [
        (pa.float64(), "it is double"),
        (pa.float32(), "it is float"),
        (pa.timestamp("us"), "it is timestamp_ntz"),
        (pa.timestamp("ns"), "it is timestamp"),
        (pa.timestamp("ms", "UTC"), "it is timestamp"),
        (pa.date32(), "it is date"),
        (pa.uint64(), 'it is uint64, not one of 64 bits with a sign (give the schema of the columns, as in "id BIGINT'),
        (pa.decimal128(10, 2), "it is decimal(10,2) (give the schema of the columns"),
        (pa.list_(pa.int64()), "not a nested or binary column"),
        (pa.struct([("a", pa.int64())]), "not a nested or binary column"),
        (pa.binary(), "not a nested or binary column"),
    ],
)
@pytest.mark.usefixtures("no_spark")
def test_a_parquet_key_of_a_wrong_type_is_refused_before_spark_starts(
    tmp_path: Path, kind: pa.DataType, called: str
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": pa.array([None], kind), "ts": pa.array([0], pa.timestamp("us"))}), path)
    with pytest.raises(InputError) as caught:
        ingest([path], **{**GOOD, "key": "id", "time": "ts"})
    assert [fault.path for fault in caught.value.faults] == ["ingest.key"]
    assert "must be text, a whole number or a boolean" in str(caught.value)
    assert called in str(caught.value)


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint8(), pa.bool_(), pa.float64()])
@pytest.mark.usefixtures("no_spark")
def test_a_parquet_time_of_a_wrong_type_is_refused_before_spark_starts(tmp_path: Path, kind: pa.DataType) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": ["a"], "ts": pa.array([None], kind)}), path)
    with pytest.raises(InputError, match=r"ingest\.time = ts: must be a timestamp"):
        ingest([path], **{**GOOD, "key": "id", "time": "ts"})


@pytest.mark.parametrize("change", [{"key": "sched_dep_ts"}, {"time": "arr_delay"}])
@pytest.mark.usefixtures("no_spark")
def test_a_column_of_flights_of_a_wrong_type_is_refused_before_spark_starts(
    flights: Path, change: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match="must be") as caught:
        ingest([flights], **{**GOOD, **change})
    assert [fault.path for fault in caught.value.faults] == [f"ingest.{name}" for name in change]


@pytest.mark.usefixtures("no_spark")
def test_a_column_whose_type_the_schema_gives_wrongly_is_refused_before_spark_starts(flights: Path) -> None:
    schema = "sched_dep_ts DOUBLE, tailnum FLOAT, arr_delay INT"
    with pytest.raises(InputError) as caught:
        ingest([flights], **GOOD, schema=schema)
    assert [fault.path for fault in caught.value.faults] == ["ingest.key", "ingest.time"]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.int8(), pa.uint32(), pa.bool_(), pa.dictionary(pa.int32(), pa.string())]
)
def test_a_parquet_key_of_a_right_type_starts_spark(tmp_path: Path, kind: pa.DataType, no_spark: None) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": pa.array([None], kind), "ts": pa.array([0], pa.timestamp("us"))}), path)
    with pytest.raises(AssertionError, match="Spark was started"):
        ingest([path], **{**GOOD, "key": "id", "time": "ts"})
