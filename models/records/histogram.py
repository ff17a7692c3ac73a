"""A log-linear histogram of latencies: 128 bins for each power of two, read from the bits of the float.

Bin 0 holds the value 0; bin 1 + 128 e + m holds [2^e (1 + m/128), 2^e (1 + (m+1)/128)) ns. Quantiles read
from it are off by at most 1/256 (0.4 %); integers below 256 ns are exact. Merging is addition, so neither
the order nor the number of parts matters (design page "The data plane", section "Recording").
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np
import numpy.typing as npt

MANTISSA_BITS = 7
BINS = 63 * 2**MANTISSA_BITS + 1  # 0 and every value below 2^63 ns
QUANTILE_ERROR = 2.0 ** -(MANTISSA_BITS + 1)  # relative, at most

_SHIFT = 52 - MANTISSA_BITS
_FIRST = 1023 << MANTISSA_BITS  # exponent and leading mantissa bits of 1.0
_EXACT_FLOAT = 2**53
_LOW_BITS = np.int64(1023)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def rank_of(q: float, count: int) -> int:
    """Return the rank (1 .. count) of the q-quantile: the smallest r with r / count >= q (numpy's 'inverted_cdf').

    q is read as the decimal number it is written as, so that 0.7 of 10 is rank 7. Raises ValueError when q is
    outside [0, 1] or nothing was counted.

    >>> rank_of(0.5, 10), rank_of(0.7, 10), rank_of(0.0, 10)
    (5, 7, 1)
    """
    if not 0 <= q <= 1 or count < 1:
        raise ValueError(f"no rank for q = {q} of {count} values")
    share = Fraction(str(q))
    return max(1, -(-share.numerator * count // share.denominator))


def exact_sum(values: npt.NDArray[np.int64]) -> int:
    """Return the sum as a Python integer: no overflow, whatever the order."""
    # In two halves: each sum fits into 64 bits for up to 2^31 values.
    high = int((values >> 32).sum(dtype=np.int64))
    low = int((values & 0xFFFFFFFF).sum(dtype=np.int64))
    return (high << 32) + low


def bin_of(values_ns: npt.ArrayLike) -> Ints:
    """Return the bin of each value [ns], same shape; raise ValueError for a negative value.

    The exponent and the first 7 bits of the mantissa of a float, read as one integer, are the number of the bin but for
    a constant. So no logarithm is needed, and no rounding can move a value to a neighbour.

    >>> bin_of([0, 1, 2, 255, 256]).tolist()
    [0, 1, 129, 1024, 1025]
    """
    values = np.asarray(values_ns, dtype=np.int64)
    if values.size and values.min() < 0:
        raise ValueError(f"a latency cannot be negative: {values.min()} ns")
    # Above 2^53 a conversion to float rounds and could cross an edge: bits that decide no bin are cut off first.
    exact = np.where(values >= _EXACT_FLOAT, values & ~_LOW_BITS, values)
    bits = exact.astype(np.float64).view(np.int64)
    return np.where(values == 0, np.int64(0), (bits >> _SHIFT) - _FIRST + 1)


def bounds(bins: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return the lower (inclusive) and upper (exclusive) edge of each bin [ns]; edges are exact floats.

    `bins`: numbers of bins, any shape; both results have it. Raises ValueError for a number that is no bin.
    """
    index = np.asarray(bins, dtype=np.int64)
    if index.size and (index.min() < 0 or index.max() >= BINS):
        raise ValueError(f"bins are 0 .. {BINS - 1}")
    exponent, mantissa = np.divmod(np.maximum(index - 1, 0), 2**MANTISSA_BITS)
    width = np.ldexp(1.0, exponent - MANTISSA_BITS)
    low = width * (2**MANTISSA_BITS + mantissa)
    return np.where(index == 0, 0.0, low), np.where(index == 0, 1.0, low + width)


def representative(bins: npt.ArrayLike) -> Floats:
    """Return the middle of the integers in each bin [ns]: at most 1/256 off any of them."""
    low, high = bounds(bins)
    return low + np.maximum(high - low - 1, 0) / 2


@dataclass(frozen=True)
class Histogram:
    """Counts per bin, and the exact sum, least and greatest value.

    `counts` (BINS,): values in each bin. `sum_ns`: exact, as a Python integer. `min_ns`, `max_ns`: None when empty. So
    the mean and the extremes are exact, and only quantiles are rounded to a bin.

    >>> latencies = histogram([1_000, 2_000, 4_000])
    >>> latencies.mean(), latencies.max_ns, latencies.quantile(0.5)
    (2333.3333333333335, 4000, 2003.5)
    """

    counts: Ints
    sum_ns: int
    min_ns: int | None
    max_ns: int | None

    @property
    def count(self) -> int:
        """Return the number of values that were recorded."""
        return int(self.counts.sum())

    def quantile(self, q: float) -> float | None:
        """Return the q-quantile [ns] by `rank_of`, at most 0.4 % off; None when empty."""
        count = self.count
        if count == 0 or self.min_ns is None or self.max_ns is None:
            return None
        # Not outside of what was seen, which the middle of the first or last bin may be.
        found = int(np.searchsorted(np.cumsum(self.counts), rank_of(q, count)))
        return float(min(max(float(representative(found)), self.min_ns), self.max_ns))

    def mean(self) -> float | None:
        """Return the exact mean [ns]; None when empty."""
        return self.sum_ns / self.count if self.count else None


def histogram(values_ns: npt.ArrayLike) -> Histogram:
    """Return the histogram of the values [ns]; raise ValueError for a negative one."""
    values = np.asarray(values_ns, dtype=np.int64).ravel()
    counts = np.bincount(bin_of(values), minlength=BINS).astype(np.int64)
    counts.setflags(write=False)
    if not values.size:
        return Histogram(counts, 0, None, None)
    return Histogram(counts, exact_sum(values), int(values.min()), int(values.max()))


def from_bins(bins: npt.ArrayLike, counts: npt.ArrayLike, sum_ns: int, min_ns: int, max_ns: int) -> Histogram:
    """Return the histogram with these counts; it is the way back from the rows of a table.

    `bins`, `counts`: same shape; counts of a bin that is named twice are added. `sum_ns`, `min_ns` and `max_ns` are
    ignored when nothing was counted.
    """
    dense = np.zeros(BINS, np.int64)
    np.add.at(dense, np.asarray(bins, dtype=np.int64), np.asarray(counts, dtype=np.int64))
    dense.setflags(write=False)
    return Histogram(dense, sum_ns, min_ns, max_ns) if dense.any() else Histogram(dense, 0, None, None)


def merge(*parts: Histogram) -> Histogram:
    """Return one histogram of everything that the parts recorded; an empty one when there is none."""
    return reduce(_add, parts, histogram([]))


def _add(one: Histogram, other: Histogram) -> Histogram:
    """Return the histogram of the values of both."""
    counts = one.counts + other.counts
    counts.setflags(write=False)
    least = [value for value in (one.min_ns, other.min_ns) if value is not None]
    greatest = [value for value in (one.max_ns, other.max_ns) if value is not None]
    return Histogram(counts, one.sum_ns + other.sum_ns, min(least, default=None), max(greatest, default=None))
