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
