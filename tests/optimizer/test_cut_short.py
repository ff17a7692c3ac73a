"""Plans that a limit of time cut short say so, and claim no more than they prove: the clock strikes at many places."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from work_limits import as_much_work_as_in, clock_that_strikes_after

from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.migration_steps import MigrationSteps
from models.planning.placement import Placement
from models.planning.selection import OperatorSelection, QuerySelection, SelectionPlan
from models.planning.solution import Solution, Status
from optimizer.checkpoint_allocation import solve as solve_checkpoints
from optimizer.migration_steps import solve as solve_steps
from optimizer.placement import most_value
from optimizer.placement import solve as solve_placement
from optimizer.selection import operators as operators_module
from optimizer.selection import select_operators
from optimizer.selection import solve as solve_selection
from optimizer.verify.checkpoints import verify_checkpoints
from optimizer.verify.plans import verify_plan

PETERSEN = [(a, (a + 1) % 5) for a in range(5)] + [(a, a + 5) for a in range(5)]
PETERSEN += [(5 + a, 5 + (a + 2) % 5) for a in range(5)]


def checkpoints(nodes: int, **given: Any) -> CheckpointAllocation:
    draw = np.random.default_rng(nodes)
    load = draw.lognormal(0, 0.7, 40)
    cost = draw.random((40, nodes)) * load[:, None]
    return CheckpointAllocation(cost=cost, load=load, capacity=np.full(nodes, 1.15 * load.sum() / nodes), **given)


def queries(single: bool) -> QuerySelection:
    draw = np.random.default_rng(7)
    uses = np.argwhere(draw.random((40, 35)) < 0.12)
    worth = draw.random(35) * 100 if single else None
    return QuerySelection(draw.integers(1, 500, 40), draw.integers(1, 500, 35), uses, 3_000.0, worth)


def operators() -> OperatorSelection:
    draw = np.random.default_rng(1)
    weight = draw.integers(1, 10**6, 200)
    return OperatorSelection(weight + 10**5, weight, float(weight.sum() // 2))


def placement(**given: Any) -> Placement:
    draw = np.random.default_rng(3)
    n = 60
    return Placement(
        draw.integers(1, 20, n), np.full(20, 32), operator=np.arange(n) // 2, colour=draw.integers(0, 5, n), **given
    )


PROBLEMS: dict[str, tuple[Callable[..., Solution], Any]] = {
    "checkpoints": (solve_checkpoints, checkpoints(6)),
    "checkpoints and few moves": (solve_checkpoints, checkpoints(5, current=np.arange(40) % 5, max_moves=12)),
    "checkpoints with minima": (solve_checkpoints, checkpoints(4, capacity_min=np.full(4, 8.0))),
    "queries": (solve_selection, queries(False)),
    "queries and single operators": (solve_selection, queries(True)),
    "operators": (solve_selection, operators()),
    "colours": (solve_placement, placement()),
    "hosts": (solve_placement, placement(goal="hosts")),
    "value": (solve_placement, placement(goal="value", value=np.arange(60) % 7 + 1.0)),
    "moves": (solve_placement, placement(current=np.arange(60) % 20, max_moves=40)),
    "steps": (solve_steps, MigrationSteps(np.array(PETERSEN))),
    "a schedule": (solve_steps, MigrationSteps(np.array(PETERSEN), np.arange(15) + 1.0, np.full(10, 1.0))),
}
CLAIMED = ("status", "objective", "bound", "single_value", "single_bound", "hosts_bound")


def claims(plan: Solution) -> list[Any]:
    return [getattr(plan, name, None) for name in CLAIMED]


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_plan_that_the_clock_cut_short_says_so(name: str) -> None:
    """What differs from the plan that had all its time either names the limit or is proven to be as good."""
    solve, problem = PROBLEMS[name]
    check = verify_checkpoints if isinstance(problem, CheckpointAllocation) else verify_plan
    with as_much_work_as_in(0.05) as limit_s:
        with clock_that_strikes_after(math.inf) as clock:
            whole = solve(problem, time_limit_s=limit_s)
        assert "time limit" not in whole.note
        said = 0
        for share in (0.0, 0.6):
            with clock_that_strikes_after(int(share * clock.read)):
                plan = solve(problem, time_limit_s=limit_s)
            if "time limit struck" in plan.note:
                said += 1
            elif claims(plan) != claims(whole):
                assert plan.status is Status.OPTIMAL
                assert plan.objective == pytest.approx(whole.objective, rel=1e-9)
                assert getattr(plan, "single_bound", 0.0) == getattr(whole, "single_bound", 0.0)
            assert not plan.note.startswith("; ") and not plan.note.endswith("; ")
            assert check(problem, plan).violations == ()
    assert said or whole.status is Status.OPTIMAL


def test_a_plan_says_when_only_the_search_for_single_operators_was_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators_module, "exchanged", lambda options, level, relaxation: level)
    draw = np.random.default_rng(1)
    weight = draw.integers(1, 10**6, 3_000).astype(float)
    problem = QuerySelection([1.0], weight, [[0, 0]], float(weight.sum() // 2), weight + 10**5)
    whole = solve_selection(problem)
    with clock_that_strikes_after(0):
        plan = solve_selection(problem)
    assert (plan.status, whole.status, whole.note) == (Status.OPTIMAL, Status.OPTIMAL, "")
    assert plan.note == "single operators: the time limit struck"
    assert plan.single_value < whole.single_value <= plan.single_bound
    assert verify_plan(problem, plan).ok


def test_a_placement_says_when_only_its_bound_was_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound has a part of the time, which can be over when the whole is not."""
    problem, now = placement(goal="value", value=np.arange(60) % 7 + 1.0), [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def cut(asked: OperatorSelection, *, time_limit_s: float) -> SelectionPlan:
        now[0] += 1.01 * time_limit_s
        return replace(select_operators(asked, time_limit_s=60.0), status=Status.FEASIBLE)

    with as_much_work_as_in(0.05) as limit_s:
        assert solve_placement(problem, time_limit_s=limit_s).note == ""
        monkeypatch.setattr(most_value, "select_operators", cut)
        plan = solve_placement(problem, time_limit_s=limit_s)
    assert now[0] < limit_s
    assert plan.note == "the time limit struck, so two runs may differ"
