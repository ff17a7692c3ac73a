"""Runs in which one simulated record stands for many: what that changes in recoveries, as measured."""

from __future__ import annotations

from models import display

LONGER = {10: 0.0283, 50: 0.0789, 100: 0.114, 1000: 0.614}
"""Records that one stands for -> by how much recoveries are longer, in 24 replications of the Flink job of
`benchmarks/scaled.py`. A service is the sum of as many. What is longer is the time until the last task has caught up:
fewer records are divided less evenly among tasks."""

MOST = max(LONGER)  # records for which one may stand; with more little of a job is left


def measured_error(k: int) -> str:
    """Return in words what was measured for one record in place of k, or for the next number above.

    >>> measured_error(20)
    'with 50, recoveries of a Flink job of 8,000 records/s on 24 tasks took 7.89 % longer'
    """
    of = min((one for one in LONGER if one >= k), default=MOST)
    longer = display.share(LONGER[of])
    return f"with {display.count(of)}, recoveries of a Flink job of 8,000 records/s on 24 tasks took {longer} longer"
