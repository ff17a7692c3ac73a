"""What waits when a run ends: all of it, by task, in the order of the queues."""

from __future__ import annotations

from typing import Any

import numpy as np
from small_jobs import scenario, simulate

from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

BUSY: dict[str, Any] = {
    "duration": "5 s",
    "workload": {"in": {"rate": "400 /s", "keys": {"distribution": "uniform", "count": 40}}},
    "operators": {
        "in": {"kind": "source"},
        "one": {
            "kind": "map",
            "inputs": {"in": "key"},
            "parallelism": 3,
            "service": {"distribution": "exponential", "mean": "9 ms"},
        },
        "two": {
            "kind": "map",
            "inputs": {"one": "shuffle"},
            "parallelism": 2,
            "service": {"distribution": "lognormal", "mean": "12 ms", "cv": 1.0},
        },
        "out": {"kind": "sink", "inputs": {"two": "shuffle"}},
    },
    "hosts": {"h": {"count": 2, "cpu": "shared"}},
    "placement": {"operators": {"in": "h", "one": "h", "two": "h", "out": "h"}},
    "fault_tolerance": {"method": "none"},
}


def test_what_waits_is_what_the_specification_has_left_in_the_order_of_queues() -> None:
    made = scenario(BUSY)
    found = simulate(made, plane=CompiledPlane).tables["waiting"]
    expected = simulate(made, plane=PlainPlane).tables["waiting"]
    for column in expected:
        assert sorted(found[column].tolist()) == sorted(expected[column].tolist())
    assert found["task"].size > 500
    assert len(set(found["task"].tolist())) == 5
    order = np.lexsort((found["arrival_ns"], found["task"]))
    assert np.array_equal(order, np.arange(order.size))
