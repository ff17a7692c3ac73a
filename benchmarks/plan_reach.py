"""Measure what plans of checkpoint allocation reach: gap to the proven bound, wall and CPU time, peak memory.

    .venv/bin/python benchmarks/plan_reach.py [SECTION ...] [--seeds 1] [--rival 0]

Instances follow the rules of `allocation_instances.py`. `--rival S` gives a generic solver (HiGHS on the plain
mixed-integer program, one thread) S seconds on the same instance, where the program fits into memory. Sections:

    tiny        20 checkpoints on 7 nodes, kappa from 0.1 to infinity
    small       20 nodes x 192 checkpoints, kappa 0.1, 0.2, 0.5, 1; 5 s, and 60 s what is not proven by then
    middle      100 x 5,000, kappa 0.1; 5 s
    equal       1,000 x 100,000, float32: no capacity; equal loads with kappa 0.1 and 0
    large       1,000 x 100,000, float32, kappa 0.1; 60 s
    assignment  generalised assignment problem, types C, D and E in the fifteen published sizes; 60 s
    reoptimise  100 x 5,000, kappa 0.1, 0.2, 0.5, 1, after the capacity of one host changed, at most 50 moves
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import resource
import time
from collections.abc import Callable

import numpy as np
from allocation_instances import GENERALISED, assignment, factor_correlations, mean_correlations, random_correlations

from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from models.planning.solution import Status, relative_gap
from optimizer.checkpoint_allocation import solve
from optimizer.common.solvers import quiet_stdout

FAMILIES = {"random": random_correlations, "factor": factor_correlations, "mean": mean_correlations}
RIVAL_PAIRS = 600_000
PUBLISHED = ((5, 100), (10, 100), (20, 100), (5, 200), (10, 200), (20, 200), (10, 400), (20, 400), (40, 400),
             (15, 900), (30, 900), (60, 900), (20, 1600), (40, 1600), (80, 1600))  # fmt: skip
"""Nodes and items of the instances of Yagiura, Ibaraki and Glover (2006)."""


def measured(name: str, problem: CheckpointAllocation, limit_s: float, rival_s: float) -> CheckpointPlan:
    """Solve and print one line; the rival's line below."""
    wall, cpu = time.perf_counter(), time.process_time()
    plan = solve(problem, time_limit_s=limit_s)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(
        f"{name:<34} {plan.status:<9} {_percent(plan.gap)} {wall:7.2f} s {cpu:7.2f} s CPU {_memory():6.0f} MB",
        flush=True,
    )
    if rival_s and problem.cost.size <= RIVAL_PAIRS and problem.capacity is not None:
        wall, cpu = time.perf_counter(), time.process_time()
        gap = rival(problem, rival_s)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(f"{'    HiGHS':<44} {_percent(gap)} {wall:7.2f} s {cpu:7.2f} s CPU", flush=True)
    return plan


def rival(problem: CheckpointAllocation, limit_s: float) -> float | None:
    """The gap that HiGHS says on the plain program; None without an answer."""
    from scipy import sparse  # noqa: PLC0415
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415

    j, n = np.nonzero(problem.allowed)
    columns = np.arange(len(j))
    once = sparse.csr_array((np.ones(len(j)), (j, columns)))
    loads = sparse.csr_array((problem.weights[j, n], (n, columns)), shape=(problem.n_nodes, len(j)))
    rules = [LinearConstraint(once, 1, 1), LinearConstraint(loads, -np.inf, problem.upper)]
    options = {"time_limit": limit_s, "mip_rel_gap": 0.0}
    with quiet_stdout():
        found = milp(
            problem.cost[j, n].astype(np.float64),
            integrality=np.ones(len(j)),
            bounds=Bounds(0, 1),
            constraints=rules,
            options=options,
        )
    return None if found.x is None else relative_gap(float(found.fun), float(found.mip_dual_bound))


def small(seeds: int, rival_s: float) -> None:
    """20 x 192; then how large gaps are after 5 s, and how many are proven in 60 s."""
    gaps, proven = [], 0
    for family, make in FAMILIES.items():
        for kappa in (0.1, 0.2, 0.5, 1.0):
            for seed in range(seeds):
                name, problem = f"20 x 192 {family} kappa {kappa} seed {seed}", make(20, 192, kappa, seed)
                plan = measured(name, problem, 5, 0)
                gaps.append(math.inf if plan.gap is None else plan.gap)
                if plan.status is not Status.OPTIMAL:
                    plan = measured(name, problem, 60, rival_s)
                proven += plan.status is Status.OPTIMAL
    print(f"{len(gaps)} of 20 x 192: gap in 5 s at most{_percent(max(gaps))}, {proven} proven optimal in 60 s")


def tiny(seeds: int, rival_s: float) -> None:
    """20 checkpoints on 7 nodes."""
    for kappa in (0.1, 0.2, 0.5, 1.0, math.inf):
        for family, make in FAMILIES.items():
            for seed in range(seeds):
                measured(f"20 x 7 {family} kappa {kappa} seed {seed}", make(7, 20, kappa, seed), 60, rival_s)


def middle(seeds: int, rival_s: float) -> None:
    """100 x 5,000; then the gaps of each family."""
    for family, make in FAMILIES.items():
        gaps = []
        for seed in range(seeds):
            plan = measured(f"100 x 5,000 {family} seed {seed}", make(100, 5000, 0.1, seed), 5, rival_s)
            gaps.append(math.inf if plan.gap is None else plan.gap)
        mean, most, within = sum(gaps) / seeds, max(gaps), sum(gap <= 0.0005 for gap in gaps)
        print(f"{family}: {within} of {seeds} within 0.05 %, on average{_percent(mean)}, at most{_percent(most)}")


def equal(seeds: int, rival_s: float) -> None:
    """1,000 x 100,000: separable, and equal loads."""
    for make in (random_correlations, factor_correlations):
        for kappa in (math.inf, 0.1, 0.0):
            for seed in range(seeds):
                name = f"{make.__name__.split('_')[0]} equal kappa {kappa} seed {seed}"
                measured(name, make(1000, 100_000, kappa, seed, equal=True, single=True), 60, rival_s)


def large(seeds: int, rival_s: float) -> None:
    """1,000 x 100,000."""
    for seed in range(seeds):
        for make in (random_correlations, factor_correlations):
            name = f"1,000 x 100,000 {make.__name__.split('_')[0]} seed {seed}"
            measured(name, make(1000, 100_000, 0.1, seed, single=True), 60, rival_s)
        problem = mean_correlations(1000, 100_000, 0.1, seed)
        problem = dataclasses.replace(problem, cost=problem.cost.astype(np.float32))
        measured(f"1,000 x 100,000 mean seed {seed}", problem, 60, rival_s)


def generalised(seeds: int, rival_s: float) -> None:
    """Types C, D and E; then the mean and the greatest gap."""
    gaps = []
    for nodes, items in PUBLISHED:
        for kind in GENERALISED:
            for seed in range(seeds):
                name, problem = f"type {kind} {nodes} x {items} seed {seed}", assignment(kind, nodes, items, seed)
                plan = measured(name, problem, 60, rival_s)
                gaps.append(math.inf if plan.gap is None else plan.gap)
    print(
        f"{len(gaps)} of types C, D, E: gap on average{_percent(sum(gaps) / len(gaps))}, at most{_percent(max(gaps))}"
    )


def reoptimise(seeds: int, rival_s: float) -> None:
    """100 x 5,000 after one host changed, from the plan before; then how many have a worse gap, or take long."""
    found = []
    for family, make in FAMILIES.items():
        for kappa in (0.1, 0.2, 0.5, 1.0):
            for seed in range(seeds):
                problem = make(100, 5000, kappa, seed)
                plan = measured(f"100 x 5,000 {family} kappa {kappa} seed {seed}", problem, 5, 0)
                found += [_changed(problem, plan, share) for share in (0.8, 1.2)]
    worse, cpu = np.array(found).T
    most = 100 * worse.max()
    print(f"{len(worse)} changes, {(worse > 1e-6).sum()} with a gap worse by over 0.0001 points, at most {most:.2g}")
    print(f"CPU {cpu.mean():.3f} s on average, {cpu.max():.3f} s at most, {(cpu <= 0.3).sum()} within 0.3 s")


def _changed(problem: CheckpointAllocation, plan: CheckpointPlan, share: float) -> tuple[float, float]:
    """By how much the gap is larger when one host has `share` of its capacity, and the CPU time [s]; prints both."""
    capacity = np.array(problem.capacity)
    capacity[3] *= share
    changed = dataclasses.replace(problem, capacity=capacity, current=plan.assignment, max_moves=50)
    wall, cpu = time.perf_counter(), time.process_time()
    again = solve(changed, hint=plan)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    moves = -1 if again.assignment is None else changed.moves(again.assignment)
    worse = math.inf if again.gap is None or plan.gap is None else again.gap - plan.gap
    times = f"{wall:.2f} s {cpu:.3f} s CPU"
    print(f"    one host x {share}: {_percent(again.gap)} ({100 * worse:+.5f}) {times}, {moves} moves", flush=True)
    return worse, cpu


SECTIONS: dict[str, Callable[[int, float], None]] = {
    "tiny": tiny, "small": small, "middle": middle, "equal": equal, "large": large,
    "assignment": generalised, "reoptimise": reoptimise,
}  # fmt: skip


def _percent(gap: float | None) -> str:
    return "  no answer" if gap is None else f"{100 * gap:9.5f} %"


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def main() -> None:
    """Print the sections."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="all when none is named")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rival", type=float, default=0.0, help="seconds for a generic solver on the same instance")
    given = parser.parse_args()
    for name in given.sections or SECTIONS:
        SECTIONS[name](given.seeds, given.rival)


if __name__ == "__main__":
    main()
