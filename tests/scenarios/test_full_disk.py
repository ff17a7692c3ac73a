"""Files on a disk that is full: nothing is left behind, what was there stays, and one error says so."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from holdfast.cli import main
from models.checkpoint_allocation import CheckpointAllocation
from models.errors import InputError
from scenarios import report_sweep
from scenarios.planning_files import write_problem
from scenarios.write_once import write_once, write_text, written_whole

LONG = "x" * 100_000


@contextmanager
def full_disk(most_bytes: int = 5_000) -> Iterator[None]:
    """No file may be larger than some bytes: writing more fails part-way, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def test_a_text_that_does_not_fit_leaves_the_old_file_and_no_other(tmp_path):
    write_text(tmp_path / "a.json", "old")
    with full_disk(), pytest.raises(InputError, match="cannot be written: File too large") as raised:
        write_text(tmp_path / "a.json", LONG, force=True)
    assert len(raised.value.faults) == 1
    assert str(tmp_path / "a.json") in str(raised.value)
    assert contents(tmp_path) == {"a.json": "old"}


def test_an_archive_that_does_not_fit_leaves_nothing(tmp_path):
    draw = np.random.default_rng(0)
    problem = CheckpointAllocation(draw.random((50, 50)), np.ones(50))
    with full_disk(), pytest.raises(InputError, match="cannot be written"):
        write_problem(problem, tmp_path / "problem.npz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ValueError])
def test_whatever_interrupts_writing_nothing_is_left_behind(tmp_path, error):
    with pytest.raises(error), written_whole(tmp_path / "a.json", tmp_path) as written:
        written.write_text("half")
        raise error
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_written_once_leaves_no_half_of_it(tmp_path):
    with full_disk(), pytest.raises(OSError, match="File too large"):
        write_once(tmp_path / "a", LONG.encode(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_page_of_a_sweep_leaves_the_old_one(tmp_path, monkeypatch):
    monkeypatch.setattr(report_sweep, "sweep_content", lambda *_, **__: None)
    monkeypatch.setattr(report_sweep, "render_report", lambda _: LONG)
    (tmp_path / report_sweep.REPORT).write_text("old")
    with full_disk(), pytest.raises(InputError, match="cannot be written"):
        report_sweep.write_page(SimpleNamespace(directory=tmp_path), command="sweep")
    assert contents(tmp_path) == {report_sweep.REPORT: "old"}


def test_a_plan_that_does_not_fit_exits_two_with_one_line(tmp_path, capsys):
    problem, out = tmp_path / "problem.json", tmp_path / "plan.json"
    problem.write_text(json.dumps({"moves": [[k, k + 1] for k in range(2000)]}))
    out.write_text("old")
    words = ["plan", "steps", str(problem), "--out", str(out), "--force"]
    with full_disk(), pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert f"{out.name}: cannot be written" in said[0]  # of a long path both ends
    assert sorted(contents(tmp_path)) == ["plan.json", "problem.json"]
    assert out.read_text() == "old"
