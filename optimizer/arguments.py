"""The arguments that every solver takes: a limit of time, the seed of its draws, and workers."""

from __future__ import annotations

import math

import numpy as np

from models.checked_arrays import CheckedArrays


def checked_limits(time_limit_s: float, seed: int, workers: int = 1) -> CheckedArrays:
    """The faults of these arguments, to which a solver adds those of its own before it raises them together."""
    check = CheckedArrays()
    if not (time_limit_s > 0 and math.isfinite(time_limit_s)):
        check.add("time_limit_s", time_limit_s, "must be a positive number of seconds")
    for name, value, least in (("seed", seed, 0), ("workers", workers, 1)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            check.add(name, value, f"must be a whole number, at least {least}")
    return check
