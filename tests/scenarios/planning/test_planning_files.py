"""Planning files: round trips are identities, and every bad file is one clear error."""

import json
from pathlib import Path

import numpy as np
import pytest

from models.errors import InputError
from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from models.planning.solution import Status
from scenarios.files.write_once import write_text
from scenarios.planning.files import PROBLEM_KEYS, problem_to_dict, read_problem, write_problem
from scenarios.planning.plan_files import plan_to_dict, read_checkpoint_plan, read_plan_file

FULL = {
    "cost": [[0.1, 2.0], [-3.0, 4.5]], "load": [[1.0, 2.0], [3.0, 4.0]], "capacity": [5.0, 6.0],
    "capacity_min": [0.0, 1.0], "forbidden": [[0, 1]], "anti_affinity": [[0, 1]], "group": ["a", "b"],
    "current": [0, 1], "max_moves": 2,
}  # fmt: skip
SMALL = {"cost": [[1, 2]], "load": [1], "capacity": None, "group": None, "current": None, "max_moves": None}


@pytest.mark.parametrize("suffix", ["json", "npz"])
@pytest.mark.parametrize(
    "fields", [FULL, SMALL, {**FULL, "group": [7, 7]}, {**FULL, "forbidden": [], "anti_affinity": []}]
)
def test_what_was_written_is_read_back(tmp_path, fields, suffix):
    problem = CheckpointAllocation(**{key: value for key, value in fields.items() if value is not None})
    write_problem(problem, tmp_path / f"p.{suffix}")
    again = read_problem(tmp_path / f"p.{suffix}")
    assert problem_to_dict(again) == problem_to_dict(problem)
    assert list(problem_to_dict(again)) == list(PROBLEM_KEYS)


def test_null_and_missing_mean_the_same(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(SMALL))
    (tmp_path / "b.json").write_text('{"cost": [[1, 2]], "load": [1]}')
    assert problem_to_dict(read_problem(tmp_path / "a.json")) == problem_to_dict(read_problem(tmp_path / "b.json"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", ":1: is not JSON (expecting property name"),
        ("[]", "must be a JSON object (it is a list)"),
        ("null", "must be a JSON object (it is null)"),
        ("", "is not JSON"),
        ('{"cost": [[1]]}', "load: is missing"),
        ('{"cost": null, "load": [1]}', "cost: is missing"),
        ('{"cost": [[1]], "load": [1], "capacty": [1]}', "did you mean capacity?"),
        ('{"cost": [[1]], "load": [1], "load": [2]}', "load: is given twice"),
        ('{"cost": [[NaN]], "load": [1]}', "holds NaN, which is not a JSON number"),
        ('{"cost": [[1e999]], "load": [1]}', "cost[0][0] = 1e999"),
        ('{"cost": [["1"]], "load": [1]}', "cost[0][0] = 1: must be a number"),
        ('{"cost": {"a": 1}, "load": [1]}', "cost: must hold numbers"),
        ('{"cost": [[1]], "load": [1], "max_moves": "2", "current": [0]}', "max_moves = 2"),
        ('{"cost": ' + "[" * 5000 + "]" * 5000 + "}", "is no readable JSON"),
        ('{"cost": [[' + "9" * 5000 + ']], "load": [1]}', "is no readable JSON"),
    ],
)
def test_a_bad_json_file_is_one_clear_error(tmp_path, text, message):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(InputError) as caught:
        read_problem(tmp_path / "p.json")
    assert message in str(caught.value)


def test_a_missing_file_a_folder_a_wrong_suffix_and_binary_text_are_named(tmp_path):
    (tmp_path / "d.json").mkdir()
    (tmp_path / "x.json").write_bytes(b"\xff\xfe\x00")
    for name, message in (
        ("none.json", "no such file"), ("none.npz", "no such file"), ("d.json", "is a directory"),
        ("p.toml", "must end in .json or .npz"), ("x.json", ":1: is not text in UTF-8"),
    ):  # fmt: skip
        with pytest.raises(InputError) as caught:
            read_problem(tmp_path / name)
        assert message in str(caught.value)


def test_pickled_broken_and_single_array_files_are_refused(tmp_path):
    np.savez(tmp_path / "pickled.npz", cost=np.array([{}], dtype=object), load=np.ones(1))
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 nothing")
    (tmp_path / "text.npz").write_text("cost")
    with (tmp_path / "single.npz").open("wb") as file:
        np.save(file, np.ones(3))
    for name, message in (
        ("pickled", "pickled objects"), ("broken", "is broken"), ("text", "NPZ"), ("single", "single array"),
    ):  # fmt: skip
        with pytest.raises(InputError) as caught:
            read_problem(tmp_path / f"{name}.npz")
        assert message in str(caught.value)


def test_unknown_arrays_of_an_npz_name_the_nearest_key(tmp_path):
    np.savez(tmp_path / "p.npz", cost=np.ones((1, 1)), load=np.ones(1), forbiden=np.zeros((0, 2)))
    with pytest.raises(InputError, match="did you mean forbidden"):
        read_problem(tmp_path / "p.npz")


def test_nothing_is_overwritten_without_being_told(tmp_path):
    write_text(tmp_path / "a.json", "1")
    with pytest.raises(InputError, match="--force"):
        write_text(tmp_path / "a.json", "2")
    write_text(tmp_path / "a.json", "3", force=True)
    assert (tmp_path / "a.json").read_text() == "3"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    with pytest.raises(InputError, match="folder does not exist"):
        write_text(tmp_path / "no" / "a.json", "1")


def test_a_plan_has_the_agreed_keys_and_never_nan(tmp_path):
    plan = CheckpointPlan(status=Status.FEASIBLE, objective=float("nan"), wall_s=0.5, assignment=np.array([1, -1]))
    written = plan_to_dict(plan)
    assert list(written)[:6] == ["status", "objective", "bound", "gap", "wall_s", "assignment"]
    assert written["objective"] is None
    assert written["assignment"] == [1, None]
    (tmp_path / "plan.json").write_text(json.dumps(written, allow_nan=False))
    again = read_checkpoint_plan(tmp_path / "plan.json")
    assert (again.status, again.objective, again.assignment.tolist()) == (Status.FEASIBLE, None, [1, -1])


def test_the_gap_that_a_file_claims_is_read_beside_the_plan(tmp_path):
    (tmp_path / "plan.json").write_text('{"status": "feasible", "objective": 3, "bound": 2, "gap": 0.7}')
    stated = read_plan_file(tmp_path / "plan.json")
    assert (stated.plan().gap, stated.gap) == (0.5, 0.7)
    (tmp_path / "plan.json").write_text('{"status": "unknown"}')
    assert read_plan_file(tmp_path / "plan.json").gap is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"status": "best"}', "status = best"),
        ('{"status": "optimal", "objective": "1"}', "objective = 1"),
        ('{"status": "optimal", "gap": "0"}', "gap = 0"),
        ('{"status": "optimal", "bound": 1' + "0" * 400 + "}", "bound = 1000"),
        ('{"status": "optimal", "assignment": [0.5]}', "assignment[0] = 0.5"),
        ('{"status": "optimal", "assignment": 3}', "assignment = 3"),
    ],
)
def test_a_bad_plan_file_is_named(tmp_path, text, message):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(InputError) as caught:
        read_checkpoint_plan(tmp_path / "plan.json")
    assert message in str(caught.value)


@pytest.mark.parametrize("damage", ["encrypted", "unknown packing", "bits"])
def test_an_archive_that_cannot_be_unpacked_is_bad_input(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "problem.npz"
    np.savez_compressed(path, cost=np.arange(4000.0).reshape(200, 20), load=np.ones(200))
    content = bytearray(path.read_bytes())
    if damage == "bits":
        content[200:260] = bytes(60)
    else:
        offsets = {b"PK\x03\x04": 6, b"PK\x01\x02": 8}  # of flags; the method of packing follows
        for mark, flags in offsets.items():
            at = content.find(mark)
            while at >= 0:
                content[at + flags + (0 if damage == "encrypted" else 2)] = 1 if damage == "encrypted" else 77
                at = content.find(mark, at + 4)
    path.write_bytes(content)
    with pytest.raises(InputError, match="is broken"):
        read_problem(path)


@pytest.mark.parametrize(("key", "hint"), [("apart", ""), ("anti_afinity", " (did you mean anti_affinity?)")])
def test_an_unknown_key_names_another_only_where_it_may_be_a_slip_of_it(tmp_path, key, hint):
    (tmp_path / "p.json").write_text(json.dumps({"cost": [[1, 2]], "load": [1], key: []}))
    with pytest.raises(InputError) as caught:
        read_problem(tmp_path / "p.json")
    assert str(caught.value) == f"{key}: is not a key of a checkpoint problem{hint}"
