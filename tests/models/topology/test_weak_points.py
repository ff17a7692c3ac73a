"""Failover regions, single points of failure and least sets of hosts, beside trying all of small jobs."""

from __future__ import annotations

import tomllib
from itertools import combinations
from pathlib import Path
from typing import Any

import networkx as nx
import plain_graphs
import pytest

from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from models.topology import layout, weak_points
from models.topology.layout import planned_replicas

ROOT = Path(__file__).parents[3]
SEEDS = range(40)


@pytest.fixture(params=SEEDS)
def job(request: pytest.FixtureRequest) -> Scenario:
    seed = request.param
    return plain_graphs.random_job(seed, forward=seed % 2 == 1, operators=7, hosts=2 + seed % 4)


def instances(scenario: Scenario) -> nx.DiGraph:
    """Every instance (task, host) with an edge for each pair that a tuple may go between."""
    placed = layout.placement(scenario)
    where = {task: [host] for task, host in placed.items()}
    for one in planned_replicas(scenario):
        index = scenario.operators[one.operator].task_of(one.group)
        where[layout.task_name(one.operator, index)].append(one.host)
    graph = nx.DiGraph()
    for name, index in layout.tasks(scenario):
        for host in where[layout.task_name(name, index)]:
            graph.add_node((name, index, host))
    for one in graph:
        for other in graph:
            partitioning = scenario.operators[other[0]].inputs.get(one[0])
            if partitioning and (partitioning != "forward" or one[1] == other[1]):
                graph.add_edge(one, other)
    return graph


def flows(scenario: Scenario, graph: nx.DiGraph, lost: Any) -> bool:
    """Whether a path from a source to a sink is left without the instances that `lost` is true of."""
    left = graph.subgraph([one for one in graph if not lost(*one)])
    reached = set()
    for one in left:
        if scenario.operators[one[0]].kind == "source":
            reached |= {one} | nx.descendants(left, one)
    return any(scenario.operators[name].kind == "sink" for name, _, _ in reached)


def test_operators_tasks_and_hosts_on_every_path_are_those_without_which_none_is_left(job: Scenario) -> None:
    graph, found = instances(job), weak_points.weak_points(job)
    assert set(found.operators) == {
        name for name in job.operators if not flows(job, graph, lambda other, *_, name=name: other == name)
    }
    assert set(found.tasks) == {
        layout.task_name(name, index)
        for name, index in layout.tasks(job)
        if not flows(job, graph, lambda other, k, _, task=(name, index): (other, k) == task)
    }
    assert set(found.hosts) == {
        host for host in layout.hosts(job) if not flows(job, graph, lambda *one, host=host: one[2] == host)
    }


def test_a_least_set_of_hosts_is_as_large_as_the_least_of_all_sets(job: Scenario) -> None:
    graph, found = instances(job), weak_points.weak_points(job)
    assert not flows(job, graph, lambda *one: one[2] in found.hosts_cut)
    assert len(found.hosts_cut) == found.hosts_at_least
    for fewer in combinations(layout.hosts(job), found.hosts_at_least - 1):
        assert flows(job, graph, lambda *one, fewer=fewer: one[2] in fewer)


def test_a_least_set_of_operators_is_as_large_as_the_least_of_all_sets(job: Scenario) -> None:
    graph, cut = instances(job), weak_points.operators_cut(job)
    assert not flows(job, graph, lambda name, *_: name in cut)
    for fewer in combinations(job.operators, len(cut) - 1):
        assert flows(job, graph, lambda name, *_, fewer=fewer: name in fewer)


def test_regions_are_the_components_of_the_graph_of_tasks(job: Scenario) -> None:
    tasks = job.graph("tasks")
    assert {frozenset(one) for one in weak_points.failover_regions(job)} == {
        frozenset(one) for one in nx.weakly_connected_components(tasks)
    }


def test_the_random_jobs_have_all_that_can_be_told() -> None:
    jobs = [plain_graphs.random_job(seed, forward=seed % 2 == 1, operators=7, hosts=2 + seed % 4) for seed in SEEDS]
    found = [weak_points.weak_points(one) for one in jobs]
    assert {len(one.hosts_cut) for one in found} >= {1, 2}
    assert any(not one.operators for one in found) or any(len(weak_points.operators_cut(one)) > 1 for one in jobs)
    assert any(one.tasks for one in found) and any(not one.tasks for one in found)


def pipeline(parallelism: int, partitioning: str, hosts: Any, **more: Any) -> Scenario:
    """A source, a map and a sink with as many tasks each."""
    service = {"distribution": "exponential", "mean": "1 us"}
    both = {"parallelism": parallelism}
    return scenario_from(
        {
            "duration": "10 s",
            "workload": {"a": {"rate": "1 /s"}},
            "operators": {
                "a": {"kind": "source", **both},
                "b": {"kind": "map", "inputs": {"a": partitioning}, "service": service, **both},
                "c": {"kind": "sink", "inputs": {"b": partitioning}, **both},
            },
            "hosts": hosts if isinstance(hosts, dict) else {"worker": {"count": hosts}},
            **more,
        }
    )


def test_streams_by_forward_have_a_region_for_each_slice_and_others_one_for_all() -> None:
    assert weak_points.failover_regions(pipeline(2, "forward", 3)) == [("a-0", "b-0", "c-0"), ("a-1", "b-1", "c-1")]
    assert [len(one) for one in weak_points.failover_regions(pipeline(2, "shuffle", 3))] == [6]


def test_a_slice_on_each_host_stands_until_all_hosts_are_lost() -> None:
    found = weak_points.weak_points(pipeline(3, "forward", 3))
    assert (found.hosts, found.tasks, len(found.hosts_cut), found.hosts_at_least) == ((), (), 3, 3)


def test_where_operators_have_hosts_of_their_own_the_fewest_hosts_of_one_are_the_answer() -> None:
    scenario = pipeline(
        6,
        "shuffle",
        {"first": {"count": 6}, "second": {"count": 4}},
        placement={"operators": {"a": "first", "b": "second", "c": "first"}},
    )
    found = weak_points.weak_points(scenario)
    assert found.hosts_cut == tuple(f"second-{index}" for index in range(4))
    assert found.hosts_at_least == 4


def test_a_search_that_is_cut_short_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weak_points, "_MOST_STEPS", 20)
    found = weak_points.weak_points(pipeline(6, "shuffle", 6))
    assert found.hosts_at_least < len(found.hosts_cut) == 6


@pytest.mark.parametrize("replicated", [False, True])
def test_an_active_replica_stands_in_for_its_task(replicated: bool) -> None:
    raw = tomllib.loads((ROOT / "examples" / "replicas.toml").read_text())
    raw["operators"]["count"]["parallelism"] = 1
    raw["placement"]["tasks"] = {"count-0": "worker-0"}
    raw["fault_tolerance"]["replicas"] = {"first": raw["fault_tolerance"]["replicas"]["first"]} if replicated else {}
    raw["events"] = {}
    scenario = scenario_from(raw)
    found = weak_points.weak_points(scenario)
    assert found.operators == ("orders", "count", "out")
    assert found.tasks == (("orders-0", "out-0") if replicated else ("orders-0", "count-0", "out-0"))
    assert found.hosts == (("front-0",) if replicated else ("front-0", "worker-0"))
    graph = instances(scenario)
    assert len(graph) == 3 + replicated
    assert flows(scenario, graph, lambda *one: one[2] == "worker-0") == replicated
