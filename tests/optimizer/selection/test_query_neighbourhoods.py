"""Large neighbourhood search of queries: what is free, and that it ends with the best set where everything is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from seeds import sample
from test_query_tree import best_value

from models.checked_arrays import BoolArray
from models.planning.selection import QuerySelection
from optimizer.selection.closure import whole_numbers
from optimizer.selection.filling import Filling
from optimizer.selection.query_tree import Neighbourhoods, Tree, improved


def drawn(seed: int, m: int = 12, n: int = 9, density: float = 0.3) -> QuerySelection:
    draw = np.random.default_rng(seed)
    uses = np.argwhere(draw.random((m, n)) < density)
    weight = draw.integers(1, 20, n)
    return QuerySelection(draw.integers(1, 20, m), weight, uses, float(weight.sum() // 2))


def searched(problem: QuerySelection, work: float, *, seed: int = 0, deadline: float = math.inf):
    possible = np.ones(problem.n_queries, dtype=np.bool_)
    numbers, filling = whole_numbers(problem, possible), Filling(problem, possible)

    def tree(taken: BoolArray, left_out: BoolArray) -> Tree:
        return Tree(problem, numbers, possible, filling, int(numbers.value.sum()), numbers.grain, taken, left_out)

    return improved(problem, np.zeros_like(possible), tree, work, np.random.default_rng(seed), deadline)


@pytest.mark.parametrize("seed", sample(2, 20))
def test_where_all_operators_are_free_the_best_set_is_found(seed):
    problem = drawn(seed)
    queries, timed_out = searched(problem, 1e6)
    assert not timed_out
    assert problem.fits(problem.union(queries))
    assert problem.objective(queries) == float(best_value(problem))


def test_what_it_ends_with_fits_is_never_worse_with_more_work_and_the_same_for_the_same_seed():
    problem = drawn(1, 300, 200, 0.03)
    values = []
    for work in (0.0, 1e4, 1e5, 4e5):
        queries, timed_out = searched(problem, work, seed=7)
        again, _ = searched(problem, work, seed=7)
        assert (queries.tolist(), timed_out) == (again.tolist(), False)
        assert problem.fits(problem.union(queries))
        values.append(problem.objective(queries))
    assert values[0] == 0.0
    assert values[-1] > values[1] > 0.0


def test_a_clock_that_has_struck_ends_it_with_what_was_known():
    queries, timed_out = searched(drawn(2), math.inf, deadline=-math.inf)
    assert timed_out
    assert not queries.any()


def test_a_neighbourhood_of_any_operators_has_as_many_as_asked_for():
    problem = drawn(3, 60, 50)
    drawn_sets = Neighbourhoods(problem, np.random.default_rng(0))
    nothing = np.zeros(60, dtype=np.bool_)
    sets = [drawn_sets.any_operators(nothing, 20) for _ in range(50)]
    assert {int(free.sum()) for free in sets} == {20}
    assert np.logical_or.reduce(sets).all()
    assert drawn_sets.any_operators(nothing, 99).all()


def test_a_walk_goes_from_operator_to_operator_by_queries_that_use_both():
    """Two groups of queries that share nothing: a walk that does not jump stays in one."""
    uses = [(q, o) for q in range(40) for o in ((q % 20, (q + 7) % 20) if q < 20 else (20 + q % 20, 20 + (q + 7) % 20))]
    problem = QuerySelection(np.ones(40), np.ones(40), np.array(uses), 9.0)
    drawn_sets = Neighbourhoods(problem, np.random.default_rng(0))
    nothing, within = np.zeros(40, dtype=np.bool_), 0
    for _ in range(40):
        free = drawn_sets.on_a_walk(nothing, 6)
        assert free.any()
        within += not (free[:20].any() and free[20:].any())
    assert 20 <= within < 40  # six steps without a jump to the other group are likely, and not certain


def test_without_some_queries_all_is_free_that_the_others_do_not_need():
    problem = drawn(4, 30, 40)
    drawn_sets = Neighbourhoods(problem, np.random.default_rng(0))
    queries = np.arange(30) < 12
    for size in (1, 5, 12, 50):
        free = drawn_sets.without_some_queries(queries, size)
        kept = problem.whole(~free) & queries
        assert not (problem.union(kept) & free).any()
        assert kept.sum() >= 12 - size
        assert (problem.union(kept) == ~free).all()
    assert free.all()


def test_operators_that_nobody_uses_are_walked_over():
    problem = QuerySelection([1.0, 2.0], np.ones(30), [[0, 0]], 5.0)
    drawn_sets = Neighbourhoods(problem, np.random.default_rng(0))
    assert drawn_sets.on_a_walk(np.zeros(2, dtype=np.bool_), 20).sum() > 5
