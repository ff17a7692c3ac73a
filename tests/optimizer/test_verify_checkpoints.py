"""The verifier catches plans broken on purpose, one kind of break each."""

import dataclasses

import numpy as np
import pytest

from models.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from models.solution import Status
from optimizer.checkpoint_allocation import solve
from optimizer.verify import verify_checkpoints


@pytest.fixture(name="problem")
def _problem():
    return CheckpointAllocation(
        cost=[[1.0, 2.0, 3.0], [2.0, 1.0, 5.0], [4.0, 4.0, 1.0]], load=[1, 2, 1.5], capacity=[2, 2, 3],
        capacity_min=[0, 0.5, 0], forbidden=[[0, 0]], apart=[[1, 2]], current=[1, 0, 2], max_moves=1,
    )  # fmt: skip


def test_a_good_plan_passes_for_every_method(problem):
    for method in ("exact", "sensitive-first", "even"):
        plan = solve(problem, method=method)
        verdict = verify_checkpoints(problem, plan)
        assert verdict.ok == (not plan.violations)
        assert verdict.objective == plan.objective


@pytest.mark.parametrize(
    ("assignment", "kind"),
    [
        ([1, -1, 2], "unassigned"), ([1, 3, 2], "range"), ([1, -7, 2], "range"), ([0, 1, 2], "forbidden"),
        ([1, 2, 2], "apart"), ([1, 1, 2], "capacity"), ([2, 0, 2], "capacity_min"), ([2, 1, 0], "max_moves"),
        ([1, 0], "shape"),
    ],
)  # fmt: skip
def test_each_kind_of_broken_assignment_is_caught(problem, assignment, kind):
    plan = CheckpointPlan(status=Status.UNKNOWN, assignment=np.array(assignment))
    assert kind in [violation.kind for violation in verify_checkpoints(problem, plan).violations]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"objective": 4.5}, "says objective 4.5, recomputed 5.0"),
        ({"objective": None}, "without an objective"),
        ({"objective": float("nan")}, "objective is nan"),
        ({"bound": 5.5}, "above the recomputed objective"),
        ({"bound": 4.0}, "says optimal with gap 0.25"),
        ({"bound": None}, "says optimal with gap None"),
        ({"status": Status.INFEASIBLE}, "says infeasible with an assignment that breaks nothing"),
        ({"assignment": None}, "says optimal without an assignment"),
    ],
)
def test_each_kind_of_false_claim_is_caught(problem, changes, words):
    plan = solve(problem)
    assert (plan.status, plan.objective) == (Status.OPTIMAL, 5.0)
    violations = verify_checkpoints(problem, dataclasses.replace(plan, **changes)).violations
    assert any(violation.kind == "claim" and words in violation.text for violation in violations), violations
