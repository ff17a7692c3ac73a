"""A scenario as networkx graphs: what they hold, for every scenario that comes with holdfast."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest

from models.errors import InputError
from models.scenario.scenario import Scenario
from models.steady_state.flow import flows
from models.steady_state.latency import critical_path
from models.steady_state.load import expected_load
from models.topology import job_graph, layout
from scenarios.files.scenario import names, path_of, read_scenario

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(params=names())
def scenario(request: pytest.FixtureRequest) -> Scenario:
    return read_scenario(path_of(request.param)).scenario


def test_operators_are_nodes_and_streams_are_edges_with_their_rates(scenario: Scenario) -> None:
    graph, rates = scenario.graph(), flows(scenario)
    assert list(graph) == list(scenario.operators)
    assert set(graph.edges) == {(up, name) for name, one in scenario.operators.items() for up in one.inputs}
    for name, operator in scenario.operators.items():
        assert graph.nodes[name]["kind"] == operator.kind
        assert graph.nodes[name]["rate_in_per_s"] == rates[name].rate_in.mean_per_s
        for upstream, partitioning in operator.inputs.items():
            assert graph.edges[upstream, name]["partitioning"] == partitioning
        if operator.inputs:
            came = sum(graph.edges[up, name]["rate_per_s"] for up in operator.inputs)
            assert came == pytest.approx(rates[name].rate_in.mean_per_s)


def test_the_graph_has_all_that_the_slowest_path_is_made_of(scenario: Scenario) -> None:
    graph, found = scenario.graph(), critical_path(scenario, expected_load(scenario))
    for step, before in zip(found.steps, [None, *found.operators], strict=False):
        assert graph.nodes[step.operator]["service_s"] == step.service_s
        assert graph.nodes[step.operator].get("wait_s") == step.wait_s
        assert before is None or graph.edges[before, step.operator]["link_s"] == step.link_s


def test_all_but_sinks_have_what_they_send(scenario: Scenario) -> None:
    for name, described in scenario.graph().nodes(data=True):
        sends = scenario.operators[name].kind != "sink"
        assert ("selectivity" in described) == ("rate_out_per_s" in described) == sends


def test_tasks_are_on_their_hosts_and_send_where_the_partitioning_says(scenario: Scenario) -> None:
    graph = scenario.graph("tasks")
    assert {task: described["host"] for task, described in graph.nodes(data=True)} == layout.placement(scenario)
    for name, operator in scenario.operators.items():
        for upstream, partitioning in operator.inputs.items():
            for one in range(scenario.operators[upstream].parallelism):
                for other in range(operator.parallelism):
                    edge = (layout.task_name(upstream, one), layout.task_name(name, other))
                    assert graph.has_edge(*edge) == (partitioning != "forward" or one == other)


def test_a_task_points_to_its_host_and_a_host_to_its_group(scenario: Scenario) -> None:
    graph = scenario.graph("placement")
    placed = layout.placement(scenario)
    assert all(list(graph[f"task:{task}"]) == [f"host:{host}"] for task, host in placed.items())
    groups = layout.host_group_names(scenario)
    assert all(list(graph[f"host:{host}"]) == [f"group:{groups[host]}"] for host in layout.hosts(scenario))


def test_a_task_points_to_the_hosts_of_its_replicas_too() -> None:
    graph = read_scenario(EXAMPLES / "replicas.toml").scenario.graph("placement")
    assert graph.edges["task:count-0", "host:worker-0"] == {"replica": False}
    assert graph.edges["task:count-0", "host:worker-1"] == {"replica": True, "key_groups": 4}


@pytest.mark.parametrize("of", list(job_graph.GRAPHS))
def test_every_attribute_is_a_number_a_text_or_a_truth(scenario: Scenario, of: str) -> None:
    graph = job_graph.graph_of(scenario, of)
    for described in (*(one for _, one in graph.nodes(data=True)), *(one for *_, one in graph.edges(data=True))):
        assert {type(value) for value in described.values()} <= {int, float, str, bool}


def test_each_call_makes_a_graph_that_the_caller_may_change() -> None:
    scenario = read_scenario(path_of("mm1")).scenario
    scenario.graph().remove_node("server")
    assert "server" in scenario.graph() and nx.is_directed_acyclic_graph(scenario.graph())


def test_an_unknown_graph_and_one_with_too_many_edges_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = read_scenario(path_of("word-count")).scenario
    with pytest.raises(InputError, match="of = nodes: is no graph of a job"):
        job_graph.graph_of(scenario, "nodes")
    edges = scenario.graph("tasks").number_of_edges()
    monkeypatch.setattr(job_graph, "MOST_EDGES", edges - 1)
    with pytest.raises(InputError, match=f"would have {edges} edges: {edges - 1} at most"):
        scenario.graph("tasks")
