"""A placement from columns: as few of them as cover all sizes, by diving and by an exact model of limited size."""

from __future__ import annotations

import time

import numpy as np
from ortools.sat.python import cp_model

from models.checked_arrays import IntArray
from models.planning.placement import Placement
from optimizer.common.arguments import solver_seed
from optimizer.common.quiet import quiet_stdout
from optimizer.placement.columns import Columns, dive


def from_columns(
    problem: Placement, made: Columns, most: int, *, most_s: float, deadline: float, seed: int
) -> IntArray | None:
    """Hosts (n,) of at most `most` columns that have all sizes; None where there are none, or none were found.

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
    """At most `most` columns (sizes, .) that have all sizes, by CP-SAT."""
    left = deadline - time.monotonic()
    if left <= 0:
        return None
    model = cp_model.CpModel()
    times = [model.new_int_var(0, most, "") for _ in range(made.columns.shape[1])]
    for row, count in zip(made.columns, made.counts.tolist(), strict=True):
        model.add(cp_model.LinearExpr.weighted_sum(times, row.tolist()) >= count)
    model.add(sum(times) <= most)
    solver = cp_model.CpSolver()
    solver.parameters.catch_sigint_signal = False  # it would leave the signal to the system afterwards
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = solver_seed(seed)
    solver.parameters.max_deterministic_time = most_s
    solver.parameters.max_time_in_seconds = left
    with quiet_stdout():
        status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return np.repeat(made.columns, [solver.value(number) for number in times], axis=1)
