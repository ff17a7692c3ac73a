"""The flow on a core of pairs against the flow on all of them, and against brute force."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import Status
from optimizer.checkpoint_allocation import flow, solve
from optimizer.checkpoint_allocation.candidates import _best
from optimizer.checkpoint_allocation.params import DEFAULT
from optimizer.verify.checkpoint_bounds import counts
from optimizer.verify.checkpoints import verify_checkpoints
from optimizer.verify.constraints import constraint_violations


def counting_problem(seed, largest=60, widest=12):
    random = np.random.default_rng(seed)
    j, n = int(random.integers(2, largest)), int(random.integers(2, widest))
    cost = random.normal(size=(j, n))
    kind = random.integers(0, 3)
    if kind == 1:
        cost += 3 * random.normal(size=n)  # the same nodes are everybody's choice
    if kind == 2:
        cost = random.integers(0, 3, (j, n)) * 1.0  # ties everywhere
    weight = random.uniform(0.1, 3)
    fields = {"capacity": np.full(n, weight * math.ceil(j / n * random.choice([1.0, 1.0, 1.2])) * 1.01)}
    if random.random() < 0.4:
        fields["capacity_min"] = np.full(n, weight * (j // n) * random.choice([0.3, 0.99]))
    kept = random.choice([np.float32, np.float64])
    forbidden = np.argwhere(random.random((j, n)) < 0.1)
    return CheckpointAllocation(cost=cost.astype(kept), load=np.full(j, weight), forbidden=forbidden, **fields)


def check_core(seed, kept):
    """Compare the flow on a core, of so many pairs for each checkpoint at first, with the whole flow."""
    problem = counting_problem(seed)
    limit = counts(problem)
    whole, bound, _ = flow.count_flow(problem)
    if not flow.enough_room(problem, limit):
        assert whole is None
        return
    parameters = replace(DEFAULT, flow=replace(DEFAULT.flow, kept=kept))
    found, proven, _ = flow.core_flow(problem, limit, parameters)
    assert (found is None) == (whole is None)
    if whole is not None:
        assert constraint_violations(problem, found) == []
        assert problem.objective(found) == pytest.approx(problem.objective(whole), rel=1e-12, abs=1e-12)
        assert proven == pytest.approx(bound, rel=1e-12, abs=1e-12)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 12]))
def test_the_core_finds_what_the_whole_flow_finds_and_proves_it(seed, kept):
    check_core(seed, kept)


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=500)
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 12]))
def test_the_core_finds_what_the_whole_flow_finds_and_proves_it_in_many_problems(seed, kept):
    check_core(seed, kept)


def test_a_large_counting_problem_is_optimal_by_the_core_and_equal_to_the_whole_flow():
    random = np.random.default_rng(4)
    cost = random.normal(size=(2000, 40)) + random.normal(size=40)
    problem = CheckpointAllocation(cost=cost, load=np.ones(2000), capacity=np.full(40, 52.0))
    whole = solve(problem)
    plan = solve(problem, parameters=replace(DEFAULT, sizes=replace(DEFAULT.sizes, flow=1000)))
    assert (whole.note, plan.note) == ("minimum-cost flow", "minimum-cost flow on a core of the pairs")
    assert (whole.status, plan.status) == (Status.OPTIMAL, Status.OPTIMAL)
    assert plan.objective == pytest.approx(whole.objective, rel=1e-12)
    assert verify_checkpoints(problem, plan).ok


def test_single_precision_costs_are_kept_and_give_the_answers_of_the_same_numbers_in_double():
    for seed in range(40):
        random = np.random.default_rng(seed)
        j, n = int(random.integers(2, 7)), int(random.integers(2, 4))
        single = random.normal(size=(j, n)).astype(np.float32)
        fields = {"load": random.uniform(1, 2, j), "capacity": np.full(n, 2.2 * j / n + 1)}
        if seed % 3 == 0:
            fields = {"load": np.ones(j), "current": random.integers(0, n, j), "max_moves": 1}
        problem = CheckpointAllocation(cost=single, **fields)
        plan, double = solve(problem), solve(CheckpointAllocation(cost=single.astype(np.float64), **fields))
        assert problem.cost.dtype == np.float32
        assert (plan.status, plan.objective, plan.bound) == (double.status, double.objective, double.bound)
        every = (np.array(a) for a in itertools.product(range(n), repeat=j))
        assert plan.objective == min(problem.objective(a) for a in every if not constraint_violations(problem, a))


def test_the_kept_nodes_are_those_of_a_sorted_row():
    random = np.random.default_rng(0)
    for width, kept in ((7, 3), (64, 2), (203, 3), (5, 5), (5, 1)):
        values = random.normal(size=(50, width)).astype(np.float32)
        best = np.sort(np.take_along_axis(values, _best(values, kept), axis=1), axis=1)
        assert (best == np.sort(values, axis=1)[:, :kept]).all()


def test_costs_that_leave_the_range_of_the_solver_are_taken_more_coarsely():
    """Distances on a sparse graph are sums of many costs: 61 bits leave no room for them."""
    cost = [[0, 0], [0, 0], [0, 0], [1, 1e-12]]
    sparse = {"load": [1] * 4, "capacity": [2, 2], "forbidden": [[0, 0], [1, 0], [2, 1]]}
    problem = CheckpointAllocation(cost=cost, **sparse)
    plan = solve(problem)
    assert (plan.status, plan.objective) == (Status.OPTIMAL, 1.0)
    assert verify_checkpoints(problem, plan).ok


def test_where_no_flow_is_found_another_method_answers(monkeypatch):
    monkeypatch.setattr(flow, "_cheapest_flow", lambda *_: (Status.UNKNOWN, None, "4"))
    problem = counting_problem(3)
    with pytest.raises(ArithmeticError):
        flow.count_flow(problem)
    plan = solve(problem)
    assert "flow" not in plan.note
    assert verify_checkpoints(problem, plan).ok


@pytest.mark.parametrize("largest", [5e-324, 1e-300, 1e-16, 1.0, 1e100, 1e290])
def test_integer_costs_use_all_bits_whatever_the_magnitude(largest):
    """The scale has no limit: a power of two beyond float64 still multiplies exactly (`ldexp`)."""
    costs = flow.integer_costs(np.array([[0.0, largest], [largest, 0.0]]), np.ones((2, 2), np.bool_), 5)
    assert costs[0, 0] == 0 and costs[0, 1] == costs[1, 0]
    assert 2**56 <= int(costs.max()) < 2**61 // 6 + 1
