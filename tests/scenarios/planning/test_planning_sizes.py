"""Large files: plans as archives, costs in single precision, and the refusal of what does not fit."""

import numpy as np
import pytest

from models.errors import InputError
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation import solve
from scenarios.planning.files import needed_bytes, read_problem, read_problem_of, write_problem
from scenarios.planning.plan_files import plan_to_dict, read_plan_file, write_plan


def test_a_plan_as_an_archive_is_read_back_and_is_the_plan_of_the_json_file(tmp_path):
    problem = CheckpointAllocation(cost=np.arange(12.0).reshape(4, 3), load=np.ones(4), capacity=[2.0, 2.0, 2.0])
    document = plan_to_dict(solve(problem), problem)
    for suffix in ("json", "npz"):
        write_plan(document, tmp_path / f"plan.{suffix}")
    first, second = (read_plan_file(tmp_path / f"plan.{suffix}") for suffix in ("json", "npz"))
    assert plan_to_dict(first.plan()) == plan_to_dict(second.plan())
    assert first.gap == second.gap == document["gap"]
    with pytest.raises(InputError, match="--force"):
        write_plan(document, tmp_path / "plan.npz")


def test_a_plan_without_an_assignment_and_one_with_a_checkpoint_nowhere_survive_the_archive(tmp_path):
    for number, assignment in enumerate((None, [0, None, 1])):
        write_plan({"status": "unknown", "assignment": assignment}, tmp_path / f"{number}.npz")
        plan = read_plan_file(tmp_path / f"{number}.npz").plan()
        assert (None if plan.assignment is None else plan.assignment.tolist()) == (assignment and [0, -1, 1])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"cost": np.ones((1, 1))}, "is no plan"),
        ({"plan": np.array("{")}, "plan.npz:1: is not JSON"),
        ({"plan": np.array("[]")}, "plan.npz: must be a JSON object"),
        ({"plan": np.array('{"status": "best"}')}, "status = best"),
        ({"plan": np.array('{"status": "optimal"}'), "assignment": np.array([0.5])}, "assignment[0] = 0.5"),
        ({"plan": np.array('{"status": "optimal"}'), "assignment": np.array(3)}, "assignment = 3"),
    ],
)
def test_a_bad_archive_of_a_plan_is_one_clear_error(tmp_path, arrays, message):
    np.savez(tmp_path / "plan.npz", **arrays)
    with pytest.raises(InputError) as caught:
        read_plan_file(tmp_path / "plan.npz")
    assert message in str(caught.value)


def test_single_precision_survives_the_archive(tmp_path):
    problem = CheckpointAllocation(cost=np.ones((3, 2), dtype=np.float32), load=np.ones(3))
    write_problem(problem, tmp_path / "p.npz")
    assert read_problem(tmp_path / "p.npz").cost.dtype == np.float32


@pytest.mark.parametrize("suffix", ["npz", "json"])
def test_what_cannot_fit_is_refused_with_the_estimate_before_it_is_read(tmp_path, suffix):
    path = tmp_path / f"p.{suffix}"
    write_problem(CheckpointAllocation(cost=np.ones((300, 200), dtype=np.float32), load=np.ones(300)), path)
    needed = needed_bytes(path)
    assert needed > 250e6 + 300 * 200 * 6
    assert read_problem(path, memory_bytes=needed).n_checkpoints == 300
    with pytest.raises(InputError) as caught:
        read_problem(path, memory_bytes=0.9 * needed)
    assert "of memory" in str(caught.value)
    assert "MB may be taken" in str(caught.value)


def test_the_estimate_follows_the_head_of_the_archive_not_its_size_on_disk(tmp_path):
    for count in (100, 1000):
        np.savez_compressed(tmp_path / f"{count}.npz", cost=np.zeros((count, 1000)), load=np.ones(count))
    small, large = (needed_bytes(tmp_path / f"{count}.npz") for count in (100, 1000))
    assert large - small == pytest.approx(900 * (1000 * (8 + 2) + 8 + 2500))


def test_a_placement_that_cannot_fit_is_refused_with_the_estimate(tmp_path):
    for count in (100, 1000):
        np.savez(tmp_path / f"{count}.npz", cpu=np.ones(count), host_cpu=np.ones(10))
    small, large = (needed_bytes(tmp_path / f"{count}.npz", "placement") for count in (100, 1000))
    assert large - small == pytest.approx(900 * (8 + 1200))
    with pytest.raises(InputError, match="of memory"):
        read_problem_of("placement", tmp_path / "1000.npz", memory_bytes=small)
