"""The graph of the operators and what follows from it, beside plain code."""

from __future__ import annotations

import networkx as nx
import plain_graphs
import pytest

from models.scenario.cluster import HostGroup
from models.scenario.scenario import Scenario
from models.steady_state import estimate
from models.topology import layout

SEEDS = range(25)


@pytest.fixture(params=SEEDS)
def job(request: pytest.FixtureRequest) -> Scenario:
    return plain_graphs.random_job(request.param)


def test_hosts_know_their_group_also_where_a_group_is_named_like_a_host() -> None:
    groups = {"a": HostGroup(count=2), "a-1": HostGroup(count=1, spare=1), "b": HostGroup()}
    scenario = plain_graphs.random_job(1).model_copy(update={"hosts": groups})
    names = layout.host_group_names(scenario)
    assert list(names.items()) == [("a-0", "a"), ("a-1", "a"), ("a-1-0", "a-1"), ("b-0", "b")]
    assert layout.hosts(scenario) == {host: groups[name] for host, name in names.items()}


def test_readers_are_in_file_order(job: Scenario) -> None:
    graph = layout.dataflow(job)
    assert list(graph) == list(job.operators)
    assert {name: tuple(graph[name]) for name in graph} == plain_graphs.downstream(job)


def test_the_order_of_operators_is_that_of_counting_inputs_down(job: Scenario) -> None:
    assert layout.topological(job) == plain_graphs.topological(job)


def test_keys_that_reach_an_operator_are_those_found_by_going_back(job: Scenario) -> None:
    assert [layout.keys_seen(job, name) for name in job.operators] == [
        plain_graphs.keys_seen(job, name) for name in job.operators
    ]


def test_watermarks_go_where_a_window_is_or_follows(job: Scenario) -> None:
    assert estimate._timed(job) == plain_graphs.timed(job)


def test_some_of_the_jobs_have_windows_new_keys_and_another_order_than_their_file() -> None:
    jobs = [plain_graphs.random_job(seed) for seed in SEEDS]
    assert any(plain_graphs.timed(one) for one in jobs)
    assert any(operator.output for one in jobs for operator in one.operators.values())
    assert any(layout.topological(one) != tuple(one.operators) for one in jobs)


def test_nobody_can_change_the_graph_that_others_get() -> None:
    with pytest.raises(nx.NetworkXError):
        layout.dataflow(plain_graphs.random_job(1)).add_node("more")


def test_a_scenario_with_other_operators_has_another_graph() -> None:
    one, other = plain_graphs.random_job(1), plain_graphs.random_job(2)
    made = one.model_copy(update={"operators": other.operators})
    assert layout.topological(one) == plain_graphs.topological(one)
    assert layout.topological(made) == plain_graphs.topological(other)


def test_operators_on_a_cycle_have_no_order() -> None:
    scenario = plain_graphs.random_job(1)
    source, sink = layout.topological(scenario)[0], layout.topological(scenario)[-1]
    operators = dict(scenario.operators)
    operators[source] = operators[source].model_copy(update={"inputs": {sink: "shuffle"}})
    tangled = scenario.model_copy(update={"operators": operators})
    assert layout.has_order(scenario) and not layout.has_order(tangled)
    with pytest.raises(ValueError, match="cycle"):
        layout.topological(tangled)
