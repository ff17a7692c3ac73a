"""The paper's three steps; oracles: small cases by hand, the rules of the problem, the verifier."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.errors import InputError
from models.planning.replicas import ReplicaPlan, ReplicaProblem
from models.planning.solution import Status
from optimizer.replicas import PLACEMENTS, SELECTIONS, plan
from optimizer.replicas.heuristic import direct, knapsack, queries, stepwise
from optimizer.replicas.placing import place_primaries, place_replicas
from optimizer.verify.replica_bounds import most_levels
from optimizer.verify.replicas import verify_replicas


def chain(**more: object) -> ReplicaProblem:
    """A chain of three operators in one query, the last two in another; five hosts."""
    return ReplicaProblem(
        **{  # type: ignore[arg-type]
            "load": [0.4, 0.2, 0.2],
            "operators": ((0, 1, 2), (1, 2)),
            "edges": [[0, 1], [1, 2]],
            "host_cpu": [1.0] * 5,
            "down": [[0.02] * 5, [0.01] * 5],
            "budget": 0.8,
        }
        | more
    )


ORDER = np.array([0, 1, 2])
WORTH = np.array([1.0, 0.9, 0.8])


def test_procedure_one_replicates_every_operator_before_any_twice_and_two_does_not() -> None:
    problem = chain(max_level=2)
    most = most_levels(problem)
    assert stepwise(problem, WORTH, ORDER, most).tolist() == [1, 1, 1]
    assert direct(problem, WORTH, ORDER, most).tolist() == [2, 0, 0]
    assert stepwise(replace(problem, budget=1.2), WORTH, ORDER, most).tolist() == [2, 1, 1]


def test_what_does_not_fit_is_skipped() -> None:
    assert stepwise(chain(budget=0.3), WORTH, ORDER, most_levels(chain())).tolist() == [0, 1, 0]


@pytest.mark.parametrize("selection", ["stepwise", "direct", "knapsack", "queries"])
@pytest.mark.parametrize("most", [0, 1, 2])
def test_no_selection_has_more_replicas_than_there_may_be(selection: str, most: int) -> None:
    found = plan(chain(budget=3.0, max_replicas=most), selection=selection)
    assert found.levels is not None
    assert found.levels.sum() == most


def test_a_knapsack_takes_two_light_operators_for_a_heavy_one() -> None:
    problem = chain(budget=0.4)
    most = most_levels(problem)
    assert stepwise(problem, WORTH, ORDER, most).tolist() == [1, 0, 0]
    assert knapsack(problem, WORTH, ORDER, most).tolist() == [0, 1, 1]
    assert knapsack(replace(problem, max_level=2, budget=1.2), WORTH, ORDER, most).tolist() == [1, 2, 2]


def test_by_queries_a_whole_query_is_replicated_before_single_operators() -> None:
    problem = chain(budget=0.5)
    most = most_levels(problem)
    assert queries(problem, WORTH, ORDER, most).tolist() == [0, 1, 1]
    assert queries(chain(budget=0.2), WORTH, ORDER, most).tolist() == [0, 1, 0]  # no query fits, one operator does
    assert queries(chain(budget=1.2, max_level=2), WORTH, ORDER, most).tolist() == [2, 1, 1]


def test_no_operator_gets_more_replicas_than_there_are_hosts_for_it() -> None:
    problem = chain(host_cpu=[1.0, 0.3, 0.3, 0.3, 0.3], max_level=4, budget=2.0)
    placed = place_primaries(problem)
    assert most_levels(replace(problem, primary=np.array([h[0] for h in placed.instances]))).tolist() == [0, 4, 4]


def test_primaries_gather_where_their_neighbours_are_and_replicas_stay_away_from_their_own() -> None:
    found = plan(chain())
    assert found.instances is not None
    assert [hosts[0] for hosts in found.instances] == [0, 0, 0]
    assert [hosts[1] for hosts in found.instances] == [1, 1, 1]
    assert found.status is Status.FEASIBLE
    assert found.objective == pytest.approx(0.02**2)


def test_running_primaries_stay_and_spare_hosts_take_only_replicas() -> None:
    spare = np.array([False, False, False, True, True])
    problem = chain(primary=[2, -1, -1], primary_hosts=~spare, replica_hosts=spare)
    found = plan(problem)
    assert found.instances is not None
    assert found.instances[0][0] == 2
    assert all(hosts[0] < 3 and all(h >= 3 for h in hosts[1:]) for hosts in found.instances)
    assert problem.violations(found.instances) == []


def test_coloured_packing_has_fewer_operators_on_a_host_and_falls_back_where_it_cannot() -> None:
    light = {"load": [0.1] * 6, "operators": (tuple(range(6)),), "edges": [[k, k + 1] for k in range(5)]}
    spare = np.array([False, True, True, True])
    problem = chain(**light, host_cpu=[1.0] * 4, down=[[0.02] * 4], primary=[0] * 6, replica_hosts=spare, budget=1.0)
    worth = np.linspace(1, 0.5, 6)
    ones = np.ones(6, dtype=np.int64)
    start = place_primaries(problem).instances
    simple = place_replicas(problem, start, ones, worth, "first-fit")
    made = place_replicas(problem, start, ones, worth, "coloured")
    assert {hosts[1] for hosts in simple.instances} == {1}
    assert made.colours == 2  # six operators on three hosts
    assert sorted(hosts[1] for hosts in made.instances) == [1, 1, 2, 2, 3, 3]
    full = replace(problem, host_cpu=np.array([1.0, 0.3, 0.3, 0.05]))
    assert place_replicas(full, start, ones, worth, "coloured").left_out == 0
    none = replace(problem, host_cpu=np.array([1.0, 0.3, 0.1, 0.05]))
    assert place_replicas(none, start, ones, worth, "coloured").left_out == 2  # as by first fit


def test_primaries_without_room_are_said_to_be_infeasible_or_unknown() -> None:
    short = plan(chain(host_cpu=[0.3, 0.3, 0.1, 0.0, 0.0]))
    assert (short.status, short.instances) == (Status.INFEASIBLE, None)
    assert "operators take 0.8 CPUs, the hosts for primaries have 0.7" in short.note
    large = plan(chain(host_cpu=[0.3] * 5))
    assert large.status is Status.INFEASIBLE
    assert "operator 0 takes 0.4 CPUs, the largest host has 0.3" in large.note
    wired = plan(chain(network=[1.0, 9.0, 1.0], host_network=[5.0] * 5))
    assert wired.status is Status.INFEASIBLE
    assert "operator 1 takes 9 B/s of network, the largest host has 5" in wired.note
    lost = chain(load=[0.3, 0.3, 0.4], host_cpu=[0.4, 0.3, 0.3], down=[[0.1] * 3])
    assert plan(lost).status is Status.UNKNOWN
    assert "the packing found no host for 1 of 3 primaries" in plan(lost).note


def test_unknown_names_are_refused() -> None:
    for words in ({"by": "dgree"}, {"selection": "best"}, {"placement": "last-fit"}, {"by": "random"}):
        with pytest.raises(InputError):
            plan(chain(), **words)  # type: ignore[arg-type]


@st.composite
def problems(draw: st.DrawFn) -> ReplicaProblem:
    n, hosts = draw(st.integers(1, 7)), draw(st.integers(3, 6))
    load = draw(st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.4]), min_size=n, max_size=n))
    sets = st.lists(st.integers(0, n - 1), min_size=1, max_size=4, unique=True)
    return ReplicaProblem(
        load=np.array(load),
        operators=tuple(map(tuple, draw(st.lists(sets, min_size=1, max_size=4)))),
        edges=np.array([(k, k + 1) for k in range(n - 1)], dtype=np.int64).reshape(-1, 2),
        host_cpu=np.full(hosts, 1.0),
        down=np.array([draw(st.lists(st.sampled_from([0.0, 0.01, 0.3]), min_size=hosts, max_size=hosts))]),
        budget=draw(st.sampled_from([None, 0.0, 0.3, 1.0])),
        max_level=draw(st.integers(0, 3)),
    )


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(sorted(SELECTIONS)), st.sampled_from(sorted(PLACEMENTS)), st.integers(0, 3))
def test_every_plan_keeps_every_rule_and_holds_for_the_verifier(
    problem: ReplicaProblem, selection: str, placement: str, by: int
) -> None:
    name = ("degree", "product", "gain", "random")[by]
    noise = np.linspace(0.1, 0.9, problem.n_operators)
    found = plan(problem, by=name, selection=selection, placement=placement, noise=noise)
    assert found.instances is not None
    assert problem.violations(found.instances) == []
    assert verify_replicas(problem, found).violations == ()


def test_the_verifier_finds_what_is_wrong_with_a_plan() -> None:
    problem = chain()
    good = plan(problem)
    assert good.instances is not None
    assert verify_replicas(problem, good).holds

    def wrong(**more: object) -> str:
        made = {"status": Status.FEASIBLE, "instances": good.instances, "objective": good.objective, "cost": good.cost}
        return " ".join(map(str, verify_replicas(problem, ReplicaPlan(**made | more)).violations))  # type: ignore[arg-type]

    assert wrong() == ""
    assert "two instances on one host" in wrong(instances=((0, 0), *good.instances[1:]))
    assert "says objective" in wrong(objective=1e-5)
    assert "says cost" in wrong(cost=0.1)
    assert "says bound" in wrong(bound=0.5)
    assert "says optimal with gap" in wrong(status=Status.OPTIMAL, bound=0.0)
    assert "not there" in wrong(instances=((0, 99), *good.instances[1:]))


def test_without_a_time_limit_a_slow_machine_chooses_the_same_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = np.random.default_rng(5)
    sets = tuple(tuple(sorted(drawn.choice(40, 4, replace=False).tolist())) for _ in range(60))
    problem = ReplicaProblem(
        load=drawn.uniform(0.1, 0.9, 40),
        operators=sets,
        edges=np.empty((0, 2), dtype=np.int64),
        host_cpu=np.ones(60),
        down=np.full((1, 60), 0.02),
        budget=8.0,
    )
    worth, order, most = drawn.uniform(size=40), np.arange(40), np.ones(40, dtype=np.int64)
    found = queries(problem, worth, order, most, 0.2), queries(problem, worth, order, most)
    now = iter(range(0, 10**9, 100))
    monkeypatch.setattr("time.monotonic", lambda: float(next(now)))  # each look at the clock is 100 s later
    assert queries(problem, worth, order, most).tolist() == found[1].tolist()
    assert queries(problem, worth, order, most, 0.2).tolist() != found[0].tolist()
