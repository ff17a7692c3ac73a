"""Failover regions: what is killed with a lost task, and where as many tasks start again; slots that are shared.

Oracles: hosts and instants by hand, both planes, guarantees in random jobs, and the parallelism before the failure.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest
from decided import said
from scripts import unchecked
from small_jobs import random_job
from test_cluster_view import MS, column, dies
from test_planes import differences
from test_recovery import check

from models.records.tables import NEVER, RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.rules import faults
from models.scenario.rules.support import not_simulated
from models.topology import layout
from sim.control.assembly import Control
from sim.control.cluster import RunPlan
from sim.engine import records, simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

DETECTED = 2500 + 500


def job(inner: str = "key", **changes: Any) -> dict[str, Any]:
    """Four tasks of each operator in the two slots of each of three hosts, of which the last is a spare one."""
    service = {"distribution": "exponential", "mean": "2 ms"}
    return {
        "duration": "12 s",
        "workload": {"in": {"rate": "100 /s", "keys": {"distribution": "uniform", "count": 40}}},
        "operators": {
            "in": {"kind": "source", "parallelism": 4},
            "sum": {
                "kind": "aggregate" if inner == "key" else "map",
                "inputs": {"in": inner},
                "parallelism": 4,
                "service": service,
            }
            | ({"key_groups": 8, "state": {"model": "per-key", "bytes": "1 kB"}} if inner == "key" else {}),
            "out": {"kind": "sink", "inputs": {"sum": "forward"}, "parallelism": 4},
        },
        "hosts": {"h": {"count": 3, "slots": 2}},
        "placement": {
            "slot_sharing": True,
            "tasks": {f"{name}-{k}": f"h-{k // 2}" for name in ("in", "sum", "out") for k in range(4)},
        },
        "network": {"latency": "1 ms"},
        "fault_tolerance": {"method": "region-restart", "interval": "300 ms", "store": "remote"},
        "detector": {"heartbeat": "500 ms", "timeout": "500 ms"},
        "events": {"dies": dies(1, 2700)},
    } | changes


def run(raw: dict[str, Any]) -> tuple[RunRecords, Control]:
    """The rows, which both planes make, and the control of one of them at the end."""
    made, found = unchecked(raw), []
    for plane in (PlainPlane, CompiledPlane):
        control = Control(RunPlan.of(made, RunInputs(), 0), plane)
        control.start()
        control.run(12_000 * MS)
        found.append(records(control, 12_000 * MS))
    assert differences(*found) == []
    return found[1], control


def tasks(control: Control) -> Counter[tuple[int, int]]:
    """How many tasks with key groups each host has, by (operator, host)."""
    cluster = control.cluster
    return Counter((cluster.task_operator[task], cluster.task_host[task]) for task in {*cluster.partition_task})


def test_as_many_tasks_start_again_where_there_are_slots() -> None:
    found, control = run(job())
    assert tasks(control) == Counter({(operator, host): 2 for operator in range(3) for host in (0, 2)})
    assert len(found.tables["recoveries"]["host"]) == 4 + 8 + 4
    assert {at for (at,) in column(found, "recoveries", "detected_ns")} == {DETECTED}
    # Key groups that were together are together again.
    at = np.array(control.cluster.partition_task)[4:12]
    assert [at[k] == at[k + 4] for k in range(4)] == [True] * 4
    assert found.tables["ledger"]["lost"].tolist() == found.tables["ledger"]["duplicated"].tolist() == [0, 0]


def test_nothing_starts_before_all_tasks_of_the_region_have_a_slot() -> None:
    raw = job(events={"dies": dies(1, 2700, repair=4000), "too": dies(2, 2600)})
    found, control = run(raw)
    restored = {at for (at,) in column(found, "recoveries", "started_ns")}
    assert restored == {6700}
    whys = {why for _, what, why in said(found) if "stays down" in what}
    assert whys == {"not all tasks of its region have a slot"}
    assert tasks(control) == Counter({(operator, host): 2 for operator in range(3) for host in (0, 1)})
    assert found.tables["ledger"]["lost"].tolist() == [0, 0]


def test_a_job_without_enough_slots_stays_down() -> None:
    found, _ = run(job(events={"dies": dies(1, 2700), "too": dies(2, 2600)}))
    assert found.tables["recoveries"]["host"].size == 0
    assert found.tables["outages"]["until_ns"].tolist() == [NEVER] * 16


def test_checkpoints_that_are_under_way_end_with_the_restart_and_leave_the_store_free() -> None:
    # A round at 1.8 s needs 8 s of the store's link. When the failure is detected one of eight groups is stored.
    raw = job(events={"dies": dies(1, 2700)})
    raw["operators"]["sum"]["state"] = {"model": "fixed", "bytes": "1 MB"}
    raw["fault_tolerance"] |= {"interval": "1800 ms", "remote": "1 MB/s", "guarantee": "at-most-once"}
    found, _ = run(raw)
    taken = column(found, "checkpoints", "operator", "taken_ns", "stored_ns")
    first = [stored for operator, at, stored in taken if operator == 1 and at == 1800]
    assert sum(stored > 0 for stored in first) == 1
    # That one is read in a second: nothing is in front of it.
    assert max(at for (at,) in column(found, "recoveries", "restored_ns")) == pytest.approx(DETECTED + 1000, abs=5)


def test_only_the_pipeline_of_a_lost_task_restarts() -> None:
    found, control = run(job("forward"))
    lost = sorted(column(found, "recoveries", "operator", "key_group"))
    assert lost == [(operator, k) for operator in range(3) for k in (2, 3)]
    assert tasks(control) == Counter({(operator, host): 2 for operator in range(3) for host in (0, 2)})
    visits = found.tables["visits"]
    during = (visits["start_ns"] > 2750 * MS) & (visits["start_ns"] < 2950 * MS)
    assert {*visits["task"][during & (visits["operator"] == 1)].tolist()} == {4, 5}  # sum-0 and sum-1 went on


# -- several failures, whose instants are those of `spare`: h-1 dies at 2.7 s, and is noticed 10 ms later

NOTICED = {"heartbeat": "200 ms", "timeout": "1 s", "failed_calls": 2, "connection": "10 ms"}
STEADY = {"strategy": {"kind": "fixed-delay", "delay": "300 ms", "attempts": 100}, "attempt": "5 ms"}


def spare(*events: dict[str, Any], inner: str = "key", **changes: Any) -> dict[str, Any]:
    """The job, whose failures are noticed early, and which is restarted each 300 ms."""
    named = {f"e{number}": event for number, event in enumerate(events)}
    return job(inner, events=named, detector=NOTICED, recovery=STEADY) | changes


def starts(found: RunRecords) -> list[tuple[float, int]]:
    """When how many partitions were started together [ms]."""
    return sorted(Counter(at for (at,) in column(found, "recoveries", "started_ns")).items())


@pytest.mark.parametrize("at_ms", [3050, 3300, 3500])
def test_a_host_that_was_chosen_and_dies_before_the_start_makes_the_restart_one_in_vain(at_ms: int) -> None:
    # Slots on h-2 are allocated at 3.01 s; its tasks are up a second later.
    slow = STEADY | {"restart": {"distribution": "deterministic", "value": "1 s"}}
    raw = spare(dies(1, 2700), dies(2, at_ms, repair=2000), recovery=slow)
    found, control = run(raw)
    ((_, count),) = starts(found)
    assert count == 16
    assert tasks(control) == Counter({(operator, host): 2 for operator in range(3) for host in (0, 2)})
    assert "it got a slot of h-2, which is dead" in {why for _, what, why in said(found) if "restarted" in what}


@pytest.mark.parametrize("at_ms", [2690, 2700, 2705, 2720, 2790, 2810, 3010])
def test_two_hosts_that_die_one_after_the_other_are_one_restart(at_ms: int) -> None:
    raw = spare(dies(1, 2700), dies(0, at_ms))
    raw["hosts"]["h"]["count"] = 4
    found, _ = run(raw)
    ((_, count),) = starts(found)
    assert count == 16
    assert found.tables["ledger"]["lost"].tolist() == [0, 0]


def test_two_hosts_that_die_at_once_count_as_one_failure() -> None:
    few = {
        "recovery": STEADY | {"strategy": {"kind": "fixed-delay", "delay": "300 ms", "attempts": 3}},
        "detector": NOTICED | {"failed_calls": 3},
    }
    raw = spare(dies(1, 2700), dies(0, 2700), **few)
    raw["hosts"]["h"]["count"] = 4
    alone = in_vain(run(spare(dies(1, 2700), **few))[0])
    assert in_vain(run(raw)[0]) == alone == [3010]


def test_regions_that_fail_together_count_each_unless_the_delay_grows() -> None:
    # h-1 has two pipelines. Flink merges failures into one attempt for the exponential delay alone (FLIP-364).
    growing = {"kind": "exponential-delay", "initial": "300 ms", "jitter": 0.0}
    for strategy, restarted in (
        (STEADY["strategy"] | {"attempts": 3}, 0),
        (STEADY["strategy"] | {"attempts": 4}, 6),
        (growing | {"attempts": 1}, 0),
        (growing | {"attempts": 2}, 6),
    ):
        # The first restart is in vain for both: the host counts until its second refused heartbeat, at 3.0 s.
        times = STEADY | {"strategy": strategy}
        early = NOTICED | {"connection": "10 ms", "failed_calls": 3}
        found, _ = run(spare(dies(1, 2700), inner="forward", recovery=times, detector=early))
        assert len(found.tables["recoveries"]["host"]) == restarted, strategy


def test_where_the_strategy_gives_up_nothing_of_the_job_runs() -> None:
    once = STEADY | {"strategy": STEADY["strategy"] | {"attempts": 1}}
    found, control = run(spare(dies(1, 2700), dies(2, 9000), inner="forward", recovery=once))
    assert found.tables["recoveries"]["host"].size == 0
    assert not any(control.cluster.task_alive)
    assert int(found.tables["visits"]["arrival_ns"].max()) < 3100 * MS


def test_regions_keep_the_slots_that_they_have_found() -> None:
    # Pipelines of h-1 have slots on h-2 when h-0 dies: its own wait until it is back.
    slow = STEADY | {"restart": {"distribution": "deterministic", "value": "1 s"}}
    found, control = run(spare(dies(1, 2700), dies(0, 3100, repair=3000), inner="forward", recovery=slow))
    lost_with = dict(column(found, "recoveries", "key_group", "started_ns"))
    assert lost_with[2] == lost_with[3] < lost_with[0] == lost_with[1]
    assert tasks(control) == Counter({(operator, host): 2 for operator in range(3) for host in (0, 2)})


def test_each_region_waits_for_its_own_slots_only() -> None:
    raw = spare(dies(0, 2700), dies(1, 2700, repair=2000), inner="forward")
    raw["hosts"]["h"]["count"] = 2
    found, control = run(raw)
    assert starts(found) == [(4700, 6)]  # two of four pipelines
    assert sum(control.cluster.task_alive) == 6


def test_nobody_notices_the_death_of_a_host_without_tasks_before_its_heartbeats_are_refused() -> None:
    found, _ = run(spare(dies(2, 2700)))
    assert column(found, "failures", "detected_ns") == [(3000,)]  # heartbeats of 2.8 and 3.0 s


def test_a_silent_host_keeps_its_region_down_until_it_counts_as_dead() -> None:
    raw = spare(dies(1, 2700), dies(0, 2650) | {"silent": True})
    raw["hosts"]["h"]["count"] = 4
    found, _ = run(raw)
    ((at, count),) = starts(found)
    assert count == 16
    assert at >= 2600 + 1000


def in_vain(found: RunRecords) -> list[float]:
    return [at / MS for at, what, _ in said(found) if what == "the job is not restarted"]


# -- random jobs


def with_regions(draw: Random, **more: Any) -> dict[str, Any]:
    """A random job that restarts regions, mostly with slots enough, some time after the failure."""
    raw = random_job(draw, **more)
    raw["fault_tolerance"] |= {"method": "region-restart", "store": "remote"}
    raw.pop("elasticity", None)
    raw["events"] = {name: one for name, one in raw.get("events", {}).items() if one["kind"] == "host-failure"}
    if draw.random() < 0.5:
        strategy = {"kind": "fixed-delay", "delay": "70 ms", "attempts": 1000}
        raw["detector"] = {"heartbeat": "200 ms", "timeout": "1 s", "failed_calls": 2, "connection": "10 ms"}
        raw["recovery"] = {"strategy": strategy, "attempt": "5 ms"}
    return raw


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once", "at-most-once"])
def test_guarantees_hold_whatever_crashes(guarantee: str) -> None:
    assert sum(check(Random(f"regions {seed}"), guarantee, with_regions) for seed in range(8)) >= 4


def test_both_planes_give_equal_rows() -> None:
    for seed in range(25):
        made = unchecked(with_regions(Random(f"regions {seed}")))
        assert differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) == [], seed


# -- slots that are shared


def test_task_k_of_each_operator_is_in_slot_k() -> None:
    raw = job()
    raw["placement"] = {"slot_sharing": True}
    raw["operators"]["out"] |= {"parallelism": 3, "inputs": {"sum": "shuffle"}}
    placed = layout.placement(unchecked(raw))
    assert [placed[f"sum-{k}"] for k in range(4)] == ["h-0", "h-1", "h-2", "h-0"]
    assert [placed[f"out-{k}"] for k in range(3)] == ["h-0", "h-1", "h-2"]
    assert placed["in-3"] == placed["sum-3"]
    assert faults(unchecked(raw)) == []


def test_more_tasks_of_an_operator_than_slots_are_refused() -> None:
    raw = job()
    raw["placement"] = {"slot_sharing": True}
    raw["hosts"]["h"]["slots"] = 1
    assert [str(fault) for fault in faults(unchecked(raw))] == ["hosts.h.slots = 1: 2 tasks of in are placed on h-0"]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"events": {"r": {"kind": "rebalance", "at": "1 s", "hosts": ["h"]}}}, "events.r.kind"),
        ({"elasticity": {"policy": "threshold"}}, "elasticity.policy"),
    ],
)
def test_what_meets_it_and_is_not_simulated_is_refused(changes: dict[str, Any], path: str) -> None:
    assert path in {fault.path for fault in not_simulated(unchecked(job() | changes))}
