"""Events that rebalance a dataflow: hosts, starts of workers, gate, command, and requests that do nothing or wait.

Oracles: instants and hosts worked out by hand; both planes make the same rows.
"""

from __future__ import annotations

from typing import Any

import pytest
from decided import said
from seeds import parts
from small_jobs import scenario
from test_planes import differences

from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.units import to_ns
from sim.control.assembly import Control
from sim.control.cluster import RunPlan
from sim.engine import records, simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.migration.rebalance import RebalanceRun
from sim.plain.plane import PlainPlane
from sim.scaling.rebalancing import Rebalancing

MS = 1_000_000
OLD, NEW = {"old-0", "old-1"}, {"new-0", "new-1", "new-2"}


def job(events: dict[str, Any], **tables: Any) -> dict[str, Any]:
    """A chain of two maps, the second with two tasks, on two hosts with two slots; source and sink are elsewhere."""
    service = {"distribution": "deterministic", "value": "10 ms"}
    return {
        "duration": "20 s",
        "workload": {"in": {"rate": "20 /s"}},
        "operators": {
            "in": {"kind": "source"},
            "one": {"kind": "map", "inputs": {"in": "shuffle"}, "service": service},
            "two": {"kind": "map", "inputs": {"one": "shuffle"}, "service": service, "parallelism": 2},
            "out": {"kind": "sink", "inputs": {"two": "shuffle"}},
        },
        "hosts": {"ends": {}, "old": {"count": 2, "slots": 2}, "new": {"count": 3, "slots": 1}},
        "placement": {"hosts": ["old"], "operators": {"in": "ends", "out": "ends"}, "fixed": ["out"]},
        "network": {"latency": "1 ms"},
        "events": events,
    } | tables


def rebalance(at: int, group: str = "new", protocol: str = "dcr", **keys: Any) -> dict[str, Any]:
    return {"kind": "rebalance", "at": f"{at} ms", "hosts": [group], "protocol": protocol} | keys


def run(raw: dict[str, Any]) -> tuple[RunRecords, Control]:
    """The rows, which both planes make, and the end of the run on the plain one."""
    made = scenario(raw)
    control = Control(RunPlan.of(made, RunInputs(), 0), PlainPlane)
    control.start()
    end = to_ns(made.duration_s)
    control.run(end)
    found = records(control, end)
    assert differences(found, simulate(made, plane=CompiledPlane)) == []
    return found, control


def where(control: Control) -> dict[str, str]:
    """Host of each operator's partitions."""
    cluster, names = control.cluster, control.plan.host_names
    return {cluster.partition_name(one): names[cluster.host_of(one)] for one in range(len(cluster.partition_task))}


def lost_or_twice(found: RunRecords) -> list[tuple[int, int]]:
    ledger = found.tables["ledger"]
    return list(zip(ledger["lost"].tolist(), ledger["duplicated"].tolist(), strict=True))


@pytest.mark.parametrize("protocol", ["dcr", "ccr"])
def test_tasks_go_round_robin_to_the_slots_of_the_group_and_nothing_is_lost(protocol: str) -> None:
    found, control = run(job({"move": rebalance(5000, protocol=protocol)}))
    assert where(control) == {
        "in[0]": "ends-0", "one[0]": "new-0", "two[0]": "new-1", "two[1]": "new-2", "out[0]": "ends-0",
    }  # fmt: skip
    assert lost_or_twice(found) == [(0, 0)] * 3
    assert [(at / MS, what, why) for at, what, why in said(found)] == [
        (5000, f"the dataflow is rebalanced by {protocol}", "3 tasks are to be killed")
    ]


def test_tasks_are_killed_when_the_command_ends_and_start_after_their_time() -> None:
    start = {"distribution": "deterministic", "value": "2 s"}
    raw = job({"move": rebalance(5000, "new", "ccr", command="3 s")}, workers={"start": start, "start_per_rank": "1 s"})
    _, control = run(raw)
    (made,) = control.rebalances.runs
    assert isinstance(made, RebalanceRun)
    plan = made.plan
    assert plan.command_ns == to_ns(3)
    assert sorted(plan.start_ns.values()) == [to_ns(2), to_ns(3), to_ns(4)]
    assert plan.gate_ns is None


def test_hosts_are_in_use_from_the_request_on_and_until_tasks_are_killed() -> None:
    # The second rebalance leaves the new hosts when it kills, and a request that waits takes its hosts all the same.
    # No task ever comes to the fourth new host.
    events = {"go": rebalance(5000, protocol="ccr", command="2 s"), "back": rebalance(6000, "old", protocol="ccr")}
    raw = job(events, workers={"start": {"distribution": "deterministic", "value": "1 s"}})
    raw["hosts"]["new"]["count"] = 4
    found, control = run(raw)
    killed, killed_again = found.tables["rebalances"]["killed_ns"].tolist()
    assert to_ns(7) < killed < to_ns(7.1) and killed + to_ns(1) < killed_again
    names, end = control.plan.host_names, to_ns(20)
    table = found.tables["hosts_in_use"]
    times = list(zip(table["host"].tolist(), table["from_ns"].tolist(), table["until_ns"].tolist(), strict=True))
    assert [(names[host], since, until) for host, since, until in times] == [
        ("ends-0", 0, end),
        ("old-0", 0, killed), ("old-0", killed, end), ("old-1", 0, killed), ("old-1", killed, end),
        ("new-0", to_ns(5), killed_again), ("new-1", to_ns(5), killed_again), ("new-2", to_ns(5), killed_again),
    ]  # fmt: skip


def test_checkpoints_after_a_rebalance_go_where_control_plans_them() -> None:
    # A group whose new host held its checkpoint gets another checkpoint host. That fails, and so does the new host:
    # both planes have to ask control again at the same instants.
    def fails(at: str, host: str, repair: str) -> dict[str, Any]:
        return {"kind": "host-failure", "at": at, "host": host, "repair": repair}

    def served(time: str, **keys: Any) -> dict[str, Any]:
        return {"kind": "map", "service": {"distribution": "deterministic", "value": time}} | keys

    raw = {
        "seed": 905884,
        "duration": "40 s",
        "workload": {"in": {"rate": "5 /s", "keys": {"distribution": "uniform", "count": 1}}},
        "operators": {
            "in": {"kind": "source"},
            "one": served("2 ms", inputs={"in": "broadcast"}, parallelism=2),
            "two": served("0.5 ms", inputs={"one": "broadcast"}, timer={"every": "1.5 s"}),
            "sum": served("8 ms", kind="aggregate", inputs={"in": "key"}, parallelism=2, key_groups=8),
            "out": {"kind": "sink", "inputs": {"two": "shuffle", "sum": "shuffle"}},
        },
        "hosts": {"ends": {}, "old": {"count": 2}, "new": {"cores": 2, "cpu": "shared"}},
        "placement": {"operators": {"in": "ends", "out": "ends"}, "hosts": ["old"], "fixed": ["out"]},
        "workers": {"start": {"distribution": "uniform", "low": "0.5 s", "high": "3 s"}, "gate": "0.1 s"},
        "state_store": {"latency": "500 ms", "concurrency": 8},
        "fault_tolerance": {"method": "checkpoint", "guarantee": "at-least-once"},
        "detector": {"loss": 0.05, "heartbeat": "1 s", "timeout": "3 s"},
        "recovery": {"allocate": {"distribution": "exponential", "mean": "2 s"}},
        "elasticity": {
            "policy": "threshold", "period": "2 s", "rest": "3 s", "high": 0.2, "low": 0.1, "scale_in": True,
        },
        "events": {
            "go": rebalance(3000),
            "ends": fails("12.94 s", "ends-0", "1 s"),
            "new": fails("18.148 s", "new-0", "10 s"),
        },
    }  # fmt: skip
    found, _ = run(raw)
    assert found.tables["rebalances"]["outcome"].tolist() == ["done"]


def test_a_host_that_may_fail_is_in_use_as_long_as_the_run() -> None:
    failures = {"crash": {"kind": "host-failure", "at": "15 s", "host": "new-2"}}
    found, control = run(job({"go": rebalance(5000), **failures}))
    assert set(found.tables["hosts_in_use"]["from_ns"].tolist()) == {0}
    assert found.tables["hosts_in_use"]["host"].size == len(control.plan.host_names)


def test_a_command_may_take_longer_than_the_answers_to_a_wave() -> None:
    events = {"move": rebalance(5000, command="4 s")}
    _, control = run(job(events, waves={"timeout": "2 s"}))
    (made,) = control.rebalances.runs
    assert made.completed_ns is not None
    assert set(where(control).values()) == NEW | {"ends-0"}


def test_the_order_of_workers_is_drawn_anew_for_each_seed_and_is_a_permutation() -> None:
    orders = set()
    for seed in range(30):
        raw = job({"move": rebalance(5000)}, seed=seed, workers={"start_per_rank": "1 s"})
        control = Control(RunPlan.of(scenario(raw), RunInputs(), 0), PlainPlane)
        starts = Rebalancing(control.state, control.rebalances)._starts_ns("move", 3)
        assert sorted(starts) == [0, to_ns(1), to_ns(2)]
        orders.add(tuple(starts))
    assert len(orders) == 6


@pytest.mark.parametrize("seeds", parts(4, 12))
def test_a_gate_keeps_a_worker_from_sending_to_one_that_is_not_up(seeds: range) -> None:
    # With CCR a task that is restored sends on what it had captured; the first in the chain captures nothing.
    # Tasks downstream may not be up.
    def lost(seed: int, **workers: str) -> int:
        workload = {"in": {"rate": "95 /s", "arrivals": "poisson"}}
        raw = job({"move": rebalance(5000, protocol="ccr")}, seed=seed, workload=workload, workers=workers)
        raw["operators"]["three"] = raw["operators"]["two"] | {"inputs": {"two": "shuffle"}}
        raw["operators"]["out"] = {"kind": "sink", "inputs": {"three": "shuffle"}}
        raw["hosts"] = {"ends": {}, "old": {"slots": 5}, "new": {"slots": 5}}
        return sum(gone for gone, _ in lost_or_twice(run(raw)[0]))

    losing = [seed for seed in seeds if lost(seed, start_per_rank="2 s")]
    assert losing
    assert [lost(seed, start_per_rank="2 s", gate="1 s") for seed in losing] == [0] * len(losing)


def test_a_rebalance_to_where_everything_is_does_nothing_and_says_so() -> None:
    found, control = run(job({"move": rebalance(5000), "again": rebalance(9000)}))
    assert len(control.rebalances.runs) == 1
    assert said(found)[-1] == (9000 * MS, "the rebalance by dcr is called off", "every task is there already")


def test_a_rebalance_waits_for_one_that_is_not_over() -> None:
    found, control = run(job({"goes": rebalance(5000, command="4 s"), "returns": rebalance(6000, "old")}))
    assert set(where(control).values()) == OLD | {"ends-0"}
    texts = [(at / MS, what) for at, what, _ in said(found)]
    assert texts[1] == (6000, "the rebalance by dcr waits")
    assert texts[2][1] == "the dataflow is rebalanced by dcr"
    assert texts[2][0] > 9000
    assert lost_or_twice(found) == [(0, 0)] * 3


def test_a_worker_starts_elsewhere_where_others_have_taken_its_slot() -> None:
    # Nothing else can take a slot between the request and the start, but a host that dies takes its own with it.
    events = {
        "move": rebalance(5000, command="1 s"),
        "dies": {"kind": "host-failure", "at": "5500 ms", "host": "new-2"},
    }
    detector = {"heartbeat": "100 ms", "timeout": "200 ms"}
    raw = job(events, detector=detector, workers={"start": {"distribution": "deterministic", "value": "2 s"}})
    found, control = run(raw)
    places = where(control)
    assert NEW - {"new-2"} <= set(places.values())
    assert places["two[1]"] in OLD
    assert lost_or_twice(found) == [(0, 0)] * 3
