"""Spark as the engine of a scenario: the values that it brings, what it refuses, and the way back to a file."""

from __future__ import annotations

from typing import Any

import pytest
from engine_jobs import APPLICATION, JOB, QUERY, refused

from models.distributions import Deterministic, Exponential
from models.engines import spark
from models.engines.behaviours import Status
from models.errors import InputError
from models.scenario.file_keys import fields_of, models_in
from models.scenario.reading import (
    raw_of,
    scenario_from,
)
from models.scenario.recovery_methods import MicroBatches
from models.scenario.rules import not_simulated
from models.scenario.scenario import Scenario


def test_spark_brings_its_values_where_the_file_says_nothing() -> None:
    made = scenario_from(QUERY)
    assert made.fault_tolerance.method == "micro-batch"
    assert (made.fault_tolerance.store, made.fault_tolerance.kind) == ("remote", "incremental")
    assert (made.detector.heartbeat_s, made.detector.timeout_s, made.detector.connection_s) == (10.0, 120.0, 0.0)
    assert (made.hosts["executor"].cpu, made.hosts["executor"].cores) == ("shared", 4)
    assert made.fault_tolerance.batches is not None
    assert made.fault_tolerance.batches.plan == Deterministic(value_s=0.116)
    own = {"interval": "1 s", "micro_batches": {"plan": {"distribution": "exponential", "mean": "1 s"}}}
    batches = scenario_from(QUERY | {"fault_tolerance": own}).fault_tolerance.batches
    assert batches is not None
    assert (batches.plan, batches.commit) == (Exponential(mean_s=1.0), Deterministic(value_s=0.038))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"engine": {"name": "spark", "version": "3.5"}},
        {"fault_tolerance": {"interval": "5 s", "kind": "full"}},
        {"hosts": {"executor": {"count": 8}}},
        {
            "fault_tolerance": {
                "interval": "1 s",
                "micro_batches": {"cold": {"distribution": "exponential", "mean": "1 s"}},
            }
        },
    ],
    ids=str,
)
def test_the_way_back_leaves_out_what_spark_says(changes: dict[str, Any]) -> None:
    raw = QUERY | changes
    assert scenario_from(raw_of(scenario_from(raw))) == scenario_from(raw)
    assert raw_of(scenario_from(raw)) == raw


@pytest.mark.parametrize("version", spark.Version.__args__)  # type: ignore[attr-defined]
def test_each_value_of_spark_has_a_behaviour_and_a_source(version: str) -> None:
    paths = {path for one in spark.BEHAVIOURS for path in one.paths}
    found = [*spark.defaults(version)]
    assert {one.path for one in found} <= paths
    assert len({one.path for one in found}) == len(found)
    assert all(one.source for one in found)


def test_every_key_of_batches_and_drivers_has_a_behaviour() -> None:
    # A new key of these tables needs a row that says what it is of Spark, or a rule that refuses it.
    paths = {path for one in spark.BEHAVIOURS for path in one.paths}
    refused = {"loss", "delay", "check", "failed_calls", "strategy", "attempt", "slot_timeout", "scheduler", "adaptive"}
    for table in ("detector", "recovery"):
        (model,) = models_in(fields_of(Scenario)[table].annotation)
        assert {f"{table}.{key}" for key in fields_of(model) if key not in refused} <= paths
    assert {f"fault_tolerance.micro_batches.{key}" for key in fields_of(MicroBatches)} <= paths
    assert {one.status for one in spark.BEHAVIOURS} == {*Status}


EVENT_TIME: dict[str, tuple[dict[str, Any], bool]] = {
    "a window": ({"sum": {"state": None, "window": {"length": "10 s"}}}, True),
    "a timer": (
        {
            "tick": {
                "kind": "map",
                "inputs": {"sum": "shuffle"},
                "timer": {"every": "1 s"},
                "service": JOB["operators"]["sum"]["service"],
            },
            "out": {"inputs": {"tick": "shuffle"}},
        },
        False,
    ),
    "a state of the last time": ({"sum": {"state": {"model": "window", "bytes": "10 B", "length": "1 min"}}}, True),
}


@pytest.mark.parametrize("what", EVENT_TIME)
def test_event_time_is_there_as_the_tables_say(what: str) -> None:
    changes, in_batches = EVENT_TIME[what]
    operators = {name: JOB["operators"].get(name, {}) | one for name, one in changes.items()}
    operators = {
        name: {key: value for key, value in one.items() if value is not None} for name, one in operators.items()
    }
    made = scenario_from(QUERY | {"operators": JOB["operators"] | operators})
    found = [fault.path.rpartition(".")[2] for fault in not_simulated(made)]
    assert found == ([] if in_batches else [what.split()[1]])
    made = scenario_from(APPLICATION | {"operators": JOB["operators"] | operators})
    assert not_simulated(made) == []


GAPS = {"window": {"length": "5 s", "slide": "6 s"}}
REFUSED_BY_SPARK: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown version": ({"engine": {"name": "spark", "version": "2.4"}}, "engine.version = 2.4: must be 3.5, 4.0"),
    "a version of Flink": ({"engine": {"name": "spark", "version": "1.20"}}, "must be 3.5, 4.0, 4.1, 4.2 or 4.3"),
    "no trigger": ({"fault_tolerance": {}}, "fault_tolerance.interval: is missing: Spark runs batches back to back"),
    "another method": (
        {"fault_tolerance": {"interval": "1 s", "method": "region-restart"}, "events": {}},
        "fault_tolerance.method = region-restart: is no method of Spark",
    ),
    "an acker": (
        {"fault_tolerance": {"method": "acker", "guarantee": "at-least-once"}, "events": {}},
        "fault_tolerance.method = acker: is no method of Spark",
    ),
    "a short trigger": ({"fault_tolerance": {"interval": "1 us"}}, "must be at least 1 ms with micro-batches"),
    "states on hosts": (
        {"fault_tolerance": {"interval": "1 s", "store": "nodes"}},
        "which go to a checkpoint location",
    ),
    "at most once": (
        {"fault_tolerance": {"interval": "1 s", "guarantee": "at-most-once"}},
        "cannot be had with micro-batches",
    ),
    "asynchronous snapshots": (
        {"fault_tolerance": {"interval": "1 s", "snapshots": {"mode": "asynchronous"}}},
        "fault_tolerance.snapshots.mode = asynchronous: is not what Spark does",
    ),
    "slots": ({"hosts": {"executor": {"count": 3, "slots": 9}}}, "hosts.executor.slots = 9: is of Flink"),
    "slot sharing": ({"placement": {"slot_sharing": True}}, "placement.slot_sharing = true: is of Flink"),
    "a restart strategy": (
        {"recovery": {"strategy": {"kind": "fixed-delay"}}},
        "recovery.strategy = fixed-delay: is of Flink: nothing in Spark starts a query again",
    ),
    "refused heartbeats": ({"detector": {"failed_calls": 2}}, "detector.failed_calls = 2: is of Flink"),
    "barriers": (
        {"fault_tolerance": {"interval": "1 s", "barriers": {}}},
        "fault_tolerance.barriers: needs the method region-restart; fault_tolerance.method is micro-batch "
        "(remove it: region-restart is no method of Spark)",
    ),
    "a changelog": (
        {"fault_tolerance": {"interval": "1 s", "changelog": {}}},
        "(remove it: changelog is no method of Spark)",
    ),
    "a time-out below the interval": (
        {"detector": {"timeout": "1 s"}},
        "detector.timeout = 1 s: must be at least spark.executor.heartbeatInterval, which is 10 s",
    ),
    "a move of a key group": (
        {"events": {"m": {"kind": "migrate", "at": "1 s", "operator": "sum", "key_group": 0, "host": "executor-0"}}},
        "events.m.kind = migrate: is not simulated with Apache Spark 4.3",
    ),
    "elasticity": ({"elasticity": {"policy": "threshold"}}, "dynamic allocation is not"),
    "waves": ({"waves": {"interval": "1 s"}}, "waves: is of Storm, not of Spark"),
    "windows with gaps": (
        {
            "operators": JOB["operators"]
            | {"sum": JOB["operators"]["sum"] | {"window": {"length": "5 s", "slide": "6 s"}}}
        },
        "operators.sum.window.slide = 6 s: must be at most the length of the window with Spark, 5 s (slideDuration",
    ),
    "an operator that begins a chain": (
        {"operators": JOB["operators"] | {"sum": JOB["operators"]["sum"] | {"chain": False}}},
        "operators.sum.chain = false: is of Flink",
    ),
}


@pytest.mark.parametrize("what", REFUSED_BY_SPARK)
def test_what_spark_does_not_have_is_refused_in_its_words(what: str) -> None:
    changes, words = REFUSED_BY_SPARK[what]
    found = refused(QUERY, **changes)
    assert any(words in one for one in found), found


def test_batches_and_drivers_need_the_method() -> None:
    raw = {key: value for key, value in QUERY.items() if key != "engine"}
    with pytest.raises(InputError) as caught:
        scenario_from(raw | {"fault_tolerance": {"method": "checkpoint", "micro_batches": {}}})
    assert {fault.path for fault in caught.value.faults} == {"fault_tolerance.micro_batches", "events.kill.kind"}
    batches = {"fault_tolerance": {"method": "micro-batch", "store": "remote"}}
    with pytest.raises(InputError, match="has no part in micro-batches"):
        scenario_from(raw | batches | {"recovery": {"strategy": {"kind": "fixed-delay"}}})
    made = scenario_from(raw | batches)
    assert not_simulated(made) == []


def test_what_does_not_wait_for_batches_is_not_simulated() -> None:
    raw = QUERY | {"operators": dict(QUERY["operators"])}
    raw["operators"]["sum"] = raw["operators"]["sum"] | {"window": {"length": "1 s"}, "buffer": 5}
    raw["fault_tolerance"] = {"interval": "1 s", "staggered": True, "micro_batches": {"max_offsets": 5}}
    found = {fault.path for fault in not_simulated(scenario_from(raw))}
    assert found == {"operators.sum.window", "operators.sum.buffer", "fault_tolerance.staggered"}
