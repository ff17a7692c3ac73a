"""`fleet`: tables that fit a terminal, one JSON document, a directory of tables, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
SHORT = ("--replications", "1")


def called(capsys, *arguments: object) -> tuple[int, str, str]:  # type: ignore[no-untyped-def]
    with pytest.raises(SystemExit) as left:
        main(["fleet", *map(str, arguments)])
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


def asked(folder: Path, **keys: object) -> Path:
    path = folder / "asked.json"
    given = {
        "hosts": ["a", "b", "c"],
        "duration": "90 d",
        "times": {"mttf": "9 d", "mttr": "1 d"},
        "operators": {"x": ["a", "b"], "y": ["c"]},
        "queries": {"q": ["x", "y"], "r": ["x"]},
        **keys,
    }
    path.write_text(json.dumps(given))
    return path


@pytest.mark.parametrize("name", ["fleet.toml", "fleet-queries.toml"])
def test_the_examples_are_answered_in_tables_of_eighty_columns(capsys, name: str) -> None:  # type: ignore[no-untyped-def]
    code, out, err = called(capsys, EXAMPLES / name, *SHORT)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    for says in ("Share of queries that run", "By query, worst first", "Decisions", "acquire", "take-overs"):
        assert says in out


def test_a_static_file_has_the_exact_share_beside_it(capsys, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = called(capsys, asked(tmp_path), "--json")
    found = json.loads(out)
    assert (code, found["method"], found["decisions"]) == (0, "merged", [])
    assert found["running"]["exact"] == pytest.approx(1 - (1 - 0.99 * 0.9 + 0.01) / 2)
    events = json.loads(called(capsys, asked(tmp_path), "--json", "--method", "events")[1])
    assert events == {**found, "method": "events"}


def test_all_rows_are_written_where_out_says(capsys, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path, out = asked(tmp_path), tmp_path / "out"
    assert called(capsys, path, "--out", out, "--tables", "csv")[0] == 0
    assert (out / "outages.csv").read_text().startswith("replication,query,from_ns,to_ns\n0,")
    code, _, err = called(capsys, path, "--out", out)
    assert (code, "is not overwritten" in err) == (2, True)
    assert called(capsys, path, "--out", out, "--force")[0] == 0
    assert (out / "outages.parquet").exists()
    assert not (out / "outages.csv").exists()


def test_a_page_stands_in_the_directory_or_alone(capsys, monkeypatch, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    from analysis.report import page  # noqa: PLC0415

    monkeypatch.setattr(page, "_plotly", lambda: "/* plotly */")
    path, out, alone = asked(tmp_path), tmp_path / "out", tmp_path / "page.html"
    assert called(capsys, path, "--out", out, "--report", alone)[0] == 0
    assert (out / "report.html").read_text() == alone.read_text()
    assert "Availability objectives" in alone.read_text()
    code, _, err = called(capsys, path, "--report", alone)
    assert (code, err.count("\n")) == (2, 1)  # the middle of a long path is left out
    assert err.startswith("error: --report = ")
    assert err.endswith("page.html: exists (--force overwrites it)\n")
    code, _, err = called(capsys, path, "--report", tmp_path / "page.txt")
    assert (code, err.count("\n")) == (2, 1)
    assert err.endswith("page.txt: must end in .html\n")
    assert called(capsys, path, "--out", out, "--report", alone, "--force")[0] == 0


def test_an_slo_that_cannot_be_met_is_exit_code_three(capsys, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    queries = {"q": {"operators": ["x", "y"], "slo": 0.95}}
    code, out, err = called(capsys, asked(tmp_path, queries=queries))
    assert (code, err) == (3, "1 of 1 availability objectives cannot be met at the start\n")
    assert "at best" in out
    code, out, _ = called(capsys, asked(tmp_path, queries=queries), "--json")
    assert code == 3
    unkept = json.loads(out)["unkept"]
    assert [unkept[0][key] for key in ("allowed", "broken", "least_broken")] == pytest.approx([0.05, 0.109, 0.01])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--method", "guess"], "error: --method = guess: must be auto, events or merged\n"),
        (["--tables", "xls"], "error: --tables = xls: must be parquet or csv\n"),
        (["--replications", "0"], "error: --replications = 0: must be between 1 and 100000\n"),
        (["--seed", "-1"], "error: --seed = -1: must be a whole number between 0 and 2^63 - 1 (as in --seed 1)\n"),
    ],
)
def test_bad_options_are_exit_code_two_and_one_line(capsys, tmp_path: Path, arguments: list[str], says: str) -> None:  # type: ignore[no-untyped-def]
    assert called(capsys, asked(tmp_path), *arguments) == (2, "", says)


def test_merged_is_refused_for_what_needs_events(capsys) -> None:  # type: ignore[no-untyped-def]
    code, out, err = called(capsys, EXAMPLES / "fleet.toml", "--method", "merged")
    assert (code, out) == (2, "")
    assert err == "error: --method = merged: is for systems without a manager, in which no query comes or goes\n"
