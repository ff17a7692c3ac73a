"""Figures of stretches of time: a row for each name, bars for what lasted, all of them seen however short they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.report import text
from analysis.report.figure import Figure, Spec
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
    """One kind of stretch: how it is called and drawn, and the stretches of each row."""

    name: str
    colour: str
    width: float
    rows: Mapping[str, Sequence[Stretch]]
    opacity: float = 1.0


def unit_of_time(length_s: float) -> tuple[str, float]:
    """The unit, and its length [s], in which an axis of that length reads well."""
    return next((one for one in _UNITS if length_s >= 3 * one[1]), _UNITS[-1])


def gantt(name: str, title: str, caption: str, rows: Sequence[str], layers: Sequence[Layer], end_ns: int) -> Figure:
    """The figure: `rows` from the top, `layers` drawn over each other in their order."""
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
    return float(f"{when_ns / NS_PER_S / size:.7g}")


def gathered(stretches: Sequence[Stretch], end_ns: int) -> list[tuple[int, int, int]]:
    """(from, to, how many) of the stretches by time; of many, those with next to nothing between them are one."""
    found: list[tuple[int, int, int]] = []
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
