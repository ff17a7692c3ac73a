"""Every solver on tiny problems that are made to mislead it: what it claims, against everything that is possible."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache
from typing import Any

import degenerate_instances as degenerate
import numpy as np
import pytest

from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import OPTIMAL_GAP, Solution, Status
from optimizer.checkpoint_allocation import solve as solve_checkpoints
from optimizer.migration_steps import solve as solve_steps
from optimizer.selection import solve as solve_selection
from optimizer.verify.checkpoints import verify_checkpoints
from optimizer.verify.plans import verify_plan

KINDS: dict[str, tuple[Any, Any, Any, Any, int]] = {
    "allocation": (degenerate.allocation, degenerate.true_allocation, solve_checkpoints, verify_checkpoints, 1),
    "selection": (degenerate.selection, degenerate.true_selection, solve_selection, verify_plan, -1),
    "queries": (degenerate.queries, degenerate.true_queries, solve_selection, verify_plan, -1),
    "steps": (degenerate.steps, degenerate.true_steps, solve_steps, verify_plan, 1),
}


def check(best: Fraction | None, plan: Solution, sign: int) -> None:
    """What a plan claims of a problem whose best value is known; bounds may be rounded as the best value is."""
    if best is None:
        assert plan.status is Status.INFEASIBLE
        return
    assert plan.status is Status.OPTIMAL
    rounded = Fraction(float(best))
    assert sign * (Fraction(plan.bound) - rounded) <= 0
    assert sign * (Fraction(plan.objective) - best) >= -abs(best) * Fraction(2) ** -50  # a schedule adds up in float64
    assert abs(Fraction(plan.objective) - best) <= Fraction(OPTIMAL_GAP) * abs(Fraction(plan.bound))


def campaign(kind: str, seeds: range) -> Counter[str]:
    """How many plans have each status, after all are checked against the truth and by the verifier."""
    make, truth, solve, verify, sign = KINDS[kind]
    met: Counter[str] = Counter()
    for seed in seeds:
        problem = make(seed)
        plan = solve(problem)
        check(truth(problem).best, plan, sign)
        verdict = verify(problem, plan, gap=plan.gap)
        assert (verdict.violations, verdict.not_checked) == ((), ()), seed
        met[plan.status] += 1
    return met


@pytest.mark.parametrize("kind", KINDS)
def test_of_degenerate_instances_every_claim_is_true_and_verified(kind):
    met = campaign(kind, range(40))
    assert met[Status.OPTIMAL] >= 10
    assert kind != "allocation" or met[Status.INFEASIBLE] >= 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_of_very_many_degenerate_instances_every_claim_is_true_and_verified(kind):
    assert sum(campaign(kind, range(1_000, 11_000)).values()) == 10_000


@pytest.mark.parametrize("kind", KINDS)
def test_a_false_claim_about_a_degenerate_instance_is_refuted(kind):
    """Of a better bound, of a worse answer that is called optimal: the verifier finds it or says it did not look."""
    make, truth, solve, verify, sign = KINDS[kind]
    refuted = 0
    for seed in range(30):
        problem = make(seed)
        plan = solve(problem)
        best = truth(problem).best
        if plan.status is not Status.OPTIMAL or not plan.bound or best is None:
            continue
        false = type(plan)(**{**_fields(plan), "bound": plan.bound + sign * abs(plan.bound) / 2})
        verdict = verify(problem, false)
        assert not verdict.ok
        refuted += 1
    assert refuted >= 5


def _fields(plan: Solution) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in plan.__dataclass_fields__}


def test_the_degenerate_instances_are_what_they_are_said_to_be():
    """The oracles meet equal values, capacities that some weights meet to the last bit, and numbers far apart."""
    problems = [degenerate.selection(seed) for seed in range(300)]
    ties = sum(len(np.unique(p.value)) < p.value.size for p in problems)
    met = sum(p.capacity in p.weight or p.capacity == p.weight.sum() for p in problems)
    far = sum(p.weight.max() > 1e20 * max(p.weight[p.weight > 0].min(initial=np.inf), 1e-300) for p in problems)
    assert min(ties, met, far) > 15, (ties, met, far)


@cache
def plans_at(scale: float) -> tuple[Solution, Solution]:
    """Return verified plans at costs times `scale`: of a problem, and for less room with few moves from there."""
    draw = np.random.default_rng(3)
    cost, load = scale * draw.normal(size=(40, 6)), draw.integers(1, 20, 40)
    room = np.full(6, load.sum() / 6 + 3)
    problem = CheckpointAllocation(cost=cost, load=load, capacity=room)
    plan = solve_checkpoints(problem)
    assert verify_checkpoints(problem, plan).ok
    tight = CheckpointAllocation(cost=cost, load=load, capacity=room - 1, current=plan.assignment, max_moves=9)
    again = solve_checkpoints(tight, hint=plan)
    assert verify_checkpoints(tight, again).ok
    return plan, again


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("exponent", [320, -960])
def test_the_size_of_costs_changes_nothing_but_the_size_of_what_is_said(exponent: int) -> None:
    for plain, scaled in zip(plans_at(1.0), plans_at(2.0**exponent), strict=True):
        assert plain.status is scaled.status is Status.OPTIMAL
        assert plain.assignment.tolist() == scaled.assignment.tolist()


@pytest.mark.parametrize(("kind", "least"), [(np.float32, 1e-45), (np.float64, 5e-324)])
def test_the_least_costs_that_there_are_are_told_apart(kind: type, least: float) -> None:
    cost = np.array([[0, least], [least, 0]], kind)
    plan = solve_checkpoints(CheckpointAllocation(cost=cost, load=np.ones(2), capacity=np.ones(2)))
    assert plan.status is Status.OPTIMAL
    assert plan.assignment.tolist() == [0, 1]
