"""Measure what objectives of checkpoint allocation are worth: shares of assisted moves and usable checkpoints.

    .venv/bin/python benchmarks/allocation.py [--seeds 8] [--flights FILE] [--years 2008 2009 ...]

The airline experiment at the level of rates (`scenarios.studies.reproduce.airline`), with the bundled flights of 2017
or the years of another file. Each line is a setting: means over the seeds and, for `expected-usable`, its gain over
others in points with a 95 % interval over seeds (the same loads for all). A control that knows nothing of correlation
(`least-used`) belongs in every comparison.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from analysis.statistics import mean_of
from scenarios.studies.reproduce.airline import POLICIES, Outcome, experiment
from scenarios.studies.reproduce.flight_rates import Airline, flights
from scenarios.studies.study import flights as bundled

SETTINGS = {
    "steps": Airline(),
    "event": Airline(profile="event", utilisation=0.72),
    "const": Airline(profile="const", utilisation=0.75),
    "steps, fuller": Airline(utilisation=0.70),
    "busy samplers": Airline(sampler_utilisation=0.6),
    "one copy": Airline(copies=1),
}
GROUPS = (16, 32, 48)
OURS = "expected-usable"


def line(name: str, groups: int, found: dict[str, list[Outcome]]) -> None:
    """One setting: means of both shares, and gains in usable share."""
    means = " ".join(
        f"{policy} {fmean(one.share for one in runs):.2f}/{fmean(one.usable_share for one in runs):.2f}"
        for policy, runs in found.items()
    )
    print(f"{name}, K = {groups}: {means}", flush=True)
    for policy in ("literal", "tie-band", "least-used"):
        for what in ("share", "usable_share"):
            gains = [
                100 * (getattr(one, what) - getattr(other, what))
                for one, other in zip(found[OURS], found[policy], strict=True)
            ]
            mean = mean_of(gains)
            assert mean.mean is not None
            half = 0.0 if mean.ci95 is None else (mean.ci95[1] - mean.ci95[0]) / 2
            print(f"    {what:<14} over {policy:<11} {mean.mean:+6.1f} +- {half:.1f} points", flush=True)


def main() -> None:
    """Print all settings."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=100, help="seeds that nothing was tuned on")
    parser.add_argument("--flights", type=Path, default=bundled())
    parser.add_argument("--years", type=int, nargs="*", default=[2017])
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    for year in given.years:
        flown = flights(given.flights, year)
        print(f"{given.flights.name}, {year}: {flown.every.sum():,.0f} flights, {given.seeds} seeds")
        for name, setting in SETTINGS.items():
            for groups in GROUPS:
                line(name, groups, experiment(replace(setting, key_groups=groups), flown, POLICIES, seeds))


if __name__ == "__main__":
    main()
