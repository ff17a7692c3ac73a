"""Quantities as text: they keep their order, read back within their rounding, and never need an exponent."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import display
from models.display import Form

FIXED = settings(derandomize=True, deadline=None, max_examples=80)
POSITIVE = st.floats(min_value=5e-324, max_value=1.7e308)
USUAL = st.floats(min_value=1e-7, max_value=1e12)
YEAR = 31_557_600
UNITS = {
    "years": YEAR, "d": 86_400, "h": 3600, "min": 60, "s": 1, "ms": Fraction(1, 10**3), "µs": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9), "EB": 10**18, "PB": 10**15, "TB": 10**12, "GB": 10**9, "MB": 10**6, "kB": 10**3, "B": 1,
    "/s": 1, "/min": Fraction(1, 60), "/h": Fraction(1, 3600), "/d": Fraction(1, 86_400), "/year": Fraction(1, YEAR),
    "%": Fraction(1, 100), "": 1,
}  # fmt: skip
FORMS: list[Form] = [
    display.number,
    display.duration,
    display.instant,
    display.size,
    display.byte_rate,
    display.rate,
    display.share,
    display.money,
]
BY_NAME = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)


def read(text: str) -> Fraction:
    """The quantity that a text says, in its base unit."""
    found = re.fullmatch(r"(-?[0-9,.]+)?(?: × )?(?:10\^(-?\d+))? ?([a-zµA-Z/%]*)", text.removeprefix(">"))
    assert found, text
    unit = found[3] if found[3] in UNITS else found[3].removesuffix("/s")
    return Fraction((found[1] or "1").replace(",", "")) * Fraction(10) ** int(found[2] or 0) * UNITS[unit]


@BY_NAME
@FIXED
@given(value=POSITIVE | USUAL)
def test_what_is_shown_reads_back_within_its_rounding(form: Form, value: float) -> None:
    shown = form(value)
    if math.isinf(100 * value) and "%" in shown:
        return
    given = Fraction(repr(value))
    near_all = Fraction(1, 10**12) if form is display.share else 0
    assert abs(read(shown) - given) <= max(given * Fraction(5, 1000), near_all)


@BY_NAME
@FIXED
@given(one=POSITIVE | USUAL, other=POSITIVE | USUAL)
def test_of_two_values_the_larger_never_reads_as_the_smaller(form: Form, one: float, other: float) -> None:
    low, high = sorted((one, other))
    if math.isinf(100 * high):
        return
    assert read(form(low)) <= read(form(high))


@BY_NAME
@FIXED
@given(value=POSITIVE | USUAL, negative=st.booleans(), digits=st.integers(1, 6))
def test_a_text_is_short_and_has_no_exponent(form: Form, value: float, negative: bool, digits: int) -> None:
    shown = form(-value if negative else value, digits)
    assert not re.search(r"\d[eE]", shown)
    assert len(shown) <= 30
    assert "," in shown or not re.search(r"\d{4}", shown.partition(".")[0].partition("^")[0])


@BY_NAME
@FIXED
@given(value=POSITIVE | USUAL)
def test_a_bound_that_is_rounded_still_holds(form: Form, value: float) -> None:
    if math.isinf(100 * value):
        return
    given = Fraction(repr(value))
    at_most, at_least = display.at_most(value, form), display.at_least(value, form)
    assert at_most.startswith("≤ ")
    assert at_least.startswith("≥ ")
    within = Fraction(1, 10**12) if form is display.share else 0  # nearer to 100 % than digits are shown
    assert read(at_least[2:]) - within <= given <= read(at_most[2:]) + within


@FIXED
@given(POSITIVE | USUAL)
def test_every_digit_of_a_number_reads_back_as_the_same_number(value: float) -> None:
    assert float(read(display.exact(value))) == value


@FIXED
@given(st.integers(1, 11), st.integers(1, 9))
def test_a_share_near_all_or_nothing_shows_how_near(nines: int, digit: int) -> None:
    left = digit * 10.0**-nines
    assert (display.share(left) == "0 %") is False
    assert (display.share(1 - left) == "100 %") is False
    assert float(1 - read(display.share(1 - left))) == pytest.approx(left, rel=0.01)


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        (display.number, 20_000.0, "20,000"),
        (display.number, 2.0345e4, "20,345"),
        (display.number, 999.96, "1,000"),
        (display.number, np.float64(0.3), "0.3"),
        (display.number, np.int64(7_760_807), "7,760,807"),
        (display.number, 10**18, "10^18"),
        (display.duration, 1.33e-6, "1.33 µs"),
        (display.duration, 0.9999, "1 s"),
        (display.duration, 100.0, "100 s"),
        (display.duration, 119.97, "2 min"),
        (display.duration, 3600.0, "1 h"),
        (display.duration, 5400.0, "90 min"),
        (display.duration, 86_400.0, "1 d"),
        (display.duration, 10 * YEAR, "10 years"),
        (display.duration, 0.0, "0 s"),
        (display.duration, math.inf, "unbounded"),
        (display.size, 2.0**32, "4.29 GB"),
        (display.size, 999_999.0, "1 MB"),
        (display.rate, 4883.2, "4,883 /s"),
        (display.rate, 0.1, "0.1 /s"),
        (display.rate, 1 / 60, "1 /min"),
        (display.share, 0.0, "0 %"),
        (display.share, 1e-6, "0.0001 %"),
        (display.share, 0.80195, "80.2 %"),
        (display.share, 0.999999, "99.9999 %"),
        (display.share, 1.0000000000000002, "100 %"),
        (display.share, 1 - 1e-13, ">99.9999999999 %"),
        (display.share, 1.2345, "123.5 %"),
        (display.share, -0.5, "-50 %"),
        (display.money, 12.599999999999998, "12.6"),
    ],
)
def test_values_read_as_people_write_them(form: Callable[[float], str], value: float, text: str) -> None:
    assert form(value) == text


@BY_NAME
def test_what_is_unknown_is_a_dash(form: Form) -> None:
    assert form(None) == form(math.nan) == display.NONE == display.at_most(None, form) == display.at_least(None, form)


def test_ranges_are_rounded_outwards_and_say_one_bound_where_the_other_is_unknown() -> None:
    assert display.between(24.31, 26.31) == "24.3–26.4 s"
    assert display.between(None, 26.31) == "≤ 26.4 s"
    assert display.between(24.39, None) == "≥ 24.3 s"
    assert display.between(50.0, 200.0) == "50 s to 3.34 min"
    assert display.between(-1.0, 2.0) == "-1 s to 2 s"
    assert display.between(0.1, 0.1000001, display.share) == "10–10.00001 %"
    assert display.between(24.39, 24.39) == "24.4 s"


def test_values_that_differ_are_told_apart() -> None:
    assert display.apart(60.04, 60.0) == ("60.04 s", "60 s")
    assert display.apart(5400.0, 26.3) == ("90 min", "26.3 s")
    assert display.apart(17.86, 17.85, rounding=("down",)) == ("17.86 s", "17.85 s")
    assert display.apart(17.88, 17.86, rounding=("down",)) == ("17.88 s", "17.86 s")
    assert display.apart(26.298, 26.298) == ("26.3 s", "26.3 s")
    assert len(set(display.apart(100.0, 100.0 * (1 + 1e-12), 100.0 * (1 + 1e-11)))) == 3
    assert display.apart(4.0e9, 4.0001e9, form=display.size) == ("4 GB", "4.0001 GB")


def test_an_availability_keeps_all_its_nines() -> None:
    texts = [display.availability(one) for one in (0.0, 1.0, 0.25, 0.000346, 1e-5, 1.04e-5, 2.5e-11)]
    assert texts == ["1", "0", "0.75", "0.999654", "0.99999", "0.9999896", "0.999999999975"]
    assert display.availability(float(f"{1 - 0.99995678:.10g}"), 10) == "0.99995678"
    assert display.availability(1.0401e-5, rounding="up") == "0.9999895"  # at least that


# Who may write numbers with a format that can have an exponent, and why.
WRITES_EXPONENTS = {
    "models/units.py": "files: what parse reads back",
    "scenarios/reliability/availability.py": "keys of JSON documents",
    "scenarios/studies/reproduce/replay.py": "a scenario, as a file would have it",
    "scenarios/studies/reproduce/checkpoint_assisted.py": "names of files",
}
CHARTS = "analysis/report/"  # their hover texts are formats of plotly, and their numbers are data


def test_no_other_module_says_numbers_in_a_format_that_may_have_an_exponent() -> None:
    root = Path(__file__).parents[2]
    found: dict[str, list[int]] = {}
    for folder in ("holdfast", "scenarios", "analysis", "models", "optimizer", "sim"):
        for path in sorted((root / folder).rglob("*.py")):
            text = path.read_text()
            if re.search(r"[geEG]\}", text):
                found[str(path.relative_to(root))] = list(lines_with_exponents(ast.parse(text)))
    said = {name: lines for name, lines in found.items() if lines and not name.startswith(CHARTS)}
    assert sorted(said) == sorted(WRITES_EXPONENTS), said


def lines_with_exponents(tree: ast.AST) -> list[int]:
    """Lines of formats such as `:.3g`, but of those that only round: float(f"{x:.6g}")."""
    rounding = {
        id(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float" and node.args
    }
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) and id(node) not in rounding]
    values = [part for text in texts for part in text.values if isinstance(part, ast.FormattedValue)]
    specs = [(one.lineno, ast.unparse(one.format_spec)) for one in values if one.format_spec is not None]
    return [line for line, spec in specs if re.search(r"[geEG]['\"]$", spec)]


def test_a_mean_and_its_interval_have_one_unit_and_end_at_the_same_digit() -> None:
    assert display.plus_minus(0.44082, 0.0123, display.duration) == "441 ± 12 ms"
    assert display.plus_minus(0.007, 0.019, display.share, signed=True) == "+0.7 ± 1.9 %"
    assert display.plus_minus(0.0, 0.002, display.duration, signed=True) == "0 ± 2 ms"
    assert display.plus_minus(12345.0, 120.0) == "12,345 ± 120"
    assert display.plus_minus(3.9e6, 1234.0, display.byte_rate) == "3.9 ± 0.0012 MB/s"
    assert display.plus_minus(1.0, 0.0, display.duration) == "1 ± 0 s"
    assert display.plus_minus(0.5, None, display.duration) == "500 ms"


def test_an_interval_shows_whether_it_holds_zero() -> None:
    assert display.plus_minus(27.3e-6, 26.9e-6, display.duration) == "27.3 ± 26.9 µs"
    assert display.plus_minus(26.9e-6, 27.3e-6, display.duration) == "26.9 ± 27.3 µs"
    assert display.plus_minus(-0.100004, 0.1, display.share) == "-10.0004 ± 10 %"
    assert display.plus_minus(27.0, 27.0) == "27 ± 27"
    for mean, half in ((12345.4, 12345.3), (-1.5e-6, 1.4e-6), (0.0995, 0.1), (2.0, 31.0)):
        for form in (display.number, display.duration, display.share, display.size):
            shown, width = display.plus_minus(mean, half, form).replace(",", "").split(" ± ")
            said = (abs(float(shown.split()[0])), float(width.split()[0]))
            assert (said[0] > said[1]) == (abs(mean) > half), (mean, half, said)


def test_nothing_has_no_sign_and_a_large_interval_gives_the_unit() -> None:
    assert display.plus_minus(-0.0001, 0.2) == "0 ± 0.2"
    assert display.plus_minus(-0.0004, 0.012, display.share) == "0 ± 1.2 %"
    assert display.plus_minus(1e-9, 5.0, display.duration) == "0 ± 5 s"
    assert display.plus_minus(0.44, 2.1, display.duration) == "0.4 ± 2.1 s"
    assert display.plus_minus(1e-12, 0.0) == "10^-12 ± 0"


def test_a_count_agrees_with_the_number_that_is_shown() -> None:
    assert [display.count(value, "host") for value in (0.4, 0.6, 1.4, 1.6)] == [
        "0 hosts",
        "1 host",
        "1 host",
        "2 hosts",
    ]
