"""Kafka Streams as the engine: the values that it brings, what it refuses, and the way back to a file."""

from __future__ import annotations

from typing import Any

import pytest
from engine_jobs import APPLICATION, JOB, refused

from models.engines import kafka_streams
from models.engines.behaviours import Status
from models.errors import InputError
from models.scenario.file_keys import fields_of, models_in
from models.scenario.reading import (
    engine_values,
    raw_of,
    scenario_from,
    scenario_with,
)
from models.scenario.recovery_methods import Changelog
from models.scenario.rules import not_simulated
from models.scenario.scenario import Scenario


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


GAPS = {"window": {"length": "5 s", "slide": "6 s"}}
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
    "windows with gaps": (
        {
            "operators": JOB["operators"]
            | {"sum": JOB["operators"]["sum"] | {"window": {"length": "5 s", "slide": "6 s"}}}
        },
        "operators.sum.window.slide = 6 s: must be at most the length of the window with Kafka Streams, 5 s",
    ),
    "an operator that begins a chain": (
        {"operators": JOB["operators"] | {"sum": JOB["operators"]["sum"] | {"chain": False}}},
        "operators.sum.chain = false: is of Flink",
    ),
}


@pytest.mark.parametrize("what", REFUSED_BY_KAFKA)
def test_what_kafka_streams_does_not_have_is_refused_in_its_words(what: str) -> None:
    changes, words = REFUSED_BY_KAFKA[what]
    found = refused(APPLICATION, **changes)
    assert any(words in one for one in found), found


@pytest.mark.parametrize("slots", [1, 9])
def test_slots_of_flink_are_told_once_however_many_tasks_there_are(slots: int) -> None:
    found = refused(APPLICATION, hosts={"broker": {}, "app": {"count": 3, "slots": slots}})
    assert [one.partition(": ")[0] for one in found] == [f"hosts.app.slots = {slots}"]


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
