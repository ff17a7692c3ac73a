"""Mean times of a tuple beside closed forms, the slowest path beside all paths, and the sum beside a run."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import networkx as nx
import plain_graphs
import pytest

from models import queueing
from models.latency import CriticalPath, MeanTimes, critical_path
from models.load import expected_load
from models.reading import scenario_from
from models.scenario import Scenario
from scenarios.runs import run

MS = 1e-3


def line(**changes: Any) -> Scenario:
    """A Poisson source of 50 tuples/s, two maps of 10 and 16 ms, a sink; each on a host of its own."""
    raw: dict[str, Any] = {
        "duration": "20 min",
        "workload": {"a": {"rate": "50 /s", "arrivals": {"distribution": "exponential"}}},
        "operators": {
            "a": {"kind": "source"},
            "b": {"kind": "map", "inputs": {"a": "shuffle"}, "service": exponential("10 ms")},
            "c": {"kind": "map", "inputs": {"b": "shuffle"}, "service": exponential("16 ms")},
            "d": {"kind": "sink", "inputs": {"c": "shuffle"}},
        },
        "hosts": {"worker": {"count": 4}},
        "network": {"latency": "3 ms"},
    }
    for path, value in changes.items():
        *above, last = path.split("__")
        here = raw
        for key in above:
            here = here[key]
        here[last] = value
    return scenario_from(raw)


def exponential(mean: str) -> dict[str, str]:
    return {"distribution": "exponential", "mean": mean}


def slowest(scenario: Scenario) -> CriticalPath:
    return critical_path(scenario, expected_load(scenario))


def test_a_line_of_queues_takes_what_jackson_says_and_a_latency_between_hosts() -> None:
    stations = queueing.jackson([50.0, 0.0], [[0, 1], [0, 0]], [10 * MS, 16 * MS])
    found = slowest(line())
    assert found.operators == ("a", "b", "c", "d")
    assert [step.wait_s for step in found.steps] == pytest.approx([0, stations[0].wait_s, stations[1].wait_s, 0])
    assert found.service_s == pytest.approx(26 * MS)
    assert found.link_s == pytest.approx(9 * MS)
    assert found.latency_s == pytest.approx(sum(one.wait_s for one in stations) + 35 * MS)


def test_the_mean_latency_of_a_run_is_the_one_that_is_told() -> None:
    scenario = line()
    measured = run(scenario).summary["latency_s"]
    low, high = measured["ci95"] or (0.97 * measured["mean"], 1.03 * measured["mean"])
    told = slowest(scenario).latency_s
    assert told is not None
    assert low - 0.05 * told <= told <= high + 0.05 * told


def test_on_one_host_there_is_no_link() -> None:
    assert slowest(line(hosts={"worker": {"cores": 4}})).link_s == 0


def test_a_tuple_takes_its_bytes_over_the_bandwidth_of_the_sender() -> None:
    with_bandwidth = slowest(line(hosts__worker__network="8 Mbit/s"))
    assert with_bandwidth.link_s == pytest.approx(9 * MS + 3 * 100 / 1e6)


def test_an_operator_that_is_overloaded_is_on_the_path_and_its_wait_is_none() -> None:
    found = slowest(line(operators__c__service=exponential("21 ms")))
    assert [step.wait_s is None for step in found.steps] == [False, False, True, False]
    assert found.wait_s is found.latency_s is None
    assert found.service_s == pytest.approx(31 * MS)


def test_threads_of_a_task_serve_one_queue() -> None:
    threads = line(operators__c__service=exponential("40 ms"), operators__c__threads=3)
    assert slowest(threads).steps[2].wait_s == pytest.approx(queueing.mmc(50, 40 * MS, 3).wait_s)


def test_tasks_of_a_host_with_shared_cores_wait_in_one_queue() -> None:
    shared = line(hosts={"worker": {"cpu": "shared", "cores": 2}})
    second = (10**2 * 2 + 16**2 * 2) / 2 * MS**2  # of a mixture of two exponential times
    expected = queueing.mgc(100, 13 * MS, second / (13 * MS) ** 2 - 1, 2).wait_s
    assert [step.wait_s for step in slowest(shared).steps[1:3]] == pytest.approx([expected, expected])


def test_on_a_host_that_shares_its_cores_evenly_a_tuple_waits_in_proportion_to_its_service() -> None:
    even = slowest(line(hosts={"worker": {"cpu": "processor-sharing", "cores": 2}}))
    for step, own_s in ((even.steps[1], 10 * MS), (even.steps[2], 16 * MS)):
        expected = queueing.processor_sharing_s(100, 13 * MS, 2, own_s)
        assert step.wait_s is not None
        assert step.wait_s + step.service_s == pytest.approx(expected)


def test_a_faster_host_serves_in_less_time() -> None:
    assert slowest(line(hosts__worker__speed=2.0)).service_s == pytest.approx(13 * MS)


@pytest.mark.parametrize("forward", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_no_other_path_from_a_source_to_a_sink_takes_longer(seed: int, forward: bool) -> None:
    scenario = plain_graphs.random_job(seed, forward=forward)
    load = expected_load(scenario)
    times = MeanTimes(scenario, load)
    waits, links, services = times.waits_s(), times.links_s(), times.services_s()
    graph = nx.DiGraph(list(links))
    longest = 0.0
    for source in scenario.workload:
        for sink in [name for name, operator in scenario.operators.items() if operator.kind == "sink"]:
            for path in nx.all_simple_paths(graph, source, sink):
                on_links = sum(links[pair] for pair in pairwise(path))
                longest = max(longest, on_links + sum((waits[name] or 0) + services[name] for name in path))
    found = critical_path(scenario, load)
    assert found.latency_s == pytest.approx(longest)
    assert scenario.operators[found.operators[0]].kind == "source"
    assert scenario.operators[found.operators[-1]].kind == "sink"
