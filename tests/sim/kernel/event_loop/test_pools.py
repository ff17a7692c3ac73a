"""Queues against recursions: one server (Lindley 1952), several (Kiefer and Wolfowitz 1955), by equality."""

from __future__ import annotations

import heapq
from typing import Any

import pytest
from small_jobs import NS, built, queue, rows_of, simulate

from models.scenario.scenario import Scenario
from sim.draws import source_id


def recursion(made: Scenario, servers: int) -> list[tuple[int, int, int]]:
    """(arrival, start, end) of every tuple in order of arrival, from the arrivals and the drawn services alone."""
    plane = built(made)
    source, operator = plane.sources[0], plane.plan.operators[1]
    assert operator.service_ns is not None
    free = [0] * servers
    rows = []
    for sequence, created in enumerate(source.arrivals_ns):
        start = max(created, heapq.heappop(free))
        end = start + operator.service_ns(source_id(source.code, sequence))
        heapq.heappush(free, end)
        rows.append((created, start, end))
    return rows


def in_order(made: Scenario) -> list[tuple[int, int, int]]:
    return sorted(rows_of(simulate(made), "q"), key=lambda row: (row[0], row[1]))


LAWS: list[dict[str, Any]] = [
    {"distribution": "exponential", "mean": "25 ms"},
    {"distribution": "deterministic", "value": "30 ms"},
    {"distribution": "lognormal", "mean": "20 ms", "cv": 2.0},
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: str(law["distribution"]))
@pytest.mark.parametrize("arrivals", ["poisson", "deterministic"])
@pytest.mark.parametrize(
    ("threads", "hosts", "servers"),
    [
        (1, {}, 1),
        (3, {}, 3),
        (3, {"cpu": "shared", "cores": 3}, 3),
        (5, {"cpu": "shared", "cores": 2}, 2),
        (2, {"cpu": "shared", "cores": 8}, 2),
    ],
)
def test_starts_and_ends_equal_the_recursion(
    law: dict[str, Any], arrivals: str, threads: int, hosts: dict[str, Any], servers: int
) -> None:
    # The source falls silent before the end, so every tuple is done.
    steps = [{"at": "0 s", "rate": f"{servers * 35} /s"}, {"at": "6 s", "rate": "0 /s"}]
    made = queue(
        law,
        duration="20 s",
        q={"threads": threads},
        hosts={"h": hosts},
        workload={"src": {"rate": {"steps": steps}, "arrivals": arrivals}},
    )
    expected = recursion(made, servers)
    assert len(expected) > 150
    assert in_order(made) == expected


def test_a_pool_serves_as_many_as_it_has_threads() -> None:
    law = {"distribution": "deterministic", "value": "1 s"}
    workload = {"src": {"rate": "5 /s", "arrivals": "deterministic", "batch": 5}}
    made = queue(law, q={"threads": 3}, workload=workload, duration="1900 ms")
    starts = [start for _, start, _ in in_order(made)]
    assert starts == [NS] * 3
    assert simulate(made).tables["waiting"]["arrival_ns"].tolist() == [NS] * 2
    assert simulate(made).servers == (1, 3, 1)


def test_a_short_service_overtakes_in_a_pool_but_not_in_a_single_server() -> None:
    law = {"distribution": "exponential", "mean": "50 ms"}
    for threads, overtakes in ((1, False), (4, True)):
        made = queue(law, q={"threads": threads}, workload={"src": {"rate": f"{threads * 15} /s"}}, duration="20 s")
        arrivals = [arrival for arrival, _, end in rows_of(simulate(made), "q") if end >= 0]
        assert (arrivals != sorted(arrivals)) == overtakes
