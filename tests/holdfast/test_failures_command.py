"""`failures`: tables that fit a terminal, one JSON document, the file for other commands, a page, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.cli import main
from models.errors import InputError
from scenarios.reliability.failure_logs import document, read_failures, read_kept, write_failures

LANL = Path(__file__).parents[2] / "examples" / "lanl-system-8.csv.gz"


def called(capsys, *arguments: object) -> tuple[int, str, str]:  # type: ignore[no-untyped-def]
    with pytest.raises(SystemExit) as left:
        main(["failures", *map(str, arguments)])
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text("host,down,up\n" + "".join(f"h{k % 3},{50 * k + k * k},{50 * k + k * k + 5}\n" for k in range(30)))
    return path


def test_a_log_is_answered_in_tables_of_eighty_columns(capsys, log: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = called(capsys, log, "--draws", 0)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "hosts                3, 0 of them without a failure" in out
    assert "mean repair (MTTR)   5 s" in out
    assert "Repair times: best by AIC is exponential" in out  # all of one length: no second parameter


def test_json_says_the_same_and_the_file_is_read_again(capsys, log: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = called(capsys, log, "--draws", 0, "--json", "--out", tmp_path / "kept.json")
    said = json.loads(out)
    assert code == 0
    kept = read_kept(tmp_path / "kept.json")
    assert said["failures"] == kept.log.failures == 29  # the first one begins the window
    assert said["mttf_s"] == kept.mttf_s == pytest.approx(said["up_s"] / 29)
    assert kept.mttr_s == 5
    answer = read_failures([log], draws=0)
    assert (kept.log.down_us == answer.log.down_us).all()
    assert json.loads(json.dumps(document(answer))) == json.loads((tmp_path / "kept.json").read_text())


def test_a_file_is_not_overwritten_unasked(capsys, log: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    write_failures(read_failures([log], draws=0), tmp_path / "kept.json")
    code, out, err = called(capsys, log, "--out", tmp_path / "kept.json")
    assert (code, out) == (2, "")
    assert "--force overwrites it" in err
    assert called(capsys, log, "--draws", 0, "--out", tmp_path / "kept.json", "--force")[0] == 0


def test_the_page_shows_both_laws_and_the_hosts(capsys, monkeypatch, log: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    from analysis.report import page  # noqa: PLC0415

    monkeypatch.setattr(page, "_plotly", lambda: "/* plotly */")
    code, _, _ = called(capsys, LANL, "--zone", "America/Denver", "--draws", 0, "--report", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert code == 0
    for wanted in ("Up times", "Repair times", "lognormal", "8-157", "mean up time (MTTF)"):
        assert wanted in text


@pytest.mark.parametrize(
    "arguments, rule",
    [
        (["nosuch.csv"], "nosuch.csv: cannot be read (no such file or directory)"),
        (["LOG", "--on", "dask"], "--on = dask: must be one of auto, local, spark"),
        (["LOG", "--draws", -1], "--draws = -1: must be between 0 and 10000"),
        (["LOG", "--hosts", 2], "--hosts = 2: must be at least 3"),
        (["LOG", "--end", "1969-01-01"], "--end = 1969-01-01: must be a time in ISO 8601 since 1970"),
        (["LOG", "--cause", "fire"], "no record is left of 30"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(capsys, log: Path, arguments: list[object], rule: str) -> None:  # type: ignore[no-untyped-def]
    code, out, err = called(capsys, *[log if one == "LOG" else one for one in arguments])
    assert (code, out) == (2, "")
    assert rule in err
    assert len(err.splitlines()) == 1


def test_one_record_needs_a_window(capsys, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "one.csv").write_text("host,down,up\na,1,2\n")
    code, out, err = called(capsys, tmp_path / "one.csv")
    assert (code, out) == (2, "")
    assert "no host was up between the first record and the last (give --begin and --end" in err
    window = ("--begin", "1970-01-01", "--end", "1970-01-02", "--draws", 0)
    assert "1 s" in called(capsys, tmp_path / "one.csv", *window)[1]


@pytest.mark.parametrize(
    "text, rule", [("{}", "is no file of holdfast failures"), ('{"format": "holdfast failures 1"}', "broken")]
)
def test_other_files_are_not_taken_for_kept_logs(tmp_path: Path, text: str, rule: str) -> None:
    (tmp_path / "kept.json").write_text(text)
    with pytest.raises(InputError, match=rule):
        read_kept(tmp_path / "kept.json")


@pytest.mark.parametrize("rows", ["a,1,5\n", "a,1,5\na,3,9\n", "a,1,5\nb,1,5\n"])
def test_a_log_without_any_up_time_is_refused(capsys, tmp_path: Path, rows: str) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "short.csv").write_text("host,down,up\n" + rows)
    code, out, err = called(capsys, tmp_path / "short.csv")
    assert (code, out) == (2, "")
    assert "short.csv: no host was up between the first record and the last" in err
    assert called(capsys, tmp_path / "short.csv", "--begin", "1970-01-01", "--end", "1970-01-02")[0] == 0


def test_options_of_the_other_format_are_refused(capsys, log: Path) -> None:  # type: ignore[no-untyped-def]
    assert "--system = 3: is only for the format of LANL" in called(capsys, log, "--system", 3)[2]
    code, out, err = called(capsys, LANL, "--hosts", 200)
    assert (code, out) == (2, "")
    assert "--hosts = 200: is not for the format of LANL" in err
