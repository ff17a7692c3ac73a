"""What `verify` makes of plans that call themselves optimal, or bounded, or infeasible; oracle: every answer tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import ordinary_problems as ordinary
import pytest
from ordinary_problems import PLANS, Answer
from seeds import sample
from work_limits import as_much_work_as_in

from models.planning.migration_steps import MigrationSteps
from models.planning.selection import OperatorSelection, QuerySelection
from models.planning.solution import Solution, Status
from optimizer.checkpoint_allocation import solve as solve_checkpoints
from optimizer.checkpoint_interval import solve as solve_interval
from optimizer.migration_steps import solve as solve_steps
from optimizer.placement import solve as solve_placement
from optimizer.replicas.optimise import most_available
from optimizer.selection import solve as solve_selection
from optimizer.verify.checkpoints import verify_checkpoints
from optimizer.verify.claims import Verdict
from optimizer.verify.plans import verify_plan
from optimizer.verify.replicas import verify_replicas


@dataclass(frozen=True)
class Kind:
    """How problems of a kind are made, what is best, random answers, its solver and its verifier."""

    make: Any
    best: Any
    answers: Any
    solve: Any
    verify: Any = verify_plan
    more_is_better: bool = False
    seeds: int = 20  # of one test

    def passes(self, problem: Any, one: float, other: float) -> bool:
        """Whether one objective is better than another by more than a millionth."""
        more = self.more_is_better or getattr(problem, "goal", "") == "value"
        return (one - other) * (1 if more else -1) > 1e-6 * max(abs(one), abs(other))


KINDS = {
    "selection": Kind(
        ordinary.selection, ordinary.best_selection, ordinary.selections, solve_selection, more_is_better=True
    ),
    "queries": Kind(ordinary.queries, ordinary.best_queries, ordinary.query_sets, solve_selection, more_is_better=True),
    "steps": Kind(ordinary.steps, ordinary.best_steps, ordinary.schedules, solve_steps),
    "allocation": Kind(
        ordinary.allocation, ordinary.best_allocation, ordinary.allocations, solve_checkpoints, verify_checkpoints
    ),
    "placement": Kind(ordinary.placement, ordinary.best_placement, ordinary.placements, solve_placement),
    "interval": Kind(ordinary.interval, ordinary.best_interval, ordinary.intervals, solve_interval),
    "replicas": Kind(
        ordinary.replicas, ordinary.best_replicas, ordinary.replica_plans, most_available, verify_replicas, seeds=5
    ),
}


def false_plans(name: str, problem: Any, best: float, answers: list[Answer]) -> Iterator[Solution]:
    """Plans that claim too much: a worse answer is optimal, or nearly so, or there is no answer."""
    kind = KINDS[name]
    for one in answers:
        if not kind.passes(problem, best, one.objective):
            continue
        yield PLANS[name](status=Status.OPTIMAL, objective=one.objective, bound=one.objective, **one.fields)
        between = best + 0.5 * (one.objective - best)
        yield PLANS[name](status=Status.FEASIBLE, objective=one.objective, bound=between, **one.fields)
        yield PLANS[name](status=Status.FEASIBLE, objective=best, bound=best, **one.fields)
    yield PLANS[name](status=Status.INFEASIBLE)


def false_verdicts(name: str, seed: int) -> list[Verdict]:
    kind = KINDS[name]
    problem = kind.make(seed)
    best = kind.best(problem)
    if best is None:
        return []
    answers = list(kind.answers(problem, np.random.default_rng(seed)))[:4]
    return [kind.verify(problem, plan, gap=plan.gap) for plan in false_plans(name, problem, best, answers)]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("first", sample(1, 15))
def test_a_plan_that_another_answer_beats_never_holds(name: str, first: int) -> None:
    seeds = range(KINDS[name].seeds * first, KINDS[name].seeds * (first + 1))
    found = [one for seed in seeds for one in false_verdicts(name, seed)]
    assert len(found) > 20
    assert {one.holds for one in found} == {False}  # so small that each is refuted


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("first", sample(1, 15))
def test_what_a_solver_proves_of_a_small_problem_holds(name: str, first: int) -> None:
    kind, met = KINDS[name], Counter[str]()
    for seed in range(kind.seeds * first, kind.seeds * (first + 1)):
        problem = kind.make(seed)
        plan, best = kind.solve(problem), kind.best(problem)
        verdict = kind.verify(problem, plan, gap=plan.gap)
        assert (verdict.violations, verdict.not_checked, verdict.holds) == ((), (), True), seed
        assert (plan.status is Status.INFEASIBLE) == (best is None), seed
        assert plan.status is not Status.OPTIMAL or not kind.passes(problem, best, plan.objective), seed
        met[plan.status] += 1
    assert met[Status.OPTIMAL] >= kind.seeds // 2


FALSE: dict[str, tuple[Any, dict[str, Any], str]] = {
    "selection": (
        OperatorSelection([3, 2, 5], [1, 1, 2], 2),
        {"objective": 3.0, "level": [1, 0, 0]},
        "says bound 3.0, but an answer that keeps every rule reaches 5.0: [1, 1, 0]",
    ),
    "queries": (
        QuerySelection([3, 5], [1, 2], [[0, 0], [1, 1]], 2),
        {"objective": 3.0, "queries": [True, False], "operators": [True, False]},
        "says bound 3.0, but an answer that keeps every rule reaches 5.0: [0, 1]",
    ),
    "steps": (
        MigrationSteps([[0, 1], [2, 3]]),
        {"objective": 2.0, "step": np.array([0, 1])},
        "says bound 2.0, but an answer that keeps every rule reaches 1.0: [0, 0]",
    ),
}


@pytest.mark.parametrize("name", FALSE)
def test_a_worse_answer_that_is_called_optimal_is_refuted_by_a_better_one(name: str) -> None:
    problem, fields, text = FALSE[name]
    plan = PLANS[name](status=Status.OPTIMAL, bound=fields["objective"], **fields)
    verdict = verify_plan(problem, plan, gap=0.0)
    assert (verdict.holds, [one.text for one in verdict.violations]) == (False, [text])
    assert verdict.counterexample is not None


@pytest.mark.parametrize(("seed", "n"), [(0, 60), (1, 200), (2, 200), (3, 2_000), (4, 5_000)])
def test_selections_of_many_operators_are_proven_and_a_hair_below_them_is_refuted(seed: int, n: int) -> None:
    problem = ordinary.selection(seed, n)
    plan = solve_selection(problem)
    assert plan.status is Status.OPTIMAL
    verdict = verify_plan(problem, plan)
    assert (verdict.holds, verdict.checked[-1]) == (True, "the bound, which all levels that may be worth more prove")
    worse = plan.level.copy()
    taken = np.flatnonzero(worse)
    least = taken[problem.level_values[taken, worse[taken]].argmin()]
    worse[least] = 0
    value = problem.objective(worse)
    false = PLANS["selection"](status=Status.OPTIMAL, objective=value, bound=value, level=worse, price=plan.price)
    assert verify_plan(problem, false).holds is False


def test_a_bound_of_nothing_is_proven_where_no_room_is_left() -> None:
    draw = np.random.default_rng(1)
    weight = draw.integers(2, 9, 12)
    full = OperatorSelection(draw.random(12), weight, 1.0)
    assert verify_plan(full, solve_selection(full)).holds
    shared = QuerySelection([5.0], weight, [[0, o] for o in range(11)], float(weight[:11].sum()) + 1, draw.random(12))
    plan = solve_selection(shared)
    assert (plan.objective, plan.single_bound) == (5.0, 0.0)
    assert verify_plan(shared, plan).holds


@pytest.mark.parametrize("seed", range(4))
def test_sets_of_many_queries_are_proven_with_the_shares_of_the_plan(seed: int) -> None:
    problem = ordinary.queries(seed, 60)
    with as_much_work_as_in(3) as seconds:
        plan = solve_selection(problem, time_limit_s=seconds)
    assert plan.status is Status.OPTIMAL
    assert verify_plan(problem, plan).holds


def test_what_is_neither_proven_nor_refuted_leaves_the_verdict_open() -> None:
    """Forty queries that share much: too many sets to try, and the shares of queries prove far less."""
    draw = np.random.default_rng(5)
    uses = np.argwhere(draw.random((120, 100)) < 0.12)
    problem = QuerySelection(draw.integers(1, 500, 120), draw.integers(1, 500, 100), uses, 9_000.0)
    with as_much_work_as_in(0.05) as seconds:
        plan = solve_selection(problem, time_limit_s=seconds)
    assert plan.objective is not None
    claimed = 1.05 * plan.objective
    bounded = PLANS["queries"](
        status=Status.FEASIBLE, objective=plan.objective, bound=claimed, queries=plan.queries, operators=plan.operators
    )
    verdict = verify_plan(problem, bounded)
    assert (verdict.ok, verdict.holds) == (True, None)
    assert verdict.not_checked == ("the bound, which takes a solver",)
