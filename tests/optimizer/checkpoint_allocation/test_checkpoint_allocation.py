"""Checkpoint allocation against brute force and against itself."""

import dataclasses
import importlib
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.sat.python import cp_model
from seeds import sample
from work_limits import as_much_work_as_in

from models.errors import InputError
from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import Status
from optimizer.checkpoint_allocation import METHODS, flow, solve
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.lagrangian import separable
from optimizer.checkpoint_allocation.lagrangian.bound import dual_prices
from optimizer.checkpoint_allocation.mixed_integer import Known, branch_and_bound
from optimizer.checkpoint_allocation.params import DEFAULT
from optimizer.verify.checkpoint_bounds import cliques, is_count_problem, lagrangian_bound
from optimizer.verify.checkpoints import verify_checkpoints
from optimizer.verify.constraints import constraint_violations

FIXED = settings(derandomize=True, deadline=None, max_examples=150)


def brute_force(problem):
    """The smallest objective over all assignments, None when every one breaks something."""
    choices = [np.flatnonzero(row).tolist() for row in problem.allowed]
    every = (np.array(nodes) for nodes in itertools.product(*choices))
    return min((problem.objective(a) for a in every if not constraint_violations(problem, a)), default=None)


@st.composite
def problems(draw, largest=5, widest=4):
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    j, n = draw(st.integers(1, largest)), draw(st.integers(1, widest))
    integers = random.integers(-5, 6, (j, n)) * 1.0
    normal = random.normal(size=(j, n))
    cost = draw(st.sampled_from([integers, integers * 0.1, normal, normal * 1e-7]))
    per_node = random.integers(0, 5, (j, n)) * 1.0
    load = draw(st.sampled_from([per_node[:, 0], np.full(j, 0.3), random.random(j) * 1e6, per_node]))
    total = load.sum() if load.ndim == 1 else load.mean(axis=1).sum()
    fields = {}
    if draw(st.booleans()):
        fields["capacity"] = np.full(n, (1 + draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))) * total / n)
    if draw(st.integers(0, 3)) == 0:
        fields["capacity_min"] = np.full(n, total / n * draw(st.sampled_from([0.3, 0.7, 1.0])))
    fields["forbidden"] = np.argwhere(random.random((j, n)) < 0.15)
    if draw(st.booleans()):
        fields["anti_affinity"] = [(a, b) for a in range(j) for b in range(a) if random.random() < 0.2]
    if draw(st.integers(0, 3)) == 0:
        fields |= {"current": random.integers(0, n, j), "max_moves": int(random.integers(0, j + 1))}
    return CheckpointAllocation(cost=cost, load=load, **fields)


@FIXED
@given(problems())
def test_exact_equals_brute_force(problem):
    best, plan = brute_force(problem), solve(problem)
    assert verify_checkpoints(problem, plan).ok
    if best is None:
        assert plan.status is Status.INFEASIBLE
    else:
        assert plan.status is Status.OPTIMAL
        assert plan.objective == pytest.approx(best, rel=1e-9, abs=1e-12 * np.abs(problem.cost).sum())


@FIXED
@given(problems(), st.sampled_from(["baseline", "even", "sensitive-first"]), st.integers(0, 5))
def test_no_method_claims_more_than_brute_force_allows(problem, method, seed):
    best, plan = brute_force(problem), solve(problem, method=method, seed=seed)
    slack = 1e-12 * np.abs(problem.cost).sum()
    if plan.status in (Status.OPTIMAL, Status.FEASIBLE):
        assert verify_checkpoints(problem, plan).ok
    if plan.status is Status.OPTIMAL:
        assert plan.objective == pytest.approx(best, rel=1e-9, abs=slack)
    if plan.status is Status.INFEASIBLE:
        assert best is None
    if best is not None and plan.bound is not None:
        assert plan.bound <= best + slack
    if plan.assignment is not None:
        kinds = {violation.kind for violation in constraint_violations(problem, plan.assignment)}
        assert bool(kinds) == (plan.status is Status.UNKNOWN) == bool(plan.violations)
        assert not kinds & {"forbidden", "range", "shape"}


def by_program(problem):
    known = Known(None, math.inf, np.zeros(problem.n_nodes), -math.inf)
    return branch_and_bound(problem, known, Budget.of_seconds(20.0, 20.0))


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_flow_program_and_brute_force_agree_when_loads_are_equal(seed, capped, floored):
    random = np.random.default_rng(seed)
    j, n = int(random.integers(2, 6)), int(random.integers(2, 4))
    problem = CheckpointAllocation(
        cost=random.normal(size=(j, n)), load=np.full(j, 0.1),
        capacity=np.full(n, 0.1 * math.ceil(j / n) + 0.05) if capped else None,
        capacity_min=np.full(n, 0.1) if floored else None,
        forbidden=np.argwhere(random.random((j, n)) < 0.15),
    )  # fmt: skip
    best = brute_force(problem)
    assert is_count_problem(problem)
    assignment, bound, _ = flow.count_flow(problem)
    program = by_program(problem)
    assert (best is None) == (assignment is None) == program.infeasible
    if best is not None:
        assert problem.objective(assignment) == pytest.approx(best, rel=1e-12, abs=1e-12)
        assert problem.objective(program.assignment) == pytest.approx(best, rel=1e-9)
        assert bound == pytest.approx(best, rel=1e-12, abs=1e-12)
        assert bound <= best + 1e-14


def test_the_exact_integer_program_of_another_solver_agrees():
    """CP-SAT as checker: integer costs and loads, 12 checkpoints on 4 nodes, capacities tight."""
    for seed in range(8):
        random = np.random.default_rng(seed)
        cost, load = random.integers(0, 100, (12, 4)), random.integers(1, 20, 12)
        capacity = math.ceil(load.sum() / 4) + 1
        model = cp_model.CpModel()
        x = [[model.new_bool_var("") for _ in range(4)] for _ in range(12)]
        for row in x:
            model.add_exactly_one(row)
        for n in range(4):
            model.add(sum(int(load[j]) * x[j][n] for j in range(12)) <= capacity)
        model.minimize(sum(int(cost[j, n]) * x[j][n] for j in range(12) for n in range(4)))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        status = solver.solve(model)
        plan = solve(CheckpointAllocation(cost=cost, load=load, capacity=np.full(4, capacity)))
        assert (status == cp_model.OPTIMAL) == (plan.status is Status.OPTIMAL)
        if status == cp_model.OPTIMAL:
            assert plan.objective == solver.objective_value


@pytest.mark.parametrize("kappa", [0.05, 0.2, 0.5, 1.0, 3.0, 20.0, math.inf])
@pytest.mark.parametrize("seed", range(4))
def test_twenty_nodes_and_seven_checkpoints_are_solved_for_every_kappa(kappa, seed):
    random = np.random.default_rng(seed)
    load = random.uniform(0.5, 1.5, 7)
    capacity = None if math.isinf(kappa) else np.full(20, (1 + kappa) * load.sum() / 20)
    home = np.column_stack([np.arange(7), random.integers(0, 20, 7)])
    cost = random.uniform(-1, 1, (7, 20)) * load[:, None]
    problem = CheckpointAllocation(cost=cost, load=load, capacity=capacity, forbidden=home)
    plan = solve(problem)
    fits = capacity is None or load.max() <= capacity[0]
    assert plan.status is (Status.OPTIMAL if fits else Status.INFEASIBLE)
    assert verify_checkpoints(problem, plan).ok


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"cost": [[1.0]], "load": [1], "forbidden": [[0, 0]]}, "checkpoint 0 has no allowed node"),
        ({"cost": [[1.0]], "load": [2], "capacity": [1]}, "load of checkpoint 0 exceeds"),
        ({"cost": [[1.0], [1.0]], "load": [1, 1], "capacity": [1]}, "total load 2 exceeds"),
        ({"cost": [[1.0]], "load": [1], "capacity_min": [2]}, "node 0 asks for at least 2"),
        ({"cost": [[1.0, 1.0]], "load": [1], "capacity_min": [1, 1]}, "minimum loads sum to 2"),
        (
            {"cost": [[1.0], [1.0]], "load": [1, 1], "anti_affinity": [[0, 1]]},
            "must be on different nodes, only 1 node",
        ),
        (
            {"cost": [[1.0, 1.0]], "load": [1], "forbidden": [[0, 0]], "current": [0], "max_moves": 0},
            "1 checkpoints cannot stay, only 0 may move",
        ),
        ({"cost": [[1.0, 1.0]] * 3, "load": [2, 2, 2], "capacity": [3, 3]}, ""),
        ({"cost": [[1.0, 1.0]] * 3, "load": [2, 2.1, 2], "capacity": [3.5, 3.5]}, ""),
        ({"cost": [[1.0, 1.0]] * 3, "load": [1, 1, 1], "anti_affinity": [[0, 1], [1, 2], [0, 2]]}, ""),
    ],
)
@pytest.mark.parametrize("method", ["exact"])
def test_the_smallest_infeasible_instance_of_each_constraint_is_infeasible(fields, reason, method):
    plan = solve(CheckpointAllocation(**fields), method=method)
    assert plan.status is Status.INFEASIBLE
    assert plan.assignment is None
    assert reason in plan.note
    assert plan.note


@FIXED
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda pair: pair[0] != pair[1]), max_size=9))
def test_checkpoints_are_in_one_part_where_anti_affinity_leads_from_one_to_the_other(pairs):
    parts = [{k} for k in range(10)]
    for a, b in pairs:
        joined = [part for part in parts if {a, b} & part]
        parts = [part for part in parts if part not in joined] + [set().union(*joined)]
    problem = CheckpointAllocation(
        cost=np.zeros((10, 2)), load=np.ones(10), anti_affinity=np.array(pairs).reshape(-1, 2)
    )
    found = [members.tolist() for members in cliques(problem)]
    assert found == sorted(sorted(part) for part in parts if len(part) > 1)


def test_copies_with_anti_affinity_take_the_cheapest_different_nodes():
    problem = CheckpointAllocation(cost=[[1.0, 2.0, 9.0]] * 2, load=[1, 1], anti_affinity=[[0, 1]])
    assert separable.is_separable(problem)
    plan = solve(problem)
    assert (plan.status, plan.objective, sorted(plan.assignment.tolist())) == (Status.OPTIMAL, 3.0, [0, 1])


def test_limited_moves_take_the_moves_that_save_most():
    problem = CheckpointAllocation(
        cost=[[5.0, 0.0], [9.0, 0.0], [1.0, 0.0]], load=[1, 1, 1], current=[0, 0, 0], max_moves=1
    )
    assert solve(problem).assignment.tolist() == [0, 1, 0]


def test_equality_of_costs_and_tight_capacities_at_the_edge_of_solver_tolerance():
    """Loads that differ by 1e-8: a tolerance of 1e-6 in a solver must not decide what fits."""
    random = np.random.default_rng(3)
    for _ in range(10):
        load = 1 + random.integers(0, 10, 7) * 1e-8
        target = random.integers(0, 2, 7)
        capacity = np.array([load[target == n].sum() for n in range(2)])
        problem = CheckpointAllocation(cost=random.normal(size=(7, 2)), load=load, capacity=capacity)
        plan = solve(problem)
        assert plan.status is Status.OPTIMAL
        assert plan.objective == pytest.approx(brute_force(problem), rel=1e-9)


def test_prices_bound_the_optimum_and_close_on_it():
    for seed in range(10):
        random = np.random.default_rng(seed)
        load = random.uniform(1, 2, 6)
        problem = CheckpointAllocation(
            cost=random.normal(size=(6, 3)), load=load, capacity=np.full(3, 1.2 * load.sum() / 3)
        )
        best = brute_force(problem)
        for prices in (np.zeros(3), random.random(3), dual_prices(problem)):
            assert lagrangian_bound(problem, prices) <= best
        assert lagrangian_bound(problem, dual_prices(problem)) >= lagrangian_bound(problem, np.zeros(3))


@pytest.mark.parametrize(("j", "n"), [(400, 40), pytest.param(1500, 30, marks=pytest.mark.slow)])
def test_large_problems_get_a_feasible_answer_with_an_honest_bound(j, n):
    few = replace(DEFAULT.lagrangian, turns=((1.0, 0.1, 2),))
    alone = replace(DEFAULT.sizes, columns=0)  # no column generation, which proves it optimal
    random = np.random.default_rng(5)
    load = random.lognormal(0, 0.7, j)
    problem = CheckpointAllocation(
        cost=random.uniform(-1, 1, (j, n)) * load[:, None],
        load=load,
        capacity=np.full(n, 1.1 * load.sum() / n),
    )
    plan = solve(problem, parameters=replace(DEFAULT, lagrangian=few, sizes=alone))
    assert plan.status is Status.FEASIBLE
    assert verify_checkpoints(problem, plan).ok
    assert 0 <= plan.gap < 0.02
    assert plan.objective <= solve(problem, method="sensitive-first").objective


def test_even_keeps_its_cap_and_never_fails_when_an_even_allocation_exists():
    for seed in range(60):
        random = np.random.default_rng(seed)
        n = int(random.integers(2, 5))
        j = n * int(random.integers(1, 4))
        target = random.permutation(np.arange(j) % n)
        allowed = random.random((j, n)) < 0.2
        allowed[np.arange(j), target] = True
        problem = CheckpointAllocation(cost=np.zeros((j, n)), load=np.ones(j), forbidden=np.argwhere(~allowed))
        plan = solve(problem, method="even", seed=seed)
        assert np.bincount(plan.assignment, minlength=n).tolist() == [j // n] * n


def test_even_counts_per_operator_when_operators_are_given():
    home = [1] * 10 + [2] * 10
    problem = CheckpointAllocation(
        cost=np.zeros((20, 3)),
        load=np.ones(20),
        forbidden=list(enumerate(home)),
        group=["op1"] * 10 + ["op2"] * 10,
    )
    plan = solve(problem, method="even", seed=1)
    for operator, home_node in ((slice(0, 10), 1), (slice(10, 20), 2)):
        counts = np.bincount(plan.assignment[operator], minlength=3)
        assert counts.tolist() == [0 if n == home_node else 5 for n in range(3)]
    assert "raised from 4 to 5" in plan.note  # ceil(10 / 3) = 4 needs three nodes, two are open


def test_even_counts_over_all_operators_when_none_are_given():
    """The anti-correlated case: the literal cap forces 6 or 7 of operator 2 onto node 1."""
    home = [1] * 10 + [2] * 10
    problem = CheckpointAllocation(cost=np.zeros((20, 3)), load=np.ones(20), forbidden=list(enumerate(home)))
    for seed in range(10):
        plan = solve(problem, method="even", seed=seed)
        assert np.bincount(plan.assignment).max() <= 7
        assert (plan.assignment[10:] == 1).sum() in (6, 7)


def test_baseline_and_even_keep_anti_affinity():
    anti_affinity = [(3 * g + a, 3 * g + b) for g in range(4) for a in range(3) for b in range(a)]
    problem = CheckpointAllocation(cost=np.zeros((12, 3)), load=np.ones(12), anti_affinity=anti_affinity)
    for method in ("baseline", "even"):
        plan = solve(problem, method=method, seed=2)
        assert plan.status is Status.OPTIMAL  # all costs are zero
        assert plan.violations == ()


def test_baseline_ignores_capacity_and_says_so():
    problem = CheckpointAllocation(
        cost=np.zeros((3, 3)), load=[1, 1, 1], capacity=[1, 1, 1], forbidden=[[0, 1], [0, 2], [1, 1], [2, 1]]
    )
    plan = solve(problem, method="baseline")
    assert plan.status is Status.INFEASIBLE or plan.violations


def test_the_same_seed_gives_the_same_plan_for_any_number_of_workers():
    random = np.random.default_rng(0)
    load = random.uniform(1, 2, 40)
    problem = CheckpointAllocation(
        cost=random.normal(size=(40, 8)), load=load, capacity=np.full(8, 1.2 * load.sum() / 8)
    )
    for method in METHODS:
        plans = [solve(problem, method=method, seed=3, workers=w) for w in (1, 2, 8)]
        assert len({(p.status, p.objective, p.bound, p.note, p.assignment.tobytes()) for p in plans}) == 1


def test_another_seed_gives_another_draw():
    problem = CheckpointAllocation(cost=np.zeros((30, 5)), load=np.ones(30))
    for method in ("baseline", "even"):
        draws = {solve(problem, method=method, seed=seed).assignment.tobytes() for seed in range(4)}
        assert len(draws) == 4


def test_a_hint_is_used_when_it_is_better_and_ignored_when_it_is_bad():
    random = np.random.default_rng(9)
    load = random.uniform(1, 2, 20)
    problem = CheckpointAllocation(
        cost=random.normal(size=(20, 4)), load=load, capacity=np.full(4, 1.1 * load.sum() / 4)
    )
    best = solve(problem)
    assert solve(problem, hint=best.assignment).objective == best.objective
    assert solve(problem, hint=np.zeros(20, dtype=int)).objective == best.objective


def test_nothing_is_printed_by_the_solvers(capfd):
    random = np.random.default_rng(0)
    load = random.uniform(1, 2, 30)
    solve(CheckpointAllocation(cost=random.normal(size=(30, 6)), load=load, capacity=np.full(6, 1.05 * load.sum() / 6)))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "best"}, "must be one of baseline, even, sensitive-first, exact"),
        ({"time_limit_s": 0}, "time_limit_s = 0"),
        ({"time_limit_s": math.nan}, "time_limit_s = nan"),
        ({"seed": -1}, "seed = -1"),
        ({"workers": 0}, "workers = 0"),
        ({"hint": [3]}, "hint[0] = 3"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(InputError) as caught:
        solve(CheckpointAllocation(cost=[[1.0]], load=[1]), **arguments)
    assert message in str(caught.value)


def test_fewer_assignments_are_tried_when_there_is_little_time(monkeypatch):
    exact = importlib.import_module("optimizer.checkpoint_allocation.exact")
    steps, tried = [], exact.better_assignment
    monkeypatch.setattr(exact, "better_assignment", lambda *given: steps.append(given[2]) or tried(*given))
    draw = np.random.default_rng(0)
    load = draw.integers(100, 1000, 60).astype(float)
    problem = CheckpointAllocation(cost=draw.random((60, 4)), load=load, capacity=np.full(4, load.sum() / 4 + 1))
    for seconds in (0.01, 1e-4):
        solve(problem, time_limit_s=seconds)
    assert len(steps) == 2
    assert max(steps) <= 1_000


@pytest.mark.parametrize("never", [1e36, 3e38])
def test_a_huge_float32_cost_leaves_the_digits_of_the_others(never):
    for seed in range(20):
        cost = (1 + np.random.default_rng(seed).random((5, 6)) * 1e-4).astype(np.float32)
        cost[:, 5] = never
        plan = solve(CheckpointAllocation(cost=cost, load=np.ones(5)))
        least = math.fsum(cost.min(axis=1).tolist())
        assert (plan.status, plan.objective, plan.bound) == (Status.OPTIMAL, least, least)


def test_digits_that_a_scale_would_lose_are_kept():
    unit = np.ldexp(5e-324, 62)
    plan = solve(CheckpointAllocation(cost=[[1.6 * unit, 1.5 * unit, 2.0**62]], load=[1.0]))
    assert (plan.status, plan.assignment.tolist(), plan.bound) == (Status.OPTIMAL, [1], 1.5 * unit)


@pytest.mark.parametrize("seed", sample(1, 6))
def test_costs_that_cancel_make_no_proof(seed):
    """Of two checkpoints at 1e15 and -1e15 the rounding is more than all others cost."""
    draw = np.random.default_rng(seed)
    j, n = 50, 10
    cost = draw.integers(0, 30, (j, n)) / 8
    load = draw.integers(5, 25, j).astype(float)
    load[:2], cost[:2] = 0.0, 0.0
    alone = CheckpointAllocation(cost=cost, load=load, capacity=np.full(n, np.ceil(load.sum() / n * 1.02) + 2))
    with as_much_work_as_in(4.0) as seconds:
        best = solve(alone, time_limit_s=seconds)
    cancelling = cost.copy()
    cancelling[0], cancelling[1] = 1e15, -1e15
    with as_much_work_as_in(0.2) as seconds:
        plan = solve(dataclasses.replace(alone, cost=cancelling), time_limit_s=seconds)
    assert best.status is Status.OPTIMAL
    assert plan.bound <= best.objective
    assert plan.status is Status.FEASIBLE or plan.objective == best.objective


def test_savings_and_copies_whose_costs_cancel_are_no_proof():
    huge = 1e17
    moved = CheckpointAllocation(
        cost=[[huge, 8.0], [huge, 0.0], [-huge, -huge]], load=[1, 1, 1], current=[0, 0, 0], max_moves=1
    )
    plan = solve(moved)
    assert (plan.status, plan.objective, plan.assignment.tolist()) == (Status.OPTIMAL, 0.0, [0, 1, 0])
    heuristic = CheckpointAllocation(
        cost=np.vstack([moved.cost, np.zeros((400, 2))]), load=np.ones(403), current=np.zeros(403, int), max_moves=1
    )
    plan = solve(heuristic)
    assert plan.status is Status.FEASIBLE or plan.objective == 0.0
    assert plan.bound <= 0.0
