"""Sweeps: the same digest for any engine, number of workers and interruptions; runs that fail are rows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from analysis.metrics import metrics_of
from analysis.summary import summarise
from scenarios.files import LoadedScenario, read_scenario, scenario_text
from scenarios.library import resolve
from scenarios.runs import inputs_of
from scenarios.sweep import SweepResult, read_sweep, sweep
from sim.engine import simulate


def tiny(*settings: str) -> LoadedScenario:
    return read_scenario(resolve("tiny-sweep"), ["duration=30 s", *settings])


@pytest.fixture(scope="module")
def one_worker(tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    return sweep(tiny(), tmp_path_factory.mktemp("sweep") / "one")


def test_a_sweep_holds_what_single_runs_give(one_worker: SweepResult) -> None:
    assert one_worker.failed == ()
    assert [(row.point, row.replication) for row in one_worker.rows] == [
        (point, replication) for point in range(6) for replication in range(3)
    ]
    for number, replication in ((0, 0), (5, 2)):
        scenario = one_worker.plan.points[number].of(one_worker.plan.scenario)
        records = simulate(scenario, inputs_of(scenario, Path()), replication)
        plain = {name: value for name, value in metrics_of(summarise(scenario, [records])).items() if value is not None}
        assert one_worker.replications(number)[replication] == plain


def test_two_workers_give_the_same_digest(one_worker: SweepResult, tmp_path: Path) -> None:
    shares: list[float] = []
    result = sweep(tiny(), tmp_path / "two", workers=2, on_progress=shares.append)
    assert result.digest == one_worker.digest
    assert all(0 <= share <= 1 for share in shares)
    assert shares == sorted(shares)


@pytest.mark.spark
def test_spark_gives_the_same_digest(one_worker: SweepResult, tmp_path: Path, spark: Any) -> None:
    result = sweep(tiny(), tmp_path / "spark", engine="spark", workers=2)
    assert result.digest == one_worker.digest


def test_what_is_done_is_not_done_again(one_worker: SweepResult) -> None:
    files = {path: path.stat().st_ino for path in (one_worker.directory / "runs").iterdir()}
    again = sweep(tiny(), one_worker.directory)
    assert again.rows == one_worker.rows
    assert {path: path.stat().st_ino for path in (one_worker.directory / "runs").iterdir()} == files


def test_a_sweep_that_was_killed_goes_on_where_it_was(one_worker: SweepResult, tmp_path: Path) -> None:
    file, out = tmp_path / "tiny.toml", tmp_path / "killed"
    file.write_text(scenario_text(tiny().scenario))
    command = [sys.executable, "-m", "holdfast", "sweep", str(file), "--out", str(out), "--workers", "2"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while len(list((out / "runs").glob("*.parquet")) if out.exists() else []) < 3:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < until
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = {path.name: path.read_bytes() for path in (out / "runs").iterdir()}
    assert 3 <= len(done) < len(one_worker.plan.chunks)
    result = sweep(LoadedScenario(tiny().scenario, tmp_path), out)
    assert result.digest == one_worker.digest
    assert {name: (out / "runs" / name).read_bytes() for name in done} == done


def test_a_damaged_chunk_is_made_again(one_worker: SweepResult, tmp_path: Path) -> None:
    out = tmp_path / "damaged"
    sweep(tiny(), out)
    chunk = out / "runs" / "chunk-00000002.parquet"
    chunk.write_bytes(chunk.read_bytes()[:-20])
    assert sweep(tiny(), out).digest == one_worker.digest


def test_a_design_that_cannot_be_is_a_row_with_its_stage_and_reason(tmp_path: Path) -> None:
    settings = ["duration=40 s", "replications=1"]
    values = 'sweep={ warmup = ["1 s", "25 s"], duration = ["30 s", "24 s"], "limits.steps" = [1000000, 9] }'
    result = sweep(tiny(*settings, values), tmp_path / "out")
    assert [(row.point, row.status, row.stage) for row in result.rows] == [
        (0, "ok", "done"),
        (1, "error", "inputs"),
        (2, "ok", "done"),
        (3, "error", "inputs"),
        (4, "ok", "done"),
        (5, "error", "inputs"),
        (6, "error", "scenario"),
        (7, "error", "scenario"),
    ]
    assert result.rows[6].message.startswith("warmup = 25 s: must be shorter than the duration of 24 s")
    assert "limits.steps = 9: the run needs about" in result.rows[1].message


def test_a_run_that_takes_too_long_is_a_row_and_can_be_tried_again(tmp_path: Path) -> None:
    loaded = tiny("duration=200000 s", "replications=1", "sweep={ seed = [1] }", "limits.memory=1 TB")
    result = sweep(loaded, tmp_path / "out", time_limit_s=1.0)
    assert [(row.status, row.message) for row in result.rows] == [("timeout", "more than 1 s of CPU time")]
    assert sweep(loaded, tmp_path / "out", time_limit_s=2.0).rows == result.rows
    again = sweep(loaded, tmp_path / "out", time_limit_s=2.0, retry=True)
    assert [row.message for row in again.rows] == ["more than 2 s of CPU time"]
    assert len(list((tmp_path / "out" / "replaced").iterdir())) == 1


def test_a_process_that_is_killed_is_a_row(tmp_path: Path) -> None:
    program = """
from scenarios.files import read_scenario
from scenarios.sweep import sweep
loaded = read_scenario("slow.toml")
sweep(loaded, "out")
"""
    loaded = tiny("duration=100000 s", "replications=1", "sweep={ seed = [1] }", "limits.memory=100 GB")
    (tmp_path / "slow.toml").write_text(scenario_text(loaded.scenario))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    process = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, env=environment)
    child = _child_of(process.pid)
    os.kill(child, signal.SIGKILL)
    assert process.wait(60) == 0
    (row,) = read_sweep(tmp_path / "out").rows
    assert (row.status, row.message) == ("crashed", "the process ended by signal SIGKILL")


def _child_of(process: int) -> int:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rsplit(")", 1)[1].split()
                command = (path.parent / "cmdline").read_bytes()
            except OSError:
                continue
            if int(fields[1]) == process and b"scenarios.sweep_run" in command:
                return int(path.parent.name)
        time.sleep(0.02)
    raise AssertionError("no process beside")


def test_common_random_numbers_make_differences_sharper(one_worker: SweepResult) -> None:
    from scenarios.sweep_summary import differences  # noqa: PLC0415

    (found,) = differences(one_worker, 4, ["latency_s.mean"])
    assert found.paired
    assert found.narrower is not None and found.narrower > 1
