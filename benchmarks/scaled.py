"""Measure what is lost if one simulated record stands for ten: recoveries of library scenarios, both ways.

    .venv/bin/python benchmarks/scaled.py [--replications 24]

Rates are divided by ten; service times, sizes of tuples and what a tuple changes in a state are multiplied. Sizes of
states, links, heartbeats and intervals stay. Printed are the mean total of recoveries, with its 95 % interval over
replications, and the relative difference.
"""

from __future__ import annotations

import argparse

from models import display

_SCALED = {
    "flink-recovery": (
        "workload.clicks.rate=40 /s",
        'operators.counts.service={ distribution = "exponential", mean = "200 ms" }',
    ),
    "crash-recovery": (
        "workload.orders.rate=20 /s",
        "workload.orders.tuple=2 kB",
        'operators.totals.service={ distribution = "gamma", mean = "40 ms", shape = 2.0 }',
    ),
    "recovery-shootout": (
        "workload.sentences.rate=100 /s",
        "workload.sentences.tuple=1720 B",
        'operators.split.service={ distribution = "exponential", mean = "4 ms" }',
        'operators.count.service={ distribution = "exponential", mean = "15 ms" }',
        'operators.count.state={ model = "window", bytes = "10 kB", length = "20 s" }',
    ),
}
"""Library scenario -> what makes one of its records stand for ten."""


def recovery(name: str, changes: tuple[str, ...], replications: int) -> tuple[float, float]:
    """Return the mean total of the recoveries and half of its interval [s]."""
    from scenarios.files.scenario import read_scenario, resolve  # noqa: PLC0415
    from scenarios.runs.run import run  # noqa: PLC0415

    loaded = read_scenario(resolve(name), [*changes, f"replications={replications}"])
    summary = run(loaded.scenario, folder=loaded.folder).typed_summary
    total = next(one for one in summary.recovery_means if one.phase == "total")
    assert total.mean_s is not None
    assert total.ci95 is not None
    return total.mean_s, (total.ci95[1] - total.ci95[0]) / 2


def main() -> None:
    """Print a line for each scenario."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=24)
    replications = parser.parse_args().replications
    for name, changes in _SCALED.items():
        whole, scaled = (recovery(name, made, replications) for made in ((), changes))
        shown = (display.plus_minus(*one, display.duration) for one in (whole, scaled))
        print(f"{name:<18} {' / '.join(shown)}  {display.share(scaled[0] / whole[0] - 1)}", flush=True)


if __name__ == "__main__":
    main()
