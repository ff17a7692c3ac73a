"""Where a plan is written: what cannot be meant is refused before any work, and nothing that is there is lost."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from test_altered_plans import CASES, QUERIES
from typer.testing import CliRunner

from holdfast.commands.fleet import fleet
from holdfast.commands.plan import app
from models.errors import InputError, InputFault

KINDS = ["checkpoints", "selection", "queries", "steps", "placement", "interval", "replicas"]


def refusal(*words: object) -> InputFault:
    """The one fault for which a command is refused."""
    error = CliRunner().invoke(app, [str(word) for word in words]).exception
    assert isinstance(error, InputError)
    (fault,) = error.faults
    return fault


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["plan.npz", "plan.txt", "plan", "plan.JSON"])
def test_a_plan_is_not_written_into_a_file_named_as_if_it_were_something_else(
    tmp_path: Path, kind: str, name: str
) -> None:
    out = tmp_path / name
    words = (kind, tmp_path / "none.json", "--out", out, "--force")
    if (kind, name) == ("checkpoints", "plan.npz"):
        assert refusal(*words).path == str(tmp_path / "none.json")
        return
    fault = refusal(*words)
    suffixes = ".json or .npz" if kind == "checkpoints" else ".json"
    assert (fault.path, fault.value, fault.rule) == ("--out", str(out), f"must end in {suffixes}")
    assert fault.hint
    assert not out.exists()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "replicas"])
def test_a_plan_does_not_take_the_place_of_its_problem(tmp_path: Path, kind: str) -> None:
    problem = tmp_path / "problem.json"
    problem.write_text(json.dumps(CASES[kind][1]))
    (tmp_path / "link").symlink_to(tmp_path)
    before = problem.read_bytes()
    for out in (problem, tmp_path / "link" / "problem.json", tmp_path / "." / "problem.json"):
        fault = refusal(kind, problem, "--out", out, "--force")
        assert (fault.path, fault.rule) == ("--out", "is the problem itself")
        assert problem.read_bytes() == before


@pytest.mark.parametrize("name", ["pipe.npz", "pipe.json", "pipe.toml"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_pipe_is_refused_where_a_file_is_wanted(tmp_path: Path, kind: str, name: str) -> None:
    pipe = tmp_path / name
    os.mkfifo(pipe)
    assert refusal(kind, pipe).rule in ("is not a plain file", "must end in .toml", "must end in .json or .npz")


def test_a_link_to_the_problem_may_be_replaced(tmp_path: Path) -> None:
    problem, link = tmp_path / "problem.json", tmp_path / "link.json"
    problem.write_text(json.dumps(CASES["steps"][1]))
    link.symlink_to(problem)
    assert CliRunner().invoke(app, ["steps", str(problem), "--out", str(link), "--force"]).exception is None
    assert json.loads(problem.read_text()) == CASES["steps"][1]
    assert json.loads(link.read_text())["kind"] == "steps"


def test_a_page_and_a_plan_of_replicas_are_two_files(tmp_path: Path) -> None:
    both = tmp_path / "both.html"
    fault = refusal("replicas", QUERIES, "--out", both, "--report", both)
    assert (fault.path, fault.rule) == ("--out", "must end in .json")


@pytest.mark.parametrize("inside", [".", "page.html"])
def test_a_page_of_fleets_is_not_in_the_directory_that_is_made_anew(tmp_path: Path, inside: str) -> None:
    out = tmp_path / "out.html"
    with pytest.raises(InputError) as raised:
        fleet(tmp_path / "none.toml", out=out, report=out / inside)
    (fault,) = raised.value.faults
    assert (fault.path, fault.rule) == ("--report", "is in the directory of --out")
