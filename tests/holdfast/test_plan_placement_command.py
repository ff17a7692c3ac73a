"""`plan placement`: files, running placements, reasons, and what is said of problems without an answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from holdfast.commands.plan import app as plan_app
from holdfast.commands.verify import verify
from models.errors import InputError

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "placement.toml")

app = typer.Typer()
app.add_typer(plan_app, name="plan")
app.command()(verify)


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def written(folder, **problem):
    path = folder / "problem.json"
    path.write_text(json.dumps(problem))
    return path


def test_the_example_has_one_query_on_a_host_and_verifies(tmp_path):
    plan = tmp_path / "plan.json"
    done = run("plan", "placement", EXAMPLE, "--out", plan)
    assert done.exit_code == 0
    assert "optimal" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    checked = json.loads(run("verify", plan, EXAMPLE, "--json").stdout)
    assert (checked["ok"], checked["objective"], checked["not_checked"]) == (True, 1.0, [])


def test_a_plan_from_a_running_one_moves_no_more_than_it_may(tmp_path):
    first = tmp_path / "first.json"
    run("plan", "placement", EXAMPLE, "--method", "best-fit", "--out", first)
    running = json.loads(first.read_text())["host"]
    done = run("plan", "placement", EXAMPLE, "--from", first, "--max-moves", 1, "--json")
    plan = json.loads(done.stdout)
    moved = sum(a not in (-1, b) for a, b in zip(running, plan["host"], strict=True))
    assert (done.exit_code, plan["moves"], moved) == (0, 1, 1)


def test_a_plan_from_a_running_one_is_checked_from_there(tmp_path):
    first, after = tmp_path / "first.json", tmp_path / "after.json"
    run("plan", "placement", EXAMPLE, "--method", "best-fit", "--out", first)
    run("plan", "placement", EXAMPLE, "--from", first, "--max-moves", 1, "--reasons", "--out", after)
    assert run("verify", after, EXAMPLE, "--from", first, "--max-moves", 1).exit_code == 0
    fewer = run("verify", after, EXAMPLE, "--from", first, "--max-moves", 0)
    assert fewer.exit_code == 4
    assert "moves" in fewer.stdout


def test_what_cannot_be_placed_exits_three_and_names_the_instances(tmp_path):
    path = written(tmp_path, cpu=[1, 4, 1, 4, 4], host_cpu=[5, 5], goal="hosts")
    done = run("plan", "placement", path, "--json")
    plan = json.loads(done.stdout)
    assert (done.exit_code, plan["status"], plan["infeasible_set"]) == (3, "infeasible", [1, 3, 4])


def test_first_fit_that_leaves_something_out_exits_four_and_says_so(tmp_path):
    done = run("plan", "placement", EXAMPLE, "--method", "first-fit")
    assert done.exit_code == 4
    assert "first-fit leaves 1 out" in done.stderr


def test_reasons_name_what_another_host_lacks(tmp_path):
    path = written(tmp_path, cpu=[3, 3], host_cpu=[4, 4], operator=[0, 0])
    document = json.loads(run("plan", "placement", path, "--reasons", "--json").stdout)
    assert document["reasons"][0]["elsewhere"][0]["why_not"] == "instance 1 of its operator is on that host"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "fast"], "method = fast: must be one of exact, first-fit, best-fit"),
        (["--max-moves", "1"], "counts moves from a running placement"),
        (["--time-limit", "0"], "--time-limit = 0.0"),
    ],
)
def test_bad_options_raise_an_input_error(options, message):
    done = run("plan", "placement", EXAMPLE, *options)
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)


def test_a_broken_toml_file_is_refused_with_its_line(tmp_path):
    path = tmp_path / "problem.toml"
    path.write_text("cpu = [1]\nhost_cpu = [1\n")
    done = run("plan", "placement", path)
    assert isinstance(done.exception, InputError)
    assert "problem.toml" in str(done.exception)
