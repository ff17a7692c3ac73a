"""Packings of one colour on each host: every set that a host can have, and the fewest hosts, by trying all."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from work_limits import as_much_work_as_in

from models.planning.placement import Placement
from models.planning.solution import Status
from optimizer.placement import one_colour as module
from optimizer.placement import solve
from optimizer.placement.budget import Budget
from optimizer.placement.one_colour import covered, dual_bound, host_sets, one_colour, splits_by_colour
from optimizer.verify.plans import verify_plan


def drawn(seed: int, most: int = 7) -> Placement:
    """Some instances of one or two colours on hosts that are alike, often too few of them."""
    draw = np.random.default_rng(seed)
    n, hosts = int(draw.integers(1, most + 1)), int(draw.integers(1, 5))
    return Placement(
        draw.integers(0, 8, n),
        np.full(hosts, 8),
        network=draw.integers(0, 6, n),
        host_network=np.full(hosts, 7),
        operator=draw.integers(0, n, n),
        colour=draw.integers(0, 3, n),
        goal=str(draw.choice(["colours", "hosts"])),
        max_colours=[1, None][int(draw.integers(2))],
    )


def fits(problem: Placement, chosen: tuple[int, ...]) -> bool:
    some = list(chosen)
    within = (problem.loads[some].sum(axis=0) <= problem.rooms[0]).all()
    return bool(within) and len(set(problem.operators[some].tolist())) == len(some)


def fewest_hosts(problem: Placement, instances: list[int]) -> int:
    """The fewest hosts of some instances alone, by trying every partition: each one joins a host or opens one."""
    best = len(instances)

    def put(at: int, hosts: list[tuple[int, ...]]) -> None:
        nonlocal best
        if len(hosts) >= best:
            return
        if at == len(instances):
            best = len(hosts)
            return
        for h, there in enumerate(hosts):
            if fits(problem, (*there, instances[at])):
                put(at + 1, [*hosts[:h], (*there, instances[at]), *hosts[h + 1 :]])
        put(at + 1, [*hosts, (instances[at],)])

    put(0, [])
    return best


@pytest.mark.parametrize("seed", range(40))
def test_all_sets_that_a_host_can_have_and_no_others(seed):
    problem = drawn(seed)
    every = [c for k in range(problem.n_instances + 1) for c in itertools.combinations(range(problem.n_instances), k)]
    can = {chosen for chosen in every if fits(problem, chosen)}
    full = {one for one in can if not any(set(one) < set(other) for other in can)}
    found = host_sets(problem, 10_000)
    assert sorted(tuple(np.flatnonzero(row).tolist()) for row in found) == sorted(full)
    assert host_sets(problem, len(can) - 1) is None
    assert host_sets(problem, len(can)) is not None


@pytest.mark.parametrize("seed", range(40))
def test_prices_prove_no_more_hosts_than_are_needed(seed):
    problem = drawn(seed)
    sets = host_sets(problem, 10_000)
    every = list(range(problem.n_instances))
    if not all(fits(problem, (i,)) for i in every):
        return
    least = fewest_hosts(problem, every)
    found = covered(sets, deadline=time.monotonic() + 60)
    assert found.bound <= least == len(np.unique(found.host))
    draw = np.random.default_rng(seed)
    for _ in range(20):
        assert dual_bound(sets, draw.normal(0.3, 0.4, problem.n_instances)) <= least


@pytest.mark.parametrize("exact", [True, False])
def test_one_colour_on_each_host_takes_what_the_colours_take_alone(exact, monkeypatch):
    """Without sets only counting bounds: then the answer may miss, and claims no more than is true."""
    if not exact:
        monkeypatch.setattr(module, "_SETS", 0)
    met = {"placed": 0, "too few hosts": 0}
    for seed in range(60):
        problem = drawn(seed)
        assert splits_by_colour(problem)
        if not all(fits(problem, (i,)) for i in range(problem.n_instances)):
            continue
        colours = [np.flatnonzero(problem.colours == k).tolist() for k in np.unique(problem.colours)]
        needed = sum(fewest_hosts(problem, here) for here in colours)
        with as_much_work_as_in(1.0) as seconds:
            host, bound = one_colour(problem, Budget(seconds), 0)
        assert bound.value <= needed
        assert not exact or bound.value == needed
        assert (host is not None) == (needed <= problem.n_hosts) or not exact
        met["placed" if host is not None else "too few hosts"] += 1
        if host is not None:
            assert problem.most_colours(host) == 1
            assert (problem.used(host) <= problem.rooms).all()
            assert len(set(zip(problem.operators.tolist(), host.tolist(), strict=True))) == problem.n_instances
    assert min(met.values()) >= 10, met


def test_a_planted_placement_of_one_colour_is_found_and_proven():
    """Hosts are 95 % full of both resources: six colours, three instances on each of 24 hosts."""
    draw = np.random.default_rng(3)
    loads = [np.floor(draw.dirichlet(np.full(3, 3.0), 24) * 9_500).astype(int).ravel() for _ in range(2)]
    colour = np.repeat(np.arange(24) % 6, 3)
    problem = Placement(
        loads[0], np.full(24, 10_000), network=loads[1], host_network=np.full(24, 10_000), operator=None, colour=colour
    )
    with as_much_work_as_in(20) as seconds:
        plan = solve(problem, time_limit_s=seconds)
    assert (plan.status, plan.objective, plan.hosts, plan.hosts_bound) == (Status.OPTIMAL, 1.0, 24, 24)
    assert verify_plan(problem, plan).ok
    fewer = Placement(
        loads[0], np.full(23, 10_000), network=loads[1], host_network=np.full(23, 10_000), colour=colour, max_colours=1
    )
    with as_much_work_as_in(20) as seconds:
        assert solve(fewer, time_limit_s=seconds).status is Status.INFEASIBLE


def test_what_is_fixed_or_unlike_does_not_split_by_colour():
    plain = {"cpu": [1, 1, 2], "host_cpu": [2, 2, 2], "colour": [0, 1, 1]}
    assert splits_by_colour(Placement(**plain))
    for change in (
        {"fixed": [0, -1, -1]},
        {"current": [0, 1, 2]},
        {"host_cpu": [2, 2, 3]},
        {"colour": [0, -1, 1]},
        {"failure_domain": [0, 0, 1], "anti_affinity": "domain"},
    ):
        assert not splits_by_colour(Placement(**{**plain, **change}))
