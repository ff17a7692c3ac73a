"""Measure what the scenarios of the library cost, and say which kernel they get. Run it alone on the machine:

    .venv/bin/python benchmarks/library.py [NAME ...] [--times 10] [--repeats 3] [--before TREE]

Each scenario runs for ten times its duration, one replication, in a process of its own after a run that compiles. The
figure is the least CPU time of some runs, from description to rows. With `--before` the code of another checkout takes
turns with this one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
LONG = {"user-rebalance": 0.25}  # times: ten times its duration takes a quarter of an hour


def measured(name: str, times: float) -> dict[str, Any]:
    """Return the CPU times [s] of a run of the scenario's own duration and of a longer one, and its kernel."""
    from scenarios.files.scenario import read_scenario, resolve  # noqa: PLC0415
    from scenarios.runs.inputs import checked  # noqa: PLC0415
    from sim.engine import simulate  # noqa: PLC0415

    file = resolve(name)
    plain = read_scenario(file)
    settings = [f"duration={plain.scenario.duration_s * times:g} s", "limits.memory=64 GiB"]
    loaded = read_scenario(file, settings)
    scenario, inputs = checked(loaded.scenario, loaded.folder)
    short = min(plain.scenario.duration_s, scenario.duration_s)
    simulate(scenario.model_copy(update={"duration_s": short}), inputs)  # compiles
    cost = []
    for length in (short, scenario.duration_s):
        made = scenario.model_copy(update={"duration_s": length})
        began = time.process_time()
        records = simulate(made, inputs)
        cost.append(time.process_time() - began)
    assert records.kernel is not None
    return {"short": cost[0], "long": cost[1], "kernel": records.kernel.name, "why": records.kernel.why}


def child(tree: Path, name: str, times: float) -> dict[str, Any]:
    """Return what `measured` does in a process with the code of a tree."""
    command = [sys.executable, __file__, "--child", json.dumps([name, times])]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    done = subprocess.run(command, env=environment, cwd=tree, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print a line for each scenario."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="all of the library without")
    parser.add_argument("--times", type=float, default=10.0, help="the duration of the scenario")
    parser.add_argument("--repeats", type=int, default=3, help="processes, of which the least time counts")
    parser.add_argument("--before", type=Path, help="another checkout")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measured(*json.loads(given.child))))
        return
    names = given.names or sorted(path.stem for path in (HERE / "scenarios" / "library").glob("*.toml"))
    print(f"{'':<22} {'own [ms]':>9} {f'x {given.times:g} [ms]':>11} {'before':>8} {'faster':>7}  kernel")
    for name in names:
        turns: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
        for _ in range(given.repeats):
            times = LONG.get(name, given.times)
            turns[False].append(child(HERE, name, times))
            if given.before:
                turns[True].append(child(given.before.resolve(), name, times))
        now = {what: min(one[what] for one in turns[False]) for what in ("short", "long")}
        before = min((one["long"] for one in turns[True]), default=None)
        cells = f"{name:<22} {now['short'] * 1e3:>9,.0f} {now['long'] * 1e3:>11,.0f}"
        cells += " " * 17 if before is None else f" {before * 1e3:>8,.0f} {before / now['long']:>6.1f}x"
        print(f"{cells}  {turns[False][0]['kernel']}: {turns[False][0]['why']}", flush=True)


if __name__ == "__main__":
    main()
