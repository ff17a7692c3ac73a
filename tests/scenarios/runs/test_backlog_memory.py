"""The estimated memory of what waits against the peak of a process that runs it."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from typing import Any

import pytest

from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from models.steady_state.estimate import estimate
from scenarios.files.starter import FlinkJob

MEASURE = """
import json, sys
from models.scenario.scenario import Scenario
from sim.engine import simulate

for raw in json.loads(sys.argv[1]):
    simulate(Scenario.model_validate(raw))
    with open("/proc/self/status") as status:  # `ru_maxrss` counts what its parent had before it was replaced, too
        print(next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:")))
"""
CASES: dict[str, dict[str, Any]] = {
    "queues": {},
    "checkpoints": {"fault_tolerance": {"method": "checkpoint", "interval_s": 1.0}},
    "shared cores": {"hosts": {"worker": {"count": 1, "cpu": "shared", "cores": 1}}},
    "a host that fails": {  # before that ids take a tenth: nobody looks for one
        "fault_tolerance": {"method": "checkpoint", "interval_s": 1.0},
        "events": {"late": {"kind": "host-failure", "at_s": 15.9, "host": "worker-1"}},
    },
    "a bounded queue": {"buffers": ("count",)},
    "bounded up to the source": {"buffers": ("clean", "count")},
}
SAMPLE = ("queues", "bounded up to the source")  # what the others do with, but for a failure


def raw(rate_per_s: float, *, buffers: tuple[str, ...] = (), **changes: object) -> dict[str, Any]:
    """Two operators, the second of which serves half of 100,000 tuples a second, for 16 s."""
    quick, slow = ({"distribution": "exponential", "mean_s": seconds} for seconds in (1e-6, 2e-5))
    bound = {name: {"buffer": 1000} if name in buffers else {} for name in ("clean", "count")}
    return {
        "duration_s": 16.0,
        "warmup_s": 0.0,
        "workload": {"in": {"rate": f"{rate_per_s} /s", "keys": {"distribution": "uniform", "count": 100}}},
        "operators": {
            "in": {"kind": "source"},
            "clean": {"kind": "map", "inputs": {"in": "shuffle"}, "service": quick} | bound["clean"],
            "count": {"kind": "aggregate", "inputs": {"clean": "key"}, "key_groups": 8, "service": slow}
            | bound["count"],
            "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
        },
        "hosts": {"worker": {"count": 2}},
        "recording": {"detail": "histograms"},
    } | changes


@pytest.mark.skipif(sys.platform != "linux", reason="peaks of memory are read from /proc")
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case in SAMPLE else pytest.mark.slow) for case in CASES]
)
def test_the_memory_of_a_backlog_is_estimated_within_a_factor_of_two(case: str) -> None:
    both = [raw(rate, **CASES[case]) for rate in (100, 100_000)]
    done = subprocess.run([sys.executable, "-c", MEASURE, json.dumps(both)], capture_output=True, text=True, check=True)
    low, high = map(int, done.stdout.split())
    small, large = (estimate(Scenario.model_validate(each)).memory_bytes for each in both)
    assert large - small > 40e6
    assert 0.5 < (large - small) / (high - low) < 2


def test_a_job_of_flink_that_fits_is_not_refused_for_ids_that_nobody_keeps() -> None:
    # 20,000 records/s, 40 GB, a checkpoint each minute, and an outage of 99 s: 602 MB were measured.
    text = FlinkJob(20_000.0, 0.5, 40e9, 50e6, 6, 4, 60.0).text
    raw = tomllib.loads(text) | {"duration": "10 min", "replications": 1, "resolution": 1}
    raw["events"]["kill"]["at"] = "5 min"
    found = estimate(scenario_from(raw))
    assert not found.faults
    assert 400e6 < found.memory_bytes < 1e9
    raw["fault_tolerance"]["barriers"] = {"unaligned": True}  # in-flight data comes twice: 1,288 MB were measured
    assert 0.7e9 < estimate(scenario_from(raw)).memory_bytes < 2e9
    longer = estimate(scenario_from(raw | {"duration": "30 min"}))
    assert longer.memory_bytes < 2e9  # what is kept does not grow with the run
