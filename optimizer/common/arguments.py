"""The arguments that every solver takes: a limit of time, the seed of its draws, and workers."""

from __future__ import annotations

import math

import numpy as np

from models.checked_arrays import CheckedArrays
from models.schema_types import seed_faults


def checked_limits(time_limit_s: float, seed: int, workers: int = 1) -> CheckedArrays:
    """Return the faults of these arguments, to which a solver adds those of its own before it raises them together."""
    check = CheckedArrays()
    if not (time_limit_s > 0 and math.isfinite(time_limit_s)):
        check.add("time_limit_s", time_limit_s, "must be a positive number of seconds")
    check.faults.extend(seed_faults("seed", seed))
    if isinstance(workers, bool) or not isinstance(workers, (int, np.integer)) or workers < 1:
        check.add("workers", workers, "must be a whole number, at least 1")
    return check


def solver_seed(seed: int) -> int:
    """Return the seed that OR-Tools gets: it takes 31 bits."""
    return seed % 2**31
