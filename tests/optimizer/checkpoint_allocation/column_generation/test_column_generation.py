"""Column generation against brute force: knapsacks, the bound, the pairs left out, and what is called optimal."""

import dataclasses
import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from work_limits import as_much_work_as_in

from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import Status
from optimizer.checkpoint_allocation import params, solve
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.column_generation import improve, knapsack
from optimizer.checkpoint_allocation.column_generation.meet_in_the_middle import pair_bounds
from optimizer.checkpoint_allocation.column_generation.multipliers import Part, Sets, raised
from optimizer.checkpoint_allocation.column_generation.search import ColumnGeneration
from optimizer.checkpoint_allocation.lagrangian.bound import dual_prices
from optimizer.checkpoint_allocation.params import ColumnGenerationParameters
from optimizer.verify import checkpoint_bounds as numbers
from optimizer.verify.checkpoint_bounds import column_generation_bound, lagrangian_bound
from optimizer.verify.checkpoints import verify_checkpoints
from optimizer.verify.constraints import constraint_violations
from scenarios.planning.plan_files import plan_to_dict, read_checkpoint_plan, write_plan

EVERY = settings(derandomize=True, deadline=None, max_examples=40)


def sets_by_brute_force(value, load, room):
    """(value, set) of everything that fits."""
    n = len(value)
    for mask in itertools.product((False, True), repeat=n):
        at = np.flatnonzero(mask)
        if load[at].sum() <= room and np.isfinite(value[at]).all():
            yield float(value[at].sum()), set(at.tolist())


def knapsack_case(seed):
    random = np.random.default_rng(seed)
    n = int(random.integers(1, 9))
    load = random.integers(0, 12, n)
    value = random.integers(-5, 30, n) * 1.0 if seed % 3 else 2.0 * load + random.integers(-2, 3, n)
    value[random.random(n) < 0.1] = -np.inf
    return value, load, int(random.integers(0, load.sum() + 3))


@pytest.mark.parametrize("few", [1, 3, 40])
def test_the_best_set_is_that_of_brute_force(few):
    parameters = ColumnGenerationParameters(knapsack_core=few)
    for seed in range(150):
        value, load, room = knapsack_case(seed)
        best, chosen = knapsack.best_set(value, load, room, parameters=parameters)
        assert best == max(v for v, _ in sets_by_brute_force(value, load, room))
        assert value[chosen].sum() == best
        assert load[chosen].sum() <= room
        assert len(set(chosen.tolist())) == len(chosen)


@pytest.mark.parametrize("table", [8_000_000, 0])
def test_penalties_are_what_brute_force_loses_and_never_more(table):
    parameters = ColumnGenerationParameters(knapsack_table=table)
    equal = 0
    for seed in range(150):
        value, load, room = knapsack_case(seed)
        margin = float(seed % 7 * 3)
        best, within, without = knapsack.penalties(value, load, room, margin, parameters=parameters)
        every = list(sets_by_brute_force(value, load, room))
        assert best == max(v for v, _ in every)
        for j in range(len(value)):
            has = max((v for v, at in every if j in at), default=-np.inf)
            lacks = max(v for v, at in every if j not in at)
            assert within[j] <= best - has + 1e-9 * (np.isfinite(has))
            assert without[j] <= best - lacks + 1e-9
            equal += within[j] >= min(best - has, margin) - 1e-9
            if table:
                assert within[j] >= min(best - has, margin) - 1e-9
                assert without[j] >= min(best - lacks, margin) - 1e-9
    assert equal > 100


def small_problem(seed, j=None, n=None, slack=1.15):
    random = np.random.default_rng(seed)
    j, n = j or int(random.integers(2, 8)), n or int(random.integers(2, 4))
    kind = seed % 4
    load = random.integers(1, 20, (j, n)) * 1.0 if kind < 2 else random.lognormal(0, 0.7, j)
    cost = random.integers(-30, 60, (j, n)) * 1.0 if kind in (0, 2) else random.normal(size=(j, n))
    if kind == 3:
        cost = cost.astype(np.float32)
    total = load.mean(axis=1).sum() if load.ndim == 2 else load.sum()
    low = np.full(n, 0.4 * total / n) if seed % 5 == 0 else None
    return CheckpointAllocation(
        cost=cost, load=load, capacity=np.full(n, slack * total / n), capacity_min=low,
        forbidden=np.argwhere(random.random((j, n)) < 0.1),
    )  # fmt: skip


def feasible(problem):
    every = (np.array(a) for a in itertools.product(range(problem.n_nodes), repeat=problem.n_checkpoints))
    return [(problem.objective(a), a) for a in every if not constraint_violations(problem, a)]


def exact_column_generation_bound(problem, multipliers):
    """The bound in rational numbers, each node's best set by enumeration, without rounding of loads or costs."""
    u = [Fraction(float(one)) for one in multipliers]
    total = sum(u)
    for n in range(problem.n_nodes):
        rows = [j for j in range(problem.n_checkpoints) if problem.allowed[j, n]]
        values = {j: u[j] - Fraction(float(problem.cost[j, n])) for j in rows}
        loads = {j: Fraction(float(problem.weights[j, n])) for j in rows}
        room = Fraction(float(problem.upper[n]))
        sets = itertools.chain.from_iterable(itertools.combinations(rows, k) for k in range(len(rows) + 1))
        total -= max(sum((values[j] for j in one), Fraction(0)) for one in sets if sum(loads[j] for j in one) <= room)
    return total


@EVERY
@given(st.integers(0, 2**32))
def test_no_allocation_is_cheaper_than_the_bound_of_any_multipliers(seed):
    problem = small_problem(seed)
    answers = feasible(problem)
    random = np.random.default_rng(seed)
    for size in np.array([0.0, 0.3, 5.0]) * (np.where(problem.allowed, np.abs(problem.cost), 0).max() or 1.0):
        u = random.normal(size=problem.n_checkpoints) * size
        bound = column_generation_bound(problem, u)
        for value, _ in answers:
            assert bound <= value
        if not numbers.whole_numbers(problem).whole:  # else the bound is rounded up to a whole number
            assert Fraction(bound) <= exact_column_generation_bound(problem, u) + Fraction(1, 2**40)


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_the_bound_of_whole_numbers_is_the_rational_one_rounded_up(seed):
    problem = small_problem(seed)
    u = np.random.default_rng(seed).integers(-2000, 30000, problem.n_checkpoints) / 1024
    exact_one = exact_column_generation_bound(problem, u)
    assert column_generation_bound(problem, u) == -((-exact_one.numerator) // exact_one.denominator)


@EVERY
@given(st.integers(0, 2**32))
def test_no_better_allocation_has_a_pair_that_is_left_out(seed):
    problem = small_problem(seed)
    answers = feasible(problem)
    given_ = numbers.whole_numbers(problem)
    if not answers:
        return
    n, j = problem.n_nodes, problem.n_checkpoints
    part = Part(given_.cost, given_.load, given_.room, np.arange(n), np.arange(j))
    start = np.where(np.isfinite(given_.cost), given_.cost, 0.0).max(axis=0)
    found = raised(part, start, steps=60, delta=5 * given_.scale, patience=4, sets=Sets(), work=Budget(1.0))
    best = sorted(value for value, _ in answers)
    for known in {best[0], best[len(best) // 2]}:
        _, least = pair_bounds(part, found.u, given_.excluded(known), Budget(1.0))
        closed = (least >= given_.excluded(known)).T
        for value, answer in answers:
            assert value >= known or not closed[np.arange(j), answer].any()


def check_column_generation(seed):
    """Compare what column generation claims of one problem with brute force."""
    problem = small_problem(seed)
    answers = feasible(problem)
    with pytest.MonkeyPatch.context() as patch:
        sizes = replace(params.DEFAULT.sizes, tiny=0, program=0 if seed % 2 else 5_000)
        steps = replace(params.DEFAULT.capacitated, first_nodes=1)
        patch.setattr(params, "DEFAULT", replace(params.DEFAULT, sizes=sizes, capacitated=steps))
        with as_much_work_as_in(0.1) as seconds:
            plan = solve(problem, time_limit_s=seconds)
    best = min((value for value, _ in answers), default=None)
    if best is None:
        assert plan.status in (Status.INFEASIBLE, Status.UNKNOWN)
        return
    assert plan.status is not Status.INFEASIBLE
    assert plan.bound <= best + 1e-9 * abs(best)
    if plan.status is Status.OPTIMAL:
        assert plan.objective == pytest.approx(best, rel=2e-9, abs=1e-12)
    assert verify_checkpoints(problem, plan).ok or plan.assignment is None


@settings(EVERY, max_examples=15)
@given(st.integers(0, 2**32))
def test_column_generation_is_feasible_and_what_it_calls_optimal_is(seed):
    check_column_generation(seed)


@pytest.mark.slow
@settings(EVERY, max_examples=200)
@given(st.integers(0, 2**32))
def test_column_generation_is_feasible_and_what_it_calls_optimal_is_in_many_problems(seed):
    check_column_generation(seed)


def type_d(seed, nodes, items):
    random = np.random.default_rng(seed)
    load = random.integers(1, 101, (items, nodes)) * 1.0
    cost = 111 - load + random.integers(-10, 11, load.shape)
    return CheckpointAllocation(cost=cost, load=load, capacity=np.floor(0.8 * load.sum(axis=0) / nodes))


def generated(problem, prices):
    """The bound of column generation, and the best allocation from it, without any program on all nodes."""
    search = ColumnGeneration(problem, prices, None, Budget.of_seconds(60.0, 0.5))
    search.improve(1.0)
    return search.found()


@pytest.fixture(scope="module")
def tight():
    problem = type_d(0, 6, 36)
    prices = dual_prices(problem)
    return problem, prices, generated(problem, prices)


def test_column_generation_proves_more_than_prices_and_comes_near_it(tight):
    problem, prices, found = tight
    assert found.bound > lagrangian_bound(problem, prices) + 5
    assert constraint_violations(problem, found.assignment) == []
    assert problem.objective(found.assignment) <= 1.02 * found.bound
    assert column_generation_bound(problem, found.multipliers) == found.bound
    again = generated(problem, prices)
    assert again.assignment.tolist() == found.assignment.tolist()


@pytest.fixture(scope="module")
def begun(tight):
    """A plan of little work from where the search of `tight` ended."""
    problem, _, found = tight
    with as_much_work_as_in(0.01) as seconds:
        return solve(problem, hint=found.assignment, time_limit_s=seconds)


def test_the_verifier_takes_the_bound_from_the_multipliers_and_no_higher_one(tight, begun, tmp_path):
    problem, prices, found = tight
    plan = dataclasses.replace(
        begun, status=Status.FEASIBLE, bound=found.bound, prices=prices, multipliers=found.multipliers
    )
    verdict = verify_checkpoints(problem, plan)
    assert verdict.ok
    assert "the bound, which the multipliers of the plan prove" in verdict.checked
    higher = verify_checkpoints(problem, dataclasses.replace(plan, bound=found.bound + 1))
    assert not any("prove" in one for one in higher.checked)
    for name in ("plan.json", "plan.npz"):
        write_plan(plan_to_dict(plan, problem), tmp_path / name)
        assert np.array_equal(read_checkpoint_plan(tmp_path / name).multipliers, found.multipliers)
    assert plan_to_dict(plan)["multipliers"] == found.multipliers.tolist()


def test_multipliers_that_are_no_numbers_or_too_many_prove_nothing(tight, begun):
    problem, _, found = tight
    for wrong in (found.multipliers[:-1], np.full(36, np.inf), np.full(36, np.nan), np.full(36, 1e300)):
        given_ = dataclasses.replace(begun, status=Status.FEASIBLE, bound=found.bound, prices=None, multipliers=wrong)
        assert not any("prove" in one for one in verify_checkpoints(problem, given_).checked)


@pytest.mark.parametrize("room", [0.0, 1e-300])
def test_a_host_that_may_hold_nothing_is_no_error(room):
    """Loads to the nearest unit take one unit off each room: none of it may be below 0."""
    random = np.random.default_rng(0)
    load = random.lognormal(0, 1, 150)
    capacity = np.full(20, 1.1 * load.sum() / 19)
    capacity[3] = room
    problem = CheckpointAllocation(cost=random.random((150, 20)) * load[:, None], load=load, capacity=capacity)
    assert numbers.whole_numbers(problem, 1000, near=True).room.min() == 0
    with as_much_work_as_in(0.2) as seconds:
        plan = solve(problem, time_limit_s=seconds)
    assert plan.status is Status.FEASIBLE or plan.status is Status.OPTIMAL
    assert (plan.assignment != 3).all()


def test_a_dive_ends_where_no_set_keeps_the_true_capacities():
    """Loads of sets are rounded: where capacities are tight each set may be a hair too much, and nothing is fixed."""
    part = Part(np.zeros((3, 6)), np.ones((3, 6), np.int64), np.full(3, 2), np.arange(3), np.arange(6))
    sets = Sets()
    raised(part, np.ones(6), steps=5, delta=4.0, patience=2, sets=sets, work=Budget(1e9))
    depth = improve.Depth(steps=2, delta=4.0, left=1)
    said = []

    def never(node, chosen):
        said.append(node)
        return False

    random = np.random.default_rng(0)
    assert improve.dive(part, np.ones(6), sets, depth, target=9.0, fits=never, random=random, work=Budget(1e9)) is None
    assert said
