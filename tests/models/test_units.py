"""Factors of units: those that are written down here are pint's."""

from __future__ import annotations

import sys

import pytest

from models import units

WRITTEN = [(dimension, unit) for dimension in units._DIMENSIONS for unit in units._DIMENSIONS[dimension][1]]


@pytest.mark.parametrize(("dimension", "unit"), WRITTEN)
def test_a_unit_that_is_written_down_has_the_factor_that_pint_has(dimension: str, unit: str) -> None:
    base, factors, _ = units._DIMENSIONS[dimension]
    assert factors[unit] == units._factor_by_pint(unit, base, "")


def test_other_units_and_refusals_are_asked_of_pint() -> None:
    assert units.parse("2 weeks", "s") == 14 * 86400
    assert units.parse("3 tuples/s", "1/s") == 3
    for text, dimension, rule in (
        ("5 m", "s", "'m' is metre: write min for minutes or ms for milliseconds"),
        ("5 GB", "s", "'GB' has another dimension than 'second'"),
        ("5 seconds2", "s", "must be one number followed by one unit"),
        ("5 flights", "B", "'flights' is not a unit known here"),
    ):
        with pytest.raises(units.UnitError) as caught:
            units.parse(text, dimension)
        assert caught.value.rule == rule
    assert "pint" in sys.modules


@pytest.mark.parametrize("text", ["0.1 us", "0.01 us", "0.3 us", "0.7 us", "1.1 us", "0.2 ns", "12.5 us"])
def test_a_time_below_a_microsecond_is_shown_with_a_unit_that_reads_exactly(text: str) -> None:
    value = units.parse(text, "s")
    shown = units.show(value, "s")
    assert "e-" not in shown and len(shown) < 8
    assert units.parse(shown, "s") == value


def test_a_computed_time_is_shown_with_six_digits() -> None:
    assert units.show(5 * 1e-6, "s") == "4.9999999999999996e-06 s"
    assert units.show_about(5 * 1e-6, "s") == "5 us"
    assert units.show_about(7 * units.parse("0.1 us", "s"), "s") == "700 ns"
