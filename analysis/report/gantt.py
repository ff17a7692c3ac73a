"""Figures over time with a row for each name: bars for stretches (`gantt`), colours for values (`heat`).

Bars are seen however short they are. A heat map takes more names than lines can tell apart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.report import text
from analysis.report.content import Lines
from analysis.report.figure import Figure, Spec, digits_for, fit, is_wide, plain_list, plain_matrix
from models import display
from models.checked_arrays import IntArray

NS_PER_S = 1e9
MOST_ROWS = 40
_PIECES = 400  # of a row: what is closer than this part of the whole is drawn as one
_ROW = 24  # [px]
_CROWD = 60  # marks of a row that would hide what lies below them
_UNITS = (("d", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))

Stretch = tuple[int, int]  # from and to [ns]


@dataclass(frozen=True)
class Layer:
    """One kind of stretch: how it is called and drawn, and the stretches of each row.

    `colour` is a role of the style sheet, such as "var:--bad"; `width` is the height of its bars [px]. `rows` maps the
    name of a row to its stretches [ns].
    """

    name: str
    colour: str
    width: float
    rows: Mapping[str, Sequence[Stretch]]
    opacity: float = 1.0


def unit_of_time(length_s: float) -> tuple[str, float]:
    """Return the unit, and its length [s], in which an axis of that length reads well.

    >>> unit_of_time(86_400.0), unit_of_time(600.0)
    (('h', 3600.0), ('min', 60.0))
    """
    return next((one for one in _UNITS if length_s >= 3 * one[1]), _UNITS[-1])


def gantt(name: str, title: str, caption: str, rows: Sequence[str], layers: Sequence[Layer], end_ns: int) -> Figure:
    """Return the figure: `rows` from the top, `layers` drawn over each other in their order.

    Rows beyond the first 40 are counted in the caption and not drawn. `end_ns` is the end of the run, and of the axis.
    """
    shown = list(rows[:MOST_ROWS])
    unit, size = unit_of_time(end_ns / NS_PER_S)
    data = [_trace(layer, shown, end_ns, size) for layer in layers if any(layer.rows.get(row) for row in shown)]
    layout: Spec = {
        "xaxis": {"title": {"text": f"time [{unit}]"}, "range": [0, float(f"{end_ns / NS_PER_S / size:.6g}")]},
        "yaxis": {
            "tickvals": list(range(len(shown))),
            "ticktext": [text.label(row, 18) for row in shown],
            "range": [len(shown) - 0.4, -0.6],
            "zeroline": False,
            "showgrid": False,
        },
        "hovermode": "closest",
        "showlegend": True,
    }
    if len(rows) > len(shown):
        caption += f" {len(rows) - len(shown)} more rows are not drawn."
    return Figure(name, title, caption.strip(), data, layout, 110 + _ROW * len(shown))


def _trace(layer: Layer, shown: Sequence[str], end_ns: int, size: float) -> Spec:
    """Return one layer as lines with gaps between stretches, and a mark at both ends of each."""
    x: list[float | None] = []
    y: list[int | None] = []
    hover_text: list[str] = []
    for row, who in enumerate(shown):
        for begin, end, count in gathered(layer.rows.get(who, ()), end_ns):
            x += [_at(begin, size), _at(end, size), None]
            y += [row, row, None]
            words = f"{text.label(who, 30)}: {layer.name}"
            words += f" {display.duration((end - begin) / NS_PER_S)}" if count == 1 else f", {count} times"
            hover_text += [words, words, ""]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": layer.name,
        "x": x,
        "y": y,
        "text": hover_text,
        "opacity": layer.opacity,
        "line": {"color": layer.colour, "width": layer.width},
        # A stretch shorter than a pixel is still as high as the others.
        "marker": {
            "opacity": 0.3 if max((len(layer.rows.get(row, ())) for row in shown), default=0) > _CROWD else 1,
            "symbol": "line-ns-open",
            "size": round(layer.width / 1.4, 1),  # such a symbol is 1.4 times as high
            "color": layer.colour,
            "line": {"color": layer.colour, "width": 1.5},
        },
        "hovertemplate": "%{text}<extra></extra>",
    }


def _at(when_ns: int, size: float) -> float:
    """Return an instant [ns] in the unit of the axis, seven digits."""
    return float(f"{when_ns / NS_PER_S / size:.7g}")


def gathered(stretches: Sequence[Stretch], end_ns: int) -> list[tuple[int, int, int]]:
    """Return (from, to, how many) of the stretches by time; of many, those that nearly touch are one.

    >>> gathered([(0, 4), (10, 14)], 100)
    [(0, 4, 1), (10, 14, 1)]
    """
    found: list[tuple[int, int, int]] = []
    # -1: of few stretches even those that touch stay apart.
    near = end_ns // _PIECES if len(stretches) > _PIECES else -1
    for begin, end in sorted(stretches):
        if found and begin - found[-1][1] <= near:
            first, last, count = found[-1]
            found[-1] = (first, max(last, end), count + 1)
        else:
            found.append((begin, end, 1))
    return found


def counted(stretches: Sequence[Stretch], end_ns: int, most: int = 600) -> tuple[IntArray, IntArray]:
    """Return the number of stretches from each instant on; of more than `most` changes each interval's greatest."""
    ends = np.array(stretches, dtype=np.int64).reshape(-1, 2)
    # Stretches without length never count, and would leave two changes at one instant.
    ends = ends[ends[:, 0] < ends[:, 1]]
    at = np.unique(np.concatenate(([0], ends.ravel())))
    at = at[at < end_ns]
    begun = np.searchsorted(np.sort(ends[:, 0]), at, side="right")
    count = begun - np.searchsorted(np.sort(ends[:, 1]), at, side="right")
    if at.size <= most:
        return at, count
    edges = np.linspace(0, end_ns, most + 1).astype(np.int64)[:-1]
    before = count[np.searchsorted(at, edges, side="right") - 1]  # still so when the interval begins
    within = np.searchsorted(edges, at, side="right") - 1
    highest = before.copy()
    np.maximum.at(highest, within, count)
    return edges, highest


_MOST_ROWS, _MOST_COLUMNS = 200, 240
_HEAT_ROW, _LEAST, _MOST = 24, 60, 560  # heights [px]: of a row, and of all rows
_FEW = 40  # rows that have a line between them
_DECADES = 5  # that a log scale of colours shows
_FULL = 100.0


def heat(given: Lines, *, name: str, title: str, axis: str, unit: str, caption: str) -> Figure:
    """Return the values of each name over time as colours, the first name on top; its numbers are a row for each name.

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
        # The highest, not the mean: one hot host among many idle ones is what a reader looks for. `fmax` skips NaN.
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
    height = 90 + min(_MOST, max(_LEAST, _HEAT_ROW * len(names)))
    heads = ("name", f"mean [{unit}]", f"highest [{unit}]", "at [s]")
    said = " ".join(part for part in parts if part)
    return Figure(name, title, said, [trace], layout, height, heads, _rows(given.names, at, values))


def _distinct(names: Sequence[str]) -> list[str]:
    """Return short names, of which no two are equal: rows of equal names would be one."""
    found: dict[str, None] = {}
    for k, name in enumerate(names):
        short = text.label(name, 18)
        found[f"{short} ({k})" if short in found else short] = None
    return list(found)


def _spans(edges: np.ndarray) -> list[str]:
    """Return from and to of each column in words."""
    said = [text.number(edge, 6) for edge in edges.tolist()]
    return [f"{begin}–{end}\u00a0s" for begin, end in itertools.pairwise(said)]


def _highest(values: np.ndarray) -> list[float]:
    """Return the highest value of each name that has one above zero."""
    # `nanmax` alone warns of rows that are NaN throughout.
    highest = np.nanmax(np.nan_to_num(values), axis=1, initial=0.0)
    found: list[float] = highest[highest > 0].tolist()
    return found


def _log_scale(trace: Spec, values: np.ndarray) -> Spec:
    """Return range and ticks of a log scale of colours, at most _DECADES decades below the highest value."""
    positive = values[np.isfinite(values) & (values > 0)]
    top = math.ceil(math.log10(float(positive.max())))
    low = max(math.floor(math.log10(float(positive.min()))), top - _DECADES)
    decades = range(low, max(top, low + 1) + 1)
    ticks = {"tickvals": list(decades), "ticktext": [f"{10.0**k:,.10g}" for k in decades]}
    return {"zmin": decades[0], "zmax": decades[-1], "colorbar": {**trace["colorbar"], **ticks}}


def _rows(names: Sequence[str], at: np.ndarray, values: np.ndarray) -> tuple[tuple[str, ...], ...]:
    """Return name, mean, highest value and its time [s] for each name."""
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
