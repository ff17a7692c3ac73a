"""Operator selection against all selections, tried one by one in exact fractions."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from work_limits import clock_that_strikes_after

import optimizer.selection.operators as module
from models.errors import InputError
from models.planning.selection import OperatorSelection
from models.planning.solution import OPTIMAL_GAP, Status
from optimizer.selection import select_operators, solve
from optimizer.selection.relaxation import _line, branched
from optimizer.verify.plans import verify_plan

WHOLE = st.integers(0, 12)
DECIMAL = st.integers(0, 40).map(lambda k: k / 10)
REAL = st.floats(0.0, 1e9, allow_subnormal=False)
WILD = st.one_of(REAL, st.sampled_from([0.0, 1e-300, 1e-20, 1e20, 1e90]))


def all_selections(problem: OperatorSelection) -> Fraction:
    """The best value of any selection, in exact fractions: every combination of levels is tried."""
    values = [[Fraction(v) for v in row] for row in problem.level_values.tolist()]
    weights = [[Fraction(w) for w in row] for row in problem.level_weights.tolist()]
    choices = [np.flatnonzero(row).tolist() for row in problem.allowed]
    best = Fraction(0)
    for level in itertools.product(*choices):
        weight = sum((weights[o][k] for o, k in enumerate(level)), Fraction(0))
        if weight <= Fraction(problem.limit):
            best = max(best, sum((values[o][k] for o, k in enumerate(level)), Fraction(0)))
    return best


@st.composite
def problems(draw, number, most_levels=1, most=9):
    n = draw(st.integers(1, most if most_levels == 1 else 5))
    levels = draw(st.integers(1, most_levels))
    table = st.lists(st.lists(number, min_size=levels, max_size=levels), min_size=n, max_size=n)
    value, weight = np.array(draw(table), dtype=float), np.array(draw(table), dtype=float)
    share = draw(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.75, 1.0]))
    capacity = np.floor(share * weight.max(axis=1).sum()) if number is WHOLE else share * weight.max(axis=1).sum()
    highest = draw(st.none() | st.lists(st.integers(0, levels), min_size=n, max_size=n))
    if levels == 1:
        value, weight = value[:, 0], weight[:, 0]
    return OperatorSelection(value, weight, float(capacity), max_level=highest)


def check(problem: OperatorSelection, *, exact: bool = False) -> None:
    plan = select_operators(problem, time_limit_s=60.0)
    best = all_selections(problem)
    assert plan.level is not None
    assert problem.fits(plan.level)
    assert problem.allowed[np.arange(problem.n_operators), plan.level].all()
    assert plan.objective == problem.objective(plan.level)
    assert best <= Fraction(plan.bound)  # the bound is proven, in exact arithmetic
    if plan.status is Status.OPTIMAL:
        assert best - Fraction(plan.objective) <= Fraction(OPTIMAL_GAP) * Fraction(plan.bound)
    if exact:
        assert (plan.status, plan.bound, Fraction(plan.objective)) == (Status.OPTIMAL, plan.objective, best)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(problems(WHOLE))
def test_of_whole_numbers_the_best_selection_is_found_and_proven(problem):
    check(problem, exact=True)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(problems(WHOLE, most_levels=3))
def test_of_whole_numbers_the_best_levels_are_found_and_proven(problem):
    check(problem, exact=True)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.one_of(problems(DECIMAL), problems(DECIMAL, most_levels=3)))
def test_of_decimal_numbers_optimal_is_true_and_the_bound_holds(problem):
    check(problem)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.one_of(problems(WILD), problems(REAL, most_levels=3)))
def test_of_any_numbers_optimal_is_true_and_the_bound_holds(problem):
    check(problem)


@pytest.mark.slow
@settings(max_examples=2_000, deadline=None)
@given(st.one_of(*(problems(kind, levels) for kind in (WHOLE, DECIMAL, REAL, WILD) for levels in (1, 3))))
def test_of_many_more_problems_optimal_is_true_and_the_bound_holds(problem):
    check(problem)


def table(problem: OperatorSelection) -> int:
    """The best value of whole numbers by the table of Bellman: capacity by capacity."""
    best = np.zeros(int(problem.capacity) + 1, dtype=np.int64)
    values, weights = problem.level_values.astype(int), problem.level_weights.astype(int)
    for value, weight, allowed in zip(values, weights, problem.allowed, strict=True):
        before = best.copy()
        for k in np.flatnonzero(allowed)[1:]:
            shifted = np.concatenate([np.full(weight[k], -1), before[: len(before) - weight[k]] + value[k]])
            best = np.maximum(best, shifted)
    return int(best[-1])


def correlated(kind: str, n: int, seed: int, top: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Values and weights of the classes of Pisinger, "Where are the hard knapsack problems?" (2005)."""
    draw = np.random.default_rng(seed)
    weight = draw.integers(1, top + 1, n)
    tenth = top // 10
    value = {
        "uncorrelated": lambda: draw.integers(1, top + 1, n),
        "weakly": lambda: np.maximum(1, weight + draw.integers(-tenth, tenth + 1, n)),
        "strongly": lambda: weight + tenth,
        "inverse": lambda: np.maximum(weight - tenth, 0),
        "almost": lambda: weight + tenth + draw.integers(-1, 2, n),
        "subset sum": lambda: weight,
        "even": lambda: weight * 2 + tenth,
    }[kind]()
    return value, weight * 2 if kind == "even" else weight


KINDS = ("uncorrelated", "weakly", "strongly", "inverse", "almost", "subset sum", "even")


@pytest.mark.parametrize("share", [0.13, 0.5, 0.87])
@pytest.mark.parametrize("kind", KINDS)
def test_classes_of_hard_problems_have_the_value_of_the_table(kind, share):
    for seed in range(4):
        value, weight = correlated(kind, 60, seed)
        problem = OperatorSelection(value, weight, float(int(weight.sum() * share) | 1))
        plan = select_operators(problem, time_limit_s=60.0)
        assert (plan.status, plan.objective, plan.bound) == (Status.OPTIMAL, table(problem), table(problem))


@pytest.mark.parametrize("kind", KINDS)
def test_levels_of_hard_problems_have_the_value_of_the_table(kind):
    for seed in range(3):
        value, weight = (np.cumsum(part.reshape(20, 3), axis=1) for part in correlated(kind, 60, seed, 40))
        problem = OperatorSelection(value, weight, float(int(weight[:, 2].sum() * 0.4)))
        plan = select_operators(problem, time_limit_s=60.0)
        assert (plan.status, plan.objective, plan.bound) == (Status.OPTIMAL, table(problem), table(problem))


@pytest.mark.parametrize("kind", KINDS)
def test_without_exchanges_the_core_alone_finds_the_same(kind, monkeypatch):
    monkeypatch.setattr(module, "exchanged", lambda options, level, relaxation: level)
    for seed in range(3):
        value, weight = correlated(kind, 40, seed)
        problem = OperatorSelection(value, weight, float(int(weight.sum() * 0.4) | 1))
        plan = select_operators(problem, time_limit_s=60.0)
        assert (plan.status, plan.objective) == (Status.OPTIMAL, table(problem))


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_that_ends_early_says_feasible_and_its_bound_holds(kind, monkeypatch):
    monkeypatch.setattr(module, "exchanged", lambda options, level, relaxation: level)
    monkeypatch.setattr(module, "_FIRST_STATES", 2)
    monkeypatch.setattr(module, "_MOST_STATES", 20)
    monkeypatch.setattr(module, "_MOST_TRIED", 0)
    early = 0
    for seed in range(6):
        value, weight = correlated(kind, 50, seed)
        problem = OperatorSelection(value, weight, float(int(weight.sum() * 0.4) | 1))
        plan = select_operators(problem, time_limit_s=60.0)
        best = table(problem)
        assert plan.objective <= best <= plan.bound
        assert (plan.status is Status.OPTIMAL) == (plan.objective == plan.bound)
        early += "the search ended" in plan.note
    assert early > 0 or kind in ("uncorrelated", "subset sum")


def test_ten_times_a_tenth_fits_one_and_eleven_times_do_not():
    plan = select_operators(OperatorSelection(np.ones(11), np.full(11, 0.1), 1.0), time_limit_s=60.0)
    assert (plan.status, plan.objective) == (Status.OPTIMAL, 10.0)


def test_of_whole_numbers_nothing_is_taken_above_the_capacity():
    plan = select_operators(OperatorSelection(np.ones(2), np.full(2, 2.0**49), 2.0**50 - 1), time_limit_s=60.0)
    assert (plan.status, plan.objective, plan.used) == (Status.OPTIMAL, 1.0, 2.0**49)


def test_the_time_limit_is_named_where_it_struck(monkeypatch):
    monkeypatch.setattr(module, "exchanged", lambda options, level, relaxation: level)
    value, weight = correlated("strongly", 3000, 1, 10**6)
    problem = OperatorSelection(value, weight, float(weight.sum() // 2))
    with clock_that_strikes_after(0):
        plan = select_operators(problem, time_limit_s=60.0)
    assert plan.status is Status.FEASIBLE
    assert plan.note == "the time limit struck"
    assert plan.objective <= select_operators(problem, time_limit_s=60.0).objective <= plan.bound


def test_the_same_problem_has_the_same_answer():
    value, weight = correlated("almost", 500, 3, 10**4)
    problem = OperatorSelection(value, weight, float(weight.sum() // 3))
    first, second = (select_operators(problem, time_limit_s=60.0) for _ in range(2))
    assert first.level.tolist() == second.level.tolist()
    assert (first.status, first.bound) == (second.status, second.bound)


@pytest.mark.parametrize("kind", ["strongly", "inverse", "almost"])
def test_each_branch_bounds_the_selections_of_its_size_and_both_bound_all(kind):
    """The best value for each number of operators, by trying all selections, against the bound of the branch."""
    for seed in range(12):
        value, weight = correlated(kind, 11, seed)
        problem = OperatorSelection(value, weight, float(int(weight.sum() * 0.45)))
        numbers, options = module.whole_numbers(problem)
        few, many = branched(options)
        sets = np.array(list(itertools.product([0, 1], repeat=11)))
        good = sets[sets @ weight <= problem.capacity]
        worth, count = good @ value, good.sum(axis=1)
        k = math.floor(-_line(options, 0.0, 0).slope)
        assert numbers.real(few.bound) >= worth[count <= k].max()
        assert numbers.real(many.bound) >= worth[count > k].max(initial=0)
        assert numbers.real(max(few.bound, many.bound)) >= worth.max()
        plan = select_operators(problem, time_limit_s=60.0)
        assert (plan.status, plan.objective) == (Status.OPTIMAL, worth.max())


def test_almost_strongly_correlated_weights_of_a_million_are_proven():
    _, weight = correlated("almost", 2_000, 1, 10**6)
    value = weight + 10**5 + np.random.default_rng(1).integers(-2000, 2001, 2_000)
    plan = select_operators(OperatorSelection(value, weight, float(weight.sum() // 2)), time_limit_s=60.0)
    assert (plan.status, plan.bound) == (Status.OPTIMAL, plan.objective)


def test_a_former_plan_is_improved_and_one_that_does_not_fit_is_not_used():
    value, weight = correlated("weakly", 200, 1)
    problem = OperatorSelection(value, weight, float(weight.sum() // 3))
    plan = solve(problem)
    assert solve(problem, hint=plan).objective == plan.objective
    smaller = OperatorSelection(value, weight, float(weight.sum() // 4))
    assert solve(smaller, hint=plan).objective == solve(smaller).objective
    with pytest.raises(InputError, match="hint"):
        solve(problem, hint="plan")


def test_a_false_weight_in_use_is_found():
    problem = OperatorSelection(value=[9.0, 1.0], weight=[2.0, 1.0], capacity=2.0)
    plan = solve(problem)
    assert verify_plan(problem, plan).ok
    assert not verify_plan(problem, replace(plan, used=1.0)).ok
