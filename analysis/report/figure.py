"""Figures and sections of a page as values, and the axes of figures.

A `Figure` is a plotly specification (plain dicts), the sentence below it, and its numbers as a table. Colours are roles
("var:--name"), filled in by the page's script from its style sheet, so that figures follow the light and the dark
scheme; only values under a key that speaks of colour are filled in. A `Section` has words, then figures and tables.
Axes of times, shares and bytes have ticks that read as words do, and units that suit the values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from analysis.report import text
from analysis.report.placement import BeforeAfter
from models.table import Table

PHASES = {
    "detect": "detect",
    "allocate": "allocate",
    "restart": "restart",
    "restore": "restore",
    "replay": "replay",
    "catch_up": "catch up",
}
Spec = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """A plotly figure: title, caption (what the data say; may be empty), specification, height [px].

    `heads` and `rows` are its numbers as text, shown on request. `phases` of a recovery
    that are shaded get a legend.
    """

    name: str
    title: str
    caption: str
    data: list[Spec]
    layout: Spec
    height: int
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    phases: tuple[str, ...] = ()
    shading: tuple[tuple[str, str], ...] = ()  # (what, colour) of other areas, such as ("drain", "c2")
    events: tuple[tuple[str, str], ...] = ()  # (when, what) of the marks, for those who do not see them
    events_left: int = 0

    @property
    def json(self) -> str:
        """The specification, inert inside a script element."""
        return text.for_script({"data": self.data, "layout": self.layout})


def reading(axis: str, unit: str = "", values: npt.ArrayLike = ()) -> str:
    """Return the part of a hover text that is the value on an axis, with its unit.

    It has four digits, or as many as the greatest of the values has before the point, so that none is lost there.

    >>> reading("y", "s")
    '%{y:,.4~r}\\xa0s'
    """
    return f"%{{{axis}:,.{digits_for(values, 4)}~r}}" + (f"\u00a0{unit}" if unit else "")


def digits_for(values: npt.ArrayLike, least: int) -> int:
    """Return how many digits the greatest of the values has before the point, or `least`.

    >>> digits_for([12_345.0, 7.0], 4), digits_for([0.5], 4)
    (5, 4)
    """
    known = np.asarray(values, dtype=np.float64)
    known = np.abs(known[np.isfinite(known)])
    return max(least, len(f"{known.max():.0f}")) if known.size else least


def header(unit: str) -> Spec:
    """Return the head of a hover text of all lines at once: the value on the axis below, with its unit."""
    return {"text": f"%{{x:,.6~r}}\u00a0{unit}"}


SHARE = "%{y:.3~p}"
"""The part of a hover text that is a share: three digits, in per cent."""


def fit(matrix: np.ndarray, rows: int, columns: int) -> tuple[np.ndarray, int, int]:
    """Return the matrix with at most that many rows and columns: means of blocks; and the size of a block.

    `matrix` is (n, m). Returned are the matrix of means, how many rows each of its rows stands for, and how many
    columns each of its columns does.

    >>> fit(np.array([[1.0, 3.0], [5.0, 7.0]]), 2, 1)
    (array([[2.],
           [6.]]), 1, 2)
    """
    down, across = (max(1, math.ceil(have / most)) for have, most in zip(matrix.shape, (rows, columns), strict=True))
    for axis, each in ((0, down), (1, across)):
        if each > 1:
            begins = np.arange(0, matrix.shape[axis], each)
            # The last block may be smaller: its mean is over what it has.
            sizes = np.diff(begins, append=matrix.shape[axis])
            matrix = np.add.reduceat(matrix, begins, axis=axis) / np.expand_dims(sizes, 1 - axis)
    return matrix, down, across


def plain_list(values: np.ndarray) -> list[float | None]:
    """Return plain numbers of six significant digits; NaN and infinity become None.

    >>> plain_list(np.array([1.23456789, float("nan")]))
    [1.23457, None]
    """
    return [_rounded(value, 6) for value in np.asarray(values).tolist()]


def plain_matrix(values: np.ndarray) -> list[list[float | None]]:
    """Return rows of numbers of four significant digits; NaN and infinity become None."""
    return [[_rounded(value, 4) for value in row] for row in values.tolist()]


def _rounded(value: float, digits: int) -> float | None:
    if not math.isfinite(value):
        return None
    # Short numbers make pages small: digits that no screen shows are most of their bytes otherwise.
    return float(f"{value:.0f}") if abs(value) >= 10 ** (digits - 1) else float(f"{value:.{digits}g}")


@dataclass(frozen=True)
class Section:
    """One section of the page; its parts are drawings, figures and tables in this order.

    `short` is its name in the navigation, `name` its anchor. `hosts` are (host, tasks) of a table that can be folded,
    and `left_out` how many more there are. `definitions` explain terms below the tables.
    """

    name: str
    title: str
    short: str
    words: str = ""
    drawings: tuple[Markup, ...] = ()
    hosts: tuple[tuple[str, list[str]], ...] = ()
    left_out: int = 0
    placed: BeforeAfter | None = None
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    definitions: dict[str, str] = field(default_factory=dict)


_TICKS = ("ns", "µs", "ms", "s")
_FEW_DECADES = 2.3  # of which ticks at powers of ten alone would be too few
_FEW_OF_SHARES = 1.7  # their ticks are longer
_NARROW = 0.6  # decades in which 1, 2 and 5 would be too few
_WIDE = 30.0  # times the least: more than that needs a log scale
_TIMES = (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
_BYTES = (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3), ("B/s", 1.0))


def log_ticks(least: Sequence[float] | np.ndarray, most: Sequence[float] | np.ndarray) -> Spec:
    """Return ticks [s] of a log scale from 1 ns to 500,000 s: 1, 2 and 5 of each decade if there are few decades.

    `least` and `most` bound the values [s] that are drawn; zeros are ignored, since they have no place on such an axis.
    """
    low, high = np.asarray(least, dtype=np.float64), np.asarray(most, dtype=np.float64)
    low, high = low[low > 0], high[high > 0]
    decades = math.log10(float(high.max()) / float(low.min())) if low.size and high.size else 0.0
    steps = (1, 2, 5) if decades < _FEW_DECADES else (1,)
    ticks = [(k, step) for k in range(-9, 6) for step in steps]
    return {
        "tickvals": [float(f"{step}e{k}") for k, step in ticks],
        "ticktext": [_tick(k, step) for k, step in ticks],
    }


def _tick(decade: int, step: int) -> str:
    """Return the text of a tick: 5 x 10^-4 s is 500 µs."""
    unit = min(3, (decade + 9) // 3)
    return f"{step * 10 ** (decade + 9 - 3 * unit):,} {_TICKS[unit]}"


_LONG_TIMES = (
    (1e-3, "1 ms"), (1e-2, "10 ms"), (0.1, "100 ms"), (1.0, "1 s"), (10.0, "10 s"), (60.0, "1 min"), (600.0, "10 min"),
    (3600.0, "1 h"), (86_400.0, "1 d"), (864_000.0, "10 d"),
    (31_557_600.0, "1 y"), (315_576_000.0, "10 y"), (3_155_760_000.0, "100 y"),
)  # fmt: skip


def long_time_ticks() -> Spec:
    """Return ticks [s] of a log scale of times as people say them, from 1 ms to 100 years."""
    return {"tickvals": [at for at, _ in _LONG_TIMES], "ticktext": [said for _, said in _LONG_TIMES], "tickangle": 0}


def share_ticks(least: float, most: float | None = None) -> Spec:
    """Return ticks of a log scale of shares from 100 % down to `least`; 50 % and 20 % too if `most` is near.

    Returned are keys of a plotly axis. Labels are in per cent; `least` and `most` are shares in (0, 1].
    """
    if most is not None and least > 0 and math.log10(most / least) < _FEW_OF_SHARES:
        steps = (1, 2, 5) if math.log10(most / least) > _NARROW else tuple(range(1, 10))
        ticks = [(k, step) for k in range(math.floor(math.log10(least)) - 1, 1) for step in steps]
        tickvals = [float(f"{step}e{k}") for k, step in ticks if step == 1 or k < 0]
        return {"tickvals": tickvals, "ticktext": [f"{100 * value:.12g} %" for value in tickvals]}
    decades = range(math.floor(math.log10(least)), 1) if least > 0 else range(1)
    said = ["100 %", "10 %", *(f"{10.0 ** (k + 2):.{max(0, -k - 2)}f} %" for k in range(-2, min(decades) - 1, -1))]
    return {"tickvals": [10.0**k for k in range(0, min(decades) - 1, -1)], "ticktext": said[: len(decades)]}


def is_wide(values: Iterable[float | None]) -> bool:
    """Return whether the values are all above zero and so far apart that a log scale is needed.

    >>> is_wide([1.0, 40.0]), is_wide([0.0, 40.0])
    (True, False)
    """
    known = [value for value in values if value is not None]
    return bool(known) and min(known) > 0 and max(known) > _WIDE * min(known)


def time_unit(values: Iterable[float | None]) -> tuple[str, float]:
    """Return the unit, and its length [s], in which the greatest value is at least 1.

    >>> time_unit([0.004, 0.02])
    ('ms', 0.001)
    """
    return _unit(values, _TIMES)


def rate_unit(values: Iterable[float | None]) -> tuple[str, float]:
    """Return the unit of bytes per second, and its size, in which the greatest value is at least 1."""
    return _unit(values, _BYTES)


def _unit(values: Iterable[float | None], units: Sequence[tuple[str, float]]) -> tuple[str, float]:
    most = max((abs(value) for value in values if value is not None), default=0.0)
    return next((unit for unit in units if most >= unit[1]), units[2])
