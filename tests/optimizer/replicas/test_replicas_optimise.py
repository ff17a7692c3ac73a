"""The best plans of replicas: against every plan there is on small cases, and against the heuristics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replica_cases import every_plan, problems, value
from work_limits import clock_that_strikes_after

from models.errors import InputError
from models.planning.replicas import ReplicaProblem
from models.planning.solution import Status
from optimizer.replicas import plan
from optimizer.replicas.bounds import mean_bound, proven, worst_bound
from optimizer.replicas.optimise import cheapest, front, front_of_counts, most_available
from optimizer.replicas.search import State
from optimizer.verify.replica_bounds import bounds_of, most_cost
from optimizer.verify.replica_enumeration import exact_front
from optimizer.verify.replica_program import cost_program_of, program_of
from optimizer.verify.replicas import verify_replicas


@settings(max_examples=15, deadline=None)
@given(problems())
def test_no_plan_is_below_the_bound_and_optimal_is_said_only_of_the_best(problem: ReplicaProblem) -> None:
    found = most_available(problem, exhaustive=False)
    best = min(value(problem, made) for made in every_plan(problem))
    assert found.instances is not None
    assert found.objective is not None
    assert found.bound is not None
    assert problem.violations(found.instances) == []
    assert verify_replicas(problem, found).violations == ()
    assert found.bound <= best * (1 + 1e-9) <= found.objective * (1 + 2e-9)
    if found.status is Status.OPTIMAL:
        assert found.objective == pytest.approx(best, rel=1e-9, abs=1e-300)


@settings(max_examples=15, deadline=None)
@given(problems(), st.sampled_from([0.5, 0.9, 0.98, 0.999, 1.0]))
def test_no_plan_of_an_availability_is_cheaper_than_the_bound(problem: ReplicaProblem, target: float) -> None:
    found = cheapest(problem, target, exhaustive=False)
    enough = [made for made in every_plan(problem) if value(problem, made) <= (1 - target) * (1 + 1e-12)]
    least = min((problem.cost(made) for made in enough), default=None)
    if found.status is Status.INFEASIBLE:
        assert least is None
        assert "cannot be reached: the best found has" in found.note
        return
    if found.status is Status.UNKNOWN:
        return
    assert least is not None
    assert found.instances is not None
    assert found.objective is not None
    assert found.bound is not None
    assert value(problem, found.instances) <= (1 - target) * (1 + 1e-12)
    assert found.objective == pytest.approx(problem.cost(found.instances))
    assert found.bound <= least + 1e-9
    assert least <= found.objective + 1e-9
    if found.status is Status.OPTIMAL:
        assert found.objective == pytest.approx(least, abs=1e-9)


@settings(max_examples=15, deadline=None)
@given(problems(running=True))
def test_the_front_falls_and_no_plan_of_a_budget_is_below_its_bound(problem: ReplicaProblem) -> None:
    found = front(problem, 4, exhaustive=False)
    values = [one.plan.objective for one in found]
    assert values == sorted(values, reverse=True)  # type: ignore[type-var]
    every = [(problem.cost(made), value(problem, made)) for made in every_plan(problem)]
    for one in found:
        assert one.plan.bound is not None
        assert one.plan.cost is not None
        assert one.plan.cost <= one.budget + 1e-9
        assert one.plan.bound <= min(v for cost, v in every if cost <= one.budget + 1e-12) * (1 + 1e-9)


def wide(seed: int, **more: object) -> ReplicaProblem:
    """Forty queries on sixty operators, running on ten hosts; six more for replicas."""
    draw = np.random.default_rng(seed)
    spare = np.arange(16) >= 10
    sets = [tuple(sorted(draw.choice(60, size=int(draw.integers(2, 6)), replace=False).tolist())) for _ in range(40)]
    return ReplicaProblem(
        **{  # type: ignore[arg-type]
            "load": draw.choice([0.02, 0.05, 0.1, 0.3], size=60),
            "operators": tuple(sets),
            "edges": np.array([(one[k], one[k + 1]) for one in sets for k in range(len(one) - 1)]),
            "host_cpu": np.full(16, 1.2),
            "down": np.full((1, 16), 0.02),
            "primary": np.repeat(np.arange(10), 6)[np.argsort(np.repeat(draw.random(10), 6), kind="stable")],
            "primary_hosts": ~spare,
            "replica_hosts": spare,
            "budget": 2.0,
        }
        | {"host_cpu": np.where(spare, 1.0, 2.0)}
        | more
    )


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("goal", ["mean", "worst"])
def test_it_is_never_worse_than_the_papers_heuristics_and_better_than_most(seed: int, goal: str) -> None:
    problem = wide(seed, goal=goal)
    found = most_available(problem)
    heuristics = [
        plan(problem, by=by, selection=s).objective for by in ("degree", "product") for s in ("stepwise", "knapsack")
    ]
    assert found.objective is not None
    assert found.bound is not None
    assert all(found.objective <= (one or 0.0) * (1 + 1e-12) for one in heuristics)
    assert found.bound <= found.objective
    assert most_available(problem).instances == found.instances  # nothing is drawn


def test_a_small_budget_buys_covers_not_single_operators() -> None:
    """Two operators of a query share a host: one replica alone gains nothing, both together do."""
    problem = ReplicaProblem(
        load=[0.1, 0.1, 0.15],
        operators=((0, 1), (2,), (0, 1)),
        edges=[[0, 1]],
        host_cpu=[1.0] * 3,
        down=[[0.1] * 3],
        primary=[0, 0, 1],
        budget=0.2,
    )
    found = most_available(problem)
    assert found.levels is not None
    assert found.levels.tolist() == [1, 1, 0]
    assert plan(problem, by="gain").levels.tolist() == [0, 0, 1]  # type: ignore[union-attr]


def test_what_state_keeps_up_to_date_is_what_is_there_from_scratch() -> None:
    problem = wide(5)
    start = plan(problem)
    assert start.instances is not None
    state = State(problem, start.instances)
    draw = np.random.default_rng(0)
    for _ in range(40):
        o = int(draw.integers(60))
        room = np.flatnonzero(state.room_for(o))
        if state.level(o) and draw.random() < 0.5:
            state.drop(o, state.hosts[o][-1])
        elif len(room) and not state.level(o):
            state.add(o, int(draw.choice(room)))
        state.refresh(state.users([o]))
    assert state.broken.tolist() == pytest.approx(problem.broken(state.hosts)[0].tolist(), rel=1e-12)
    assert state.cost == pytest.approx(problem.cost(state.hosts))
    assert state.free == pytest.approx(State(problem, state.hosts).free)


def test_the_bound_without_replicas_is_exact_where_primaries_run() -> None:
    problem = wide(3, budget=0.0)
    found = most_available(problem)
    assert found.status is Status.OPTIMAL
    assert bounds_of(problem).bare == pytest.approx(found.objective)
    assert most_cost(problem) == 0.0
    bound, _ = worst_bound(bounds_of(replace(problem, goal="worst")), 0.0)
    assert bound == pytest.approx(float(problem.broken(found.instances or ())[0].max()), rel=1e-9)


def test_targets_and_points_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match=r"target = 1\.5"):
        cheapest(wide(1), 1.5)
    with pytest.raises(InputError, match="points = 1"):
        front(wide(1), 1)


@pytest.mark.parametrize("running", [False, True])
def test_primaries_that_do_not_run_yet_go_where_fewer_queries_break(running: bool) -> None:
    """Two operators of one query are better together; first fit begins with them apart, as the first has no room."""
    asked = ReplicaProblem(
        load=np.array([0.3, 0.3, 0.3]),
        operators=((0,), (1, 2)),
        edges=np.array([[0, 1], [0, 2]]),
        host_cpu=np.full(3, 0.6),
        down=np.array([[0.1] * 3]),
        primary=np.array([0, 0, 1]) if running else None,
        max_level=0,
    )
    found = most_available(asked)
    assert found.instances is not None
    least = min(value(asked, made) for made in every_plan(asked))
    assert least == pytest.approx((0.1 + 0.19) / 2 if running else 0.1)
    assert value(asked, found.instances) == pytest.approx(least)


def test_a_certificate_proves_the_bound_again_and_a_forged_one_proves_nothing() -> None:
    problem = wide(2)
    found = most_available(problem)
    assert found.certificate is not None
    checked = verify_replicas(problem, found)
    assert checked.ok
    assert any("nothing is below" in text or "from its certificate" in text for text in checked.checked)
    program = program_of(problem, most_cost(problem))
    least = program.bound(found.certificate)
    assert least == pytest.approx(mean_bound(bounds_of(problem), most_cost(problem))[0], rel=1e-6)
    draw = np.random.default_rng(1)
    for factor in (0.0, 0.3, 1.7):  # any multipliers prove something that is true, those of the solver the most
        forged = found.certificate * factor * draw.random(len(found.certificate))
        assert program.bound(forged) <= least * (1 + 1e-9)
    dropped = verify_replicas(problem, replace(found, certificate=found.certificate[:-1]))
    assert any("rows" in text for text in dropped.not_checked)
    nothing = verify_replicas(problem, replace(found, certificate=None))
    assert any("takes a solver" in text for text in nothing.not_checked)


@settings(max_examples=5, deadline=None)
@given(problems(running=False), st.integers(0, 2**31))
def test_no_multipliers_prove_more_than_the_best_plan_has(problem: ReplicaProblem, seed: int) -> None:
    problem = replace(problem, goal="mean", load=1.5 * problem.load)  # so that fewer operators share a host
    least = min((value(problem, made) for made in every_plan(problem)), default=1.0)
    program = program_of(problem, most_cost(problem))
    proof = proven(program)
    bound, certificate = proof.bound, proof.multipliers
    assert bound <= least * (1 + 1e-9)
    draw = np.random.default_rng(seed)
    for scale in (0.01, 0.1, 1.0):
        assert program.bound(scale * draw.random(len(program.right))) <= least * (1 + 1e-9)
    if certificate is not None:
        assert program.bound(certificate) <= bound


@settings(max_examples=6, deadline=None)
@given(problems())
def test_the_front_of_a_small_problem_is_optimal_at_every_point(problem: ReplicaProblem) -> None:
    wanted = exact_front(problem)
    assert wanted is not None
    made = front(problem, 3)
    assert [one.plan.objective for one in made] == pytest.approx([one.value for one in wanted], rel=1e-10)
    assert {one.plan.status for one in made} == {Status.OPTIMAL}


def test_a_bound_that_a_plan_of_a_small_problem_is_below_does_not_hold() -> None:
    problem = ReplicaProblem(
        load=[0.2, 0.2, 0.3],
        operators=((0, 1), (1, 2)),
        edges=[[0, 1]],
        host_cpu=[1.0] * 3,
        down=[[0.1] * 3],
        budget=0.4,
    )
    good = plan(problem)
    best = most_available(problem)
    assert best.status is Status.OPTIMAL
    assert best.objective is not None
    assert verify_replicas(problem, best).checked[-1] == "the bound, against every plan"
    worse = replace(best, instances=((0,), (1,), (2,)), cost=0.0, broken=None)
    broken = verify_replicas(problem, replace(worse, objective=0.271, bound=1.1 * best.objective, status=good.status))
    assert any(one.kind == "bound" and "there is a plan with" in one.text for one in broken.violations)
    dear = cheapest(problem, 0.85)
    assert verify_replicas(problem, dear).ok
    assert dear.objective is not None
    above = verify_replicas(problem, replace(dear, bound=1.01 * dear.objective))
    assert any(one.kind == "bound" for one in above.violations) or dear.objective == 0.0


def test_a_packing_that_the_heuristic_misses_is_found_and_one_that_is_not_there_is_infeasible() -> None:
    fits = ReplicaProblem(
        load=[0.5, 0.3, 0.3, 0.3, 0.2, 0.4],
        operators=((0,), (1, 2), (3, 4, 5)),
        edges=[[1, 2]],
        host_cpu=[1.0, 1.0],
        down=[[0.1, 0.1]],
        max_level=0,
    )
    found = most_available(fits)
    assert found.status is Status.OPTIMAL
    assert fits.violations(found.instances or ()) == []
    tight = replace(fits, load=np.array([0.6, 0.3, 0.3, 0.3, 0.3, 0.2]))  # 2.0 in all, and nothing makes 0.4 beside 0.6
    none = most_available(tight)
    assert none.status is Status.INFEASIBLE
    assert front(tight, 3) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_no_plan_of_tight_deployments_is_below_the_bounds_of_its_programs(seed: int) -> None:
    """Four operators, three hosts, none placed: loads such that often only two or one of them share a host."""
    draw = np.random.default_rng(seed)
    sets = [tuple(sorted(draw.choice(4, int(draw.integers(2, 4)), replace=False).tolist())) for _ in range(4)]
    equal = bool(draw.integers(2))
    problem = ReplicaProblem(
        load=draw.choice([0.1, 0.3, 0.5, 0.6], 4),
        operators=tuple(sets),
        edges=np.empty((0, 2), dtype=np.int64),
        host_cpu=np.full(3, 1.0),
        down=np.full((1, 3), 0.1) if equal else draw.choice([0.02, 0.1, 0.3], (1, 3)),
        budget=float(draw.choice([0.0, 0.3, 0.6, 1.0])),
    )
    every = [(problem.cost(made), value(problem, made)) for made in every_plan(problem)]
    if not every:
        return
    for budget in (0.0, 0.3, most_cost(problem)):
        program = program_of(problem, budget)
        least = min((broken for cost, broken in every if cost <= budget + 1e-12), default=1.0)
        proof = proven(program)
        bound, certificate = proof.bound, proof.multipliers
        assert bound <= least * (1 + 1e-9)
        assert certificate is not None
        assert program.bound(draw.random(len(program.right)) * float(certificate.max())) <= least * (1 + 1e-9)
    for _, allowed in every[:: max(1, len(every) // 10)]:
        least = min(cost for cost, broken in every if broken <= allowed * (1 + 1e-12))
        assert proven(cost_program_of(problem, allowed)).bound <= least + 1e-9


def deployment(seed: int) -> ReplicaProblem:
    """Twelve queries of operators of which two do not fit on one host together, with no primary placed."""
    draw = np.random.default_rng(seed)
    sets = [tuple(sorted({int(draw.integers(4)), *draw.choice(np.arange(4, 20), 3).tolist()})) for _ in range(12)]
    return ReplicaProblem(
        load=np.round(draw.uniform(0.1, 0.6, 20), 2),
        operators=tuple(sets),
        edges=np.array([(one[k], one[k + 1]) for one in sets for k in range(len(one) - 1)]),
        host_cpu=np.full(14, 1.0),
        down=np.full((1, 14), 0.02),
        budget=2.0,
    )


def equal_operators(queries: Sequence[tuple[int, ...]], *, a_host: int, hosts: int) -> ReplicaProblem:
    """Forty equal operators, so many to a host, with room for ten replicas."""
    return ReplicaProblem(
        load=np.ones(40),
        operators=tuple(queries),
        edges=np.empty((0, 2), dtype=np.int64),
        host_cpu=np.full(hosts, float(a_host)),
        down=np.full((1, hosts), 0.01),
        budget=10.0,
    )


def random_queries(size: int) -> list[tuple[int, ...]]:
    draw = np.random.default_rng(1)
    return [tuple(sorted(draw.choice(40, size, replace=False).tolist())) for _ in range(20)]


@pytest.mark.parametrize(
    ("queries", "a_host", "hosts"),
    [
        ([(3 * k, 3 * k + 1, 3 * k + 2) for k in range(13)] + [(39,)], 1, 60),
        ([tuple(range(5 * k, 5 * k + 5)) for k in range(8)], 2, 30),
        (random_queries(2), 5, 10),
        (random_queries(3), 2, 30),
        (random_queries(4), 1, 60),
    ],
)
def test_the_bound_of_forty_equal_operators_is_within_two_percent(
    queries: Sequence[tuple[int, ...]], a_host: int, hosts: int
) -> None:
    problem = equal_operators(queries, a_host=a_host, hosts=hosts)
    found = most_available(problem)
    assert found.gap is not None
    assert 0 <= found.gap < 0.02
    assert verify_replicas(problem, found).violations == ()


def test_hosts_without_room_for_any_replica_are_proven_to_have_none() -> None:
    """Two operators of one CPU to a host of 2.5: the sum of the CPUs leaves room for ten, the hosts for none."""
    problem = replace(equal_operators(random_queries(2), a_host=2, hosts=20), host_cpu=np.full(20, 2.5))
    found = most_available(problem)
    assert found.status is Status.OPTIMAL
    assert found.cost == 0.0


def mixed(seed: int) -> ReplicaProblem | None:
    """Three to five operators, some of them running, on unequal hosts, at times with networks and spare hosts."""
    draw = np.random.default_rng(seed)
    n, hosts = int(draw.integers(3, 6)), int(draw.integers(3, 6))
    sets = [tuple(sorted(draw.choice(n, int(draw.integers(1, n + 1)), replace=False).tolist())) for _ in range(3)]
    primary = np.where(draw.random(n) < 0.4 * draw.integers(2), draw.integers(0, hosts, n), -1)
    limited = draw.random() < 0.3
    try:
        return ReplicaProblem(
            load=draw.choice([0.1, 0.25, 0.3, 0.4, 0.5, 0.6], n),
            operators=tuple(sets),
            edges=np.empty((0, 2), dtype=np.int64),
            host_cpu=draw.choice([0.7, 1.0], hosts),
            down=draw.choice([0.0, 0.02, 0.1, 0.3], (1, hosts)) if draw.integers(2) else np.full((1, hosts), 0.1),
            budget=[None, 0.3, 0.6, 1.0][int(draw.integers(4))],
            max_level=int(draw.choice([1, 1, 2])),
            max_replicas=None if draw.integers(2) else int(draw.integers(4)),
            primary=primary,
            network=draw.choice([0.2, 0.5], n) if limited else None,
            host_network=np.full(hosts, 1.0) if limited else None,
        )
    except InputError:  # more runs on a host than it has room for
        return None


@pytest.mark.parametrize(
    "seeds", [range(20), *(pytest.param(range(k, k + 50), marks=pytest.mark.slow) for k in range(20, 420, 50))]
)
def test_no_program_bounds_above_the_best_of_all_plans(seeds: range) -> None:
    """The walk through all plans, which other tests compare with brute force, is the oracle."""
    compared = 0
    for problem in filter(None, map(mixed, seeds)):
        every = exact_front(problem) or []
        for budget in (0.0, most_cost(problem) / 2, most_cost(problem)):
            least = min((one.value for one in every if one.cost <= budget + 1e-12), default=None)
            if least is None:
                continue
            program = program_of(problem, budget)
            proof = proven(program)
            assert proof.bound <= least * (1 + 1e-9)
            assert proof.multipliers is None or program.bound(proof.multipliers) <= proof.bound
            compared += 1
        for one in every[:3]:
            assert proven(cost_program_of(problem, one.value)).bound <= one.cost + 1e-9
    assert compared > len(seeds)


@pytest.mark.parametrize("goal", ["mean", "worst"])
def test_a_search_without_time_has_a_plan_with_a_bound_and_says_so(goal: str) -> None:
    problem = wide(2, goal=goal)
    whole = most_available(problem)
    assert whole.note == ""
    assert whole.objective is not None
    with clock_that_strikes_after(0):
        hurried = [
            most_available(problem, time_limit_s=60.0),
            front(problem, 5, time_limit_s=60.0)[-1].plan,
            front_of_counts(problem, 5, time_limit_s=60.0)[-1].plan,
        ]
        cheap = cheapest(problem, 1 - 1.5 * whole.objective, time_limit_s=60.0)
    for found in hurried:
        assert "the time limit struck" in found.note
        assert found.status is Status.FEASIBLE
        assert found.bound is not None
        assert found.bound <= whole.objective
        assert problem.violations(found.instances or ((),)) == []
    assert "the time limit struck" in cheap.note
    assert cheap.status in (Status.FEASIBLE, Status.UNKNOWN)


@settings(max_examples=8, deadline=None)
@given(problems())
def test_the_front_over_numbers_of_replicas_has_the_best_of_each(problem: ReplicaProblem) -> None:
    every = [(problem.replicas(made), value(problem, made)) for made in every_plan(problem)]
    found = front_of_counts(problem, 20)
    assert bool(found) == bool(every)
    for one in found:
        assert one.plan.instances is not None
        assert problem.replicas(one.plan.instances) <= one.budget
        assert one.plan.objective == pytest.approx(min(v for n, v in every if n <= one.budget), rel=1e-9)
    if found:
        assert found[-1].plan.objective == pytest.approx(min(broken for _, broken in every), rel=1e-9)


@pytest.mark.parametrize("seed", [1])
def test_bounds_of_new_deployments_count_that_a_host_does_not_hold_all_operators_of_a_query(seed: int) -> None:
    problem = deployment(seed)
    found = most_available(problem)
    assert found.bound is not None
    assert found.objective is not None
    before, _ = mean_bound(bounds_of(problem), most_cost(problem))
    assert found.bound > 1.3 * before
    assert found.bound <= found.objective
