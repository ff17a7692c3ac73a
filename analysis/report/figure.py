"""A figure as a plotly specification (plain dicts), the sentence below it, and its numbers as a table.

Colours are roles ("var:--name"), filled in by the page's script from its style sheet, so that figures follow
the light and the dark scheme. Only values under a key that speaks of colour are filled in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.report import text

PHASES = {"detect": "detection", "restore": "restoring", "replay": "replay", "catch_up": "catching up"}
Spec = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """A plotly figure: title, caption (what the data say; may be empty), specification, height [px]."""

    name: str
    title: str
    caption: str
    data: list[Spec]
    layout: Spec
    height: int
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    phases: bool = False
    events: tuple[tuple[str, str], ...] = ()  # (when, what) of the marks, for those who do not see them
    events_left: int = 0

    @property
    def json(self) -> str:
        """The specification, inert inside a script element."""
        return text.for_script({"data": self.data, "layout": self.layout})


def reading(axis: str, unit: str = "", values: npt.ArrayLike = ()) -> str:
    """The part of a hover text that is the value on an axis, with its unit.

    It has four digits, or as many as the greatest of the values has before the point, so that none is lost there.
    """
    return f"%{{{axis}:,.{digits_for(values, 4)}~r}}" + (f"\u00a0{unit}" if unit else "")


def digits_for(values: npt.ArrayLike, least: int) -> int:
    """Return how many digits the greatest of the values has before the point, or `least`."""
    known = np.asarray(values, dtype=np.float64)
    known = np.abs(known[np.isfinite(known)])
    return max(least, len(f"{known.max():.0f}")) if known.size else least


def header(unit: str) -> Spec:
    """The head of a hover text of all lines at once: the value on the axis below, with its unit."""
    return {"text": f"%{{x:,.6~r}}\u00a0{unit}"}


SHARE = "%{y:.3~p}"
"""The part of a hover text that is a share: three digits, in per cent."""


def fit(matrix: np.ndarray, rows: int, columns: int) -> tuple[np.ndarray, int, int]:
    """The matrix with at most that many rows and columns: means of blocks; and the size of a block."""
    down, across = (max(1, math.ceil(have / most)) for have, most in zip(matrix.shape, (rows, columns), strict=True))
    for axis, each in ((0, down), (1, across)):
        if each > 1:
            begins = np.arange(0, matrix.shape[axis], each)
            sizes = np.diff(begins, append=matrix.shape[axis])
            matrix = np.add.reduceat(matrix, begins, axis=axis) / np.expand_dims(sizes, 1 - axis)
    return matrix, down, across


def plain_list(values: np.ndarray) -> list[float | None]:
    """Six significant digits, and all before the point, are more than a screen shows; NaN and infinity become None."""
    return [_rounded(value, 6) for value in np.asarray(values).tolist()]


def plain_matrix(values: np.ndarray) -> list[list[float | None]]:
    """Rows of four significant digits, and all before the point; NaN and infinity become None."""
    return [[_rounded(value, 4) for value in row] for row in values.tolist()]


def _rounded(value: float, digits: int) -> float | None:
    if not math.isfinite(value):
        return None
    return float(f"{value:.0f}") if abs(value) >= 10 ** (digits - 1) else float(f"{value:.{digits}g}")
