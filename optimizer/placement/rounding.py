"""Placements from columns: as few of them as cover all sizes, by diving and by an exact model of limited size.

    minimise nothing   subject to   sum_s a[t,s] z[s] >= n[t] for each size t,   sum_s z[s] <= most,   z whole

The columns are those that the bound was made of (`columns`); the rules decide whether a placement is used.
"""

from __future__ import annotations

import time

import numpy as np
from ortools.sat.python import cp_model

from models.checked_arrays import IntArray
from models.planning.placement import Placement
from optimizer.common.solvers import solve_cp
from optimizer.placement.columns import Columns, dive


def from_columns(
    problem: Placement, made: Columns, most: int, *, most_s: float, deadline: float, seed: int
) -> IntArray | None:
    """Return hosts (n,) of at most `most` columns that have all sizes; None if none was found.

    Only what is counted in columns is kept: the rules are to be checked. Hosts are numbered from 0.
    """
    more, taken = dive(made, most, deadline)
    if taken is None:
        taken = _fewest(more, most, most_s, deadline, seed)
    if taken is None:
        return None
    waiting = [np.flatnonzero(made.size_of == t).tolist() for t in range(len(made.sizes))]
    host = np.full(problem.n_instances, -1, dtype=np.int64)
    for h, column in enumerate(taken.T.tolist()):
        for t, copies in enumerate(column):
            for _ in range(min(copies, len(waiting[t]))):
                host[waiting[t].pop()] = h
    return host


def _fewest(made: Columns, most: int, most_s: float, deadline: float, seed: int) -> IntArray | None:
    """Return at most `most` columns (sizes, .) that have all sizes, by CP-SAT."""
    left = deadline - time.monotonic()
    if left <= 0:
        return None
    model = cp_model.CpModel()
    times = [model.new_int_var(0, most, "") for _ in range(made.columns.shape[1])]
    for row, count in zip(made.columns, made.counts.tolist(), strict=True):
        model.add(cp_model.LinearExpr.weighted_sum(times, row.tolist()) >= count)
    model.add(sum(times) <= most)
    answer = solve_cp(model, deterministic_s=most_s, limit_s=left, seed=seed)
    return np.repeat(made.columns, answer.values(times), axis=1) if answer.found else None
