"""Methods of recovery side by side: the phases of their recoveries, and what they cost while nothing fails."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.report import text
from analysis.report.figure import PHASES, Figure, Section, Spec, time_unit
from analysis.report.parts import Design
from analysis.report.tables import cut_table, rate_of_bytes
from analysis.runs.recovery_summary import shown_phases
from models import display
from models.table import Table

_LINE = 26  # characters beside a figure


def recovery_methods_section(methods: Sequence[Design]) -> Section | None:
    """Return the methods, the fastest first; None where not two of them have a recovery.

    `methods` are designs of which each stands for all that have one method.
    """
    known = [one for one in methods if one.of("detect_s").mean is not None]
    if len(known) < 2:
        return None
    ordered = sorted(known, key=_total_s)
    words = (
        "Means over all runs with a method. Sent: all that hosts send each other, tuples included, so that the second "
        "copy for active replicas counts. Busy cores: of all tasks, on average. Memory: the most that outputs take up "
        "that are kept to be sent again. The median latency shows what a method costs most of the time, and a long "
        "recovery; later by: against the method with the least."
    )
    figures, tables = (_figure(ordered),), (_table(ordered),)
    return Section("methods", "Methods of recovery", "Methods", words, figures=figures, tables=tables)


def _total_s(one: Design) -> float:
    return sum(_phase_s(one, phase) for phase in PHASES)


def _phase_s(one: Design, phase: str) -> float:
    return one.of(f"{phase}_s").mean or 0.0


def _figure(ordered: Sequence[Design]) -> Figure:
    """Draw the mean phases of a recovery with each method as a stacked bar."""
    names = shown_phases({phase: _phase_s(one, phase) for phase in PHASES} for one in ordered)
    labels = [_label(one) for one in ordered]
    unit, size = time_unit([_total_s(one) for one in ordered])
    data: list[Spec] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": PHASES[phase],
            "y": labels,
            "x": [float(f"{_phase_s(one, phase) / size:.4g}") for one in ordered],
            "marker": {"color": f"var:--phase-{phase}"},
            "text": [f"{one.label}<br>{PHASES[phase]}: {text.seconds(_phase_s(one, phase))}" for one in ordered],
            "textposition": "none",
            "hovertemplate": "%{text}<extra></extra>",
        }
        for phase in names
    ]
    layout: Spec = {
        "barmode": "stack",
        "xaxis": {"title": {"text": f"time since the failure [{unit}]"}},
        "yaxis": {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": labels,
            "range": [len(labels) - 0.5, -0.5],
        },
        "showlegend": True,
    }
    rows = tuple(
        (text.plain(one.label), *(text.seconds(_phase_s(one, phase)) for phase in names), text.seconds(_total_s(one)))
        for one in ordered
    )
    heads = ("method", *(PHASES[phase] for phase in names), "all phases")
    caption = f"Fastest: {text.plain(ordered[0].label)}, {text.seconds(_total_s(ordered[0]))}."
    unfinished = sum(one.unfinished_recoveries for one in ordered)
    if unfinished:
        caption += f" {unfinished} recoveries that did not end within their run count in the phases that ended."
    height = 130 + 34 * len(ordered)
    return Figure("methods-recovery", "Phases of a recovery by method", caption, data, layout, height, heads, rows)


def _label(one: Design) -> str:
    """Return the name of a method in lines that fit beside a figure on a phone."""
    first, _, rest = text.plain(one.label).partition("-")
    return text.label(first, _LINE) + (f"-<br>{text.label(rest, _LINE)}" if rest else "")


def _table(ordered: Sequence[Design]) -> Table:
    """Return phases and costs of each method."""
    names = shown_phases({phase: _phase_s(one, phase) for phase in PHASES} for one in ordered)
    least_s = min((value for one in ordered if (value := one.of("latency_p50_s").mean) is not None), default=None)
    cells = []
    for one in ordered:
        median_s = one.of("latency_p50_s").mean
        later = None if median_s is None or least_s is None else median_s - least_s
        cells.append(
            (
                text.plain(one.label),
                *(text.seconds(_phase_s(one, phase)) for phase in names),
                text.seconds(one.of("recovery_s").mean),
                rate_of_bytes(one.of("sent_bytes_per_s").mean),
                rate_of_bytes(one.of("overhead_bytes_per_s").mean),
                text.number(one.of("busy_cores").mean, 3),
                text.together(display.size(one.of("kept_bytes_max").mean)),
                text.seconds(median_s),
                text.seconds(later),
            )
        )
    costs = ("sent", "of it overhead", "busy cores", "memory", "median latency", "later by")
    heads = ("method", *(PHASES[phase] for phase in names), "recovery", *costs)
    return cut_table("methods", "Recovery and cost of each method", heads, cells, words=1)
