"""Saved instances whose best value another method found: status, value and bound of every solver that takes them.

Each file has the problem, its best value, and by what that is known. Bounds are computed once more in fractions.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from work_limits import clock_that_strikes_after

from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.checkpoint_interval import CheckpointInterval
from models.planning.migration_steps import MigrationSteps
from models.planning.selection import OperatorSelection, QuerySelection
from models.planning.solution import OPTIMAL_GAP, Status
from optimizer.checkpoint_allocation import METHODS
from optimizer.checkpoint_allocation import solve as solve_checkpoints
from optimizer.checkpoint_allocation.lagrangian.bound import dual_prices
from optimizer.checkpoint_interval import solve as solve_interval
from optimizer.migration_steps import solve as solve_steps
from optimizer.selection import solve as solve_selection
from optimizer.verify.checkpoint_bounds import lagrangian_bound
from optimizer.verify.checkpoints import verify_checkpoints
from optimizer.verify.plans import verify_plan

KINDS: dict[str, tuple[Any, Any, int]] = {
    "checkpoints": (CheckpointAllocation, solve_checkpoints, 1),
    "selection": (OperatorSelection, solve_selection, -1),
    "queries": (QuerySelection, solve_selection, -1),
    "steps": (MigrationSteps, solve_steps, 1),
    "interval": (CheckpointInterval, lambda problem, **_: solve_interval(problem), 1),
}
FILES = sorted((Path(__file__).parent / "instances").glob("*.json"))
NAMES = [path.stem for path in FILES]


def read(path: Path) -> tuple[str, Any, dict[str, Any]]:
    found = json.loads(path.read_text(encoding="utf-8"))
    return found["kind"], KINDS[found["kind"]][0](**found["problem"]), found["known"]


def verified(problem: Any, plan: Any) -> Any:
    check = verify_checkpoints if isinstance(problem, CheckpointAllocation) else verify_plan
    return check(problem, plan, gap=plan.gap)


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_the_best_value_is_found_and_proven(path):
    kind, problem, known = read(path)
    plan = KINDS[kind][1](problem, time_limit_s=60.0)
    assert plan.status == known["status"]
    assert verified(problem, plan).violations == ()
    if known["best"] is None:
        assert plan.note
        return
    exact = kind != "interval"
    assert plan.objective == (known["best"] if exact else pytest.approx(known["best"], rel=1e-12))
    assert KINDS[kind][2] * (plan.bound - known["best"]) <= 0 or not exact
    assert abs(plan.objective - plan.bound) <= OPTIMAL_GAP * abs(plan.bound)


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_a_search_without_time_claims_nothing_false(path):
    kind, problem, known = read(path)
    with clock_that_strikes_after(0):
        plan = KINDS[kind][1](problem, time_limit_s=60.0)
    assert verified(problem, plan).violations == ()
    if known["best"] is None:
        assert plan.status in (Status.INFEASIBLE, Status.UNKNOWN)
        return
    assert plan.status is not Status.INFEASIBLE
    sign = KINDS[kind][2]
    if plan.bound is not None:
        assert sign * (plan.bound - known["best"]) <= 1e-12 * abs(known["best"])
    if plan.status is not Status.UNKNOWN:
        assert sign * (plan.objective - known["best"]) >= -1e-12 * abs(known["best"])
    if plan.status is Status.OPTIMAL:
        assert plan.objective == pytest.approx(known["best"], rel=1e-9)


@pytest.mark.parametrize("path", [path for path in FILES if path.stem.startswith("checkpoints")], ids=lambda p: p.stem)
def test_prices_bound_every_instance_in_fractions_too(path):
    """L(lambda) in fractions is at least what is claimed of it in float64, and at most the best value."""
    _, problem, known = read(path)
    draw = np.random.default_rng(1)
    prices = dual_prices(problem)
    signed = draw.normal(0.0, 3.0, problem.n_nodes) if problem.capacity_min is not None else prices * 0.5
    for tried in (prices, np.zeros(problem.n_nodes), draw.uniform(0.0, 20.0, problem.n_nodes), signed):
        claimed = lagrangian_bound(problem, tried)
        exact = lagrangian(problem, tried)
        assert Fraction(claimed) <= exact
        assert claimed == pytest.approx(float(exact), rel=1e-9, abs=1e-6)
        assert known["best"] is None or exact <= Fraction(known["best"]) + Fraction(
            1, 10**5
        )  # capacities are 1e-9 wider


def lagrangian(problem: CheckpointAllocation, prices: np.ndarray) -> Fraction:
    total = Fraction(0)
    price = [Fraction(p) for p in prices.tolist()]
    for j in range(problem.n_checkpoints):
        total += min(
            Fraction(float(problem.cost[j, n])) + price[n] * Fraction(float(problem.weights[j, n]))
            for n in np.flatnonzero(problem.allowed[j] & (problem.weights[j] <= problem.upper)).tolist()
        )
    for n, one in enumerate(price):
        total -= one * Fraction(float(problem.upper[n] if one > 0 else problem.lower[n]))
    return total


@pytest.mark.parametrize("name", ["checkpoints-5x24-tight", "checkpoints-6x18-copies", "queries-40-on-30"])
def test_the_same_seed_gives_the_same_plan_for_any_number_of_workers(name):
    kind, problem, _ = read(FILES[NAMES.index(name)])
    plans = [KINDS[kind][1](problem, seed=3, workers=workers) for workers in (1, 1, 4)]
    answers = [(p.assignment if kind == "checkpoints" else p.queries).tolist() for p in plans]
    assert answers[0] == answers[1] == answers[2]
    assert len({(p.objective, p.bound, p.status, p.note) for p in plans}) == 1


@pytest.mark.parametrize("method", [name for name in METHODS if name != "exact"])
def test_no_method_claims_more_than_the_best_value(method):
    for path in FILES:
        kind, problem, known = read(path)
        if kind == "checkpoints":
            plan = solve_checkpoints(problem, method=method, seed=1)
            assert plan.bound is None or known["best"] is None or plan.bound <= known["best"] + 1e-9
            assert plan.status is not Status.OPTIMAL or plan.objective == known["best"]


def share_of_others(call: Callable[[], Any]) -> float:
    """CPU time of all other threads of this process while a call runs, ended ones too, as a share of this thread's."""
    process, own = time.process_time(), time.thread_time()
    call()
    process, own = time.process_time() - process, time.thread_time() - own
    return (process - own) / own


def test_no_solver_takes_more_threads_than_asked_for():
    """Branch and bound, flows and CP-SAT work in the thread that asks; a thread of their own would be noticed."""
    names = "checkpoints-5x24-tight", "checkpoints-6x40-equal-loads", "queries-22-on-24-dense", "steps-petersen"
    asked = [read(FILES[NAMES.index(name)])[:2] for name in names]

    def solve_all() -> None:
        for kind, problem in asked:
            KINDS[kind][1](problem)

    def in_a_thread() -> None:
        thread = threading.Thread(target=solve_all)
        thread.start()
        thread.join()

    solve_all()  # libraries are loaded, and threads that they start idly have gone to sleep
    assert share_of_others(solve_all) < 0.2
    assert share_of_others(in_a_thread) > 2
