"""One simulated record in place of several: the rows are those of a scenario that is divided by hand, counts are not.

Oracle: the same scenario with rates, services and sizes written out for one record in ten, and the waiting time of a
single server, which the sums keep.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from analysis.report import render_page
from analysis.runs.summary import summarise
from analysis.runs.timelines import latency_timeline, throughput
from holdfast.cli import app
from models.records.tables import HISTOGRAM_TABLES, TABLES, RunRecords
from models.scenario.reading import scenario_from, scenario_with
from models.scenario.scenario import Scenario
from models.steady_state.estimate import estimate
from scenarios.files.scenario import LoadedScenario, read_scenario
from scenarios.pages.run import run_page
from scenarios.runs.inputs import inputs_of
from scenarios.runs.run import run
from scenarios.sweeps.summary import resolutions_said, sweep_summary
from scenarios.sweeps.sweep import sweep
from sim.engine import simulate

W = 10
FILE = Path("examples/two-hosts.toml")
BASE: dict[str, object] = {
    "duration": "30 s",
    "workload.orders.rate": "400 /s",
    "operators.count.state": {"model": "per-tuple", "bytes": "8 B"},
    "hosts.worker.network": "1 MB/s",
    "recording.memory": True,
    "recording.statistics": True,
}
BY_HAND: dict[str, object] = {
    "workload.orders.rate": "40 /s",
    "workload.orders.arrivals": {"distribution": "gamma", "shape": 10.0},
    "workload.orders.tuple": "1000 B",
    "operators.count.service": {"distribution": "gamma", "mean": "20 ms", "shape": 10.0},
    "operators.count.state": {"model": "per-tuple", "bytes": "80 B"},
}
LOSSY = {"fault_tolerance.guarantee": "at-most-once"}


def base(**changes: object) -> Scenario:
    return scenario_with(read_scenario(FILE).scenario, {**BASE, **changes})


def pair(**changes: Any) -> tuple[RunRecords, RunRecords]:
    """The run with a resolution, and the one that is divided by hand."""
    coarse = scenario_with(base(**changes), {"resolution": W})
    return simulate(coarse, engine="plain"), simulate(scenario_with(base(**changes), BY_HAND), engine="plain")


def test_rows_are_those_of_a_scenario_divided_by_hand_and_count_records_of_the_job() -> None:
    coarse, by_hand = pair(**LOSSY)
    assert (coarse.resolution, by_hand.resolution) == (W, 1)
    assert coarse.tables["visits"]["arrival_ns"].size > 2000
    tuples = {"data", "local"}
    for name, columns in TABLES.items():
        for column in columns:
            found, expected = coarse.tables[name][column.name], by_hand.tables[name][column.name]
            if column.unit == "tuples" or (name, column.name) == ("links", "delay_ns"):
                expected = expected * W
            elif (name, column.name) == ("messages", "count"):
                expected = expected * np.where(np.isin(by_hand.tables[name]["kind"], [*tuples]), W, 1)
            assert found.tolist() == expected.tolist(), (name, column.name)
            assert not found.flags.writeable
    seen = {(name, column.name) for name, columns in TABLES.items() for column in columns if column.unit == "tuples"}
    some = {key for key in seen if coarse.tables[key[0]][key[1]].any()}
    assert {("ledger", "lost"), ("samples", "queue"), ("statistics", "tuples"), ("links", "carried")} <= some


@pytest.mark.parametrize("detail", ["tuples", "histograms"])
def test_the_summary_counts_records_of_the_job_whatever_is_recorded(detail: str) -> None:
    coarse = scenario_with(base(**LOSSY), {"resolution": W, "recording.detail": detail})
    hand = scenario_with(base(**LOSSY), {**BY_HAND, "recording.detail": detail})
    one, other = simulate(coarse), simulate(hand)
    found, expected = summarise(coarse, [one]), summarise(hand, [other])
    assert (found.resolution, expected.resolution) == (W, 1)
    for name, by_hand in expected.operators.items():
        ours = found.operators[name]
        assert by_hand.processed is not None
        assert ours.processed == W * by_hand.processed
        assert ours.queue_mean == pytest.approx(W * (by_hand.queue_mean or 0.0))
        assert ours.utilisation == by_hand.utilisation
        assert ours.wait_s == by_hand.wait_s
    assert found.latency_s.count == W * expected.latency_s.count
    assert found.replications[0].latency_s.count == found.latency_s.count
    assert found.latency_s.max == expected.latency_s.max
    assert found.guarantee.lost == W * (expected.guarantee.lost or 0) > 0
    assert found.memory is not None
    assert found.memory == expected.memory  # bytes are those of the job: a record is as large as ten
    assert throughput(one).values.tolist() == (throughput(other).values * W).tolist()
    assert latency_timeline(one).count.tolist() == (latency_timeline(other).count * W).tolist()
    assert latency_timeline(one).p99_ns.tolist() == latency_timeline(other).p99_ns.tolist()


def test_a_replay_is_one_message_however_many_records_it_has() -> None:
    one, other = pair()
    replays = [made.tables["messages"] for made in (one, other)]
    counts = [rows["count"][rows["kind"] == "replay"].tolist() for rows in replays]
    assert counts[0] == counts[1] != []
    assert one.tables["recoveries"]["replayed"].sum() == W * other.tables["recoveries"]["replayed"].sum() > 0


def test_outputs_that_are_kept_have_the_size_of_those_of_the_job() -> None:
    coarse = scenario_with(base(), {"resolution": W})
    hand = scenario_with(base(), BY_HAND)
    found, expected = (summarise(one, [simulate(one)]).resources for one in (coarse, hand))
    assert found == expected
    assert found.kept_bytes


def test_the_engines_have_equal_rows() -> None:
    coarse = scenario_with(base(), {"resolution": W, "recording.detail": "tuples"})
    plain, compiled = simulate(coarse, engine="plain"), simulate(coarse, engine="compiled")
    assert compiled.resolution == W
    for name in TABLES:
        for column, values in plain.tables[name].items():
            assert compiled.tables[name][column].tolist() == values.tolist(), (name, column)


def test_the_estimate_is_that_of_what_is_simulated() -> None:
    coarse, whole = (estimate(scenario_with(base(), {"resolution": w})) for w in (W, 1))
    assert coarse.steps == pytest.approx(whole.steps / W)
    assert coarse.tuples == pytest.approx(whole.tuples / W)


def test_a_single_server_keeps_its_queue() -> None:
    """Gaps and services that are sums keep the mean wait at a server, but for what less random gaps save.

    M/M/1 at 70 %: a wait of 0.7 / 0.3 services. With four in one Kingman's formula gives the same, and the factor of
    Kraemer and Langenbach-Belz takes off what a squared coefficient of variation of 1/4 saves. 16 runs of 300 s: the
    tolerances are above three standard errors, and below what a single law of the two would change.
    """
    queue = {
        "duration": "300 s",
        "replications": 16,
        "warmup": "30 s",
        "workload": {"in": {"rate": "140 /s"}},
        "operators": {
            "in": {"kind": "source"},
            "serve": {
                "kind": "map",
                "inputs": {"in": "shuffle"},
                "service": {"distribution": "exponential", "mean": "5 ms"},
            },
            "out": {"kind": "sink", "inputs": {"serve": "shuffle"}},
        },
        "hosts": {"host": {}},
        "recording": {"detail": "histograms"},
    }
    waits = {}
    for w in (1, 4):
        scenario = scenario_from({**queue, "resolution": w})
        summary = summarise(scenario, [simulate(scenario, replication=k) for k in range(16)])
        waits[w] = summary.operators["serve"].wait_s.mean
    exact_s, scv = 0.005 * 0.7 / 0.3, 1 / 4
    saved = math.exp(-2 * 0.3 / (3 * 0.7) * (1 - scv) ** 2 / (2 * scv))
    assert waits[1] == pytest.approx(exact_s, rel=0.1)
    assert waits[4] == pytest.approx(exact_s * saved, rel=0.1)


def test_terminal_page_and_document_say_the_resolution(tmp_path: Path) -> None:
    told = "One simulated record stands for 10; all counts are of records of the job."
    runner = CliRunner()
    settings = ["--set", "duration=10 s", "--set", "events={}"]
    coarse = runner.invoke(app, ["run", str(FILE), *settings, "--set", "resolution=10", "--out", str(tmp_path / "run")])
    assert coarse.exit_code == 0, coarse.output
    assert told in " ".join(coarse.output.split())
    assert json.loads((tmp_path / "run/summary.json").read_text("utf-8"))["resolution"] == 10
    assert "one simulated record stands for 10" in (tmp_path / "run/report.html").read_text("utf-8")
    assert "resolution = 10" in (tmp_path / "run/scenario.toml").read_text("utf-8")
    assert "simulated records of" not in coarse.stderr
    few = runner.invoke(app, ["run", str(FILE), *settings, "--set", "resolution=1000", "--json"])
    assert "warning: resolution: leaves 2 simulated records of orders in the run" in few.stderr
    whole = runner.invoke(app, ["run", str(FILE), *settings, "--json"])
    assert json.loads(whole.stdout)["resolution"] == 1
    shown = runner.invoke(app, ["show", str(FILE), "--set", "resolution=10"])
    assert "one of which stands for 10" in " ".join(shown.output.split())


def test_a_page_of_a_run_of_each_record_says_nothing_of_it() -> None:
    loaded = read_scenario(FILE, ["duration=10 s", "events={}"])
    result = run(loaded.scenario, folder=loaded.folder)
    page = render_page(run_page(result, inputs_of(result.scenario, loaded.folder)))
    assert "simulated record" not in page


def test_a_sweep_of_resolutions_shows_the_error(tmp_path: Path) -> None:
    varied = base(**{"duration": "10 s", "events": {}, "sweep": {"resolution": [1, 10, 100]}})
    result = sweep(LoadedScenario(varied, FILE.parent), tmp_path / "sweep")
    assert not result.failed
    points = sweep_summary(result)["points"]
    assert [one["resolution"] for one in points] == [1, 10, 100]
    processed = [one["metrics"]["operators.count.processed"]["mean"] for one in points]
    assert processed == pytest.approx([4000] * 3, rel=0.1)  # records of the job, in each
    assert "resolution" not in points[0]["metrics"]
    assert resolutions_said(result) == "One simulated record stands for 1 to 100; all counts are of records of the job."


def test_histograms_stay_about_simulated_records() -> None:
    coarse = scenario_with(base(), {"resolution": W, "recording.detail": "histograms"})
    hand = scenario_with(base(), {**BY_HAND, "recording.detail": "histograms"})
    found, expected = simulate(coarse), simulate(hand)
    for name in HISTOGRAM_TABLES:
        for column, values in expected.tables[name].items():
            assert found.tables[name][column].tolist() == values.tolist()
