"""Measure what is lost if one simulated record stands for many: recoveries of scenarios, both ways.

    .venv/bin/python benchmarks/scaled.py [--replications 24]

Rates are divided by n; service times, sizes of tuples and what a tuple changes in a state are multiplied. n services
with the law gamma of shape s together have the law gamma with n times the mean and shape n s; an exponential one has
shape 1. Sizes of states, links, heartbeats and intervals stay. n is ten in scenarios of the library; in the job of
`benchmarks/engines.py`, 6 minutes of 8,000 records/s on 24 tasks, it is 10, 50, 100 and 1,000. Printed are the mean
total of recoveries, with its 95 % interval over replications, and the relative difference.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from engines import scenario

from models import display
from models.scenario.reading import scenario_with
from models.scenario.scenario import Scenario
from scenarios.files.scenario import read_scenario, resolve
from scenarios.runs.run import run

_SCALED = {
    "flink-recovery": (
        "workload.clicks.rate=40 /s",
        'operators.counts.service={ distribution = "gamma", mean = "200 ms", shape = 10 }',
    ),
    "crash-recovery": (
        "workload.orders.rate=20 /s",
        "workload.orders.tuple=2 kB",
        'operators.totals.service={ distribution = "gamma", mean = "40 ms", shape = 20 }',
    ),
    "recovery-shootout": (
        "workload.sentences.rate=100 /s",
        "workload.sentences.tuple=1720 B",
        'operators.split.service={ distribution = "gamma", mean = "4 ms", shape = 10 }',
        'operators.count.service={ distribution = "gamma", mean = "15 ms", shape = 10 }',
        'operators.count.state={ model = "window", bytes = "10 kB", length = "20 s" }',
    ),
}
"""Library scenario -> what makes one of its records stand for ten."""


_FACTORS = (10, 50, 100, 1000)  # of the Flink job
_DELAY = {"distribution": "uniform", "low": "0 s", "high": "10 s"}


def recovery(of: Scenario, folder: Path, replications: int) -> tuple[float, float]:
    """Return the mean total of the recoveries and half of its interval [s]."""
    summary = run(scenario_with(of, {"replications": replications}), folder=folder).typed_summary
    total = next(one for one in summary.recovery_means if one.phase == "total")
    assert total.mean_s is not None
    assert total.ci95 is not None
    return total.mean_s, (total.ci95[1] - total.ci95[0]) / 2


def flink_job(factor: int) -> Scenario:
    """Return the job of `benchmarks/engines.py` with one record for `factor`, which fails at any phase."""
    return scenario_with(scenario(6.0, 8000.0, fails=True, scale=factor), {"events.kill.delay": _DELAY})


def show(name: str, whole: tuple[float, float], scaled: tuple[float, float]) -> None:
    """Print a line of the table."""
    shown = (display.plus_minus(*one, display.duration) for one in (whole, scaled))
    print(f"{name:<24} {' / '.join(shown)}  {display.share(scaled[0] / whole[0] - 1)}", flush=True)


def main() -> None:
    """Print a line for each scenario and factor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=24)
    replications = parser.parse_args().replications
    for name, changes in _SCALED.items():
        loaded = (read_scenario(resolve(name), [*made]) for made in ((), changes))
        whole, scaled = (recovery(one.scenario, one.folder, replications) for one in loaded)
        show(name, whole, scaled)
    whole = recovery(flink_job(1), Path(), replications)
    for factor in _FACTORS:
        show(f"8,000 /s, one for {factor:,}", whole, recovery(flink_job(factor), Path(), replications))


if __name__ == "__main__":
    main()
