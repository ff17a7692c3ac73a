"""The tail of latency: which share of the tuples took at least how long, from exact times or from histograms."""

from __future__ import annotations

import numpy as np

from analysis.runs.histograms import latencies_of
from models.records.histogram import Floats, Histogram, bounds, histogram
from models.records.tables import RunRecords

_MOST = 300


def latency_histogram(one: RunRecords) -> Histogram:
    """Latencies of the tuples of a replication that were created after the warm-up."""
    if one.detail == "histograms":
        return latencies_of(one)
    created, delivered = (one.tables["deliveries"][name] for name in ("created_ns", "delivered_ns"))
    counts = (created >= one.warmup_ns) & (created < one.duration_ns)
    return histogram((delivered - created)[counts])


def survival(given: Histogram, most: int = _MOST) -> tuple[Floats, Floats]:
    """Times [ns], rising, and the share of all values that is at least each of them; both empty for no values.

    The times are lower edges of bins that hold something, so that shares are exact, and the greatest value; of more
    than `most` edges those are kept that are evenly apart on a log scale of the share.
    """
    if given.min_ns is None or given.max_ns is None:
        return np.empty(0), np.empty(0)
    filled = np.flatnonzero(given.counts)
    low, _ = bounds(filled)
    count = given.counts[filled]
    share = np.cumsum(count[::-1])[::-1] / given.count
    at = np.maximum(low, given.min_ns)
    if at.size > most:
        levels = np.geomspace(1.0, share[-1], most)
        chosen = np.unique(np.searchsorted(-share, -levels, side="right") - 1)
        at, share = at[chosen], share[chosen]
    if given.max_ns > at[-1]:
        at, share = np.append(at, float(given.max_ns)), np.append(share, 1 / given.count)
    return at, share
