"""Correlate load series: the matrix, and a summary for each pair of streams."""

from __future__ import annotations

import numpy as np

from models.checked_arrays import FloatArray
from models.correlation import pearson
from models.records.profile import Profile

__all__ = ["between_streams", "between_totals", "pearson"]


def between_streams(profile: Profile) -> FloatArray:
    """Return the mean correlation (streams, streams) of the key groups of one stream with those of another.

    Pairs of a series with itself are left out; a pair of streams without any other pair has 0.
    """
    n, groups = len(profile.streams), profile.key_groups
    # Axes: stream, key group, stream, key group; a block is one pair of streams.
    blocks = profile.correlation.reshape(n, groups, n, groups)
    sums = blocks.sum(axis=(1, 3))
    own = np.arange(n)
    sums[own, own] -= np.trace(blocks[own, :, own, :], axis1=1, axis2=2)
    pairs = np.full((n, n), groups * groups)
    pairs[own, own] -= groups
    result: FloatArray = sums / np.maximum(pairs, 1)
    # Summing blocks in another order can differ in the last bit: the mean is symmetric exactly.
    return (result + result.T) / 2


def between_totals(profile: Profile) -> FloatArray:
    """Return the correlation (streams, streams) of the streams' totals over all key groups.

    It is the correlation of what the streams do as a whole, which hides how key groups differ: compare it with
    `between_streams`.
    """
    return pearson(profile.counts.sum(axis=1))
