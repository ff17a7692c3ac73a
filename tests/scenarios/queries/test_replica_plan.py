"""Plans of replicas in scenarios: what they become, and one clear error for each that does not fit."""

from __future__ import annotations

import copy
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from models.errors import InputError
from models.scenario.reading import scenario_from
from models.steady_state.estimate import estimate
from models.topology.layout import placement, planned_replicas
from scenarios.files.scenario import LoadedScenario, missing_files, moved, read_scenario
from scenarios.queries.files import read_queries
from scenarios.queries.replica_files import document
from scenarios.queries.replica_plan import with_planned_replicas
from scenarios.queries.replicas import Options, best_of, plans, problem_of
from scenarios.runs.run import run

EXAMPLES = Path(__file__).parents[3] / "examples"
FILE = EXAMPLES / "replicas-planned.toml"
PLAN = json.loads((EXAMPLES / "replica-plan.json").read_text())
HERE = "fault_tolerance.replica_plan"


def refused(folder: Path, plan: dict[str, Any] | None = None, **more: Any) -> list[tuple[str, str]]:
    """Paths and rules of what is wrong with a changed plan, or a changed table that names it."""
    raw = tomllib.loads(FILE.read_text())
    (folder / "replica-plan.json").write_text(json.dumps(PLAN | (plan or {})))
    raw["fault_tolerance"]["replica_plan"] |= more
    with pytest.raises(InputError) as caught:
        with_planned_replicas(scenario_from(raw), folder)
    assert all(str(fault) for fault in caught.value.faults)
    return [(fault.path, fault.rule) for fault in caught.value.faults]


def exit_code(*words: str) -> object:
    with pytest.raises(SystemExit) as left:
        main(words)
    return left.value.code


def test_the_plan_of_the_example_is_what_the_command_makes_of_the_queries() -> None:
    loaded, options = read_queries(EXAMPLES / "queries.toml"), Options(p=(0.0123,))
    problem = problem_of(loaded, options)
    found = plans(problem, options)
    made = json.loads(json.dumps(document(found[best_of(found)], problem, loaded, options)))
    assert {**made, "wall_s": 0} == {**PLAN, "wall_s": 0}


def test_a_plan_says_where_replicas_and_primaries_are() -> None:
    loaded = read_scenario(FILE)
    made = with_planned_replicas(loaded.scenario, loaded.folder)
    found = [(one.name, one.operator, one.primary, one.host, one.spares) for one in planned_replicas(made)]
    assert found == [
        ("average.sap", "sap", "worker-0", "worker-3", ("worker-5",)),
        ("related.both", "both", "worker-2", "worker-4", ("worker-5",)),
    ]
    assert placement(made)["mean-0"] == "worker-1"
    assert placement(made)["ticks-0"] == "edge-0"  # as placement.operators says
    assert with_planned_replicas(made, loaded.folder) is made


def test_a_run_with_a_plan_is_the_run_with_its_entries() -> None:
    loaded = read_scenario(FILE, ["duration=41 s"])
    by_plan = run(loaded.scenario, folder=loaded.folder)
    by_entries = run(with_planned_replicas(loaded.scenario, loaded.folder))
    assert by_plan.summary == by_entries.summary
    ends = by_plan.records[0].tables["replicas"]["end"].tolist()
    assert ends == ["took over", "took over", "", ""]
    assert by_plan.summary["replicas"]["took_over"] == 2


def test_names_without_dots_and_hosts_in_the_order_of_the_file_need_no_words(tmp_path: Path) -> None:
    raw = tomllib.loads((EXAMPLES / "replicas.toml").read_text())
    raw["fault_tolerance"] |= {"replicas": {}, "replica_plan": {"plan": "p.json"}}
    raw["operators"]["q_count"] = raw["operators"].pop("count") | {"parallelism": 1}
    raw["operators"]["out"]["inputs"] = {"q_count": "shuffle"}
    del raw["placement"]["tasks"]
    (tmp_path / "p.json").write_text(json.dumps({"kind": "replicas", "operators": ["q.count"], "instances": [[2, 3]]}))
    made = with_planned_replicas(scenario_from(raw), tmp_path)
    found = {(one.operator, one.primary, one.host) for one in planned_replicas(made)}
    assert found == {("q_count", "worker-1", "worker-2")}  # front-0 is host 0


NO_ANSWER = "is missing: the plan has no answer, its status is infeasible"
NO_HOSTS = "must be the hosts of average.sap, the primary first, counted from 0"
NO_OPERATOR = "there is no operator of this name in the scenario"
UNKNOWN = "is not an operator of the plan"
TAKEN = "stands for average.sap of the plan already"
REST = PLAN["instances"][2:]


@pytest.mark.parametrize(
    ("plan", "path", "rule"),
    [
        ({"kind": "front"}, "kind", "must be replicas"),
        ({"instances": None, "status": "infeasible"}, "instances", NO_ANSWER),
        ({"instances": [[0]]}, "instances", "must be as many lists as operators: 8"),
        ({"instances": "no"}, "instances", "must be a list of the hosts of each operator"),
        ({"operators": [1]}, "operators", "must be a list of names"),
        ({"operators": ["a", "a"]}, "operators", "is named twice"),
        ({"instances": [[0, 2], [3, 3], *REST]}, "instances[1]", "puts two instances of average.sap on one host"),
        ({"instances": [[0, 2], [], *REST]}, "instances[1]", NO_HOSTS),
        ({"instances": [[0, 2], [-1, 2], *REST]}, "instances[1]", NO_HOSTS),
    ],
)  # fmt: skip
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, plan: dict[str, Any], path: str, rule: str) -> None:
    assert refused(tmp_path, plan) == [(f"{HERE}.plan: {path}", rule)]


OPERATORS = {"average.ticks": "ticks", "average.sap": "sap", "average.mean": "mean", "related.news": "news"}


@pytest.mark.parametrize(
    ("more", "path", "rule"),
    [
        ({"operators": OPERATORS}, 'operators."related.both"', NO_OPERATOR),
        ({"operators": OPERATORS | {"related.both": "botj"}}, 'operators."related.both"', NO_OPERATOR),
        ({"operators": OPERATORS | {"related.both": "sap"}}, 'operators."related.both"', TAKEN),
        ({"operators": OPERATORS | {"related.both": "both", "x": "b"}}, "operators.x", UNKNOWN),
        ({"hosts": ["worker-0", "worker-1"]}, "hosts", "are too few: the plan has operators on 5 hosts"),
        ({"hosts": [f"worker-{k}" for k in (0, 1, 2, 3, 9)]}, "hosts[4]", "there is no host of this name"),
        ({"hosts": [f"worker-{k}" for k in (0, 1, 2, 3, 1)]}, "hosts[4]", "is named twice"),
        ({"spares": ["worker-8"]}, "spares[0]", "there is no host of this name"),
    ],
)  # fmt: skip
def test_what_the_scenario_does_not_have_is_refused(tmp_path: Path, more: dict[str, Any], path: str, rule: str) -> None:
    assert refused(tmp_path, **more) == [(f"{HERE}.{path}", rule)]


def test_sources_and_sinks_have_no_replica_and_are_to_be_left_out_by_name(tmp_path: Path) -> None:
    without = ["average.ticks", "related.news", "average.out", "alerts.out"]
    rule = "a sink has no replica, and the plan has one of it"
    assert refused(tmp_path, without=without) == [(f'{HERE}.operators."related.out"', rule)]
    assert refused(tmp_path, without=[*without, "related.out", "x"]) == [
        (f"{HERE}.without[5]", "is not an operator of the plan")
    ]
    everything = PLAN["operators"]
    assert refused(tmp_path, without=everything) == [
        (f"{HERE}.plan", "has no replicas, or none that is not in without")
    ]


def test_more_than_one_replica_is_not_simulated(tmp_path: Path) -> None:
    instances = copy.deepcopy(PLAN["instances"])
    instances[1].append(4)
    rule = "has 2 replicas in the plan, and one of each is simulated"
    assert refused(tmp_path, {"instances": instances}) == [(f'{HERE}.operators."average.sap"', rule)]


def test_a_primary_that_the_scenario_puts_beside_its_replica_is_refused_with_the_plan(tmp_path: Path) -> None:
    raw = tomllib.loads(FILE.read_text())
    raw["placement"]["tasks"] = {"sap-0": "worker-3"}
    with pytest.raises(InputError) as caught:
        with_planned_replicas(scenario_from(raw), EXAMPLES)
    (fault,) = caught.value.faults
    assert fault.path == f'{HERE}.plan: replica-plan.json: fault_tolerance.replicas."average.sap".host'
    assert (fault.value, fault.rule) == ("worker-3", "is the host of what is replicated: key group or task 0 of sap")


def test_a_plan_stands_alone_and_needs_checkpoints() -> None:
    raw = tomllib.loads(FILE.read_text())
    raw["fault_tolerance"] |= {"replicas": {"a": {"operator": "sap", "host": "worker-4"}}, "method": "none"}
    with pytest.raises(InputError) as caught:
        scenario_from(raw)
    assert [(fault.path, fault.rule) for fault in caught.value.faults] == [
        (HERE, "stands in place of fault_tolerance.replicas, which is there, too"),
        (HERE, "needs what upstream keeps; fault_tolerance.method is none"),
    ]


def test_a_plan_file_moves_with_its_scenario_and_is_missed(tmp_path: Path) -> None:
    loaded = read_scenario(FILE)
    away = moved(loaded, tmp_path / "runs").fault_tolerance.replica_plan
    assert away is not None
    assert (tmp_path / "runs" / away.plan).resolve() == (EXAMPLES / "replica-plan.json").resolve()
    (fault,) = missing_files(LoadedScenario(loaded.scenario, tmp_path))
    assert (fault.path, fault.value) == (f"{HERE}.plan", "replica-plan.json")


@pytest.mark.parametrize("command", ["run", "validate", "show"])
def test_commands_refuse_a_plan_that_does_not_fit(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(command, str(FILE), "--set", f'{HERE}.hosts=["worker-0", "worker-7"]') == 2
    err = capsys.readouterr().err
    assert f"{HERE}.hosts[1] = worker-7: there is no host of this name" in err
    assert "Traceback" not in err


def test_the_size_shown_of_a_plan_is_that_of_its_entries(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("show", str(FILE), "--json") == 0
    loaded = read_scenario(FILE)
    made = with_planned_replicas(loaded.scenario, loaded.folder)
    assert json.loads(capsys.readouterr().out)["estimate"]["steps"] == estimate(made).steps
