"""The first run on a machine: the plain engine stands in where it is sooner done than the compiler."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from holdfast.commands.run import _say_first_run
from models.errors import InputError
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_with
from models.scenario.scenario import Scenario
from scenarios.files.scenario import path_of, read_scenario
from scenarios.runs import first_run
from scenarios.runs.run import run

SHORT = ("events.crash.at=8 s", "duration=20 s", "replications=1")


@pytest.fixture(autouse=True)
def _by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without the environment variable that other tests set."""
    monkeypatch.delenv(first_run.WAIT, raising=False)


@pytest.fixture
def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs find no compiled code; the names of those for which it would be compiled beside."""
    begun: list[str] = []

    def compile_beside(scenario: Scenario, inputs: RunInputs) -> first_run.Beside:
        begun.append(scenario.name)
        return "begun"

    monkeypatch.setattr(first_run, "is_compiled", lambda scenario, inputs: False)
    monkeypatch.setattr(first_run, "compile_beside", compile_beside)
    return begun


def test_a_first_run_that_is_short_gives_the_same(nothing_is_compiled: list[str]) -> None:
    scenario, told = read_scenario(path_of("crash-recovery"), SHORT).scenario, []
    first = run(scenario, on_first_run=told.append)
    assert (nothing_is_compiled, told) == ([scenario.name], ["begun"])
    again = run(scenario, engine="compiled", on_first_run=told.append)
    assert told == ["begun"]
    assert first.summary == again.summary
    for one, other in zip(first.records, again.records, strict=True):
        assert one.kernel == other.kernel
        for name, columns in other.tables.items():
            for column, values in columns.items():
                assert np.array_equal(one.tables[name][column], values), (name, column)


def test_what_is_compiled_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = read_scenario(path_of("crash-recovery"), SHORT).scenario
    run(scenario, engine="compiled")
    begun: list[str] = []
    monkeypatch.setattr(first_run, "compile_beside", lambda scenario, inputs: begun.append(scenario.name))
    assert not first_run.stands_in(scenario, RunInputs(), "auto")
    run(scenario)
    assert begun == []


@pytest.mark.parametrize(
    ("changes", "engine", "stands_in"),
    [
        (SHORT, "auto", True),
        (SHORT, "compiled", False),
        (SHORT, "plain", False),
        (
            (*SHORT, "duration=100000 s", "limits.time=9 d", "limits.memory=1 TB", "limits.steps=1000000000"),
            "auto",
            False,
        ),
        ((*SHORT, 'recording.detail="histograms"'), "auto", False),
        ((*SHORT, "limits.time=0.1 s"), "auto", False),
        ((*SHORT, "limits.memory=4 MB"), "auto", False),
    ],
)
def test_the_plain_engine_stands_in_only_where_it_is_sooner_done(
    nothing_is_compiled: list[str], changes: tuple[str, ...], engine: Any, stands_in: bool
) -> None:
    scenario = read_scenario(path_of("crash-recovery"), changes).scenario
    assert first_run.stands_in(scenario, RunInputs(), engine) is stands_in


def test_slices_that_the_plain_engine_takes_long_for_wait_for_the_compiler(nothing_is_compiled: list[str]) -> None:
    few = read_scenario(path_of("elastic-word-count"), ("workload.sentences.rate=50 /s",)).scenario
    many = scenario_with(few, {"fault_tolerance.trimming.slice": "1 ms", "operators.count.key_groups": 40})
    assert first_run.stands_in(few, RunInputs(), "auto")
    assert not first_run.stands_in(many, RunInputs(), "auto")


def test_an_environment_variable_has_first_runs_wait(
    nothing_is_compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_FIRST_RUN", "wait")
    assert not first_run.stands_in(read_scenario(path_of("crash-recovery"), SHORT).scenario, RunInputs(), "auto")


def test_an_engine_that_there_is_not_is_refused() -> None:
    with pytest.raises(InputError, match="must be one of auto, compiled, plain"):
        run(read_scenario(path_of("crash-recovery"), SHORT).scenario, engine="fast")  # type: ignore[arg-type]


def test_only_one_process_compiles_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_run, "directory", lambda: tmp_path)
    simulated: list[str] = []
    monkeypatch.setattr(first_run, "simulate", lambda scenario, inputs, engine: simulated.append(engine))
    monkeypatch.setattr(first_run.os, "nice", lambda by: by)
    job = pickle.dumps((read_scenario(path_of("crash-recovery"), SHORT).scenario, RunInputs()))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(job)))
    with first_run.alone() as only:
        assert only
        first_run.main()
    assert simulated == []
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(job)))
    first_run.main()
    assert simulated == ["compiled"]


def test_where_no_code_can_be_kept_none_is_compiled_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_run, "directory", lambda: None)
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **options: pytest.fail("a process was started"))
    scenario = read_scenario(path_of("crash-recovery"), SHORT).scenario
    assert first_run.compile_beside(scenario, RunInputs()) == "no directory"
    with first_run.alone() as only:
        assert not only


def test_where_another_process_compiles_none_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_run, "directory", lambda: tmp_path)
    begun: list[Any] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **options: begun.append(args))
    monkeypatch.setattr(first_run, "_beside", [])
    scenario = read_scenario(path_of("crash-recovery"), SHORT).scenario
    with first_run.alone():
        assert first_run.compile_beside(scenario, RunInputs()) == "busy"
    assert begun == []
    assert first_run.compile_beside(scenario, RunInputs()) == "begun"
    assert len(begun) == 1


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ("begun", "in the background, for"),
        ("busy", "another process compiles"),
        ("no directory", "no directory can be"),
    ],
)
def test_the_note_on_a_first_run_says_what_was_started(
    capsys: pytest.CaptureFixture[str], beside: first_run.Beside, said: str
) -> None:
    _say_first_run(beside)
    written = capsys.readouterr().err
    assert "the plain engine makes it" in written
    assert said in written
    assert ("prepared in the background" in written) is (beside == "begun")


@pytest.mark.slow  # half a minute of the compiler
def test_the_process_beside_makes_what_the_next_run_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(first_run, "directory", lambda: tmp_path)
    first_run.compile_beside(read_scenario(path_of("crash-recovery"), SHORT).scenario, RunInputs())
    assert first_run._beside[-1].wait(600) == 0
    assert [path.name for path in tmp_path.rglob("*.whole")] == ["extended.whole"]
