"""A lower bound of the largest chance that a query is broken, where that is to be small: a covering program.

For a target u every query may leave uncovered hosts of at most t = -log(1 - u) together (see `bounds`):

    minimise   sum load[o] y[o]
    subject to sum over covers k of q: t[q, k] (1 - z[q, k]) <= -log(1 - u)   for each query q whose base is below u
               z[q, k] <= y[o]                                                for each operator o of cover k
               sum over o: y[o] <= max_replicas

A target whose least load is above the budget cannot be reached. The targets that can make a difference are those at
which a query may leave one more set of its covers; bisection finds the first that is not excluded.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from models.planning.replicas.problem import ReplicaProblem
from optimizer.common.quiet import quiet_stdout
from optimizer.replicas.bounds import Bounds, Cover
from optimizer.replicas.certify import left_s

_MOST_COVERS = 12  # of a query, for which all sets of open covers are listed
_NODES = 2_000
_ALLOWANCE = 1e-6  # of the bound of a solver that computes in floating point
_SLACK = 1e-9


def worst_bound(bounds: Bounds, budget: float, deadline: float = math.inf) -> tuple[float, list[Cover]]:
    """A lower bound of the largest chance within the budget, and covers that reach it if all find room.

    After the deadline, one of time.monotonic, the bound is the highest that was proven until then.
    """
    targets = _targets(bounds)
    low, high = 0, len(targets) - 1
    covers: list[Cover] = []
    while low < high and time.monotonic() < deadline:
        middle = (low + high) // 2
        cost, found = _least_load(bounds, targets[middle], deadline)
        if cost > budget + bounds.problem.slack:
            low = middle + 1
        else:
            high, covers = middle, found
    return targets[low] * (1 - 1e-12), covers


def _targets(bounds: Bounds) -> list[float]:
    """The values that the bound of the worst query can have, ascending."""
    floor = max(one.base for one in bounds.queries)
    found = {floor}
    for one in bounds.queries:
        sizes = range(len(one.times) + 1) if len(one.times) <= _MOST_COVERS else (len(one.times),)
        for size in sizes:
            for chosen in combinations(one.times, size):
                found.add(max(floor, -math.expm1(-math.fsum(chosen))))
    return sorted(found)


def _least_load(bounds: Bounds, target: float, deadline: float) -> tuple[float, list[Cover]]:
    """A lower bound of the load that this target takes, and covers for it; infinite where none do."""
    from scipy.optimize import Bounds as Between  # noqa: PLC0415 - slow to load
    from scipy.optimize import LinearConstraint, milp  # noqa: PLC0415
    from scipy.sparse import coo_array  # noqa: PLC0415

    problem = bounds.problem
    number = {cover: k for k, cover in enumerate(bounds.covers)}
    n, m = problem.n_operators, len(bounds.covers)
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    upper: list[float] = []
    allowed = -math.log1p(-min(target, 1 - 1e-12)) * (1 + _SLACK) + 1e-15
    for one in bounds.queries:
        fixed = math.fsum(t for t, cover in zip(one.times, one.covers, strict=True) if cover not in number)
        if fixed > allowed:
            return math.inf, []
        row = len(upper)
        mine = [(t, number[cover]) for t, cover in zip(one.times, one.covers, strict=True) if cover in number]
        for t, k in mine:
            rows, columns, values = [*rows, row], [*columns, n + k], [*values, -t]
        upper.append(allowed - fixed - math.fsum(t for t, _ in mine))
    for k, cover in enumerate(bounds.covers):
        for o in sorted(cover):
            rows, columns, values = [*rows, len(upper), len(upper)], [*columns, n + k, o], [*values, 1.0, -1.0]
            upper.append(0.0)
    if problem.max_replicas is not None:
        rows, columns, values = [*rows, *[len(upper)] * n], [*columns, *range(n)], [*values, *[1.0] * n]
        upper.append(float(problem.max_replicas))
    matrix = coo_array((values, (rows, columns)), shape=(len(upper), n + m)).tocsc()
    with quiet_stdout():
        found = milp(
            np.concatenate([problem.load, np.zeros(m)]),
            constraints=LinearConstraint(matrix, -np.inf, np.array(upper)),
            integrality=np.concatenate([np.ones(n), np.zeros(m)]),
            bounds=Between(0.0, 1.0),
            options={"node_limit": _NODES, "mip_rel_gap": 0.0, "time_limit": left_s(deadline)},
        )
    if found.status == 2:
        return math.inf, []
    least = getattr(found, "mip_dual_bound", None)
    covers = [] if found.x is None else _covers(problem, bounds.covers, found.x[:n] > 0.5)
    if least is None or not math.isfinite(least):
        return 0.0, covers
    return float(least) - _ALLOWANCE * max(1.0, abs(float(least))), covers


def _covers(problem: ReplicaProblem, covers: Sequence[Cover], chosen: np.ndarray) -> list[Cover]:
    return [cover for cover in covers if all(chosen[o] for o in cover)]
