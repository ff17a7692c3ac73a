"""Each field of each kind of plan file, altered in turn: `verify` refuses it, or it is named here as harmless."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from holdfast.commands.plan import app as plan_app
from holdfast.commands.verify import verify
from models.errors import InputError

QUERIES = Path(__file__).parents[2] / "examples" / "queries.toml"
COSTS = {"cost": [[4.0, 1.0, 3.0], [2.0, 0.5, 5.0], [3.0, 2.5, 2.0]], "load": [1.0, 1.0, 1.0]}
TIGHT = COSTS | {"capacity": [1.0, 1.0, 1.0], "forbidden": [[0, 2]], "anti_affinity": [[0, 1]]}
PACKED = {"cpu": [3, 3, 2, 2], "host_cpu": [6, 6, 6], "operator": [0, 0, 1, 2], "colour": [0, 1, 0, 1]}
STREAM = {"checkpoint_s": 2.0, "mtbf_s": 3600.0, "restart_s": 30.0, "utilisation": 0.6, "rate_per_s": 1000.0}
CHOSEN = {
    "value": [6, 5, 4],
    "weight": [4, 3, 3, 2],
    "uses": [[0, 0], [0, 1], [1, 1], [1, 2], [2, 3]],
    "capacity": 8,
    "operator_value": [1, 2, 1, 1],
}
CASES: dict[str, tuple[tuple[str, ...], dict[str, Any] | None]] = {
    "checkpoints": (("checkpoints", "--reasons"), TIGHT),
    "checkpoints, none": (("checkpoints",), COSTS | {"capacity": [1.0, 1.0, 0.5]}),
    "selection": (("selection", "--reasons"), {"value": [6, 5, 4, 3], "weight": [4, 3, 3, 2], "capacity": 7}),
    "queries": (("queries", "--reasons"), CHOSEN),
    "steps": (("steps",), {"moves": [[0, 1], [0, 2], [1, 2], [3, 2]]}),
    "steps, sizes": (
        ("steps",),
        {"moves": [[0, 1], [0, 2], [1, 2]], "size_bytes": [1e6, 2e6, 4e6], "link_bytes_per_s": [1e6, 2e6, 1e6]},
    ),
    "placement": (("placement", "--reasons"), PACKED | {"current": [0, 1, 0, 2], "max_moves": 2}),
    "placement, hosts": (("placement",), PACKED | {"goal": "hosts"}),
    "placement, value": (("placement",), PACKED | {"goal": "value", "value": [5, 4, 3, 1], "host_cpu": [5, 3, 1]}),
    "placement, none": (("placement",), {"cpu": [1, 4, 1, 4, 4], "host_cpu": [5, 5], "goal": "hosts"}),
    "interval": (("interval",), {"checkpoint_s": 5.0, "mtbf_s": 3600.0, "restart_s": 400.0}),
    "interval, target": (("interval",), STREAM | {"recovery_target_s": 300.0}),
    "interval, none": (("interval",), STREAM | {"recovery_target_s": 40.0}),
    "interval, unsteady": (("interval",), STREAM | {"checkpoint_s": 600.0, "utilisation": 0.9}),
    "replicas": (("replicas", "--importance", "product", "--placement", "coloured"), None),
}
WORDS = {"wall_s", "note"}
"""How a plan came about: nothing that follows from problem and answer."""
PROOFS = {"prices", "split"}
"""What the bound may be proven by: altered, the bound is proven otherwise, or said not to be checked."""
HARMLESS = {
    "placement": {"reason"},  # says by which count; the verdict names its own
    "placement, hosts": {"reason"},
    "placement, value": {"reason"},
    "placement, none": {"reason"},
    "queries": {"single_bound"},  # a higher bound says less
    "replicas": {"bound", "instances", "max_level"},  # a bound of -1, a host that is as good, and what is said below
}
NEEDED = {"status", "level", "queries", "operators", "host", "interval_s", "instances", "assignment", "objective", "p"}
"""What an answer cannot do without; all else states nothing when it is null or left out."""


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every field, of lists that of the first: objects and lists before what is in them."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, each in inner:
        yield from leaves(each, (*path, key))


def others(value: Any) -> list[Any]:
    """What may stand in the place of a value and is not the same."""
    if isinstance(value, bool):
        return [not value, 2, "x"]
    if isinstance(value, (int, float)):
        more = value * 1.01 if value else 1e-3
        return [value + 1, more, -value if value else -1, math.nan, "x", True, 10**400]
    if isinstance(value, str):
        return [value + "x", 5, ["x"]]
    if isinstance(value, list):
        return [5, "x", [*value, *value[-1:]], value[:-1], {"a": 1}]
    return [5, "x", {}] if isinstance(value, dict) else [1, -1, "x", [1], True]


def with_other(document: Any, path: tuple[Any, ...], other: Any) -> Any:
    """A copy with another value at a path; without the field for `...`."""
    changed = here = copy.deepcopy(document)
    for key in path[:-1]:
        here = here[key]
    if other is ...:
        del here[path[-1]]
    else:
        here[path[-1]] = other
    return changed


def at(document: Any, path: tuple[Any, ...]) -> Any:
    return at(document[path[0]], path[1:]) if path else document


def planned(folder: Path, case: str) -> tuple[Path, Path, Any]:
    """The files of plan and problem of a case, and the plan."""
    words, problem = CASES[case]
    problem_file, plan_file = QUERIES, folder / "plan.json"
    if problem is not None:
        problem_file = folder / "problem.json"
        problem_file.write_text(json.dumps(problem))
    CliRunner().invoke(plan_app, [words[0], str(problem_file), *words[1:], "--out", str(plan_file)])
    return plan_file, problem_file, json.loads(plan_file.read_text())


def refused(plan_file: Path, problem_file: Path) -> bool:
    """Whether verify refuses a plan, and says why: as bad input, or with violations."""
    out, code = io.StringIO(), 0
    with contextlib.redirect_stdout(out):
        try:
            verify(plan_file, problem_file, json=True)
        except InputError as error:
            return bool(error.faults)
        except typer.Exit as left:
            code = left.exit_code
    verdict = json.loads(out.getvalue())
    assert (code == 0) == (verdict["ok"] is True)
    return code == 4 and (verdict["ok"] is None or bool(verdict["violations"]))


@pytest.mark.parametrize("case", CASES)
def test_no_field_of_a_plan_is_taken_unverified(tmp_path, case):
    plan_file, problem_file, document = planned(tmp_path, case)
    assert not refused(plan_file, problem_file)
    unverified = set()
    for path in leaves(document):
        for other in others(at(document, path)):
            if other == at(document, path) and other is not True:
                continue
            plan_file.write_text(json.dumps(with_other(document, path, other)))
            if not refused(plan_file, problem_file):
                unverified.add(path[0])
    assert unverified - WORDS - PROOFS <= HARMLESS.get(case, set())


@pytest.mark.parametrize("case", CASES)
def test_a_plan_without_its_answer_is_refused(tmp_path, case):
    plan_file, problem_file, document = planned(tmp_path, case)
    for name in NEEDED & {key for key, value in document.items() if value is not None}:
        for other in (None, ...):
            plan_file.write_text(json.dumps(with_other(document, (name,), other)))
            figure = case == "replicas" and name in ("operators", "queries")
            assert refused(plan_file, problem_file) != figure, name


SETTINGS = {
    "p": ("--p", "0.03"),
    "goal": ("--goal", "worst"),
    "budget": ("--budget", "0.5"),
    "max_level": ("--level", "2"),
}
"""Of the question that a plan of replicas answers, with the option that sets each."""


@pytest.mark.parametrize("name", SETTINGS)
def test_a_question_that_is_not_the_one_of_the_problem_is_said_to_be_unverified(tmp_path, capsys, name):
    file = tmp_path / "plan.json"
    for words in ((), SETTINGS[name]):
        CliRunner().invoke(plan_app, ["replicas", str(QUERIES), *words, "--out", str(file), "--force"])
        verify(file, QUERIES, json=True)
        verdict = json.loads(capsys.readouterr().out)
        assert verdict["ok"]
        said = [text for text in verdict["assumed"] if text.startswith(f"that {name} ")]
        assert len(said) == bool(words)


def test_a_level_that_a_plan_of_replicas_did_not_have_is_noticed(tmp_path, capsys):
    file, _, document = planned(tmp_path, "replicas")
    file.write_text(json.dumps(document | {"max_level": 2}))
    verify(file, QUERIES, json=True)
    assert (
        "that max_level 2 was asked for, where the problem alone has 1"
        in json.loads(capsys.readouterr().out)["assumed"]
    )


def test_a_plan_of_replicas_cannot_get_rid_of_the_budget_of_the_problem(tmp_path):
    file = tmp_path / "plan.json"
    CliRunner().invoke(plan_app, ["replicas", str(QUERIES), "--budget", "5", "--level", "2", "--out", str(file)])
    assert not refused(file, QUERIES)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"budget": None, "capacity": None}))
    assert refused(file, QUERIES)


def test_the_plans_that_a_plan_of_replicas_was_compared_with_are_no_claim_of_it(tmp_path, capsys):
    file, _, document = planned(tmp_path, "replicas")
    assert "compared" not in document
    file.write_text(json.dumps(document | {"compared": 3}))
    verify(file, QUERIES, json=True)
    assert "what else it states (compared)" in json.loads(capsys.readouterr().out)["assumed"]


@pytest.mark.parametrize("case", CASES)
def test_a_key_that_plans_of_the_kind_do_not_have_is_refused_with_the_one_it_is_near_to(tmp_path, case):
    plan_file, problem_file, document = planned(tmp_path, case)
    plan_file.write_text(json.dumps(document | {"left_out": 0, "objectives": 3}))
    kind = document.get("kind", "checkpoints")
    with pytest.raises(InputError) as caught:
        verify(plan_file, problem_file)
    assert [str(fault) for fault in caught.value.faults] == [
        f"left_out: is not a key of a plan of {kind}",
        f"objectives: is not a key of a plan of {kind} (did you mean objective?)",
    ]
