"""A failure log replayed: its outages strike the hosts that were said, when they did, in both data planes alike."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_sharing import same_rows

from holdfast.cli import main
from models.errors import InputError
from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from scenarios.files.scenario import LoadedScenario, moved, named_files, scenario_text
from scenarios.reliability.failure_logs import read_failures, write_failures
from scenarios.reliability.failure_replay import replayed
from scenarios.runs.run import run
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

LOG = """host,down,up
a,1000,1010
a,1100,1104
b,1052,1060
b,1201,
c,1100,1300
d,1070,1070
d,1200,1202
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "log.csv").write_text(LOG)
    write_failures(read_failures([tmp_path / "log.csv"], draws=0), tmp_path / "log.json")
    return tmp_path


def scenario(**failures: Any) -> Scenario:
    raw: dict[str, Any] = {
        "duration": "30 s",
        "workload": {"orders": {"rate": "40 /s", "keys": {"distribution": "uniform", "count": 50}}},
        "operators": {
            "orders": {"kind": "source"},
            "count": {
                "kind": "aggregate", "inputs": {"orders": "key"}, "parallelism": 3, "key_groups": 6,
                "service": {"distribution": "exponential", "mean": "4 ms"},
            },
            "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
        },
        "hosts": {"front": {}, "worker": {"count": 3}},
        "placement": {"operators": {"orders": "front", "count": "worker", "out": "front"}},
        "fault_tolerance": {"method": "checkpoint", "interval": "2 s"},
        "failures": {"log": "log.json", **failures},
    }  # fmt: skip
    return scenario_from(raw)


HOSTS = {"worker-0": "a", "worker-1": "b", "worker-2": "d"}


def test_outages_become_failures_of_the_hosts_that_were_said(folder: Path) -> None:
    made = replayed(scenario(hosts=HOSTS, speed=10.0), folder)
    assert made.failures is None
    # A repair within the log's clock, a second, takes half of it; what has no end has no repair.
    assert {(one.host, one.at_s, one.repair_s) for one in made.events.values()} == {
        ("worker-0", 0.0, 1.0),
        ("worker-0", 10.0, 0.4),
        ("worker-1", 5.2, 0.8),
        ("worker-1", 20.1, None),
        ("worker-2", 7.0, 0.05),
        ("worker-2", 20.0, 0.2),
    }


def test_a_window_begins_with_hosts_that_are_down_and_ends_before_its_end(folder: Path) -> None:
    window = {"begin": "1970-01-01T00:16:44", "end": "1970-01-01T00:18:20"}  # 1004 to 1100
    made = replayed(scenario(hosts=HOSTS, speed=4.0, **window), folder)
    found = {(one.host, one.at_s, one.repair_s) for one in made.events.values()}
    assert found == {("worker-0", 0.0, 1.5), ("worker-1", 12.0, 2.0), ("worker-2", 16.5, 0.125)}


def test_both_data_planes_give_equal_rows(folder: Path) -> None:
    made = replayed(scenario(hosts=HOSTS, speed=10.0), folder)
    one, other = (simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))
    assert same_rows(one, other)
    failed = np.asarray(one.tables["failures"]["failed_ns"])
    assert sorted(failed.tolist()) == [0, 5_200_000_000, 7_000_000_000, 10_000_000_000, 20_000_000_000, 20_100_000_000]


def test_run_replays_and_equals_the_run_of_the_events(folder: Path) -> None:
    replayed_scenario = scenario(hosts=HOSTS, speed=10.0)
    assert replayed_scenario.may_fail
    found = run(replayed_scenario, folder=folder)
    assert found.summary == run(replayed(replayed_scenario, folder)).summary
    assert found.scenario.events
    assert list(named_files(replayed_scenario)) == [("failures.log", "log.json")]
    away = moved(LoadedScenario(replayed_scenario, folder), folder / "out")
    assert scenario_from(tomllib.loads(scenario_text(away))).failures.log == "../log.json"  # type: ignore[union-attr]


def test_hosts_of_the_same_name_need_no_table(folder: Path) -> None:
    said = json.loads((folder / "log.json").read_text())
    said["log"]["hosts"] = ["worker-0", "x", "front-0", "y"]
    (folder / "log.json").write_text(json.dumps(said))
    made = replayed(scenario(speed=10.0), folder)
    assert {one.host for one in made.events.values()} == {"worker-0", "front-0"}


@pytest.mark.parametrize(
    "failures, rule",
    [
        ({}, "failures.hosts: is missing: no host of the log has a name of ours"),
        ({"hosts": {"worker-9": "a"}}, "failures.hosts.worker-9 = a: is not a host of the scenario"),
        ({"hosts": {"worker-0": "z"}}, "failures.hosts.worker-0 = z: is not a host of the log"),
        ({"hosts": {"worker-0": "a", "worker-1": "a"}}, "is given for more than one host"),
        ({"hosts": HOSTS, "begin": "soon"}, "failures.begin = soon: must be a time in ISO 8601"),
        ({"hosts": HOSTS, "begin": "2020-01-01"}, "must be within the window of the log"),
        ({"hosts": HOSTS, "end": "1970-01-01"}, "must be after failures.begin"),
        ({"log": "log.csv", "hosts": HOSTS}, "log.csv:1: is not JSON"),
    ],
)
def test_what_cannot_be_replayed_is_refused(folder: Path, failures: dict[str, Any], rule: str) -> None:
    with pytest.raises(InputError) as error:
        replayed(scenario(**failures), folder)
    assert rule in str(error.value)


@pytest.mark.parametrize("speed", [0.0, -1.0, "2"])
def test_a_speed_that_is_none_is_refused(speed: object) -> None:
    with pytest.raises(InputError, match=r"failures\.speed"):
        scenario(hosts=HOSTS, speed=speed)


def test_validate_refuses_what_a_run_would(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "asked.toml"
    file.write_text(scenario_text(scenario(hosts={"worker-0": "a"})))
    for text, code, said in (("", 0, "valid"), ("worker-9", 2, "failures.hosts.worker-9 = a: is not a host")):
        if text:
            file.write_text(scenario_text(scenario(hosts={text: "a"})))
        with pytest.raises(SystemExit) as left:
            main(["validate", str(file)])
        assert left.value.code == code
        assert said in "".join(capsys.readouterr())
