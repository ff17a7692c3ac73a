"""Why there is no allocation: each reason is refuted without its parts, by trying all assignments and by programs."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import degenerate_instances as degenerate
import numpy as np
import pytest
from scipy.optimize import linprog

from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import Status
from optimizer.checkpoint_allocation import mixed_integer, solve
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.infeasibility.farkas import Multipliers
from optimizer.checkpoint_allocation.infeasibility.irreducible_set import (
    InfeasibleSet,
    Parts,
    deletion_filter,
    lp_infeasible_set,
    mip_infeasible_set,
    smaller_infeasible_set,
)
from optimizer.verify.infeasibility import hall_violator


def possible(problem: CheckpointAllocation, parts: set[tuple[str, int]]) -> bool:
    """Whether whole checkpoints can keep the parts: every assignment is tried, -1 for what need not be stored.

    That few move beside minima says that all others are stored.
    """
    found = Parts(problem)
    all_stored = ("moves", 0) in parts and any(kind == "minimum" for kind, _ in parts)
    choices = [
        np.flatnonzero(found.fits[j]).tolist() + ([] if all_stored or ("store", j) in parts else [-1])
        for j in range(problem.n_checkpoints)
    ]
    return any(_kept(problem, found, parts, np.array(one)) for one in itertools.product(*choices))


def _kept(problem: CheckpointAllocation, found: Parts, parts: set[tuple[str, int]], assignment: np.ndarray) -> bool:
    loads = problem.node_loads(assignment)
    over = [n for n in np.flatnonzero(loads > problem.upper).tolist() if ("capacity", n) in parts]
    under = [n for n in np.flatnonzero(loads < problem.lower).tolist() if ("minimum", n) in parts]
    together = [
        k
        for k, members in enumerate(found.anti_affinity)
        if ("anti_affinity", k) in parts
        for here in [assignment[members][assignment[members] >= 0].tolist()]
        if len(set(here)) < len(here)
    ]
    away = 0
    if ("moves", 0) in parts:
        away = int(((assignment != problem.current) & (assignment >= 0)).sum()) - problem.max_moves
    return not (over or under or together or away > 0)


def divisible(problem: CheckpointAllocation, parts: set[tuple[str, int]]) -> bool:
    """Whether checkpoints can keep the parts when they may be divided: a dense linear program."""
    found = Parts(problem)
    j, n = np.nonzero(found.fits)
    rows, limits = [(j == k) * 1.0 for k in range(problem.n_checkpoints)], [1.0] * problem.n_checkpoints
    for kind, at in parts:
        if kind == "store":
            rows.append(-1.0 * (j == at))
            limits.append(-1.0)
        elif kind in ("capacity", "minimum"):
            limit, sign = (problem.upper[at], 1.0) if kind == "capacity" else (problem.lower[at], -1.0)
            unit = max(limit, problem.weights[found.fits[:, at], at].max(initial=0.0), 1e-300)
            rows.append(sign * np.where(n == at, problem.weights[j, n] / unit, 0.0))
            limits.append(sign * limit / unit)
        elif kind == "anti_affinity":
            for node in range(problem.n_nodes):
                rows.append(1.0 * ((n == node) & np.isin(j, found.anti_affinity[at])))
                limits.append(1.0)
        else:
            rows.append(1.0 * (problem.current[j] != n))
            limits.append(float(problem.max_moves))
    if not len(j):
        return min(limits) >= 0
    return linprog(np.zeros(len(j)), A_ub=np.array(rows), b_ub=limits).status == 0


def check(problem: CheckpointAllocation, iis: InfeasibleSet) -> None:
    """The parts cannot hold, and without any of them they can: whole, or in parts of checkpoints."""
    parts = set(iis.parts)
    assert not possible(problem, parts)
    can = possible if iis.whole else divisible
    assert not can(problem, parts)
    assert iis.irreducible
    for part in iis.parts:
        assert can(problem, parts - {part}), (iis, part)
    if iis.whole:
        assert divisible(problem, parts)


def tame(seed: int) -> CheckpointAllocation:
    """A problem that tolerances of programs do not matter for: loads and capacities are small whole numbers."""
    draw = np.random.default_rng([seed, 11])
    if draw.random() < 0.3:  # room enough, to be divided
        j, n = int(draw.integers(3, 6)), int(draw.integers(2, 4))
        load = draw.integers(3, 8, j)
        return CheckpointAllocation(cost=np.zeros((j, n)), load=load, capacity=np.full(n, -(-load.sum() // n)))
    j, n = int(draw.integers(2, 6)), int(draw.integers(1, 5))
    load = draw.integers(1, 8, (j, n) if draw.random() < 0.3 else j)
    capacity = np.maximum(draw.integers(3, 14, n), np.rint(load.sum() / load.size * j / n * draw.choice([0.8, 1.1])))
    moves = {"current": draw.integers(0, n, j), "max_moves": int(draw.integers(0, 3))} if draw.random() < 0.3 else {}
    least = np.minimum(draw.integers(0, 7, n), capacity) if draw.random() < 0.4 else None
    pairs = [(a, b) for a in range(j) for b in range(a) if draw.random() < draw.choice([0.0, 0.3])]
    return CheckpointAllocation(
        cost=np.zeros((j, n)), load=load, capacity=capacity, capacity_min=least,
        forbidden=np.argwhere(draw.random((j, n)) < 0.15), anti_affinity=pairs, **moves,
    )  # fmt: skip


def check_whole(problem: CheckpointAllocation, iis: InfeasibleSet) -> bool:
    """Whole checkpoints can keep the parts without any of them, once those are out that only divided ones need."""
    less = smaller_infeasible_set(problem, iis.parts, time_limit_s=30.0)
    parts = set(less.parts)
    assert parts <= set(iis.parts)
    assert not possible(problem, parts)
    if len(parts) == len(iis.parts):
        return False
    for part in parts if less.irreducible else ():
        assert possible(problem, parts - {part}), (iis, less, part)
    return True


def campaign(seeds: range) -> dict[str, int]:
    """How many infeasible sets of each kind were checked, and of how many whole checkpoints need fewer parts."""
    met = {"lp": 0, "mip": 0, "hall": 0, "fewer": 0}
    for seed in seeds:
        problem = tame(seed)
        iis = lp_infeasible_set(problem, time_limit_s=30.0)
        if iis is not None:
            met["lp"] += 1
            check(problem, iis)
            met["fewer"] += check_whole(problem, iis)
        elif (found := mip_infeasible_set(problem, time_limit_s=30.0)) is not None:
            met["mip"] += 1
            check(problem, found)
        else:
            assert possible(problem, set(Parts(problem).every))
        hall = hall_violator(problem)
        if hall is not None:
            met["hall"] += 1
            limits = [("minimum" if hall.least else "capacity", n) for n in hall.nodes.tolist()]
            stored = [] if hall.least else [("store", j) for j in hall.checkpoints.tolist()]
            assert not divisible(problem, {*limits, *stored})
            check(problem, InfeasibleSet((*limits, *stored), False, True))
            met["fewer"] += check_whole(problem, InfeasibleSet((*limits, *stored), False, True))
        elif problem.load.ndim == 1 and not problem.neighbours and problem.max_moves is None:
            assert iis is None or not Parts(problem).fits.any(axis=1).all()
    return met


def test_every_part_of_a_reason_is_needed_and_all_of_them_are_enough():
    met = campaign(range(80))
    assert min(met[kind] for kind in ("lp", "mip", "hall")) >= 5, met
    assert met["fewer"] >= 1, met


@pytest.mark.slow
def test_every_part_of_many_more_reasons_is_needed():
    met = campaign(range(1_000, 6_000))
    assert min(met[kind] for kind in ("lp", "mip", "hall")) >= 250, met
    assert met["fewer"] >= 50, met


def test_a_problem_is_called_infeasible_only_where_nothing_keeps_the_rules():
    met = 0
    for seed in range(150):
        problem = degenerate.allocation(seed)
        plan = solve(problem)
        assert (plan.status is Status.INFEASIBLE) == (degenerate.true_allocation(problem).best is None)
        met += plan.status is Status.INFEASIBLE
        assert plan.note or plan.status is not Status.INFEASIBLE
    assert met > 40


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (  # three heavy ones on two nodes, among forty that fit elsewhere
            {
                "cost": np.zeros((43, 5)), "load": [4.0] * 3 + [0.5] * 40, "capacity": [5.0, 5, 9, 9, 9],
                "forbidden": [(j, n) for j in range(3) for n in (2, 3, 4)],
            },
            "checkpoints 0, 1, 2 with load 12 may only go to nodes 0, 1, which together can hold 10",
        ),
        (
            {"cost": np.zeros((3, 2)), "load": [2.0, 2.1, 2.2], "capacity": [3.5, 3.5]},
            "checkpoints 0, 1, 2 of load 2 or more may only go to nodes 0, 1, with room for 2 of them",
        ),
        (
            {"cost": np.zeros((4, 2)), "load": [5.0, 5, 4, 4], "capacity": [9.0, 9], "anti_affinity": [(0, 2), (0, 3)]},
            "these cannot all hold: checkpoints 0, 1, 2, 3 with load 5, 5, 4, 4 must be stored; nodes 0, 1 can hold 9 "
            "each; checkpoints 0, 2 must be on different nodes; checkpoints 0, 3 must be on different nodes. "
            "Parts of checkpoints could be "
            "stored so, whole ones cannot",
        ),
        (
            {"cost": np.zeros((4, 2)), "load": [4.0, 4, 3, 1], "capacity": [6.0, 6]},
            "these cannot all hold: checkpoints 0, 1, 2 with load 4, 4, 3 must be stored; nodes 0, 1 can hold 6 each. "
            "Parts of checkpoints could be stored so, whole ones cannot",
        ),
        (
            {"cost": np.zeros((5, 2)), "load": [2.0] * 5, "capacity": [5.0, 5.0]},
            "checkpoints 0, 1, 2, 3, 4 may only go to nodes 0, 1, with room for 4 whole checkpoints of their load",
        ),
        (  # two copies of each of two large states: room enough together, but not on different nodes
            {
                "cost": np.zeros((4, 3)), "load": [3.0] * 4, "capacity": [9.0, 2, 3],
                "anti_affinity": [(0, 1), (2, 3)], "forbidden": np.zeros((0, 2)),
            },
            "these cannot all hold: checkpoints 0, 1, 2, 3 with load 3 each must be stored (only on nodes 0, 2); "
            "node 2 can hold 3; checkpoints 0, 1 must be on different nodes; "
            "checkpoints 2, 3 must be on different nodes",
        ),
        (
            {"cost": np.zeros((4, 4)), "load": [1.0] * 4, "anti_affinity": [(0, 1), (0, 2), (1, 2)],
             "forbidden": [(0, 1), (0, 2), (0, 3), (2, 1), (2, 2), (2, 3)]},
            "checkpoints [0, 2] must be on different nodes, only 1 node may store them",
        ),
        (
            {"cost": np.zeros((3, 3)), "load": [1.0, 1, 1], "capacity": [9.0] * 3, "capacity_min": [0.0, 2, 2],
             "forbidden": [(0, 1), (0, 2)]},
            "nodes 1, 2 ask for at least 4, all that may go there is 2",
        ),
        (
            {"cost": np.zeros((3, 2)), "load": [3.0, 3, 1], "capacity": [6.0, 6], "current": [0, 0, 0], "max_moves": 0},
            "these cannot all hold: checkpoints 0, 1, 2 with load 3, 3, 1 must be stored; node 0 can hold 6; "
            "only 0 may move",
        ),
    ],
)  # fmt: skip
def test_the_smallest_reason_is_named(fields, reason):
    plan = solve(CheckpointAllocation(**fields))
    assert (plan.status, plan.note) == (Status.INFEASIBLE, reason)


def test_checkpoints_with_anti_affinity_may_all_be_left_out_of_a_reason():
    load = [[3, 0], [1, 2], [5, 4], [3, 0], [2, 5], [3, 3], [2, 3]]
    problem = CheckpointAllocation(
        cost=np.zeros((7, 2)), load=np.array(load, float), capacity=np.full(2, 9.0), capacity_min=np.full(2, 8.1),
        anti_affinity=np.array([[1, 6], [0, 2]]),
    )  # fmt: skip
    found = mip_infeasible_set(problem, time_limit_s=60.0)
    assert found is not None
    assert any(kind == "store" for kind, _ in found.parts)
    assert not possible(problem, set(found.parts))
    assert all(possible(problem, set(found.parts) - {part}) for part in found.parts)


def test_whole_checkpoints_need_fewer_parts_than_divided_ones():
    """Divided, all seven are needed to be more than 6.8; of whole ones the nodes hold three and two."""
    load = np.repeat(np.array([1.0, 1.1, 1.0, 1.1, 1.0, 1.1, 1.0])[:, None], 2, axis=1)
    plan = solve(CheckpointAllocation(cost=np.zeros((7, 2)), load=load, capacity=[3.9, 2.9]))
    assert (plan.status, plan.note) == (
        Status.INFEASIBLE,
        "these cannot all hold: checkpoints 0, 1, 2, 3, 4, 5 must be stored; nodes 0, 1 can hold 3.9, 2.9. "
        "Parts of checkpoints could be stored so, whole ones cannot",
    )


def test_few_moves_name_one_node_that_is_too_full_and_the_checkpoints_that_fill_it():
    """Two nodes have too much, and of each more than one would have to go: one of them is reason enough."""
    load = np.array([5.0, 4, 4, 3, 1, 5, 5, 4, 2, 1, 1, 1])
    problem = CheckpointAllocation(
        cost=np.zeros((12, 3)), load=load, capacity=[7.0, 8.0, 100.0], current=[0] * 5 + [1] * 5 + [2] * 2, max_moves=1
    )  # fmt: skip
    iis = lp_infeasible_set(problem, time_limit_s=30.0)
    assert iis.irreducible
    assert not divisible(problem, set(iis.parts))
    assert all(divisible(problem, set(iis.parts) - {part}) for part in iis.parts)
    assert (len(iis.of("capacity")), len(iis.of("store")), len(iis.of("moves"))) == (1, 3, 1)


def test_a_large_problem_names_the_few_checkpoints_that_do_not_fit():
    draw = np.random.default_rng(1)
    load = draw.uniform(0.5, 1.5, 3_000)
    load[:7] = 25.0
    capacity = np.full(100, 1.3 * load.sum() / 100)
    bad = [(j, n) for j in range(7) for n in range(3, 100)]
    problem = CheckpointAllocation(cost=draw.random((3_000, 100)), load=load, capacity=capacity, forbidden=bad)
    plan = solve(problem)
    assert plan.status is Status.INFEASIBLE
    assert plan.note.startswith("checkpoints 0, 1, 2, 3, 4 with load 125 may only go to nodes 0, 1, 2, which together")


def test_a_program_of_few_moves_counts_those_that_move():
    """Counted as checkpoints that stay, they cost HiGHS minutes before its first node, whatever its time limit is."""
    problem = CheckpointAllocation(cost=np.zeros((4, 3)), load=np.ones(4), current=[0, 1, 2, 0], max_moves=1)
    j, n = np.nonzero(problem.allowed)
    rows = mixed_integer._program(problem, j, n)
    assert rows.high[-1] == 1
    assert rows.index[-1].tolist() == np.flatnonzero(problem.current[j] != n).tolist()


def test_multipliers_prove_the_same_in_float64_and_in_fractions():
    met = {True: 0, False: 0}
    for seed in range(200):
        problem, draw = tame(seed), np.random.default_rng([seed, 12])
        parts = Parts(problem)
        some, farkas = parts._some(parts.every), parts.farkas
        paid = farkas.program(some, each=False, most_work=math.inf, time_limit_s=30.0)[0]
        if paid is None:
            paid = Multipliers(*draw.integers(0, 3, (2, problem.n_nodes)) / 7.0, 0.0, ())
        stored = some.stored & (draw.random(problem.n_checkpoints) < 0.9)
        fixed, (added, wrong) = farkas._fixed(paid), farkas._added(paid)
        above = farkas._above(stored, paid, fixed, added, wrong)
        assert above == (farkas._exact(stored, paid, fixed) > 0)
        met[above] += 1
        less = farkas.proven(replace(some, stored=stored), paid)
        assert (less is not None) == above
        if less is not None:
            assert (less.stored <= stored).all()
            assert farkas._exact(less.stored, paid, fixed) > 0
    assert min(met.values()) > 20, met


def test_filtering_ends_at_its_limit_and_says_that_more_could_go():
    parts = tuple(("store", k) for k in range(40))
    needed = {3, 17, 18}

    def asked(budget):
        def refuted(some):
            budget.spend(1.0)
            return some if needed <= {k for _, k in some} else None

        return {k for _, k in deletion_filter(parts, refuted, budget)}, budget.cut

    assert asked(Budget(1_000.0)) == (needed, False)
    kept, cut = asked(Budget(3.0))
    assert (needed < kept, cut) == (True, True)


def test_without_time_for_less_the_reason_is_larger_and_says_so():
    problem = next(one for one in map(tame, range(100)) if lp_infeasible_set(one, time_limit_s=30.0) is not None)
    hurried = lp_infeasible_set(problem, time_limit_s=0.0)
    assert hurried is not None
    assert not hurried.irreducible
    assert not divisible(problem, set(hurried.parts))
