"""Quantities as people read them: the one place where a number becomes text for a terminal, a message or a page.

What a file says and what a file is read from is `models.units`; values in JSON and tables on disk are exact numbers and
never come through here. The rules, which `docs/reference/glossary.md` repeats for readers:

- thousands are set apart by commas, everywhere: 7,760,807;
- three significant digits unless asked for more, and always all digits before the point: 20,345, 12.3, 0.0123;
- no exponents such as 2e+04. Below 10^-9 and from 10^15 on, where nobody counts zeros, powers of ten are written out:
  1.2 × 10^-12;
- times in ns, µs, ms, s, min, h, d or years; bytes in decimal kB, MB, GB, as links are in Mbit/s; rates a second,
  or, where less than one comes in ten seconds, a minute, hour, day or year;
- shares in percent, with as many digits as say how far they are from 0 and from 100 %: 99.9999 %;
- a bound that is rounded still holds: `at_most` rounds up, `at_least` down, and both may be reached (≤, ≥).

Every form takes `digits`, and `rounding` where a bound is said; None and NaN are a dash.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from numbers import Integral
from typing import Literal, Protocol

NONE = "–"
Rounding = Literal["nearest", "up", "down"]

_MODES = {"nearest": ROUND_HALF_UP, "up": ROUND_CEILING, "down": ROUND_FLOOR}
_EXACTLY = Context(prec=60)  # no program that changes the usual context changes what is shown
_SMALLEST, _LARGEST = -9, 15  # powers of ten between which all zeros are written
_Unit = tuple[str, str, str]  # its name, its size, and the least number of it that reads better than a smaller one
_TIMES: tuple[_Unit, ...] = (
    ("years", "31557600", "2"),
    ("d", "86400", "2"),
    ("h", "3600", "2"),
    ("min", "60", "2"),
    ("s", "1", "1"),
    ("ms", "1e-3", "1"),
    ("µs", "1e-6", "1"),
    ("ns", "1e-9", "0"),
)
_BYTES: tuple[_Unit, ...] = (
    ("EB", "1e18", "1"),
    ("PB", "1e15", "1"),
    ("TB", "1e12", "1"),
    ("GB", "1e9", "1"),
    ("MB", "1e6", "1"),
    ("kB", "1e3", "1"),
    ("B", "1", "0"),
)
_RATES: tuple[_Unit, ...] = (
    ("/s", "1", "0.1"),
    ("/min", "60", "1"),
    ("/h", "3600", "1"),
    ("/d", "86400", "1"),
    ("/year", "31557600", "0"),
)
_HALF = {unit: 0.5 * float(size) * (float(least) >= 1) for unit, size, least in (*_TIMES, *_BYTES)}
_HALF |= {unit: 0.5 * (float(least) >= 1) for unit, _, least in _RATES}
_SIZES = {unit: Decimal(size) for unit, size, _ in (*_TIMES, *_BYTES)}
_SIZES |= {f"{unit}/s": Decimal(size) for unit, size, _ in _BYTES}
_SIZES |= {unit: 1 / Decimal(size) for unit, size, _ in _RATES}
_SIZES |= {"%": Decimal("0.01"), "": Decimal(1)}
_ONE = ("h", "d")  # one of them reads better than 60 min, or 24 h
_MOST_DIGITS = 9  # of both ends of a range
_CERTAIN = Decimal("1e-12")  # percent by which floats miss 100 %
_NEAREST = Decimal("1e-10")  # percent that a share may be from 100 % and have its digits shown


class Form(Protocol):
    """One of the functions below that say a quantity: `duration`, `size`, `number`, `share` and so on."""

    def __call__(self, value: float | None, digits: int = 3, *, rounding: Rounding = "nearest") -> str: ...


def number(value: float | Decimal | None, digits: int = 3, *, rounding: Rounding = "nearest") -> str:
    """Return the number with `digits` significant digits, all digits before the point, and no zeros at its end.

    >>> number(20345.2), number(0.012345), number(7760807), number(12.599999999), number(1.33e-12)
    ('20,345', '0.0123', '7,760,807', '12.6', '1.33 × 10^-12')
    """
    if value is None or math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    exact = _decimal(value)
    if not exact:
        return "0"
    places = digits - 1 - exact.adjusted()
    rounded = _round(exact, places if exact.adjusted() >= _LARGEST else max(0, places), rounding)
    power = rounded.adjusted()
    if _SMALLEST <= power < _LARGEST:
        return _plain(rounded)
    mantissa = _plain(rounded.scaleb(-power, _EXACTLY))
    return f"10^{power}" if mantissa == "1" else f"{mantissa} × 10^{power}"


def exact(value: float | None) -> str:
    """Return the number with every digit that it has, for what somebody wrote and reads again.

    >>> exact(0.99999074), exact(20000.0), exact(1e300)
    ('0.99999074', '20,000', '10^300')
    """
    return number(value, 17)


def count(value: float | None, noun: str = "", nouns: str = "") -> str:
    """Return a whole number, and what is counted in the singular or plural.

    >>> count(4883), count(1, "host"), count(12000, "host"), count(2, "query", "queries")
    ('4,883', '1 host', '12,000 hosts', '2 queries')
    """
    said = number(None if value is None else round(value) if math.isfinite(value) else value)
    return f"{said} {noun if said == '1' else nouns or noun + 's'}" if noun else said


def about(value: float | None, digits: int = 2) -> str:
    """Return a number that is only known roughly, rounded also before the point.

    >>> about(47_304_123), about(1234.5), about(0.0123)
    ('47,000,000', '1,200', '0.012')
    """
    if value is None or not math.isfinite(value) or not value:
        return number(value)
    given = _decimal(value)
    return number(_round(given, digits - 1 - given.adjusted(), "nearest"), digits)


def duration(value: float | None, digits: int = 3, *, rounding: Rounding = "nearest") -> str:
    """Return a time [s] in the unit that suits it, from ns to years; one without an end is `unbounded`.

    >>> duration(5400.0), duration(86_400.0 * 40), duration(1.33e-6), duration(734.0), duration(1e9), duration(None)
    ('90 min', '40 d', '1.33 µs', '12.2 min', '31.7 years', '–')
    """
    if value is not None and math.isinf(value):
        return "unbounded"
    return "0 s" if value == 0 else _in_unit(value, _TIMES, digits, rounding)


def instant(value: float | None, digits: int = 5, *, rounding: Rounding = "nearest") -> str:
    """Return when in a run something happened: always in seconds, so that instants compare.

    >>> instant(1234.56), instant(0.25), instant(None)
    ('1,234.6 s', '0.25 s', '–')
    """
    said = number(value, digits, rounding=rounding)
    return said if said == NONE else f"{said} s"


def size(value: float | None, digits: int = 3, *, rounding: Rounding = "nearest") -> str:
    """Return a number of bytes in decimal units.

    >>> size(4831838208), size(640), size(1500)
    ('4.83 GB', '640 B', '1.5 kB')
    """
    return "0 B" if value == 0 else _in_unit(value, _BYTES, digits, rounding)


def byte_rate(value: float | None, digits: int = 3, *, rounding: Rounding = "nearest") -> str:
    """Return bytes per second in decimal units.

    >>> byte_rate(1.25e9)
    '1.25 GB/s'
    """
    said = size(value, digits, rounding=rounding)
    return said if said == NONE else f"{said}/s"


def rate(value: float | None, digits: int = 3, *, rounding: Rounding = "nearest") -> str:
    """Return how often something comes, given per second; what comes rarely per minute, hour, day or year.

    >>> rate(850), rate(12345.6), rate(0.05), rate(1e-7)
    ('850 /s', '12,346 /s', '3 /min', '3.16 /year')
    """
    return "0 /s" if value == 0 else _in_unit(value, _RATES, digits, rounding, per=True)


def share(value: float | None, digits: int = 3, *, rounding: Rounding = "nearest") -> str:
    """Return a share in percent: with one decimal, and with `digits` digits of what it is above 0 or below 100 %.

    Only a share of nothing reads 0 %, and only one of all reads 100 %.

    >>> share(0.42345), share(0.00012345), share(0.999999), share(1.2), share(0.5), share(1.0)
    ('42.3 %', '0.0123 %', '99.9999 %', '120 %', '50 %', '100 %')
    """
    if value is None or not math.isfinite(value):
        return f"{number(value)} %" if value is not None and math.isinf(value) else NONE
    percent = _decimal(value).scaleb(2, _EXACTLY)
    left = abs(100 - percent)
    if left < _NEAREST:
        return ">99.9999999999 %" if left > _CERTAIN and percent < 100 else "100 %"
    return _percent(percent, min(abs(percent), left), digits, rounding)


def _percent(percent: Decimal, near: Decimal, digits: int, rounding: Rounding) -> str:
    """Return percent with one decimal, and with `digits` digits of what is `near`."""
    if not near or percent.adjusted() < _SMALLEST or abs(percent) >= 1000:
        return f"{number(percent, digits, rounding=rounding)} %"
    return f"{_plain(_round(percent, max(1, digits - 1 - near.adjusted()), rounding))} %"


def availability(unavailability: float | None, digits: int = 3, *, rounding: Rounding = "nearest") -> str:
    """Return an availability as files say it, with all its nines: `digits` digits of the unavailability are kept.

    `rounding` is that of the unavailability: up for what the availability is at least.

    >>> availability(0.000346), availability(1e-5), availability(2.5e-11), availability(0.00012345, rounding="up")
    ('0.999654', '0.99999', '0.999999999975', '0.999876')
    """
    if unavailability is None or not math.isfinite(unavailability):
        return NONE
    left = _decimal(unavailability)
    left = _round(left, digits - 1 - left.adjusted(), rounding) if left else left
    return _plain(_EXACTLY.subtract(1, left))


def change(value: float | None, digits: int = 3) -> str:
    """Return a relative difference with its sign, in percent; twice as much is nothing special.

    >>> change(0.123), change(-0.0456), change(0.0), change(1.00343)
    ('+12.3 %', '-4.56 %', '0 %', '+100.3 %')
    """
    if value is None or not math.isfinite(value):
        return share(value, digits)
    percent = _decimal(value).scaleb(2, _EXACTLY)
    said = _percent(percent, abs(percent), digits, "nearest")
    return f"+{said}" if value > 0 else said


def money(value: float | None, digits: int = 6, *, rounding: Rounding = "nearest") -> str:
    """Return an amount, to the cent or finer.

    >>> money(12.599999999999998), money(1234.5), money(0.00012)
    ('12.6', '1,234.5', '0.00012')
    """
    return number(value, digits, rounding=rounding)


def at_most(value: float | None, form: Form = duration, digits: int = 3) -> str:
    """Return an upper bound, rounded up so that it holds; a dash for none.

    >>> at_most(26.341), at_most(0.00011, share)
    ('≤ 26.4 s', '≤ 0.011 %')
    """
    return NONE if value is None else f"≤ {form(value, digits, rounding='up')}"


def at_least(value: float | None, form: Form = duration, digits: int = 3) -> str:
    """Return a lower bound, rounded down so that it holds; a dash for none.

    >>> at_least(26.349)
    '≥ 26.3 s'
    """
    return NONE if value is None else f"≥ {form(value, digits, rounding='down')}"


def between(low: float | None, high: float | None, form: Form = duration, digits: int = 3) -> str:
    """Return a range that holds both ends; the value where they are equal, and one bound where the other is unknown.

    >>> between(24.31, 26.31), between(None, 26.3), between(5.0, 5.0)
    ('24.3–26.4 s', '≤ 26.3 s', '5 s')
    """
    if low is None or high is None:
        return at_most(high, form, digits) if low is None else at_least(low, form, digits)
    if low == high:
        return form(low, digits)
    enough = (many for many in range(digits, _MOST_DIGITS) if form(low, many) != form(high, many))
    digits = next(enough, _MOST_DIGITS)  # ends that are close have as many as show that they differ
    least, most = form(low, digits, rounding="down"), form(high, digits, rounding="up")
    (first, _, unit), (_, _, other) = least.partition(" "), most.partition(" ")
    return f"{first}–{most}" if unit == other and low >= 0 else f"{least} to {most}"


def plus_minus(mean: float | None, half: float | None, form: Form = number, *, signed: bool = False) -> str:
    """Return a mean and half of its interval in one unit, both to the second digit of the half.

    They have more digits where only these show whether the interval holds zero. The mean stands alone where no interval
    is known. `signed`: more than nothing has a plus.

    >>> plus_minus(0.0123, 0.00041, duration), plus_minus(0.42, 0.0312, share), plus_minus(1234.5, None)
    ('12.3 ± 0.41 ms', '42 ± 3.1 %', '1,235')
    >>> plus_minus(27.3, 26.9)
    '27.3 ± 26.9'
    """
    if mean is None or half is None or not math.isfinite(half):
        said = form(mean)
    elif not half:
        number_of, _, unit = form(mean).rpartition(" ")
        said = f"{number_of} ± 0 {unit}" if unit in _SIZES else f"{form(mean)} ± 0"
    else:
        unit = form(max(abs(mean), half)).rpartition(" ")[2]
        unit = unit if unit in _SIZES else ""  # a number, or its power of ten
        middle, width = (_EXACTLY.divide(_decimal(value), _SIZES[unit]) for value in (mean, half))
        for more in range(_MOST_DIGITS):
            places = max(0, min(1 + more - width.adjusted(), _MOST_DIGITS - 1 - middle.adjusted()))
            shown = _round(middle, places, "nearest")
            wide = _round(width, max(0, 1 + more - width.adjusted()), "nearest")
            if _order(abs(shown), wide) == _order(abs(middle), width):
                break
        said = f"{_plain(shown)} ± {number(width, 2 + more)} {unit}".rstrip()
    return f"+{said}" if signed and mean and mean > 0 and not said.startswith("0 ") else said


def apart(*values: float, form: Form = duration, rounding: Sequence[Rounding] = ()) -> tuple[str, ...]:
    """Return the values as text, all with as many digits as show that those that differ do differ.

    `rounding` is that of each, for those that are bounds.

    >>> apart(60.04, 60.0), apart(5400.0, 26.3), apart(12.0000001, 12.0, form=number)
    (('60.04 s', '60 s'), ('90 min', '26.3 s'), ('12.0000001', '12'))
    """
    ways: list[Rounding] = [*rounding, *["nearest"] * (len(values) - len(rounding))]  # type: ignore[list-item]
    said: tuple[str, ...] = ()
    for digits in range(3, 18):
        said = tuple(form(one, digits, rounding=way) for one, way in zip(values, ways, strict=True))
        plain = {form(one, digits) for one in values}
        if len(set(said)) == len(plain) == len(set(values)):  # rounding apart alone may turn their order around
            break
    return said


def _in_unit(value: float | None, units: Sequence[_Unit], digits: int, rounding: Rounding, *, per: bool = False) -> str:
    """Return the value in the first of the units of which it has enough, once it is rounded: 0.9999 s are 1 s.

    With `per` the units are what it is counted per.
    """
    if value is None or not math.isfinite(value):
        said = number(value)
        return said if said == NONE else f"{said} {units[0][0]}"
    given, rough = _decimal(value), abs(value)
    for unit, length, least in units:
        if _HALF[unit] > (rough if not per else rough * float(length)):
            continue  # no rounding makes enough of it
        found = (_EXACTLY.multiply if per else _EXACTLY.divide)(given, Decimal(length))
        rounded = abs(_round(found, digits - 1 - found.adjusted(), rounding))
        if rounded >= Decimal(least) or (unit in _ONE and rounded == 1):
            return f"{number(found, digits, rounding=rounding)} {unit}"
    raise AssertionError("the last unit takes every value")


def _decimal(value: float | Decimal) -> Decimal:
    """Return the number that the shortest text of the value says: 12.6 and not 12.5999999999999996."""
    if isinstance(value, Decimal):
        return value
    return Decimal(int(value)) if isinstance(value, Integral) else Decimal(repr(float(value)))


def _round(value: Decimal, places: int, rounding: Rounding) -> Decimal:
    """Return the number with so many decimal places; with places below 0 it is rounded before the point."""
    return value.quantize(Decimal(1).scaleb(-places), rounding=_MODES[rounding], context=_EXACTLY)


def _order(one: Decimal, other: Decimal) -> int:
    """Return 1, 0 or -1: how two numbers compare."""
    return (one > other) - (one < other)


def _plain(value: Decimal) -> str:
    """Return the number with commas, all its zeros, and none at the end of a fraction."""
    said = f"{value or abs(value):,f}"  # nothing has no sign
    return said.rstrip("0").removesuffix(".") if "." in said else said
