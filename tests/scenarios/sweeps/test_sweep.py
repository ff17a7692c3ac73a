"""Sweeps: the same digest here and on Spark, for any number of workers; runs that fail are rows."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from other_processes import PATIENCE_S, until
from runs_inside import inside

from analysis.runs.metrics import metrics_of
from analysis.runs.summary import summarise
from models.errors import InputError, WorkerLost
from scenarios.files.scenario import LoadedScenario, read_scenario, resolve, scenario_text
from scenarios.runs.inputs import inputs_of
from scenarios.runs.sandbox import Answer
from scenarios.sweeps.plan import SweepPlan, make_plan
from scenarios.sweeps.run import Chunks, Runs
from scenarios.sweeps.store import OF_THE_ATTEMPT, SweepStore
from scenarios.sweeps.sweep import SweepResult, read_sweep, sweep
from sim.engine import simulate


@pytest.fixture
def runs_inside() -> Iterator[None]:
    with inside():
        yield


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


def test_two_workers_give_the_same_digest_and_store_the_same_bytes_but_for_the_columns_of_the_attempt(
    one_worker: SweepResult, tmp_path: Path
) -> None:
    shares: list[float] = []
    planned: list[float] = []
    result = sweep(tiny(), tmp_path / "two", workers=2, on_plan=planned.append, on_progress=shares.append)
    assert planned == [(k + 1) / len(result.plan.points) for k in range(len(result.plan.points))]
    assert result.digest == one_worker.digest
    assert all(0 <= share <= 1 for share in shares)
    assert shares == sorted(shares)
    two = result.directory
    one, names = one_worker.directory, sorted(path.name for path in (one_worker.directory / "runs").iterdir())
    assert sorted(path.name for path in (two / "runs").iterdir()) == names
    assert (two / "plan.json").read_bytes() == (one / "plan.json").read_bytes()
    for name in names:
        first, second = (pq.read_table(out / "runs" / name) for out in (one, two))
        assert set(OF_THE_ATTEMPT) < set(first.column_names)
        assert first.schema.equals(second.schema, check_metadata=True)
        stored = [bytes_of(table.drop_columns([*OF_THE_ATTEMPT])) for table in (first, second)]
        assert stored[0] == stored[1]


def bytes_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.spark
def test_spark_gives_the_same_digest(tmp_path: Path, spark: Any) -> None:
    with inside():  # not `one_worker`: tests with Spark are in a process of their own, which would make it again
        expected = sweep(tiny(), tmp_path / "one")
    result = sweep(tiny(), tmp_path / "spark", on="spark", workers=2)
    assert result.digest == expected.digest


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
    until(lambda: len([*(out / "runs").glob("*.parquet")]) >= 3 or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = {path.name: path.read_bytes() for path in (out / "runs").iterdir()}
    assert 3 <= len(done) < len(one_worker.plan.chunks) or process.returncode == 0  # it was quicker than this process
    with inside():
        result = sweep(LoadedScenario(tiny().scenario, tmp_path), out)
    assert result.digest == one_worker.digest
    assert {name: (out / "runs" / name).read_bytes() for name in done} == done


@pytest.mark.usefixtures("runs_inside")
def test_a_damaged_chunk_is_made_again(one_worker: SweepResult, tmp_path: Path) -> None:
    out = shutil.copytree(one_worker.directory, tmp_path / "damaged")
    chunk = out / "runs" / "chunk-00000002.parquet"
    chunk.write_bytes(chunk.read_bytes()[:-20])
    assert sweep(tiny(), out).digest == one_worker.digest


@pytest.mark.usefixtures("runs_inside")
def test_a_design_that_cannot_be_is_a_row_with_its_stage_and_reason(tmp_path: Path) -> None:
    settings = ["duration=40 s", "replications=1"]
    values = 'sweep={ warmup = ["1 s", "25 s"], duration = ["30 s", "24 s"], "limits.steps" = [1000000, 9] }'
    result = sweep(tiny(*settings, "limits.memory=1 B", values), tmp_path / "two")
    assert re.search(r"the limit\); limits\.(steps|memory) = ", result.rows[1].message)
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
    result = sweep(loaded, tmp_path / "out", time_limit_s=0.2)
    assert [(row.status, row.message) for row in result.rows] == [("timeout", "more than 200 ms of CPU time")]
    assert sweep(loaded, tmp_path / "out", time_limit_s=0.4).rows == result.rows
    again = sweep(loaded, tmp_path / "out", time_limit_s=0.4, retry=True)
    assert [row.message for row in again.rows] == ["more than 400 ms of CPU time"]
    assert len(list((tmp_path / "out" / "replaced").iterdir())) == 1


def test_a_process_that_is_killed_is_a_row(tmp_path: Path) -> None:
    program = """
from scenarios.files.scenario import read_scenario
from scenarios.sweeps.sweep import sweep
loaded = read_scenario("slow.toml")
sweep(loaded, "out")
"""
    loaded = tiny("duration=100000 s", "replications=1", "sweep={ seed = [1] }", "limits.memory=100 GB")
    (tmp_path / "slow.toml").write_text(scenario_text(loaded.scenario))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    process = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, env=environment)
    child = _child_of(process.pid)
    os.kill(child, signal.SIGKILL)
    assert process.wait(PATIENCE_S) == 0
    (row,) = read_sweep(tmp_path / "out").rows
    assert (row.status, row.message) == ("crashed", "the process ended by signal SIGKILL")


def with_rates(folder: Path, rate: int = 200) -> LoadedScenario:
    """The tiny sweep with a recorded rate."""
    folder.mkdir(exist_ok=True)
    (folder / "rates.csv").write_text(f"time,value\n0,{10 * rate}\n10,{10 * rate}\n20,{10 * rate}\n")
    text = Path(resolve("tiny-sweep")).read_text().replace('"200 /s"', '{ series = "rates.csv", step = "10 s" }')
    (folder / "one.toml").write_text(text)
    settings = ["duration=30 s", "replications=1", 'sweep={ "fault_tolerance.interval" = ["1 s", "2 s"] }']
    return read_scenario(folder / "one.toml", settings)


@pytest.mark.usefixtures("runs_inside")
def test_files_are_read_where_the_scenario_is_now(tmp_path: Path) -> None:
    first = sweep(with_rates(tmp_path / "one"), tmp_path / "out")
    assert first.failed == ()
    shutil.rmtree(tmp_path / "one")
    (tmp_path / "out").rename(tmp_path / "moved")
    next((tmp_path / "moved" / "runs").iterdir()).unlink()
    again = sweep(with_rates(tmp_path / "two"), tmp_path / "moved")
    assert again.failed == ()
    assert again.digest == first.digest


@pytest.mark.usefixtures("runs_inside")
def test_a_file_that_changes_under_a_sweep_fails_its_runs_which_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = with_rates(tmp_path / "one")
    before = (tmp_path / "one" / "rates.csv").read_bytes()

    def plan(loaded: LoadedScenario, on_progress: object) -> SweepPlan:
        made = make_plan(loaded)
        (tmp_path / "one" / "rates.csv").write_text("time,value\n0,1\n")
        return made

    monkeypatch.setattr("scenarios.sweeps.sweep.make_plan", plan)
    result = sweep(loaded, tmp_path / "out")
    assert {(row.status, row.stage) for row in result.rows} == {("failed", "inputs")}
    assert "rates.csv" in result.rows[0].message
    monkeypatch.undo()
    (tmp_path / "one" / "rates.csv").write_bytes(before)
    assert len(sweep(loaded, tmp_path / "out").failed) == 2
    assert sweep(loaded, tmp_path / "out", retry=True).failed == ()


def test_an_error_that_nobody_expected_is_a_failed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = tiny("replications=1", "sweep={ seed = [1] }")
    plan = SweepStore(tmp_path / "out").begin(make_plan(loaded))
    heard: list[Answer] = []
    runs = Runs(tmp_path / "out", loaded.folder)

    def broken(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("scenarios.sweeps.run.inputs_of", broken)
    runs.prepare(0, heard.append)
    answer = runs.run(0, 0, heard.append)
    assert plan.runs == 1
    assert (answer["status"], answer["stage"]) == ("failed", "inputs")
    assert "Too many open files" in answer["message"]
    assert [one["stage"] for one in heard] == ["scenario", "inputs"] * 2


def test_code_is_compiled_by_a_shorter_run_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = tiny("replications=1", "duration=3000 s", "sweep={ seed = [1] }")
    SweepStore(tmp_path / "out").begin(make_plan(loaded))
    made: list[tuple[float, str]] = []
    runs = Runs(tmp_path / "out", loaded.folder)

    def recorded(scenario: Any, *arguments: Any, **options: Any) -> Any:
        made.append((scenario.duration_s, runs._stage))
        return simulate(scenario, *arguments, **options)

    monkeypatch.setattr("scenarios.sweeps.run.simulate", recorded)
    runs.prepare(0, lambda _: None)
    ((short_s, stage),) = made
    assert 0 < short_s < loaded.scenario.duration_s
    assert stage == "compilation"
    assert runs.run(0, 0, lambda _: None)["status"] == "ok"
    assert made[1:] == [(loaded.scenario.duration_s, "simulation")]


def test_processes_that_need_the_same_code_do_not_compile_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads in place of processes: each opens the file, and with it has a lock of its own."""
    loaded = tiny("replications=1", "sweep={ seed = [1] }")
    SweepStore(tmp_path / "out").begin(make_plan(loaded))
    both = threading.Barrier(2)
    together: list[bool] = []

    def compiles(*_: Any, **options: Any) -> None:
        try:
            both.wait(0.5)
            together.append(True)
        except threading.BrokenBarrierError:
            together.append(False)

    monkeypatch.setattr("scenarios.sweeps.run.simulate", compiles)
    runs = [Runs(tmp_path / "out", loaded.folder) for _ in range(2)]
    threads = [threading.Thread(target=one.prepare, args=(0, lambda _: None)) for one in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == [False, False]


def test_a_chunk_that_is_there_is_not_made_again(one_worker: SweepResult) -> None:
    chunks = Chunks(one_worker.directory, Path(), one_worker.plan, None)
    heard: list[Answer] = []
    assert chunks.run(0, heard.append) is False
    assert heard == []
    assert chunks._sandbox._process is None


@pytest.mark.parametrize("limit_s", [0.0, -1.0, float("nan"), float("inf"), 1e30])
def test_a_limit_that_is_none_is_bad_input(tmp_path: Path, limit_s: float) -> None:
    with pytest.raises(InputError, match=r"--time-limit.*must be between"):
        sweep(tiny(), tmp_path / "out", time_limit_s=limit_s)
    assert not (tmp_path / "out").exists()


def test_a_link_to_itself_and_a_name_that_is_too_long_are_bad_input(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for out in (tmp_path / "loop", tmp_path / ("x" * 300)):
        with pytest.raises(InputError, match="is no directory that can be made"):
            sweep(tiny(), out)


@pytest.mark.usefixtures("runs_inside")
def test_names_of_directories_need_not_be_text(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff"))
    result = sweep(with_rates(odd), odd / "out")
    assert result.failed == ()
    assert len(result.rows) == 2


def test_a_machine_that_cannot_go_on_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("scenarios.runs.sandbox.subprocess.Popen", refused)
    with pytest.raises(WorkerLost, match=r"out: too many open files; .* give the same command again"):
        sweep(tiny(), tmp_path / "out")


def test_what_is_stored_is_seen_before_anything_is_made(one_worker: SweepResult) -> None:
    seen: list[SweepResult] = []
    sweep(tiny(), one_worker.directory, check=seen.append)
    assert [len(result.rows) for result in seen] == [18]


def _child_of(process: int) -> int:
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rsplit(")", 1)[1].split()
                command = (path.parent / "cmdline").read_bytes()
            except OSError:
                continue
            if int(fields[1]) == process and b"scenarios.sweeps.run" in command:
                return int(path.parent.name)
        time.sleep(0.02)
    raise AssertionError("no process beside")


def test_common_random_numbers_make_differences_sharper(one_worker: SweepResult) -> None:
    from scenarios.sweeps.summary import differences  # noqa: PLC0415

    (found,) = differences(one_worker, 4, ["latency_s.mean"])
    assert found.paired
    assert found.narrower is not None and found.narrower > 1


def test_of_an_error_in_a_worker_of_spark_the_reason_is_said() -> None:
    from scenarios.sweeps.spark import _first_line  # noqa: PLC0415

    text = """
An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 3, in process
    go()
TypeError: no such thing

at org.apache.spark.Executor.run(Executor.scala:1)
"""
    assert _first_line(RuntimeError(text)) == "TypeError: no such thing"


def test_a_spark_that_does_not_start_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def broken(*_: object, **__: object) -> Iterator[None]:
        raise RuntimeError("An error occurred while calling X.\n: java.net.ConnectException: refused\n\tat a.b(C.java)")
        yield

    monkeypatch.setattr("scenarios.sweeps.spark.spark_session", broken)
    with pytest.raises(WorkerLost) as lost:
        sweep(tiny(), tmp_path / "out", on="spark")
    assert str(lost.value) == "Spark did not start (java.net.ConnectException: refused)"
