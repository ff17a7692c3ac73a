"""The problem of replicas: what breaks a rule is named; importance by hand and by brute force."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.errors import InputError
from models.planning.replicas import ReplicaProblem, degree, exact_gains, importance, low_utilisation, of_queries


def made(**more: Any) -> ReplicaProblem:
    """Two queries on three operators, the first shared, and four hosts."""
    return ReplicaProblem(
        **{
            "load": [0.2, 0.5, 0.1],
            "operators": ((0, 1), (0, 2)),
            "edges": [[0, 1], [0, 2]],
            "host_cpu": [1.0] * 4,
            "down": [[0.1] * 4],
        }
        | more
    )


def brute(problem: ReplicaProblem, instances: tuple[tuple[int, ...], ...]) -> list[float]:
    """P(query is broken) over all states of the hosts."""
    found = [0.0] * problem.n_queries
    for state in itertools.product((False, True), repeat=problem.n_hosts):  # True is down
        chance = float(np.prod([q if down else 1 - q for q, down in zip(problem.down[0], state, strict=True)]))
        for query, needed in enumerate(problem.operators):
            found[query] += chance * any(all(state[h] for h in instances[o]) for o in needed)
    return found


def test_heuristic_importance_is_as_the_paper_defines_it() -> None:
    problem = made()
    noise = np.zeros(3)
    assert degree(problem).tolist() == [1.0, 0.5, 0.5]
    assert low_utilisation(problem).tolist() == pytest.approx([0.6, 0.0, 0.8])
    assert importance("product", problem, (), noise).tolist() == pytest.approx([0.6, 0.0, 0.4])
    assert low_utilisation(made(load=[0.0] * 3)).tolist() == [1.0] * 3
    assert of_queries(made(weights=(1.0, 2.0)), np.array([0.6, 0.0, 0.4])).tolist() == pytest.approx([0.15, 0.5])
    with pytest.raises(InputError, match="did you mean degree"):
        importance("degre", problem, (), noise)


def test_degree_overstates_what_a_replica_gains_beside_an_unreplicated_neighbour() -> None:
    problem = made()
    together = exact_gains(problem, ((0,), (0,), (1,)))
    assert together[0] == pytest.approx(0.5 * 0.1 * 0.9 * 0.9)  # only for the second query, where host 1 is up
    assert together[1] == 0.0  # the host of both still breaks the first query
    apart = exact_gains(problem, ((0,), (2,), (1,)))
    assert apart[0] > together[0]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=2, unique=True), min_size=3, max_size=3))
def test_exact_gains_are_the_differences_that_counting_all_states_gives(placed: list[list[int]]) -> None:
    down = [0.1, 0.2, 0.3, 0.05, 0.1625]
    problem = made(host_cpu=[1.0] * 5, down=[down], replica_hosts=[True] * 4 + [False])
    instances = tuple(map(tuple, placed))
    assert problem.broken(instances)[0].tolist() == pytest.approx(brute(problem, instances), rel=1e-12)
    wide = made(host_cpu=[1.0] * 6, down=[[*down, float(np.mean(down[:4]))]])
    before = np.mean(brute(wide, instances))
    for operator, gain in enumerate(exact_gains(problem, instances).tolist()):
        after = tuple((*hosts, 5) if o == operator else hosts for o, hosts in enumerate(instances))
        assert gain == pytest.approx(before - np.mean(brute(wide, after)), rel=1e-9, abs=1e-15)


def test_every_broken_rule_of_an_answer_is_named() -> None:
    problem = made(
        primary=[0, -1, -1],
        primary_hosts=[True, True, False, False],
        replica_hosts=[False, True, True, True],
        budget=0.25,
    )
    assert problem.violations(((0, 2), (1,), (1,))) == []
    cases = {
        ((0, 0), (1,), (1,)): "two instances on one host",
        ((1,), (1,), (1,)): "runs on host 0, not 1",
        ((0,), (2,), (1,)): "which takes none",
        ((0,), (1,), (1, 0)): "a replica of operator 2 is on host 0",
        ((0,), (1,), (1, 2, 3)): "at most 1 are allowed",
        ((0,), (1, 2), (1,)): "replicas take 0.5, the budget is 0.25",
        ((0,), (1,), (7,)): "a host that is not there",
        ((0,), (1,), ()): "operator 2 has no host",
        ((0,), (1,)): "has 2 operators, there are 3",
    }
    for instances, words in cases.items():
        assert any(words in one for one in problem.violations(instances)), words
    few = made(max_replicas=1).violations(((0, 1), (1, 2), (2,)))
    assert few == ["there are 2 replicas, at most 1 are allowed"]
    assert any("its operators take 0.8" in one for one in made(host_cpu=[0.75] * 4).violations(((0,), (0,), (0,))))
    tight = made(network=[5.0, 5.0, 5.0], host_network=[9.0] * 4)
    assert any("host 1 has 9 network" in one for one in tight.violations(((0,), (1,), (1,))))


def test_what_is_no_problem_is_refused_with_every_fault() -> None:
    for words, more in {
        r"budget = -1": {"budget": -1.0},
        r"max_level = 1.5": {"max_level": 1.5},
        r"max_replicas = -1": {"max_replicas": -1},
        r"goal = best": {"goal": "best"},
        r"down\[0\]\[1\] = 1.5: must be a probability": {"down": [[0.1, 1.5, 0.1, 0.1]]},
        r"primary\[2\] = 4: is not a host": {"primary": [0, 1, 4]},
        r"host 0 = 0.7: is more than the host has: 0.5": {"primary": [0, 0, 1], "host_cpu": [0.5] * 4},
        r"operators\[1\]: must hold an operator": {"operators": ((0, 1), ())},
        r"operators\[0\]\[1\] = 9": {"operators": ((0, 9), (1,))},
        r"weights\[0\] = -1": {"weights": (-1.0, 1.0)},
        r"host_network = None: of operators and of hosts go together": {"network": [1.0] * 3},
        r"load\[0\] = -1": {"load": [-1.0, 0.0, 0.0]},
    }.items():
        with pytest.raises(InputError, match=words):
            made(**more)
    with pytest.raises(InputError) as caught:
        made(budget=-1.0, goal="best")
    assert len(caught.value.faults) == 2


def test_the_budget_is_at_most_what_primaries_leave() -> None:
    assert made().capacity == pytest.approx(3.2)
    assert made(budget=2.0).capacity == 2.0
    assert made(budget=9.0).capacity == pytest.approx(3.2)
    assert made(host_cpu=[0.1] * 4).capacity == 0.0


def test_the_worst_query_is_another_goal() -> None:
    broken = np.array([[0.1, 0.3]])
    assert made(weights=(3.0, 1.0)).value(broken).tolist() == pytest.approx([0.15])
    assert made(goal="worst").value(broken).tolist() == [0.3]
