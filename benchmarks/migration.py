"""Measure a large job of which a quarter of the bins moves in steps. Run it alone on the machine:

    .venv/bin/python benchmarks/migration.py [--repeats 2] [--only "query 4"]

4 million records/s come from 16 tasks to one stateful operator of 16 tasks with 4,096 bins of 8 MB, on 4 machines. A
quarter of the bins has moved before any record comes, and moves back beside the load (`bin_moves`): `optimised` in 128
steps, `fluid` in 1,024. The table has CPU time, real time per run time and the peak of memory of the part with load,
each in a process of its own after a run that compiles. Two lines have one record for ten; two have no migration beside
the load, of which one has no event at all, so that the scan has the run.

The lines of query 4 are NEXMark's: 250,000 events/s for 1,200 s, of which auctions live for half a day on average and
keep their bids, and a quarter of the bins moves `optimised` after 400 s and after 800 s. One record stands for several
(`resolution`): at most ten million auctions are simulated.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_with
from models.scenario.scenario import Scenario
from scenarios.files.scenario import read_scenario, resolve
from scenarios.planning.reconfiguration import optimised_steps
from scenarios.studies.reproduce.bin_moves import BinMove
from sim.engine import simulate

_MIB = 2**20
_STATE = 8 * 1.049 * 1e6  # of a bin: 1 million keys
_TASKS = 16
_OPTIMISED, _FLUID = (BinMove(name, _STATE, resolution=1) for name in ("optimised", "fluid"))
_SECONDS = 1200.0  # of query 4
_LINES: tuple[tuple[str, BinMove, str], ...] = (
    ("no migration, no event", _OPTIMISED, "none"),
    ("no migration beside the load", _OPTIMISED, "there"),
    ("optimised", _OPTIMISED, "both"),
    ("fluid", _FLUID, "both"),
    ("optimised, one for ten", replace(_OPTIMISED, resolution=10), "both"),
    ("fluid, one for ten", replace(_FLUID, resolution=10), "both"),
)


def scenario(move: BinMove, events: str, seconds: float | None = None) -> Scenario:
    """Return the job with histograms; `events`: none, there, or both. `seconds` with load, else until all is over."""
    made = move.scenario()
    changes: dict[str, Any] = {
        "recording": {"detail": "histograms"},
        "operators.records.parallelism": _TASKS,
        "limits.time": "10 h",
        "limits.memory": "64 GB",
    }
    if events != "both":
        kept = made.events if events == "there" else {}
        changes["events"] = {name: one for name, one in kept.items() if name == "there"}
    if seconds is not None:
        changes["duration"] = f"{move.begin_s + seconds!r} s"
    return scenario_with(made, changes)


_QUERIES = {"query 4, one for ten": 10, "query 4, one for four": 4}  # and how many events a record stands for


def query(stands_for: int, seconds: float) -> Scenario:
    """Return NEXMark's query 4 on 4 machines of 4 tasks, with the auctions and sizes of the published experiment."""
    loaded = read_scenario(resolve("nexmark-q4"), ["design=published", f"resolution={stands_for}"]).scenario
    changes: dict[str, Any] = {
        "designs.published.duration": f"{seconds!r} s",
        'designs.published."events.there.at"': f"{seconds / 3!r} s",
        'designs.published."events.back.at"': f"{seconds / 1.5!r} s",
        "recording.detail": "histograms",
        "limits": {"time": "10 h", "memory": "64 GB"},
    }
    return scenario_with(loaded, changes)


def line_of(line: int, seconds: float | None) -> tuple[Scenario, float]:
    """Return the run of a line, and when its load begins [s]."""
    if line < len(_LINES):
        _, move, events = _LINES[line]
        return scenario(move, events, seconds), move.begin_s
    return query([*_QUERIES.values()][line - len(_LINES)], seconds or _SECONDS), 0.0


def measured(line: int, seconds: float | None) -> dict[str, Any]:
    """Return CPU time [s] of a run, the time with load that it simulated [s], memory [MiB] and kernel."""
    for given in (1.1, seconds):  # the first compiles
        made, begin_s = line_of(line, given)
        inputs = RunInputs(steps=optimised_steps(made, {}))
        began = time.process_time()
        found = simulate(made, inputs)
        took = time.process_time() - began
    assert found.kernel is not None
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MIB
    return {
        "took": took,
        "loaded": made.duration_s - begin_s,
        "memory": memory,
        "kernel": found.kernel.name,
        "steps": len(found.tables["reconfigurations"]["step"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2, help="runs, of which the shortest counts")
    parser.add_argument("--seconds", type=float, help="with load, in place of all that it takes; at least 10 was asked")
    parser.add_argument("--only", default="", help="lines whose names have this in them")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        print(json.dumps(measured(given.child, given.seconds)))
        return
    print(f"{'':<30} {'CPU [s]':>8} {'with load [s]':>14} {'x real time':>12} {'MiB':>7} {'kernel':>12}")
    for number, what in enumerate((*(what for what, _, _ in _LINES), *_QUERIES)):
        if given.only not in what:
            continue
        command = [sys.executable, __file__, "--child", str(number)]
        command += [] if given.seconds is None else ["--seconds", str(given.seconds)]
        runs = []
        for _ in range(given.repeats):
            done = subprocess.run(command, env=os.environ, stdout=subprocess.PIPE, text=True, check=True)
            runs.append(json.loads(done.stdout.splitlines()[-1]))
        best = min(runs, key=lambda one: one["took"])
        ratio = best["loaded"] / best["took"]
        print(
            f"{what:<30} {best['took']:>8.2f} {best['loaded']:>14.2f} {ratio:>12.2f} {best['memory']:>7.0f}"
            f" {best['kernel']:>12}",
            flush=True,
        )


if __name__ == "__main__":
    main()
