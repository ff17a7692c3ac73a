"""Two designs side by side: means over replications, and the difference with its 95 % interval.

Where both designs have the same replications of the same seed they have the same random numbers (a draw is a function
of seed, replication and what it is for), so differences are taken in pairs: what both have in common drops out of the
interval (Law, Simulation Modeling and Analysis, 5th ed., section 10.2.1). Otherwise the interval is Welch's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from analysis.runs.metrics import Metrics
from analysis.statistics import Mean, mean_of, student_t95
from models import display

Replications = Mapping[int, Metrics]  # number of the replication -> metrics


@dataclass(frozen=True)
class Difference:
    """A metric in two designs; `difference` is that of the second minus the first.

    `paired` says whether it was taken replication by replication: all three means then are over the replications that
    both have. `counts` are the replications behind the two means. `narrower` is the width of the interval without
    pairing over that with it, None where that cannot be told. `freedom` is the number of degrees of freedom of the
    interval, None without one.
    """

    metric: str
    first: Mean
    second: Mean
    difference: Mean
    paired: bool
    counts: tuple[int, int]
    narrower: float | None
    freedom: float | None = None

    @property
    def relative(self) -> float | None:
        """Return the difference as a share of the first mean."""
        return self.relative_to_first.mean

    @property
    def relative_to_first(self) -> Mean:
        """Return the difference and its interval as shares of the first mean, which counts as known."""
        if self.difference.mean is None or not self.first.mean:
            return Mean(None, None)
        base, interval = abs(self.first.mean), self.difference.ci95
        return Mean(self.difference.mean / base, interval and (interval[0] / base, interval[1] / base))

    @property
    def shown(self) -> str:
        """Return `lower` or `higher` if the interval excludes zero, `equal` if no pair differs, else `unclear`."""
        interval = self.difference.ci95
        # Exactly equal: with common random numbers a setting that has no effect changes no bit.
        if self.paired and self.difference.mean == 0 and interval in (None, (0.0, 0.0)):  # None: a single pair
            return "equal"
        if interval is None or interval == (0.0, 0.0):
            return "unclear"
        return "lower" if interval[1] < 0 else "higher" if interval[0] > 0 else "unclear"

    @property
    def per_cent(self) -> str:
        """Return the relative difference with half of its interval, as tables show it: -46.5 ± 5.3 %.

        The mean stands alone where there is no interval, and nothing where the first mean is zero.
        """
        relative = self.relative_to_first
        if relative.mean is None:
            return ""
        return display.plus_minus(relative.mean, relative.half or None, display.share, signed=True)

    def significant_among(self, comparisons: int) -> bool:
        """Return whether the interval excludes zero also with Bonferroni's correction for so many comparisons.

        With k comparisons each interval has the level 1 - 0.05 / k, so all of them hold together with at least 95 %. An
        interval that is widened so and still excludes zero is no find of the search among many designs.
        """
        mean, interval = self.difference.mean, self.difference.ci95
        if mean is None or interval is None or self.shown not in ("lower", "higher"):
            return False
        if self.freedom is None or interval[0] == interval[1]:  # nothing varies, so nothing is to be corrected
            return True
        # The interval is symmetric: it suffices to widen its half by the ratio of the t quantiles.
        wider = student_t95(self.freedom, comparisons) / student_t95(self.freedom)
        return abs(mean) > wider * (interval[1] - interval[0]) / 2


def compare(
    first: Replications, second: Replications, *, same_numbers: bool, metrics: Sequence[str]
) -> list[Difference]:
    """Return the difference in each of the metrics; `same_numbers` says whether both have the same seed.

    Each of `metrics` is a dotted name of `analysis.runs.metrics`. Replications in which a metric has no value are left
    out.
    """
    return [_difference(metric, first, second, same_numbers) for metric in metrics]


def mean_over(replications: Replications, metric: str) -> Mean:
    """Return the mean of a metric over the replications that have it."""
    return mean_of(list(_values(replications, metric).values()))


def common_metrics(*designs: Replications) -> list[str]:
    """Return the metrics that have a value in every design, in the order of the first.

    >>> common_metrics({0: {"a": 1.0, "b": None}}, {0: {"a": 2.0, "b": 3.0}})
    ['a']
    """
    names = dict.fromkeys(name for metrics in designs[0].values() for name in metrics) if designs else {}
    return [name for name in names if all(_values(design, name) for design in designs)]


def _values(replications: Replications, metric: str) -> dict[int, float]:
    # Sorted by number: sums of floats depend on their order.
    found = ((number, metrics.get(metric)) for number, metrics in sorted(replications.items()))
    return {number: value for number, value in found if value is not None}


def _difference(metric: str, first: Replications, second: Replications, same_numbers: bool) -> Difference:
    """Return the difference in one metric: paired over common replications of one seed, else Welch's."""
    one, other = _values(first, metric), _values(second, metric)
    both = sorted(one.keys() & other.keys())
    paired = same_numbers and bool(both)
    if paired:
        # Means over the common runs only, or the difference of the means would not be the mean difference.
        one, other = ({number: values[number] for number in both} for values in (one, other))
    apart, freedom = _apart(list(one.values()), list(other.values()))
    difference = mean_of([other[number] - one[number] for number in both]) if paired else apart
    if paired:
        # One pair has no variance, and so no interval.
        freedom = len(both) - 1 or None
    narrower = None
    if paired and apart.half is not None and difference.half:
        narrower = apart.half / difference.half
    first_mean, second_mean = mean_of(list(one.values())), mean_of(list(other.values()))
    counts = (len(one), len(other))
    return Difference(metric, first_mean, second_mean, difference, paired, counts, narrower, freedom)


def _apart(one: Sequence[float], other: Sequence[float]) -> tuple[Mean, float | None]:
    """Return the difference of the means of independent samples, and the degrees of freedom of Welch's interval."""
    if not one or not other:
        return Mean(None, None), None
    mean = fmean(other) - fmean(one)
    if len(one) < 2 or len(other) < 2:
        return Mean(mean, None), None
    parts = [variance(sample) / len(sample) for sample in (one, other)]
    total = sum(parts)
    if total == 0:
        return Mean(mean, (mean, mean)), None
    # Welch-Satterthwaite: the degrees of freedom of a sum of unequal variances.
    freedom = total**2 / sum(part**2 / (len(sample) - 1) for part, sample in zip(parts, (one, other), strict=True))
    half = student_t95(freedom) * math.sqrt(total)
    return Mean(mean, (mean - half, mean + half)), freedom
