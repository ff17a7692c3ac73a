"""Replicas that run already: plans against every plan there is on small cases, moves counted by the test itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replica_cases import every_plan, problems, value

from models.errors import InputError
from models.planning.replicas import Instances, ReplicaProblem
from models.planning.solution import Status
from optimizer.replicas import SELECTIONS, plan
from optimizer.replicas.optimise import cheapest, front, most_available
from optimizer.replicas.placing import least_cost, least_moves
from optimizer.verify.replica_enumeration import exact_front
from optimizer.verify.replicas import verify_replicas


@st.composite
def running(draw: st.DrawFn) -> ReplicaProblem:
    """A small problem with replicas that run; hosts and budget may have no room for all of them."""
    problem = draw(problems(running=True))
    open_hosts = np.flatnonzero(problem.replica_hosts).tolist()
    there = []
    for primary in problem.primaries.tolist():
        others = [host for host in open_hosts if host != primary]
        own = st.lists(st.sampled_from(others), max_size=problem.max_level, unique=True)
        there.append(tuple(draw(own)) if others else ())
    return replace(problem, running=tuple(there), max_moves=draw(st.sampled_from([None, 0, 1, 2])))


def gone(problem: ReplicaProblem, made: Instances) -> int:
    """How many (operator, host) of replicas that run a plan has not."""
    before = {(o, host) for o, hosts in enumerate(problem.running) for host in hosts}
    return len(before - {(o, host) for o, hosts in enumerate(made) for host in hosts[1:]})


def ordered(made: Instances | None) -> Instances:
    """The primary first, then the replicas by their hosts: as `every_plan` has them."""
    assert made is not None
    return tuple((hosts[0], *sorted(hosts[1:])) for hosts in made)


def allowed(problem: ReplicaProblem) -> list[Instances]:
    """Every plan that keeps the limit of moves, which is applied here."""
    most = problem.max_moves
    free = replace(problem, max_moves=None)
    return [made for made in every_plan(free) if most is None or gone(problem, made) <= most]


@settings(max_examples=25, deadline=None)
@given(running(), st.booleans())
def test_the_best_plan_within_the_moves_is_not_below_its_bound(problem: ReplicaProblem, exhaustive: bool) -> None:
    found = most_available(problem, exhaustive=exhaustive)
    every = allowed(problem)
    if found.instances is None:
        assert found.status is Status.UNKNOWN or not every
        assert not (exhaustive and every)
        assert problem.max_moves is not None
        return
    best = min(value(problem, made) for made in every)
    assert found.objective is not None
    assert found.bound is not None
    assert ordered(found.instances) in every
    assert found.moves == gone(problem, found.instances)
    assert verify_replicas(problem, found).violations == ()
    assert found.bound <= best * (1 + 1e-9) <= found.objective * (1 + 2e-9)
    if exhaustive or found.status is Status.OPTIMAL:
        assert found.status is Status.OPTIMAL
        assert found.objective == pytest.approx(best, rel=1e-9, abs=1e-300)


@settings(max_examples=20, deadline=None)
@given(running(), st.sampled_from([0.5, 0.9, 0.98, 1.0]), st.booleans())
def test_no_plan_of_a_target_within_the_moves_is_cheaper_than_the_bound(
    problem: ReplicaProblem, target: float, exhaustive: bool
) -> None:
    found = cheapest(problem, target, exhaustive=exhaustive)
    every = allowed(problem)
    enough = [made for made in every if value(problem, made) <= (1 - target) * (1 + 1e-12)]
    least = min((problem.cost(made) for made in enough), default=None)
    if found.objective is None:
        assert found.status is Status.UNKNOWN or least is None
        assert not (exhaustive and enough)
        return
    assert least is not None
    assert found.bound is not None
    assert ordered(found.instances) in enough
    assert found.bound <= least + 1e-9
    assert least <= found.objective + 1e-9
    if exhaustive:
        assert found.objective == pytest.approx(least, abs=1e-9)


@settings(max_examples=15, deadline=None)
@given(running())
def test_points_of_the_front_keep_the_moves_and_their_bounds(problem: ReplicaProblem) -> None:
    every = [(problem.cost(made), value(problem, made), made) for made in allowed(problem)]
    for one in front(problem, 4, exhaustive=False):
        assert ordered(one.plan.instances) in [made for _, _, made in every]
        assert one.plan.bound is not None
        least = min(broken for cost, broken, _ in every if cost <= one.budget + 1e-9)
        assert one.plan.bound <= least * (1 + 1e-9)
    exact = exact_front(problem)
    assert exact is not None
    for point in exact:
        assert point.value == min(broken for cost, broken, _ in every if cost <= point.cost)
    assert bool(exact) == bool(every)


@settings(max_examples=25, deadline=None)
@given(running())
def test_fewest_moves_and_least_cost_are_those_of_all_plans(problem: ReplicaProblem) -> None:
    free = replace(problem, max_moves=None)
    assert least_moves(problem) == min(gone(problem, made) for made in every_plan(free))
    costs = [problem.cost(made) for made in allowed(problem)]
    assert least_cost(problem) <= min(costs, default=least_cost(problem))


@settings(max_examples=15, deadline=None)
@given(running(), st.sampled_from(sorted(SELECTIONS)))
def test_heuristics_keep_what_runs_but_for_what_has_to_leave(problem: ReplicaProblem, selection: str) -> None:
    found = plan(problem, selection=selection)
    if found.instances is None:
        assert problem.max_moves is not None
        assert least_moves(problem) > problem.max_moves
        assert found.status is Status.INFEASIBLE
        assert f"at most {problem.max_moves} may" in found.note
        return
    assert problem.violations(found.instances) == []
    assert found.moves == least_moves(problem)


def small(**more: object) -> ReplicaProblem:
    """Two queries of an operator each, on hosts of their own; the replica of the worse one does not run."""
    base: dict[str, object] = {
        "load": np.array([0.5, 0.5]),
        "operators": ((0,), (1,)),
        "edges": np.zeros((0, 2), np.int64),
        "host_cpu": np.full(4, 1.0),
        "down": np.array([[0.1, 0.3, 0.2, 0.2]]),
        "primary": np.array([0, 1]),
        "budget": 0.5,
        "running": ((2,), ()),
    }
    return ReplicaProblem(**(base | more))  # type: ignore[arg-type]


@pytest.mark.parametrize("exhaustive", [True, False])
def test_without_moves_a_replica_stays_where_it_is_worth_less(exhaustive: bool) -> None:
    found = {most: most_available(small(max_moves=most), exhaustive=exhaustive) for most in (0, 1, None)}
    assert found[0].instances == ((0, 2), (1,))
    assert found[0].objective == pytest.approx((0.1 * 0.2 + 0.3) / 2)
    assert [found[most].moves for most in (0, 1, None)] == [0, 1, 1]
    assert found[1].objective == found[None].objective == pytest.approx((0.1 + 0.3 * 0.1) / 2)


@pytest.mark.parametrize("exhaustive", [True, False])
def test_what_is_as_good_stays(exhaustive: bool) -> None:
    same = small(down=np.full((1, 4), 0.1), running=((3,), (2,)), budget=1.0)
    assert most_available(same, exhaustive=exhaustive).moves == 0
    idle = replace(same, operators=((0,), (0,)))  # the second operator is in no query
    assert most_available(idle, exhaustive=exhaustive).moves == 0
    assert cheapest(replace(idle, max_moves=0), 0.5, exhaustive=exhaustive).cost == 1.0
    assert cheapest(idle, 0.95, exhaustive=exhaustive).cost == 0.5


def test_a_wrong_count_of_moves_and_one_move_too_many_do_not_hold() -> None:
    problem = small(max_moves=1)
    found = most_available(problem)
    assert verify_replicas(problem, found).holds
    lied = verify_replicas(problem, replace(found, moves=0))
    assert [str(one) for one in lied.violations] == ["claim: says 0 running replicas leave their hosts, recomputed 1"]
    strict = verify_replicas(replace(problem, max_moves=0), found)
    assert any("1 running replicas leave their hosts, at most 0 may" in str(one) for one in strict.violations)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"running": ((0,), ())}, "on the host of its primary"),
        ({"running": ((9,), ())}, "a host that is not there"),
        ({"running": ((2, 2), ()), "max_level": 2}, "two replicas on one host"),
        ({"running": ((2, 3), ())}, "more replicas than an operator may have: 1"),
        ({"running": ((2,),)}, "must have 2 operators"),
        ({"running": ((2,), ()), "replica_hosts": np.arange(4) == 3}, "on a host that takes none"),
        ({"running": ((2,), ()), "primary": None}, "no primary that runs"),
        ({"max_moves": -1}, "must be a whole number"),
    ],
)
def test_what_cannot_run_is_refused(more: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        small(**more)
