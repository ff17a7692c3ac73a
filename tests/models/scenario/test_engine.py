"""The engine of a scenario: the values that it brings, what it refuses, and the way back to a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flink_job
import pytest

from models.distributions import Deterministic, Exponential
from models.engines import flink, kafka_streams, spark
from models.engines.behaviours import Status
from models.engines.restart_strategies import UNLIMITED, ExponentialDelay, FixedDelay
from models.errors import InputError
from models.scenario.engine import Engine, with_defaults
from models.scenario.fault_tolerance import Changelog, Detector, MicroBatches
from models.scenario.file_keys import entry_of, fields_of, models_in
from models.scenario.reading import (
    design_points,
    engine_values,
    raw_of,
    scenario_from,
    scenario_with,
    scenario_with_settings,
)
from models.scenario.rules import not_simulated
from models.scenario.runtime import AdaptiveScheduling, RecoveryTimes
from models.scenario.scenario import Scenario
from scenarios.files.scenario import names, path_of, read_scenario, text_of

JOB: dict[str, Any] = flink_job.JOB | {
    "events": {"kill": {"kind": "host-failure", "host": "tm-1", "at": "5 min"}},
}


def refused(**changes: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        scenario_from(JOB | changes)
    return [str(fault) for fault in caught.value.faults]


def test_an_engine_brings_its_values_where_the_file_says_nothing() -> None:
    made = scenario_from(JOB)
    assert made.fault_tolerance.method == "region-restart"
    assert made.fault_tolerance.store == "remote"
    assert (made.detector.heartbeat_s, made.detector.timeout_s, made.detector.failed_calls) == (10.0, 50.0, 2)
    assert made.recovery.strategy == ExponentialDelay()
    assert made.placement.slot_sharing
    assert made.hosts["tm"].slots == 4


def test_what_the_file_says_holds() -> None:
    own = JOB | {"detector": {"timeout": "20 s"}, "recovery": {"strategy": {"kind": "failure-rate", "failures": 3}}}
    made = scenario_from(own)
    assert (made.detector.heartbeat_s, made.detector.timeout_s) == (10.0, 20.0)
    assert made.recovery.strategy is not None
    assert made.recovery.strategy.kind == "failure-rate"
    assert {one.path for one, holds in engine_values(made) if holds} == {one.path for one in flink.defaults("2.3")} - {
        "detector.timeout",
        "hosts.*.slots",
        "recovery.strategy",
    }


def test_tables_of_code_may_name_fields() -> None:
    raw = JOB | {"duration": 600.0, "fault_tolerance": {"interval_s": 10.0}, "detector": {"heartbeat_s": 2.0}}
    raw["workload"] = {"in": {"rate": 50.0, "keys": JOB["workload"]["in"]["keys"]}}
    raw["events"] = {"kill": {"kind": "host-failure", "host": "tm-1", "at_s": 300.0}}
    raw["operators"] = raw["operators"] | {
        "sum": raw["operators"]["sum"]
        | {"service": {"distribution": "exponential", "mean_s": 0.001}, "state": {"model": "fixed", "bytes": 1e6}}
    }
    made = scenario_from(raw, from_file=False)
    assert (made.detector.heartbeat_s, made.detector.timeout_s) == (2.0, 50.0)


def test_the_version_decides_the_restart_strategy() -> None:
    old = scenario_from(JOB | {"engine": {"name": "flink", "version": "1.18"}})
    assert old.recovery.strategy == FixedDelay(attempts=UNLIMITED)
    assert scenario_from(JOB | {"engine": {"name": "flink", "version": "1.19"}}).recovery.strategy == ExponentialDelay()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"engine": {"name": "flink", "version": "1.18"}},
        {"detector": {"heartbeat": "1 s", "timeout": "5 s"}},  # the defaults of a scenario without an engine
        {"fault_tolerance": {"interval": "5 s", "kind": "incremental"}},
        {"fault_tolerance": {"method": "none"}, "events": {}},
        {"hosts": {"tm": {"count": 8}}},
        {"placement": {"method": "round-robin", "slot_sharing": False}, "hosts": {"tm": {"count": 3, "slots": 6}}},
        {"recovery": {"attempt": "0 s", "restart": {"distribution": "exponential", "mean": "1 s"}}},
        {"recovery": {"strategy": {"kind": "exponential-delay"}}},  # which is what Flink does anyway
        {"engine": {"name": "flink", "version": "2.3"}, "detector": {"heartbeat": "10 s", "failed_calls": 0}},
    ],
    ids=str,
)
def test_the_way_back_to_a_file_leaves_out_what_the_engine_says(changes: dict[str, Any]) -> None:
    raw = JOB | changes
    assert scenario_from(raw_of(scenario_from(raw))) == scenario_from(raw)
    assert raw_of(scenario_from(raw)) == {key: value for key, value in raw.items() if value != {}}


def test_a_scenario_without_an_engine_gets_nothing() -> None:
    for raw in ({"duration": "1 s"}, {"engine": "samza"}, {"engine": 3}, {"engine": {"name": "flink", "version": "9"}}):
        assert with_defaults(raw, Scenario) == (raw, frozenset())
    for name in names():
        made = read_scenario(path_of(name)).scenario
        assert (made.engine is None) == ("\nengine = " not in text_of(name))


@pytest.mark.parametrize("version", flink.Version.__args__)
def test_each_value_of_each_version_has_a_behaviour_and_a_key(version: str) -> None:
    paths = {path for one in flink.BEHAVIOURS for path in one.paths}
    found = [*flink.defaults(version)]
    assert {one.path for one in found} <= paths
    assert len({one.path for one in found}) == len(found)
    for one in found:
        model: Any = Scenario
        for step in one.path.split("."):
            if step != "*":
                annotation = fields_of(model)[step].annotation
                inner = entry_of(annotation)
                model = inner if inner is not None else next(iter(models_in(annotation)), None)
        assert one.source


def test_every_key_of_failure_and_restart_has_a_behaviour() -> None:
    # A new key of these tables needs a row that says what it is of Flink.
    paths = {path for one in flink.BEHAVIOURS for path in one.paths}
    generic = {"loss", "delay", "check", "allocate", "restart", "adaptive"}  # or refused
    assert {f"recovery.adaptive.{key}" for key in fields_of(AdaptiveScheduling)} <= paths
    for table in ("detector", "recovery"):
        (model,) = models_in(fields_of(Scenario)[table].annotation)
        assert {f"{table}.{key}" for key in fields_of(model) if key not in generic} <= paths
    assert {one.status for one in flink.BEHAVIOURS} == {*Status}


def strategies(raw: dict[str, Any]) -> list[Any]:
    """The restart strategy of each design of a sweep."""
    made = scenario_from(raw)
    return [point.of(made).recovery.strategy for point in design_points(made)]


def test_a_key_of_a_table_that_the_engine_brings_can_be_set_and_varied() -> None:
    kind = {"recovery": {"strategy": {"kind": "exponential-delay"}}}
    for raw in (JOB, JOB | kind, JOB | {"recovery": {"strategy": {"jitter": 0.5}}}):
        made = scenario_with(scenario_from(raw), {"recovery.strategy.initial": "2 s"})
        assert isinstance(made.recovery.strategy, ExponentialDelay)
        assert made.recovery.strategy.initial_s == 2.0
    swept = JOB | kind | {"sweep": {"recovery.strategy.jitter": [0.0, 0.3]}}
    assert [strategy.jitter for strategy in strategies(swept)] == [0.0, 0.3]


def test_what_a_file_says_stays_for_each_engine_of_a_sweep() -> None:
    # All of it is the default of a scenario without an engine, and of one of the two not.
    said = {
        "hosts": {"w": {"count": 24, "cores": 1, "cpu": "dedicated"}},
        "detector": {"heartbeat": "1 s", "timeout": "5 s"},
        "fault_tolerance": {"interval": "5 s", "kind": "incremental", "snapshots": {"mode": "synchronous"}},
    }
    for first in ({}, {"engine": "flink"}, {"engine": "spark"}):
        raw = {key: value for key, value in JOB.items() if key not in ("engine", "placement")} | said | first
        made = scenario_from(raw | {"events": {}, "sweep": {"engine": ["flink", "spark"]}})
        for point in design_points(made):
            one = point.of(made)
            assert one.engine is not None
            assert one.engine.name == point.settings["engine"]
            assert (one.detector.heartbeat_s, one.detector.timeout_s) == (1.0, 5.0)
            assert (one.fault_tolerance.kind, one.fault_tolerance.snapshots.mode) == ("incremental", "synchronous")
            assert one.hosts["w"].cpu == "dedicated"
            assert one.detector.connection_s == (0.088 if one.engine.name == "flink" else 0.0)


@pytest.mark.parametrize("engine", ["flink", {"name": "flink"}, {"name": "flink", "version": "2.3"}])
def test_a_version_can_be_set_whatever_the_file_says(engine: object) -> None:
    raw = JOB | {"engine": engine}
    for text in ("1.20", '"1.20"'):
        made = scenario_with_settings(raw, {"engine.version": text})
        assert made.engine is not None
        assert made.engine.title == "Apache Flink 1.20"
    swept = scenario_from(raw | {"sweep": {"engine.version": ["1.18", "2.3"]}})
    assert [point.of(swept).recovery.strategy.kind for point in design_points(swept)] == [  # type: ignore[union-attr]
        "fixed-delay",
        "exponential-delay",
    ]


def test_a_version_without_an_engine_is_refused() -> None:
    raw = {key: value for key, value in JOB.items() if key != "engine"}
    with pytest.raises(InputError, match="must be a name, or a table with one"):
        scenario_with_settings(raw, {"engine.version": "1.20"})


def test_a_version_can_be_varied_and_what_the_file_says_stays() -> None:
    engine = {"name": "flink", "version": "2.3"}
    swept = JOB | {"engine": engine, "sweep": {"engine.version": ["1.18", "2.3"]}}
    assert [strategy.kind for strategy in strategies(swept)] == ["fixed-delay", "exponential-delay"]
    own = swept | {"recovery": {"strategy": {"kind": "exponential-delay"}}}
    assert {strategy.kind for strategy in strategies(own)} == {"exponential-delay"}


def test_descriptions_in_place_of_tables_get_the_values_too() -> None:
    raw = dict(JOB)
    given = scenario_from(raw)
    made = scenario_from(
        {name: getattr(given, name) for name in type(given).model_fields}
        | {"engine": Engine(name="flink"), "detector": Detector(timeout_s=20.0), "recovery": RecoveryTimes()},
        from_file=False,
    )
    assert (made.detector.heartbeat_s, made.detector.timeout_s, made.detector.failed_calls) == (10.0, 20.0, 2)
    assert made.recovery.strategy == ExponentialDelay()


def test_refused_heartbeats_can_be_switched_off() -> None:
    made = scenario_from(JOB | {"detector": {"failed_calls": 0}})
    assert made.detector.patience_s(silent=False) == made.detector.timeout_s == 50.0


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown engine": (
        {"engine": "flonk"},
        "engine = flonk: must be flink, spark, kafka-streams or storm (leave the key out for a generic system",
    ),
    "another unknown one": ({"engine": {"name": "samza"}}, "must be flink, spark, kafka-streams or storm"),
    "an unknown version": ({"engine": {"name": "flink", "version": "9.9"}}, "engine.version = 9.9: must be 1.18, 1.19"),
    "a version of Spark": ({"engine": {"name": "flink", "version": "4.3"}}, "engine.version = 4.3: must be 1.18, 1.19"),
    "a driver": ({"events": {"d": {"kind": "driver-failure", "at": "1 s"}}}, "Flink has a JobManager"),
    "micro-batches": (
        {"fault_tolerance": {"interval": "10 s", "micro_batches": {}}},
        "fault_tolerance.micro_batches: needs the method micro-batch; fault_tolerance.method is region-restart",
    ),
    "a version that is a number": ({"engine": {"name": "flink", "version": 1.2}}, "must have its version in quotes"),
    "no interval": ({"fault_tolerance": {}}, "fault_tolerance.interval: is missing: Flink takes no checkpoint unless"),
    "single key groups": (
        {"fault_tolerance": {"interval": "10 s", "method": "checkpoint"}},
        "fault_tolerance.method = checkpoint: is no method of Flink",
    ),
    "checkpoints on hosts": (
        {"fault_tolerance": {"interval": "10 s", "store": "nodes"}},
        "fault_tolerance.store = nodes: is no place for checkpoints of Flink",
    ),
    "at most once": (
        {"fault_tolerance": {"interval": "10 s", "guarantee": "at-most-once"}},
        "fault_tolerance.guarantee = at-most-once: is no mode of Flink's checkpoints",
    ),
    "a failure without checkpoints": (
        {"fault_tolerance": {"method": "none"}},
        "fault_tolerance.method = none: leaves a Flink job down for good",
    ),
    "more tasks than slots": (
        {"hosts": {"tm": {"count": 3, "slots": 2}}},
        "hosts.tm.slots = 2: 3 tasks of in are placed on tm-0 (Flink needs as many slots as the largest parallelism",
    ),
    "more tasks than slots that are not shared": (
        {"hosts": {"tm": {"count": 3, "slots": 2}}, "placement": {"slot_sharing": False}},
        "tasks are placed on tm-0 (Flink needs as many slots as tasks where they do not share them: taskmanager.",
    ),
    "a cycle": (
        {
            "operators": JOB["operators"]
            | {"sum": JOB["operators"]["sum"] | {"inputs": {"in": "key", "more": "key"}}}
            | {"more": {"kind": "map", "inputs": {"sum": "shuffle"}, "service": JOB["operators"]["sum"]["service"]}}
        },
        "is on a cycle: sum -> more -> sum (an aligned checkpoint of Flink would wait for its own barrier",
    ),
    "a move of a key group": (
        {"events": {"m": {"kind": "migrate", "at": "1 s", "operator": "sum", "key_group": 0, "host": "tm-0"}}},
        "events.m.kind = migrate: is not simulated with Apache Flink 2.3",
    ),
    "elasticity": ({"elasticity": {"policy": "threshold"}}, "elasticity.policy = threshold: is not simulated with"),
    "a time-out below the interval": (
        {"detector": {"timeout": "1 s"}},
        "detector.timeout = 1 s: must be at least heartbeat.interval, which is 10 s",
    ),
    "waves": ({"waves": {"interval": "1 s"}}, "waves: is of Storm, not of Flink"),
    "lost heartbeats": ({"detector": {"loss": 0.1}}, "detector.loss = 0.1: is not simulated with Flink"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_engine_does_not_have_is_refused_in_its_words(what: str) -> None:
    changes, words = REFUSED[what]
    found = refused(**changes)
    assert any(words in one for one in found), found


@pytest.mark.parametrize(
    "changes",
    [
        {"fault_tolerance": {"interval": "10 s", "method": "checkpoint"}},
        {"fault_tolerance": {"interval": "10 s", "store": "nodes"}},
        {"fault_tolerance": {"interval": "10 s", "guarantee": "at-most-once"}},
        {"detector": {"loss": 0.1}},
        {"events": {"d": {"kind": "driver-failure", "at": "1 s"}}},
        {"engine": "spark", "hosts": {"tm": {"count": 3, "slots": 1}}, "fault_tolerance": {"interval": "1 s"}},
        {"engine": "spark", "hosts": {"tm": {"count": 3}}, "fault_tolerance": {"interval": "1 s", "method": "none"}},
        {"engine": 3},
        {"engine": {}},
        {"engine": {"version": "1.20"}},
    ],
    ids=str,
)
def test_a_fault_is_told_once(changes: dict[str, Any]) -> None:
    assert len(refused(**changes)) == 1


def test_a_broken_engine_says_nothing_about_the_rest() -> None:
    assert len(refused(engine="samza")) == 1


# -- Spark

QUERY: dict[str, Any] = JOB | {
    "engine": "spark",
    "hosts": {"executor": {"count": 3, "cores": 4}},
    "fault_tolerance": {"interval": "1 s"},
    "events": {"kill": {"kind": "driver-failure", "at": "5 min"}},
}


def refused_by_spark(**changes: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        scenario_from(QUERY | changes)
    return [str(fault) for fault in caught.value.faults]


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
}


@pytest.mark.parametrize("what", REFUSED_BY_SPARK)
def test_what_spark_does_not_have_is_refused_in_its_words(what: str) -> None:
    changes, words = REFUSED_BY_SPARK[what]
    found = refused_by_spark(**changes)
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
    raw["fault_tolerance"] = {"interval": "1 s", "staggered": True}
    found = {fault.path for fault in not_simulated(scenario_from(raw))}
    assert found == {"operators.sum.window", "operators.sum.buffer", "fault_tolerance.staggered"}


# -- Kafka Streams

APPLICATION: dict[str, Any] = JOB | {
    "engine": "kafka-streams",
    "hosts": {"broker": {"count": 2}, "app": {"count": 3, "cores": 4}},
    "placement": {"method": "round-robin", "operators": {"in": "broker", "out": "broker"}, "hosts": ["app"]},
    "fault_tolerance": {},
    "events": {"kill": {"kind": "host-failure", "host": "app-1", "at": "5 min"}},
}


def refused_by_kafka(**changes: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        scenario_from(APPLICATION | changes)
    return [str(fault) for fault in caught.value.faults]


def test_kafka_streams_brings_its_values_where_the_file_says_nothing() -> None:
    made = scenario_from(APPLICATION)
    tolerance = made.fault_tolerance
    assert (tolerance.method, tolerance.store, tolerance.kind) == ("changelog", "remote", "incremental")
    assert (tolerance.guarantee, tolerance.interval_s) == ("at-least-once", 30.0)
    assert tolerance.changelogs == Changelog(standbys=0, uncompacted=0.5, warmups=2)
    assert (tolerance.changelogs.probing_s, tolerance.changelogs.acceptable_lag) == (600.0, 10_000)
    assert (made.detector.heartbeat_s, made.detector.timeout_s, made.detector.returns) == (3.0, 45.0, "unnoticed")
    assert made.detector.connection_s is None
    assert (made.hosts["app"].cpu, made.hosts["app"].cores, made.hosts["broker"].cores) == ("shared", 4, 1)
    assert not_simulated(made) == []


def test_the_commit_interval_follows_the_guarantee() -> None:
    exactly = scenario_from(APPLICATION | {"fault_tolerance": {"guarantee": "exactly-once"}})
    assert exactly.fault_tolerance.interval_s == 0.1
    own = scenario_from(APPLICATION | {"fault_tolerance": {"guarantee": "exactly-once", "interval": "30 s"}})
    assert own.fault_tolerance.interval_s == 30.0
    # A change of the guarantee changes the interval with it, unless the file says it.
    changed = {"fault_tolerance.guarantee": "exactly-once"}
    assert scenario_with(scenario_from(APPLICATION), changed).fault_tolerance.interval_s == 0.1
    said = APPLICATION | {"fault_tolerance": {"interval": "5 s"}}
    assert scenario_with(scenario_from(said), changed).fault_tolerance.interval_s == 5.0
    # What is shown is what applies.
    shown = [one.value for one, holds in engine_values(exactly) if one.path == "fault_tolerance.interval" and holds]
    assert shown == ["0.1 s"]
    assert len([one for one, _ in engine_values(own) if one.path == "fault_tolerance.interval"]) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"engine": {"name": "kafka-streams", "version": "3.9"}},
        {"fault_tolerance": {"guarantee": "exactly-once"}},
        {"fault_tolerance": {"guarantee": "exactly-once", "interval": "30 s"}},
        {"fault_tolerance": {"changelog": {"standbys": 1}}},
        {"detector": {"timeout": "10 s"}},
    ],
    ids=str,
)
def test_the_way_back_leaves_out_what_kafka_streams_says(changes: dict[str, Any]) -> None:
    raw = {key: value for key, value in (APPLICATION | changes).items() if value != {}}
    assert scenario_from(raw_of(scenario_from(raw))) == scenario_from(raw)
    assert raw_of(scenario_from(raw)) == raw


@pytest.mark.parametrize("version", kafka_streams.Version.__args__)  # type: ignore[attr-defined]
def test_each_value_of_kafka_streams_has_a_behaviour_and_a_source(version: str) -> None:
    paths = {path for one in kafka_streams.BEHAVIOURS for path in one.paths}
    found = [*kafka_streams.defaults(version)]
    assert {one.path for one in found} <= paths
    assert len({(one.path, one.when) for one in found}) == len(found)
    assert all(one.source for one in found)


def test_every_key_of_changelogs_and_members_has_a_behaviour() -> None:
    # A new key of these tables needs a row that says what it is of Kafka Streams, or a rule that refuses it.
    paths = {path for one in kafka_streams.BEHAVIOURS for path in one.paths}
    refused = {
        "loss",
        "delay",
        "check",
        "failed_calls",
        "connection",
        "strategy",
        "attempt",
        "slot_timeout",
        "scheduler",
    }
    for table in ("detector", "recovery"):
        (model,) = models_in(fields_of(Scenario)[table].annotation)
        assert {f"{table}.{key}" for key in fields_of(model) if key not in {*refused, "adaptive"}} <= paths
    assert {f"fault_tolerance.changelog.{key}" for key in fields_of(Changelog)} <= paths
    assert {one.status for one in kafka_streams.BEHAVIOURS} == {*Status}


REFUSED_BY_KAFKA: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown version": ({"engine": {"name": "kafka-streams", "version": "2.8"}}, "must be 3.9, 4.0, 4.1, 4.2 or"),
    "another method": (
        {"fault_tolerance": {"method": "checkpoint"}},
        "fault_tolerance.method = checkpoint: is no method of Kafka Streams",
    ),
    "no method": ({"fault_tolerance": {"method": "none"}, "events": {}}, "is no method of Kafka Streams"),
    "barriers": (
        {"fault_tolerance": {"barriers": {}}},
        "fault_tolerance.barriers: is not of Kafka Streams: its tasks commit on their own",
    ),
    "micro-batches": ({"fault_tolerance": {"micro_batches": {}}}, "it processes record by record"),
    "active replicas": (
        {"fault_tolerance": {"replicas": {"r": {"operator": "sum", "host": "app-0"}}}},
        "its standbys process nothing: changelog.standbys",
    ),
    "a hash of Flink": (
        {"operators": JOB["operators"] | {"sum": JOB["operators"]["sum"] | {"key_hash": "flink-string"}}},
        "operators.sum.key_hash = flink-string: is the hash of another engine",
    ),
    "ranges of key groups": (
        {"operators": JOB["operators"] | {"sum": JOB["operators"]["sum"] | {"key_group_assignment": "ranges"}}},
        "operators.sum.key_group_assignment = ranges: is of Flink",
    ),
    "changelogs on hosts": ({"fault_tolerance": {"store": "nodes"}}, "is no place for changelogs, which are topics"),
    "at most once": (
        {"fault_tolerance": {"guarantee": "at-most-once"}},
        "fault_tolerance.guarantee = at-most-once: cannot be had with changelogs",
    ),
    "synchronous changelogs": (
        {"fault_tolerance": {"snapshots": {"mode": "synchronous"}}},
        "fault_tolerance.snapshots.mode = synchronous: is not what Kafka Streams does",
    ),
    "slots": (
        {"hosts": {"broker": {}, "app": {"count": 3, "slots": 9}}},
        "hosts.app.slots = 9: is of Flink: an instance of Kafka Streams has threads",
    ),
    "slot sharing": (
        {"placement": {"slot_sharing": True}},
        "placement.slot_sharing = true: is of Flink: an instance of Kafka Streams has threads",
    ),
    "a restart strategy": (
        {"recovery": {"strategy": {"kind": "fixed-delay"}}},
        "recovery.strategy = fixed-delay: is of Flink: nothing in Kafka Streams starts an instance again",
    ),
    "refused heartbeats": ({"detector": {"failed_calls": 2}}, "a group removes a member after session.timeout.ms"),
    "broken connections": ({"detector": {"connection": "0 s"}}, "detector.connection = 0 s: is not of Kafka Streams"),
    "lost heartbeats": ({"detector": {"loss": 0.1}}, "detector.loss = 0.1: is not simulated with Kafka Streams"),
    "a time-out below the interval": (
        {"detector": {"timeout": "1 s"}},
        "detector.timeout = 1 s: must be at least heartbeat.interval.ms, which is 3 s",
    ),
    "a driver": (
        {"events": {"kill": {"kind": "driver-failure", "at": "5 min"}}},
        "events.kill.kind = driver-failure: is not simulated with Kafka Streams 4.3",
    ),
    "a move of a key group": (
        {"events": {"m": {"kind": "migrate", "at": "1 s", "operator": "sum", "key_group": 0, "host": "app-0"}}},
        "events.m.kind = migrate: is not simulated with Kafka Streams 4.3",
    ),
    "elasticity": ({"elasticity": {"policy": "threshold"}}, "events of kind host-join and host-restart do"),
    "a broker that is restarted": (
        {"events": {"stop": {"kind": "host-restart", "at": "5 min", "hosts": ["app-0", "broker-1"]}}},
        "events.stop.hosts[1] = broker-1: is a broker, which is not restarted here",
    ),
    "an instance that joins and is there": (
        {"events": {"more": {"kind": "host-join", "at": "5 min", "host": "app-2"}}},
        "events.more.host = app-2: is in use from the start",
    ),
    "an unknown instance": (
        {"events": {"stop": {"kind": "host-restart", "at": "5 min", "hosts": ["app-7"]}}},
        "events.stop.hosts[0] = app-7",
    ),
    "a spare instance that stops": (
        {
            "hosts": {"broker": {}, "app": {"count": 4, "cores": 4, "spare": 1}},
            "events": {"stop": {"kind": "host-restart", "at": "5 min", "hosts": ["app-3"]}},
        },
        "events.stop.hosts[0] = app-3: is a spare host, which nothing uses",
    ),
    "an instance that stops twice for good": (
        {"events": {"stop": {"kind": "host-restart", "at": "5 min", "hosts": ["app-0", "app-0"]}}},
        "events.stop.hosts[1] = app-0: has stopped for good by then",
    ),
    "a disk of an instance that does not come back": (
        {"events": {"stop": {"kind": "host-restart", "at": "5 min", "hosts": ["app-0"], "disk": "lost"}}},
        "events.stop.disk = lost: has no part where hosts do not come back",
    ),
    "a pause after one instance": (
        {"events": {"stop": {"kind": "host-restart", "at": "5 min", "hosts": ["app-0"], "pause": "1 s"}}},
        "events.stop.pause: is a time between two hosts, and there is one",
    ),
    "waves": ({"waves": {"interval": "1 s"}}, "waves: is of Storm, not of Kafka Streams"),
    "topics beside tasks": (
        {"placement": {"operators": {"in": "broker", "sum": "app"}, "tasks": {"out-0": "app-0"}}},
        "operators.out: is on app-0, beside tasks: it is a topic, which is on brokers",
    ),
    "a broker that fails": (
        {"events": {"kill": {"kind": "host-failure", "host": "broker-0", "at": "5 min"}}},
        "events.kill.host = broker-0: is a broker, which does not fail here",
    ),
    "brokers that fail": (
        {
            "hosts": {
                "broker": {"failures": {"model": "exponential", "mtbf": "1 min", "repair": "1 s"}},
                "app": {"count": 3, "cores": 4},
            }
        },
        "hosts.broker.failures: is of brokers, which do not fail here",
    ),
    "too few threads": (
        {"hosts": {"broker": {}, "app": {"count": 3, "cores": 2}}},
        "operators.sum.parallelism = 8: is more than the threads of all instances, 6",
    ),
}


@pytest.mark.parametrize("what", REFUSED_BY_KAFKA)
def test_what_kafka_streams_does_not_have_is_refused_in_its_words(what: str) -> None:
    changes, words = REFUSED_BY_KAFKA[what]
    found = refused_by_kafka(**changes)
    assert any(words in one for one in found), found


OF_FLINK: dict[str, tuple[dict[str, Any], str]] = {
    "a scheduler": ({"recovery": {"scheduler": "adaptive"}}, "recovery.scheduler = adaptive"),
    "its times": ({"recovery": {"adaptive": {"cooldown": "1 s"}}}, "recovery.adaptive"),
    "a time-out of slots": ({"recovery": {"slot_timeout": "1 s"}}, "recovery.slot_timeout = 1 s"),
    "local recovery": (
        {"fault_tolerance": {"interval": "1 s", "local_recovery": {}}},
        "fault_tolerance.local_recovery",
    ),
    "a sink that commits": (
        {"operators": JOB["operators"] | {"out": JOB["operators"]["out"] | {"commit": "at-checkpoint"}}},
        "operators.out.commit = at-checkpoint",
    ),
}


@pytest.mark.parametrize("refused", [refused_by_spark, refused_by_kafka])
@pytest.mark.parametrize("what", OF_FLINK)
def test_what_only_flink_has_is_refused_once(what: str, refused: Callable[..., list[str]]) -> None:
    changes, where = OF_FLINK[what]
    (found,) = (one for one in refused(**changes) if where in one)
    assert f"{where}: is of Flink" in found


def test_members_that_stop_and_join_need_changelogs() -> None:
    raw = {key: value for key, value in APPLICATION.items() if key != "engine"} | {
        "fault_tolerance": {"method": "checkpoint"},
        "detector": {"returns": "resumed"},
        "events": {
            "stop": {"kind": "host-restart", "at": "5 min", "hosts": ["app-0"]},
            "more": {"kind": "host-join", "at": "5 min", "host": "app-0"},
        },
    }
    with pytest.raises(InputError) as caught:
        scenario_from(raw)
    needs = "needs the method changelog; fault_tolerance.method is checkpoint"
    found = [str(fault) for fault in caught.value.faults]
    for path in ("detector.returns = resumed", "events.stop.kind = host-restart", "events.more.kind = host-join"):
        assert any(one.startswith(f"{path}: {needs}") for one in found), found


@pytest.mark.parametrize("engine", ["flink", "spark"])
def test_other_engines_have_no_members(engine: str) -> None:
    events = {"stop": {"kind": "host-restart", "at": "5 min", "hosts": ["app-0"]}}
    with pytest.raises(InputError, match=r"events.stop.kind = host-restart: is not simulated with"):
        scenario_from(APPLICATION | {"engine": engine, "events": events})


def test_changelogs_need_the_method_and_no_moves() -> None:
    raw = {key: value for key, value in APPLICATION.items() if key != "engine"}
    with pytest.raises(InputError, match=r"fault_tolerance.changelog: needs the method changelog"):
        scenario_from(raw | {"fault_tolerance": {"method": "checkpoint", "changelog": {}}})
    made = scenario_from(raw | {"fault_tolerance": {"method": "changelog", "store": "remote"}})
    assert made.fault_tolerance.changelogs == Changelog()
    assert not_simulated(made) == []
    moves = {"m": {"kind": "migrate", "at": "1 s", "operator": "sum", "key_group": 0, "host": "app-0"}}
    moved = scenario_from(raw | {"fault_tolerance": {"method": "changelog", "store": "remote"}, "events": moves})
    assert {fault.path for fault in not_simulated(moved)} == {"events.m.kind"}


@pytest.mark.parametrize("name", ["flink", "spark", "kafka-streams", "storm"])
def test_a_key_of_another_method_is_to_be_removed_and_not_the_engines_own(name: str) -> None:
    engine = Engine.model_validate({"name": name})
    own = next(one.value for one in engine.defaults if one.path == "fault_tolerance.method")
    assert engine.hint(str(own), "write it") == "write it"
    assert engine.hint("upstream-backup", "write it") == f"remove it: upstream-backup is no method of {engine.short}"
