"""A small job with `engine = "flink"`, without events, for tests of its rules."""

from __future__ import annotations

from typing import Any

JOB: dict[str, Any] = {
    "format": 1,
    "engine": "flink",
    "duration": "10 min",
    "workload": {"in": {"rate": "50 /s", "keys": {"distribution": "uniform", "count": 1000}}},
    "operators": {
        "in": {"kind": "source", "parallelism": 8},
        "sum": {
            "kind": "aggregate",
            "inputs": {"in": "key"},
            "parallelism": 8,
            "key_groups": 128,
            "service": {"distribution": "exponential", "mean": "1 ms"},
            "state": {"model": "fixed", "bytes": "1 MB"},
        },
        "out": {"kind": "sink", "inputs": {"sum": "shuffle"}},
    },
    "hosts": {"tm": {"count": 3, "slots": 4}},
    "fault_tolerance": {"interval": "10 s"},
}
