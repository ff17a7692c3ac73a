"""Read the histograms of one replication: bins, exact sums, and counts by interval in place of rows.

See `models.records.tables.HISTOGRAM_TABLES`. Sums are Python integers: exact, whatever the order. Quantiles are those
of `models.records.histogram`, off by at most 1/256. The last part gives the tail of latency: which share of the tuples
took at least how long, from exact times or from histograms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np

from models.records.histogram import BINS, Floats, Histogram, Ints, bounds, from_bins, histogram, merge, representative
from models.records.tables import NEVER, RunRecords, bucket_ns

_Table = Mapping[str, np.ndarray]
_AT_ONCE = 64


def times_of(one: RunRecords, what: str, operator: int) -> Histogram:
    """Return the histogram of "wait", "sojourn" or "latency" of the operator with this index; perhaps empty.

    Its count and sum are exact; only what lies within a bin is not known.
    """
    rows = _of(one, "times", what, operator)
    if not rows["count"].sum():
        return merge()
    bins = _of(one, "time_bins", what, operator)
    return from_bins(
        bins["bin"], bins["count"], exact_total(rows), int(rows["min_ns"].min()), int(rows["max_ns"].max())
    )


def latencies_of(one: RunRecords) -> Histogram:
    """Return the histogram of the latencies of all sinks."""
    return merge(*(times_of(one, "latency", operator) for operator in range(len(one.operators))))


def total_of(one: RunRecords, what: str, operator: int) -> tuple[int, int]:
    """Return the operator's number of visits, and the sum [ns] of their "waiting" or "busy" times in the window."""
    rows = _of(one, "times", what, operator)
    return int(rows["count"].sum()), exact_total(rows)


def exact_total(rows: _Table) -> int:
    """Return the sum over all rows with columns sum_high and sum_low.

    >>> exact_total({"sum_high": np.array([1]), "sum_low": np.array([5])}) == 2**32 + 5
    True
    """
    high, low = (sum(int(part) for part in rows[name].tolist()) for name in ("sum_high", "sum_low"))
    # Sums are kept in two halves: int64 would overflow after some 10^9 tuples that wait seconds.
    return (high << 32) + low


def intervals_of(one: RunRecords, interval_ns: int) -> int:
    """Return how many intervals of histograms make one of this length; raises ValueError where they do not add up."""
    length = bucket_ns(one.duration_ns)
    if interval_ns % length:
        raise ValueError(f"a run recorded as histograms has intervals of multiples of {length} ns, not {interval_ns}")
    return interval_ns // length


def delivered_histograms(one: RunRecords, interval_ns: int, intervals: int) -> Iterator[tuple[int, Ints]]:
    """Yield the number of an interval, and latencies of all sinks by bin (n, BINS) in it and the next ones."""
    rows, together = one.tables["delivered_bins"], intervals_of(one, interval_ns)
    for first in range(0, intervals, _AT_ONCE):
        last = min(first + _AT_ONCE, intervals)
        # The rows are sorted; a few intervals at a time, because in full histograms are large.
        begin, end = np.searchsorted(rows["interval"], [first * together, last * together])
        interval = rows["interval"][begin:end] // together - first
        counts = np.zeros((last - first, BINS), np.int64)
        np.add.at(counts, (interval, rows["bin"][begin:end]), rows["count"][begin:end])
        yield first, counts


def delivered_sums(one: RunRecords, interval_ns: int, intervals: int) -> tuple[Ints, Ints, Ints]:
    """Return deliveries, mean latency rounded down and greatest latency [ns] (intervals,); NEVER if there is none."""
    rows = one.tables["delivered"]
    intervals_of(one, interval_ns)
    interval = rows["at_ns"] // interval_ns
    count, high, low = (np.zeros(intervals, np.int64) for _ in range(3))
    greatest = np.full(intervals, NEVER, np.int64)
    np.add.at(count, interval, rows["count"])
    np.add.at(high, interval, rows["sum_high"])
    np.add.at(low, interval, rows["sum_low"])
    np.maximum.at(greatest, interval, rows["max_ns"])
    totals = zip(high.tolist(), low.tolist(), count.tolist(), strict=True)
    mean = [((above << 32) + below) // n if n else NEVER for above, below, n in totals]
    return count, np.array(mean, dtype=np.int64), greatest


def quantiles_by_interval(counts: Ints, shares: Sequence[str]) -> list[Ints]:
    """Return for each share the quantile [ns] of each row of counts (n, BINS), rounded down; NEVER where nothing is."""
    reached = np.cumsum(counts, axis=1)
    total = reached[:, -1]
    columns = []
    for share in map(Fraction, shares):
        rank = np.maximum(-(-share.numerator * total // share.denominator), 1)
        found = (reached < rank[:, None]).sum(axis=1)
        read = representative(np.minimum(found, BINS - 1)).astype(np.int64)
        columns.append(np.where(total > 0, read, NEVER))
    return columns


def _of(one: RunRecords, table: str, what: str, operator: int) -> dict[str, np.ndarray]:
    """Return the rows of a table of histograms for one operator and one kind of time."""
    rows = one.tables[table]
    own = (rows["operator"] == operator) & (rows["what"] == what)
    return {name: column[own] for name, column in rows.items()}


_MOST = 300


def latency_histogram(one: RunRecords) -> Histogram:
    """Return latencies of the tuples of a replication that were created after the warm-up.

    Of records that have rows for tuples the histogram is made here, so both kinds of runs have one tail.
    """
    if one.detail == "histograms":
        return latencies_of(one)
    created, delivered = (one.tables["deliveries"][name] for name in ("created_ns", "delivered_ns"))
    counts = (created >= one.warmup_ns) & (created < one.duration_ns)
    return histogram((delivered - created)[counts])


def survival(given: Histogram, most: int = _MOST) -> tuple[Floats, Floats]:
    """Return times [ns], rising, and the share of all values that is at least each of them; both empty for no values.

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
