"""Cells of a study's tables: short, in one unit, with half of the interval."""

from __future__ import annotations

import pytest

from analysis.statistics import Mean
from holdfast import study_tables


@pytest.mark.parametrize(
    ("write", "mean", "half", "text"),
    [
        (study_tables._seconds, 0.4408, 0.0123, "441 ± 12 ms"),
        (study_tables._seconds, 3.60e-3, 3.01e-6, "3.6 ± 0.003 ms"),
        (study_tables._seconds, -1e-3, None, "-1 ms"),
        (study_tables._seconds, 0.0, 0.0, "0 s"),
        (study_tables._percent, 1.0, 0.0, "100 %"),
        (study_tables._percent, 0.4211, 0.0512, "42.1 ± 5.1 %"),
        (study_tables._bytes_per_s, 3.9e6, 1234.0, "3.9 ± 0.0012 MB/s"),
        (study_tables._number, 12345.0, 120.0, "12,345 ± 120"),
        (study_tables._money, 0.5227, None, "0.5227 USD"),
        (study_tables._money, None, None, "–"),
    ],
)
def test_a_cell_says_the_mean_and_half_of_its_interval(
    write: study_tables.Write, mean: float | None, half: float | None, text: str
) -> None:
    interval = None if mean is None or half is None else (mean - half, mean + half)
    assert write("", Mean(mean, interval)) == text
