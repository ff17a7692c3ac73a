"""Calls of solvers: statuses, limits and silence, on programs whose answers are known by hand."""

import os

import numpy as np
import pytest
from ortools.sat.python import cp_model

from models.planning.solution import Status
from optimizer.common import solvers


def two_of_three() -> tuple[cp_model.CpModel, list[cp_model.IntVar]]:
    """At most two of three, worth 1, 2 and 3."""
    model = cp_model.CpModel()
    chosen = [model.new_bool_var("") for _ in range(3)]
    model.add(sum(chosen) <= 2)
    model.maximize(cp_model.LinearExpr.weighted_sum(chosen, [1, 2, 3]))
    return model, chosen


def test_a_model_is_solved_within_its_deterministic_time():
    model, chosen = two_of_three()
    answer = solvers.solve_cp(model, deterministic_s=1.0, seed=7)
    assert (answer.status, answer.bound, answer.found) == (Status.OPTIMAL, 5.0, True)
    assert answer.chosen(chosen).tolist() == [False, True, True]
    assert answer.values(chosen).tolist() == [0, 1, 1]
    assert 0 <= answer.spent_s <= 1.0


def test_a_model_without_a_solution_is_infeasible_and_has_no_bound():
    model, chosen = two_of_three()
    model.add(sum(chosen) >= 3)
    answer = solvers.solve_cp(model, deterministic_s=1.0)
    assert (answer.status, answer.bound, answer.found) == (Status.INFEASIBLE, -np.inf, False)


def test_without_any_time_nothing_is_decided():
    model, _ = two_of_three()
    assert not solvers.solve_cp(model, deterministic_s=1.0, limit_s=0.0).found


def test_duals_of_a_linear_program_are_marginals_of_a_minimisation():
    """minimise -x - 2 y with x + y <= 4, y = 3: x = 1, and a unit of room is worth 1, of the equation 1 more."""
    answer = solvers.linear_program(
        np.array([-1.0, -2.0]), at_most=(np.array([[1.0, 1.0]]), [4.0]), equal=(np.array([[0.0, 1.0]]), [3.0])
    )
    assert answer.is_optimal
    assert answer.x is not None
    assert answer.x.tolist() == [1.0, 3.0]
    assert (answer.objective, answer.dual_at_most.tolist(), answer.dual_equal.tolist()) == (-7.0, [-1.0], [-1.0])


def test_a_linear_program_without_an_answer_says_so():
    answer = solvers.linear_program(np.array([1.0]), at_most=(np.array([[1.0]]), [-1.0]))
    assert (answer.status, answer.is_optimal) == (Status.INFEASIBLE, False)


def test_only_columns_that_are_whole_are_rounded():
    rows = [(np.array([[2.0, 2.0]]), -np.inf, 3.0)]
    both = solvers.mixed_integer_program(np.array([-1.0, -1.0]), rows, nodes=100)
    one = solvers.mixed_integer_program(np.array([-1.0, -1.0]), rows, whole=np.array([True, False]), nodes=100)
    assert both.x is not None
    assert both.x.sum() == 1.0
    assert (both.status, both.bound) == (Status.OPTIMAL, -1.0)
    assert one.x is not None
    assert one.x.sum() == pytest.approx(1.5)


def test_a_mixed_integer_program_without_an_answer_says_so():
    answer = solvers.mixed_integer_program(np.ones(1), [(np.ones((1, 1)), 2.0, 3.0)], nodes=10)
    assert (answer.status, answer.x, answer.at_limit) == (Status.INFEASIBLE, None, False)


def test_rows_get_different_columns_unless_infinite_costs_leave_none():
    assert solvers.linear_assignment(np.array([[1.0, 2.0], [1.0, 5.0]])).tolist() == [1, 0]
    assert solvers.linear_assignment(np.array([[1.0, np.inf], [1.0, np.inf]])) is None
    assert solvers.linear_assignment(np.ones((2, 1))) is None


def test_the_smallest_sides_of_a_cut_have_source_and_sink():
    """0 -> 1 -> 2 -> 3 with capacities 2, 1, 1: either of the last two arcs is a minimum cut."""
    network = solvers.FlowNetwork(np.arange(3), np.arange(1, 4), np.array([2, 1, 1]))
    assert network.solve(0, 3)
    assert (network.value, network.flows(np.arange(3)).tolist()) == (1, [1, 1, 1])
    assert sorted(network.source_side().tolist()) == [0, 1]
    assert network.sink_side().tolist() == [3]
    network.set_capacity(np.array([1, 2]), np.array([5, 5]))
    assert network.solve(0, 3)
    assert network.value == 2


def test_the_cheapest_flow_has_a_status():
    arcs = (np.array([0, 0]), np.array([1, 1]), np.array([1, 5]), np.array([1, 3]))
    assert solvers.minimum_cost_flow(arcs, np.array([3, -3]))[:1] == (Status.OPTIMAL,)
    flows = solvers.minimum_cost_flow(arcs, np.array([3, -3]))[1]
    assert flows is not None
    assert flows.tolist() == [1, 2]
    assert solvers.minimum_cost_flow(arcs, np.array([9, -9]))[:2] == (Status.INFEASIBLE, None)


def test_solvers_write_nothing(capfd):
    model, _ = two_of_three()
    solvers.solve_cp(model, deterministic_s=1.0)
    solvers.mixed_integer_program(np.ones(2), [(np.ones((1, 2)), 1.0, 2.0)], nodes=10)
    os.write(1, b"mine")
    assert capfd.readouterr().out == "mine"
