"""Measure runs with an engine. Run it alone on the machine:

    .venv/bin/python benchmarks/engines.py [--minutes 48] [--rate 8000] [--repeats 2]

A Flink job of 24 slots counts 8,000 records/s by key on 24 of 25 TaskManagers, with a checkpoint every 10 s. One
TaskManager dies in the middle; its tasks start again in the slot of the spare one, and all others with them. The table
has CPU time, real time per run time and the peak of memory for the run with and without the failure, each in a process
of its own after a run that compiles. The third line is the same job with one record for ten: rates are divided by ten
and service times multiplied.

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

from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from scenarios.files.starter import FlinkJob, scenario_text
from sim.engine import simulate

_SLOTS = 24
_BUSY = 0.5
_MIB = 2**20


def scenario(minutes: float, rate_per_s: float, fails: bool, scale: int) -> Scenario:
    """The job; one simulated record stands for `scale`."""
    each_s = _BUSY * _SLOTS / rate_per_s * scale
    kill = {"kind": "host-failure", "host": "taskmanager-3", "at": f"{minutes / 2!r} min"}
    made: Scenario = scenario_from(
        {
            "engine": "flink",
            "duration": f"{minutes!r} min",
            "workload": {
                "records": {
                    "rate": f"{rate_per_s / scale!r} /s",
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
                    "state": {"model": "fixed", "bytes": "8 MB", "change": f"{100 * scale} B"},
                },
                "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
            },
            "hosts": {"taskmanager": {"count": _SLOTS + 1}},
            "fault_tolerance": {"interval": "10 s", "kind": "incremental", "remote": "500 MB/s"},
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
    raw = tomllib.loads(scenario_text(FlinkJob(rate_per_s, _BUSY, 40e9, changed, 6, 4, 60.0)))
    raw |= {
        "duration": f"{minutes!r} min",
        "replications": 1,
        "seed": seed,
        "recording": {"detail": "histograms"},
        "limits": {"memory": "64 GiB"},
    }
    counts = raw["operators"]["state"]
    raw["workload"]["events"]["rate"] = f"{rate_per_s / scale!r} /s"
    counts["service"]["mean"] = f"{_BUSY * _SLOTS / rate_per_s * scale!r} s"
    counts["state"]["change"] = f"{changed / (60 * rate_per_s) * scale!r} B"
    raw["events"]["kill"]["at"] = f"{minutes / 2!r} min"
    made: Scenario = scenario_from(raw)
    return made


def measured(job: str, minutes: float, *of: float) -> dict[str, float]:
    """The CPU time [s] and peak memory [MiB] of a run, and the total of its recovery [s]."""
    make = {"counts": scenario, "large": large}[job]
    simulate(make(min(1.0, minutes), *of))  # compiles
    began = time.process_time()
    found = simulate(make(minutes, *of))
    took = time.process_time() - began
    failures = found.tables["failures"]
    total_s = float((failures["caught_up_ns"] - failures["failed_ns"]).max(initial=0)) / 1e9
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MIB
    return {"took": took, "memory": memory, "total_s": total_s}


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
    print(f"{'':<30} {'CPU [s]':>8} {'x real time':>12} {'MiB':>7} {'recovery [s]':>13}")
    for what, job, minutes, *of in (
        ("no failure", "counts", given.minutes, given.rate, False, 1),
        ("a failure", "counts", given.minutes, given.rate, True, 1),
        ("a failure, one for ten", "counts", given.minutes, given.rate, True, 10),
        ("40 GB, a failure", "large", 10.0, 1),
        ("40 GB, one for ten", "large", 10.0, 10),
    ):
        command = [sys.executable, __file__, "--child", json.dumps([job, minutes, *of])]
        runs = []
        for _ in range(given.repeats):
            done = subprocess.run(command, env=os.environ, stdout=subprocess.PIPE, text=True, check=True)
            runs.append(json.loads(done.stdout.splitlines()[-1]))
        best = min(runs, key=lambda one: one["took"])
        ratio = minutes * 60 / best["took"]
        print(f"{what:<30} {best['took']:>8.2f} {ratio:>12.1f} {best['memory']:>7.0f} {best['total_s']:>13.1f}")


if __name__ == "__main__":
    main()
