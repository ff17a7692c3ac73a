"""Mean times of a tuple beside closed forms, the slowest path beside all paths, and the sum beside a run."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import networkx as nx
import plain_graphs
import pytest
from queueing_formulas import jackson, mm1

from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from models.steady_state import queueing
from models.steady_state.latency import CriticalPath, MeanTimes, critical_path
from models.steady_state.load import expected_load
from scenarios.runs.run import run

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
    stations = jackson([50.0, 0.0], [[0, 1], [0, 0]], [10 * MS, 16 * MS])
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


SHARED = {"cpu": "shared", "cores": 2}


def test_tasks_with_as_many_threads_as_their_host_has_cores_wait_in_one_queue() -> None:
    found = slowest(line(hosts={"worker": SHARED}, operators__b__threads=2, operators__c__threads=2))
    second = (10**2 * 2 + 16**2 * 2) / 2 * MS**2  # of a mixture of two exponential times
    expected = queueing.mgc(100, 13 * MS, second / (13 * MS) ** 2 - 1, 2).wait_s
    assert [step.wait_s for step in found.steps[1:3]] == pytest.approx([expected, expected])
    assert not found.rough


def test_on_a_host_that_shares_its_cores_evenly_a_tuple_waits_in_proportion_to_its_service() -> None:
    evenly = {"cpu": "processor-sharing", "cores": 2}
    even = slowest(line(hosts={"worker": evenly}, operators__b__threads=2, operators__c__threads=2))
    for step, own_s in ((even.steps[1], 10 * MS), (even.steps[2], 16 * MS)):
        expected = queueing.processor_sharing_s(100, 13 * MS, 2, own_s)
        assert step.wait_s is not None
        assert step.wait_s + step.service_s == pytest.approx(expected)


def maps(cpu: str, cores: int, *tasks: tuple[int, int]) -> Scenario:
    """Maps of 10 ms on one host, each with a source of its own: (tuples/s, threads) of each."""
    operators: dict[str, Any] = {}
    workload: dict[str, Any] = {}
    for number, (rate, threads) in enumerate(tasks):
        source, name = f"s{number}", f"m{number}"
        workload[source] = {"rate": f"{rate} /s", "arrivals": {"distribution": "exponential"}}
        operators[source] = {"kind": "source"}
        service = {"service": exponential("10 ms"), "threads": threads}
        operators[name] = {"kind": "map", "inputs": {source: "shuffle"}, **service}
        operators[f"k{number}"] = {"kind": "sink", "inputs": {name: "shuffle"}}
    host = {"cpu": cpu, "cores": cores}
    return scenario_from({"duration": "200 s", "workload": workload, "operators": operators, "hosts": {"h": host}})


def waits(scenario: Scenario) -> list[float | None]:
    """Return the waits of the maps."""
    found = MeanTimes(scenario, expected_load(scenario)).waits_s()
    return [wait_s for name, wait_s in found.items() if name.startswith("m")]


@pytest.mark.parametrize("cpu", ["dedicated", "shared", "processor-sharing"])
def test_with_a_core_for_each_thread_a_task_waits_as_on_cores_of_its_own(cpu: str) -> None:
    scenario = maps(cpu, 8, (90, 1), (150, 2), (120, 1))
    alone = mm1(90, 10 * MS).wait_s, queueing.mmc(150, 10 * MS, 2).wait_s
    assert waits(scenario) == [pytest.approx(alone[0]), pytest.approx(alone[1]), None]
    assert not MeanTimes(scenario, expected_load(scenario)).rough()


@pytest.mark.parametrize("cpu", ["shared", "processor-sharing"])
def test_where_threads_and_cores_are_short_the_longer_wait_counts(cpu: str) -> None:
    scenario = maps(cpu, 2, (90, 1), (40, 1), (40, 1))
    of_host = queueing.mmc(170, 10 * MS, 2).wait_s
    assert waits(scenario) == pytest.approx([mm1(90, 10 * MS).wait_s, of_host, of_host])
    assert MeanTimes(scenario, expected_load(scenario)).rough() == {"m0", "m1", "m2"}
    assert slowest(scenario).rough


@pytest.mark.parametrize("cpu", ["shared", "processor-sharing"])
def test_a_queue_without_end_is_that_of_the_task_or_of_all_tasks_of_the_host(cpu: str) -> None:
    assert [one is None for one in waits(maps(cpu, 2, (100, 1), (20, 1), (20, 1)))] == [True, False, False]
    assert waits(maps(cpu, 2, (70, 1), (70, 1), (70, 1))) == [None, None, None]


@pytest.mark.parametrize("cpu", ["shared", "processor-sharing"])
@pytest.mark.parametrize("others", [(), ((40, 1), (40, 1)), ((60, 4),)], ids=str)
def test_no_wait_gets_shorter_with_the_rate_of_a_task_or_with_fewer_cores(
    cpu: str, others: tuple[tuple[int, int], ...]
) -> None:
    def found(rate: int, cores: int) -> list[float]:
        return [float("inf") if one is None else one for one in waits(maps(cpu, cores, (rate, 1), *others))]

    by_rate = [found(rate, 2) for rate in range(10, 130, 10)]
    by_cores = [found(60, cores) for cores in (8, 4, 3, 2, 1)]
    for steps in (by_rate, by_cores):
        for before, after in pairwise(steps):
            assert all(more >= less * (1 - 1e-12) for less, more in zip(before, after, strict=True))


@pytest.mark.parametrize(
    ("cpu", "cores", "tasks", "at_least"),
    [
        ("shared", 8, ((80, 1),), 0.9),
        ("processor-sharing", 8, ((80, 1),), 0.9),
        ("shared", 2, ((60, 2), (60, 2)), 0.9),
        ("shared", 2, ((60, 1), (60, 4)), 0.8),
        ("shared", 2, ((50, 1),) * 3, 0.7),
        ("processor-sharing", 2, ((50, 1),) * 3, 0.6),
        ("shared", 4, ((60, 1),) * 6, 0.5),
        ("processor-sharing", 4, ((60, 1),) * 6, 0.5),
    ],
    ids=str,
)
def test_a_run_waits_as_long_or_at_most_twice_where_both_waits_are_alike(
    cpu: str, cores: int, tasks: tuple[tuple[int, int], ...], at_least: float
) -> None:
    """The wait of all maps together; on evenly shared cores with the time by which sharing makes services longer."""
    scenario = maps(cpu, cores, *tasks)
    rates = [rate for rate, _ in tasks]
    measured = run(scenario).summary["latency_s"]["mean"] - 10 * MS
    told = sum(rate * (wait_s or 0.0) for rate, wait_s in zip(rates, waits(scenario), strict=True)) / sum(rates)
    assert at_least * measured <= told <= 1.1 * measured


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
