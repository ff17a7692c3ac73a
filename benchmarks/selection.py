"""Measure selections, migration steps and intervals: gap, time, memory, and a generic solver beside ours.

    .venv/bin/python benchmarks/selection.py [operators] [levels] [queries] [steps] [--scale 1] [--limit 60]

Each line: our status, proven gap, processor and wall time; then what generic solvers reach in the same time limit (of
OR-Tools or, for queries, HiGHS through SciPy and then CP-SAT), as the distance of the answer from our bound, and the
time. The memory is the peak of the process so far, generic solvers included.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from ortools.algorithms.python import knapsack_solver
from ortools.sat.python import cp_model
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, vstack

from models.planning.migration_steps import MigrationSteps
from models.planning.selection import OperatorSelection, QuerySelection
from models.planning.solution import relative_gap
from optimizer.migration_steps import solve as solve_steps
from optimizer.selection import solve


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """The answer, processor seconds and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    found = work()
    return found, time.process_time() - cpu, time.perf_counter() - wall


def line(name: str, ours: Callable[[], Any], *generic: Callable[[], float | None] | None) -> None:
    """Print one case: ours, then how far the answers of generic solvers are from our bound."""
    plan, cpu, wall = timed(ours)
    text = f"{name:<30} {plan.status.value:<9} gap {plan.gap:8.1e}  cpu {cpu:6.2f} s  wall {wall:6.2f} s"
    for other in filter(None, generic):
        value, other_cpu, _ = timed(other)
        off = relative_gap(value, plan.bound)
        text += f"  generic {'nothing' if off is None else f'{off:.1e}':>8}  cpu {other_cpu:6.2f} s"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{text}  {memory:5.0f} MB  {plan.note}", flush=True)


def classes(n: int, top: int, seed: int = 1) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Value and weight of the classes of Pisinger, "Where are the hard knapsack problems?" (2005)."""
    draw = np.random.default_rng(seed)
    weight, tenth = draw.integers(1, top + 1, n), top // 10
    return {
        "uncorrelated": (draw.integers(1, top + 1, n), weight),
        "weakly correlated": (np.maximum(1, weight + draw.integers(-tenth, tenth + 1, n)), weight),
        "strongly correlated": (weight + tenth, weight),
        "inverse strongly": (np.maximum(weight - tenth, 0), weight),
        "almost strongly": (weight + tenth + draw.integers(-top // 500, top // 500 + 1, n), weight),
        "subset sum": (weight, weight),
    }


def knapsack_by_ortools(problem: OperatorSelection, limit_s: float) -> float | None:
    """The value that the branch and bound of OR-Tools finds of a 0-1 problem of whole numbers."""
    kind = knapsack_solver.SolverType.KNAPSACK_MULTIDIMENSION_BRANCH_AND_BOUND_SOLVER
    solver = knapsack_solver.KnapsackSolver(kind, "generic")
    solver.set_time_limit(limit_s)
    value, weight = problem.value.astype(int).tolist(), problem.weight.astype(int).tolist()
    solver.init(value, [weight], [int(problem.capacity)])
    return float(solver.solve())


def operators(scale: float, limit_s: float) -> None:
    """0-1 knapsacks: real numbers, and the classes of whole ones."""
    for size in (10_000, 1_000_000):
        n = max(100, int(size * scale))
        draw = np.random.default_rng(n)
        problem = OperatorSelection(draw.random(n), draw.random(n), n / 4)
        line(f"real, {n:,}", lambda p=problem: solve(p, time_limit_s=limit_s), None)
    n = max(100, int(100_000 * scale))
    for top in (1_000, 1_000_000):
        for name, (value, weight) in classes(n, top).items():
            problem = OperatorSelection(value, weight, float(weight.sum() // 2))
            line(
                f"{name}, {n:,}, to {top:.0e}",
                lambda p=problem: solve(p, time_limit_s=limit_s),
                lambda p=problem: knapsack_by_ortools(p, limit_s),
            )


def levels(scale: float, limit_s: float) -> None:
    """Levels of replication: each further one is worth less."""
    for size, most in ((1_000, 3), (100_000, 3), (250_000, 4)):
        n = max(50, int(size * scale))
        draw = np.random.default_rng(n)
        weight = np.cumsum(draw.random((n, most)), axis=1)
        value = np.cumsum(np.sort(draw.random((n, most)), axis=1)[:, ::-1], axis=1)
        problem = OperatorSelection(value, weight, float(weight[:, -1].sum() / 3))
        line(f"levels, {n:,} x {most}", lambda p=problem: solve(p, time_limit_s=limit_s), None)


def sparse_queries(m: int, n: int, seed: int, popularity: float = 0.5) -> QuerySelection:
    """Queries of two to six operators, some of which are popular."""
    draw = np.random.default_rng(seed)
    share = np.arange(1, n + 1) ** -popularity
    sets = [np.unique(draw.choice(n, draw.integers(2, 7), p=share / share.sum())) for _ in range(m)]
    uses = np.array([(q, o) for q, each in enumerate(sets) for o in each])
    weight = draw.integers(10, 111, n)
    return QuerySelection(draw.integers(10, 111, m), weight, uses, float(int(0.4 * weight.sum())))


def dense_queries(m: int, n: int, size: int, seed: int) -> QuerySelection:
    """Queries with so many operators that any two share some."""
    draw = np.random.default_rng(seed)
    uses = np.array([(q, o) for q in range(m) for o in draw.choice(n, size, replace=False)])
    weight = draw.integers(1, 100, n)
    return QuerySelection(draw.integers(1, 100, m), weight, uses, float(weight.sum() // 2))


def drawn_pairs(m: int, n: int, density: float, room: float, seed: int) -> QuerySelection:
    """The rule of He, Xie, Wong and Wang (2018) for set-union knapsacks: a query uses each operator with a chance."""
    draw = np.random.default_rng(seed)
    uses = np.argwhere(draw.random((m, n)) < density)
    value, weight = draw.integers(1, 501, m), draw.integers(1, 501, n)
    return QuerySelection(value, weight, uses, float(int(room * weight.sum())))


def queries_by_highs(problem: QuerySelection, limit_s: float) -> float | None:
    """The value that HiGHS finds of the program as it stands, without cuts, filling or fixing."""
    m, n, pairs = problem.n_queries, problem.n_operators, len(problem.uses)
    rows = np.tile(np.arange(pairs), 2)
    columns = np.concatenate([problem.uses[:, 0], m + problem.uses[:, 1]])
    below = coo_array((np.repeat([1.0, -1.0], pairs), (rows, columns)), shape=(pairs, m + n))
    room = coo_array((problem.weight, (np.zeros(n, int), m + np.arange(n))), shape=(1, m + n))
    upper = np.concatenate([np.zeros(pairs), [problem.capacity]])
    found = milp(
        np.concatenate([-problem.value, np.zeros(n)]),
        constraints=LinearConstraint(vstack([below, room]).tocsc(), -np.inf, upper),
        integrality=1,
        bounds=Bounds(0, 1),
        options={"time_limit": limit_s, "mip_rel_gap": 0.0},
    )
    return None if found.x is None else problem.objective(found.x[:m] > 0.5)


def queries_by_cp_sat(problem: QuerySelection, limit_s: float) -> float | None:
    """The value that CP-SAT finds of the program as it stands, on one worker."""
    model = cp_model.CpModel()
    whole = [model.new_bool_var("") for _ in range(problem.n_queries)]
    taken = [model.new_bool_var("") for _ in range(problem.n_operators)]
    for q, o in problem.uses.tolist():
        model.add_implication(whole[q], taken[o])
    weights = problem.weight.astype(int).tolist()
    model.add(cp_model.LinearExpr.weighted_sum(taken, weights) <= int(problem.capacity))
    model.maximize(cp_model.LinearExpr.weighted_sum(whole, problem.value.astype(int).tolist()))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = limit_s
    status = solver.solve(model)
    return solver.objective_value if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None


def queries(scale: float, limit_s: float) -> None:
    """Query selections, sparse and dense; beside them HiGHS, then CP-SAT."""
    cases = {
        "200 on 150": sparse_queries(200, 150, 1),
        "5,000 on 16,000": sparse_queries(int(5_000 * scale), int(16_000 * scale), 1, 0.0),
        "5,000 on 8,000": sparse_queries(int(5_000 * scale), int(8_000 * scale), 1),
        "5,000 on 4,000": sparse_queries(int(5_000 * scale), int(4_000 * scale), 1),
        **{
            f"5,000 on 4,000, draw {seed}": sparse_queries(int(5_000 * scale), int(4_000 * scale), seed)
            for seed in (2, 3)
        },
        "5,000 on 2,000": sparse_queries(int(5_000 * scale), int(2_000 * scale), 1),
        "dense, 100 on 85, a tenth": drawn_pairs(100, 85, 0.1, 0.75, 1),
        "dense, 85 on 100, 0.15": drawn_pairs(85, 100, 0.15, 0.85, 1),
        "dense, 200 on 185, a tenth": drawn_pairs(200, 185, 0.1, 0.75, 1),
        "dense, 100 on 100, 12 each": dense_queries(100, 100, 12, 1),
        "dense, 100 on 100, 15 each": dense_queries(100, 100, 15, 2),
    }
    for name, problem in cases.items():
        line(
            f"queries, {name}",
            lambda p=problem: solve(p, time_limit_s=limit_s),
            lambda p=problem: queries_by_highs(p, limit_s),
            lambda p=problem: queries_by_cp_sat(p, limit_s),
        )


def steps(scale: float, limit_s: float) -> None:
    """Migration steps and schedules."""
    for hosts, size, duplex in ((100, 3_000, True), (1_000, 20_000, False), (1_000, 100_000, True)):
        moves = max(20, int(size * scale))
        draw = np.random.default_rng(moves)
        source = draw.integers(0, hosts, moves)
        pairs = np.c_[source, (source + draw.integers(1, hosts, moves)) % hosts]
        name = f"{moves:,} moves, {hosts:,} hosts{', duplex' if duplex else ''}"
        problem = MigrationSteps(pairs, duplex=duplex)
        line(f"steps, {name}", lambda p=problem: solve_steps(p, time_limit_s=limit_s), None)
        if moves <= 3_000:
            problem = MigrationSteps(pairs, draw.random(moves), np.ones(hosts), duplex=duplex)
            line(f"times, {name}", lambda p=problem: solve_steps(p, time_limit_s=limit_s), None)


SECTIONS = {"operators": operators, "levels": levels, "queries": queries, "steps": steps}


def main() -> None:
    """Print the sections asked for, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], default=[])
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of operators, queries and moves")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each answer")
    given = parser.parse_args()
    for name in given.sections or SECTIONS:
        SECTIONS[name](given.scale, given.limit)


if __name__ == "__main__":
    main()
