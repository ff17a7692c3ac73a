"""The engine of a scenario: the values that it brings, what it refuses, and the way back to a file."""

from __future__ import annotations

from typing import Any

import pytest
from engine_jobs import APPLICATION, JOB, QUERY, refused

from models.engines import flink
from models.engines.behaviours import Status
from models.engines.restart_strategies import UNLIMITED, ExponentialDelay, FixedDelay
from models.errors import InputError
from models.scenario.engine import Engine, with_defaults
from models.scenario.fault_tolerance import Detector
from models.scenario.file_keys import entry_of, fields_of, models_in
from models.scenario.reading import (
    design_points,
    engine_values,
    raw_of,
    scenario_from,
    scenario_with,
    scenario_with_settings,
)
from models.scenario.runtime import AdaptiveScheduling, RecoveryTimes
from models.scenario.scenario import Scenario
from scenarios.files.scenario import names, path_of, read_scenario, text_of


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
        {"engine": "samza"},
        "engine = samza: must be flink, spark, kafka-streams or storm (leave the key out for a generic system",
    ),
    "another unknown one": ({"engine": {"name": "samza"}}, "must be flink, spark, kafka-streams or storm"),
    "a slip": ({"engine": "flnk"}, "engine = flnk: must be flink, spark, kafka-streams or storm (did you mean flink?)"),
    "a capital": ({"engine": {"name": "FLINK"}}, "must be flink, spark, kafka-streams or storm (did you mean flink?)"),
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
    found = refused(JOB, **changes)
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
    assert len(refused(JOB, **changes)) == 1


def test_a_broken_engine_says_nothing_about_the_rest() -> None:
    assert len(refused(JOB, engine="samza")) == 1


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


@pytest.mark.parametrize("raw", [QUERY, APPLICATION], ids=["spark", "kafka-streams"])
@pytest.mark.parametrize("what", OF_FLINK)
def test_what_only_flink_has_is_refused_once(what: str, raw: dict[str, Any]) -> None:
    changes, where = OF_FLINK[what]
    (found,) = (one for one in refused(raw, **changes) if where in one)
    assert f"{where}: is of Flink" in found


@pytest.mark.parametrize("name", ["flink", "spark", "kafka-streams", "storm"])
def test_a_key_of_another_method_is_to_be_removed_and_not_the_engines_own(name: str) -> None:
    engine = Engine.model_validate({"name": name})
    own = next(one.value for one in engine.defaults if one.path == "fault_tolerance.method")
    assert engine.hint(str(own), "write it") == "write it"
    assert engine.hint("upstream-backup", "write it") == f"remove it: upstream-backup is no method of {engine.short}"
