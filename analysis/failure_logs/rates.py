"""Rates of failures: intervals, and whether hosts fail alike."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import FloatArray, IntArray

_LEVEL = 0.95


@dataclass(frozen=True)
class Spread:
    """Return the chi-square of failures by host over its degrees of freedom, about 1 where hosts are alike.

    p: how likely it is as great by chance (asymptotically; None for fewer than two hosts or one failure).
    """

    ratio: float | None
    p: float | None


def rate_interval(events: int, exposure: float) -> tuple[float, float]:
    """The 95 % interval of a rate after `events` in an exposure, of a Poisson process; exact (Garwood, 1936)."""
    from scipy.special import gammaincinv  # noqa: PLC0415 - slow to load

    tail = (1 - _LEVEL) / 2
    low = float(gammaincinv(events, tail)) / exposure if events else 0.0
    return low, float(gammaincinv(events + 1, 1 - tail)) / exposure


def mean_interval(values: FloatArray) -> tuple[float, float] | None:
    """The 95 % interval of a mean, by its standard error; None for fewer than two values."""
    if values.size < 2:
        return None
    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(values.size)
    return max(0.0, mean - 1.96 * error), mean + 1.96 * error


def spread_of(failures: IntArray, exposure: FloatArray) -> Spread:
    """Test whether hosts have one rate, by Pearson's chi-square on failures against up times."""
    from scipy.special import gammaincc  # noqa: PLC0415

    watched = exposure > 0
    failures, exposure = failures[watched], exposure[watched]
    total, freedom = float(failures.sum()), failures.size - 1
    if not total or freedom < 1:
        return Spread(None, None)
    expected = exposure * (total / exposure.sum())
    chi = float(((failures - expected) ** 2 / expected).sum())
    return Spread(chi / freedom, float(np.clip(gammaincc(freedom / 2, chi / 2), 0.0, 1.0)))
