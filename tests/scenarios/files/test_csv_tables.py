"""CSV tables: a spreadsheet takes text for a formula where it begins with certain characters."""

from __future__ import annotations

import csv
import subprocess
from pathlib import Path

import pytest

from models.fleet.rules import fleet_from
from scenarios.files.parquet import read_parquet, write_csv
from scenarios.fleet.runs import run_fleet, write_fleet

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("text", ["=1+2", "+1", "-1", "@SUM(A1)", "\tx", "\rx", '=HYPERLINK("http://x","y")'])
def test_a_text_that_a_spreadsheet_takes_for_a_formula_begins_with_an_apostrophe(tmp_path: Path, text: str) -> None:
    write_csv(tmp_path / "x.csv", [text], [(text, 1)])
    with (tmp_path / "x.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["'" + text], ["'" + text, "1"]]


def test_numbers_and_other_text_stay_as_they_are(tmp_path: Path) -> None:
    write_csv(tmp_path / "x.csv", ["a", "b"], [(-1, -0.5), ("a=b", "x-1"), ("", None), ("'=1", 1e-9)])
    assert (tmp_path / "x.csv").read_text() == "a,b\n-1,-0.5\na=b,x-1\n,\n'=1,1e-09\n"


def test_the_tables_of_fleets_escape_names_in_csv_and_not_in_parquet(tmp_path: Path) -> None:
    fleet = fleet_from(
        {
            "duration": "100 d",
            "hosts": {"=cmd|' /C calc'!A0": {"mttf": "2 d", "mttr": "1 h"}, "b": {"mttf": "2 d", "mttr": "1 h"}},
            "operators": {"+x": ["b"]},
            "queries": {"@q": ["+x"]},
        }
    )
    result = run_fleet(fleet)
    write_fleet(result, tmp_path / "csv", table_format="csv")
    write_fleet(result, tmp_path / "parquet")
    for table, column in (("host_downtimes", "host"), ("outages", "query")):
        with (tmp_path / "csv" / f"{table}.csv").open(newline="") as file:
            found = [row[column] for row in csv.DictReader(file)]
        plain = read_parquet(tmp_path / "parquet" / f"{table}.parquet")[column]
        assert found == [("'" if str(name)[0] in "=@" else "") + str(name) for name in plain]
        assert any(name.startswith("'") for name in found)


def test_one_function_writes_all_csv_tables() -> None:
    folders = ("models", "sim", "optimizer", "analysis", "scenarios", "holdfast")
    found = subprocess.run(
        ["grep", "-rlE", "csv\\.(writer|DictWriter)|to_csv\\(", "--include=*.py", *folders],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    # rows.py shows a row of a trace as text and writes no file
    assert sorted(found.stdout.split()) == ["analysis/spark/rows.py", "scenarios/files/parquet.py"]
