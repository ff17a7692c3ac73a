"""What is valid and not simulated yet is named with its path; and what of it is simulated."""

from __future__ import annotations

import pytest
from rule_cases import ACKER, LONE_SOURCE, MIGRATE, REBALANCE, RESCALE, TRIMS, WAVES, read

from models.scenario import rules

# changes, the paths that are not simulated yet
LATER: list[tuple[dict[str, object], list[str]]] = [
    (
        {"fault_tolerance": {"method": "active-replication"}, "events/move": MIGRATE | {"protocol": "cpa"}},
        ["events.move.protocol"],
    ),
    (
        {"fault_tolerance": {"method": "source-backup"}, "events/move": MIGRATE | {"protocol": "direct"}},
        ["events.move.protocol"],
    ),
    ({"events/move": MIGRATE | {"protocol": "pause_drain_resume"}}, ["events.move.protocol"]),
    ({"fault_tolerance": ACKER | {"acker": {"acks": "covered"}}}, ["fault_tolerance.acker.acks"]),
    ({"fault_tolerance": ACKER, "operators/count/buffer": 5}, ["operators.count.buffer"]),
    ({"fault_tolerance": ACKER, "events/move": MIGRATE}, ["events.move.kind"]),
    ({"fault_tolerance": ACKER, "elasticity": {"policy": "threshold"}}, ["elasticity.policy"]),
    ({"fault_tolerance": TRIMS, "events/move": MIGRATE}, ["events.move.kind"]),
    ({"fault_tolerance": TRIMS, "elasticity": {"policy": "threshold"}}, ["elasticity.policy"]),
    ({"fault_tolerance": TRIMS | {"guarantee": "at-least-once"}}, ["fault_tolerance.guarantee"]),
    ({"fault_tolerance": TRIMS | {"maintenance": {}}}, ["fault_tolerance.maintenance"]),
    ({"fault_tolerance/copies": 2}, ["fault_tolerance.copies"]),
    ({"elasticity": {"policy": "threshold", "protocol": "teleport"}}, ["elasticity.protocol"]),
    ({"elasticity": {"policy": "threshold"}, "fault_tolerance": {"method": "none"}}, ["elasticity.policy"]),
    ({"events/move": MIGRATE | {"protocol": "teleport"}}, ["events.move.protocol"]),
    ({"fault_tolerance": TRIMS, "events/move": MIGRATE | {"protocol": "teleport"}}, ["events.move.protocol"]),
    ({"events/move": MIGRATE, "fault_tolerance": {"method": "none"}}, ["events.move.kind"]),
    ({"events/move": MIGRATE, "fault_tolerance/guarantee": "at-most-once"}, ["events.move.kind"]),
    (
        {"events/move": MIGRATE | {"operator": "clean", "key_group": 1}, "operators/clean/inputs": {"words": "key"}},
        ["events.move.operator"],
    ),
    ({"events/more": RESCALE}, ["events.more.parallelism"]),
    ({"events/more": RESCALE | {"parallelism": 3}, "hosts/worker/spare": 1}, ["events.more.parallelism"]),
    ({"events/more": RESCALE | {"parallelism": 1}, "fault_tolerance": {"method": "none"}}, ["events.more.kind"]),
    (
        {
            "events/more": RESCALE | {"parallelism": 1},
            "placement/tasks": {"count-0": "worker-0", "count-1": "worker-0"},
        },
        ["events.more.operator"],
    ),
    ({"placement": {"plan": "plan.json"}}, ["placement.plan"]),
    ({"events/goes": REBALANCE, **WAVES}, ["waves.interval"]),
    ({"events/move": MIGRATE, **WAVES}, ["events.move.kind", "waves.interval"]),
    ({"operators/clean/threads": 2, **WAVES}, ["operators.clean.threads"]),
    ({"events/goes": REBALANCE, "operators/clean/threads": 2}, ["operators.clean.threads"]),
    (
        {
            "events/goes": REBALANCE,
            "fault_tolerance/replicas": {"a": {"operator": "count", "host": "worker-0", "tasks": ["count-1"]}},
        },
        ["events.goes.kind"],
    ),
    (
        {
            "operators/clean/kind": "join",
            "operators/clean/inputs": {"words": "shuffle", "words2": "shuffle"},
            "operators/words2": LONE_SOURCE,
            "workload/words2": {"rate": "1 /s"},
        },
        ["operators.clean.kind"],
    ),
]


@pytest.mark.parametrize(("changes", "paths"), LATER, ids=[" ".join(changes) for changes, _ in LATER])
def test_what_comes_later_is_valid_and_named(changes: dict[str, object], paths: list[str]) -> None:
    found = rules.not_simulated(read(changes))
    assert [fault.path for fault in found] == paths
    assert all(fault.rule == "not simulated yet" for fault in found)


def test_windows_and_timers_are_simulated_where_a_host_may_fail() -> None:
    window = {"length": "10 s", "slide": "2 s"}
    state = {"model": "window", "bytes": "1 B", "length": "1 s"}
    changes: dict[str, object] = {"events": {}, "operators/count/window": window, "operators/count/state": state}
    hosts: dict[str, object] = {"hosts/worker/failures": {"model": "schedule", "at": ["1 min"], "repair": "1 min"}}
    assert rules.not_simulated(read(changes | hosts | {"operators/clean/timer": {"every": "1 s"}})) == []


@pytest.mark.parametrize("window", [None, {"length": "10 s"}, {"length": "10 s", "slide": "5 s"}])
def test_a_join_is_simulated_with_windows_that_do_not_overlap(window: dict[str, str] | None) -> None:
    changes: dict[str, object] = {
        "events": {},
        "operators/count/kind": "join",
        "operators/count/inputs": {"clean": "key", "words2": "key"},
        "operators/words2": LONE_SOURCE,
        "workload/words2": {"rate": "1 /s"},
    }
    found = rules.not_simulated(read(changes | ({"operators/count/window": window} if window else {})))
    assert [fault.path for fault in found] == ([] if window == {"length": "10 s"} else ["operators.count.kind"])


@pytest.mark.parametrize("event", [MIGRATE, RESCALE | {"parallelism": 1}], ids=["migrate", "rescale"])
def test_key_groups_of_a_join_may_move(event: dict[str, object]) -> None:
    changes: dict[str, object] = {
        "events/move": event,
        "operators/count/kind": "join",
        "operators/count/inputs": {"clean": "key", "words2": "key"},
        "operators/count/window": {"length": "10 s"},
        "operators/words2": LONE_SOURCE,
        "workload/words2": {"rate": "1 /s"},
        "elasticity": {"policy": "threshold"},
    }
    assert rules.not_simulated(read(changes)) == []
