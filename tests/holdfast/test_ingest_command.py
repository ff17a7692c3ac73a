"""The command `ingest` from end to end: files in, a profile directory and one JSON document out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from holdfast.commands.ingest import ingest
from models.errors import InputError
from scenarios.files.profiles import profile_summary, read_profile, read_quarantine

app = typer.Typer()
app.command()(ingest)
OPTIONS = ["--key", "id", "--time", "ts", "--key-groups", "2", "--schema", "ts TIMESTAMP, id STRING, n INT"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    rows = [f"2020-01-01T00:{minute:02}:00,{key},{minute}.0" for minute in range(60) for key in "abc"]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(["ts,id,n", *rows, "soon,a,1"]) + "\n", encoding="utf-8")
    return path


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.spark
def test_json_is_one_document_and_equals_the_summary_of_what_was_written(
    spark: Any, trace: Path, tmp_path: Path
) -> None:
    out = tmp_path / "profile"
    streams = ["--stream", "late=n >= 30", "--stream", "first = n = 0"]
    done = run(trace, *OPTIONS, "--bin", "10 min", "--out", out, "--json", *streams)
    assert (done.exit_code, done.stderr) == (0, "")
    summary = json.loads(done.stdout)
    took = summary.pop("wall_s")
    assert list(took) == ["checking", "starting Spark", "reading", "grouping", "correlating", "writing"]
    assert all(seconds >= 0 for seconds in took.values())
    assert summary == json.loads(json.dumps(profile_summary(read_profile(out))))
    assert summary["totals"] == {"rows_read": 181, "rows_kept": 180, "rows_dropped": 0, "rows_quarantined": 1}
    assert summary["bins"] == 6
    assert {name: rate["rows"] for name, rate in summary["rates"].items()} == {
        "all": 180,
        "late": 90,
        "first": 3,
    }
    assert read_quarantine(out) == [{"raw": "soon,a,1", "why": "ts: not a TIMESTAMP", "file": "trace.csv"}]


@pytest.mark.spark
def test_the_table_fits_80_columns_and_existing_profiles_are_kept(spark: Any, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "profile"
    done = run(trace, *OPTIONS, "--bin", "1 h", "--out", out)
    assert done.exit_code == 0
    assert "180 / 0 / 1" in done.stdout
    assert "starting Spark" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    again = run(trace, *OPTIONS, "--bin", "1 h", "--out", out)
    assert isinstance(again.exception, InputError)
    assert run(trace, *OPTIONS, "--bin", "1 h", "--out", out, "--force").exit_code == 0


@pytest.mark.spark
def test_a_weight_is_named_in_the_profile_and_counts(spark: Any, tmp_path: Path) -> None:
    trace, out = tmp_path / "trace.jsonl", tmp_path / "profile"
    lines = [{"at": f"2020-01-01T00:0{k}:00", "user": {"id": "ab"[k % 2]}, "n": k} for k in range(6)]
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    options = ["--key", "user.id", "--time", "at", "--key-groups", "1", "--bin", "1 min", "--out", out]
    done = run(trace, *options, "--weight", "n")
    assert done.exit_code == 0
    assert "each row counts as often as n says" in done.stdout
    assert json.loads((out / "profile.json").read_text())["weight"] == "n"
    profile = read_profile(out)
    assert profile.weight == "n"
    assert profile.counts.tolist() == [[[1, 2, 3, 4, 5]]]
    assert profile.top_keys == (("b", 9), ("a", 6))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bin", "3600"], "ingest.bin = 3600: must be one number followed by one unit"),
        (["--bin", "1 GB"], "ingest.bin"),
        (["--stream", "late"], "must be NAME=SQL"),
        (["--stream", "a=n>1", "--stream", "a=n>2"], "named more than once"),
        (["--bin", "0 s"], "ingest.bin"),
        (["--key-groups", "0"], "ingest.key_groups = 0"),
        (["--key", "idd"], "did you mean id?"),
        (["--weight", "m"], "ingest.weight = m: is not a column of every file"),
        (["--weight", "id"], "ingest.weight = id: must be a whole number, it is string"),
    ],
)
def test_bad_options_are_named_before_spark_starts(
    trace: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = run(trace, *OPTIONS, "--bin", "1 h", "--out", tmp_path / "profile", *arguments)
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)
    assert not (tmp_path / "profile").exists()
