"""Means with 95 % intervals over replications, and quantiles of integer nanoseconds.

Quantiles of values are exact, those of histograms off by at most 0.4 %; all else is exact from both. Quantiles are
observations, not interpolations: the smallest value that at least the share q of all values does not exceed (numpy's
'inverted_cdf'). Means of replications of different size are ratio estimates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.records.histogram import Histogram, Ints, exact_sum, histogram, merge, rank_of
from models.special_functions import special_function

NS_PER_S = 1_000_000_000

Times = Ints | Histogram  # durations [ns]: each of them, or how many are in each bin


@dataclass(frozen=True)
class Mean:
    """A mean and the 95 % interval (low, high) around it; None where there is too little to tell.

    >>> Mean(2.0, (1.5, 2.5)).half, Mean(2.0).half
    (0.5, None)
    """

    mean: float | None = None
    ci95: tuple[float, float] | None = None

    @property
    def half(self) -> float | None:
        """Return half the width of the interval; None without one."""
        return None if self.ci95 is None else (self.ci95[1] - self.ci95[0]) / 2


def mean_of(values: Sequence[float]) -> Mean:
    """Return the mean of one value per replication, with the Student t interval; no interval for fewer than two.

    >>> mean_of([1.0, 2.0, 3.0]).mean, mean_of([1.0]).ci95
    (2.0, None)
    """
    return ratio_mean(values, [1] * len(values))


def ratio_mean(sums: Sequence[float], counts: Sequence[int]) -> Mean:
    """Return the pooled mean sum(sums) / sum(counts) over replications, with its 95 % interval.

    The interval is that of the classical ratio estimator (Cochran, Sampling Techniques, section 6.3):
    residuals z_i = (sum_i - mean count_i) / mean(counts) in place of the deviations, Student t with n - 1
    degrees of freedom. With equal counts it is the usual interval of the replication means. Replications
    without a value do not count.
    """
    # A replication without a value says nothing of the mean; as zero it would pull it down.
    pairs = [(value, count) for value, count in zip(sums, counts, strict=True) if count]
    if not pairs:
        return Mean()
    total = sum(count for _, count in pairs)
    mean = sum(value for value, _ in pairs) / total
    if len(pairs) < 2:
        return Mean(mean)
    per_replication = total / len(pairs)
    # `fsum` is exact: the same bits in any order of replications.
    squares = math.fsum(((value - mean * count) / per_replication) ** 2 for value, count in pairs)
    half = student_t95(len(pairs) - 1) * math.sqrt(squares / (len(pairs) * (len(pairs) - 1)))
    return Mean(mean, (mean - half, mean + half))


def student_t95(degrees: float, intervals: int = 1) -> float:
    """Return half the width, in standard errors, of a two-sided 95 % interval of Student's t.

    With several `intervals` the level is Bonferroni's: all of them together hold the truth in 95 % of all cases.

    >>> round(student_t95(9), 3), round(student_t95(9, intervals=3), 3)
    (2.262, 2.933)
    """
    return float(special_function("stdtrit")(degrees, 1 - 0.025 / intervals))


def quantiles(values: Ints, shares: Sequence[float]) -> list[int]:
    """Return the quantile of each share, exact; raises ValueError when there are no values.

    >>> quantiles(np.array([30, 10, 20]), (0.5, 0.99))
    [20, 30]
    """
    ranks = [rank_of(share, values.size) - 1 for share in shares]
    # Linear time; a sort of millions of latencies would take most of a summary.
    ordered = np.partition(values, sorted(set(ranks)))
    return [int(ordered[rank]) for rank in ranks]


def count_of(times: Times) -> int:
    """Return how many durations there are."""
    return times.count if isinstance(times, Histogram) else int(times.size)


def seconds(value_ns: int | float) -> float:
    """Return nanoseconds as seconds."""
    return value_ns / NS_PER_S


@dataclass(frozen=True)
class Described:
    """Mean, quantiles and greatest of `count` durations [s], and the 95 % interval of the mean; None without any."""

    mean: float | None
    quantiles: tuple[float | None, ...]
    max: float | None
    count: int
    ci95: tuple[float, float] | None


def described(replications: Sequence[Times], shares: Sequence[float]) -> Described:
    """Return the statistics [s] of durations [ns], one part for each replication, pooled.

    The quantiles are those of the shares; the interval is as in `ratio_mean`.
    """
    pooled = _pooled(replications)
    size = count_of(pooled)
    if not size:
        return Described(None, (None,) * len(shares), None, 0, None)
    mean = ratio_mean([_sum(part) for part in replications], [count_of(part) for part in replications])
    assert mean.mean is not None  # there is a value
    *read, greatest = map(seconds, _read(pooled, shares))
    interval = None if mean.ci95 is None else (seconds(mean.ci95[0]), seconds(mean.ci95[1]))
    return Described(seconds(mean.mean), tuple(read), greatest, size, interval)


def _pooled(parts: Sequence[Times]) -> Times:
    """Return the durations of all replications: values if all have values, else one histogram."""
    arrays = [part for part in parts if not isinstance(part, Histogram)]
    if len(arrays) == len(parts):
        return np.concatenate(arrays) if arrays else np.empty(0, np.int64)
    # Replications may differ in what they recorded: binning loses at most 0.4 % of a quantile.
    return merge(*(part if isinstance(part, Histogram) else histogram(part) for part in parts))


def _sum(times: Times) -> int:
    return times.sum_ns if isinstance(times, Histogram) else exact_sum(times)


def _read(times: Times, shares: Sequence[float]) -> list[int | float]:
    """Return the quantiles of durations of which there are some, and the greatest of all."""
    if not isinstance(times, Histogram):
        return [*quantiles(times, shares), int(times.max())]
    read = [times.quantile(share) for share in shares]
    return [value for value in (*read, times.max_ns) if value is not None]
