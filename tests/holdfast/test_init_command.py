"""`holdfast init`: a scenario file from a few answers."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from holdfast import cli
from models.engines.flink import default_max_parallelism
from models.scenario.reading import scenario_from, scenario_with
from models.scenario.scenario import Scenario
from models.steady_state.load import expected_load
from scenarios.files.scenario import read_scenario
from scenarios.files.starter import FlinkJob


def code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main(("init", *arguments))
    assert isinstance(left.value.code, int)
    return left.value.code


def written(path: Path, *options: str) -> Scenario:
    assert code("flink", "--out", str(path), *options) == 0
    return read_scenario(path).scenario


def test_the_file_says_the_job(tmp_path: Path) -> None:
    given = [
        "--rate",
        "1000 /s",
        "--state",
        "1 GB",
        "--change",
        "6 MB",
        "--taskmanagers",
        "3 x 2",
        "--interval",
        "30 s",
    ]
    made = written(tmp_path / "job.toml", *given, "--busy", "0.25")
    state = made.operators["state"]
    assert made.engine is not None
    assert (made.hosts["taskmanager"].count, made.hosts["taskmanager"].slots) == (3 + 1, 2)
    assert (state.parallelism, state.key_groups) == (6, 128)
    assert made.fault_tolerance.interval_s == 30
    assert made.fault_tolerance.kind == "incremental"
    assert state.state is not None
    assert state.state.model == "fixed"
    assert state.state.group_bytes * 128 == pytest.approx(1e9, rel=1e-5)
    load = expected_load(made)
    flow = load.operators["state"].flow.rate_in.mean_per_s
    assert (flow, made.resolution) == (1000, 2)
    assert state.state.change_bytes is not None
    assert state.state.change_bytes * flow * 30 == pytest.approx(6e6, rel=1e-5)
    assert load.operators["state"].utilisation.mean() == pytest.approx(0.25, rel=1e-3)


@pytest.mark.parametrize(
    ("rate", "scale"),
    [(0.5, 1), (500, 1), (501, 2), (1000, 2), (1001, 5), (2500, 5), (20_000, 50), (5e5, 1000), (1e9, 1000)],
)
def test_a_record_stands_for_so_many_that_few_are_simulated(rate: float, scale: int) -> None:
    assert FlinkJob(rate, 0.5, 1e9, 1e6, 2, 2, 60.0).scale == scale


def test_where_a_record_stands_for_many_the_file_says_so_and_what_that_changes(tmp_path: Path) -> None:
    many, one = written(tmp_path / "many.toml"), written(tmp_path / "one.toml", "--rate", "400 /s")
    assert (many.resolution, one.resolution) == (50, 1)
    assert expected_load(many).operators["state"].flow.rate_in.mean_per_s == 20_000
    measured = "# As measured: with 50, recoveries of a Flink job of 8,000 records/s on 24 tasks took "
    assert measured in (tmp_path / "many.toml").read_text(encoding="utf-8")
    assert "measured" not in (tmp_path / "one.toml").read_text(encoding="utf-8").split("duration")[0]


@pytest.mark.parametrize(
    ("tasks", "groups"), [(1, 128), (85, 128), (86, 256), (172, 512), (1000, 2048), (21845, 32768)]
)
def test_the_maximum_parallelism_is_that_of_flink(tasks: int, groups: int) -> None:
    assert default_max_parallelism(tasks) == groups


def test_questions_are_asked_on_a_terminal_for_what_no_option_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answer(question: str, default: str) -> str:
        asked.append(question)
        return "2x1" if "TaskManagers" in question else default

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(typer, "prompt", answer)
    made = written(tmp_path / "job.toml", "--rate", "100 /s")
    assert len(asked) == 4
    assert made.operators["state"].parallelism == 2


def test_the_file_says_the_application(tmp_path: Path) -> None:
    path, given = tmp_path / "job.toml", ("--rate", "1000 /s", "--state", "1.2 GB", "--record", "100 B", "--instances")
    options = (*given, "2x3", "--partitions", "12", "--standbys", "1", "--busy", "0.25")
    assert code("kafka-streams", "--out", str(path), *options) == 0
    made = read_scenario(path).scenario
    state = made.operators["state"]
    assert made.engine is not None
    assert made.engine.name == "kafka-streams"
    assert (made.hosts["app"].count, made.hosts["app"].cores) == (2, 3)
    assert (state.parallelism, state.key_groups) == (6, 12)
    assert made.fault_tolerance.changelogs is not None
    assert made.fault_tolerance.changelogs.standbys == 1
    assert state.state is not None
    assert state.state.model == "fixed"
    assert (state.state.group_bytes, state.state.change_bytes) == (1e8, 100.0)
    assert state.deserialise_bytes_per_s == 1e7
    text = path.read_text(encoding="utf-8").replace("# reading", "reading")
    (reading,) = scenario_from(tomllib.loads(text)).polling.values()
    assert reading.poll == 1000
    load = expected_load(made)
    assert (load.operators["state"].flow.rate_in.mean_per_s, made.resolution) == (1000, 2)
    assert load.operators["state"].utilisation.mean() == pytest.approx(0.25, rel=1e-3)


def test_the_file_says_the_query(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, given = tmp_path / "job.toml", ("--rate", "1000 /s", "--state", "1.2 GB", "--record", "100 B", "--executors")
    options = (*given, "2x3", "--partitions", "12", "--interval", "2 s", "--start", "4 s", "--busy", "0.25")
    assert code("spark", "--out", str(path), *options) == 0
    assert "Go on with: holdfast run" in " ".join(capsys.readouterr().out.split())
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 25
    made = read_scenario(path).scenario
    state = made.operators["state"]
    assert made.engine is not None
    assert made.engine.name == "spark"
    assert (made.hosts["executor"].count, made.hosts["executor"].cores) == (2, 3)
    assert (state.parallelism, state.key_groups) == (6, 12)
    assert made.fault_tolerance.interval_s == 2
    assert made.recovery.restart is not None
    assert made.recovery.restart.mean_s == 4
    assert [event.kind for event in made.events.values()] == ["driver-failure"]
    assert state.state is not None
    assert state.state.model == "fixed"
    assert (state.state.group_bytes, state.state.change_bytes) == (1e8, 100.0)
    load = expected_load(made)
    assert (load.operators["state"].flow.rate_in.mean_per_s, made.resolution) == (1000, 2)
    assert load.operators["state"].utilisation.mean() == pytest.approx(0.25, rel=1e-3)
    # Fewer state partitions than cores: so many tasks have work. The event of its comment can take the other's place.
    assert code("spark", "--out", str(path), "--force", "--partitions", "4") == 0
    made = read_scenario(path).scenario
    assert made.operators["state"].parallelism == 4
    kill = {"kind": "host-failure", "host": "executor-2", "at": "10 min"}
    assert scenario_with(made, {"events.kill": kill}).events["kill"].kind == "host-failure"


def test_the_file_says_the_topology(tmp_path: Path) -> None:
    path, given = tmp_path / "job.toml", ("--rate", "1000 /s", "--supervisors", "3x2", "--timeout", "10 s", "--start")
    assert code("storm", "--out", str(path), *given, "4 s", "--state", "6 MB", "--busy", "0.25") == 0
    made = read_scenario(path).scenario
    bolt = made.operators["bolt"]
    assert made.engine is not None
    assert made.engine.name == "storm"
    assert (made.hosts["supervisor"].count, bolt.parallelism) == (3, 6)
    assert bolt.state is not None
    assert (bolt.state.model, made.waves.interval_s) == ("fixed", 1.0)
    assert made.fault_tolerance.acking is not None
    assert (made.fault_tolerance.acking.timeout_s, made.fault_tolerance.acking.acks) == (10.0, "covered")
    assert made.recovery.restart is not None
    assert made.recovery.restart.mean_s == 4.0
    load = expected_load(made)
    assert (load.operators["bolt"].flow.rate_in.mean_per_s, made.resolution) == (1000, 2)
    assert load.operators["bolt"].utilisation.mean() == pytest.approx(0.25, rel=1e-3)
    # Bolts without managed state have no checkpoints.
    assert code("storm", "--out", str(path), "--force") == 0
    made = read_scenario(path).scenario
    assert (made.operators["bolt"].state, made.waves.interval_s) == (None, None)


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.toml"
    path.write_text("mine", encoding="utf-8")
    assert code("flink", "--out", str(path)) == 2
    assert "--force" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == "mine"
    assert code("flink", "--out", str(path), "--force") == 0


@pytest.mark.parametrize(
    ("options", "runs"), [((), True), (("--interval", "1 ms"), False), (("--state", "100 PB"), False)]
)
def test_a_file_that_cannot_be_run_is_written_and_says_so(
    options: tuple[str, ...], runs: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.toml"
    assert code("flink", "--out", str(path), *options) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert ("Go on with: holdfast run" in said) == runs
    assert ("It cannot be run as it is. Go on with: holdfast validate" in said) != runs
    with pytest.raises(SystemExit) as left:
        cli.main(("validate", str(path)))
    assert (left.value.code == 0) == runs


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "an unknown engine": (
        ("samza",),
        "ENGINE = samza: must be flink, spark, kafka-streams or storm (holdfast init flink)",
    ),
    "a slip": (("flunk",), "ENGINE = flunk: must be flink, spark, kafka-streams or storm (did you mean flink?)"),
    "an option that Spark has not": (("spark", "--taskmanagers", "6x4"), "--taskmanagers = 6x4: is not of spark"),
    "an option of Spark": (("flink", "--executors", "6x4"), "--executors = 6x4: is not of flink"),
    "no core": (("spark", "--executors", "3x0"), "--executors = 3x0: must be two whole numbers with an x between"),
    "no state partition": (("spark", "--partitions", "0"), "--partitions = 0: must be a whole number from 1 to"),
    "a query without a state": (("spark", "--state", "0 B"), "--state = 0 B: must be more than zero"),
    "a driver that starts at once": (("spark", "--start", "0 s"), "--start = 0 s: must be more than zero"),
    "more change than state": (
        ("flink", "--state", "1 GB", "--change", "2 GB"),
        "--change = 2 GB: must be no more than the state, 1 GB",
    ),
    "an option of the other engine": (("flink", "--standbys", "1"), "--standbys = 1: is not of flink"),
    "an option of Flink": (("kafka-streams", "--interval", "1 s"), "--interval = 1 s: is not of kafka-streams"),
    "an option of Storm": (("flink", "--start", "1 s"), "--start = 1 s: is not of flink"),
    "an option that Storm has not": (("storm", "--partitions", "3"), "--partitions = 3: is not of storm"),
    "no executor": (("storm", "--supervisors", "3x0"), "--supervisors = 3x0: must be two whole numbers"),
    "a start without a time": (("storm", "--start", "0 s"), "--start = 0 s: must be more than zero"),
    "no partition": (
        ("kafka-streams", "--partitions", "0"),
        "--partitions = 0: must be a whole number from 1 to 10,000",
    ),
    "no thread": (("kafka-streams", "--instances", "3x0"), "--instances = 3x0: must be two whole numbers"),
    "negative standbys": (("kafka-streams", "--standbys", "-1"), "--standbys = -1: must be a whole number from 0"),
    "a record without a size": (("kafka-streams", "--record", "0 B"), "--record = 0 B: must be more than zero"),
    "a rate without a unit": (("flink", "--rate", "5"), "--rate = 5: must be one number followed by one unit"),
    "no rate": (("flink", "--rate", "0 /s"), "--rate = 0 /s: must be more than zero"),
    "a share above one": (("flink", "--busy", "1.5"), "--busy = 1.5: must be a number between 0 and 1"),
    "no number": (("flink", "--busy", "nan"), "--busy = nan: must be a number between 0 and 1"),
    "words": (("flink", "--taskmanagers", "3by4"), "--taskmanagers = 3by4: must be two whole numbers"),
    "no slot": (("flink", "--taskmanagers", "3x0"), "--taskmanagers = 3x0: must be two whole numbers"),
    "too many slots": (("flink", "--taskmanagers", "99999x99999"), "10,000 slots at most"),
    "an interval that is no time": (("flink", "--interval", "5 GB"), "--interval = 5 GB"),
    "a rate beyond all": (
        ("flink", "--rate", "1e12 /s"),
        "error: --rate = 1e12 /s: is out of range: workload.events.rate would be 1000000000000 /s, which must be ",
    ),
    "a state of a byte": (
        ("flink", "--state", "1 B", "--interval", "60 s"),
        "error: --state = 1 B: is out of range together with --interval = 60 s: operators.state.state.change would be ",
    ),
    "a change of a byte": (
        ("flink", "--state", "1 GB", "--change", "1 B"),
        "error: --change = 1 B: is out of range: operators.state.state.change would be ",
    ),
    "an interval of an age": (
        ("flink", "--interval", "1e12 s"),
        "error: --interval = 1e12 s: is out of range: fault_tolerance.interval would be ",
    ),
    "tasks that do nothing": (
        ("flink", "--busy", "1e-12"),
        "error: --busy = 10^-12: is out of range: operators.state.service.mean would be ",
    ),
    "a trigger without an end": (("spark", "--interval", "1 ns"), "error: --interval = 1 ns: is out of range: fault_"),
    "a record beyond all": (
        ("kafka-streams", "--record", "1 TB"),
        "error: --record = 1 TB: is out of range: operators.",
    ),
    "a time-out without a time": (("storm", "--timeout", "1 ns"), "error: --timeout = 1 ns: is out of range: fault_"),
    "a start of an age": (
        ("storm", "--start", "1e12 s"),
        "error: --start = 1e12 s: is out of range: recovery.restart.",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_bad_answers_are_refused(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, words = REFUSED[what]
    out = tmp_path / "job.toml"
    assert code(*arguments, "--out", str(out)) == 2
    assert words in capsys.readouterr().err
    assert not out.exists()


def test_the_file_is_one_that_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("flink", "--out", str(tmp_path / "job.json")) == 2
    assert "must end in .toml" in capsys.readouterr().err


def test_a_small_state_can_change_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    assert code("flink", "--state", "1 MB", "--rate", "100 /s", "--interval", "10 s", "--out", str(path)) == 0
    assert 'change = "1 kB"' in path.read_text(encoding="utf-8")


def test_all_faults_are_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given: tuple[Any, ...] = ("--rate", "5", "--state", "-1", "--busy", "2", "--taskmanagers", "3")
    assert code("flink", "--out", str(tmp_path / "job.toml"), *given) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 4
