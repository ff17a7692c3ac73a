"""Names and numbers as the report shows them."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.report import text
from analysis.report.figure import plain_list, reading


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0.0, "0\u00a0s"),
        (5e-9, "5\u00a0ns"),
        (0.0123, "12.3\u00a0ms"),
        (90.0, "90\u00a0s"),
        (150.0, "2.5\u00a0min"),
        (3600.0, "1\u00a0h"),
    ],
)
def test_times_are_shown_in_the_unit_that_suits_them(value, shown):
    assert text.seconds(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (0, "0"), (1234567, "1,234,567"), (0.00123456, "0.00123"), (99.96, "100")],
)
def test_numbers_have_three_digits(value, shown):
    assert text.number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.5, "50\u00a0%"), (0.1234, "12.3\u00a0%"), (0.0, "0\u00a0%"), (1e-5, "0.001\u00a0%")],
)
def test_shares_are_shown_in_per_cent(value, shown):
    assert text.share(value) == shown


def test_rates_have_all_their_digits():
    assert (text.rate(12.0), text.rate(12345.0), text.rate(None)) == ("12\u00a0/s", "12,345\u00a0/s", "–")


def test_what_is_no_number_becomes_null_in_figures():
    assert plain_list(np.array([1.0, np.nan, np.inf])) == [1.0, None, None]
    assert plain_list(np.array([1234567.4, 12.345678])) == [1234567.0, 12.3457]


def test_a_hover_text_loses_no_digit_before_the_point():
    assert reading("y", "s", [12.5, None, np.inf, 9999.0]) == "%{y:,.4~r}\u00a0s"
    assert reading("y", "s", [12.5, 12346.0]) == "%{y:,.5~r}\u00a0s"
    assert reading("y", "", [9_999_999.7]) == "%{y:,.8~r}"
    assert reading("y") == "%{y:,.4~r}"
    with pytest.raises(ValueError, match="JSON"):
        text.for_script(float("nan"))
