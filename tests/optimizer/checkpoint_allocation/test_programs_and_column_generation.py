"""Programs on all nodes beside column generation; the oracle is HiGHS on the plain program."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from work_limits import as_much_work_as_in

from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import Status
from optimizer.checkpoint_allocation import capacitated, solve
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.column_generation.search import ColumnGeneration
from optimizer.checkpoint_allocation.lagrangian.bound import dual_prices
from optimizer.checkpoint_allocation.params import DEFAULT, PIECES
from optimizer.verify.checkpoint_bounds import lagrangian_bound
from optimizer.verify.checkpoints import verify_checkpoints
from optimizer.verify.constraints import constraint_violations


def alike(seed, nodes, items, room=1.1):
    """Rows that share four factors, loads that differ much: prices alone prove little."""
    random = np.random.default_rng(seed)
    load = random.lognormal(0, 1, items)
    load = np.minimum(load, load.sum() / nodes / 2)
    rho = random.normal(size=(items, 4)) @ random.normal(size=(4, nodes)) / 20 + 0.02 * random.normal(
        size=(items, nodes)
    )
    capacity = np.full(nodes, room * load.sum() / nodes)
    return CheckpointAllocation(cost=load[:, None] * rho, load=load, capacity=capacity)


def plain(problem):
    items, nodes = problem.cost.shape
    once = np.kron(np.eye(items), np.ones(nodes))
    loads = np.hstack([np.diag(row) for row in problem.weights])
    rules = [LinearConstraint(once, 1, 1), LinearConstraint(loads, -np.inf, problem.upper)]
    return milp(
        problem.cost.ravel(),
        integrality=np.ones(problem.cost.size),
        bounds=Bounds(0, 1),
        constraints=rules,
        options={"mip_rel_gap": 0.0, "node_limit": 20_000},
    )


@pytest.mark.parametrize("seed", [0, 2])
def test_an_answer_called_optimal_is_what_the_plain_program_says(seed):
    never = dataclasses.replace(DEFAULT, pieces=PIECES - {"program first"})
    problem = alike(seed, 7, 44, 1.3)
    plan = solve(problem, time_limit_s=60.0, parameters=never)
    least = plain(problem)
    assert least.status == 0
    assert plan.status is Status.OPTIMAL
    assert plan.objective == pytest.approx(least.fun, rel=1e-7)
    assert verify_checkpoints(problem, plan).ok


def test_a_program_on_few_pairs_comes_near_the_bound_and_twice_to_the_same():
    problem = alike(3, 6, 60)

    def answer():
        search = ColumnGeneration(problem, dual_prices(problem), None, Budget.of_seconds(60.0, 3.0))
        assert search.programmed()
        return search.found(), search.bound

    found, bound = answer()
    assert constraint_violations(problem, found.assignment) == []
    value = problem.objective(found.assignment)
    assert bound <= value <= bound + 3e-3 * abs(bound)
    again, _ = answer()
    assert again.assignment.tolist() == found.assignment.tolist()
    assert np.array_equal(again.pairs, found.pairs)


def test_minima_are_left_to_the_program_that_knows_them():
    problem = alike(4, 5, 62)
    least = dataclasses.replace(problem, capacity_min=np.full(5, 0.9 * problem.load.sum() / 5))
    search = ColumnGeneration(least, dual_prices(least), None, Budget.of_seconds(60.0, 3.0))
    assert not search.programmed()
    with as_much_work_as_in(20.0) as seconds:
        plan = solve(least, time_limit_s=seconds)
    assert constraint_violations(least, plan.assignment) == []
    assert plan.bound <= plan.objective


def test_prices_that_prove_nothing_finite_give_way_to_those_of_zero(monkeypatch):
    """The answer of the heuristic is kept, where it was thrown away with its bound."""
    problem = alike(0, 7, 44, 1.3)
    begun = capacitated.lagrangian_heuristic(problem, Budget.of_seconds(60.0, 0.1))
    without = dataclasses.replace(begun, prices=np.full(7, np.inf), bound=-np.inf)
    monkeypatch.setattr(capacitated, "lagrangian_heuristic", lambda *given, **named: without)
    found = capacitated.solve_capacitated(problem, Budget.of_seconds(60.0, 0.1), start=None)
    assert constraint_violations(problem, found.assignment) == []
    assert lagrangian_bound(problem, np.zeros(7)) <= found.bound <= problem.objective(found.assignment)
