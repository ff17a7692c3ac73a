"""How hosts share their bandwidth where the scenario does not say, and whether checkpoints keep up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from models.scenario.reading import scenario_from
from models.scenario.rules import warnings
from models.scenario.scenario import Scenario
from models.steady_state.checkpoint_traffic import Bottleneck, bottlenecks, link_sharing
from models.steady_state.load import expected_load


def made(**changes: Any) -> Scenario:
    """A keyed sum on workers with a bandwidth, between a source and a sink on a host without."""
    return scenario_from(raw(**changes))


def raw(**changes: Any) -> dict[str, Any]:
    return {
        "format": 1,
        "duration": "1 min",
        "workload": {"in": {"rate": "100 /s", "tuple": "100 B", "keys": {"distribution": "uniform", "count": 50}}},
        "operators": {
            "in": {"kind": "source"},
            "sum": {
                "kind": "aggregate",
                "inputs": {"in": "key"},
                "parallelism": 2,
                "key_groups": 4,
                "service": {"distribution": "deterministic", "value": "1 ms"},
                "state": {"model": "fixed", "bytes": "1 MB"},
            },
            "out": {"kind": "sink", "inputs": {"sum": "shuffle"}},
        },
        "hosts": {"front": {}, "worker": {"count": 2, "network": "1 MB/s"}},
        "placement": {"operators": {"in": "front", "sum": "worker", "out": "front"}},
        "fault_tolerance": {"method": "checkpoint", "interval": "10 s"},
    } | changes


FRONT_ONLY = {"front": {"network": "1 MB/s"}, "worker": {"count": 2}}
TOGETHER = {"operators": {"in": "front", "sum": "worker", "out": "worker"}, "tasks": {"sum-1": "worker-0"}}
CRASH = {"crash": {"kind": "host-failure", "at": "20 s", "host": "worker-0"}}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("fair", {}),
        ("fair", {"fault_tolerance": {"method": "checkpoint", "store": "remote"}}),
        ("fair", {"duration": "1 s"}),  # before the first checkpoint: a longer run begins with the same rows
        ("fifo", {"fault_tolerance": {"method": "none"}}),
        ("fifo", {"hosts": {"front": {}, "worker": {"count": 2}}}),
        ("fifo", {"hosts": FRONT_ONLY}),  # a source has no checkpoint
        ("fifo", {"placement": TOGETHER}),  # all records of the sum stay on worker-0
        ("fair", {"placement": TOGETHER, "events": CRASH}),  # until its key groups are elsewhere
        ("fair", {"hosts": FRONT_ONLY, "events": CRASH}),
    ],
)
def test_links_are_fair_where_a_host_with_a_bandwidth_sends_records_and_checkpoints(
    kind: str, changes: dict[str, Any]
) -> None:
    assert link_sharing(made(**changes)).sharing == kind


@pytest.mark.parametrize("kind", ["fifo", "fair"])
def test_what_the_scenario_says_holds(kind: str) -> None:
    for changes in ({}, {"fault_tolerance": {"method": "none"}}):
        found = link_sharing(made(network={"sharing": kind}, **changes))
        assert (found.sharing, found.why) == (kind, "network.sharing says so")


def test_the_reason_names_the_host() -> None:
    assert link_sharing(made()).why == "worker-0 has a bandwidth and sends both records and checkpoints"


def test_a_forward_edge_inside_hosts_sends_nothing() -> None:
    operators = raw()["operators"]
    operators["sum"] = {"kind": "map", "inputs": {"in": "forward"}, "parallelism": 2} | {
        key: operators["sum"][key] for key in ("service", "state")
    }
    operators["out"] = {"kind": "sink", "inputs": {"sum": "forward"}, "parallelism": 2}
    operators["in"]["parallelism"] = 2
    everywhere = {"operators": dict.fromkeys(operators, "worker")}
    assert link_sharing(made(operators=operators, placement=everywhere)).sharing == "fifo"
    operators["out"]["inputs"] = {"sum": "shuffle"}
    assert link_sharing(made(operators=operators, placement=everywhere)).sharing == "fair"


def behind(**changes: Any) -> list[Bottleneck]:
    scenario = made(**changes)
    return bottlenecks(scenario, expected_load(scenario))


def tolerance(**changes: Any) -> dict[str, Any]:
    return {"method": "checkpoint", "interval": "1 s"} | changes


def summing(**changes: Any) -> dict[str, Any]:
    operators = raw()["operators"]
    operators["sum"] |= changes
    return operators


def test_checkpoints_that_fit_between_two_are_no_bottleneck() -> None:
    # Each worker sends 2 MB of state and 5 kB a second of outputs, and these once more in the checkpoint.
    assert behind() == []
    assert behind(fault_tolerance=tolerance(interval="2.03 s")) == []
    assert len(behind(fault_tolerance=tolerance(interval="2.01 s"))) == 2


def test_a_host_has_what_its_records_leave_of_its_bandwidth() -> None:
    one, other = behind(fault_tolerance=tolerance())
    assert {one.where, other.where} == {"worker-0", "worker-1"}
    assert one.does == "sends"
    both = np.array([[each.bytes_, each.bytes_per_s, each.taken_share, each.needs_s] for each in (one, other)])
    assert both.sum(axis=0) / 2 == pytest.approx([2e6 + 5e3, 1e6, 0.005, 2.005 / 0.995], rel=1e-3)
    # The key groups have not the same load: of the host with more records the interval is longer.
    assert (one.shortest_s + other.shortest_s) / 2 == pytest.approx(2 / 0.99, rel=1e-3)  # type: ignore[operator]


def test_without_a_guarantee_no_outputs_are_kept() -> None:
    found = behind(fault_tolerance=tolerance(guarantee="at-most-once"))
    assert [one.bytes_ for one in found] == [2e6, 2e6]


@pytest.mark.parametrize(
    "method", [{"method": "region-restart", "barriers": {}}, {"method": "micro-batch"}], ids=["barriers", "batches"]
)
def test_snapshots_of_the_whole_job_hold_no_outputs(method: dict[str, Any]) -> None:
    hosts = {"front": {}, "worker": {"count": 2}}
    (one,) = behind(fault_tolerance=tolerance(store="remote", remote="1 MB/s", **method), hosts=hosts)
    assert one.bytes_ == 4e6


def test_a_checkpoint_of_the_job_that_takes_longer_than_its_timeout_is_warned_of() -> None:
    def said(timeout: str) -> list[str]:
        barriers = {"method": "region-restart", "barriers": {"timeout": timeout}}
        scenario = made(fault_tolerance=tolerance(store="remote", remote="1 MB/s", **barriers) | {"interval": "10 s"})
        return [str(one) for one in warnings(scenario) if one.path.endswith("timeout")]

    assert said("4.01 s") == []
    (one,) = said("3.9 s")
    assert "no checkpoint is complete within 3.9 s: the remote store stores 4 MB, in 4 s" in one


def test_the_remote_store_has_the_checkpoints_of_all_hosts() -> None:
    hosts = {"front": {}, "worker": {"count": 2}}
    (one,) = behind(fault_tolerance=tolerance(store="remote", remote="1 MB/s"), hosts=hosts)
    assert (one.where, one.does, one.bytes_) == ("the remote store", "stores", pytest.approx(4e6 + 1e4))
    assert one.needs_s == pytest.approx(4.01)
    assert one.shortest_s == pytest.approx(4 / 0.99)


def test_a_task_has_what_services_leave_of_its_time() -> None:
    hosts = {"front": {}, "worker": {"count": 2}}
    one, other = behind(fault_tolerance=tolerance(), hosts=hosts, operators=summing(serialise="1 MB/s"))
    assert {one.where, other.where} == {"sum-0", "sum-1"}
    assert (one.does, one.taken_share + other.taken_share) == ("writes", pytest.approx(0.1))  # 100 /s of 1 ms


@pytest.mark.parametrize(
    ("kind", "state", "bytes_"),
    [
        ("full", {"model": "per-key", "bytes": "100 kB"}, 5e6),
        ("incremental", {"model": "per-key", "bytes": "100 kB"}, 5e6 * (1 - np.exp(-2))),  # 100 tuples for 50 keys
        ("full", {"model": "per-tuple", "bytes": "1 kB"}, 6e6),  # at the end of the run
        ("incremental", {"model": "per-tuple", "bytes": "100 kB"}, 1e7),
        ("incremental", {"model": "window", "bytes": "100 kB", "length": "100 ms"}, 1e6),
    ],
)
def test_what_a_checkpoint_holds_follows_the_model_of_the_state(
    kind: str, state: dict[str, str], bytes_: float
) -> None:
    store = {"store": "remote", "remote": "10 kB/s", "guarantee": "at-most-once"}
    operators = summing(state=state, parallelism=1)
    (*_, one) = behind(
        fault_tolerance=tolerance(kind=kind, **store), operators=operators, hosts={"h": {}}, placement={}
    )
    assert one.bytes_ == pytest.approx(bytes_)


def test_state_that_grows_faster_than_the_bandwidth_never_keeps_up() -> None:
    operators = summing(state={"model": "per-tuple", "bytes": "1 MB"})
    changes = {"operators": operators, "duration": "1 d", "fault_tolerance": tolerance()}
    (one, _) = [text.text for text in warnings(made(**changes)) if text.path == "fault_tolerance.interval"] * 2
    assert "no longer interval within the run keeps up" in one


def test_the_warning_has_bytes_time_bandwidth_and_the_interval_that_keeps_up() -> None:
    hosts = {"front": {}, "worker": {"count": 2, "network": "10 Gbit/s"}}
    operators = summing(state={"model": "fixed", "bytes": "20 GB"})
    scenario = made(hosts=hosts, operators=operators, duration="2 min")
    (one,) = [str(advice) for advice in warnings(scenario) if "keep up" in advice.text]
    assert one.startswith("fault_tolerance.interval: checkpoints cannot keep up: worker-")
    said = "sends 40 GB of them every 10 s; over 1.25 GB/s they take 32 s; the shortest interval that keeps up is about"
    assert one.endswith(f" {said} 32 s")
    assert not [advice for advice in warnings(made()) if "keep up" in advice.text]


def test_tuples_that_have_no_time_beside_checkpoints_are_told_from_checkpoints_that_are_late() -> None:
    hosts = {"front": {}, "worker": {"count": 2}}
    slow = tolerance(interval="10 s", guarantee="at-most-once")
    busy = {"service": {"distribution": "deterministic", "value": "6 ms"}, "parallelism": 1, "serialise": "1 MB/s"}
    for megabytes, what in ((1.5, "tuples beside checkpoints"), (3.0, "checkpoints")):  # 6 s and 12 s of every 10 s
        operators = summing(state={"model": "fixed", "bytes": f"{megabytes} MB"}, **busy)
        scenario = made(hosts=hosts, operators=operators, fault_tolerance=slow)
        (one,) = [text.text for text in warnings(scenario) if "keep up" in text.text]
        assert one.startswith(f"{what} cannot keep up: sum-0 writes {4 * megabytes:g} MB of them every 10 s")
        assert f"(60 % taken by services) they take {10 * megabytes:g} s" in one


def test_a_time_just_above_the_interval_is_not_shown_as_the_interval() -> None:
    operators = summing(state={"model": "fixed", "bytes": "5.0003 MB"}, parallelism=1)
    tolerance = {"method": "checkpoint", "interval": "20 s", "kind": "full", "guarantee": "at-most-once"}
    quiet = {"in": raw()["workload"]["in"] | {"rate": "0.001 /s"}}
    scenario = made(operators=operators, fault_tolerance=tolerance, workload=quiet)
    (one,) = [text.text for text in warnings(scenario) if "keep up" in text.text]
    assert "every 20 s; over 1 MB/s they take 20.001 s" in one


def test_one_warning_stands_for_all_hosts_and_names_what_records_take() -> None:
    workload = {"in": raw()["workload"]["in"] | {"rate": "1000 /s", "tuple": "1 kB"}}
    operators = summing(service={"distribution": "deterministic", "value": "0.1 ms"})
    said = [one.text for one in warnings(made(workload=workload, operators=operators, fault_tolerance=tolerance()))]
    (one,) = [text for text in said if "keep up" in text]
    assert "% taken by records)" in one
