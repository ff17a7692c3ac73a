"""Figures of designs beside each other: a time, the phases of a recovery, and what overhead buys in latency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.report import text
from analysis.report.figure import PHASES, Figure, Spec, is_wide, log_ticks, rate_unit, time_unit
from analysis.report.parts import Design
from analysis.report.tables import rate_of_bytes
from analysis.report.text import style
from analysis.runs.recovery_summary import shown_phases

_MOST, _MOST_BEHIND = 40, 150
_CLOSE = 0.6  # the least of what is close to the greatest, as a share of it
_LINE = 22  # characters beside a figure
_LINE_PX = 14  # height of a line of a label
_MOST_NAMED = 4
_STYLES = {  # how a design differs from design 0: colour, symbol, words
    "design 0": ("var:--ink", "diamond", "design 0"),
    "lower": ("var:--good", "triangle-left", "lower than design 0"),
    "higher": ("var:--bad", "triangle-right", "higher than design 0"),
    "unclear": ("var:--soft", "circle-open", "unclear"),
    "equal": ("var:--soft", "circle", "equal"),
    "not compared": ("var:--soft", "x-thin-open", "not compared"),
}


def explained(designs: Sequence[Design]) -> str:
    """Explain means, intervals and verdicts, the same for all figures and tables of the section."""
    words = "Overhead is what checkpoints, trimming, restoring, replay and moves send."
    fewest, most = min(one.runs for one in designs), max(one.runs for one in designs)
    if most > 1:
        words = (
            f"Values are means over the {most if fewest == most else f'{fewest} to {most}'} runs of a design. {words}"
        )
    if not any(one.changes for one in designs):
        return words
    words += " Each design is compared with design 0, the baseline."
    if most < 2:
        return f"{words} One run of each design gives no interval, so no difference is clear."
    return (
        f"{words} With the same seed both see the same tuples, so "
        "the difference is taken run by run; bars and ± give its 95 % interval (Student's t; Welch's for other seeds). "
        "A design is lower or higher if this interval excludes zero, unclear if it does not, equal if no run differs. "
        "Each interval is for one comparison: of twenty designs that equal design 0, one will seem to differ."
    )


def measured(designs: Sequence[Design], measure: str, *, name: str, title: str, axis: str) -> Figure | None:
    """Draw a mark for each design at the mean of a time, coloured by its difference to design 0.

    A bar is the interval of the difference, set at the mean of design 0, which is a line: a bar that does not reach the
    line belongs to a design that is lower or higher. Return None where fewer than two designs have a mean.

    `measure` is a key of `Design.values`, in seconds. Design 0 has its mean alone; each other one stands at that mean
    plus the difference to it, with the 95 % interval of the *difference* as its bar. So a bar that crosses the dotted
    line of design 0 is a difference that may be chance. Bars of single means would not say that for runs with common
    random numbers (Law, Simulation Modeling and Analysis, 5th ed., section 11.2).
    """
    known = [(k, one) for k, one in enumerate(designs) if one.of(measure).mean is not None]
    if len(known) < 2:
        return None
    shown = known[:_MOST]
    base = designs[0].of(measure).mean
    marks = [_mark(k, one, measure, base) for k, one in shown]
    # An interval that reaches zero has no end on a log scale.
    wide = is_wide(mark.at for mark in marks) and all(mark.low > 0 for mark in marks)
    unit, size = ("s", 1.0) if wide else time_unit(mark.high for mark in marks)
    traces = [
        _points([mark for mark in marks if mark.verdict == verdict], verdict, size)
        for verdict in _STYLES
        if any(mark.verdict == verdict for mark in marks)
    ]
    scale: Spec = {"title": {"text": f"{axis} (log scale)" if wide else f"{axis} [{unit}]"}}
    extent = [edge for mark in marks for edge in (mark.low, mark.high)]
    scale |= {"type": "log", **log_ticks(extent, extent)} if wide else {"rangemode": "tozero"}
    layout: Spec = {"xaxis": scale, "yaxis": _rows(shown), "showlegend": len(traces) > 1}
    if base is not None:
        layout["shapes"] = [_line_at(base / size)]
    left = f" The first {len(shown)} of {len(known)} designs are drawn." if len(known) > len(shown) else ""
    caption = _verdicts(known, measure, "design 0, the dotted line") + left
    return Figure(name, title, caption, traces, layout, 150 + _row_px(shown, 30) * len(shown))


@dataclass(frozen=True)
class _Mark:
    """The position of a design: its mean and the ends of its bar [s], and how it differs from design 0."""

    label: str
    verdict: str
    at: float
    low: float
    high: float
    said: str


def _mark(number: int, one: Design, measure: str, base: float | None) -> _Mark:
    """Return the mark of a design: at its mean, or design 0 plus the difference, with the interval as its bar."""
    mean, change = one.of(measure).mean, one.changes.get(measure)
    assert mean is not None
    at, label, said = mean, _label(number, one), f"{_name(number, one)}: {text.seconds(mean)}"
    if not number:
        return _Mark(label, "design 0", at, at, at, said)
    if change is None or base is None or change.difference.mean is None:
        return _Mark(label, "not compared", at, at, at, said)
    difference = change.difference
    # The bar is the interval of the difference around the mean of design 0: both must be over the same runs.
    at = base + change.difference.mean  # where runs failed, that of the runs that both designs have
    low, high = (at if edge is None else base + edge for edge in (difference.ci95 or (None, None)))
    said += f", to design 0: {change.relative} {change.shown}"
    return _Mark(label, change.shown, at, max(0.0, low), high, said)  # an interval may reach below zero, a time not


def _points(own: Sequence[_Mark], verdict: str, size: float) -> Spec:
    """Return the marks of one verdict as a trace with error bars."""
    colour, symbol, said = _STYLES[verdict]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": said,
        "x": [_short(mark.at / size) for mark in own],
        "y": [mark.label for mark in own],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [_short((mark.high - mark.at) / size) for mark in own],
            "arrayminus": [_short((mark.at - mark.low) / size) for mark in own],
            "color": colour,
            "thickness": 1.8,
            "width": 5,
        },
        "marker": {"symbol": symbol, "size": 11, "color": colour, "line": {"color": colour, "width": 1.8}},
        "text": [mark.said for mark in own],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _line_at(x: float) -> Spec:
    """Return a dotted line from top to bottom."""
    line = {"color": "var:--ink", "width": 1.2, "dash": "dot"}
    return {"type": "line", "x0": _short(x), "x1": _short(x), "y0": 0, "y1": 1, "yref": "paper", "line": line}


def _rows(shown: Sequence[tuple[int, Design]]) -> Spec:
    """Return an axis with one row for each design, the first on top."""
    order = [_label(number, one) for number, one in shown]
    return {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": order,
        "range": [len(shown) - 0.5, -0.5],
    }


def _label(number: int, one: Design) -> str:
    """Return number and name in short lines that fit beside a figure on a phone."""
    parts = text.plain(one.label).split(", ") if len(one.label) > _LINE else [one.label]
    return f"{number} " + "<br>".join(text.label(part, _LINE) for part in parts[:3])


def _row_px(shown: Sequence[tuple[int, Design]], least: int) -> int:
    """Return the height of a row [px], in which the lines of its label do not touch those of the next."""
    lines = max((1 + _label(number, one).count("<br>") for number, one in shown), default=1)
    return max(least, _LINE_PX * lines + 6)


def _name(number: int, one: Design) -> str:
    """Return number and name in one line, for hover texts."""
    return f"{number} {text.label(one.label, 40)}"


def _verdicts(known: Sequence[tuple[int, Design]], measure: str, first: str = "design 0") -> str:
    """Say which mean is the lowest and how many designs differ from design 0; a part of a move is not the fastest."""
    over = [(k, one) for k, one in known if not one.undone_moves]
    if not over:
        return left_open(dict(known))
    number, best = min(over, key=lambda pair: pair[1].of(measure).mean or 0.0)
    lowest = f"Lowest mean: {text.seconds(best.of(measure).mean)} with design {number} ({text.plain(best.label)})."
    lowest += f" {left_open(dict(known))}" if len(over) < len(known) else ""
    changes = [one.changes[measure] for k, one in known if k and measure in one.changes]
    if not changes:
        return lowest
    if all(change.difference.ci95 is None and change.shown != "equal" for change in changes):
        return f"{lowest} There is no interval: that takes two runs or more of each design."
    return f"{lowest} Against {first}: {counted([change.shown for change in changes])}."


def left_open(designs: Mapping[int, Design]) -> str:
    """Return a sentence about designs whose moves were not done, which so have not the lowest times; empty for none."""
    ends = {
        "did not end within the run": [k for k, one in designs.items() if one.undone_moves.unfinished],
        "were cancelled": [k for k, one in designs.items() if one.undone_moves.cancelled],
    }
    said = " and those ".join(f"of {listed(some)} {words}" for words, some in ends.items() if some)
    return f"Moves {said}: their times do not count as lowest." if said else ""


def listed(numbers: Sequence[int]) -> str:
    """Return the first of these designs, and how many more there are.

    >>> listed([3]), listed([1, 2, 3, 5, 8, 13])
    ('design 3', 'designs 1, 2, 3, 5 and 2 more')
    """
    more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
    return f"design{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:_MOST_NAMED]))}{more}"


def counted(verdicts: Sequence[str]) -> str:
    """Return how many designs have each verdict: 3 lower, 1 equal.

    >>> counted(["lower", "equal", "lower"])
    '2 lower, 1 equal'
    """
    counts = Counter(verdicts)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in _STYLES if counts[verdict])


def recoveries(designs: Sequence[Design]) -> Figure | None:
    """Draw the mean phases of a recovery of each design as a stacked bar; None where no failure was detected.

    The bars are means over the recoveries of the runs; a recovery that did not end within its run counts in the phases
    that ended.
    """
    known = [(k, one) for k, one in enumerate(designs) if one.of("detect_s").mean is not None]
    if not known:
        return None
    shown = known[:_MOST]
    totals = [sum(_phase(one, phase) for phase in PHASES) for _, one in shown]
    names = shown_phases({phase: _phase(one, phase) for phase in PHASES} for _, one in shown)
    unit, size = time_unit(totals)
    data: list[Spec] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": said,
            "y": [_label(number, one) for number, one in shown],
            "x": [_short(_phase(one, phase) / size) for _, one in shown],
            "marker": {"color": f"var:--phase-{phase}"},
            "text": [
                f"{_name(number, one)}<br>{said}: {text.seconds(one.of(f'{phase}_s').mean)}" for number, one in shown
            ],
            "textposition": "none",
            "hovertemplate": "%{text}<extra></extra>",
        }
        for phase, said in ((phase, PHASES[phase]) for phase in names)
    ]
    layout = {
        "barmode": "stack",
        "xaxis": {"title": {"text": f"time since the failure [{unit}]"}},
        "yaxis": _rows(shown),
        "showlegend": True,
    }
    rows = tuple(
        (str(number), *(text.seconds(one.of(f"{phase}_s").mean) for phase in names), text.seconds(total))
        for (number, one), total in zip(shown, totals, strict=True)
    )
    left = f" The first {len(shown)} of {len(known)} designs are drawn." if len(known) > len(shown) else ""
    ended = [pair for pair in known if pair[1].of("recovery_s").mean is not None]
    caption = f"{_verdicts(ended, 'recovery_s')} " if len(ended) > 1 else ""
    caption += _recovery_caption(shown, totals) + left
    height, heads = 130 + _row_px(shown, 34) * len(shown), ("design", *(PHASES[phase] for phase in names), "all phases")
    return Figure("designs-recovery", "Phases of a recovery, means", caption, data, layout, height, heads, rows)


def _phase(one: Design, phase: str) -> float:
    return one.of(f"{phase}_s").mean or 0.0


def _recovery_caption(shown: Sequence[tuple[int, Design]], totals: Sequence[float]) -> str:
    """Say what takes most of the time, and which recoveries did not end."""
    unfinished = [(k, one.unfinished_recoveries) for k, one in shown if one.unfinished_recoveries]
    sums = {words: sum(_phase(one, phase) for _, one in shown) for phase, words in PHASES.items()}
    most = max(sums, key=lambda words: sums[words])
    share = text.share(sums[most] / sum(totals)) if sum(totals) > 0 else ""
    said = f'Of the time shown {share} goes into the phase "{most}".' if share else ""
    if unfinished:
        counts = ", ".join(f"{count} of design {k}" for k, count in unfinished[:_MOST_NAMED])
        counts += ", ..." if len(unfinished) > _MOST_NAMED else ""
        said += f" Recoveries that did not end within the run ({counts}) count in the phases that ended."
    return said


def front(designs: Sequence[Design], across: str, up: str) -> list[int]:
    """Return positions of the designs that no other is better than: none has as little of both, and less of one.

    `across` and `up` are keys of `Design.values`; designs that lack one of both are left out. This is the Pareto front
    of the means.
    """
    points = {k: (one.of(across).mean, one.of(up).mean) for k, one in enumerate(designs)}
    known = {k: (x, y) for k, (x, y) in points.items() if x is not None and y is not None}
    return [
        k for k, (x, y) in known.items() if not any(a <= x and b <= y and (a < x or b < y) for a, b in known.values())
    ]


def pareto(designs: Sequence[Design], up: str, *, name: str, title: str, axis: str) -> Figure | None:
    """Return overhead against a time, the designs that no other is better than marked; None for fewer than two.

    `up` is the measure of the vertical axis [s]; overhead [B/s] is on the horizontal one. Designs that no other beats
    in both are filled and joined by steps.
    """
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
    caption = _front_caption(by_overhead, designs, len(known), axis)
    caption += f" {len(behind) - len(rest)} designs behind are left out." if len(behind) > len(rest) else ""
    return Figure(name, title, caption, data, layout, 430)


def _from_zero(values: Sequence[float | None]) -> str:
    """Return whether an axis begins at zero: not where all values are so close that they would lie on each other."""
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
    """Draw numbered spots in the colours of the designs; those that are good are filled and joined by steps.

    Designs with the same two means are one spot, with how many more there are beside the first number.
    """
    (right, size), (above, length) = across, up
    together: dict[tuple[float, float], list[int]] = {}
    for k in chosen:
        at = _short((designs[k].of(right).mean or 0.0) / size), _short((designs[k].of(above).mean or 0.0) / length)
        # Rounded coordinates: spots that a screen cannot tell apart are one.
        together.setdefault(at, []).append(k)
    spots = list(together.values())
    colours = [style(own[0]).colour for own in spots]
    marker: Spec = {"size": [24 if len(own) == 1 else 34 for own in spots], "symbol": "circle", "opacity": 1}
    marker |= {"color": colours} if good else {"color": "var:--card", "line": {"color": colours, "width": 2}}
    said_of = {
        k: f"{_name(k, one)}: {rate_of_bytes(one.of(right).mean)}, {text.seconds(one.of(above).mean)}"
        for k, one in enumerate(designs)
        if k in chosen
    }
    return {
        "type": "scatter",
        "mode": "lines+markers+text" if good else "markers+text",
        "name": said,
        "x": [x for x, _ in together],
        "y": [y for _, y in together],
        "line": {"color": "var:--accent", "width": 1.2, "dash": "dot", "shape": "hv"},
        "marker": marker,
        "text": [str(own[0]) if len(own) == 1 else f"{own[0]}+{len(own) - 1}" for own in spots],
        "textfont": {"color": "var:--paper" if good else "var:--ink", "size": 11},
        "customdata": [
            "<br>".join(said_of[k] for k in own[:_MOST_NAMED])
            + (f"<br>and {len(own) - _MOST_NAMED} more" if len(own) > _MOST_NAMED else "")
            for own in spots
        ],
        "hovertemplate": "%{customdata}<extra></extra>",
        "cliponaxis": False,
    }


def _front_caption(best: Sequence[int], designs: Sequence[Design], known: int, axis: str) -> str:
    """Return the sentence that names the designs of the front, at most four of them."""
    names = [f"{k} ({text.plain(designs[k].label)})" for k in best[:4]]
    more = f" and {len(best) - 4} more" if len(best) > 4 else ""
    said = " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 and not more else ", ".join(names)
    whose = "is filled: no other design has" if len(best) == 1 else "are filled: for each, no other design has"
    return (
        f"Of {known} designs, {said}{more} {whose} both less overhead and a shorter {axis}. By the means; numbers are "
        "those of the table, and axes need not begin at 0."
    )


def _short(value: float) -> float:
    """Return six significant digits: more than a figure shows, and a smaller page."""
    return float(f"{value:.6g}")
