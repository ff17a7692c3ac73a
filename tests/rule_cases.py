"""A valid scenario that the tests of rules change, and what they change it to."""

from __future__ import annotations

from typing import Any

from changed_keys import changed

from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario

SERVICE = {"distribution": "exponential", "mean": "1 ms"}
RAW: dict[str, Any] = {
    "duration": "10 min",
    "warmup": "1 min",
    "workload": {"words": {"rate": "100 /s"}},
    "operators": {
        "words": {"kind": "source"},
        "clean": {"kind": "map", "inputs": {"words": "shuffle"}, "parallelism": 2, "service": dict(SERVICE)},
        "count": {
            "kind": "aggregate",
            "inputs": {"clean": "key"},
            "parallelism": 2,
            "key_groups": 8,
            "service": dict(SERVICE),
        },
        "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
    },
    "hosts": {"worker": {"count": 3}},
    "fault_tolerance": {"method": "checkpoint"},
    "events": {"crash": {"kind": "host-failure", "at": "5 min", "host": "worker-1"}},
}
LONE_SOURCE = {"kind": "source"}
MIGRATE = {"kind": "migrate", "at": "1 min", "operator": "count", "key_group": 3, "host": "worker-0"}
REBALANCE = {"kind": "rebalance", "at": "1 min", "hosts": ["worker"]}
ACKER = {"method": "acker", "guarantee": "at-least-once"}
TRIMS = {"method": "elastic-upstream-backup"}
WAVES: dict[str, Any] = {"waves": {"interval": "30 s"}, "fault_tolerance": ACKER}
RESCALE = {"kind": "rescale", "at": "1 min", "operator": "count", "parallelism": 4}


def read(changes: dict[str, object]) -> Scenario:
    """The scenario with these changes of keys."""
    return scenario_from(changed(RAW, changes))
