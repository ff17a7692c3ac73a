"""How long runs with a rebalance take: Grid as in the paper, and a job of a user's size.

    .venv/bin/python benchmarks/rebalances.py grid [--repeats 5]
    .venv/bin/python benchmarks/rebalances.py user [--minutes 48] [--protocol ccr]

`grid`: 12 minutes of `rebalance-grid`, after compilation; with DSM also the seeds in which it never settles, with all
their replays. `user`: `user-rebalance` with acker and waves every 30 s, each protocol in a process of its own: how many
times as fast as the simulated time it runs, and its largest memory.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time

from data_plane import at_least, at_most, line

_PROTOCOLS = ("dsm", "dcr", "ccr")
_SHORT = 3.0  # minutes, with the rebalance


def grid(repeats: int) -> None:
    """Print the time of a run with each protocol, and of a run that does not settle."""
    from scenarios.studies.reproduce.rapid_elasticity import Rebalanced  # noqa: PLC0415

    Rebalanced("linear", "dsm", False, 0).run()  # imports, compilation
    for protocol in _PROTOCOLS:
        took = []
        for seed in range(repeats):
            one = Rebalanced("grid", protocol, False, seed, pending=240 if protocol == "dsm" else None)  # type: ignore[arg-type]
            began = time.perf_counter()
            one.run()
            took.append(time.perf_counter() - began)
        at_most(f"12 min of Grid, {protocol}", statistics.median(took), 0.5, "s")
    most, slowest = 0, 0.0
    for seed in range(24):
        one = Rebalanced("grid", "dsm", False, seed)
        began = time.perf_counter()
        replayed = one.run()["replayed"]
        took_s = time.perf_counter() - began
        if replayed > most:
            most, slowest = replayed, took_s
    at_most(f"12 min of Grid with {most:,} replays", slowest, 2.0, "s")


def user(minutes: float, protocol: str) -> None:
    """Print how fast the job of a user's size runs with a protocol, and its memory."""
    if minutes > _SHORT:  # compile in a process of its own: compilation takes some 300 MB
        words = ["user", "--minutes", str(_SHORT), "--protocol", protocol]
        subprocess.run([sys.executable, __file__, *words], check=True, stdout=subprocess.DEVNULL)
    from models.scenario.inputs import RunInputs  # noqa: PLC0415
    from scenarios.files.scenario import read_scenario, resolve  # noqa: PLC0415
    from sim.engine import prepare, simulate  # noqa: PLC0415

    settings = [f"duration={minutes * 60:g} s", f"events.move.protocol={protocol}", "recording.detail=histograms"]
    settings += ["waves.interval=30 s"] if protocol == "dsm" else []
    loaded = read_scenario(resolve("user-rebalance"), settings)
    prepare(loaded.scenario, RunInputs())
    began = time.perf_counter()
    simulate(loaded.scenario)
    took_s = time.perf_counter() - began
    at_least(f"{minutes:g} min of user-rebalance, {protocol}, times real time", minutes * 60 / took_s, 20)
    at_most("largest memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 1.0, "GB")


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("grid", "user"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=48.0, help="simulated")
    parser.add_argument("--protocol", choices=_PROTOCOLS, help="one alone, in this process")
    given = parser.parse_args()
    if given.what == "grid":
        grid(given.repeats)
    elif given.protocol:
        user(given.minutes, given.protocol)
    else:
        for protocol in _PROTOCOLS:
            line("", "")
            # Memory is measured by process.
            words = ["user", "--minutes", str(given.minutes), "--protocol", protocol]
            subprocess.run([sys.executable, __file__, *words], check=True)


if __name__ == "__main__":
    main()
