"""Fresh allocations from the statistics of a run, and whole runs whose allocation is maintained.

Oracle: what `plan checkpoints` computes from the same loads.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from analysis.runs.metrics import metrics_of
from analysis.usable import EXPECTED
from holdfast.cli import app
from models.scenario.fault_tolerance import Maintenance
from models.scenario.inputs import LoadHistory
from models.scenario.reading import scenario_from
from scenarios.files.scenario import write_scenario
from scenarios.planning.checkpoints import solve_by
from scenarios.planning.files import problem_of_history
from scenarios.planning.maintenance import HistoryPlanner, planner_of
from scenarios.runs.run import run

METHODS = ("even", "sensitive-first", "exact", "tie-band", "expected-usable")


def history(seed: int, groups: int = 24, nodes: int = 6, windows: int = 30) -> LoadHistory:
    rng = np.random.default_rng(seed)
    common = rng.integers(20, 60, windows)
    return LoadHistory(
        names=tuple((("one", "two")[k % 2], k // 2) for k in range(groups)),
        tuples=np.maximum(0, common * rng.choice([-1, 0, 1], (groups, 1)) + rng.integers(60, 90, (groups, windows))),
        work_s=np.repeat([[0.002, 0.004]], groups // 2, axis=0).ravel(),
        window_s=2.0,
        host=np.arange(groups) % nodes,
        capacity=np.full(nodes, 1.0),
        outside=np.zeros(nodes),
        takes=np.ones(nodes, np.bool_),
    )


def planner(method: Any, **rules: Any) -> HistoryPlanner:
    return HistoryPlanner(Maintenance(method=method, **rules), theta=0.85, seed=3)


@pytest.mark.parametrize("method", ["even", "sensitive-first", "exact", "expected-usable"])
def test_the_plan_is_that_of_the_same_loads_in_a_file(method: str) -> None:
    seen = history(1)
    loads = {"load": seen.load.tolist(), "host": seen.host.tolist(), "speed": seen.capacity.tolist(), "seed": 3}
    problem = problem_of_history({"history": loads | {"group": [name for name, _ in seen.names]}}, method)
    found = planner(method)(seen)
    assert found is not None
    assert found.cost == pytest.approx(problem.cost, rel=1e-9)
    assert found.assignment.tolist() == solve_by(method, problem, seed=3).assignment.tolist()  # type: ignore[union-attr]


def test_ties_within_the_band_are_spread() -> None:
    seen = history(2)
    exact, banded = planner("exact")(seen), planner("tie-band")(seen)
    assert exact is not None and banded is not None
    rows = np.arange(len(seen.host))
    rho = exact.cost / seen.load.mean(axis=1)[:, None]
    assert (rho[rows, banded.assignment] <= rho[rows, exact.assignment] + 0.1 + 1e-9).all()
    load = seen.load.mean(axis=1)
    most = [np.bincount(one.assignment, weights=load, minlength=6).max() for one in (banded, exact)]
    assert most[0] < most[1]


def test_small_correlations_can_count_as_none() -> None:
    seen = history(3)
    plain, zeroed = planner("exact")(seen), planner("exact", zero_below=1.0)(seen)
    assert plain is not None and zeroed is not None
    assert (plain.cost != 0).any()
    assert np.abs(zeroed.cost).max() <= np.abs(plain.cost).max()
    assert (zeroed.cost != plain.cost).any()


@pytest.mark.parametrize("method", METHODS)
def test_only_hosts_that_may_hold_checkpoints_do(method: str) -> None:
    seen = replace(history(4), takes=np.array([True, False, True, True, False, True]))
    found = planner(method)(seen)
    assert found is not None
    assert set(found.assignment.tolist()) <= {0, 2, 3, 5}
    assert (found.assignment != seen.host).all()
    assert planner(method)(replace(seen, takes=np.arange(6) == 0)) is None  # groups on host 0 have no other


@pytest.mark.parametrize("method", METHODS)
def test_another_process_plans_the_same(method: str) -> None:
    one = planner(method)
    other = pickle.loads(pickle.dumps(one))
    assert other == one
    a, b = one(history(5)), other(history(5))
    assert a is not None
    assert b is not None
    assert a.assignment.tolist() == b.assignment.tolist()
    assert np.array_equal(a.cost, b.cost)


def test_the_planner_is_what_the_scenario_says() -> None:
    assert planner_of(scenario_from(job(None))) is None
    found = planner_of(scenario_from(job({"method": EXPECTED, "theta": 0.3})))
    assert found == HistoryPlanner(Maintenance(method=EXPECTED, theta=0.3), theta=0.7, seed=8)


# -- runs


def job(maintenance: dict[str, Any] | None, **changes: Any) -> dict[str, Any]:
    raw: dict[str, Any] = {
        "seed": 8,
        "duration": "12 s",
        "workload": {"in": {"rate": "300 /s", "keys": {"distribution": "uniform", "count": 60}}},
        "operators": {
            "in": {"kind": "source"},
            "sum": {
                "kind": "aggregate",
                "inputs": {"in": "key"},
                "parallelism": 4,
                "key_groups": 12,
                "service": {"distribution": "exponential", "mean": "2 ms"},
                "state": {"model": "per-key", "bytes": "1 kB"},
            },
            "out": {"kind": "sink", "inputs": {"sum": "shuffle"}},
        },
        "hosts": {"h": {"count": 5}},
        "fault_tolerance": {"method": "checkpoint", "interval": "1 s"},
        "elasticity": {"period": "1 s", "high": 0.7},
    }
    if maintenance is not None:
        raw["fault_tolerance"]["maintenance"] = maintenance
    return raw | changes


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_rows() -> None:
    made = scenario_from(job({"every": "4 s", "theta": 0.0}, replications=2))
    alone, together = run(made), run(made, workers=2)
    assert alone.summary == together.summary
    found = alone.summary["maintenance"]
    assert (found["comparisons"], len(found["rounds"])) == (4, 4)
    assert found["moved"] >= 10
    for one, other in zip(alone.records, together.records, strict=True):
        for name, column in one.tables["maintenance"].items():
            assert np.array_equal(column, other.tables["maintenance"][name])


def test_a_sweep_can_vary_it_and_has_what_moved_as_metrics() -> None:
    raw = job({"every": "4 s"}, sweep={"fault_tolerance.maintenance.theta": [0.0, 1000.0]})
    made = scenario_from(raw)
    metrics = metrics_of(run(made).typed_summary)
    assert metrics["maintenance.comparisons"] == 2
    assert metrics["maintenance.bytes"] > 0  # type: ignore[operator]


def test_the_command_shows_and_tells_what_moved(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    write_scenario(scenario_from(job({"every": "4 s", "theta": 0.0})), file)
    told = CliRunner().invoke(app, ["run", str(file), "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["maintenance"]["moved"] > 0
    shown = CliRunner().invoke(app, ["run", str(file)])
    assert "Allocation of checkpoints" in shown.stdout


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("theta", -0.1, "maintenance.theta = -0.1: must be at least 0"),
        ("every", "0 s", "maintenance.every = 0 s: must be longer than zero"),
        ("first", "-1 s", "maintenance.first"),
        ("every", 5, "maintenance.every = 5"),
        ("method", "baseline", "maintenance.method = baseline"),
        ("zero_below", 1.5, "maintenance.zero_below = 1.5: must be at most 1"),
        ("windows", "5 s", "maintenance.windows"),
    ],
)
def test_bad_input_is_one_clear_fault(key: str, value: object, text: str) -> None:
    with pytest.raises(ValueError, match="fault_tolerance") as error:
        scenario_from(job({key: value}))
    assert text in str(error.value)
    assert len(str(error.value).splitlines()) == 1
