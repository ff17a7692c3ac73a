"""Figures of designs beside each other: a measure with its interval, and what overhead buys in latency."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.report import text
from analysis.report.figure import Figure, Spec
from analysis.report.parts import Design, Interval
from analysis.report.scales import is_wide, log_ticks, rate_unit, time_unit

_MOST, _MOST_BEHIND = 40, 150
_COLOURS = 7
_CLOSE = 0.6  # the least of what is close to the greatest, as a share of it
_LINE = 22  # characters beside a figure
_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x", "star")


def measured(designs: Sequence[Design], measure: str, *, name: str, title: str, axis: str) -> Figure | None:
    """A mark for each design at the mean of a time, with its interval; None where fewer than two have one."""
    known = [(k, one) for k, one in enumerate(designs) if one.of(measure).mean is not None]
    if len(known) < 2:
        return None
    shown = known[:_MOST]
    values = [one.of(measure) for _, one in shown]
    # An interval that reaches zero has no end on a log scale.
    wide = is_wide(value.mean for value in values) and all(value.low is None or value.low > 0 for value in values)
    unit, size = ("s", 1.0) if wide else time_unit(edge for v in values for edge in (v.mean, v.high))
    traces = []
    for position, protocol in enumerate(dict.fromkeys(one.protocol for _, one in shown)):
        own = [pair for pair in shown if pair[1].protocol == protocol]
        traces.append(_points(own, measure, protocol, position, size))
    extent = [edge for v in values for edge in (v.mean, v.low, v.high) if edge is not None]
    scale: Spec = {"title": {"text": f"{axis} (log scale)" if wide else f"{axis} [{unit}]"}}
    scale |= {"type": "log", **log_ticks(extent, extent)} if wide else {"rangemode": "tozero"}
    order = [_label(number, one) for number, one in shown]
    layout = {
        "xaxis": scale,
        "yaxis": {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": order,
            "range": [len(shown) - 0.5, -0.5],
        },
        "showlegend": len(traces) > 1,
    }
    left = f" The first {len(shown)} of {len(known)} designs are drawn." if len(known) > len(shown) else ""
    caption = _ends([one for _, one in known], measure) + left
    return Figure(name, title, caption, traces, layout, 130 + 30 * len(shown))


def _points(own: Sequence[tuple[int, Design]], measure: str, protocol: str, position: int, size: float) -> Spec:
    found = [one.of(measure) for _, one in own]
    colour = f"var:--c{position % _COLOURS + 1}"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": text.label(protocol, 24) or "designs",
        "x": [_short((value.mean or 0.0) / size) for value in found],
        "y": [_label(number, one) for number, one in own],
        "error_x": _error(found, size, colour),
        "marker": {"symbol": _SYMBOLS[position % len(_SYMBOLS)], "size": 11, "color": colour},
        "text": [_spoken(value) for value in found],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _error(values: Sequence[Interval], size: float, colour: str) -> Spec:
    return {
        "type": "data",
        "symmetric": False,
        "array": [_short(((v.high or 0.0) - (v.mean or 0.0)) / size) if v.high is not None else 0.0 for v in values],
        # An interval may reach below zero, a time does not.
        "arrayminus": [
            _short(((v.mean or 0.0) - max(0.0, v.low)) / size) if v.low is not None else 0.0 for v in values
        ],
        "color": colour,
        "thickness": 1.8,
        "width": 5,
    }


def _label(number: int, one: Design) -> str:
    """Number and name in short lines, that fit beside a figure on a phone."""
    parts = text.plain(one.label).split(", ") if len(one.label) > _LINE else [one.label]
    return f"{number} " + "<br>".join(text.label(part, _LINE) for part in parts[:3])


def _spoken(value: Interval) -> str:
    if value.low is None or value.high is None:
        return text.seconds(value.mean)
    return f"{text.seconds(value.mean)}, 95 % interval {text.seconds(value.low)} to {text.seconds(value.high)}"


def _ends(designs: Sequence[Design], measure: str) -> str:
    """Which designs are first and last, and whether their intervals say so."""

    def mean(one: Design) -> float:
        return one.of(measure).mean or 0.0

    best, worst = min(designs, key=mean), max(designs, key=mean)
    if mean(best) == mean(worst):
        return f"All designs come to {text.seconds(mean(best))}."
    said = (
        f"Lowest with {text.plain(best.label)}, {text.seconds(mean(best))}; highest with "
        f"{text.plain(worst.label)}, {text.seconds(mean(worst))}."
    )
    high, low = best.of(measure).high, worst.of(measure).low
    if high is None or low is None:
        return f"{said} There is no interval: that takes two runs or more of each."
    return said + (" Their 95 % intervals do not touch." if high < low else " Their 95 % intervals overlap.")


def front(designs: Sequence[Design], across: str, up: str) -> list[int]:
    """Positions of the designs that no other is better than: none has as little of both, and less of one."""
    points = {k: (one.of(across).mean, one.of(up).mean) for k, one in enumerate(designs)}
    known = {k: (x, y) for k, (x, y) in points.items() if x is not None and y is not None}
    return [
        k for k, (x, y) in known.items() if not any(a <= x and b <= y and (a < x or b < y) for a, b in known.values())
    ]


def pareto(designs: Sequence[Design], up: str, *, name: str, title: str, axis: str) -> Figure | None:
    """Overhead against a time, the designs that no other is better than marked; None for fewer than two."""
    across = "overhead_bytes_per_s"
    known = [k for k, one in enumerate(designs) if one.of(across).mean is not None and one.of(up).mean is not None]
    if len(known) < 2:
        return None
    best = [k for k in front(designs, across, up) if k in known]
    sent = [designs[k].of(across).mean for k in known]
    unit, size = rate_unit(sent)
    heights = [designs[k].of(up).mean for k in known]
    wide = is_wide(heights)
    time, length = ("s", 1.0) if wide else time_unit(heights)
    behind = [k for k in known if k not in best]
    rest = behind[:_MOST_BEHIND]
    by_overhead = sorted(best, key=lambda k: (designs[k].of(across).mean or 0.0, k))
    made = (("behind", rest, False), ("not beaten in both", by_overhead, True))
    data = [_spots(designs, spots, (across, size), (up, length), said, good) for said, spots, good in made if spots]
    scale: Spec = {"title": {"text": f"{axis} (log scale)" if wide else f"{axis} [{time}]"}}
    known_heights = [value for value in heights if value is not None]
    scale |= {"type": "log", **log_ticks(known_heights, known_heights)} if wide else {"rangemode": _from_zero(heights)}
    layout = {
        "xaxis": {"title": {"text": f"checkpoints and moves [{unit}]"}, "rangemode": _from_zero(sent)},
        "yaxis": scale,
        "showlegend": True,
        "hovermode": "closest",
    }
    caption = _front_caption([designs[k] for k in by_overhead], len(known), axis)
    caption += f" {len(behind) - len(rest)} designs behind are left out." if len(behind) > len(rest) else ""
    return Figure(name, title, caption, data, layout, 430)


def _from_zero(values: Sequence[float | None]) -> str:
    """Whether an axis begins at zero: not where all values are so close that they would lie on each other."""
    known = [value for value in values if value is not None]
    return "normal" if min(known) > _CLOSE * max(known) else "tozero"


def _spots(
    designs: Sequence[Design],
    chosen: Sequence[int],
    across: tuple[str, float],
    up: tuple[str, float],
    said: str,
    good: bool,
) -> Spec:
    """Numbered spots; those that are good are filled and joined by steps."""
    (right, size), (above, length) = across, up
    filled = {"color": "var:--accent", "size": 24, "symbol": "circle"}
    hollow = {"color": "var:--card", "size": 22, "symbol": "circle", "line": {"color": "var:--soft", "width": 1.5}}
    return {
        "type": "scatter",
        "mode": "lines+markers+text" if good else "markers+text",
        "name": said,
        "x": [_short((designs[k].of(right).mean or 0.0) / size) for k in chosen],
        "y": [_short((designs[k].of(above).mean or 0.0) / length) for k in chosen],
        "line": {"color": "var:--accent", "width": 1.2, "dash": "dot", "shape": "hv"},
        "marker": filled if good else hollow,
        "text": [str(k) for k in chosen],
        "textfont": {"color": "var:--paper" if good else "var:--ink", "size": 11},
        "customdata": [
            f"{text.label(designs[k].label, 40)}: {_bytes(designs[k].of(right).mean)}, "
            f"{text.seconds(designs[k].of(above).mean)}"
            for k in chosen
        ],
        "hovertemplate": "%{customdata}<extra></extra>",
        "cliponaxis": False,
    }


def _front_caption(best: Sequence[Design], known: int, axis: str) -> str:
    names = [text.plain(one.label) for one in best[:4]]
    more = f" and {len(best) - 4} more" if len(best) > 4 else ""
    said = " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 and not more else ", ".join(names)
    whose = "is filled: no other design has" if len(best) == 1 else "are filled: for each, no other design has"
    return (
        f"Of {known} designs {said}{more} {whose} both less overhead and a shorter {axis}. By the means; numbers are "
        "those of the table, and axes need not begin at 0."
    )


def _bytes(value: float | None) -> str:
    unit, size = rate_unit([value])
    return f"{text.number((value or 0.0) / size)}\u00a0{unit}"


def _short(value: float) -> float:
    return float(f"{value:.6g}")
