"""The search for queries by branching on operators, and the bounds of its nodes, against all sets tried one by one."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optimizer.selection.closure as lagrangian_module
import optimizer.selection.query_tree as module
from models.checked_arrays import BoolArray
from models.planning.selection import QuerySelection
from optimizer.selection.closure import Closures, best_cuts, whole_numbers
from optimizer.selection.filling import Filling
from optimizer.selection.query_tree import Searched, Tree
from optimizer.selection.scaling import Scaled

NUMBERS = {
    "whole": st.integers(0, 12).map(float),
    "tied": st.integers(0, 2).map(float),
    "decimal": st.integers(0, 40).map(lambda k: k / 10),
    "huge": st.integers(0, 2**53).map(float),
    "far apart": st.sampled_from([0.0, 1e-12, 0.1, 1.0, 3.0, 7e6, 1e15]),
}


@st.composite
def problems(draw, most=7):
    """Small problems: ties, zeros, huge numbers, queries without operators, and some that all share an operator."""
    value_kind, weight_kind = draw(st.sampled_from(sorted(NUMBERS))), draw(st.sampled_from(sorted(NUMBERS)))
    m, n = draw(st.integers(1, most)), draw(st.integers(1, most))
    value = draw(st.lists(NUMBERS[value_kind], min_size=m, max_size=m))
    weight = draw(st.lists(NUMBERS[weight_kind], min_size=n, max_size=n))
    uses = draw(st.lists(st.tuples(st.integers(0, m - 1), st.integers(0, n - 1)), max_size=4 * m))
    if draw(st.booleans()):
        uses += [(q, 0) for q in range(m)]
    capacity = draw(st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0])) * sum(weight)
    return QuerySelection(value, weight, np.array(uses, dtype=int).reshape(-1, 2), capacity)


def sets_of(problem: QuerySelection) -> list[tuple[BoolArray, Fraction, bool]]:
    """All sets of queries with their exact value, and whether they fit, in exact fractions."""
    values, weights = [[Fraction(x) for x in numbers.tolist()] for numbers in (problem.value, problem.weight)]
    found = []
    for chosen in itertools.product([False, True], repeat=problem.n_queries):
        queries = np.array(chosen)
        weight = sum((weights[o] for o in np.flatnonzero(problem.union(queries)).tolist()), Fraction(0))
        value = sum((values[q] for q in np.flatnonzero(queries).tolist()), Fraction(0))
        found.append((queries, value, weight <= Fraction(problem.limit)))
    return found


def best_value(problem: QuerySelection) -> Fraction:
    return max(value for _, value, fits in sets_of(problem) if fits)


def grown(problem: QuerySelection, *, step: int = 1) -> tuple[Tree, Scaled]:
    possible = np.ones(problem.n_queries, dtype=np.bool_)
    numbers = whole_numbers(problem, possible)
    bound = int(numbers.value.sum())
    return Tree(problem, numbers, possible, Filling(problem, possible), bound, max(step, numbers.grain)), numbers


def searched(problem: QuerySelection, work: float = math.inf) -> tuple[Searched, Scaled]:
    tree, numbers = grown(problem)
    return tree.search(work, math.inf), numbers


@settings(max_examples=150, deadline=None, derandomize=True)
@given(problems())
def test_all_that_is_better_is_found_and_the_bound_holds(problem):
    found, numbers = searched(problem)
    best = best_value(problem)
    assert problem.fits(problem.union(found.queries))
    assert best <= Fraction(numbers.real(found.bound))
    if numbers.exact:
        assert Fraction(problem.objective(found.queries)) == best == Fraction(found.bound) / 2**numbers.value_bits


@pytest.mark.slow
@settings(max_examples=3_000, deadline=None)
@given(problems(most=8))
def test_all_that_is_better_is_found_in_many_more_problems(problem):
    found, numbers = searched(problem)
    best = best_value(problem)
    assert best <= Fraction(numbers.real(found.bound))
    if numbers.exact:
        assert Fraction(problem.objective(found.queries)) == best


@pytest.mark.parametrize("bits", [4, 8])
def test_whole_numbers_of_few_bits_give_a_bound_and_no_false_proof(monkeypatch, bits):
    """What fits in coarse numbers may not fit: such leaves must stay in the bound."""
    monkeypatch.setattr(lagrangian_module, "_BITS", bits)
    draw, unclear = np.random.default_rng(bits), 0
    for _ in range(80):
        uses = np.argwhere(draw.random((6, 5)) < 0.4)
        weight = draw.random(5)
        problem = QuerySelection(draw.random(6), weight, uses, float(0.6 * weight.sum()))
        tree, numbers = grown(problem)
        found = tree.search(math.inf, math.inf)
        assert problem.fits(problem.union(found.queries))
        assert best_value(problem) <= Fraction(numbers.real(found.bound))
        unclear += tree._unclear > 0
    assert unclear > 0


def test_bounds_that_are_exact_to_the_last_unit_cut_off_nothing_that_is_better(monkeypatch):
    """Small whole numbers in few bits: prices round, and what is fixed, or not, is decided by one unit."""
    monkeypatch.setattr(lagrangian_module, "_BITS", 7)
    draw, exact = np.random.default_rng(3), 0
    every = (np.arange(2**8)[:, None] >> np.arange(8) & 1).astype(bool)
    for _ in range(400):
        needs = draw.random((8, 6)) < draw.choice([0.2, 0.35, 0.5])
        value, weight = draw.integers(0, 5, 8), draw.integers(0, 6, 6)
        room = int(draw.integers(0, weight.sum() + 1))
        problem = QuerySelection(value, weight, np.argwhere(needs), float(room))
        used = (every @ needs.astype(int) > 0) @ weight
        found, numbers = searched(problem)
        if numbers.exact:
            best = (every @ value)[used <= room].max()
            assert (problem.objective(found.queries), numbers.real(found.bound)) == (best, best)
            exact += 1
    assert exact > 300


@settings(max_examples=40, deadline=None, derandomize=True)
@given(problems(), st.integers(1, 4))
def test_the_bound_holds_wherever_the_search_ends_and_going_on_never_makes_it_worse(problem, at_once):
    best = best_value(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_AT_FIRST", at_once)
        tree, numbers = grown(problem)
        bounds = []
        for _ in range(12):
            found = tree.search(1.0, math.inf)
            bounds.append(found.bound)
            assert best <= Fraction(numbers.real(found.bound))
            assert not found.timed_out
        assert bounds == sorted(bounds, reverse=True)
        last = numbers.real(tree.search(math.inf, math.inf).bound)
        assert best == Fraction(last) if numbers.exact else best <= Fraction(last)


def test_a_search_whose_time_is_over_says_so_and_keeps_its_bound():
    problem = QuerySelection([3.0, 2.0], [2.0, 2.0], [[0, 0], [1, 1]], 3.0)
    tree, numbers = grown(problem)
    found = tree.search(math.inf, -math.inf)
    assert found.timed_out
    assert numbers.real(found.bound) == 5.0


def test_a_known_set_is_kept_and_only_what_is_better_is_looked_for():
    problem = QuerySelection([3.0, 3.0], [2.0, 2.0], [[0, 0], [1, 1]], 3.0)
    for known in ([True, False], [False, True]):
        tree, numbers = grown(problem)
        tree.start_from(np.array(known))
        found = tree.search(math.inf, math.inf)
        assert found.queries.tolist() == known
        assert numbers.real(found.bound) == 3.0


def a_node(problem: QuerySelection, data) -> tuple[Closures, BoolArray]:
    """The whole problem, or a node of it: operators taken and left out (n,) at random."""
    n = problem.n_operators
    state = np.zeros(n)
    if data.draw(st.booleans()):
        state = np.array(data.draw(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=n, max_size=n)))
    possible = np.ones(problem.n_queries, dtype=np.bool_)
    return Closures(problem, whole_numbers(problem, possible), possible, state == 1, state == 2), state == 2


@settings(max_examples=150, deadline=None, derandomize=True)
@given(problems(most=6), st.data())
def test_a_cut_is_the_smallest_best_set_of_all_and_its_bound_is_what_that_is_worth(problem, data):
    """Against all sets of queries of a node, at any price."""
    closures, _ = a_node(problem, data)
    numbers = whole_numbers(problem, np.ones(problem.n_queries, dtype=np.bool_))
    price = data.draw(st.sampled_from([Fraction(0), Fraction(1), Fraction(10**30)]) | st.fractions(0, 9))
    cost = [int(price * w) for w in numbers.weight.tolist()]
    worth = {}
    for queries, _, _ in sets_of(problem):
        if (queries <= closures.queries).all():
            paid = np.flatnonzero(problem.union(queries) & ~closures.taken).tolist()
            worth[queries.tobytes()] = int(numbers.value[queries].sum()) - sum(cost[o] for o in paid)
    most = max(worth.values())
    best = [np.frombuffer(queries, dtype=np.bool_) for queries, value in worth.items() if value == most]
    smallest = np.logical_and.reduce(best)
    cut = closures.cut(price)
    valued = numbers.value > 0
    assert (cut.best.queries & valued).tolist() == (smallest & valued).tolist()
    expected = closures.closed(smallest)
    assert (cut.best.value, cut.best.weight) == (expected.value, expected.weight)
    assert cut.bound == most + math.floor(price * closures.room)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(problems(most=6))
def test_the_best_price_is_that_of_the_lowest_bound_of_all_prices(problem):
    """Against the bound of every price at which two sets of queries are worth the same."""
    possible = np.ones(problem.n_queries, dtype=np.bool_)
    numbers = whole_numbers(problem, possible)
    closures = Closures(problem, numbers, possible)
    sets = {(0, 0)}
    for queries, _, _ in sets_of(problem):
        if (queries <= closures.queries).all():
            sets.add((int(numbers.value[queries].sum()), int(numbers.weight[problem.union(queries)].sum())))
    prices = {Fraction(v - u, w - x) for v, w in sets for u, x in sets if w != x and (v - u) * (w - x) > 0}
    least = min(max(v + p * (closures.room - w) for v, w in sets) for p in {Fraction(0), *prices})
    _, root = best_cuts(closures)
    assert least - 1 < root.bound <= least + len(numbers.weight)  # costs are rounded down


@settings(max_examples=60, deadline=None, derandomize=True)
@given(problems(most=5), st.data())
def test_any_flow_proves_a_bound_of_a_node_and_what_leaving_out_or_taking_loses(problem, data):
    """Operators taken and left out at random, shares that are no flow, any price: of every set of the node."""
    cuts, left_out = a_node(problem, data)
    if cuts.room < 0:
        return
    numbers = whole_numbers(problem, np.ones(problem.n_queries, dtype=np.bool_))
    draw = np.random.default_rng(data.draw(st.integers(0, 99)))
    price = data.draw(st.fractions(0, 100, max_denominator=50))

    def any_flow(cost):
        flow, reached = type(cuts)._flow(cuts, cost)
        kind = data.draw(st.integers(0, 2))
        largest = max(1, int(numbers.value.max()))
        return (flow, flow // 2, draw.integers(0, largest, len(flow), endpoint=True))[kind], reached

    object.__setattr__(cuts, "_flow", any_flow)
    cut = cuts.cut(price)
    for queries, _, fits in sets_of(problem):
        used = problem.union(queries)
        if not fits or (used & left_out).any() or numbers.weight[used | cuts.taken].sum() > numbers.capacity:
            continue
        lost = cut.query_loss[~queries & cuts.queries].max(initial=0)
        lost = max(int(lost), int(cut.operator_loss[used].max(initial=0)))
        assert int(numbers.value[queries].sum()) <= cut.bound - lost


@settings(max_examples=80, deadline=None, derandomize=True)
@given(problems(most=6), st.data())
def test_a_search_of_what_takes_and_leaves_out_operators_finds_the_best_set_of_these(problem, data):
    n = problem.n_operators
    state = np.array(data.draw(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=n, max_size=n)))
    possible = np.ones(problem.n_queries, dtype=np.bool_)
    numbers = whole_numbers(problem, possible)
    bound, filling = int(numbers.value.sum()), Filling(problem, possible)
    tree = Tree(problem, numbers, possible, filling, bound, numbers.grain, state == 1, state == 2)
    found = tree.search(math.inf, math.inf)
    assert not tree.is_open
    assert problem.fits(problem.union(found.queries))
    room = Fraction(problem.limit) - sum(Fraction(w) for w in problem.weight[state == 1].tolist())
    for queries, value, _ in sets_of(problem):
        used = problem.union(queries)
        costs = sum(Fraction(w) for w in problem.weight[used & (state != 1)].tolist())
        if costs <= room and not (used & (state == 2)).any():
            assert value <= Fraction(numbers.real(found.bound))
            assert not numbers.exact or value <= Fraction(problem.objective(found.queries))


def test_popular_operators_are_branched_on_until_nothing_is_left():
    """Two sets of queries at the best price, far apart, of which the linear relaxation takes a part each."""
    draw = np.random.default_rng(5)
    share = np.arange(1, 121) ** -0.5
    sets = [np.unique(draw.choice(120, draw.integers(2, 6), p=share / share.sum())) for _ in range(150)]
    uses = np.array([(q, o) for q, each in enumerate(sets) for o in each])
    weight = draw.integers(10, 111, 120)
    problem = QuerySelection(draw.integers(10, 111, 150), weight, uses, float(weight.sum() * 2 // 5))
    first, numbers = searched(problem, work=1.0)
    last, _ = searched(problem)
    objective = problem.objective(last.queries)
    assert numbers.real(first.bound) > objective == numbers.real(last.bound)
    assert problem.fits(problem.union(last.queries))


def test_nodes_that_would_take_too_much_memory_end_the_search(monkeypatch):
    problem = QuerySelection([3.0, 2.0, 2.0], [2.0, 2.0, 2.0], [[0, 0], [1, 1], [2, 2], [0, 1], [1, 2]], 4.0)
    monkeypatch.setattr(module, "_MOST_BYTES", 1)
    found, numbers = searched(problem)
    assert not found.timed_out
    assert numbers.real(found.bound) >= float(best_value(problem))
