"""Files on a disk that is full: nothing is left behind, what was there stays, and one error says so."""

from __future__ import annotations

import errno
import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from holdfast.cli import main
from models.planning.checkpoint_allocation import CheckpointAllocation
from scenarios.files.write_once import write_once, write_text, written_whole
from scenarios.pages import sweep
from scenarios.planning.files import write_problem
from scenarios.studies.reproduce import claims
from scenarios.studies.reproduce.tasks import TaskRunner, check_directory

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
    with full_disk(), pytest.raises(OSError, match="File too large") as raised:
        write_text(tmp_path / "a.json", LONG, force=True)
    assert raised.value.filename == str(tmp_path / "a.json")
    assert contents(tmp_path) == {"a.json": "old"}


def test_an_archive_that_does_not_fit_leaves_nothing(tmp_path):
    draw = np.random.default_rng(0)
    problem = CheckpointAllocation(draw.random((50, 50)), np.ones(50))
    with full_disk(), pytest.raises(OSError, match="File too large"):
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
    monkeypatch.setattr(sweep, "sweep_page", lambda *_, **__: None)
    monkeypatch.setattr(sweep, "render_page", lambda _: LONG)
    (tmp_path / sweep.REPORT).write_text("old")
    with full_disk(), pytest.raises(OSError, match="File too large"):
        sweep.write_page(SimpleNamespace(directory=tmp_path), command="sweep")
    assert contents(tmp_path) == {sweep.REPORT: "old"}


def test_a_plan_that_does_not_fit_is_a_fault_of_the_machine(tmp_path, capsys):
    problem, out = tmp_path / "problem.json", tmp_path / "plan.json"
    problem.write_text(json.dumps({"moves": [[k, k + 1] for k in range(2000)]}))
    out.write_text("old")
    words = ["plan", "steps", str(problem), "--out", str(out), "--force"]
    with full_disk(), pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 1
    said = capsys.readouterr().err.strip().splitlines()
    assert said == [f"error: {out}: file too large"]
    assert sorted(contents(tmp_path)) == ["plan.json", "problem.json"]
    assert out.read_text() == "old"


OUTPUTS = {
    "plan": ["plan", "steps", "problem.json", "--out", "old.json"],
    "page of availability": ["availability", "hosts.toml", "--report", "old.html"],
    "page of fleets": ["fleet", "hosts.toml", "--report", "old.html"],
    "directory of fleets": ["fleet", "hosts.toml", "--out", "old"],
    "directory of a run": ["run", "mm1", "--set", "duration=20 s", "--set", "replications=1", "--out", "old"],
    "directory of a sweep": ["sweep", "tiny-sweep", "--out", "old"],
    "page of a reproduction": ["reproduce", "live-migration", "--quick", "--report", "old.html"],
}
HOSTS = """hosts = ["a", "b"]
times = {mttf = "1 h", mttr = "1 h"}
operators.o = ["a", "b"]
queries.q = ["o"]
"""


class FullDisk:
    """A disk on which a file can be opened, and not be written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "fsync", self.full)
        monkeypatch.setattr(Path, "write_text", self.full)
        monkeypatch.setattr(Path, "write_bytes", self.full)

    def full(self, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("name", "old"),
    [(name, old) for name, words in OUTPUTS.items() for old in (False, True) if not old or Path(words[-1]).suffix],
)
def test_a_full_disk_is_exit_code_one_and_one_sentence(tmp_path, capsys, monkeypatch, name, old):
    monkeypatch.chdir(tmp_path)
    words, place = OUTPUTS[name], Path(OUTPUTS[name][-1])
    (tmp_path / "problem.json").write_text(json.dumps({"moves": [[0, 1]]}))
    (tmp_path / "hosts.toml").write_text(HOSTS + ('duration = "1 h"\n' * name.endswith("fleet")))
    if old:
        place.write_text("old")
        words = [*words, "--force"]
    before = contents(tmp_path)
    FullDisk(monkeypatch)
    monkeypatch.delitem(claims._STUDIES, "live-migration")  # its page is written all the same, without a minute of runs
    with pytest.raises(SystemExit) as left:
        main(words)
    monkeypatch.undo()
    said = capsys.readouterr().err.split("\r")[-1].strip().splitlines()
    assert left.value.code == 1
    assert place.name in said[-1]
    assert "no space left on device" in said[-1]
    assert sum("error:" in line for line in said) == 1
    assert contents(tmp_path) == before
    assert not any(path.name.startswith(".") for path in tmp_path.rglob("*"))


@dataclass(frozen=True)
class Piece:
    """Needs nothing."""

    label: str = "piece"
    cost_s: float = 1.0

    def run(self) -> int:
        """Return anything."""
        return 1


def test_a_piece_of_a_study_that_cannot_be_kept_leaves_no_file(tmp_path):
    check_directory(tmp_path)
    with full_disk(10), pytest.raises(OSError, match="File too large") as raised:
        TaskRunner(tmp_path).make("study", [Piece()])
    assert raised.value.filename == str(tmp_path.resolve())
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == []
