"""Rules about active replicas: the smallest change of a valid scenario that breaks each, and it alone."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from models.errors import InputError
from models.scenario import rules
from models.scenario.reading import scenario_from
from models.steady_state.estimate import (
    BYTES_PER_EVENT,
    BYTES_PER_LOGGED_STEP,
    BYTES_PER_STEP,
    LOGGED_INTERVALS,
    estimate,
)
from models.topology.layout import planned_replicas, replicated_groups

SERVICE = {"distribution": "exponential", "mean": "1 ms"}
RAW: dict[str, Any] = {
    "duration": "10 min",
    "workload": {"words": {"rate": "100 /s"}},
    "operators": {
        "words": {"kind": "source"},
        "clean": {"kind": "map", "inputs": {"words": "shuffle"}, "service": dict(SERVICE)},
        "count": {
            "kind": "aggregate",
            "inputs": {"clean": "key"},
            "parallelism": 2,
            "key_groups": 4,
            "service": dict(SERVICE),
        },
        "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
    },
    "hosts": {"front": {}, "worker": {"count": 4, "spare": 1}},
    "placement": {"operators": {"words": "front", "clean": "front", "out": "front", "count": "worker"}},
    "fault_tolerance": {
        "method": "checkpoint",
        "replicas": {"a": {"operator": "count", "tasks": ["count-0"], "host": "worker-2", "spares": ["worker-1"]}},
    },
}
A = "fault_tolerance.replicas.a"
CASES: list[tuple[dict[str, Any], str, str]] = [
    ({"operator": "coutn"}, f"{A}.operator", "there is no operator of this name"),
    ({"operator": "words", "tasks": None}, f"{A}.operator", "a source has no replica"),
    ({"operator": "out", "tasks": None}, f"{A}.operator", "a sink has no replica"),
    ({"host": "worker-9"}, f"{A}.host", "there is no host of this name"),
    ({"host": "worker-0"}, f"{A}.host", "is the host of what is replicated: key group or task 0, 2 of count"),
    ({"host": "worker-3"}, f"{A}.host", "is a spare host of its group: it is not in use"),
    ({"tasks": ["count-2"]}, f"{A}.tasks[0]", "there is no task of count of this name"),
    ({"tasks": []}, f"{A}.tasks", "is empty: nothing would be replicated"),
    ({"key_groups": [1]}, f"{A}.tasks", "either tasks or key_groups, not both"),
    ({"tasks": None, "key_groups": [4]}, f"{A}.key_groups[0]", "must be from 0 to 3"),
    ({"tasks": None, "key_groups": [-1]}, f"{A}.key_groups[0]", "must be from 0 to 3"),
    ({"spares": ["worker-1", "worker-8"]}, f"{A}.spares[1]", "there is no host of this name"),
    ({"spares": ["worker-1", "worker-1"]}, f"{A}.spares[1]", "is named twice"),
]


def changed(entry: dict[str, Any], **more: Any) -> dict[str, Any]:
    """RAW with other keys of its replica, and of `fault_tolerance`; None takes a key away."""
    raw = copy.deepcopy(RAW)
    found = raw["fault_tolerance"]["replicas"]["a"] | entry
    raw["fault_tolerance"]["replicas"]["a"] = {key: value for key, value in found.items() if value is not None}
    raw["fault_tolerance"] |= more
    return raw


@pytest.mark.parametrize(("entry", "path", "rule"), CASES)
def test_a_broken_rule_is_reported_with_its_path(entry: dict[str, Any], path: str, rule: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario_from(changed(entry))
    assert [(fault.path, fault.rule) for fault in caught.value.faults] == [(path, rule)]


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"method": "none"}, "needs what upstream keeps; fault_tolerance.method is none"),
        (
            {"guarantee": "at-least-once"},
            "needs receivers that drop duplicates; fault_tolerance.guarantee is at-least-once",
        ),
    ],
)
def test_replicas_need_replay_and_receivers_that_drop_duplicates(more: dict[str, Any], rule: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario_from(changed({}, **more))
    assert [(fault.path, fault.rule) for fault in caught.value.faults] == [("fault_tolerance.replicas", rule)]


def test_a_key_group_has_one_replica() -> None:
    raw = changed({})
    raw["fault_tolerance"]["replicas"]["b"] = {"operator": "count", "key_groups": [1, 2], "host": "front-0"}
    with pytest.raises(InputError) as caught:
        scenario_from(raw)
    assert [fault.path for fault in caught.value.faults] == ["fault_tolerance.replicas.b"]
    assert caught.value.faults[0].rule == "key group or task 2 of count has a replica by a already"


def test_an_operator_on_hosts_that_there_are_not_is_the_one_fault() -> None:
    raw = changed({})
    raw["placement"]["operators"]["count"] = "wrker"
    with pytest.raises(InputError) as caught:
        scenario_from(raw)
    assert [fault.path for fault in caught.value.faults] == ["placement.operators.count"]


def test_restarts_on_own_hosts_need_a_store_that_all_reach() -> None:
    with pytest.raises(InputError) as caught:
        scenario_from(changed({}, restart="own-hosts"))
    assert [fault.path for fault in caught.value.faults] == ["fault_tolerance.restart"]
    scenario_from(changed({}, restart="own-hosts", store="remote"))


def test_moves_beside_replicas_are_not_simulated_yet() -> None:
    raw = changed({}) | {
        "events": {"m": {"kind": "migrate", "at": "1 s", "operator": "count", "key_group": 1, "host": "worker-2"}}
    }
    assert [fault.path for fault in rules.not_simulated(scenario_from(raw))] == ["events.m.kind"]


def test_entries_name_operators_tasks_or_key_groups() -> None:
    def groups(**entry: Any) -> list[tuple[str, int, str]]:
        return [(one.operator, one.group, one.primary) for one in planned_replicas(scenario_from(changed(entry)))]

    assert groups() == [("count", 0, "worker-0"), ("count", 2, "worker-0")]
    assert groups(tasks=None, key_groups=[3, 1]) == [("count", 1, "worker-1"), ("count", 3, "worker-1")]
    assert [group for _, group, _ in groups(tasks=None)] == [0, 1, 2, 3]
    assert groups(operator="clean", tasks=None) == [("clean", 0, "front-0")]


def test_the_size_of_a_run_counts_the_second_instance() -> None:
    """Its steps, its checkpoints, and the ids that are remembered at a time."""
    rate = {"words": {"rate": "1000 /s"}}
    half, none = scenario_from(changed({}) | {"workload": rate}), changed({}) | {"workload": rate}
    none["fault_tolerance"] = {"method": "checkpoint"}
    events = {"crash": {"kind": "host-failure", "at": "1 min", "host": "worker-0"}}
    plain = scenario_from(none | {"events": events})
    # Of 600,000 tuples at each of four operators half reach key groups of `count` with a replica.
    assert (estimate(plain).steps, estimate(half).steps) == (2_400_000, 2_700_000)
    checkpoints = 2 * 600 / 5
    assert estimate(half).events - estimate(plain).events == checkpoints
    forgotten = LOGGED_INTERVALS * 5 / 600
    ids = 300_000 * forgotten
    tuples = 300_000 * BYTES_PER_STEP
    more = estimate(half).memory_bytes - estimate(plain).memory_bytes
    assert estimate(half).detail == estimate(plain).detail == "tuples"
    assert more == pytest.approx(tuples + ids * BYTES_PER_LOGGED_STEP + checkpoints * BYTES_PER_EVENT)
    assert replicated_groups(half) == {"count": 2}
    assert estimate(half).time_s > estimate(plain).time_s
