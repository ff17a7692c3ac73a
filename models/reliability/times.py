"""From times between failures to probabilities, and from probabilities to downtime.

Sources: Trivedi and Bobbio, *Reliability and Availability Engineering* (2017), for the steady state; the day model is
that of Adaptive selective replication (VLDB PhD workshop 2013): a host that fails stays down for the rest of the day.

The second half has confidence intervals for sampled probabilities, in which an event that was never seen is not
impossible. Sources: Wilson, *Probable inference* (Journal of the American Statistical Association 1927); Hanley and
Lippman-Hand, *If nothing goes wrong, is everything all right?* (JAMA 1983), for 3 / n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np

from models import display, units
from models.checked_arrays import FloatArray

DAY_S = 86_400.0
MONTH_S = 365.25 / 12 * DAY_S
_NODES = 64


def steady(mttf_s: float, mttr_s: float) -> float:
    """Return P(host is down) in the long run, each host with a crew of its own: MTTR / (MTTF + MTTR).

    Whatever the laws of both times are (alternating renewal process).
    """
    return mttr_s / (mttf_s + mttr_s)


def mostly_down(path: str, up_s: float | None, down_s: float | None) -> Iterator[str]:
    """Yield a warning where hosts are up for less time than a repair takes, which is rarely meant; None is not known.

    >>> print(*mostly_down("mttf", 60.0, 3600.0))
    mttf: the mean up time of 1 min is below the time to repair of 1 h: down 98.36 % of the time (are the units right?)
    """
    if up_s is None or down_s is None or up_s >= down_s:
        return
    up, down = units.show(up_s, "s"), units.show(down_s, "s")
    said = f"the mean up time of {up} is below the time to repair of {down}"
    yield f"{path}: {said}: down {display.share(steady(up_s, down_s))} of the time (are the units right?)"


def end_of_day(mttf_s: float, day_s: float = DAY_S) -> float:
    """Return P(host failed in the day), exponential times: 1 - exp(-day / MTTF).

    Hosts are up at the beginning of the day and stay down once they failed.
    """
    return -math.expm1(-day_s / mttf_s)


def not_taken_over(mttf_s: float, mttr_s: float, take_over_s: float, coverage: float) -> float:
    """Return P(host is down and nobody has taken over), exponential repairs.

    A take-over comes about with probability `coverage` and takes a fixed time t; a host that is repaired before is
    back: q (1 - coverage exp(-t / MTTR)). To first order q (1 - coverage) + t / MTTF.
    """
    missed = -math.expm1(-take_over_s / mttr_s)
    return steady(mttf_s, mttr_s) * (1 - coverage + coverage * missed)


def day_average_rule(mttf_s: float, day_s: float = DAY_S) -> tuple[FloatArray, FloatArray]:
    """Return (chances, weights), (64,) each: the average over a day of f(p) is the sum of weights times f(chances).

    Hosts are up at its start and stay down. By Gauss and Legendre: exact to rounding for what is a polynomial in
    exp(-t / MTTF) of moderate degree, as all probabilities here are.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return -np.expm1(-day_s * (nodes + 1) / 2 / mttf_s), weights / 2


def downtime_s(unavailability: float, span_s: float = MONTH_S) -> float:
    """Return the seconds down in a span, by default a month of 30.44 days: 99.9 % are 43.8 min."""
    return unavailability * span_s


Interval = tuple[float, float]


def wilson(events: float, runs: float, level: float = 0.95) -> Interval:
    """Return Wilson's score interval; `at_most` if no run, or every run, was an event.

    `events` and `runs` may be effective numbers of dependent or weighted runs, not whole.

    >>> [round(x, 4) for x in wilson(10, 1000)]
    [0.0054, 0.0183]
    """
    # The formula gives an empty interval at both ends: nothing seen is no proof of zero.
    if events <= 0:
        return 0.0, at_most(runs, level)
    if events >= runs:
        return 1 - at_most(runs, level), 1.0
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, scale = events / runs, 1 + z * z / runs
    middle = share + z * z / (2 * runs)
    half = z * math.sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs))
    # The interval is within [0, 1] but for rounding.
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


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
    # Without a variance the runs count as they are: no dependence can be estimated from it.
    count = runs if variance <= 0 or spread <= 0 else spread / variance
    return mean * count, count
