"""Pieces of a study: made once, by whatever engine, and kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from other_processes import marked, processes, until
from squares import Killed, Square, made, results, squares

from models.errors import InputError, WorkerLost
from scenarios.runs.execute import COMPILING
from scenarios.studies.reproduce import tasks
from scenarios.studies.reproduce.checkpoint_assisted import Year
from scenarios.studies.reproduce.flight_rates import Airline
from scenarios.studies.reproduce.query_workloads import Variant
from scenarios.studies.reproduce.selective_replication import Points
from scenarios.studies.reproduce.tasks import RESULTS, TMP, TaskRunner, check_directory


def runner(folder: Path, **changes: Any) -> TaskRunner:
    check_directory(folder / "out")
    return TaskRunner(folder / "out", **changes)


def test_without_a_directory_nothing_is_kept_and_the_results_are_the_same(tmp_path: Path) -> None:
    assert TaskRunner().make("", squares(tmp_path)) == results()
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_what_is_kept_is_not_made_again(tmp_path: Path) -> None:
    assert runner(tmp_path).make("", squares(tmp_path, 4)) == results(4)
    assert runner(tmp_path, workers=2).make("", squares(tmp_path)) == results()
    assert runner(tmp_path).make("", squares(tmp_path)) == results()
    assert made(tmp_path) == [0, 1, 2, 3, 4, 5]


@pytest.mark.spark
def test_spark_makes_what_is_missing_and_the_same(tmp_path: Path, spark: Any) -> None:
    years = [Year(Airline(16, copies=1), ("even",), seed) for seed in range(3)]
    (first,) = runner(tmp_path).make("", years[:1])
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / RESULTS).iterdir()}
    found = runner(tmp_path, on="spark").make("", years)
    assert found == [first, *TaskRunner().make("", years[1:])]
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    assert len([*(tmp_path / "out" / RESULTS).iterdir()]) == 3


@pytest.mark.parametrize("damage", [b"", b"[]", b"{}", b'{"task": "another", "result": 1}', b"\xff"])
def test_what_is_damaged_is_made_again(tmp_path: Path, damage: bytes) -> None:
    runner(tmp_path).make("", squares(tmp_path))
    (path,) = (tmp_path / "out" / RESULTS).glob("square-3-*.json")
    path.write_bytes(damage)
    assert runner(tmp_path).make("", squares(tmp_path)) == results()
    assert made(tmp_path) == [0, 1, 2, 3, 3, 4, 5]
    assert json.loads(path.read_bytes())["result"] == results()[3]


def test_another_piece_is_another_file(tmp_path: Path) -> None:
    runner(tmp_path).make("", [Square(1, str(tmp_path / "log"))])
    runner(tmp_path).make("", [Square(1, str(tmp_path / "log"), str(tmp_path))])
    assert made(tmp_path) == [1, 1]
    assert len([*(tmp_path / "out" / RESULTS).iterdir()]) == 2


def test_who_waits_hears_how_long_and_how_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    told: dict[tuple[str, float | None], None] = {}
    lefts: list[float] = []

    def prepare(report: Any) -> None:
        report(0.5)

    def on_progress(text: str, share: float | None, left_s: float | None = None, now: str = "") -> None:
        told[text, share] = None
        lefts.extend([] if left_s is None else [left_s])

    monkeypatch.setattr(tasks, "machine_pace", lambda: 3.0)
    runner(tmp_path).make("", squares(tmp_path, 2))
    ready = runner(tmp_path, workers=2, say=said.append, on_progress=on_progress)
    ready.make("squares", squares(tmp_path), prepare)
    ready.make("squares", squares(tmp_path), prepare)
    # Two pieces of 1 s on each core, three times as long here, after the start of two processes.
    assert said == ["4 of 6 pieces to make, 2 are there: about 8 s on 2 cores"]
    shares = [share for text, share in told if text == "squares"]
    assert next(iter(told)) == (COMPILING, 0.5)
    assert shares == [share for share in (0.0, 0.25, 0.5, 0.75, 1.0) if share or 0.0 in shares]
    assert lefts[-1] == 0.0


def test_the_longest_are_made_first_and_results_stay_in_order(tmp_path: Path) -> None:
    pieces = [Square(number, str(tmp_path / "log"), cost_s=cost) for number, cost in enumerate((1.0, 3.0, 2.0, 3.0))]
    assert TaskRunner().make("", pieces) == results(4)
    assert (tmp_path / "log").read_text().split() == ["1", "3", "2", "0"]


def test_a_piece_that_takes_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_LONG_S", 0.0)
    told: list[str] = []
    one = runner(tmp_path, on_progress=lambda text, share, left_s=None, now="": told.append(now))
    one.make("", squares(tmp_path, 2))
    assert told == ["square-0 for 0 s", "square-1 for 0 s", "square-1 for 0 s", ""]


def test_a_piece_of_another_cut_is_not_taken(tmp_path: Path) -> None:
    """Whatever its file is called: it says what it is about."""
    whole, part = (Points(Variant(), 3, asked) for asked in ((("product", 0), ("product", 50)), (("product", 0),)))
    ready = runner(tmp_path)
    ready.make("", [whole])
    kept = {path.name: path.read_bytes() for path in (tmp_path / "out" / RESULTS).iterdir()}
    (found,) = ready.make("", [part])
    assert [(policy, spare) for policy, spare, _ in found["points"]] == [("product", 0)]
    now = {path.name: path.read_bytes() for path in (tmp_path / "out" / RESULTS).iterdir()}
    assert len(now) == 2
    assert kept.items() <= now.items()


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    (tmp_path / "file").write_text("")
    for name in ("mine", "file"):
        with pytest.raises(InputError, match="must be a"):
            check_directory(tmp_path / name)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]
    check_directory(tmp_path / "new" / "deep")
    check_directory(tmp_path / "new" / "deep")
    assert sorted(path.name for path in (tmp_path / "new" / "deep").iterdir()) == [RESULTS, TMP]


def test_a_disk_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    ready = runner(tmp_path, workers=2)
    (tmp_path / "out" / TMP).rmdir()
    (tmp_path / "out" / TMP).write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        ready.make("", squares(tmp_path))


def test_a_worker_that_was_killed_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(WorkerLost, match="try fewer workers"):
        runner(tmp_path, workers=2).make("", [Killed(number, "") for number in range(2)])


PROGRAM = """
from pathlib import Path
from scenarios.studies.reproduce.tasks import TaskRunner, check_directory
from squares import squares
if __name__ == "__main__":
    check_directory(Path({folder!r}) / "out")
    TaskRunner(Path({folder!r}) / "out", workers=2).make("", squares(Path({folder!r}), 8, {gate!r}, free=3))
"""


def test_a_driver_that_was_killed_takes_its_workers_along_and_the_next_one_goes_on(tmp_path: Path) -> None:
    gate = str(tmp_path / "gate")
    program = PROGRAM.format(folder=str(tmp_path), gate=gate)
    environment = marked(tmp_path) | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    (tmp_path / "program.py").write_text(program)
    driver = subprocess.Popen([sys.executable, str(tmp_path / "program.py")], env=environment)
    done = tmp_path / "out" / RESULTS
    until(lambda: len([*done.glob("*.json")]) == 3)
    assert len(processes(tmp_path)) >= 3
    driver.kill()
    driver.wait()
    until(lambda: not processes(tmp_path))  # nobody goes on alone
    kept = {path.name: path.stat().st_mtime_ns for path in done.glob("*.json")}
    assert len(kept) == 3
    Path(gate).touch()
    assert runner(tmp_path).make("", squares(tmp_path, 8, gate, free=3)) == results(8)
    assert all((done / name).stat().st_mtime_ns == when for name, when in kept.items())
