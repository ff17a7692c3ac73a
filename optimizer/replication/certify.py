"""Bounds of problems of replicas from their programs (`program`), by HiGHS.

Multipliers of the linear program prove what `Program.bound` computes of them, whatever solver they are from. With whole
y the program is stronger; of that only the dual bound of the solver counts, less an allowance.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from models.checked_arrays import FloatArray, frozen
from optimizer.quiet import quiet_stdout
from optimizer.replication.program import Program

_MOST_TERMS = 400_000  # beyond that there is no certificate
_MOST_WHOLE = 60_000  # and beyond that nothing with whole y
_NODES = 60
_ALLOWANCE = 1e-5  # of all costs together: the solver computes in floating point


def proven(program: Program, n_whole: int) -> tuple[float, FloatArray | None]:
    """(a lower bound of the objective, multipliers that prove it or less); the first `n_whole` columns are whole."""
    if not program.right or len(program.values) > _MOST_TERMS:
        return 0.0, None
    found = multipliers(program)
    least = 0.0 if found is None else program.bound(found)
    if len(program.values) <= _MOST_WHOLE:
        least = max(least, _with_whole(program, n_whole))
    return least, found


def multipliers(program: Program) -> FloatArray | None:
    """Multipliers of the rows (rows,), none below zero; None where the solver has none."""
    from scipy.optimize import linprog  # noqa: PLC0415 - slow to load

    scale = _scale(program)
    with quiet_stdout():
        found = linprog(
            np.array(program.costs) / scale,
            A_ub=-_matrix(program),
            b_ub=-np.array(program.right),
            bounds=(0.0, 1.0),
            method="highs",
        )
    if found.status != 0:
        return None
    return frozen(scale * np.maximum(0.0, -np.asarray(found.ineqlin.marginals, dtype=np.float64)))


def _with_whole(program: Program, n_whole: int) -> float:
    from scipy.optimize import Bounds as Between  # noqa: PLC0415 - slow to load
    from scipy.optimize import LinearConstraint, milp  # noqa: PLC0415

    scale = _scale(program)
    with quiet_stdout():
        found = milp(
            np.array(program.costs) / scale,
            constraints=LinearConstraint(_matrix(program), np.array(program.right), np.inf),
            integrality=(np.arange(len(program.costs)) < n_whole).astype(np.int64),
            bounds=Between(0.0, 1.0),
            options={"node_limit": _NODES, "mip_rel_gap": 0.0},
        )
    dual = getattr(found, "mip_dual_bound", None)
    if dual is None or not math.isfinite(dual):
        return 0.0
    allowance = _ALLOWANCE * (abs(program.constant) + math.fsum(map(abs, program.costs)))
    return max(0.0, program.constant + scale * float(dual) - allowance)


def _scale(program: Program) -> float:
    return max(map(abs, program.costs), default=0.0) or 1.0


def _matrix(program: Program) -> Any:
    from scipy.sparse import coo_array  # noqa: PLC0415

    shape = (len(program.right), len(program.costs))
    return coo_array((program.values, (program.rows, program.columns)), shape=shape).tocsr()
