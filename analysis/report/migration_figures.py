"""Figures of migrations: how long each stopped its key group, and which checkpoints would have helped."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.report import text
from analysis.report.figure import Figure, Spec, header, plain_list
from analysis.report.parts import LoadChecks
from analysis.report.scales import is_wide, log_ticks, time_unit
from analysis.runs.migration_kinds import ClassifiedMigration

_MOST_MARKS = 500  # of one protocol and kind
_SPREAD = 30  # marks of a row that may lie beside each other
_GOLDEN = 0.618034
_MOST_LOOKS = 60  # with moves; more marks would hide the areas
_KINDS = {"assisted": ("triangle-up", "var:--c3"), "direct": ("diamond", "var:--c2"), "": ("circle", "var:--c1")}


def pauses(migrations: Sequence[ClassifiedMigration]) -> Figure | None:
    """One mark for each move at its pause, by protocol; None where no move has one."""
    ended = [one for one in migrations if one.pause_s is not None]
    if not ended:
        return None
    lengths = [one.pause_s for one in ended]
    wide = is_wide(lengths)
    unit, size = time_unit(lengths)
    drawn, left = [], 0
    protocols = list(dict.fromkeys(one.protocol for one in ended))
    for kind, (symbol, colour) in _KINDS.items():
        marks: list[tuple[float, ClassifiedMigration]] = []
        for row, protocol in enumerate(protocols):
            own = [one for one in ended if one.kind == kind and one.protocol == protocol]
            chosen = _spread(own)
            left += len(own) - len(chosen)
            marks += zip(_heights(row, len(chosen)), chosen, strict=True)
        if marks:
            drawn.append(_marks(marks, kind, symbol, colour, 1.0 if wide else size))
    axis: Spec = {"title": {"text": "pause (log scale)" if wide else f"pause [{unit}]"}}
    axis |= {"type": "log", **log_ticks(lengths, lengths)} if wide else {"range": _from_zero(lengths, size)}  # type: ignore[arg-type]
    longest = max(ended, key=lambda one: one.pause_s or 0.0)
    caption = (
        f"Each mark is a move. The longest pause, {text.seconds(longest.pause_s)}, is that of "
        f"{text.plain(longest.partition)} by {text.plain(longest.protocol)}."
    )
    caption += f" {left:,} marks between others are left out." if left else ""
    rows = {
        "tickvals": list(range(len(protocols))),
        "ticktext": [text.label(protocol, 20) for protocol in protocols],
        "range": [len(protocols) - 0.5, -0.5],
        "title": {"text": "protocol"},
        "zeroline": False,
    }
    layout = {"xaxis": axis, "yaxis": rows, "showlegend": True}
    height = 150 + 56 * len(protocols)
    return Figure("pauses", "For how long each move stopped its key group", caption, drawn, layout, height)


def _from_zero(lengths: Sequence[float | None], size: float) -> list[float]:
    """A linear axis with room for marks at both ends."""
    most = max(length or 0.0 for length in lengths) / size or 1.0
    return [float(f"{edge * most:.4g}") for edge in (-0.03, 1.04)]


def _heights(row: int, count: int) -> list[float]:
    """Heights of the marks of a row: all the same, or spread in it where there are many, so that each is seen."""
    if count <= _SPREAD:
        return [float(row)] * count
    return [round(row + 0.6 * ((k * _GOLDEN) % 1.0 - 0.5), 3) for k in range(count)]


def _marks(
    marks: Sequence[tuple[float, ClassifiedMigration]], kind: str, symbol: str, colour: str, size: float
) -> Spec:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{kind} moves".strip(),
        "x": plain_list(np.array([one.pause_s for _, one in marks], dtype=np.float64) / size),
        "y": [height for height, _ in marks],
        "text": [
            f"{text.label(one.partition, 24)}: {text.label(one.origin, 20)} to {text.label(one.target, 20)}, "
            f"{text.seconds(one.pause_s)}"
            for _, one in marks
        ],
        "marker": {"symbol": symbol, "size": 10 if len(marks) <= _SPREAD else 6, "color": colour, "opacity": 0.7},
        "hovertemplate": "%{text}<extra></extra>",
        "cliponaxis": False,
    }


def _spread(migrations: Sequence[ClassifiedMigration]) -> list[ClassifiedMigration]:
    """At most so many of them, evenly by rank of their pause, the shortest and the longest among them."""
    if len(migrations) <= _MOST_MARKS:
        return list(migrations)
    ordered = sorted(migrations, key=lambda one: one.pause_s or 0.0)
    return [ordered[k] for k in np.linspace(0, len(ordered) - 1, _MOST_MARKS).astype(int).tolist()]


def load_checks(given: LoadChecks) -> Figure | None:
    """Key groups at risk, how many of their checkpoints were usable, and the moves; None where none was at risk."""
    if not np.any(given.at_risk) and not np.any(given.drained):
        return None
    at = np.asarray(given.at_s, dtype=np.float64)
    counts = [
        ("on overloaded hosts", given.at_risk, "var:--c8", "solid", "tozeroy"),
        ("of them with a usable checkpoint", given.usable, "var:--c3", "solid", "tozeroy"),
    ]
    data: list[Spec] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": plain_list(at),
            "y": plain_list(values),
            "line": {"color": colour, "width": 2, "dash": dash, "shape": "hv"},
            "fill": fill,
            "fillpattern": {"shape": "/" if position == 0 else "", "size": 6, "solidity": 0.15, "fgcolor": colour},
            "hovertemplate": "%{y:,} key groups",
        }
        for position, (name, values, colour, dash, fill) in enumerate(counts)
    ]
    asked = [
        ("assisted moves", given.assisted, "triangle-up", "var:--c3"),
        ("direct moves", given.direct, "diamond", "var:--c2"),
        ("moves off a host to be left", given.drained, "square", "var:--c5"),
    ]
    crowded = sum(int(np.count_nonzero(count)) for _, count, _, _ in asked) > _MOST_LOOKS
    data += [_asked(at, *one) for one in asked if np.any(one[1]) and not crowded]
    layout = {
        "xaxis": {"title": {"text": "time [s]"}, "rangemode": "tozero", "unifiedhovertitle": header("s")},
        "yaxis": {"title": {"text": "key groups"}, "rangemode": "tozero"},
        "hovermode": "x unified",
        "showlegend": True,
    }
    columns = (given.at_risk, given.usable, given.assisted, given.direct, given.drained)
    heads = ("at [s]", "at risk", "usable", "assisted", "direct", "drained")
    rows = tuple((text.number(float(at[k]), 6), *(str(int(column[k])) for column in columns)) for k in range(len(at)))
    caption = _load_checks_caption(given) + (" The moves are in the numbers below." if crowded else "")
    return Figure("checks", "Usable checkpoints over time", caption, data, layout, 360, heads, rows)


def _asked(at: np.ndarray, name: str, count: np.ndarray, symbol: str, colour: str) -> Spec:
    seen = np.flatnonzero(count)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": plain_list(at[seen]),
        "y": plain_list(np.asarray(count)[seen]),
        "marker": {"symbol": symbol, "size": 10, "color": colour},
        "hovertemplate": "%{y:,} key groups",
    }


def _load_checks_caption(given: LoadChecks) -> str:
    risk, usable = int(np.sum(given.at_risk)), int(np.sum(given.usable))
    each = f" Each point is the sum of {given.together} checks." if given.together > 1 else ""
    said = f"Replication {given.replication}."
    if not risk:
        return f"No host was overloaded when the manager checked. {said}{each}"
    return (
        f"{risk:,} times a key group was on an overloaded host when the manager checked; in "
        f"{text.share(usable / risk)} of these it would have fitted where its checkpoint is. {said}{each}"
    )
