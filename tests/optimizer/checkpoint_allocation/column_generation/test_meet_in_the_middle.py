"""Meet in the middle over all sets of a few nodes, and the master program in a box: against brute force."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.column_generation.meet_in_the_middle import (
    meet_in_the_middle,
    sets_within,
    unpacked,
)
from optimizer.checkpoint_allocation.column_generation.multipliers import (
    Multipliers,
    Part,
    Sets,
    boxed,
    evaluated,
    raised,
)


def small_part(seed, *, nodes=None, items=None):
    """Costs and loads of whole numbers; some pairs are not allowed."""
    random = np.random.default_rng(seed)
    n = nodes or int(random.integers(2, 5))
    j = items or int(random.integers(2, 8))
    load = random.integers(1, 20, (n, j))
    cost = random.integers(-20, 60, (n, j)) * 8.0
    cost[random.random((n, j)) < 0.1] = np.inf
    room = np.full(n, int(1.3 * load.mean() * j / n) + 1)
    return Part(cost, load, room, np.arange(n), np.arange(j))


def sets_of(part, node):
    """(members, cost) of every set that fits a node."""
    j = part.cost.shape[1]
    for mask in itertools.product((False, True), repeat=j):
        at = np.flatnonzero(mask)
        if part.load[node, at].sum() <= part.room[node] and np.isfinite(part.cost[node, at]).all():
            yield at, float(part.cost[node, at].sum())


def cheapest(part):
    """The least cost of all packings, infinite without one."""
    n, j = part.cost.shape
    values = [np.inf]
    for one in itertools.product(range(n), repeat=j):
        node = np.array(one)
        if (np.bincount(node, part.load[node, np.arange(j)], n) <= part.room).all():
            values.append(float(part.cost[node, np.arange(j)].sum()))
    return min(values)


@pytest.mark.parametrize("seed", range(60))
def test_all_sets_within_a_margin_are_listed_once_and_no_others(seed):
    part = small_part(seed)
    u = np.rint(np.random.default_rng(seed).normal(100, 150, part.cost.shape[1]))
    for node, margin in itertools.product(range(len(part.nodes)), (0.0, 40.0, 1e9)):
        worth = {tuple(at.tolist()): float(u[at].sum()) - cost for at, cost in sets_of(part, node)}
        best = max(worth.values())
        found = sets_within(u - part.cost[node], part.load[node], int(part.room[node]), margin, 10**6, Budget(1.0))
        bits, lost = found
        listed = [tuple(np.flatnonzero(row).tolist()) for row in unpacked(bits, len(u))]
        assert sorted(listed) == sorted(at for at, value in worth.items() if best - value <= margin)
        assert lost.tolist() == [best - worth[at] for at in listed]


def test_more_sets_than_allowed_are_no_list():
    part = small_part(0, items=7)
    value = np.full(7, 5.0)
    assert sets_within(value, part.load[0], int(part.load[0].sum()), 1e9, 100, Budget(1.0)) is None


@pytest.mark.parametrize("seed", range(60))
def test_meet_in_the_middle_finds_the_cheapest_packing_or_none_below_the_target(seed):
    part = small_part(seed)
    count = part.cost.shape[1]
    least = cheapest(part)
    u = np.rint(np.random.default_rng(seed).normal(100, 150, count))
    bound = evaluated(part, u)[0]
    ceiling = 1e6 if np.isinf(least) else least
    for target in (ceiling + 500, ceiling, ceiling - 1):
        work = Budget(1.0)
        found = meet_in_the_middle(
            part, u, bound, target, fits=lambda at, sets: np.ones(len(sets), dtype=bool), margin=np.inf, most=10**6,
            work=work,
        )  # fmt: skip
        assert found.whole
        if least > target:
            assert found.node is None
            continue
        assert part.cost[found.node, np.arange(count)].sum() == least
        assert (np.bincount(found.node, part.load[found.node, np.arange(count)], len(part.nodes)) <= part.room).all()
        assert work.done > 0


def test_a_cut_margin_is_not_called_whole_and_its_answer_keeps_the_rooms():
    part = small_part(3, nodes=4, items=9)
    u = np.full(9, 200.0)
    bound = evaluated(part, u)[0]
    fits = lambda at, sets: np.ones(len(sets), dtype=bool)  # noqa: E731
    full = meet_in_the_middle(part, u, bound, bound + 5000, fits=fits, margin=np.inf, most=10**7, work=Budget(9.0))
    cut = meet_in_the_middle(part, u, bound, bound + 5000, fits=fits, margin=np.inf, most=2000, work=Budget(9.0))
    assert full.whole
    assert not cut.whole
    assert cut.margin < full.margin
    assert cut.node is None or part.cost[cut.node, np.arange(9)].sum() >= part.cost[full.node, np.arange(9)].sum()


def test_sets_that_break_true_capacities_do_not_meet():
    part = small_part(3, nodes=3, items=6)
    u = np.full(6, 300.0)
    bound = evaluated(part, u)[0]
    found = meet_in_the_middle(
        part, u, bound, bound + 1e6, fits=lambda at, sets: sets.sum(axis=1) <= 2, margin=np.inf, most=10**6,
        work=Budget(1.0),
    )  # fmt: skip
    assert np.bincount(found.node, minlength=3).max() == 2


def test_groups_of_more_than_one_word_meet_as_well():
    random = np.random.default_rng(5)
    count = 70  # without capacities the answer is the sum of the minima
    cost = np.full((4, count), np.inf)
    first, second = np.arange(count) % 4, (np.arange(count) + 1) % 4
    cost[first, np.arange(count)] = random.integers(0, 50, count) * 8.0
    cost[second, np.arange(count)] = cost[first, np.arange(count)] + random.integers(2, 9, count) * 8.0
    load = np.ones((4, count), dtype=np.int64)
    part = Part(cost, load, np.full(4, count), np.arange(4), np.arange(count))
    u = cost.min(axis=0) + 8.0
    bound = evaluated(part, u)[0]
    found = meet_in_the_middle(
        part, u, bound, float(cost.min(axis=0).sum()) + 16, fits=lambda at, sets: np.ones(len(sets), dtype=bool),
        margin=np.inf, most=10**6, work=Budget(1.0),
    )  # fmt: skip
    assert found.node.tolist() == first.tolist()


def whole_master(part):
    """The bound of Dantzig-Wolfe by the linear program of all columns."""
    columns = [(node, at, cost) for node in range(len(part.nodes)) for at, cost in sets_of(part, node)]
    n, j = part.cost.shape
    once, one_set = np.zeros((j, len(columns))), np.zeros((n, len(columns)))
    for k, (node, at, _) in enumerate(columns):
        once[at, k] = 1
        one_set[node, k] = 1
    answer = linprog(
        [cost for _, _, cost in columns], A_eq=once, b_eq=np.ones(j), A_ub=one_set, b_ub=np.ones(n), method="highs"
    )
    return answer.fun if answer.status == 0 else None


@pytest.mark.parametrize("seed", range(20))
def test_multipliers_of_the_box_come_near_the_bound_of_all_columns_and_never_above(seed):
    part = small_part(seed, nodes=3, items=6)
    scaled = Part(part.cost * 1024, part.load, part.room, part.nodes, part.items)
    best = whole_master(scaled)
    if best is None:
        return
    sets = Sets()
    start = np.where(np.isfinite(scaled.cost), scaled.cost, 0.0).max(axis=0)
    first = raised(scaled, start, steps=5, delta=5e4, patience=4, sets=sets, work=Budget(9.0))
    found = boxed(scaled, first, sets, box=1e4, close=1e3, work=Budget(9.0))
    assert found.bound == evaluated(scaled, found.u)[0]
    assert best - 1.1e3 <= found.bound <= best + 1e-6 * abs(best)
    assert found.bound >= first.bound


def test_no_linear_program_is_made_when_the_work_is_done():
    part = small_part(1, nodes=3, items=6)
    sets = Sets()
    start = raised(part, np.zeros(6), steps=1, delta=50.0, patience=4, sets=sets, work=Budget(9.0))
    over, low = Budget(0.0), Multipliers(start.u, start.bound, start.delta)
    assert boxed(part, low, sets, box=10.0, close=1.0, work=over) is low
