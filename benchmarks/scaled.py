"""Measure what is lost if one simulated record stands for many: recoveries of scenarios, both ways.

    .venv/bin/python benchmarks/scaled.py [--replications 24]

`resolution` is 10 in scenarios of the library; in the job of `benchmarks/engines.py`, 6 minutes of 8,000 records/s on
24 tasks, it is 10, 50, 100 and 1,000. Printed are the mean total of recoveries, with its 95 % interval over
replications, and the relative difference. `holdfast reproduce live-migration` measures what it changes in a migration.
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

_SCALED = ("flink-recovery", "crash-recovery", "recovery-shootout")
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
    for name in _SCALED:
        loaded = (read_scenario(resolve(name), made) for made in ((), ("resolution=10",)))
        whole, scaled = (recovery(one.scenario, one.folder, replications) for one in loaded)
        show(name, whole, scaled)
    whole = recovery(flink_job(1), Path(), replications)
    for factor in _FACTORS:
        show(f"8,000 /s, one for {factor:,}", whole, recovery(flink_job(factor), Path(), replications))


if __name__ == "__main__":
    main()
