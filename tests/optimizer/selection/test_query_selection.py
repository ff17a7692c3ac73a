"""Query selection against all sets of queries, tried one by one in exact fractions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from degenerate_instances import true_queries
from hypothesis import given, settings
from hypothesis import strategies as st

import optimizer.selection.queries as module
from models.planning.selection import QueryPlan, QuerySelection
from models.planning.solution import OPTIMAL_GAP, Status
from optimizer.selection import solve
from optimizer.verify.plans import verify_plan
from optimizer.verify.selection import split_bound

WHOLE = st.integers(0, 12).map(float)
DECIMAL = st.integers(0, 40).map(lambda k: k / 10)
REAL = st.floats(0.0, 1e6, allow_subnormal=False)


@st.composite
def problems(draw, number=None, most=6):
    number = number if number is not None else draw(st.sampled_from([WHOLE, DECIMAL, REAL]))
    m, n = draw(st.integers(1, most)), draw(st.integers(1, most))
    value = draw(st.lists(number, min_size=m, max_size=m))
    weight = draw(st.lists(number, min_size=n, max_size=n))
    pair = st.tuples(st.integers(0, m - 1), st.integers(0, n - 1))
    uses = draw(st.lists(pair, max_size=3 * m))
    share = draw(st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0]))
    capacity = float(np.floor(share * sum(weight))) if number is WHOLE else share * sum(weight)
    single = draw(st.none() | st.lists(number, min_size=n, max_size=n))
    return QuerySelection(value, weight, np.array(uses).reshape(-1, 2), capacity, operator_value=single)


def all_sets(problem: QuerySelection) -> Fraction:
    """The best value of any set of queries, in exact fractions."""
    best = true_queries(problem).best
    assert best is not None
    return best


def check(problem: QuerySelection) -> QueryPlan:
    plan = solve(problem)
    best = all_sets(problem)
    assert plan.objective == problem.objective(plan.queries)
    assert problem.fits(plan.operators)
    assert (plan.queries <= problem.whole(plan.operators)).all()
    assert best <= Fraction(plan.bound)  # the bound is proven, in exact arithmetic
    assert plan.single_value <= plan.single_bound
    if plan.status is Status.OPTIMAL:
        assert best - Fraction(plan.objective) <= Fraction(OPTIMAL_GAP) * Fraction(plan.bound)
    verdict = verify_plan(problem, plan, gap=plan.gap)
    assert verdict.violations == ()
    return plan


@settings(max_examples=60, deadline=None, derandomize=True)
@given(problems(WHOLE))
def test_of_whole_numbers_the_best_set_is_found_and_proven(problem):
    plan = check(problem)
    assert (plan.status, plan.bound, Fraction(plan.objective)) == (Status.OPTIMAL, plan.objective, all_sets(problem))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.one_of(problems(DECIMAL), problems(REAL)))
def test_of_real_numbers_optimal_is_true_and_the_bound_holds(problem):
    check(problem)


@pytest.mark.slow
@settings(max_examples=1_000, deadline=None)
@given(problems(most=8))
def test_of_many_more_problems_optimal_is_true_and_the_bound_holds(problem):
    check(problem)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(problems())
def test_the_shares_of_a_cut_prove_a_bound_by_themselves(problem):
    plan = solve(problem)
    assert split_bound(problem, plan) >= float(all_sets(problem)) * (1 - 1e-15)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(problems())
def test_any_shares_prove_a_bound_that_holds(problem):
    plan, draw = solve(problem), np.random.default_rng(len(problem.uses))
    for split in (plan.split, plan.split / 2, draw.random(len(problem.uses)) * 1e6, -plan.split):
        assert split_bound(problem, replace(plan, split=split)) >= float(all_sets(problem)) * (1 - 1e-15)


def sparse(m: int, n: int, seed: int) -> QuerySelection:
    draw = np.random.default_rng(seed)
    uses = [(q, o) for q in range(m) for o in np.unique(draw.integers(0, n, draw.integers(1, 5))).tolist()]
    value, weight = draw.integers(1, 50, m), draw.integers(1, 30, n)
    return QuerySelection(value, weight, uses, float(weight.sum() // 3), operator_value=draw.random(n))


def test_the_same_seed_gives_the_same_plan_for_any_number_of_workers():
    problem = sparse(60, 50, 1)
    first, second = solve(problem, seed=3), solve(problem, seed=3, workers=2)
    assert first.queries.tolist() == second.queries.tolist()
    assert first.operators.tolist() == second.operators.tolist()
    assert (first.objective, first.bound) == (second.objective, second.bound)


def test_without_an_exact_search_the_bound_still_holds_and_is_no_proof(monkeypatch):
    monkeypatch.setattr(module, "_PROGRAM_USES", -1)
    monkeypatch.setattr(module, "_MOST_FILLING", 8_000)
    monkeypatch.setattr(module, "_WORK_AROUND_PER_S", 0)
    monkeypatch.setattr(module, "_WORK_BEFORE_PER_S", 0)
    monkeypatch.setattr(module, "_WORK_AFTER_PER_S", 0)
    monkeypatch.setattr(module, "_MOST_STEPS", 0)
    open_ones = 0
    for seed in range(4):
        problem = sparse(14, 9, seed)
        plan, best = solve(problem), float(all_sets(problem))
        assert plan.objective <= best <= plan.bound
        assert (plan.status is Status.OPTIMAL) == (plan.objective == plan.bound)
        open_ones += plan.status is Status.FEASIBLE
        assert plan.status is Status.OPTIMAL or "too many" in plan.note
    assert open_ones > 0


def test_what_queries_leave_goes_to_single_operators():
    problem = QuerySelection([5.0], [2, 2, 3, 1], [[0, 0]], 6.0, operator_value=[9, 1, 4, 2])
    plan = solve(problem)
    assert plan.operators.tolist() == [True, False, True, True]
    assert (plan.objective, plan.single_value, plan.single_bound) == (5.0, 6.0, 6.0)


def test_a_query_without_operators_costs_nothing_and_one_too_large_is_left_out():
    plan = solve(QuerySelection([5.0, 7.0], [3.0], [[1, 0]], 2.0))
    assert plan.queries.tolist() == [True, False]
    assert (plan.status, plan.objective) == (Status.OPTIMAL, 5.0)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"objective": 1.0}, "says objective 1.0"),
        ({"bound": 0.5}, "which the recomputed objective"),
        ({"queries": [True, True]}, "query 1 is chosen without all its operators"),
        ({"operators": [True], "queries": [True, True]}, "takes 3.0, the capacity is 2.0"),
        ({"status": Status.INFEASIBLE}, "says infeasible"),
        ({"bound": 9.0}, "says optimal with gap"),
    ],
)
def test_false_claims_are_found_without_a_solver(changes, text):
    problem = QuerySelection([5.0, 7.0], [3.0], [[1, 0]], 2.0)
    plan = replace(solve(problem), **changes)
    assert text in " ".join(map(str, verify_plan(problem, plan).violations))


def test_queries_that_need_nothing_where_there_are_no_operators_are_all_chosen():
    plan = solve(QuerySelection([5.0, 7.0], [], [], 0.0))
    assert (plan.status, plan.objective, plan.queries.tolist()) == (Status.OPTIMAL, 12.0, [True, True])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"single_value": 5.0}, "those that no query needs are worth 6.0"),
        ({"single_value": 16.0}, "all that are chosen are worth 15.0"),
        ({"single_bound": 5.0}, "says bound 5.0 of single operators"),
    ],
)
def test_false_claims_about_single_operators_are_found(changes, text):
    problem = QuerySelection([5.0], [2, 2, 3, 1], [[0, 0]], 6.0, operator_value=[9, 1, 4, 2])
    plan = solve(problem)
    assert verify_plan(problem, plan).ok
    assert text in " ".join(map(str, verify_plan(problem, replace(plan, **changes)).violations))


def test_a_plan_that_states_nothing_of_single_operators_claims_nothing_of_them():
    problem = QuerySelection([5.0], [2, 2, 3, 1], [[0, 0]], 6.0, operator_value=[9, 1, 4, 2])
    plan = replace(solve(problem), single_value=None, single_bound=None)
    assert verify_plan(problem, plan).ok
    text = "those that no query needs are worth 6.0"
    assert text in " ".join(map(str, verify_plan(problem, replace(plan, single_value=0.0)).violations))


@pytest.mark.parametrize("share", [1.0, 1e100])
def test_shares_whose_price_is_beyond_all_numbers_prove_nothing(share):
    problem = QuerySelection([1.0, 2.0], [5e-324, 1.0], [[0, 0], [1, 1]], 1.0)
    plan = replace(solve(problem), split=np.array([share, 0.0]), bound=2.5)
    assert split_bound(problem, plan) == float("inf")
    verdict = verify_plan(problem, plan)
    assert not any("the bound, which the shares" in one for one in verdict.checked)


def test_single_operators_fill_what_is_left_to_the_last_decimal():
    """0.5 + 0.1 + 0.8 beside a query of 0.3 is 1.7, as a sum of decimal numbers; of binary ones it is a hair more."""
    problem = QuerySelection(
        value=[9.0], weight=[0.5, 0.1, 0.8, 0.3], uses=[[0, 3]], capacity=1.7, operator_value=[5.0, 5.0, 5.0, 1.0]
    )
    plan = solve(problem)
    assert plan.operators.all() and problem.fits(plan.operators)
    assert (plan.single_value, plan.single_bound) == (15.0, 15.0)
    assert verify_plan(problem, plan).ok


@pytest.mark.parametrize("seed", range(40))
def test_the_bound_of_single_operators_is_one_of_all_that_fit_beside_the_queries(seed):
    draw = np.random.default_rng(seed)
    n = int(draw.integers(2, 8))
    weight = draw.integers(1, 10, n) * 0.1
    capacity = float(np.round(weight[draw.random(n) < 0.7].sum(), 1))
    problem = QuerySelection([9.0, 5.0], weight, [[0, 0], [1, 1]], capacity, operator_value=draw.integers(1, 9, n))
    plan = solve(problem)
    taken = problem.union(plan.queries)
    free = np.flatnonzero(~taken)
    best = 0.0
    for mask in range(2 ** len(free)):
        more = taken.copy()
        more[free[[mask >> k & 1 == 1 for k in range(len(free))]]] = True
        if problem.fits(more):
            best = max(best, float(problem.operator_value[more & ~taken].sum()))
    assert plan.single_value == best
    assert plan.single_bound >= best


def test_a_false_weight_in_use_is_found():
    problem = QuerySelection(value=[9.0], weight=[2.0, 1.0], uses=[[0, 0]], capacity=2.0)
    plan = solve(problem)
    assert verify_plan(problem, plan).ok
    assert not verify_plan(problem, replace(plan, used=1.0)).ok


def test_a_bound_of_single_operators_that_others_pass_does_not_hold():
    problem = QuerySelection([9], [2, 3, 4], [[0, 0]], 6, operator_value=[1, 2, 5])
    plan = solve(problem)
    assert (plan.single_value, plan.single_bound) == (5.0, 5.0)
    assert verify_plan(problem, plan).ok
    worse = replace(plan, operators=[True, True, False], used=5.0, single_value=2.0, single_bound=2.0)
    verdict = verify_plan(problem, worse)
    assert [str(one) for one in verdict.violations] == ["single: says bound 2.0 of single operators, others have 5.0"]
