"""Storm as the engine of a scenario: the values that it brings, what it refuses, and the way back to a file."""

from __future__ import annotations

from typing import Any

import pytest
from engine_jobs import APPLICATION, JOB, QUERY

from models.engines import storm
from models.engines.behaviours import Status
from models.errors import InputError
from models.scenario.file_keys import fields_of, models_in
from models.scenario.reading import (
    engine_values,
    raw_of,
    scenario_from,
)
from models.scenario.recovery_methods import Acker
from models.scenario.rules import not_simulated, warnings
from models.scenario.runtime import Workers
from models.scenario.scenario import Scenario

START: dict[str, Any] = {"distribution": "deterministic", "value": "5 s"}
TOPOLOGY: dict[str, Any] = JOB | {
    "engine": "storm",
    "hosts": {"supervisor": {"count": 3}},
    "fault_tolerance": {},
    "recovery": {"restart": START},
    "events": {"kill": {"kind": "host-failure", "host": "supervisor-1", "at": "5 min"}},
}
STATELESS = {
    name: {key: value for key, value in one.items() if key != "state"} for name, one in JOB["operators"].items()
}


def refused_by_storm(**changes: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        scenario_from(TOPOLOGY | changes)
    return [str(fault) for fault in caught.value.faults]


def test_storm_brings_its_values_where_the_file_says_nothing() -> None:
    made = scenario_from(TOPOLOGY)
    tolerance, workers = made.fault_tolerance, made.workers
    assert (tolerance.method, tolerance.guarantee) == ("acker", "at-least-once")
    assert tolerance.acking == Acker(timeout_s=30.0, expiry="rotating", acks="covered", transport="links")
    assert (made.detector.heartbeat_s, made.detector.timeout_s, made.detector.check_s) == (1.0, 30.0, 10.0)
    assert (workers.together, workers.slots, workers.check_s) == (True, 4, 3.0)
    assert made.waves.interval_s == 1.0
    assert not_simulated(made) == []


def test_receive_queues_have_a_bound_without_an_acker_as_the_table_says() -> None:
    bounded = {"operators": STATELESS | {"sum": STATELESS["sum"] | {"buffer": 32768}}}
    assert not_simulated(scenario_from(TOPOLOGY | bounded | {"fault_tolerance": {"method": "none"}})) == []
    (fault,) = not_simulated(scenario_from(TOPOLOGY | bounded))
    assert (fault.path, fault.hint) == ("operators.sum.buffer", "without an acker it is")


def test_checkpoints_of_storm_come_with_a_stateful_bolt() -> None:
    made = scenario_from(TOPOLOGY | {"operators": STATELESS})
    assert made.waves.interval_s is None
    assert made.fault_tolerance.acking == Acker(acks="literal", transport="links")
    unacked = scenario_from(TOPOLOGY | {"fault_tolerance": {"method": "none"}})
    assert (unacked.waves.interval_s, unacked.fault_tolerance.acking) == (None, None)
    assert not_simulated(unacked) == []
    # What is shown is what applies.
    shown = {one.path for one, _ in engine_values(made)}
    assert not {"waves.interval", "fault_tolerance.acker.acks"} & shown
    assert {"waves.interval", "fault_tolerance.acker.acks"} <= {
        one.path for one, _ in engine_values(scenario_from(TOPOLOGY))
    }
    # Descriptions in place of tables count, too.
    kept = scenario_from(TOPOLOGY | {"fault_tolerance": {"method": "none"}})
    tables = {name: getattr(kept, name) for name in type(kept).model_fields if name in kept.model_fields_set}
    again = scenario_from(tables | {"engine": "storm", "fault_tolerance": {}}, from_file=False)
    assert again.waves.interval_s == 1.0


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"engine": {"name": "storm", "version": "2.8"}},
        {"operators": STATELESS},
        {"operators": STATELESS, "waves": {"interval": "5 s"}},
        {"fault_tolerance": {"method": "none"}},
        {"fault_tolerance": {"acker": {"timeout": "10 s", "pending": 100}}},
        {"detector": {"check": "5 s"}, "workers": {"slots": 2}},
    ],
    ids=str,
)
def test_the_way_back_leaves_out_what_storm_says(changes: dict[str, Any]) -> None:
    raw = {key: value for key, value in (TOPOLOGY | changes).items() if value != {}}
    assert scenario_from(raw_of(scenario_from(raw))) == scenario_from(raw)
    assert raw_of(scenario_from(raw)) == raw


@pytest.mark.parametrize("version", storm.Version.__args__)  # type: ignore[attr-defined]
def test_each_value_of_storm_has_a_behaviour_and_a_source(version: str) -> None:
    paths = {path for one in storm.BEHAVIOURS for path in one.paths}
    found = [*storm.defaults(version)]
    assert {one.path for one in found} <= paths
    assert len({one.path for one in found}) == len(found)
    assert all(one.source for one in found)


def test_every_key_of_workers_and_acks_has_a_behaviour() -> None:
    # A new key of these tables needs a row that says what it is of Storm, or a rule that refuses it.
    paths = {path for one in storm.BEHAVIOURS for path in one.paths}
    refused = {"loss", "delay", "failed_calls", "connection", "returns"}
    refused |= {"strategy", "attempt", "slot_timeout", "scheduler", "adaptive"}
    for table in ("detector", "recovery", "workers"):
        (model,) = models_in(fields_of(Scenario)[table].annotation)
        assert {f"{table}.{key}" for key in fields_of(model) if key not in refused} <= paths
    assert {f"fault_tolerance.acker.{key}" for key in fields_of(Acker)} <= paths
    assert {one.status for one in storm.BEHAVIOURS} == {*Status}


MOVE: dict[str, Any] = {"kind": "rebalance", "at": "1 s", "hosts": ["supervisor"], "protocol": "dsm"}
REFUSED_BY_STORM: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown version": ({"engine": {"name": "storm", "version": "1.0"}}, "engine.version = 1.0: must be 2.8"),
    "another method": (
        {"fault_tolerance": {"method": "checkpoint"}},
        "fault_tolerance.method = checkpoint: is no method of Storm, whose acker has lost tuples emitted again",
    ),
    "barriers": (
        {"fault_tolerance": {"barriers": {}}},
        "fault_tolerance.barriers: is not of Storm: its checkpoint spout sends waves",
    ),
    "micro-batches": ({"fault_tolerance": {"micro_batches": {}}}, "Trident is not simulated"),
    "changelogs": ({"fault_tolerance": {"changelog": {}}}, "fault_tolerance.changelog: is not of Storm"),
    "replicas": (
        {"fault_tolerance": {"replicas": {"r": {"operator": "sum", "host": "supervisor-0"}}}},
        "fault_tolerance.replicas: is not of Storm: no bolt has a replica",
    ),
    "an interval of checkpoints": (
        {"fault_tolerance": {"interval": "10 s"}},
        "fault_tolerance.interval = 10 s: is not of Storm: topology.state.checkpoint.interval.ms is waves.interval",
    ),
    "exactly once": (
        {"fault_tolerance": {"guarantee": "exactly-once"}},
        "fault_tolerance.guarantee = exactly-once: cannot be kept by the method acker",
    ),
    "no time of a start": ({"recovery": {}}, "recovery.restart: is missing: nothing says how long a worker takes"),
    "executors alone": ({"workers": {"together": False}}, "workers.together = false: is not what Storm does"),
    "slots": (
        {"hosts": {"supervisor": {"count": 3, "slots": 4}}},
        "hosts.supervisor.slots = 4: is of Flink: a supervisor of Storm has ports, each for a worker",
    ),
    "slot sharing": ({"placement": {"slot_sharing": True}}, "placement.slot_sharing = true: is of Flink: a supervisor"),
    "a restart strategy": (
        {"recovery": {"restart": START, "strategy": {"kind": "fixed-delay"}}},
        "recovery.strategy = fixed-delay: is of Flink: a supervisor starts a worker that has died",
    ),
    "refused heartbeats": ({"detector": {"failed_calls": 2}}, "Nimbus reassigns executors that were silent"),
    "broken connections": ({"detector": {"connection": "0 s"}}, "detector.connection = 0 s: is not of Storm"),
    "lost heartbeats": ({"detector": {"loss": 0.1}}, "detector.loss = 0.1: is not simulated with Storm"),
    "returns that nobody notices": (
        {"detector": {"returns": "unnoticed"}},
        "detector.returns = unnoticed: is not what Storm does: a supervisor that is back starts",
    ),
    "a time-out below the interval": (
        {"detector": {"timeout": "100 ms"}},
        "detector.timeout = 0.1 s: must be at least worker.heartbeat.frequency.secs, which is 1 s",
    ),
    "a driver": (
        {"events": {"kill": {"kind": "driver-failure", "at": "5 min"}}},
        "is not simulated with Apache Storm 2.8 (Storm has Nimbus, whose failure is not simulated",
    ),
    "a move of a key group": (
        {"events": {"m": {"kind": "migrate", "at": "1 s", "operator": "sum", "key_group": 0, "host": "supervisor-0"}}},
        "events.m.kind = migrate: is not simulated with Apache Storm 2.8",
    ),
    "elasticity": ({"elasticity": {"policy": "threshold"}}, "a topology has other executors when somebody rebalances"),
    "another protocol": (
        {"events": {"m": MOVE | {"protocol": "ccr"}}},
        "events.m.protocol = ccr: is no protocol of Storm, whose rebalance kills all workers",
    ),
    "no wait": ({"events": {"m": MOVE}}, "events.m.wait: is missing: storm rebalance deactivates spouts for"),
    "an operator that begins a chain": (
        {"operators": JOB["operators"] | {"sum": JOB["operators"]["sum"] | {"chain": False}}},
        "operators.sum.chain = false: is of Flink",
    ),
    "a hash of Flink": (
        {"operators": JOB["operators"] | {"sum": JOB["operators"]["sum"] | {"key_hash": "flink-string"}}},
        "operators.sum.key_hash = flink-string: is the hash of another engine",
    ),
    "a host that is not there": (
        {"events": {"kill": {"kind": "worker-failure", "host": "supervisor-9", "at": "1 s"}}},
        "events.kill.host = supervisor-9: there is no host of this name",
    ),
}


@pytest.mark.parametrize("what", REFUSED_BY_STORM)
def test_what_storm_does_not_have_is_refused_in_its_words(what: str) -> None:
    changes, words = REFUSED_BY_STORM[what]
    (found,) = refused_by_storm(**changes)
    assert words in found


def test_a_fault_within_recovery_does_not_hide_the_time_of_a_start() -> None:
    found = refused_by_storm(recovery={"restart": START, "warm_up": {"duration": "5 s"}})
    assert [one.partition(":")[0] for one in found] == ["recovery.warm_up.slowdown"]


def test_a_rebalance_of_storm_says_its_wait() -> None:
    made = scenario_from(TOPOLOGY | {"events": {"m": MOVE | {"wait": "30 s"}}, "recovery": {}})
    assert not_simulated(made) == []
    # Bolts without state need nobody who brings states back, but where a worker may die.
    plain = TOPOLOGY | {"operators": STATELESS, "recovery": {}}
    assert not_simulated(scenario_from(plain | {"events": {"m": MOVE | {"wait": "0 s"}}})) == []
    both = TOPOLOGY["events"] | {"m": MOVE | {"wait": "0 s"}}
    (found,) = refused_by_storm(operators=STATELESS, events=both)
    assert "events.m.protocol = dsm: needs an acker, which has tuples sent again, and periodic waves" in found


def _generic(**changes: Any) -> dict[str, Any]:
    acker = {"fault_tolerance": {"method": "acker", "guarantee": "at-least-once"}}
    return {key: value for key, value in TOPOLOGY.items() if key != "engine"} | acker | changes


WORKER = {"kill": {"kind": "worker-failure", "host": "supervisor-0", "at": "1 s"}}
OF_WORKERS: dict[str, tuple[dict[str, Any], str]] = {
    "another method": (
        {"workers": {"together": True}, "fault_tolerance": {"method": "checkpoint"}},
        "workers.together = true: needs the method acker or none; fault_tolerance.method is checkpoint",
    ),
    "slots of tasks": (
        {"workers": {"together": True}, "hosts": {"supervisor": {"count": 3, "slots": 8}}},
        "hosts.supervisor.slots = 8: cannot be combined with workers.together",
    ),
    "slots of workers": ({"workers": {"slots": 2}}, "workers.slots = 2: needs workers.together"),
    "looks at workers": ({"workers": {"check": "3 s"}}, "workers.check = 3 s: needs workers.together"),
    "a worker that dies": ({"events": WORKER}, "events.kill.kind = worker-failure: needs workers.together"),
    "looks at lost heartbeats": (
        {"detector": {"check": "1 s", "loss": 0.1}},
        "detector.check = 1 s: cannot be combined with heartbeats that are lost or late",
    ),
    "a wait of another protocol": (
        {"events": {"m": MOVE | {"protocol": "ccr", "wait": "1 s"}}},
        "events.m.wait = 1 s: is not of ccr, which has sources pause",
    ),
}


@pytest.mark.parametrize("what", OF_WORKERS)
def test_what_workers_cannot_be_combined_with_is_refused(what: str) -> None:
    changes, words = OF_WORKERS[what]
    with pytest.raises(InputError) as caught:
        scenario_from(_generic(**changes))
    (found,) = caught.value.faults
    assert words in str(found)


def test_workers_can_be_had_without_the_engine() -> None:
    made = scenario_from(_generic(workers={"together": True, "slots": 2}, events=WORKER))
    assert made.workers == Workers(together=True, slots=2)
    assert made.may_fail
    assert not_simulated(made) == []
    moved = scenario_from(_generic(workers={"together": True}, events=WORKER | {"m": MOVE | {"protocol": "ccr"}}))
    assert [fault.path for fault in not_simulated(moved)] == ["events.m.protocol"]


@pytest.mark.parametrize("engine", ["flink", "spark", "kafka-streams"])
def test_other_engines_have_no_worker_that_dies_alone_and_but_for_spark_nobody_who_looks(engine: str) -> None:
    raw = {"flink": JOB, "spark": QUERY, "kafka-streams": APPLICATION}[engine]
    if engine == "spark":  # spark.network.timeoutInterval
        assert scenario_from(raw).detector.check_s == 60.0
        assert scenario_from(raw | {"detector": {"check": "1 s"}}).detector.check_s == 1.0
    else:
        with pytest.raises(InputError, match=r"detector.check = 1 s: is of Spark and Storm, not of"):
            scenario_from(raw | {"detector": {"check": "1 s"}})
    host = f"{[*raw['hosts']][-1]}-0"
    events = {"kill": {"kind": "worker-failure", "host": host, "at": "1 s"}}
    with pytest.raises(InputError) as caught:
        scenario_from(raw | {"events": events})
    (found,) = caught.value.faults
    assert "is of Storm, whose supervisors start workers: write host-failure" in str(found)


def test_states_that_waves_save_are_not_called_lost() -> None:
    made = scenario_from(TOPOLOGY)
    assert made.waves.interval_s is not None
    assert not [one for one in warnings(made) if "saves no state" in str(one)]
