"""`plan checkpoints` and `verify`: stdout is data, exit codes tell the status."""

import json

import pytest
import typer
from typer.testing import CliRunner

from holdfast.commands.plan import app as plan_app
from holdfast.commands.verify import verify
from models.errors import InputError

PROBLEM = {
    "cost": [[1, 2, 3], [2, 1, 5], [4, 4, 1]],
    "load": [1, 2, 1.5],
    "capacity": [2, 2, 2],
    "forbidden": [[0, 0]],
}

app = typer.Typer()
app.add_typer(plan_app, name="plan")
app.command()(verify)


@pytest.fixture(name="run")
def _run(tmp_path):
    def run(*arguments, problem=PROBLEM):
        path = tmp_path / "problem.json"
        path.write_text(json.dumps(problem))
        named = [str(path) if a == "PROBLEM" else str(tmp_path / a[1:]) if a.startswith("@") else a for a in arguments]
        return CliRunner().invoke(app, named)

    return run


@pytest.mark.parametrize("method", ["even", "sensitive-first", "exact"])
def test_json_is_exactly_one_document_with_the_agreed_keys(run, method):
    result = run("plan", "checkpoints", "PROBLEM", "--method", method, "--json", "--seed", "1")
    document = json.loads(result.stdout)
    assert list(document)[:6] == ["status", "objective", "bound", "gap", "wall_s", "assignment"]
    assert result.exit_code == (4 if document["status"] == "unknown" else 0)


def test_exact_is_optimal_and_its_file_verifies(run):
    result = run("plan", "checkpoints", "PROBLEM", "--json", "--out", "@plan.json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["assignment"] == [1, 0, 2]
    checked = run("verify", "@plan.json", "PROBLEM", "--json")
    assert checked.exit_code == 0
    document = json.loads(checked.stdout)
    assert (document["ok"], document["objective"], document["violations"]) == (True, 5.0, [])
    assert document["not_checked"] == []
    assert "the gap" in document["checked"]
    assert "the bound, which all assignments that may cost less prove" in run("verify", "@plan.json", "PROBLEM").stdout


def test_a_plan_for_another_problem_fails_the_check_with_four(run):
    run("plan", "checkpoints", "PROBLEM", "--out", "@plan.json")
    changed = {**PROBLEM, "forbidden": [[0, 1]]}
    result = run("verify", "@plan.json", "PROBLEM", problem=changed)
    assert result.exit_code == 4
    assert "forbidden: checkpoint 0 must not be on node 1" in result.stdout


def test_a_running_plan_is_where_the_moves_start(run):
    run("plan", "checkpoints", "PROBLEM", "--out", "@plan.npz")
    before = json.loads(run("plan", "checkpoints", "PROBLEM", "--json").stdout)["assignment"]
    result = run("plan", "checkpoints", "PROBLEM", "--json", "--from", "@plan.npz", "--max-moves", "0")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["assignment"] == before
    assert run("plan", "checkpoints", "PROBLEM", "--max-moves", "0").exit_code != 0


def test_a_plan_of_few_moves_is_checked_from_where_they_started(run):
    run("plan", "checkpoints", "PROBLEM", "--out", "@before.json")
    dearer = {"cost": [[1, 9, 3], [9, 1, 5], [4, 4, 9]], "load": [1, 1, 1], "capacity": [2, 2, 2]}
    moved = ("--from", "@before.json", "--max-moves", "1")
    plan = ("plan", "checkpoints", "PROBLEM", *moved, "--reasons", "--json", "--out", "@plan.json")
    made = json.loads(run(*plan, problem=dearer).stdout)
    assert made["status"] == "optimal"
    assert "all 1 moves are used" in json.dumps(made["reasons"])
    assert run("verify", "@plan.json", "PROBLEM", *moved, problem=dearer).exit_code == 0
    fewer = run("verify", "@plan.json", "PROBLEM", *moved[:3], "0", problem=dearer)
    assert fewer.exit_code == 4
    assert "moves: 1 checkpoints" in fewer.stdout
    assert run("verify", "@plan.json", "PROBLEM", problem=dearer).exit_code == 4


@pytest.mark.parametrize("command", [("plan", "checkpoints", "PROBLEM"), ("verify", "@plan.json", "PROBLEM")])
def test_what_is_no_plan_of_these_checkpoints_is_no_start(run, command, tmp_path):
    run("plan", "checkpoints", "PROBLEM", "--out", "@plan.json")
    (tmp_path / "steps.json").write_text(json.dumps({"kind": "steps", "status": "optimal", "step": [0, 1, 2]}))
    (tmp_path / "two.json").write_text(json.dumps({"status": "feasible", "assignment": [0, 1]}))
    for name, rule in (("@steps.json", "is one of steps"), ("@two.json", "a node for each of 3 checkpoints")):
        left = run(*command, "--from", name).exception
        assert isinstance(left, InputError)
        assert rule in str(left)


def changed_plan(tmp_path, **changes):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_changed_gap_fails_the_check_with_four(run, tmp_path):
    run("plan", "checkpoints", "PROBLEM", "--out", "@plan.json")
    changed_plan(tmp_path, gap=0.5)
    result = run("verify", "@plan.json", "PROBLEM")
    assert result.exit_code == 4
    assert "claim: says gap 0.5, of its objective and bound it is 0.0" in result.stdout
    assert "the plan holds" not in result.stdout


def test_a_dearer_plan_that_is_called_optimal_fails_the_check_with_four(run, tmp_path):
    run("plan", "checkpoints", "PROBLEM", "--out", "@plan.json")
    changed_plan(tmp_path, assignment=[2, 1, 0], objective=8.0, bound=8.0)
    result = run("verify", "@plan.json", "PROBLEM", "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["ok"], document["counterexample"]) == (4, False, [1, 0, 2])


def test_a_proven_infeasibility_holds(run):
    small = {**PROBLEM, "capacity": [1, 1, 1]}
    run("plan", "checkpoints", "PROBLEM", "--out", "@plan.json", problem=small)
    result = run("verify", "@plan.json", "PROBLEM", problem=small)
    assert result.exit_code == 0
    assert "checked: the infeasibility: the load of checkpoint" in result.stdout


def test_a_plan_without_an_assignment_is_not_said_to_hold(run, tmp_path):
    small = {**PROBLEM, "capacity": [1, 1, 1]}
    run("plan", "checkpoints", "PROBLEM", "--out", "@plan.json", problem=small)
    changed_plan(tmp_path, status="unknown")
    result = run("verify", "@plan.json", "PROBLEM", problem=small)
    assert result.exit_code == 4
    assert 'nothing to check: the plan says "unknown" and has no assignment' in result.stdout
    assert "holds" not in result.stdout
    document = json.loads(run("verify", "@plan.json", "PROBLEM", "--json", problem=small).stdout)
    assert (document["ok"], document["violations"], document["checked"]) == (None, [], [])


def test_infeasible_exits_three_and_still_prints_its_document(run):
    result = run("plan", "checkpoints", "PROBLEM", "--json", problem={**PROBLEM, "capacity": [1, 1, 1]})
    assert result.exit_code == 3
    document = json.loads(result.stdout)
    assert (document["status"], document["assignment"], document["objective"]) == ("infeasible", None, None)
    assert "load of checkpoint 1" in result.stderr


def test_a_plan_that_breaks_a_capacity_is_unknown_and_exits_four(run):
    tight = {
        "cost": [[0, 0]] * 3,
        "load": [3, 3, 1],
        "capacity": [4, 4],
        "forbidden": [[0, 1], [2, 1]],
        "current": None,
    }
    chance = ("plan", "checkpoints", "PROBLEM", "--method", "baseline", "--seed")
    codes = {run(*chance, str(seed), problem=tight).exit_code for seed in range(12)}
    assert codes == {0, 4}


def test_reasons_and_tables_fit_eighty_columns(run):
    for extra in ([], ["--reasons"]):
        result = run("plan", "checkpoints", "PROBLEM", *extra)
        assert result.exit_code == 0
        assert max(map(len, result.stdout.splitlines())) <= 80
    assert "would overload" in result.stdout
    document = json.loads(run("plan", "checkpoints", "PROBLEM", "--reasons", "--json").stdout)
    assert document["reasons"][0]["alternatives"][0]["why_not"] == "forbidden"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "best"], "must be one of"), (["--time-limit", "0"], "--time-limit = 0"),
        (["--seed", "-1"], "--seed = -1"), (["--workers", "0"], "--workers = 0"),
    ],
)  # fmt: skip
def test_bad_options_raise_an_input_error(run, arguments, message):
    result = run("plan", "checkpoints", "PROBLEM", *arguments)
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)


def test_an_existing_file_is_kept_unless_forced(run):
    assert run("plan", "checkpoints", "PROBLEM", "--out", "@plan.json").exit_code == 0
    assert isinstance(run("plan", "checkpoints", "PROBLEM", "--out", "@plan.json").exception, InputError)
    assert run("plan", "checkpoints", "PROBLEM", "--out", "@plan.json", "--force").exit_code == 0
