"""Measure runs with an engine. Run it alone on the machine:

    .venv/bin/python benchmarks/engines.py [--minutes 48] [--rate 8000] [--repeats 2]

A Flink job of 24 slots counts 8,000 records/s by key on 24 of 25 TaskManagers, with a checkpoint every 10 s. One
TaskManager dies in the middle; its tasks start again in the slot of the spare one, and all others with them. The table
has CPU time, real time per run time and the peak of memory for the run with and without the failure, each in a process
of its own after a run that compiles. One line is the same job with one record for ten, `resolution = 10`. In the next
two, barriers overtake. There the second has queues with a bound, and tasks
of which the busiest works 96 % of the time: while the job catches up they are full, and the backlog waits in the
sources.

The last two lines are ten minutes of what `holdfast init flink --rate "20000 /s" --state "40 GB" --taskmanagers 6x4
--interval "60 s"` writes, with each record by itself and with one for ten. A TaskManager dies in the middle.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import tomllib
from typing import Any

from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from scenarios.files.starter import FlinkJob
from sim.engine import simulate

_SLOTS = 24
_BUSY, _BUSY_BOUNDED = 0.5, 0.85
_BUFFER = 1000
_MIB = 2**20
_LARGE_MINUTES = 10.0
_LINES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("no failure", "counts", {}),
    ("a failure", "counts", {"fails": True}),
    ("a failure, one for ten", "counts", {"fails": True, "scale": 10}),
    ("a failure, unaligned", "counts", {"fails": True, "unaligned": True}),
    ("the same with full queues", "counts", {"fails": True, "unaligned": True, "bounded": True}),
    ("40 GB, a failure", "large", {"scale": 1}),
    ("40 GB, one for ten", "large", {"scale": 10}),
)


def scenario(
    minutes: float,
    rate_per_s: float,
    fails: bool = False,
    scale: int = 1,
    unaligned: bool = False,
    bounded: bool = False,
) -> Scenario:
    """The job; one simulated record stands for `scale`."""
    each_s = (_BUSY_BOUNDED if bounded else _BUSY) * _SLOTS / rate_per_s
    kill = {"kind": "host-failure", "host": "taskmanager-3", "at": f"{minutes / 2!r} min"}
    made: Scenario = scenario_from(
        {
            "engine": "flink",
            "duration": f"{minutes!r} min",
            "resolution": scale,
            "workload": {
                "records": {
                    "rate": f"{rate_per_s!r} /s",
                    "keys": {"distribution": "uniform", "count": 100_000},
                }
            },
            "operators": {
                "records": {"kind": "source", "parallelism": 4},
                "count": {
                    "kind": "aggregate",
                    "inputs": {"records": "key"},
                    "parallelism": _SLOTS,
                    "key_groups": 128,
                    "service": {"distribution": "exponential", "mean": f"{each_s!r} s"},
                    "state": {"model": "fixed", "bytes": "8 MB", "change": "100 B"},
                    **({"buffer": _BUFFER} if bounded else {}),
                },
                "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
            },
            "hosts": {"taskmanager": {"count": _SLOTS + 1}},
            "fault_tolerance": {
                "interval": "10 s",
                "kind": "incremental",
                "remote": "500 MB/s",
                "barriers": {"unaligned": unaligned},
            },
            "recovery": {"restart": {"distribution": "deterministic", "value": "1 s"}},
            "recording": {"detail": "histograms"},
            "events": {"kill": kill} if fails else {},
            "limits": {"memory": "64 GiB"},
        }
    )
    return made


def large(minutes: float, scale: int, seed: int = 1) -> Scenario:
    """Return the job with 40 GB of state; one simulated record stands for `scale`."""
    rate_per_s, changed = 20_000.0, 50e6
    raw = tomllib.loads(FlinkJob(rate_per_s, _BUSY, 40e9, changed, 6, 4, 60.0).text)
    raw |= {
        "duration": f"{minutes!r} min",
        "replications": 1,
        "resolution": scale,
        "seed": seed,
        "recording": {"detail": "histograms"},
        "limits": {"memory": "64 GiB"},
    }
    raw["events"]["kill"]["at"] = f"{minutes / 2!r} min"
    made: Scenario = scenario_from(raw)
    return made


def measured(job: str, minutes: float, given: dict[str, Any]) -> dict[str, float]:
    """The CPU time [s] and peak memory [MiB] of a run, the total of its recovery [s], and most in-flight data [MB]."""
    make = {"counts": scenario, "large": large}[job]
    simulate(make(min(1.0, minutes), **given))  # compiles
    began = time.process_time()
    found = simulate(make(minutes, **given))
    took = time.process_time() - began
    failures = found.tables["failures"]
    total_s = float((failures["caught_up_ns"] - failures["failed_ns"]).max(initial=0)) / 1e9
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MIB
    in_flight_mb = float(found.tables["job_checkpoints"]["in_flight_bytes"].max(initial=0)) / 1e6
    return {"took": took, "memory": memory, "total_s": total_s, "in_flight_mb": in_flight_mb}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=48.0, help="simulated")
    parser.add_argument("--rate", type=float, default=8000.0, help="records per second")
    parser.add_argument("--repeats", type=int, default=2, help="runs, of which the shortest counts")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measured(*json.loads(given.child))))
        return
    print(f"{'':<30} {'CPU [s]':>8} {'x real time':>12} {'MiB':>7} {'recovery [s]':>13} {'in flight [MB]':>15}")
    for what, job, changes in _LINES:
        minutes = given.minutes if job == "counts" else _LARGE_MINUTES
        rate = {"rate_per_s": given.rate} if job == "counts" else {}
        command = [sys.executable, __file__, "--child", json.dumps([job, minutes, {**rate, **changes}])]
        runs = []
        for _ in range(given.repeats):
            done = subprocess.run(command, env=os.environ, stdout=subprocess.PIPE, text=True, check=True)
            runs.append(json.loads(done.stdout.splitlines()[-1]))
        best = min(runs, key=lambda one: one["took"])
        ratio = minutes * 60 / best["took"]
        print(
            f"{what:<30} {best['took']:>8.2f} {ratio:>12.1f} {best['memory']:>7.0f} {best['total_s']:>13.1f}"
            f" {best['in_flight_mb']:>15.2f}"
        )


if __name__ == "__main__":
    main()
