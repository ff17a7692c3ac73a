"""Memory of hosts from the rows of tasks.

Oracle: a loop over instants that keeps the last row of each task, and forgets a task that a sample does not have.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from small_runs import S, small_records, small_scenario

from analysis.documents import to_document
from analysis.runs.memory import host_memory, memory
from analysis.runs.metrics import metrics_of, possible_metrics
from analysis.runs.summary import summarise
from analysis.runs.tables import memory_table
from models.records.tables import RunRecords, table

HOSTS = {"worker-0": "worker", "worker-1": "worker"}


def random_rows(seed: int) -> RunRecords:
    """Samples each second, at which some tasks are missing, and rows of single tasks in between."""
    draw = Random(seed)
    rows, samples = [], []
    alive = {0, 1, 2, 3}
    for second in range(1, 9):
        for task in sorted(alive):
            samples.append((second * S, task, task % 2, 0, 0, 0))
            rows.append((second * S, task, task % 2, *(draw.randrange(100) for _ in range(5))))
        for at in sorted(draw.randrange(S) for _ in range(draw.randrange(4))):
            if alive:
                task = draw.choice(sorted(alive))
                for _ in range(draw.choice([1, 1, 2])):
                    rows.append((second * S + at, task, task % 2, *(draw.randrange(100) for _ in range(5))))
        alive = {task for task in range(4) if draw.random() < 0.7}
    return small_records(memory=rows, samples=samples)


def plainly(one: RunRecords) -> list[tuple[int, int, int]]:
    """(at_ns, of the first host, of the second host) after all rows of an instant."""
    rows = list(zip(*(column.tolist() for column in one.tables["memory"].values()), strict=True))
    sampled = {*one.tables["samples"]["at_ns"].tolist()}
    held: dict[int, tuple[int, int]] = {}
    found = []
    for at in sorted({row[0] for row in rows}):
        if at in sampled:
            held = {}
        held |= {row[1]: (row[2], sum(row[3:])) for row in rows if row[0] == at}
        found.append((at, *(sum(size for host, size in held.values() if host == one) for one in (0, 1))))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_hosts_hold_what_their_tasks_hold(seed: int) -> None:
    one = random_rows(seed)
    line = host_memory(one)
    assert line.names == ("worker-0", "worker-1")
    assert list(zip(line.at_ns.tolist(), *line.values.tolist(), strict=True)) == plainly(one)


def test_a_host_above_its_memory_is_named_with_its_time() -> None:
    limit = {"worker": {"count": 2, "memory": "100 B"}}
    scenario = small_scenario(hosts=limit, recording={"memory": True})
    rows = [(2 * S, 1, 0, 90, 0, 0, 0, 0), (2 * S, 2, 1, 70, 0, 0, 0, 0), (3 * S, 1, 0, 40, 0, 0, 70, 0)]
    rows += [(5 * S, 1, 0, 100, 0, 0, 0, 0), (5 * S, 2, 1, 70, 0, 0, 0, 0)]
    samples = [(at * S, task, task - 1, 0, 0, 0) for at in (2, 5) for task in (1, 2)]
    found = memory(scenario, [small_records(memory=rows, samples=samples)])
    assert found is not None
    assert found.peak_bytes == 110
    first, second = found.hosts["worker-0"], found.hosts["worker-1"]
    assert (first.peak_bytes, first.at_s, first.limit_bytes, first.above_s) == (110, 3.0, 100, 2.0)  # 100 is not above
    assert (second.peak_bytes, second.at_s, second.above_s) == (70, 2.0, 0.0)
    listed = memory_table(found, HOSTS)
    assert listed.rows == (("worker-0", 110, 3.0, 100.0, 2.0),)


def test_only_a_scenario_that_asks_has_it() -> None:
    assert memory(small_scenario(), [random_rows(1)]) is None
    asked = small_scenario(recording={"memory": True})
    summary = summarise(asked, [random_rows(1)])
    found = {name for name in metrics_of(summary) if name.startswith("memory.")}
    assert found == {name for name in possible_metrics(asked) if name.startswith("memory.")}
    assert "memory.peak_bytes" in found
    assert to_document(summary)["memory"]["hosts"].keys() == HOSTS.keys()


def test_no_rows_are_no_memory() -> None:
    one = replace(small_records(), tables={**small_records().tables, "memory": table("memory", [])})
    line = host_memory(one)
    assert line.values.shape == (2, 0)
    found = memory(small_scenario(recording={"memory": True}), [one])
    assert found is not None
    assert found.peak_bytes is None
    assert np.size(line.at_ns) == 0
