"""The figure of the tail of latency: which share of all tuples took at least how long, on two log scales.

A complementary cumulative distribution function (CCDF) shows rare tuples, which a mean or a cumulative distribution
hides: at 0.1 % one reads what the slowest tuple of a thousand took.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.report import text
from analysis.report.figure import SHARE, Figure, log_ticks, plain_list, reading, share_ticks
from analysis.report.parts import Curve
from analysis.report.text import styles
from models import display

_MOST = 8
_DASHES = ("solid", "dash", "dot", "dashdot")  # each line has its own: where two are one, both are seen
_LEVELS = (0.5, 0.1, 0.01, 0.001, 0.0001)
_RARE = 0.001


def ccdf_figure(
    curves: Sequence[Curve], name: str = "tail", *, whole: bool = False, order: Sequence[str] = ()
) -> Figure | None:
    """Draw one line for each curve, at most 8; None where there is nothing to draw.

    `whole` says that the first curve is of all that the others are parts of. A name in `order` has the colour of its
    place there.

    Both axes are logarithmic, so times and shares of zero are left out. `name` becomes the id of the figure on its
    page.
    """
    known = [curve for curve in curves if _times(curve).size]
    if not known:
        return None
    shown = known[:_MOST]
    drawn = styles((curve.name for curve in shown), order)
    data = []
    for k, curve in enumerate(shown):
        times, shares = _times(curve), _shares(curve)
        colour, _, symbol = drawn[curve.name]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if curve.points else "lines",
                "name": text.label(curve.name, 28),
                "x": plain_list(times),
                "y": plain_list(shares),
                "line": {"color": colour, "width": 2.2, "dash": _DASHES[k % len(_DASHES)]},
                "marker": {"color": colour, "size": 8, "symbol": symbol},
                "hovertemplate": f"{SHARE} took {reading('x', 's', times)} or longer",
            }
        )
    # The axis ends where the rarest tuple is: a share of zero has no place on a log scale.
    least = min(float(_shares(curve).min()) for curve in shown)
    # One axis for all curves: its ticks follow from all of their times.
    times = np.concatenate([_times(curve) for curve in shown])
    across = {"type": "log", "range": _extent(times), **log_ticks(times, times)}
    layout = {
        "xaxis": {"title": {"text": "latency (log scale)"}, **across},
        "yaxis": {"title": {"text": "share that took longer (log scale)"}, "type": "log", **share_ticks(least)},
        "showlegend": True,
        "hovermode": "closest",
    }
    levels = [level for level in _LEVELS if level >= least]
    heads = ("share of tuples", *(text.clip(text.plain(curve.name), 24) for curve in shown))
    rows = tuple((text.share(level), *(text.seconds(reached(curve, level)) for curve in shown)) for level in levels)
    title = "How often tuples take how long"
    return Figure(name, title, _caption(shown, len(known), whole), data, layout, 400, heads, rows)


def reached(curve: Curve, level: float) -> float | None:
    """Return the longest time [s] that at least this share of the tuples took; None where none is known.

    With `level` = 0.001 this is the 99.9 % quantile, as far as the points of the curve know it: no value between two
    points is invented.
    """
    enough = np.flatnonzero(np.asarray(curve.share, dtype=np.float64) >= level * (1 - 1e-12))
    return float(np.asarray(curve.at_s, dtype=np.float64)[enough[-1]]) if enough.size else None


def _least(curve: Curve, at_s: float) -> str:
    """Return the time that so many took at least; of a bin (0.8 % wide) the digits that hold for all of it."""
    if curve.points:
        return text.seconds(at_s)
    return text.together(display.duration(at_s, 2, rounding="down"))


def _times(curve: Curve) -> np.ndarray:
    """Return times above zero: others have no place on a log scale."""
    at = np.asarray(curve.at_s, dtype=np.float64)
    return at[at > 0]


def _shares(curve: Curve) -> np.ndarray:
    return np.asarray(curve.share, dtype=np.float64)[np.asarray(curve.at_s, dtype=np.float64) > 0]


def _extent(times: np.ndarray) -> list[float]:
    """Return decades from the least to the greatest, with room beside them for where the lines fall."""
    low, high = float(np.log10(times.min())), float(np.log10(times.max()))
    room = 0.03 * (high - low) or 0.5
    return [round(low - room, 4), round(high + room, 4)]


def _caption(shown: Sequence[Curve], known: int, whole: bool) -> str:
    left = f" The first {len(shown)} of {known} are drawn." if known > len(shown) else ""
    few = " Only the marked points are known; lines between them guide the eye." if any(c.points for c in shown) else ""
    rare = {curve.name: reached(curve, _RARE) for curve in (shown[:1] if whole else shown)}
    ends = {name: value for name, value in rare.items() if value is not None}
    if len(rare) == 1 and ends:
        (name,) = ends
        slowest = float(_times(shown[0])[-1])
        return (
            f"One tuple in a thousand took {_least(shown[0], ends[name])} or more, the slowest "
            f"{text.seconds(slowest)}.{few}{left}"
        )
    if len(ends) > 1:
        best, worst = min(ends, key=lambda name: ends[name]), max(ends, key=lambda name: ends[name])
        caption = f"One tuple in a thousand took {_least(shown[0], ends[best])} or more with {text.plain(best)}"
        if ends[worst] > ends[best]:
            caption += f", and {_least(shown[0], ends[worst])} or more with {text.plain(worst)}"
        return f"{caption}.{few}{left}"
    return f"{few}{left}".strip()
