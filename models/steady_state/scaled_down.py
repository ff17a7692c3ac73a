"""Runs in which one simulated record stands for many: what that changes in recoveries, as measured."""

from __future__ import annotations

from models import display

LONGER = {10: 0.0271, 50: 0.0789, 100: 0.148, 1000: 0.63}
"""Records that one stands for -> by how much recoveries are longer, in 24 replications of the Flink job of
`benchmarks/scaled.py`. A service is the sum of as many. What is longer is the time until the last task has caught up:
fewer records are divided less evenly among tasks."""

MOST = max(LONGER)  # records for which one may stand; with more little of a job is left


def resolution_said(*resolutions: int) -> str:
    """Return the sentence that says for how many records one stands, in one run or in several; "" where each is one.

    >>> resolution_said(1)
    ''
    >>> resolution_said(10, 100)
    'One simulated record stands for 10 to 100; all counts are of records of the job.'
    """
    low, high = min(resolutions), max(resolutions)
    if high == 1:
        return ""
    many = display.count(high) if low == high else f"{display.count(low)} to {display.count(high)}"
    return f"One simulated record stands for {many}; all counts are of records of the job."


def measured_error(k: int) -> str:
    """Return in words what was measured for one record in place of k, or for the next number above.

    >>> measured_error(20)
    'with 50, recoveries of a Flink job of 8,000 records/s on 24 tasks took 7.89 % longer'
    """
    of = min((one for one in LONGER if one >= k), default=MOST)
    longer = display.share(LONGER[of])
    return f"with {display.count(of)}, recoveries of a Flink job of 8,000 records/s on 24 tasks took {longer} longer"
