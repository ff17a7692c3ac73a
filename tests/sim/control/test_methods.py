"""Methods of recovery: whom they take down, and where what is lost comes back."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from seeds import sample
from small_jobs import random_job, scenario, storm
from test_planes import differences, on_both
from test_recovery import check_job

from models.errors import InputFault
from models.records.tables import RunRecords
from models.scenario.rules import faults, not_simulated
from models.scenario.scenario import Scenario
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

NS = 10**9
METHODS = ("synchronous-checkpoints", "state-management", "source-backup", "upstream-backup")


def job(method: str, host: int) -> dict[str, Any]:
    """src on h-0, 6 key groups of sum by turns on h-1 and h-2, out on h-3, nothing on h-4 and h-5; a host dies."""
    return {
        "duration": "10 s",
        "workload": {"src": {"rate": "50 /s", "keys": {"distribution": "uniform", "count": 60}}},
        "operators": {
            "src": {"kind": "source"},
            "sum": {
                "kind": "aggregate",
                "inputs": {"src": "key"},
                "parallelism": 2,
                "key_groups": 6,
                "service": {"distribution": "deterministic", "value": "1 ms"},
                "state": {"model": "per-key", "bytes": "100 B"},
            },
            "out": {"kind": "sink", "inputs": {"sum": "shuffle"}},
        },
        "hosts": {"h": {"count": 6}},
        "placement": {"tasks": {"src-0": "h-0", "sum-0": "h-1", "sum-1": "h-2", "out-0": "h-3"}},
        "fault_tolerance": {"method": method, "interval": "1 s", "store": "remote"},
        "detector": {"heartbeat": "200 ms", "timeout": "300 ms"},
        "events": {"dies": {"at": "5050 ms", "kind": "host-failure", "host": f"h-{host}"}},
    }


def rows(raw: dict[str, Any]) -> RunRecords:
    """The rows, which both planes make."""
    found = simulate(scenario(raw), plane=CompiledPlane)
    assert differences(simulate(scenario(raw), plane=PlainPlane), found) == []
    assert found.tables["ledger"]["lost"].tolist() == [0, 0]
    assert found.tables["ledger"]["duplicated"].tolist() == [0, 0]
    return found


def refused(raw: dict[str, Any]) -> list[InputFault]:
    """The faults of a scenario, and what of it is not simulated."""
    made = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    return [*faults(made), *not_simulated(made)]


def targets(records: RunRecords) -> dict[tuple[int, int], int]:
    """(operator, key group) -> where it resumed."""
    table = records.tables["recoveries"]
    columns = (table[name].tolist() for name in ("operator", "key_group", "target"))
    return {(operator, group): target for operator, group, target in zip(*columns, strict=True)}


def test_what_is_rolled_back_keeps_its_slots() -> None:
    raw = job("synchronous-checkpoints", 1)
    raw["hosts"]["h"] |= {"slots": 1, "count": 5}
    resumed = targets(rows(raw))
    # Each task comes back, and none waits for a slot that a lost key group has taken.
    assert len(resumed) == 8
    assert [resumed[1, group] for group in (1, 3, 5)] == [2, 2, 2]


def test_synchronous_checkpoints_roll_the_whole_job_back() -> None:
    found = rows(job("synchronous-checkpoints", 1))
    # The task on h-1 goes to the least used host, with all its groups. All else is killed, and comes back where it was.
    resumed = targets(found)
    assert {resumed[0, 0], resumed[2, 0]} == {0, 3}
    assert [resumed[1, group] for group in (1, 3, 5)] == [2, 2, 2]
    assert {resumed[1, group] for group in (0, 2, 4)} == {4}
    detected = set(found.tables["recoveries"]["detected_ns"].tolist())
    assert detected == {5_300_000_000}
    assert set(found.tables["dropped"]["reason"].tolist()) <= {"crash", "kill", "duplicate"}
    # Nobody answers from the failure, or its detection, on: each partition has an outage.
    assert found.tables["outages"]["operator"].size == 8


def test_a_job_that_is_rolled_back_starts_all_its_tasks_anew() -> None:
    restart = {"distribution": "deterministic", "value": "700 ms"}
    found = rows(job("synchronous-checkpoints", 1) | {"recovery": {"restart": restart}})
    assert set(found.tables["recoveries"]["started_ns"].tolist()) == {6_000_000_000}
    deliveries = found.tables["deliveries"]["delivered_ns"]
    assert not ((deliveries > 5_300_000_000) & (deliveries < 6_000_000_000)).any()


@pytest.mark.parametrize(
    ("at", "tasks", "started_ms"), [("5020 ms", 3, 6_700), ("5020 ms", 2, 6_000), ("4900 ms", 3, 6_000)]
)
def test_a_job_that_was_rescaled_after_its_last_checkpoint_is_rescaled_again(
    at: str, tasks: int, started_ms: int
) -> None:
    raw = job("synchronous-checkpoints", 1)
    raw["recovery"] = {"restart": {"distribution": "deterministic", "value": "700 ms"}}
    raw["events"]["up"] = {"kind": "rescale", "at": at, "operator": "sum", "parallelism": tasks}
    assert set(rows(raw).tables["recoveries"]["started_ns"].tolist()) == {started_ms * 1_000_000}


def test_state_management_divides_lost_key_groups_among_hosts() -> None:
    found = rows(job("state-management", 1))
    resumed = targets(found)
    assert set(resumed) == {(1, 0), (1, 2), (1, 4)}
    assert set(resumed.values()) == {4, 5, 0}


def test_a_replica_answers_as_soon_as_the_failure_is_detected() -> None:
    restart = {"distribution": "deterministic", "value": "700 ms"}
    found = rows(job("active-replication", 1) | {"recovery": {"restart": restart}})
    assert targets(found) == dict.fromkeys([(1, 0), (1, 2), (1, 4)], 4)  # the least used host, all groups of the task
    recoveries = found.tables["recoveries"]
    for phase in ("detected_ns", "allocated_ns", "started_ns", "restored_ns", "replayed_ns"):
        assert set(recoveries[phase].tolist()) == {5_300_000_000}, phase
    assert not recoveries["replayed"].any() and not recoveries["bytes"].any()
    assert not found.tables["checkpoints"]["operator"].size


def test_what_is_sent_to_a_replicated_operator_is_sent_twice() -> None:
    counts = []
    for method in ("none", "active-replication"):
        found = rows(job(method, 1) | {"events": {}})
        table = found.tables["messages"]
        assert set(table["kind"].tolist()) == {"data"}
        counts.append(int(table["count"].sum()))
    emitted = found.tables["visits"]["operator"].tolist().count(0)
    # A replica sends nothing on, so that the sink gets each tuple once.
    assert counts[1] - counts[0] == emitted


def test_a_replica_that_has_taken_over_gets_one_of_its_own() -> None:
    raw = job("active-replication", 1)
    raw["events"]["later"] = raw["events"]["dies"] | {"at": "7 s", "host": "h-4"}
    found = rows(raw)  # nothing is lost, though the hosts of owner and replica die
    replicas = found.tables["replicas"]
    renewed = [index for index, why in enumerate(replicas["why"].tolist()) if why == "renewed"]
    assert [replicas["key_group"][index] for index in renewed[:3]] == [0, 2, 4]
    assert all(0 < replicas["from_ns"][index] - replicas["requested_ns"][index] < NS for index in renewed)


def test_a_key_group_that_moves_to_its_replica_changes_places_with_it() -> None:
    raw = job("active-replication", 1)
    raw["events"] = {"move": {"kind": "migrate", "at": "3 s", "operator": "sum", "key_group": 2, "host": "h-4"}}
    found = rows(raw)
    moves = found.tables["migrations"]
    assert (moves["protocol"].tolist(), moves["completed_ns"].tolist()) == (["switchover"], [3 * NS])
    ends = [end for end in found.tables["replicas"]["end"].tolist() if end]
    assert ends == ["switchover"]
    assert found.tables["replicas"]["host"].tolist()[-1] == 1  # where the owner was


def test_what_has_lost_both_instances_starts_empty() -> None:
    raw = job("active-replication", 1)
    raw["events"]["other"] = raw["events"]["dies"] | {"host": "h-4"}
    found = simulate(scenario(raw), plane=CompiledPlane)
    assert differences(simulate(scenario(raw), plane=PlainPlane), found) == []
    assert found.tables["ledger"]["lost"].tolist()[0] > 0


@pytest.mark.parametrize("seed", sample(8, 200))
def test_with_replicas_of_everything_one_failure_loses_nothing(seed: int) -> None:
    raw = random_job(Random(f"replicas {seed}"), fault_tolerance={"method": "active-replication"})
    raw["hosts"]["h"]["count"] += 1  # at least two
    raw["events"] = {"dies": {"at": "400 ms", "kind": "host-failure", "host": "h-0", "repair": "300 ms"}}
    assert on_both(raw) == []
    found = simulate(scenario(raw), plane=CompiledPlane)
    assert not found.tables["ledger"]["lost"].any() and not found.tables["ledger"]["duplicated"].any()


@pytest.mark.parametrize(
    ("change", "path", "said"),
    [
        ({"replicas": {"a": {"operator": "sum", "host": "h-4"}}}, "fault_tolerance.replicas", "needs what upstream"),
        ({"history": {}}, "fault_tolerance.history", "needs the method upstream-backup or source-backup"),
        ({"restart": "own-hosts"}, "fault_tolerance.restart", "needs checkpoints"),
        ({"guarantee": "at-least-once"}, "fault_tolerance.guarantee", "not simulated yet"),
        ({"maintenance": {"every": "2 s"}}, "fault_tolerance.maintenance", "needs checkpoints"),
    ],
)
def test_what_replicas_of_everything_cannot_have_is_refused(change: dict[str, Any], path: str, said: str) -> None:
    raw = job("active-replication", 1)
    raw["fault_tolerance"] |= change
    found = refused(raw)
    assert any(one.path == path and said in one.rule for one in found), found


def test_replicas_of_everything_are_refused_beside_moves_timers_and_on_one_host() -> None:
    moved = job("active-replication", 1)
    moved["events"]["move"] = {"kind": "migrate", "at": "3 s", "operator": "sum", "key_group": 0, "host": "h-3"}
    moved["events"]["move"]["protocol"] = "cpa"
    assert "events.move.protocol" in [one.path for one in refused(moved)]
    timed = job("active-replication", 1)
    timed["operators"]["tick"] = {"kind": "map", "inputs": {"src": "shuffle"}, "timer": {"every": "1 s"}}
    timed["operators"]["out"]["inputs"]["tick"] = "shuffle"
    timed["placement"]["tasks"]["tick-0"] = "h-1"
    assert "operators.tick.timer" in [one.path for one in refused(timed)]
    alone = job("active-replication", 0)
    alone |= {"hosts": {"h": {"count": 1}}, "placement": {}}
    (fault,) = [one for one in refused(alone) if one.path == "fault_tolerance.method"]
    assert "needs 2 hosts or more in use, there is 1" in fault.rule


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", sample(3, 200))
def test_exactly_once_holds_whatever_dies(method: str, seed: int) -> None:
    draw = Random(f"{method} {seed}")
    make = storm if seed % 3 == 0 else random_job
    raw = make(draw, fault_tolerance={"method": method, "guarantee": "exactly-once"})
    if method.endswith("-backup"):  # nothing is older than the history
        raw["fault_tolerance"]["history"] = {"length": "1 h", "every": "200 ms"}
    assert check_job(raw, "exactly-once", (3 * NS,))
    assert on_both(raw) == []
