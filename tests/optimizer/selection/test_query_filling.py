"""The quick look of the local search of queries, against exact marginal weights."""

from __future__ import annotations

import numpy as np
import pytest
from work_limits import as_much_work_as_in

from models.planning.selection import QuerySelection
from optimizer.selection import solve
from optimizer.selection.filling import Filling


def drawn(seed: int) -> QuerySelection:
    draw = np.random.default_rng(seed)
    uses = np.array([(q, o) for q in range(40) for o in draw.choice(30, 4, replace=False)])
    weight = draw.random(30) * 10.0 ** draw.integers(-3, 4)
    return QuerySelection(draw.random(40), weight, uses, float(weight.sum() / 3))


@pytest.mark.parametrize("seed", range(10))
def test_every_query_that_fits_is_looked_at(seed):
    """There are fewer queries than are looked at, so none may be missing; what does not fit by far is not there."""
    problem, draw = drawn(seed), np.random.default_rng(seed)
    filling = Filling(problem, np.ones(40, dtype=np.bool_))
    met = 0
    for _ in range(200):
        inside = filling.chosen
        if inside and draw.random() < 0.4:
            filling.drop(int(draw.choice(inside)))
        else:
            filling.fill(draw.choice(40, 2).tolist())
        chosen = np.zeros(40, dtype=np.bool_)
        chosen[filling.chosen] = True
        taken = problem.union(chosen)
        seen = filling._near(np.arange(40), draw)
        for q in np.flatnonzero(~chosen).tolist():
            more = problem.weight[sorted(set(problem.operators_of(q).tolist()) - set(np.flatnonzero(taken).tolist()))]
            total = problem.weight[taken].sum() + more.sum()
            if total <= problem.capacity * (1 - 1e-12):
                assert q in seen
                met += 1
            elif total > problem.capacity * (1 + 1e-6):
                assert q not in seen
        assert not set(seen) & set(filling.chosen)
    assert met > 100


def test_weights_too_large_for_floats_in_their_unit_are_handled():
    problem = QuerySelection([3.0, 2.0, 1.0], [1.0, 1e-300, 1e100], [[0, 0], [1, 1], [2, 2]], capacity=1.0)
    with as_much_work_as_in(1.0) as seconds:
        plan = solve(problem, time_limit_s=seconds)
    assert plan.queries.tolist() in ([True, False, False], [True, True, False])
    assert plan.objective == 5.0


def test_the_local_search_ends_no_worse_than_it_began():
    for seed in range(5):
        problem = drawn(seed)
        filling = Filling(problem, np.ones(40, dtype=np.bool_))
        filling.fill()
        before = filling.value
        filling.improve(15_000, np.random.default_rng(seed), list(range(40)))
        assert filling.value >= before
        chosen = np.zeros(40, dtype=np.bool_)
        chosen[filling.chosen] = True
        assert problem.weight[problem.union(chosen)].sum() <= problem.limit


def test_queries_that_are_worth_nothing_take_no_room():
    problem = QuerySelection([0.0, 0.0, 1.0], [1.0], [[0, 0], [1, 0], [2, 0]], 1.0)
    filling = Filling(problem, np.ones(3, dtype=np.bool_))
    filling.lighten([0, 1, 2])
    assert filling.chosen == [2]
