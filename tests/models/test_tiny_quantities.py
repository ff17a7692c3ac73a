"""Quantities that no clock and no number can tell from zero are refused, as those that are too large."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from models import units
from models.schema_types import (
    FROM_FILE,
    Bytes,
    BytesPerSecond,
    Description,
    PerSecond,
    PositiveBytes,
    PositiveSeconds,
    PricePerSecond,
    Seconds,
)
from models.validation_messages import faults_of


class Sample(Description):
    """A key of every type of quantity."""

    time: Seconds = 0.0
    span: PositiveSeconds = 1.0
    size: Bytes = 0.0
    state: PositiveBytes = 1.0
    speed: BytesPerSecond = 1.0
    rate: PerSecond = 0.0
    price: PricePerSecond = 0.0


def fault(key: str, text: str) -> str:
    with pytest.raises(ValidationError) as raised:
        Sample.model_validate({key: text}, context=FROM_FILE)
    (found,) = faults_of(raised.value.errors(include_url=False), {key: text}, Sample)
    return str(found)


UNITS = {"time": "s", "span": "s", "size": "B", "state": "B", "speed": "B/s", "rate": "/s", "price": "USD/s"}


@pytest.mark.parametrize("number", ["1e-320", "1e-400", "0.0000001e-330", "4.9e-324"])
@pytest.mark.parametrize("key", UNITS)
def test_a_number_that_is_lost_next_to_zero_is_refused(key: str, number: str) -> None:
    text = f"{number} {UNITS[key]}"
    assert fault(key, text).startswith(f"{key} = {text}: is too small")
    assert "write" in fault(key, text)


@pytest.mark.parametrize("number", ["1e400", "1e308", "1e20"])
@pytest.mark.parametrize("key", UNITS)
def test_a_number_that_is_too_large_is_refused(key: str, number: str) -> None:
    assert f"{key} = {number} {UNITS[key]}: must be" in fault(key, f"{number} {UNITS[key]}")


@pytest.mark.parametrize(
    ("key", "text", "least"),
    [
        ("time", "0.4 ns", "1 ns"),
        ("span", "1e-12 s", "1 ns"),
        ("size", "1e-6 B", "0.001 B"),
        ("state", "1e-200 GiB", "0.001 B"),
        ("speed", "1e-9 B/s", "0.001 B/s"),
        ("rate", "1e-10 /s", "0.000000001 /s"),
        ("price", "1e-16 USD/s", "0.000000000001 USD/s"),
    ],
)
def test_a_quantity_below_what_is_told_apart_is_refused_with_the_least(key: str, text: str, least: str) -> None:
    assert fault(key, text).startswith(f"{key} = {text}: must be ")
    assert f"at least {least}" in fault(key, text)


@pytest.mark.parametrize("text", ["0 s", "0.0 s", "0e5 s", "-0 s", "1 ns"])
def test_zero_and_the_least_time_are_times(text: str) -> None:
    assert Sample.model_validate({"time": text}, context=FROM_FILE).time in (0.0, 1e-9)


@pytest.mark.parametrize("key", UNITS)
def test_a_quantity_that_a_file_may_not_say_is_refused_in_python_too(key: str) -> None:
    with pytest.raises(ValidationError):
        Sample.model_validate({key: 1e-308})


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    value=st.floats(min_value=1e-300, max_value=1.7e308), dimension=st.sampled_from(["s", "B", "B/s", "1/s", "USD/s"])
)
def test_what_is_written_to_a_file_reads_back_equal(value: float, dimension: str) -> None:
    assert units.parse(units.show(value, dimension), dimension) == value


@settings(derandomize=True, deadline=None, max_examples=60)
@given(cents=st.integers(1, 10**7))
def test_a_price_is_read_back_as_it_was_written(cents: int) -> None:
    price = cents / 100
    assert units.in_unit(units.parse(f"{price} USD/h", "USD/s"), "USD/s", "USD/h") == price


def test_the_least_quantity_that_a_number_holds_is_still_read() -> None:
    assert units.parse("1e-300 s", "s") == 1e-300
