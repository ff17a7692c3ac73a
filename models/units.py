"""Quantities with units: text such as "0.4 ms" or "10 Gbit/s" to a number in SI units and back.

A registry of our own: it knows tuples, cores and currency, and refuses texts that pint would read as
something else than a stream engineer means ("1 Mb" is an area to pint: megabarn).

Code has numbers in SI units; text with units exists only in files and messages. `_DIMENSIONS` has the factors of common
units, so pint is loaded only for rare ones.
"""

from __future__ import annotations

import functools
import math
import re
import sys
from collections.abc import Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pint

# dimension -> (unit that code uses, units that files are written with, an example for hints). The factors are those of
# pint, as tests check: a file that has no other units is read without pint, whose loading takes half a second.
_DIMENSIONS: dict[str, tuple[str, dict[str, float], str]] = {
    "s": (
        "second",
        {"d": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
        "5 s",
    ),
    "B": (
        "byte",
        {
            **{"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3, "B": 1.0},
            **{"TiB": 2.0**40, "GiB": 2.0**30, "MiB": 2.0**20, "KiB": 2.0**10},
        },
        "8 GB",
    ),
    "B/s": (
        "byte / second",
        {"Gbit/s": 1.25e8, "Mbit/s": 1.25e5, "GB/s": 1e9, "MB/s": 1e6, "kB/s": 1e3, "B/s": 1.0},
        "1 Gbit/s",
    ),
    "1/s": ("1 / second", {"/s": 1.0, "/min": 1 / 60, "/h": 1 / 3600, "/d": 1 / 86400}, "100 /s"),
    "USD/s": ("USD / second", {"USD/h": 1 / 3600, "USD/s": 1.0}, "0.12 USD/h"),
}
_REFUSED = {
    "b": "barn, an area: write B for bytes or bit for bits",
    "m": "metre: write min for minutes or ms for milliseconds",
    "M": "molar: write min for minutes or MB for megabytes",
}
_BITS = re.compile(r"^[kKMGT]i?b$")
_WORD = re.compile(r"[A-Za-zµ]+")
_PLAIN = re.compile(r"^\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*?)\s*$")
_NS = 1_000_000_000


class UnitError(ValueError):
    """The text is not a quantity of the wanted dimension; the message is a rule, `hint` an example.

    It has no path: the caller knows it, and makes an `InputFault` from both parts.
    """

    def __init__(self, rule: str, hint: str = "") -> None:
        super().__init__(rule)
        self.rule, self.hint = rule, hint


def parse(text: object, dimension: str) -> float:
    """Return the quantity as a number in the unit of `dimension` ("s", "B", "B/s", "1/s", "USD/s").

    Raises UnitError for a bare number, an unknown or refused unit, another dimension, a value not finite, or lost
    next to zero.

    >>> parse("0.4 ms", "s")
    0.0004
    >>> parse("1 Gbit/s", "B/s")
    125000000.0
    >>> parse("100 /s", "1/s")
    100.0
    """
    unit, factors, example = _DIMENSIONS[dimension]
    hint = f'write it with its unit, as in "{example}"'
    if not isinstance(text, str):
        kind = "table" if isinstance(text, dict) else "list" if isinstance(text, list | tuple) else "bare number"
        raise UnitError(f"must be a quantity with a unit, not a {kind}", hint)
    found = _PLAIN.match(text)
    if not found or not found[2]:
        raise UnitError("must be one number followed by one unit", hint)
    # Units of the table first: a file that has no others never loads pint.
    factor = factors.get(found[2]) or _factor_by_pint(found[2], unit, hint)
    value = _scaled(float(found[1]), factor)
    if not math.isfinite(value):
        raise UnitError("must be finite", hint)
    if abs(value) < sys.float_info.min and re.search("[1-9]", re.split("[eE]", found[1])[0]):
        raise UnitError("is too small: a number of this machine cannot hold it", hint)
    return value


@functools.lru_cache(maxsize=4096)
def _factor(unit_text: str, unit: str) -> float:
    """Return how many of the code's unit one unit of the text is, by pint; raises pint's errors."""
    quantity = _registry().parse_expression(unit_text)
    return float(_registry().Quantity(quantity).to(unit).magnitude)


def _factor_by_pint(unit_text: str, unit: str, hint: str) -> float:
    """Return the factor of a unit that the table lacks.

    Raises UnitError for units that are refused, unknown, of another dimension, or with a number of their own ("5 s2").
    """
    import pint  # noqa: PLC0415 - heavy, and only needed for units that are seldom written

    for word in _WORD.findall(unit_text):
        if word in _REFUSED or _BITS.match(word):
            raise UnitError(f"{word!r} is {_REFUSED.get(word[-1:], _REFUSED['b'])}", hint)
    if re.search(r"\d|\*\*|\^", unit_text.replace("1/", "/", 1)):
        raise UnitError("must be one number followed by one unit", hint)
    readable = re.sub(r"^tuples?\s*/", "/", unit_text) if unit == "1 / second" else unit_text
    readable = "1" + readable if readable.startswith("/") else readable
    try:
        return _factor(readable, unit)
    except pint.DimensionalityError:
        raise UnitError(f"{unit_text!r} has another dimension than {unit!r}", hint) from None
    except Exception:  # pint raises many kinds for broken text; each means the same to the user
        raise UnitError(f"{unit_text!r} is not a unit known here", hint) from None


def _scaled(number: float, factor: float) -> float:
    """Return number * factor, by a whole inverse where there is one: 0.4 ms is 0.0004 s and not 0.0004000000001."""
    # Division by a whole number rounds once, multiplication by an inexact factor twice.
    inverse = 1 / factor
    whole = round(inverse)
    if whole > 1 and math.isclose(inverse, whole, rel_tol=1e-12):
        return number / whole
    return number * factor


@functools.lru_cache(maxsize=1)
def _registry() -> pint.UnitRegistry:  # type: ignore[type-arg]
    """Return pint's registry with tuples, cores and currency; it takes half a second to make, so there is one."""
    import pint  # noqa: PLC0415

    registry: pint.UnitRegistry = pint.UnitRegistry(cache_folder=None)  # type: ignore[type-arg]
    registry.define("tuple = [tuple] = tuples")
    registry.define("core = [core] = cores")
    registry.define("USD = [currency] = usd")
    return registry


def show(value: float, dimension: str) -> str:
    """Return the quantity as text in the largest unit that reads exactly, so that `parse(show(x)) == x`.

    Bytes are in the unit that takes the fewest characters: GB or GiB, whichever somebody wrote.

    >>> show(300.0, "s"), show(0.0004, "s"), show(125000000.0, "B/s"), show(1e6, "1/s"), show(4e9, "B")
    ('5 min', '0.4 ms', '1 Gbit/s', '1000000 /s', '4 GB')
    """
    _, units, _ = _DIMENSIONS[dimension]
    if value == 0:
        return f"0 {_base_unit(dimension)}"
    counts = [(_count_of(value, dimension, unit), unit) for unit in units]
    usual = [
        (number, unit)
        for number, unit in counts
        if abs(number) >= 1 or unit in ("ns", "B", "B/s", "/d", "USD/s") or _short(number, unit)
    ]
    plain = f"{value!r} {_base_unit(dimension)}"
    if dimension == "B":
        return min(_exact(usual, dimension, value), key=len, default=plain)
    # A part of the smallest unit that does it, where nothing else reads exactly: 0.1 us is not quite 100 ns.
    return next(chain(_exact(usual, dimension, value), _exact(counts[::-1], dimension, value)), plain)


def _exact(counts: Iterable[tuple[float, str]], dimension: str, value: float) -> Iterator[str]:
    """Yield the quantities, of numbers and their units, that read as the value with six digits."""
    texts = (f"{_digits(number, 6)} {unit}" for number, unit in counts)
    return (text for text in texts if _reads_as(text, dimension, value))


def show_about(value: float, dimension: str) -> str:
    """Return a quantity that was computed, to six digits: a product of two that were read may have seventeen.

    >>> show(5 * 1e-6, "s"), show_about(5 * 1e-6, "s")
    ('4.9999999999999996e-06 s', '5 us')
    """
    return show(float(f"{value:.6g}"), dimension)


def in_unit(value: float, dimension: str, unit: str) -> float:
    """Return the number of that unit with the fewest digits that reads as the value: a price as somebody wrote it.

    >>> 18 * (0.7 / 3600) * 3600, 18 * in_unit(0.7 / 3600, "USD/s", "USD/h")
    (12.599999999999998, 12.6)

    `value`: number in the unit that code uses for the dimension. `unit`: one of the table, such as "USD/h".
    """
    number = _count_of(value, dimension, unit)
    shown = (_digits(number, digits) for digits in range(1, 18))
    return next((float(text) for text in shown if _reads_as(f"{text} {unit}", dimension, value)), number)


def cost_of(uses: Iterable[tuple[float, float]]) -> float:
    """Return what (price [USD/s], time [s]) cost together [USD]: exactly, of the prices and times as they are written.

    >>> cost_of([(0.36 / 3600, 70.0), (0.1 / 3600, 36.0)])
    0.008

    Sums of rounded products would depend on their order; fractions do not.
    """
    exact = (Fraction(repr(in_unit(price, "USD/s", "USD/h"))) * Fraction(repr(float(time))) for price, time in uses)
    return float(sum(exact, Fraction()) / 3600)


def _count_of(value: float, dimension: str, unit: str) -> float:
    """Return how many of a unit the value is."""
    return value / _DIMENSIONS[dimension][1][unit]


def _digits(number: float, digits: int) -> str:
    """Return the number with at most so many significant digits."""
    text = f"{number:.{digits}g}"  # with an exponent only where nobody counts zeros
    return f"{Decimal(text):f}" if "e" in text and 1e-13 <= abs(number) < 1e15 else text


def _reads_as(text: str, dimension: str, value: float) -> bool:
    """Return True if the text is read as exactly this value."""
    try:
        return parse(text, dimension) == value
    except UnitError:
        return False  # no number of that unit is this value


def _short(number: float, unit: str) -> bool:
    """Return whether a fraction reads well: 0.4 ms and 0.12 USD/h do, 0.5 h and 0.1 kB do not."""
    if unit == "USD/h":
        return abs(number) >= 0.001
    return unit in ("s", "ms") and abs(number) >= 0.1 and len(_digits(number, 6)) <= 4


def _base_unit(dimension: str) -> str:
    """Return the unit that every value of the dimension can be written in."""
    return "/s" if dimension == "1/s" else dimension


def example(dimension: str) -> str:
    """Return a quantity of that dimension, for hints and for the reference."""
    return _DIMENSIONS[dimension][2]


def to_ns(seconds: float) -> int:
    """Return the whole nanoseconds nearest to `seconds`, ties to even.

    >>> to_ns(0.25), to_ns(2.5e-9), to_ns(3.5e-9)
    (250000000, 2, 4)
    """
    return round(seconds * _NS)
