"""Measure a small run: beside its tuples, with them, and in a sweep that stores it. Run it alone on the machine:

    .venv/bin/python benchmarks/small_runs.py [--runs 300] [--repeats 5]

The run is a replication of `crash-recovery`: 12,000 tuples, a failure, and four key groups that recover. All figures
are CPU times on one core. `beside its tuples` is the same run with a tuple a second.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from data_plane import at_most, line

_SCENARIO = "crash-recovery"
_FEW = "workload.orders.rate=1 /s"
_HOUR_S, _CORES, _MILLION = 3600, 16, 1_000_000


def replications(settings: list[str], repeats: int) -> float:
    """Return the CPU time of a replication [ms], the median of some turns of ten."""
    from scenarios.files.scenario import read_scenario, resolve  # noqa: PLC0415
    from scenarios.runs.inputs import checked  # noqa: PLC0415
    from sim.engine import simulate  # noqa: PLC0415

    loaded = read_scenario(resolve(_SCENARIO), settings)
    scenario, inputs = checked(loaded.scenario, loaded.folder)
    simulate(scenario, inputs)  # imports, compilation
    took = []
    for _ in range(repeats):
        began = time.process_time()
        for replication in range(10):
            simulate(scenario, inputs, replication)
        took.append((time.process_time() - began) / 10 * 1e3)
    return statistics.median(took)


def sweep(runs: int) -> float:
    """Return the CPU time of a run of a sweep [ms], with its results stored and the worker's start."""
    from scenarios.files.scenario import read_scenario, resolve  # noqa: PLC0415
    from scenarios.sweeps.sweep import sweep as run_sweep  # noqa: PLC0415

    values = '\n[sweep]\n"fault_tolerance.interval" = ["2 s", "4 s", "8 s"]\n'
    text = resolve(_SCENARIO).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sweep.toml"
        made = text.replace("replications = 2", f"replications = {runs // 3}")
        assert made != text
        file.write_text(made + values, encoding="utf-8")
        began = os.times()
        run_sweep(read_scenario(file), Path(folder) / "out", workers=1)
        ended = os.times()
    return (sum(ended[:4]) - sum(began[:4])) / (runs // 3 * 3) * 1e3


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300, help="of the sweep")
    parser.add_argument("--repeats", type=int, default=5, help="turns of which the median counts")
    given = parser.parse_args()
    at_most("a replication, beside its tuples", replications([_FEW], given.repeats), 5, "ms")
    line("a replication of crash-recovery", f"{replications([], given.repeats):.3g} ms")
    at_most(
        "a run of a sweep, stored (a million an hour on 16 cores)",
        sweep(given.runs),
        _HOUR_S * _CORES * 1e3 / _MILLION,
        "ms",
    )


if __name__ == "__main__":
    main()
