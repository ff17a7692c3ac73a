"""Numbers that no file may hold, in the place of each number of each kind of problem and plan: one error each."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from test_altered_plans import CASES, at, leaves, plan_app, planned, verify, with_other
from typer.testing import CliRunner

from models.errors import InputError

INFINITE = ("1e400", "-1e400")
FINITE = ("1e308", "-1e308", "1e-320", "1" + "0" * 400)
MARK = "a number"
APP = typer.Typer()
APP.add_typer(plan_app, name="plan")
APP.command()(verify)


def numbers(document: Any) -> list[tuple[Any, ...]]:
    """The path of every number, of lists that of the first."""
    found = ((path, at(document, path)) for path in leaves(document))
    return [path for path, value in found if isinstance(value, (int, float)) and not isinstance(value, bool)]


def tried(document: Any, every: bool) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Each place of a number with every number, or with an infinite and a finite one, which take turns."""
    for turn, path in enumerate(numbers(document)):
        some = (INFINITE[turn % len(INFINITE)], FINITE[turn % len(FINITE)])
        for number in (*INFINITE, *FINITE) if every else some:
            yield path, number


def with_number(document: Any, path: tuple[Any, ...], number: str) -> str:
    """The text of a document with a number that Python would not write."""
    return json.dumps(with_other(document, path, MARK)).replace(json.dumps(MARK), number)


def asked(*words: str) -> BaseException | None:
    """What a command raises; a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return CliRunner().invoke(APP, list(words) if words[0] == "verify" else ["plan", *words]).exception


some_or_every = pytest.mark.parametrize(
    "every", [pytest.param(False, id="some"), pytest.param(True, id="every", marks=pytest.mark.slow)]
)


@some_or_every
@pytest.mark.parametrize("case", [case for case, (_, problem) in CASES.items() if problem is not None])
def test_no_number_of_a_problem_is_infinite_or_ends_in_a_traceback(tmp_path: Path, case: str, every: bool) -> None:
    words, problem = CASES[case]
    file = tmp_path / "problem.json"
    for path, number in tried(problem, every):
        file.write_text(with_number(problem, path, number))
        error = asked(words[0], str(file), *words[1:])
        assert isinstance(error, InputError | SystemExit | None), (path, number)
        if number in INFINITE:
            assert isinstance(error, InputError), (path, number)
            assert str(path[0]) in error.faults[0].path


@some_or_every
@pytest.mark.parametrize("case", CASES)
def test_no_number_of_a_plan_is_infinite_or_ends_in_a_traceback(tmp_path: Path, case: str, every: bool) -> None:
    plan_file, problem_file, document = planned(tmp_path, case)
    for path, number in tried(document, every):
        plan_file.write_text(with_number(document, path, number))
        error = asked("verify", str(plan_file), str(problem_file))
        assert isinstance(error, InputError | SystemExit | None), (path, number)
        if number in INFINITE:
            refused = isinstance(error, InputError) or (isinstance(error, SystemExit) and error.code == 4)
            assert refused, (path, number)
        if number in INFINITE and len(path) <= 2 and "checkpoints" in case:
            assert isinstance(error, InputError), (path, number)
            assert error.faults[0].path == path[0] + "".join(f"[{k}]" for k in path[1:])


def test_prices_that_overflow_prove_nothing(tmp_path: Path) -> None:
    problem, plan = tmp_path / "problem.json", tmp_path / "plan.json"
    n_checkpoints, n_nodes = 200, 30
    dear = [k % n_nodes for k in range(n_checkpoints)]
    costs = [[float(node == dear[0] and k == 0) for node in range(n_nodes)] for k in range(n_checkpoints)]
    problem.write_text(json.dumps({"cost": costs, "load": [1e99] * n_checkpoints, "capacity": [1e100] * n_nodes}))
    claim = {"status": "optimal", "objective": 1.0, "bound": 1.0, "assignment": dear, "prices": [1e210] * n_nodes}
    plan.write_text(json.dumps(claim))
    error = asked("verify", str(plan), str(problem))
    assert isinstance(error, SystemExit)
    assert error.code == 4


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("selection", {"value": [1e100, 1e100], "weight": [1, 1], "capacity": 3}),
        (
            "queries",
            {"value": [1e100] * 2, "weight": [1e100, 1e99], "uses": [[0, 0], [1, 1]], "capacity": 1e100},
        ),
        ("steps", {"moves": [[0, 1], [0, 2]], "size_bytes": [1e100, 1e100], "link_bytes_per_s": [1, 1, 1]}),
        ("placement", {"cpu": [1, 1], "host_cpu": [1, 1], "goal": "value", "value": [1e100, 1e100]}),
        ("checkpoints", {"cost": [[1e100, 1e99]] * 2, "load": [1e-100] * 2, "capacity": [1e-100] * 2}),
    ],
)
def test_sums_of_the_largest_numbers_are_read_again(tmp_path: Path, kind: str, problem: dict[str, Any]) -> None:
    file, plan = tmp_path / "problem.json", tmp_path / "plan.json"
    file.write_text(json.dumps(problem))
    assert asked(kind, str(file), "--out", str(plan)) is None
    assert asked("verify", str(plan), str(file)) is None


def test_an_archive_of_a_plan_holds_numbers_as_its_document_does(tmp_path: Path) -> None:
    problem, plan = tmp_path / "problem.json", tmp_path / "plan.npz"
    problem.write_text(json.dumps(CASES["checkpoints"][1]))
    for text, rule in (
        ('{"status": "optimal", "wall_s": NaN}', "not a JSON number"),
        ('{"status": "optimal", "wall_s": 1e400}', "plan: wall_s = 1e400: must be a finite number"),
        ('{"status": "optimal", "status": "unknown"}', "given twice"),
        ("[" * 100_000, "too deep"),
        ("[]", "must be a JSON object"),
    ):
        np.savez(plan, plan=np.array(text), assignment=np.array([0, 1, 2]))
        error = asked("verify", str(plan), str(problem))
        assert isinstance(error, InputError)
        assert rule in str(error)
    for name in ("prices", "multipliers", "node_loads"):
        np.savez(plan, plan=np.array('{"status": "unknown"}'), **{name: np.array([1.0, np.nan, np.inf])})
        assert f"{name}[1] = nan" in str(asked("verify", str(plan), str(problem)))
