"""Intervals for sampled probabilities; an event that was never seen is not impossible.

Sources: Wilson, *Probable inference* (Journal of the American Statistical Association 1927); Clopper and Pearson, *The
use of confidence or fiducial limits* (Biometrika 1934); Hanley and Lippman-Hand, *If nothing goes wrong, is everything
all right?* (JAMA 1983), for 3 / n.
"""

from __future__ import annotations

import math
from statistics import NormalDist

Interval = tuple[float, float]


def wilson(events: float, runs: float, level: float = 0.95) -> Interval:
    """Return Wilson's score interval; `at_most` if no run, or every run, was an event.

    `events` and `runs` may be effective numbers of dependent or weighted runs, not whole.

    >>> [round(x, 4) for x in wilson(10, 1000)]
    [0.0054, 0.0183]
    """
    if events <= 0:
        return 0.0, at_most(runs, level)
    if events >= runs:
        return 1 - at_most(runs, level), 1.0
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, scale = events / runs, 1 + z * z / runs
    middle = share + z * z / (2 * runs)
    half = z * math.sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs))
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def clopper_pearson(events: int, runs: int, level: float = 0.95) -> Interval:
    """Return the interval that covers with at least this probability, whatever the truth; `at_most` as in `wilson`.

    >>> [round(x, 5) for x in clopper_pearson(10, 1000)]
    [0.00481, 0.01831]
    """
    from scipy.special import betaincinv  # noqa: PLC0415 - slow to load

    if events <= 0:
        return 0.0, at_most(runs, level)
    if events >= runs:
        return 1 - at_most(runs, level), 1.0
    tail = (1 - level) / 2
    low = float(betaincinv(events, runs - events + 1, tail))
    return low, float(betaincinv(events + 1, runs - events, 1 - tail))


def at_most(runs: float, level: float = 0.95) -> float:
    """Return the largest probability that leaves 1 - level for seeing nothing in so many runs: about 3 / runs.

    >>> round(at_most(1000) * 1000, 2)
    2.99
    """
    return -math.expm1(math.log1p(-level) / runs) if runs > 0 else 1.0


def effective(mean: float, variance: float, runs: float) -> Interval:
    """Return (events, runs) of independent yes-or-no runs with this mean and this variance of the mean's estimate.

    For the mean of a share in [0, 1], and for weighted runs: `wilson` of these stays in [0, 1] and is not empty.
    """
    spread = mean * (1 - mean)
    count = runs if variance <= 0 or spread <= 0 else spread / variance
    return mean * count, count
