"""Replay one schedule: `PYTHONPATH=tests python -m lab --protocol cpa --seed 17`, from the root of the project."""

from __future__ import annotations

import argparse
import sys

from lab.campaigns import drawn, drawn_shaped
from lab.mutants import MUTANTS
from lab.plans import SUBJECTS
from lab.report import command
from lab.schedule import Schedule, run
from lab.shrinking import shrunk


def main(arguments: list[str] | None = None) -> int:
    """Return 1 if the schedule is at fault."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=__doc__)
    parser.add_argument("--protocol", choices=SUBJECTS)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--shapes", action="store_true", help="draw it for another dataflow than a chain")
    parser.add_argument("--schedule", help="a line that a shrunk schedule was printed as")
    parser.add_argument("--mutant", help="break this on purpose", choices=[mutant.name for mutant in MUTANTS])
    parser.add_argument("--shrink", action="store_true", help="find a smaller schedule that is at fault")
    asked = parser.parse_args(arguments)
    if asked.schedule is None and (asked.protocol is None or asked.seed is None):
        parser.error("give --protocol and --seed, or --schedule")
    draw = drawn_shaped if asked.shapes else drawn
    schedule = Schedule.read(asked.schedule) if asked.schedule else draw(asked.protocol, asked.seed)
    tamper = next((mutant.tamper for mutant in MUTANTS if mutant.name == asked.mutant), None)
    result = run(schedule, tamper)
    print(f"{schedule.protocol}: {result.steps} steps, {'; '.join(result.faults) or 'nothing is wrong'}")
    if result.faults and asked.shrink:
        smaller, found = shrunk(schedule, tamper)
        print(f"shrunk to {found.steps} steps: {'; '.join(found.faults)}\n{command(smaller, asked.mutant)}")
    return 1 if result.faults else 0


if __name__ == "__main__":
    sys.exit(main())
