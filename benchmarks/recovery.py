"""Measure the cost of methods of recovery: a step, a large job, and memory over time. Run it alone on the machine:

    .venv/bin/python benchmarks/recovery.py step [--seconds 60] [--repeats 5]
    .venv/bin/python benchmarks/recovery.py large [--repeats 3]
    .venv/bin/python benchmarks/recovery.py memory [--seconds 120] [--method METHOD | JOB]

`step`: a step (one tuple at one operator) of the job of `acker.py` with outputs that acks trim, beside the same step
with checkpoints, exactly once. `large`: five minutes of source, filter, window, count and sum as in the SPATE paper at
parallelism 30 and 15,000 events/s. `memory`: the largest memory of runs that are 1, 4 and 16 times as long, with the
rows of tuples left out, each in a process of its own: with a method of recovery, or with checkpoints and another job.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from statistics import median
from typing import Any

from acker import ns_per_step
from data_plane import at_least, at_most, line, peak_bytes, ratio
from data_plane import scenario as job
from rivals import Job

CHECKPOINTS: dict[str, Any] = {"method": "checkpoint", "interval": "5 s", "staggered": True}
KINDS: dict[str, dict[str, Any]] = {
    "checkpoint": CHECKPOINTS,
    "elastic-upstream-backup": CHECKPOINTS | {"method": "elastic-upstream-backup"},
    "state-management": CHECKPOINTS | {"method": "state-management"},
    "synchronous-checkpoints": CHECKPOINTS | {"method": "synchronous-checkpoints", "store": "remote"},
    "upstream-backup": {"method": "upstream-backup", "history": {"length": "10 s"}},
    "source-backup": {"method": "source-backup", "history": {"length": "10 s"}},
    "active-replication": {"method": "active-replication"},
    "acker": {"method": "acker", "guarantee": "at-least-once"},
}
_WINDOWS: dict[str, Any] = {"window": {"length": "2 s", "slide": "1 s"}, "state": None}
_JOIN: dict[str, Any] = {
    "kind": "join",
    "inputs": {"one": "key", "two": "key"},
    "parallelism": 20,
    "key_groups": 40,
    "service": {"distribution": "deterministic", "value": "0.1 ms"},
    "window": {"length": "100 ms"},
}
_TIMER: dict[str, Any] = {
    "kind": "map",
    "inputs": {"in": "shuffle"},
    "key_groups": None,
    "state": None,
    "service": {"distribution": "exponential", "mean": "0.5 ms"},  # one task has twice as much after the failure
    "timer": {"every": "1 s"},
}
_REPLICAS = {"one": {"operator": "one", "key_groups": [0], "host": "worker-19"}}
JOBS: dict[str, dict[str, Any]] = {
    "windows": {"operators.one": _WINDOWS},
    "join": {"operators.pairs": _JOIN, "operators.out": {"inputs": {"pairs": "shuffle"}}},
    "timers": {"operators.one": _TIMER},
    "replicas": {"fault_tolerance": {"replicas": _REPLICAS}},
    "at-least-once": {"fault_tolerance": {"guarantee": "at-least-once"}},
    "at-most-once": {"fault_tolerance": {"guarantee": "at-most-once"}},
}
_STEPS = ("checkpoint", "elastic-upstream-backup", "upstream-backup")
_TRIMS = "elastic-upstream-backup"


def step(seconds: float, repeats: int) -> None:
    """Print what a step costs."""
    for name in _STEPS:
        ns_per_step(KINDS[name], 0.2, 0)  # imports, compilation
    cost: dict[str, list[float]] = {name: [] for name in _STEPS}
    for turn in range(repeats):
        for name in _STEPS:
            cost[name].append(ns_per_step(KINDS[name], seconds, turn))
    for name, values in cost.items():
        line(name, f"{median(values):,.0f} ns/step")
    at_most(f"{_TRIMS} / checkpoint", ratio(cost[_TRIMS], cost["checkpoint"]), 1.3)


def chain(duration_s: float, parallelism: int = 30, rate: float = 15_000.0) -> Any:
    """Source, filter, window, distinct count and sum, each task on a host of its own; one host dies at the end."""
    from models.scenario.scenario import Scenario  # noqa: PLC0415

    service = {"distribution": "deterministic", "value": "0.2 ms"}
    keys = {"distribution": "uniform", "count": 3000}
    shared = {"parallelism": parallelism, "service": service}
    counted = {"kind": "aggregate", "key_groups": parallelism, "state": {"model": "fixed", "bytes": "10 kB"}, **shared}
    operators: dict[str, Any] = {
        "source": {"kind": "source", "parallelism": parallelism},
        "filter": {"kind": "map", "inputs": {"source": "shuffle"}, **shared},
        "window": {"inputs": {"filter": "key"}, **counted},
        "distinct": {"inputs": {"window": "key"}, "output": {"keys": keys}, **counted},
        "sum": {"kind": "sink", "inputs": {"distinct": "shuffle"}},
    }
    raw = {
        "duration": f"{duration_s} s",
        "workload": {"source": {"rate": f"{rate} /s", "keys": keys, "tuple": "172 B"}},
        "operators": operators,
        "hosts": {
            name: {"count": operator.get("parallelism", 1), "network": "1 Gbit/s"}
            for name, operator in operators.items()
        },
        "placement": {"operators": {name: name for name in operators}},
        "fault_tolerance": {"method": _TRIMS, "store": "remote"},
        "events": {"late": {"at": f"{duration_s - 1} s", "kind": "host-failure", "host": "window-3"}},
        "recording": {"detail": "histograms"},
    }
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


def large(repeats: int) -> None:
    """Print how fast the job of the paper runs."""
    from sim.engine import simulate  # noqa: PLC0415

    simulate(chain(6.0))  # imports, compilation
    took = []
    for _ in range(repeats):
        began = time.process_time()
        records = simulate(chain(300.0))
        took.append(time.process_time() - began)
    kinds = records.tables["messages"]
    acks = int(kinds["count"][kinds["kind"] == "ack"].sum())
    at_least(f"5 minutes of G1, {acks:,} acks", 300 / median(took), 20, "x real time")


def memory(seconds: float, method: str) -> None:
    """Print the largest memory of runs of 1, 4 and 16 times the time."""
    peaks = []
    for times in (1, 4, 16):
        words = ["one", "--seconds", str(times * seconds), "--method", method]
        made = subprocess.run([sys.executable, __file__, *words], check=True, capture_output=True, text=True)
        peaks.append(float(made.stdout))
        line(f"{method}, {times * seconds:,.0f} s", f"{peaks[-1] / 1e6:,.0f} MB")
    line("16 times as long / once", f"{peaks[2] / peaks[0]:.3f} x")


def one(seconds: float, method: str) -> None:
    """Print the largest memory of a run [B]."""
    from models.scenario.scenario import Scenario  # noqa: PLC0415
    from sim.engine import simulate  # noqa: PLC0415

    raw = job(Job(), seconds, detail="histograms").model_dump(mode="json", by_alias=True, exclude_unset=True)
    raw["fault_tolerance"] = dict(KINDS.get(method, CHECKPOINTS))
    for path, changes in JOBS.get(method, {}).items():
        where = raw
        for part in path.split("."):
            where = where.setdefault(part, {})
        where.update(changes)
    raw["events"] = {"early": {"at": "20 s", "kind": "host-failure", "host": "worker-0", "repair": "5 s"}}
    simulate(Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False))
    print(peak_bytes())


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("step", "large", "memory", "one"))
    parser.add_argument("--seconds", type=float, default=60.0, help="simulated")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--method", choices=[*KINDS, *JOBS], default=_TRIMS)
    given = parser.parse_args()
    if given.what == "step":
        step(given.seconds, given.repeats)
    elif given.what == "large":
        large(given.repeats)
    elif given.what == "memory":
        memory(given.seconds, given.method)
    else:
        one(given.seconds, given.method)


if __name__ == "__main__":
    main()
