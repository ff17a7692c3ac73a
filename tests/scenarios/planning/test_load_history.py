"""Problem files with measured loads in place of costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.cli import main
from models.errors import InputError
from scenarios.planning.files import read_problem


def history(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    load = rng.uniform(0.1, 0.3, (12, 1)) * (1 + 0.2 * rng.standard_normal((1, 40))) + 0.01
    return {"load": load.tolist(), "host": (np.arange(12) % 3).tolist(), "speed": [1.0, 1.0, 1.0, 0.5], "theta": 0.8}


def write(path: Path, **changed: object) -> Path:
    path.write_text(json.dumps({"history": history() | changed}))
    return path


def test_the_method_decides_what_is_minimised(tmp_path: Path) -> None:
    file = write(tmp_path / "history.json")
    paper, expected = read_problem(file, "exact"), read_problem(file, "expected-usable")
    assert paper.cost.shape == expected.cost.shape == (12, 4)
    assert (paper.load == expected.load).all()
    assert (expected.cost >= 0).all() and (expected.cost <= 1).all()
    assert paper.cost[:, 3].max() == 0.0  # nobody is there: no correlation


def test_arrays_of_an_npz_file_are_the_same_history(tmp_path: Path) -> None:
    own = history()
    np.savez(tmp_path / "history.npz", **{f"history.{key}": np.array(value) for key, value in own.items()})
    one = read_problem(tmp_path / "history.npz", "expected-usable")
    other = read_problem(write(tmp_path / "history.json"), "expected-usable")
    assert (one.cost == other.cost).all()


@pytest.mark.parametrize("method", ["expected-usable", "exact", "sensitive-first", "even"])
def test_a_plan_can_be_verified(tmp_path: Path, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    problem, plan = str(write(tmp_path / "history.json")), str(tmp_path / "plan.json")
    with pytest.raises(SystemExit) as left:
        main(["plan", "checkpoints", problem, "--method", method, "--out", plan, "--json"])
    assert not left.value.code
    assert json.loads(capsys.readouterr().out)["method"] == method
    with pytest.raises(SystemExit) as left:
        main(["verify", plan, problem])
    assert not left.value.code
    assert "the plan holds" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["expected-usable", "exact", "sensitive-first", "even", "baseline"])
@pytest.mark.parametrize(
    ("group", "message"),
    [
        (5, r"history\.group = 5: must be a list"),
        ("abc", r"history\.group = abc: must be a list"),
        ({"a": 1}, r"history\.group = .*: must be a list"),
        (["a"], r"history\.group = 1 entries: must have 12"),
        ([["a"]] * 12, r"history\.group\[0\] = \['a'\]: must be a text"),
        ([None] * 12, r"history\.group\[0\] = None: must be a text"),
        (["a"] * 11 + [1.5], r"history\.group\[11\] = 1\.5: must be a text"),
        ([True] * 12, r"history\.group\[0\] = true: must be a text"),
    ],
)
def test_groups_that_are_none_are_one_clear_error(tmp_path: Path, group: object, message: str, method: str) -> None:
    with pytest.raises(InputError, match=message):
        read_problem(write(tmp_path / "history.json", group=group), method)


@pytest.mark.parametrize("method", ["expected-usable", "exact", "even"])
def test_groups_are_texts_or_numbers(tmp_path: Path, method: str) -> None:
    for group in ([k % 2 for k in range(12)], ["a", "b"] * 6):
        found = read_problem(write(tmp_path / "history.json", group=group), method).group
        assert found is not None
        assert len(found) == 12


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"history": 3}, "history = 3: must be an object"),
        ({"history": history(), "cost": [[1]]}, "cost: stands beside a history"),
        ({"history": {"load": [[1, 2]]}}, "history.host: is missing"),
        (
            {"history": history() | {"speeds": 1}},
            r"history\.speeds: is not a key of a history \(did you mean speed\?\)",
        ),
        ({"history": history() | {"theta": -1}}, r"history\.theta = -1: must be a positive number"),
        ({"history": history() | {"seed": 1.5}}, r"history\.seed = 1\.5"),
        ({"history": history() | {"host": [9] * 12}}, "history.host"),
        ({"cost": [[1, 2]], "load": [1]}, "history: is missing: expected-usable minimises"),
    ],
)
def test_bad_files_are_one_clear_error(tmp_path: Path, document: object, message: str) -> None:
    file = tmp_path / "history.json"
    file.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message):
        read_problem(file, "expected-usable")
