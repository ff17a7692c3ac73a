"""Figures over time: latency, throughput and queues, with the phases of recoveries shaded.

Times are seconds since the start of the run. Shading shows the phases of recoveries, so that the figure explains
itself: a peak of latency stands in the phase that caused it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from analysis.report import text
from analysis.report.content import Latency, Lines
from analysis.report.figure import PHASES, Figure, Spec, header, log_ticks, plain_list, reading
from analysis.report.gantt import heat
from analysis.report.text import styles
from analysis.runs.recovery_summary import Recovery, shown_phases

_MOST_ROWS = 240
_MOST_LINES = 8  # that can be told apart
_NAME = 0.2  # part of the axis that the name of a failed host takes


def latency(line: Latency, recoveries: Sequence[Recovery], *, around: Recovery | None = None) -> Figure:
    """Return p50, p99 and maximum over time on a log scale, phases of recoveries shaded; `around` shows one alone.

    Shaded are the recoveries of the replication that the line shows.

    Quantiles are those of the deliveries of each interval, not running ones. Intervals without a delivery are gaps of
    the lines. `around` cuts the axis to the time from half the length of the recovery before its failure to one
    length after its end.
    """
    recoveries = same_replication(recoveries, line.replication)
    at = np.asarray(line.at_s, dtype=np.float64)
    layout: Spec = {
        "xaxis": {"title": {"text": "time of delivery [s]"}, "unifiedhovertitle": header("s")},
        "yaxis": {"title": {"text": "latency (log scale)"}, "type": "log", **log_ticks(line.p50_s, line.max_s)},
        "shapes": _phase_shapes(recoveries),
        "annotations": _crash_marks(recoveries, around, float(at[-1] - at[0]) if at.size else 0.0),
        "hovermode": "x unified",
    }
    chosen = np.ones(at.size, bool)
    begin, end = float(at.min(initial=0.0)), float(at.max(initial=0.0)) + line.interval_s
    if around is not None:
        low, high = _neighbourhood(around)
        chosen = (at + line.interval_s > low) & (at <= high)
        begin, end = max(low, begin), min(high, end)
    # Without a range plotly would make room for the text at the failure.
    layout["xaxis"]["range"] = [begin, end]
    lines = (("max", line.max_s, "var:--c8", 1.2, "dot"), ("p99", line.p99_s, "var:--ink", 2.0, "solid"))
    data = [
        _line(name, *_steps(at[chosen], np.asarray(values)[chosen], line.interval_s), (colour, width, dash), "s")
        for name, values, colour, width, dash in (*lines, ("median", line.p50_s, "var:--c1", 2.2, "dash"))
    ]
    heads = ("from [s]", "median [s]", "p99 [s]", "max [s]")
    rows = _sampled(at, chosen, (line.p50_s, line.p99_s, line.max_s))
    title = (
        "Latency over time" if around is None else f"Latency around the {_what(around)} of {text.plain(around.failed)}"
    )
    caption = _latency_caption(line, recoveries) if around is None else _around_caption(around)
    name = "latency" if around is None else "latency-around"
    return Figure(name, title, caption, data, layout, 400, heads, rows, phases=_shaded(recoveries))


def _latency_caption(line: Latency, recoveries: Sequence[Recovery]) -> str:
    """Return what the p99 does during recoveries, before and after them; without any, its range."""
    at, p99 = np.asarray(line.at_s, dtype=np.float64), np.asarray(line.p99_s, dtype=np.float64)
    # Intervals without a delivery are NaN: gaps of the line, and no part of the sentence.
    seen = np.isfinite(p99)
    if not seen.any():
        return "Nothing was delivered."
    said = f"Quantiles of the deliveries of each {text.seconds(line.interval_s)} in replication {line.replication}. "
    if not recoveries:
        low, high = float(p99[seen].min()), float(p99[seen].max())
        return said + f"The p99 lies between {text.seconds(low)} and {text.seconds(high)}."
    during = seen & _recovering(at, line.interval_s, recoveries)
    count = sum(one.within_s is None for one in recoveries)  # others are over with the one that they fell into
    which = "the recovery" if count == 1 else f"the {count} recoveries"
    if not during.any():
        return said + f"Nothing was delivered during {which}."
    worst = float(p99[during].max())
    said += f"During {which} the p99 reaches {text.seconds(worst)}"
    before = at + line.interval_s <= min(one.failed_s for one in recoveries)
    failure, then = (
        ("the failure", "afterwards") if count == 1 else ("the first failure", "between and after the recoveries")
    )
    if (seen & before).any():
        usual = p99[seen & before]
        said += f"; before {failure} it was "
        often = f"{_how_often_above(usual, worst)} above that"
        said += often if (usual > worst).any() else f"at most {text.seconds(float(usual.max()))}"
    after = p99[seen & ~before & ~during]
    if (after > worst).any():
        said += f"; {then} it was {_how_often_above(after, worst)} above that"
    return said + "."


def _how_often_above(values: np.ndarray, limit: float) -> str:
    above = float((values > limit).mean())
    return f"in {text.share(above)} of the intervals" if above else "never"


def _recovering(at: np.ndarray, interval_s: float, recoveries: Sequence[Recovery]) -> np.ndarray:
    """Return which intervals a recovery overlaps; one that did not end lasts to the end of the run."""
    found = np.zeros(at.size, dtype=bool)
    for one in recoveries:
        end = math.inf if one.total_s is None else one.failed_s + one.total_s
        found |= (at + interval_s > one.failed_s) & (at < end)
    return found


def _around_caption(one: Recovery) -> str:
    if one.total_s is None:
        return "The recovery did not end before the run did."
    return f"From {_what(one)} to an empty queue: {text.seconds(one.total_s)}."


def _what(one: Recovery) -> str:
    return one.kind


def lines(
    given: Lines,
    recoveries: Sequence[Recovery],
    *,
    name: str,
    title: str,
    axis: str,
    unit: str,
    caption: str,
    steps: bool,
    order: Sequence[str] = (),
) -> Figure:
    """Draw one line per name over time, phases of the recoveries of the same replication shaded.

    `steps` draws a value as that of the interval that begins at its time, else of the instant. A name in `order` has
    the colour of its place there, the same in all figures. More names than lines can tell apart are a heat map.

    `axis` is the label of the vertical axis with its unit, `unit` the one of hover texts. More than eight names make a
    heat map (`analysis.report.gantt.heat`), where only failures are marked.
    """
    recoveries = same_replication(recoveries, given.replication)
    if len(given.names) > _MOST_LINES:
        return with_failures(heat(given, name=name, title=title, axis=axis, unit=unit, caption=caption), recoveries)
    at = np.asarray(given.at_s, dtype=np.float64)
    values = np.asarray(given.values, dtype=np.float64)
    data = []
    drawn = styles(given.names, order)
    lengths = np.diff(at, append=at[-1:] + _spacing(at))
    for row, who in enumerate(given.names):
        x, y = _steps(at, values[row], lengths) if steps else (at, values[row])
        colour, dash, _ = drawn[who]
        data.append(_line(text.label(who, 24), x, y, (colour, 1.8, dash), unit))
    layout = {
        "xaxis": {"title": {"text": "time [s]"}, "rangemode": "tozero", "unifiedhovertitle": header("s")},
        "yaxis": {"title": {"text": axis}, "rangemode": "tozero"},
        "shapes": _phase_shapes(recoveries),
        "hovermode": "x unified",
        "showlegend": True,  # plotly would leave the name of a single line out
    }
    heads = ("at [s]", *(text.clip(text.plain(who), 24) for who in given.names))
    rows = _sampled(at, np.ones(at.size, bool), tuple(values))
    return Figure(name, title, caption, data, layout, 340, heads, rows, phases=_shaded(recoveries))


def with_failures(figure: Figure, recoveries: Sequence[Recovery]) -> Figure:
    """Return the figure with a line at each failure: on a heat map phases cannot be shaded."""
    lines = [shape for shape in _phase_shapes(recoveries) if shape["type"] == "line"]
    return replace(figure, layout={**figure.layout, "shapes": lines}) if lines else figure


def same_replication(recoveries: Sequence[Recovery], replication: int) -> list[Recovery]:
    """Return those of the replication, in their order."""
    return [one for one in recoveries if one.replication == replication]


def highest(given: Lines, what: str) -> str:
    """Return the sentence about the highest point of all lines; empty where there is nothing to say.

    `what` names the unit of the values in the plural, such as "tuples per second". NaN are gaps, and never the highest.
    """
    values = np.asarray(given.values, dtype=np.float64)
    if not values.size or not np.isfinite(values).any() or np.nanmax(values) <= 0:
        return ""
    row, column = np.unravel_index(int(np.nanargmax(values)), values.shape)
    who = text.plain(given.names[int(row)])
    at = float(np.asarray(given.at_s)[column])
    most = text.number(float(values[row, column]))
    what = what.replace("tuples", "tuple") if most == "1" else what
    return f"Highest: {most} {what} at {who}, {text.number(at, 6)}\u00a0s after the start."  # as on the axis


def _line(name: str, at: np.ndarray, values: np.ndarray, style: tuple[str, float, str], unit: str) -> Spec:
    """Return one line as a trace; colour, width and dash are its style."""
    colour, width, dash = style
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": plain_list(at),
        "y": plain_list(values),
        "line": {"color": colour, "width": width, "dash": dash},
        "connectgaps": False,
        "hovertemplate": reading("y", unit, values),
    }


def _steps(at: np.ndarray, values: np.ndarray, length: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Begin and end of each interval with its value at both, so that single intervals are seen too."""
    return np.stack([at, at + length], axis=1).ravel(), np.repeat(values, 2)


def _spacing(at: np.ndarray) -> float:
    return float(at[1] - at[0]) if at.size > 1 else 1.0


def _shaded(recoveries: Sequence[Recovery]) -> tuple[str, ...]:
    """Return the phases in the legend; all of them where one has begun, but for allocation and restart."""
    if not recoveries:
        return ()
    return tuple(shown_phases({phase: one.length_s(phase) for phase in PHASES} for one in recoveries))


def _phase_shapes(recoveries: Sequence[Recovery]) -> list[Spec]:
    """Return a line at each failure, and a rectangle for each phase of its recovery.

    Phases that two recoveries share are shaded once: not of a host that died while the job was down, and of a recovery
    that was cut off until the failure that did so.
    """
    shapes: list[Spec] = []
    for one in recoveries:
        later = (other.failed_s for other in recoveries if other.failed_s > one.failed_s and other.within_s is None)
        until = min(later, default=math.inf) if one.cut_off else math.inf
        mark = {"type": "line", "x0": one.failed_s, "x1": one.failed_s, "y0": 0, "y1": 1, "yref": "paper"}
        shapes.append({**mark, "line": {"color": "var:--crash", "width": 1.5, "dash": "dash"}})
        shapes += [
            {
                "type": "rect",
                "x0": begin,
                "x1": min(end, until),
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "layer": "below",
                "line": {"width": 0},
                "fillcolor": f"var:--phase-{phase}",
                "opacity": 0.22,
            }
            for phase, begin, end in one.ends()
            if one.within_s is None and begin < until
        ]
    return shapes


def _crash_marks(recoveries: Sequence[Recovery], around: Recovery | None, length_s: float) -> list[Spec]:
    """Return the names of failed hosts at their failures, or of the one that is shown alone.

    There are four at most. Names that would overlap on an axis of that length are counted at the first.
    """
    named = list[tuple[Recovery, int]]()
    for one in sorted(recoveries, key=lambda one: one.failed_s) if around is None else [around]:
        if named and one.failed_s < named[-1][0].failed_s + _NAME * length_s:
            named[-1] = (named[-1][0], named[-1][1] + 1)
        else:
            named.append((one, 0))
    return [
        {
            "x": one.failed_s,
            "y": 1,
            "yref": "paper",
            "text": f"{text.label(one.failed, 18)} {one.happened}" + (f", then {more} more" if more else ""),
            "showarrow": False,
            "xanchor": "left",
            "yanchor": "bottom",
            "font": {"color": "var:--crash", "size": 12},
        }
        for one, more in named[:4]
    ]


def _neighbourhood(one: Recovery) -> tuple[float, float]:
    """Return begin and end [s] of a figure around a recovery: half its length before, as much again after."""
    ends = one.ends()
    length = max((ends[-1][2] if ends else one.failed_s) - one.failed_s, 1.0)
    return one.failed_s - 0.5 * length, one.failed_s + 2.0 * length


def _sampled(at: np.ndarray, chosen: np.ndarray, columns: Sequence[Any]) -> tuple[tuple[str, ...], ...]:
    """Return rows of the table of numbers; every n-th where there are too many for a page."""
    index = np.flatnonzero(chosen)
    # Sampled, not averaged: each row is a value that the run had.
    index = index[:: max(1, math.ceil(index.size / _MOST_ROWS))]
    return tuple(
        (text.number(float(at[k]), 4), *(text.number(float(np.asarray(column)[k])) for column in columns))
        for k in index.tolist()
    )
