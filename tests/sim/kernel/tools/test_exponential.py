"""Exponential times by a series: those of the library's logarithm, or none.

Oracle: `math.log1p` and the rounding of Python.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit

from sim.kernel.tools.draws import UNSURE, exponential_ns, minus_log

DRAW = np.random.default_rng(11)
ENDS = [2.0**-54, 3 * 2.0**-54, 2.0**-53, 0.25, 0.5 - 2.0**-54, 0.5, 1 - 2.0**-52, 1 - 2.0**-53]
NUMBERS = np.concatenate(
    [ENDS, DRAW.random(40_000), 2.0 ** -(54 * DRAW.random(10_000)), 1 - 2.0 ** -(53 * DRAW.random(10_000))]
)
NUMBERS = np.clip(NUMBERS, 2.0**-54, 1 - 2.0**-53)


@njit
def each(mean_ns: float, numbers: np.ndarray, found: np.ndarray) -> None:
    for k in range(numbers.size):
        found[k] = exponential_ns(mean_ns, numbers[k])


def quick(mean_s: float) -> np.ndarray:
    found = np.zeros(NUMBERS.size, np.int64)
    each(mean_s * 1e9, NUMBERS, found)
    return found


def by_library(mean_s: float) -> np.ndarray:
    return np.array([max(1, round(-mean_s * math.log1p(-u) * 1e9)) for u in NUMBERS.tolist()])


@pytest.mark.parametrize("mean_s", [1e-12, 1e-9, 0.7e-9, 3e-8, 1e-6, 0.00175, 0.1, 1.0, 60.0, 250.0, 274.8])
def test_a_time_is_that_of_the_library_or_unsure(mean_s: float) -> None:
    found = quick(mean_s)
    known = found != UNSURE
    assert np.array_equal(found[known], by_library(mean_s)[known])
    # Twice the margin, a little more for those that lie in the middle on purpose.
    assert np.count_nonzero(~known) <= 10 + NUMBERS.size * 3 * mean_s * 1e9 * 2.0**-42


def test_times_that_may_be_too_long_are_all_unsure() -> None:
    assert (quick(275.0) == UNSURE).all()
    assert (quick(1e18) == UNSURE).all()


def test_the_series_is_within_what_the_margin_takes_it_for() -> None:
    worst = max(abs(minus_log(1 - u) + math.log1p(-u)) for u in NUMBERS.tolist())
    assert worst < 2.0**-45 - 2.0**-46
    assert minus_log(1.0) == 0.0


def test_without_the_margin_some_times_would_be_others() -> None:
    mean_s = 270.0
    times = np.array([mean_s * 1e9 * minus_log(1 - u) for u in NUMBERS.tolist()])
    differ = np.rint(times) != by_library(mean_s)
    assert differ.any()
    assert (quick(mean_s)[differ & (times > 1)] == UNSURE).all()
