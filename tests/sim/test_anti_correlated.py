"""The anti-correlated experiment of Madsen and Zhou in a simulated run: 100, 50 or 0 % of usable checkpoints.

Two operators of ten key groups on hosts 1 and 2, their input on host 0; others take 70 % of the CPU of hosts 0 and 2.
The data go from the first operator to the second one, 1 % more each second. The page "Checkpoint-assisted migration"
states the condition under which the figures are exact: the threshold is 0.70, and each group is judged by itself.
"""

from __future__ import annotations

from typing import Any

import pytest
from small_jobs import scenario

from models.scenario.inputs import RunInputs
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane

GROUPS = 10


def falling_and_rising(begin: str) -> dict[str, Any]:
    def source(start: str, end: str) -> dict[str, Any]:
        return {
            "rate": {"ramp": {"start": start, "end": end, "over": "100 s"}},
            "keys": {"distribution": "uniform", "count": 1000},
        }

    def operator(upstream: str) -> dict[str, Any]:
        return {
            "kind": "aggregate",
            "inputs": {upstream: "key"},
            "key_groups": GROUPS,
            "service": {"distribution": "deterministic", "value": "0.5 ms"},
            "state": {"model": "fixed", "bytes": "1 kB"},
        }

    loaded = {"cpu": "shared", "load": {"steps": [{"at": "0 s", "share": 0.7}]}}
    return {
        "format": 1,
        "duration": "86 s",
        "workload": {"in1": source("480 /s", "0 /s"), "in2": source("0 /s", "480 /s")},
        "operators": {
            "in1": {"kind": "source"},
            "in2": {"kind": "source"},
            "one": operator("in1"),
            "two": operator("in2"),
            "out": {"kind": "sink", "inputs": {"one": "shuffle", "two": "shuffle"}},
        },
        "hosts": {"input": loaded, "first": {"cpu": "shared", "speed": 0.3}, "second": loaded | {"speed": 1.0}},
        "placement": {"operators": {"in1": "input", "in2": "input", "out": "input", "one": "first", "two": "second"}},
        "fault_tolerance": {"method": "checkpoint", "interval": "2 s"},
        "elasticity": {"policy": "threshold", "high": 0.7, "low": 0.1, "period": "4 s", "begin": begin},
    }


ALLOCATIONS = {
    "optimised": (1.0, lambda group: "first-0"),
    "even": (0.5, lambda group: ("first-0", "input-0")[group % 2]),
    "worst": (0.0, lambda group: "input-0"),
}


@pytest.mark.parametrize("begin_s", [40, 60, 80])
@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_as_many_checkpoints_are_usable_as_the_paper_says(allocation: str, begin_s: int) -> None:
    share, host_of = ALLOCATIONS[allocation]
    checkpoint_hosts = {("two", group): host_of(group) for group in range(GROUPS)}
    checkpoint_hosts |= {("one", group): "second-0" for group in range(GROUPS)}
    made = simulate(
        scenario(falling_and_rising(f"{begin_s} s")), RunInputs(checkpoint_hosts=checkpoint_hosts), plane=CompiledPlane
    )
    checks = made.tables["adaptations"]
    assert checks["at_ns"][0] == begin_s * 10**9
    # Before any move: host `second` with all of `two`.
    assert (checks["overloaded"][0], checks["groups"][0]) == (1, GROUPS)
    assert checks["usable"][0] == share * GROUPS
    assert (checks["assisted"][0] > 0) == (share > 0)
