"""Bounds of problems of replicas from their programs (`optimizer.verify.replica_program`), by HiGHS.

Multipliers of the linear program prove what `Program.bound` computes of them, whatever solver they are from. With whole
columns the program is stronger; of that only the dual bound of the solver counts, less an allowance, and its solution
is one more plan for the search to start from.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.checked_arrays import FloatArray, frozen
from optimizer.common.solvers import left_s, linear_program, mixed_integer_program, sparse_matrix
from optimizer.verify.replica_program import Program

_MOST_TERMS = 400_000  # beyond that there is no certificate
_MOST_WHOLE = 60_000  # and beyond that nothing with whole y
_NODES = 60
_ALLOWANCE = 1e-5  # of all costs together: the solver computes in floating point


@dataclass(frozen=True)
class Proof:
    """A lower bound of the objective, multipliers that prove it or less, and the best whole solution, if any."""

    bound: float = 0.0
    multipliers: FloatArray | None = None
    columns: FloatArray | None = None


def proven(program: Program, deadline: float = math.inf) -> Proof:
    """Return what the solver proves until the deadline, one of time.monotonic."""
    if not program.right or len(program.values) > _MOST_TERMS or time.monotonic() >= deadline:
        return Proof()
    found = multipliers(program, deadline)
    least = 0.0 if found is None else program.bound(found)
    if len(program.values) > _MOST_WHOLE or time.monotonic() >= deadline:
        return Proof(least, found)
    whole, columns = _with_whole(program, deadline)
    return Proof(max(least, whole), found, columns)


def multipliers(program: Program, deadline: float = math.inf) -> FloatArray | None:
    """Return multipliers of the rows (rows,), none below zero; None where the solver has none."""
    scale = _scale(program)
    found = linear_program(
        np.array(program.costs) / scale,
        at_most=(-_matrix(program), -np.array(program.right)),
        bounds=(0.0, 1.0),
        limit_s=left_s(deadline),
    )
    return frozen(scale * np.maximum(0.0, -found.dual_at_most)) if found.is_optimal else None


def _with_whole(program: Program, deadline: float) -> tuple[float, FloatArray | None]:
    """Return a lower bound of the program with whole columns, and the columns of its best solution."""
    scale = _scale(program)
    found = mixed_integer_program(
        np.array(program.costs) / scale,
        [(_matrix(program), np.array(program.right), np.inf)],
        nodes=_NODES,
        limit_s=left_s(deadline),
    )
    columns = None if found.x is None else frozen(found.x)
    if found.bound is None:
        return 0.0, columns
    allowance = _ALLOWANCE * (abs(program.constant) + math.fsum(map(abs, program.costs)))
    return max(0.0, program.constant + scale * found.bound - allowance), columns


def _scale(program: Program) -> float:
    return max(map(abs, program.costs), default=0.0) or 1.0


def _matrix(program: Program) -> Any:
    shape = (len(program.right), len(program.costs))
    return sparse_matrix(program.values, program.rows, program.columns, shape)
