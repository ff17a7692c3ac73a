"""`run --engine`: the same document from either engine, what is announced, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_light_imports import command, loaded_by

from holdfast import cli
from holdfast.commands import run

SHORT = ("--set", "duration=20 s", "--set", "replications=1")


def left(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `holdfast run`."""
    with pytest.raises(SystemExit) as raised:
        cli.main(("run", *arguments))
    out, err = capsys.readouterr()
    assert isinstance(raised.value.code, int)
    return raised.value.code, out, err


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, _ = left(capsys, *arguments, "--json")
    assert code == 0
    return dict(json.loads(out))


@pytest.mark.parametrize("name", ["mm1", "backpressure", "windowed-join"])
def test_both_engines_print_the_same_document_but_for_the_name_of_the_kernel(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    plain, auto = document(capsys, name, *SHORT, "--engine", "plain"), document(capsys, name, *SHORT)
    assert document(capsys, name, *SHORT, "--engine", "auto") == auto
    assert plain.pop("kernel") == {"name": "plain", "why": "it was asked for"}
    assert auto.pop("kernel")["name"] in ("scan", "event loop")
    assert plain == auto


def test_numba_is_not_loaded_for_the_plain_engine(tmp_path: Path) -> None:
    loaded = loaded_by(
        command("run", "mm1", *SHORT, "--set", "duration=5 s", "--set", "warmup=1 s", "--engine", "plain"), tmp_path
    )
    assert "simpy" in loaded
    assert loaded.isdisjoint({"numba", "llvmlite"})


def test_a_long_run_is_announced_with_its_time_on_either_engine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("mm1", "--set", "duration=5 s", "--set", "warmup=1 s", "--set", "replications=1")
    assert "on the plain engine" not in left(capsys, *arguments, "--engine", "plain")[2]
    monkeypatch.setattr(run, "_ANNOUNCED_S", 0.1)
    assert (
        "note: about 260 ms on the plain engine; the compiled one takes about 2"
        in left(capsys, *arguments, "--engine", "plain")[2]
    )
    assert "on the plain engine" not in left(capsys, *arguments)[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--engine", "plian"), "error: --engine = plian: must be one of auto, compiled, plain (did you mean plain?)"),
        (("--engine", ""), "error: --engine = : must be one of auto, compiled, plain"),
        (("--engine", "plain", "--set", "recording.detail=histograms"), "error: recording.detail = histograms: the pl"),
        (("--engine", "plain", "--set", "duration=1000 h"), "error: recording.detail = auto: the plain engine keeps a"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name_and_nothing_else_is_said(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = left(capsys, "mm1", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(said)
    assert "note:" not in err


def test_the_page_gives_the_command_with_its_engine(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ("mm1", *SHORT, "--engine", "plain", "--out", str(tmp_path / "out"))
    assert left(capsys, *arguments)[0] == 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "--engine plain" in page
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["kernel"]["name"] == "plain"
