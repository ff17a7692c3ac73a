"""Measure each piece of the search for checkpoint allocations: everything on, then without one piece at a time.

    .venv/bin/python benchmarks/ablation.py [GROUP ...] [--pieces PIECE ...] [--scale 1]

For each group of instances (rules of `allocation_instances.py`, fixed seeds) and each piece that can act there, the
mean and the largest gap, how many answers are proven optimal, and CPU time, beside those with everything on. Work is
limited by counts, and by a clock that is six times as patient, so that other load on the machine changes few gaps.
`--scale` times the work. Groups:

    small       20 x 192, kappa 0.1: the program and column generation
    assignment  generalised assignment, types C, D and E, 20 x 400: column generation
    middle      50 x 1,500 and 80 x 2,000, kappa 0.1: the largest sizes of column generation
    large       100 x 5,000 and 200 x 6,000, kappa 0.1: the Lagrangian heuristic
    reoptimise  100 x 5,000 after the capacity of one host changed, at most 50 moves, or 1,000
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from allocation_instances import assignment, factor_correlations, mean_correlations, random_correlations

from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from models.planning.solution import Status
from optimizer.checkpoint_allocation import solve
from optimizer.checkpoint_allocation.params import PIECES, Parameters

PATIENCE = 6.0
"""The time limit, in seconds for each second of work: counts end all but large programs."""
Case = tuple[CheckpointAllocation, CheckpointPlan | None, float]
"""A problem, a plan to begin with, and the work in seconds."""

SEARCH = {"smoothed dual", "linear core"}
COLUMNS = {"column generation", "dives", "master", "meet in the middle", "program first", "program last"}
QUICK = {"chains", "few pairs", "forced moves", "swaps"}
GROUPS: dict[str, set[str]] = {
    "small": SEARCH | COLUMNS | {"chains", "swaps"},
    "assignment": SEARCH | COLUMNS | QUICK,
    "middle": SEARCH | COLUMNS | QUICK,
    "large": SEARCH | QUICK | {"core dives", "iterated search"},
    "reoptimise": SEARCH | {"chains", "few pairs", "forced moves", "move prices", "swaps"},
}
"""The pieces that can act in a group."""


def small() -> Iterator[Case]:
    """20 x 192."""
    for make in (factor_correlations, mean_correlations):
        yield make(20, 192, 0.1, 0), None, 1.0


def generalised() -> Iterator[Case]:
    """Types C, D and E."""
    for kind in "CDE":
        yield assignment(kind, 20, 400, 0), None, 2.0


def middle() -> Iterator[Case]:
    """50 x 1,500 and 80 x 2,000."""
    yield factor_correlations(50, 1500, 0.1, 0), None, 2.0
    yield mean_correlations(50, 1500, 0.1, 0), None, 2.0
    yield mean_correlations(80, 2000, 0.1, 0), None, 2.0


def large() -> Iterator[Case]:
    """100 x 5,000 and 200 x 6,000."""
    yield factor_correlations(100, 5000, 0.1, 0), None, 5.0
    yield mean_correlations(100, 5000, 0.1, 0), None, 5.0
    yield mean_correlations(200, 6000, 0.1, 0), None, 5.0


def reoptimise() -> Iterator[Case]:
    """100 x 5,000 after one host lost or won a fifth of its capacity."""
    for make in (random_correlations, factor_correlations, mean_correlations):
        for kappa in (0.1, 0.5):
            problem = make(100, 5000, kappa, 0)
            plan = solved(problem, None, 1.0, PIECES)
            for share, moves in ((0.8, 50), (1.2, 50), (0.8, 1000)):
                capacity = np.array(problem.capacity)
                capacity[3] *= share
                changed: Any = {"capacity": capacity, "current": plan.assignment, "max_moves": moves}
                yield dataclasses.replace(problem, **changed), plan, 1.0


CASES: dict[str, Callable[[], Iterator[Case]]] = {
    "small": small, "assignment": generalised, "middle": middle, "large": large, "reoptimise": reoptimise,
}  # fmt: skip


@cache
def cases(group: str) -> list[Case]:
    """Return the instances of a group, made once."""
    return list(CASES[group]())


def solved(
    problem: CheckpointAllocation, plan: CheckpointPlan | None, work: float, pieces: frozenset[str]
) -> CheckpointPlan:
    """Return the plan that some pieces find with so much work."""
    parameters = Parameters(work_per_s=1 / PATIENCE, pieces=pieces)
    return solve(problem, time_limit_s=PATIENCE * work, hint=plan, parameters=parameters)


def measured(group: str, pieces: frozenset[str], scale: float) -> tuple[np.ndarray, int, float]:
    """Return the gaps [%], how many answers are proven optimal, and CPU time [s]."""
    gaps, optimal, cpu = [], 0, 0.0
    for problem, plan, work in cases(group):
        began = time.process_time()
        found = solved(problem, plan, scale * work, pieces)
        cpu += time.process_time() - began
        optimal += found.status is Status.OPTIMAL
        gaps.append(np.inf if found.gap is None else 100 * found.gap)
    return np.array(gaps), optimal, cpu


def show(group: str, only: set[str], scale: float) -> None:
    """Print the table of a group."""
    count = len(cases(group))
    print(f"\n{group}: {count} instances\n")
    print("| without | mean gap [%] | largest | optimal | CPU [s] | mean gap | CPU |\n|---|---|---|---|---|---|---|")
    every = measured(group, PIECES, scale)
    for piece in ["", *sorted(GROUPS[group] & only)]:
        gaps, optimal, cpu = measured(group, PIECES - {piece}, scale) if piece else every
        more, longer = gaps.mean() / every[0].mean() - 1, cpu / every[2] - 1
        row = f"{gaps.mean():.4f} | {gaps.max():.4f} | {optimal} | {cpu:.1f} | {100 * more:+.1f} %"
        print(f"| {piece or '(all on)'} | {row} | {100 * longer:+.0f} % |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("groups", nargs="*", choices=[*CASES, []], help="all when none is named")
    parser.add_argument("--pieces", nargs="+", default=sorted(PIECES), choices=sorted(PIECES))
    parser.add_argument("--scale", type=float, default=1.0, help="times the work")
    given = parser.parse_args()
    for group in given.groups or CASES:
        show(group, set(given.pieces), given.scale)


if __name__ == "__main__":
    main()
