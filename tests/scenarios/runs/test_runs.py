"""Runs through the front of `scenarios`: inputs from files, replications, workers, refusals."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from profiled import raw_scenario, scenario, small_profile

from models.errors import InputError, WorkerLost
from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from
from scenarios.files.profiles import write_profile
from scenarios.runs import execute
from scenarios.runs.inputs import inputs_of, profiles_of, rates_of, shares_of
from scenarios.runs.run import RunResult, run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_profile(small_profile(), tmp_path / "profile")
    return tmp_path


def same(a: RunRecords, b: RunRecords) -> bool:
    return a.tables.keys() == b.tables.keys() and all(
        np.array_equal(a.tables[table][column], b.tables[table][column])
        for table in a.tables
        for column in a.tables[table]
    )


def test_a_run_follows_its_profile_and_survives_its_crash(folder: Path) -> None:
    result = run(scenario(), folder=folder)
    assert result.summary["guarantee"] == {"lost": 0, "duplicated": 0, "state_lost": 0, "state_duplicated": 0}
    (recovery,) = result.summary["recoveries"]
    assert recovery["host"] == "worker-1"
    assert recovery["failed_s"] == 20.0
    assert recovery["detect_s"] == 4.0  # last heartbeat before 20 s was at 19 s, time-out 5 s


@dataclass(frozen=True)
class Watched:
    """A run, and the shares of it that it told."""

    result: RunResult
    seen: list[float]


@pytest.fixture(scope="module")
def by_workers(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Watched]:
    """The same three replications in this process, and on two others."""
    folder = tmp_path_factory.mktemp("workers")
    write_profile(small_profile(), folder / "profile")
    found = {}
    for workers in (1, 2):
        seen: list[float] = []
        result = run(scenario(replications=3), folder=folder, workers=workers, on_progress=seen.append)
        found[workers] = Watched(result, seen)
    return found


def test_any_number_of_workers_gives_the_same_records(by_workers: dict[int, Watched]) -> None:
    alone, together = (by_workers[workers].result for workers in (1, 2))
    assert alone.summary == together.summary
    assert all(same(a, b) for a, b in zip(alone.records, together.records, strict=True))
    assert not same(alone.records[0], alone.records[1])


def test_progress_rises_to_the_end_with_one_worker_and_with_two(by_workers: dict[int, Watched]) -> None:
    for seen in (one.seen for one in by_workers.values()):
        assert seen == sorted(seen)
        assert 0.9 < seen[-1] <= 1.0


class Deadly(RunInputs):
    """Inputs that kill the process that reads them."""

    def __reduce__(self) -> tuple[Any, ...]:
        return signal.raise_signal, (signal.SIGKILL,)


def test_a_worker_that_is_killed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "prepare", lambda *_: None)
    jobs = [execute.Job(scenario(), Deadly(), replication) for replication in range(3)]
    with pytest.raises(WorkerLost, match=r"^a worker process was killed, .*: try fewer workers"):
        execute.execute(jobs, workers=2)


def test_shares_of_streams_are_the_measured_selectivities(folder: Path) -> None:
    profiles = profiles_of(scenario(), folder)
    assert shares_of(scenario(), profiles) == {"late": small_profile().selectivity["late"]}


def test_a_profile_is_mapped_onto_its_span_and_scaled_to_its_mean(folder: Path) -> None:
    profiles = profiles_of(scenario(), folder)
    series = rates_of(scenario(), folder, profiles)["trips"]
    assert series.edges_s[0] == 0.0
    assert series.edges_s[-1] == 40.0
    assert series.rate_per_s.mean() == pytest.approx(20.0)
    totals = small_profile().counts[0].sum(axis=0)
    assert np.allclose(series.rate_per_s / series.rate_per_s[0], totals / totals[0])


@pytest.mark.parametrize(("begin", "first", "length"), [("15 s", 15, 1.0), ("15.5 s", 15, 0.5), ("39.9 s", 39, 0.1)])
def test_a_run_may_begin_later_in_the_span(folder: Path, begin: str, first: int, length: float) -> None:
    profiles = profiles_of(scenario(), folder)
    whole = rates_of(scenario(), folder, profiles)["trips"]
    raw = raw_scenario()
    raw["workload"]["trips"]["rate"]["begin"] = begin  # type: ignore[index]
    series = rates_of(scenario_from(raw), folder, profiles)["trips"]
    assert series.edges_s[0] == 0.0
    assert np.allclose(np.diff(series.edges_s), [length, *np.ones(39 - first)])
    assert np.array_equal(series.rate_per_s, whole.rate_per_s[first:])
    assert whole.key_weights is not None
    assert np.array_equal(series.key_weights, whole.key_weights[:, first:])


def test_a_recorded_series_gives_tuples_per_step(tmp_path: Path) -> None:
    (tmp_path / "rate.csv").write_text("at,value\n0,30\n1,0\n2,60\n")
    raw = raw_scenario()
    raw["workload"]["samples"]["rate"] = {"series": "rate.csv", "step": "2 s", "scale": 2.0}  # type: ignore[index]
    raw["fault_tolerance"] = {"method": "none"}
    series = rates_of(scenario_from(raw), tmp_path, {"trips": small_profile()})["samples"]
    assert series.rate_per_s.tolist() == [30.0, 0.0, 60.0]
    assert series.edges_s.tolist() == [0.0, 2.0, 4.0, 6.0]


@pytest.mark.parametrize(
    ("content", "path"),
    [
        (None, "workload.samples.rate.series"),
        ("at,number\n0,1\n", "workload.samples.rate.value"),
        ("value\n1\nx\n", "workload.samples.rate.series"),
        ("value\n-1\n", "workload.samples.rate.series"),
        ("value\nnan\n", "workload.samples.rate.series"),
        ("value\n0\n", "workload.samples.rate.series"),
        ("", "workload.samples.rate.value"),
        (b"\xff\xfe\x00", "workload.samples.rate.series"),
    ],
)
def test_a_series_that_cannot_be_used_is_an_input_error(tmp_path: Path, content: str | bytes | None, path: str) -> None:
    if content is not None:
        (tmp_path / "rate.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    raw = raw_scenario()
    raw["workload"]["samples"]["rate"] = {"series": "rate.csv", "step": "2 s"}  # type: ignore[index]
    with pytest.raises(InputError) as caught:
        rates_of(scenario_from(raw), tmp_path, {"trips": small_profile()})
    assert caught.value.faults[0].path == path


def test_a_stream_that_the_profile_lacks_is_an_input_error(folder: Path) -> None:
    raw = raw_scenario()
    raw["operators"]["late"]["takes"] = {"clean": "early"}  # type: ignore[index]
    with pytest.raises(InputError, match=r"operators\.late\.takes\.clean = early"):
        inputs_of(scenario_from(raw), folder)


def test_key_groups_other_than_the_profiles_are_an_input_error(folder: Path) -> None:
    raw = raw_scenario()
    raw["operators"]["late"]["key_groups"] = 6  # type: ignore[index]
    with pytest.raises(InputError, match=r"operators\.late\.key_groups = 6: must be 4"):
        inputs_of(scenario_from(raw), folder)


def test_a_missing_profile_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="profile"):
        run(scenario(), folder=tmp_path)


def test_a_run_above_its_limits_is_refused_before_it_starts(folder: Path) -> None:
    given = scenario(limits={"steps": 100})
    with pytest.raises(InputError, match=r"limits\.steps = 100"):
        run(given, folder=folder, on_progress=lambda _: pytest.fail("the run was started"))


def test_what_is_not_simulated_yet_is_refused_and_named(folder: Path) -> None:
    with pytest.raises(InputError, match="not simulated yet"):
        run(scenario(placement={"plan": "plan.json"}), folder=folder)
