"""Events whose time is drawn: each kind happens when its law says, at another time in each replication.

Oracle: the run in which `at` is the drawn instant, whose rows are equal by bits, on both planes.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import test_group_membership
import test_storm_workers
from test_planes import differences

from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from
from models.scenario.rules import faults, not_simulated
from models.scenario.scenario import Scenario
from sim.control.cluster import RunPlan
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

SERVICE = {"distribution": "deterministic", "value": "1 ms"}


def job(kind: str, *, method: str = "checkpoint", **event: Any) -> dict[str, Any]:
    """A count with checkpoints on two of four hosts, and an event."""
    tolerance = {"method": method} if method == "none" else {"method": method, "interval": "1 s", "store": "remote"}
    return {
        "duration": "12 s",
        "workload": {"in": {"rate": "100 /s", "keys": {"distribution": "uniform", "count": 40}}},
        "operators": {
            "in": {"kind": "source"},
            "count": {
                "kind": "aggregate",
                "inputs": {"in": "key"},
                "parallelism": 2,
                "key_groups": 8,
                "service": SERVICE,
                "state": {"model": "per-key", "bytes": "1 kB"},
            },
            "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
        },
        "hosts": {"ends": {"count": 1}, "w": {"count": 4}},
        "placement": {"operators": {"in": "ends", "count": "w", "out": "ends"}},
        "detector": {"heartbeat": "200 ms", "timeout": "500 ms"},
        "fault_tolerance": tolerance,
        "events": {"it": {"kind": kind, "at": "5 s", **event}},
    }


def flink(kind: str, **event: Any) -> dict[str, Any]:
    """The same as a job of Flink."""
    raw = job(kind, **event) | {"engine": "flink", "fault_tolerance": {"interval": "2 s"}}
    raw["hosts"] = {"w": {"count": 4, "slots": 1}}
    del raw["placement"], raw["detector"]
    return raw


def spark() -> dict[str, Any]:
    raw = job("driver-failure") | {"engine": "spark", "fault_tolerance": {"interval": "1 s"}}
    raw["hosts"] = {"w": {"count": 4}}
    del raw["placement"], raw["detector"]
    return raw


def rebalanced() -> dict[str, Any]:
    raw = job("rebalance", hosts=["new"], protocol="ccr", command="500 ms")
    raw["hosts"]["new"] = {"count": 2}
    raw["workload"]["in"]["rate"] = "50 /s"
    return raw


def named_it(raw: dict[str, Any]) -> dict[str, Any]:
    """The job of another test, whose only event has our name."""
    (event,) = raw["events"].values()
    return raw | {"events": {"it": event}}


MOVES = {"operator": "count", "strategy": "fluid"}
KINDS: dict[str, dict[str, Any]] = {
    "host failure": job("host-failure", host="w-1", repair="2 s"),
    "driver failure": spark(),
    "worker failure": named_it(
        test_storm_workers.topology(events={"it": test_storm_workers.kill(kind="worker-failure")})
    ),
    "host restart": named_it(test_group_membership.restarted({"down": "20 s"})),
    "host join": named_it(test_group_membership.events({})),
    "migrate": job("migrate", operator="count", key_group=1, host="w-3"),
    "rescale": job("rescale", operator="count", parallelism=4),
    "rescale of a job": flink("rescale", operator="count", parallelism=4),
    "rebalance": rebalanced(),
    "reconfigure": job("reconfigure", method="none", **MOVES),
    "reconfigure, each key group by itself": job("reconfigure", operator="count", protocol="direct"),
}
"""Kind of event -> a job in which it happens."""


def run_plan(made: Scenario, replication: int) -> RunPlan:
    return RunPlan.of(made, RunInputs(), replication)


def drawn(raw: dict[str, Any], spread_s: float = 1.5) -> dict[str, Any]:
    """The job with a law for the time of its event: from that time on, and some time longer."""
    changed = deepcopy(raw)
    at = scenario_from(raw).events["it"].fixed_s
    changed["events"]["it"]["at"] = {"distribution": "uniform", "low": f"{at} s", "high": f"{at + spread_s} s"}
    return changed


def fixed(raw: dict[str, Any], at_ns: int) -> dict[str, Any]:
    changed = deepcopy(raw)
    changed["events"]["it"]["at"] = f"{at_ns} ns"
    return changed


@pytest.mark.parametrize("kind", KINDS)
def test_an_event_happens_at_the_instant_that_is_drawn(kind: str) -> None:
    raw = KINDS[kind]
    made = scenario_from(drawn(raw))
    assert faults(made) == not_simulated(made) == []
    for replication in (0, 1):
        at_ns = run_plan(made, replication).instant_ns("it")
        expected = simulate(scenario_from(fixed(raw, at_ns)), None, replication, plane=CompiledPlane)
        for plane in (PlainPlane, CompiledPlane):
            assert differences(simulate(made, None, replication, plane=plane), expected) == []
        before = simulate(scenario_from(raw), None, replication, plane=CompiledPlane)
        assert differences(before, expected) != []  # the time of the event is in the rows


def test_no_kind_of_event_is_left_out() -> None:
    kinds = {raw["events"]["it"]["kind"] for raw in KINDS.values()}
    assert kinds == {
        "host-failure",
        "driver-failure",
        "worker-failure",
        "host-restart",
        "host-join",
        "migrate",
        "rescale",
        "rebalance",
        "reconfigure",
    }


def test_the_instant_follows_from_name_seed_and_replication_alone() -> None:
    raw = drawn(KINDS["rescale"])
    instants = [run_plan(scenario_from(raw), replication).instant_ns("it") for replication in range(40)]
    assert len({*instants}) == 40
    assert min(instants) >= 5 * 10**9
    assert max(instants) < 6.5 * 10**9
    assert np.mean(instants) == pytest.approx(5.75e9, abs=3 * 1.5e9 / (12 * 40) ** 0.5)
    # Another event, rate or law of services changes nothing; another seed or name does.
    beside = deepcopy(raw)
    beside["events"] = {"first": {"kind": "migrate", "at": "1 s", "operator": "count", "key_group": 1, "host": "w-3"}}
    beside["events"] |= raw["events"] | {"other": raw["events"]["it"]}
    beside["workload"]["in"]["rate"] = "50 /s"
    assert run_plan(scenario_from(beside), 3).instant_ns("it") == instants[3]
    assert run_plan(scenario_from(beside), 3).instant_ns("other") != instants[3]
    assert run_plan(scenario_from(raw | {"seed": 2}), 3).instant_ns("it") != instants[3]


def test_a_delay_is_drawn_as_the_same_law_of_at() -> None:
    raw = KINDS["host failure"]
    delayed = deepcopy(raw)
    delayed["events"]["it"]["delay"] = {"distribution": "uniform", "low": "0 s", "high": "1.5 s"}
    for replication in range(10):
        plans = [run_plan(scenario_from(one), replication) for one in (drawn(raw), delayed)]
        assert plans[0].instant_ns("it") == plans[1].instant_ns("it")


def test_a_job_that_was_rescaled_since_its_last_checkpoint_is_started_twice() -> None:
    """A rescaling before the checkpoints at 5 s does not count for a failure at 5.9 s, one behind them does."""
    raw = job("rescale", method="synchronous-checkpoints", operator="count", parallelism=3)
    raw["events"]["it"]["at"] = {"distribution": "uniform", "low": "4.5 s", "high": "5.5 s"}
    raw["events"]["dies"] = {"kind": "host-failure", "at": "5.9 s", "host": "w-1"}
    raw["recovery"] = {"restart": {"distribution": "deterministic", "value": "500 ms"}}
    made, seen = scenario_from(raw), set[tuple[bool, int]]()
    for replication in range(8):
        found = simulate(made, None, replication, plane=PlainPlane).tables["recoveries"]
        behind = run_plan(made, replication).instant_ns("it") >= 5 * 10**9
        seen.add((behind, int((found["started_ns"] - found["detected_ns"]).min())))
    assert {behind for behind, _ in seen} == {False, True}
    assert {took for behind, took in seen if not behind} == {500_000_000}
    assert {took for behind, took in seen if behind} == {1_000_000_000}
