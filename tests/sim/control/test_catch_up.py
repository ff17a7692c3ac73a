"""When the tasks have caught up after an outage: checked against queue lengths that are counted from the visits."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import plain_graphs
import pytest
from small_jobs import NS, scenario, simulate

from models.records.tables import NEVER, RunRecords
from models.scenario.inputs import RunInputs
from sim.control.catch_up import _downstream
from sim.control.cluster import Cluster, RunPlan
from sim.migration.protocols import PROTOCOLS
from sim.plain.plane import PlainPlane

LATENCY_NS = 200_000
DETECTED_NS = 19_500_000_000


def is_worked_off(at_ns: int) -> bool:
    """Whether the slow operator may be done by then: 10 s at 100/s and 8 ms a tuple are done in 8 / (1 - 0.8) s."""
    return abs((at_ns - DETECTED_NS) - 40 * NS) < 5 * NS


def chain(placement: dict[str, str], duration: str = "50 s", kind: str = "map", **changes: Any) -> RunRecords:
    """100 tuples/s through a fast operator and one that is busy for 80 %; host `a` dies at 9.5 s."""
    times = {"fast": "1 ms", "slow": "8 ms"}
    operators: dict[str, Any] = {"src": {"kind": "source"}}
    for name, upstream in (("fast", "src"), ("slow", "fast")):
        operators[name] = {
            "kind": kind,
            "inputs": {upstream: "key"},
            "service": {"distribution": "deterministic", "value": times[name]},
        }
    operators["out"] = {"kind": "sink", "inputs": {"slow": "shuffle"}}
    raw = {
        "duration": duration,
        "workload": {"src": {"rate": "100 /s", "arrivals": "deterministic"}},
        "operators": operators,
        "hosts": {"front": {}, "a": {}, "b": {}, "c": {}},
        "placement": {"operators": {"src": "front", "out": "front", **placement}},
        "fault_tolerance": {"method": "checkpoint", "interval": "1 s", "store": "remote"},
        "detector": {"heartbeat": "500 ms", "timeout": "10 s"},
        "events": {"crash": {"at": "9.5 s", "kind": "host-failure", "host": "a-0"}},
        **changes,
    }
    return simulate(scenario(raw))


def in_system(records: RunRecords, operator: str, at_ns: int) -> int:
    """Tuples of an operator that had arrived before an instant and were not done before it."""
    visits = records.tables["visits"]
    own = visits["operator"] == records.operators.index(operator)
    arrival, end = visits["arrival_ns"][own], visits["end_ns"][own]
    return int(((arrival < at_ns) & ((end == NEVER) | (end > at_ns))).sum())


def caught_up(records: RunRecords, operator: str) -> int:
    rows = records.tables["recoveries"]
    (at,) = rows["caught_up_ns"][rows["operator"] == records.operators.index(operator)]
    return int(at)


def test_a_partition_downstream_has_not_caught_up_before_the_backlog_from_upstream_is_done() -> None:
    records = chain({"fast": "a", "slow": "a"}, duration="70 s")
    fast, slow = caught_up(records, "fast"), caught_up(records, "slow")
    (whole,) = records.tables["failures"]["caught_up_ns"]
    assert fast < slow <= whole
    assert is_worked_off(slow)
    assert in_system(records, "slow", slow) == 0
    visits = records.tables["visits"]
    ends = visits["end_ns"][visits["operator"] == records.operators.index("slow")]
    between = ends[(ends > fast + LATENCY_NS) & (ends < slow)]
    assert between.size > 1000
    assert all(in_system(records, "slow", int(at)) > 0 for at in between[::50])


def test_a_failure_is_worked_off_when_the_tasks_that_stayed_alive_downstream_are_idle_again() -> None:
    records = chain({"fast": "a", "slow": "b"}, duration="70 s")
    (whole,) = records.tables["failures"]["caught_up_ns"]
    fast = caught_up(records, "fast")
    assert fast < 21.3 * NS
    assert is_worked_off(whole)
    assert in_system(records, "slow", int(whole)) == 0


def test_a_failure_upstream_of_nothing_slow_is_worked_off_soon() -> None:
    records = chain({"fast": "b", "slow": "b"}, events={"x": {"at": "9.5 s", "kind": "host-failure", "host": "c-0"}})
    (row,) = zip(*(column.tolist() for column in records.tables["failures"].values()), strict=True)
    assert row[-3:] == (0, row[2], "crash")  # nothing was on that host: over when it is detected


def test_a_run_that_ends_before_the_backlog_is_done_says_so() -> None:
    records = chain({"fast": "a", "slow": "a"}, duration="30 s")
    assert caught_up(records, "fast") != NEVER
    assert caught_up(records, "slow") == NEVER
    assert records.tables["failures"]["caught_up_ns"].tolist() == [NEVER]


def test_samples_count_tuples_and_not_the_writing_of_checkpoints() -> None:
    slow_write = {"serialise": "100 B/s", "state": {"model": "fixed", "bytes": "20 B"}}
    records = simulate(
        scenario(
            {
                "duration": "30 s",
                "workload": {"src": {"rate": "1 /s", "arrivals": "deterministic"}},
                "operators": {
                    "src": {"kind": "source"},
                    "work": {
                        "kind": "aggregate",
                        "inputs": {"src": "key"},
                        "key_groups": 16,
                        "service": {"distribution": "deterministic", "value": "1 ms"},
                        **slow_write,
                    },
                    "out": {"kind": "sink", "inputs": {"work": "shuffle"}},
                },
                "hosts": {"h": {"count": 3}},
                "fault_tolerance": {"method": "checkpoint", "interval": "5 s"},
            }
        )
    )
    samples, visits = records.tables["samples"], records.tables["visits"]
    work = records.operators.index("work")
    own = visits["operator"] == work
    for at, task, queue in zip(samples["at_ns"], samples["task"], samples["queue"], strict=True):
        if records.task_operator[task] == work:
            waiting = (visits["arrival_ns"][own] < at) & (visits["start_ns"][own] >= at)
            left = records.tables["waiting"]["arrival_ns"] < at
            assert queue == waiting.sum() + left.sum()
    assert np.any(samples["queue"] > 0)


def test_a_checkpoint_that_takes_longer_than_the_interval_does_not_starve_the_task() -> None:
    records = chain(
        {"fast": "a", "slow": "a"},
        duration="20 s",
        events={},
        network={"latency": "3 s"},
        fault_tolerance={"method": "checkpoint", "interval": "1 s"},
    )
    rows = records.tables["checkpoints"]
    for operator in np.unique(rows["operator"]):
        own = rows["operator"] == operator
        taken, stored = rows["taken_ns"][own], rows["stored_ns"][own]
        assert taken.size >= 4
        assert np.all(taken[1:] >= stored[:-1])


def test_a_source_and_a_task_that_resume_at_once_have_not_caught_up_before_the_lag_has_arrived() -> None:
    for tolerance in ({"method": "none"}, {"method": "checkpoint", "guarantee": "at-most-once"}):
        records = chain(
            {"src": "a", "fast": "b", "slow": "a"},
            duration="70 s",
            hosts={"front": {}, "a": {}, "b": {}},
            fault_tolerance={**tolerance},
        )
        (whole,) = records.tables["failures"]["caught_up_ns"]
        # 1,000 tuples wait at the source for 10 s
        assert is_worked_off(whole)
        assert in_system(records, "slow", caught_up(records, "slow")) == 0


def test_an_outage_that_a_second_one_interrupts_ends_with_it() -> None:
    crashes = {
        "first": {"at": "9.5 s", "kind": "host-failure", "host": "a-0"},
        "second": {"at": "25 s", "kind": "host-failure", "host": "b-0"},
    }
    records = chain({"fast": "a", "slow": "b"}, duration="118 s", events=crashes)
    first, second = records.tables["failures"]["caught_up_ns"].tolist()
    assert first == second > 35 * NS  # 10 s more of nothing done by the slow operator
    assert in_system(records, "slow", first) == 0
    early = chain({"fast": "a", "slow": "b"}, duration="32 s", events=crashes)
    assert early.tables["failures"]["caught_up_ns"].tolist() == [NEVER, NEVER]


def test_a_partition_that_is_lost_again_has_caught_up_when_its_last_recovery_has() -> None:
    crashes = {
        "first": {"at": "9.5 s", "kind": "host-failure", "host": "a-0"},
        "second": {"at": "19.6 s", "kind": "host-failure", "host": "b-0"},
    }
    tolerance = {"method": "checkpoint", "interval": "1 s", "store": "nodes"}
    records = chain({"fast": "a", "slow": "c"}, duration="70 s", events=crashes, fault_tolerance=tolerance)
    rows = records.tables["recoveries"]
    for operator in np.unique(rows["operator"]):
        ends = rows["caught_up_ns"][rows["operator"] == operator]
        assert np.all(ends == ends[-1])
    assert NEVER not in records.tables["failures"]["caught_up_ns"]


# -- what has moved, or been taken over, before its task has caught up

ONE = {"at": "9.5 s", "kind": "host-failure", "host": "a-0"}
TWO = {"at": "20 s", "kind": "host-failure", "host": "b-0"}
WITH_ROOM: dict[str, Any] = {"front": {}, "a": {}, "room": {}, "b": {}, "c": {}}  # which takes what is on a


def move(at: str, host: str, protocol: str) -> dict[str, Any]:
    return {"at": at, "kind": "migrate", "operator": "slow", "key_group": 0, "host": host, "protocol": protocol}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_recovery_ends_where_its_key_group_has_moved_to(protocol: str) -> None:
    events = {"crash": ONE, "move": move("27 s", "b-0", protocol)}
    records = chain({"fast": "b", "slow": "a"}, "70 s", "aggregate", events=events)
    (moved,) = records.tables["migrations"]["completed_ns"].tolist()
    (whole,) = records.tables["failures"]["caught_up_ns"]
    assert in_system(records, "slow", moved) > 150
    assert moved < caught_up(records, "slow") <= whole
    assert is_worked_off(whole)
    assert in_system(records, "slow", caught_up(records, "slow")) == 0


def test_an_outage_does_not_wait_for_a_dead_task_that_had_no_key_group_left() -> None:
    events = {"move": move("5 s", "c-0", "cpa"), "crash": ONE, "second": TWO}
    records = chain({"fast": "a", "slow": "b"}, "70 s", "aggregate", events=events, hosts=WITH_ROOM)
    assert records.tables["failures"]["lost_partitions"].tolist() == [1, 0]
    first, second = records.tables["failures"]["caught_up_ns"].tolist()
    assert is_worked_off(first)
    assert in_system(records, "slow", first) == 0
    assert second < first  # nothing was lost


def test_an_outage_waits_for_the_replica_that_takes_over_from_a_task_that_dies() -> None:
    replicas = {"slow": {"operator": "slow", "host": "c-0", "renew": False}}
    tolerance = {"method": "checkpoint", "interval": "1 s", "store": "remote", "replicas": replicas}
    changes = {"events": {"crash": ONE, "second": TWO}, "fault_tolerance": tolerance, "hosts": WITH_ROOM}
    records = chain({"fast": "a", "slow": "b"}, "70 s", "aggregate", **changes)
    first, second = records.tables["failures"]["caught_up_ns"].tolist()
    assert is_worked_off(first)
    assert first == second
    assert in_system(records, "slow", first) == 0


@pytest.mark.parametrize("seed", range(15))
def test_operators_downstream_of_an_outage_are_those_found_by_walking(seed: int) -> None:
    plan = RunPlan.of(plain_graphs.random_job(seed), RunInputs(), 0)
    edges = [(one.index, edge.down.index) for one in plan.operators for edge in one.edges]
    assert isinstance(plan.dataflow, nx.DiGraph) and set(plan.dataflow.edges) == set(edges)
    for first in range(len(plan.operators)):
        for starts in ({first}, {first, (first + 3) % len(plan.operators)}):
            assert _downstream(plan.dataflow, starts) == plain_graphs.reached(edges, starts)


def looked_at(groups: int) -> int:
    """How often control looks at a key group or its owner while so many come back to one task, one after the other."""
    found = 0

    def counted(right: Any) -> Any:
        def looking(*values: Any) -> Any:
            nonlocal found
            found += 1
            return right(*values)

        return looking

    raw: dict[str, Any] = {
        "duration": "6 s",
        "workload": {"src": {"rate": "200 /s", "keys": {"distribution": "uniform", "count": 1000}}},
        "operators": {
            "src": {"kind": "source"},
            "op": {
                "kind": "aggregate",
                "inputs": {"src": "key"},
                "key_groups": groups,
                "service": {"distribution": "deterministic", "value": "0.1 ms"},
                "state": {"model": "fixed", "bytes": f"{200_000 // groups} B"},
            },
            "out": {"kind": "sink", "inputs": {"op": "shuffle"}},
        },
        "hosts": {"front": {}, "a": {}},
        "placement": {"operators": {"src": "front", "op": "a", "out": "front"}},
        "fault_tolerance": {
            "method": "region-restart",
            "store": "remote",
            "remote": "100 kB/s",  # 2 s for all of them
            "interval": "2.5 s",
            "barriers": {},
        },
        "events": {"crash": {"at": "2.7 s", "kind": "host-failure", "host": "a-0", "repair": "100 ms"}},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlainPlane, "replayed", counted(PlainPlane.replayed))
        patch.setattr(Cluster, "owner_of", counted(Cluster.owner_of))
        records = simulate(scenario(raw), plane=PlainPlane)
    assert (records.tables["recoveries"]["caught_up_ns"] != NEVER).sum() == groups + 2
    return found


def test_control_looks_at_each_key_group_few_times_while_many_are_restored() -> None:
    assert looked_at(256) < 5 * looked_at(64)
