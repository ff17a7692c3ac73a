"""When tuples arrive and which keys they have: the same bits as `sim.arrivals`, in one pass each."""

from __future__ import annotations

import numpy as np

from sim.kernel.tools.cache import allocating

_NS = 1e9
_NEAR = 2.0**-50  # of a number of keys: product and quotients are off by less than an eighth of it
_COUNTED = 64  # keys that are compared one by one, several at a time
_TINY, _HUGE = 1e-150, 1e150  # squares between are numbers of full length


@allocating
def arrival_times(
    counts: np.ndarray, edges_s: np.ndarray, cumulative: np.ndarray, begin_per_s: np.ndarray, slope: np.ndarray
) -> np.ndarray:
    """Return when the cumulative rate reaches each of the rising `counts` [ns] (n,): `RateCurve.inverse`, rounded.

    `counts` (n,): cumulative numbers of arrivals. A rate is linear within segments: segment j is [edges_s[j], edges_s[j
    + 1]), begins at `begin_per_s[j]` with `cumulative[j]` arrivals before it, and rises by `slope[j]` [1/s^2]. Within
    it, missing = begin t + slope t^2 / 2, solved for t without cancellation.
    """
    found = np.empty(counts.shape[0], np.int64)
    last = begin_per_s.shape[0] - 1
    segment = 0
    for k in range(counts.shape[0]):
        count = counts[k]
        while segment < last and cumulative[segment + 1] < count:
            segment += 1
        missing = count - cumulative[segment]
        begin = begin_per_s[segment]
        if slope[segment] == 0 and _TINY < begin < _HUGE:  # the same bits: the root of a square is exact, and so is 2
            found[k] = max(np.int64(1), np.int64(np.rint((edges_s[segment] + missing / begin) * _NS)))
            continue
        root = np.sqrt(max(begin * begin + 2 * slope[segment] * missing, 0.0))
        denominator = begin + root
        offset = 2 * missing / denominator if denominator > 0 else 0.0
        found[k] = max(np.int64(1), np.int64(np.rint((edges_s[segment] + offset) * _NS)))
    return found


def is_constant(begin_per_s: np.ndarray, slope: np.ndarray) -> bool:
    """Return whether the rate is constant, and of a size that `write_arrivals` computes exactly."""
    return len(begin_per_s) == 1 and slope[0] == 0 and bool(_TINY < begin_per_s[0] < _HUGE)


@allocating
def write_arrivals(
    gaps: np.ndarray,
    sums: np.ndarray,
    tasks: float,
    until: float,
    mean_batch: float,
    most: float,
    end_ns: int,
    begin_s: float,
    rate_per_s: float,
    arrivals: np.ndarray,
) -> tuple[int, bool]:
    """Return the arrivals behind the next gaps of a renewal process, which are overwritten, without their keys.

    sums: where the draw before ended, and the sum of the gaps of this draw so far. Points beyond `until`, and arrivals
    from `end_ns` on, are left out. Returns how many there are, and whether none was left out at the end. There must be
    a record for each gap: what stands behind the arrivals means nothing.
    """
    base, total = sums[0], sums[1]
    for k in range(gaps.shape[0]):  # one loop: an instant is reckoned while the next sum is waited for
        total += gaps[k]
        point = total + base
        gaps[k] = point
        missing = min(tasks * point * mean_batch, most)  # as in `arrival_times`
        arrivals[k].time = max(np.int64(1), np.int64(np.rint((begin_s + missing / rate_per_s) * _NS)))
    sums[1] = total
    first, inside = 0, gaps.shape[0]
    while first < inside and gaps[first] <= 0.0:
        first += 1
    while inside > first and gaps[inside - 1] > until:
        inside -= 1
    n = inside - first
    if first > 0:
        for k in range(n):
            arrivals[k].time = arrivals[first + k].time
    while n > 0 and arrivals[n - 1].time >= end_ns:
        n -= 1
    return n, first + n == gaps.shape[0]


@allocating
def uniform_keys(draws: np.ndarray, count: int) -> np.ndarray:
    """Return the key of each uniform number (n,): the first k with (k + 1) / count above it.

    That is the whole part of the product, unless it is so near to a whole number that rounding may matter.
    """
    found = np.empty(draws.shape[0], np.int64)
    margin = count * _NEAR
    near = 0
    for k in range(draws.shape[0]):
        product = draws[k] * count
        key = np.int64(product)
        rest = product - key
        near += (rest < margin) | (rest > 1 - margin)
        found[k] = key
    if near > 0:
        for k in range(draws.shape[0]):
            found[k] = _uniform_key(draws[k], found[k], count)
    return found


@allocating
def _uniform_key(u: float, guess: int, count: int) -> int:
    """Return the key of a uniform number, from a guess that rounding may have put beside it."""
    key = guess
    while key > 0 and key / count > u:
        key -= 1
    while key < count - 1 and (key + 1) / count <= u:
        key += 1
    return key


@allocating
def guide_of(cumulative: np.ndarray) -> np.ndarray:
    """Return where to look for a uniform number in a distribution function: entry j is for those from j / n on (n,).

    Source: the method of guide tables (Chen and Asau 1974; Devroye, Non-Uniform Random Variate Generation, 1986,
    section III.2.4): the expected number of steps for a draw is at most two.
    """
    n = cumulative.shape[0]
    found = np.empty(n, np.int64)
    key = 0
    for j in range(n):
        while key < n - 1 and cumulative[key] <= j / n:
            key += 1
        found[j] = key
    return found


@allocating
def keys_of(draws: np.ndarray, cumulative: np.ndarray, guide: np.ndarray) -> np.ndarray:
    """Return the key of each uniform number (n,): the first whose entry is above it."""
    n = cumulative.shape[0]
    found = np.empty(draws.shape[0], np.int64)
    for k in range(draws.shape[0]):
        u = draws[k]
        key = guide[min(n - 1, np.int64(u * n))]
        while key > 0 and cumulative[key - 1] > u:
            key -= 1
        while key < n - 1 and cumulative[key] <= u:
            key += 1
        found[k] = key
    return found


@allocating
def segments_of(counts: np.ndarray, cumulative: np.ndarray) -> np.ndarray:
    """Return the segment in which the cumulative rate reaches each of the rising `counts` (n,), as `RateCurve` does."""
    found = np.empty(counts.shape[0], np.int64)
    last = cumulative.shape[0] - 2
    segment = 0
    for k in range(counts.shape[0]):
        while segment < last and cumulative[segment + 1] < counts[k]:
            segment += 1
        found[k] = segment
    return found


@allocating
def keys_by_segment(weights: np.ndarray, segments: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Return the key of each uniform number (n,) by the weights (keys, segments) of its segment."""
    n = weights.shape[0]
    found = np.empty(draws.shape[0], np.int64)
    shares = np.empty(n, np.float64)
    before = -1
    for k in range(draws.shape[0]):
        segment, u = segments[k], draws[k]
        if segment != before:  # the sums of the weights so far, as shares of all
            total = 0.0
            for key in range(n):
                total += weights[key, segment]
                shares[key] = total
            for key in range(n):
                shares[key] /= total
            before = segment
        # How many shares are not above it: halves of many, then one by one, which takes no branch that may be guessed
        # wrong, and several at a time.
        first, left = 0, n
        while left > _COUNTED:
            half = left // 2
            first += half * (shares[first + half - 1] <= u)
            left -= half
        key = first
        for one in range(first, first + left):
            key += int(shares[one] <= u)
        found[k] = min(key, n - 1)
    return found
