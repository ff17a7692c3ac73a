"""Heat maps over time: a row for each name, for values of more names than lines can tell apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from analysis.report import text
from analysis.report.content import Lines
from analysis.report.figure import Figure, Spec, digits_for, fit, plain_list, plain_matrix
from analysis.report.scales import is_wide

_MOST_ROWS, _MOST_COLUMNS = 200, 240
_ROW, _LEAST, _MOST = 24, 60, 560  # heights [px]: of a row, and of all rows
_FEW = 40  # rows that have a line between them
_DECADES = 5  # that a log scale of colours shows
_FULL = 100.0


def heat(given: Lines, *, name: str, title: str, axis: str, unit: str, caption: str) -> Figure:
    """The values of each name over time as colours, the first name on top; its numbers are a row for each name.

    A value is that of the interval that begins at its time. Per cent have one scale, from 0 to 100 %; of other values
    that lie far apart the scale is logarithmic.
    """
    at = np.asarray(given.at_s, dtype=np.float64)
    values = np.asarray(given.values, dtype=np.float64)
    edges = np.append(at, at[-1] + (at[-1] - at[-2] if at.size > 1 else 1.0))
    shown, _, across = fit(values, values.shape[0], _MOST_COLUMNS)
    down = -(-values.shape[0] // _MOST_ROWS)
    names = _distinct(given.names)
    if down > 1:
        shown = np.fmax.reduceat(shown, np.arange(0, len(names), down), axis=0)
        names = [f"{part[0]} to {part[-1]}" for part in (names[k : k + down] for k in range(0, len(names), down))]
    edges = np.append(edges[:-1][::across], edges[-1])
    log = unit != "%" and is_wide(_highest(values))
    trace: Spec = {
        "type": "heatmap",
        "z": plain_matrix(shown),
        "x": plain_list(edges),
        "y": names,
        # The script of the page makes of it what a cell is called, and takes logarithms: here each is said once.
        "meta": {"across": _spans(edges), "log": log},
        "ygap": 1 if len(names) <= _FEW else 0,
        "colorscale": [[k / 4, f"var:--heat{k}"] for k in range(5)],
        "colorbar": {"title": {"text": axis, "side": "right"}},
        "hovertemplate": f"%{{y}}, %{{text}}: %{{customdata:,.{digits_for(shown, 3)}~r}}\u00a0{unit}<extra></extra>",
    }
    trace |= {"zmin": 0} | ({"zmax": _FULL} if unit == "%" else {})
    if log:
        trace |= _log_scale(trace, values)
    layout: Spec = {
        "xaxis": {"title": {"text": "time [s]"}, "range": plain_list(edges[[0, -1]]), "showgrid": False},
        "yaxis": {"type": "category", "autorange": "reversed", "showgrid": False},
        "hovermode": "closest",
    }
    parts = (
        caption,
        f"A row is the highest of {down}." if down > 1 else "",
        "A cell without colour is 0." if log else "",
    )
    height = 90 + min(_MOST, max(_LEAST, _ROW * len(names)))
    heads = ("name", f"mean [{unit}]", f"highest [{unit}]", "at [s]")
    said = " ".join(part for part in parts if part)
    return Figure(name, title, said, [trace], layout, height, heads, _rows(given.names, at, values))


def _distinct(names: Sequence[str]) -> list[str]:
    """Short names, of which no two are equal: rows of equal names would be one."""
    found: dict[str, None] = {}
    for k, name in enumerate(names):
        short = text.label(name, 18)
        found[f"{short} ({k})" if short in found else short] = None
    return list(found)


def _spans(edges: np.ndarray) -> list[str]:
    """From and to of each column in words."""
    said = [text.number(edge, 6) for edge in edges.tolist()]
    return [f"{begin}–{end}\u00a0s" for begin, end in itertools.pairwise(said)]


def _highest(values: np.ndarray) -> list[float]:
    """The highest value of each name that has one above zero."""
    highest = np.nanmax(np.nan_to_num(values), axis=1, initial=0.0)
    found: list[float] = highest[highest > 0].tolist()
    return found


def _log_scale(trace: Spec, values: np.ndarray) -> Spec:
    positive = values[np.isfinite(values) & (values > 0)]
    top = math.ceil(math.log10(float(positive.max())))
    low = max(math.floor(math.log10(float(positive.min()))), top - _DECADES)
    decades = range(low, max(top, low + 1) + 1)
    ticks = {"tickvals": list(decades), "ticktext": [f"{10.0**k:,.10g}" for k in decades]}
    return {"zmin": decades[0], "zmax": decades[-1], "colorbar": {**trace["colorbar"], **ticks}}


def _rows(names: Sequence[str], at: np.ndarray, values: np.ndarray) -> tuple[tuple[str, ...], ...]:
    known = np.nan_to_num(values, nan=0.0)
    best = known.argmax(axis=1)
    return tuple(
        (
            text.clip(text.plain(name), 24),
            text.number(float(row.mean())),
            text.number(float(row[k])),
            text.number(float(at[k]), 6),
        )
        for name, row, k in zip(names, known, best.tolist(), strict=True)
    )
