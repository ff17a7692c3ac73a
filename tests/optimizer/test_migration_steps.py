"""Migration steps against all colourings, the theorem of Koenig, and all orders of moves."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.errors import InputError
from models.planning.migration_steps import MigrationSteps
from models.planning.solution import Status
from optimizer.common.edge_colouring import Colouring, busiest, coloured, is_bipartite
from optimizer.migration_steps import solve
from optimizer.verify.plans import verify_plan


@st.composite
def moves(draw, hosts=5, most=7):
    pair = st.tuples(st.integers(0, hosts - 1), st.integers(0, hosts - 1)).filter(lambda p: p[0] != p[1])
    return np.array(draw(st.lists(pair, max_size=most))).reshape(-1, 2)


def fewest_by_trying_all(ends: np.ndarray) -> int:
    """The least number of colours, by trying every colour of every edge."""

    def possible(edge: int, colours: list[int], n_colours: int) -> bool:
        if edge == len(ends):
            return True
        for colour in range(min(n_colours, max(colours, default=-1) + 2)):
            if any(c == colour and set(ends[e]) & set(ends[edge]) for e, c in enumerate(colours)):
                continue
            if possible(edge + 1, [*colours, colour], n_colours):
                return True
        return False

    return next(k for k in range(len(ends) + 1) if possible(0, [], k))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(moves(), st.booleans())
def test_steps_are_the_fewest_of_all_colourings(pairs, duplex):
    problem = MigrationSteps(pairs, duplex=duplex)
    plan = solve(problem)
    assert (plan.status, plan.objective) == (Status.OPTIMAL, fewest_by_trying_all(problem.ends.tolist()))
    assert plan.bound == plan.objective
    assert verify_plan(problem, plan, gap=plan.gap).violations == ()


class _FromZero(Colouring):
    """Looks at all colours from 0 on, whichever are known to be taken."""

    def _first_free(self, node: int) -> int:
        return next(c for c in itertools.count() if c not in self._at[node])


@pytest.mark.parametrize("duplex", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_colours_are_those_of_a_search_from_zero(seed, duplex):
    drawn = np.random.default_rng(seed).integers(0, 4, (200, 2))
    ends = MigrationSteps(drawn[drawn[:, 0] != drawn[:, 1]], duplex=duplex).ends
    plain = _FromZero(ends, math.ceil(busiest(ends, np.ones(len(ends)))[0]))
    found, count = coloured(ends, plain.n_colours)
    for edge in range(len(ends)):
        while not plain.paint(edge, 8):
            plain.add_colour()
    assert (found.tolist(), count) == (plain.colour, plain.n_colours)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(moves(hosts=8, most=60))
def test_of_duplex_hosts_the_largest_degree_is_enough(pairs):
    problem = MigrationSteps(pairs, duplex=True)
    assert is_bipartite(problem.ends)
    plan = solve(problem)
    assert (plan.status, plan.objective) == (Status.OPTIMAL, problem.degrees.max(initial=0))
    verdict = verify_plan(problem, plan, gap=plan.gap)
    assert verdict.ok
    assert verdict.not_checked == ()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(moves(hosts=7, most=50))
def test_of_any_moves_the_bound_is_below_and_verified(pairs):
    problem = MigrationSteps(pairs)
    plan = solve(problem)
    assert problem.degrees.max(initial=0) <= plan.bound <= plan.objective
    assert verify_plan(problem, plan, gap=plan.gap).violations == ()


def connected(ends: list[list[int]], nodes: tuple[int, ...]) -> bool:
    reached = {nodes[0]}
    for _ in nodes:
        reached |= {b for pair in ends for a, b in (pair, pair[::-1]) if a in reached and b in nodes}
    return reached == set(nodes)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(moves(hosts=6, most=14), st.integers(0, 10**6))
def test_the_busiest_nodes_are_those_of_all_nodes_triangles_and_odd_connected_parts(pairs, seed):
    weights = np.random.default_rng(seed).integers(1, 5, len(pairs)) * 1.0
    ends, n = pairs.tolist(), range(6)

    def among(nodes):
        return math.fsum(w for pair, w in zip(ends, weights, strict=True) if set(pair) <= set(nodes))

    distinct = {frozenset(pair) for pair in ends}
    triangles = [
        one for one in itertools.combinations(n, 3) if all({*two} in distinct for two in itertools.combinations(one, 2))
    ]
    parts = [
        one
        for one in itertools.combinations(n, 5)
        if connected(ends, one) and not any(len({*pair} & {*one}) == 1 for pair in ends)
    ]
    looked_at = {(a,): math.fsum(w for pair, w in zip(ends, weights, strict=True) if a in pair) for a in n}
    looked_at |= {one: among(one) for one in triangles} | {one: among(one) / 2 for one in parts}
    most, nodes = busiest(pairs, weights)
    assert most == max(looked_at.values())
    assert not ends or looked_at[nodes] == most


def test_a_triangle_of_moves_needs_a_step_for_each():
    plan = solve(MigrationSteps([[0, 1], [1, 2], [2, 0]] * 3))
    assert (plan.status, plan.objective, plan.bound) == (Status.OPTIMAL, 9.0, 9.0)
    assert plan.reason == "moves among hosts 0, 1, 2 need 9 steps"


def test_the_graph_of_petersen_needs_a_fourth_colour_and_that_is_proven():
    ring = [(k, (k + 1) % 5) for k in range(5)]
    star = [(5 + k, 5 + (k + 2) % 5) for k in range(5)]
    spokes = [(k, k + 5) for k in range(5)]
    plan = solve(MigrationSteps([*ring, *star, *spokes]))
    assert (plan.status, plan.objective, plan.bound) == (Status.OPTIMAL, 4.0, 4.0)


def shortest_of_all_orders(problem: MigrationSteps) -> float:
    """The end of the last move in the best order: some order of starting as soon as both hosts are free is best."""
    best = float("inf")
    durations = problem.durations_s
    for order in itertools.permutations(range(problem.n_moves)):
        free = np.zeros(len(problem.degrees))
        for move in order:
            ends = problem.ends[move]
            free[ends] = free[ends].max() + durations[move]
        best = min(best, float(free.max(initial=0.0)))
    return best


@settings(max_examples=40, deadline=None, derandomize=True)
@given(moves(hosts=4, most=5), st.data())
def test_a_schedule_called_optimal_is_as_short_as_any_order(pairs, data):
    sizes = data.draw(st.lists(st.integers(0, 9).map(float), min_size=len(pairs), max_size=len(pairs)))
    problem = MigrationSteps(pairs, sizes, [1.0, 2.0, 1.0, 4.0], duplex=data.draw(st.booleans()))
    plan = solve(problem)
    best = shortest_of_all_orders(problem)
    assert plan.bound <= best <= plan.objective
    if plan.status is Status.OPTIMAL:
        assert plan.objective == best
    assert verify_plan(problem, plan, gap=plan.gap).violations == ()


def test_a_move_takes_its_size_over_the_slower_link():
    problem = MigrationSteps([[0, 1], [2, 1]], [10.0, 6.0], [5.0, 2.0, 3.0])
    plan = solve(problem)
    assert (plan.objective, plan.reason) == (8.0, "host 1 takes part in moves that need 8 s")
    assert sorted(plan.start_s.tolist()) in ([0.0, 3.0], [0.0, 5.0])


def test_the_same_seed_gives_the_same_schedule():
    draw = np.random.default_rng(1)
    source = draw.integers(0, 12, 60)
    problem = MigrationSteps(np.c_[source, (source + draw.integers(1, 12, 60)) % 12], draw.random(60), np.ones(12))
    assert solve(problem, seed=5).start_s.tolist() == solve(problem, seed=5).start_s.tolist()


def test_the_bound_of_an_odd_part_counts_half_its_hosts():
    ring = np.array([(k, (k + 1) % 5) for k in range(5)] * 2)
    assert busiest(ring, np.ones(10)) == (5.0, (0, 1, 2, 3, 4))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"moves": [[0, 0]]}, "moves[0] = [0, 0]: must go to another host"),
        ({"moves": [[0, -1]]}, "must be two hosts"),
        ({"moves": [[0, 1]], "size_bytes": [1.0]}, "link_bytes_per_s"),
        ({"moves": [[0, 1]], "size_bytes": [1.0], "link_bytes_per_s": [1.0, 0.0]}, "link_bytes_per_s[1] = 0.0"),
        ({"moves": [[0, 3]], "size_bytes": [1.0], "link_bytes_per_s": [1.0, 1.0]}, "up to host 3"),
        ({"moves": [[0, 1]], "size_bytes": [4e9], "link_bytes_per_s": [1e-300, 1.0]}, "takes more than 10^100 s on"),
        ({"moves": [[0, 1]], "duplex": 2}, "must be true or false"),
    ],
)
def test_faults_are_named(fields, message):
    with pytest.raises(InputError) as raised:
        MigrationSteps(**fields)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "text"),
    [({"step": np.array([0, 0])}, "share a host and overlap"), ({"objective": 1.0}, "says objective 1.0")],
)
def test_false_claims_are_found_without_a_solver(changes, text):
    problem = MigrationSteps([[0, 1], [0, 2]])
    plan = replace(solve(problem), **changes)
    assert text in " ".join(map(str, verify_plan(problem, plan).violations))


def test_hosts_with_large_numbers_are_checked_at_once_and_larger_ones_refused():
    problem = MigrationSteps([[0, 9_000_000], [1, 2], [9_000_000, 2]])
    plan = solve(problem)
    assert verify_plan(problem, plan).ok
    together = replace(plan, step=np.zeros(3), objective=1.0, bound=1.0)
    found = [one.text for one in verify_plan(problem, together).violations if one.kind == "host"]
    assert found == ["moves 1 and 2 share a host and overlap", "moves 0 and 2 share a host and overlap"]
    with pytest.raises(InputError, match="below 10000000"):
        MigrationSteps([[0, 10_000_000]])
    with pytest.raises(InputError, match=r"moves\[1\]\[1\] = 10+: must be a whole number"):
        MigrationSteps([[0, 1], [2, 10**18]])
