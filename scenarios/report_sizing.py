"""The page of a sizing: the plan, what every availability costs, and why no cheaper plan does."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.report.content import Fact, ReportContent
from analysis.report.figure import Figure, Spec
from analysis.report.page import render_page
from analysis.report.scales import share_ticks
from analysis.report.section import Section
from analysis.report.tables import Table
from analysis.report.text import plain
from models.availability.times import downtime_s
from models.sizing.answer import Judged
from models.units import duration_text
from scenarios.report_content import versions
from scenarios.sizing import SizingAnswer, cost_unit, scale_of

_MOST_ROWS = 1000
_ASSUMPTIONS = (
    "Hosts are alike and fail independently; times to failure, repairs, take-overs, rebuilds and recoveries are "
    "exponential with the means said.",
    "Tasks are many and spread evenly over the hosts that are up, unless units are given.",
    "The system is there while it serves and is not behind: recovery ends when the work that piled up is done.",
    "The whole of a plan's unavailability is computed; nothing is sampled.",
)


def sizing_page(found: SizingAnswer, *, command: str = "") -> str:
    """The page as HTML."""
    problem = found.problem
    sections = [
        Section("curve", "What an availability costs", "Curve", figures=_curves(found)),
        Section("cheaper", "Why nothing cheaper will do", "Cheaper", tables=_tables(found)),
    ]
    content = ReportContent(
        title=problem.asked.name or "Sizing",
        question="Which is the cheapest system that meets its targets?",
        facts=(
            Fact("availability asked", f"{problem.asked.target.availability:.10g}"),
            Fact("recovery asked", duration_text(problem.asked.target.recovery_s)),
            Fact("a host fails after", duration_text(problem.mttf_s)),
            Fact("and is down for", duration_text(problem.mttr_s)),
        ),
        headline=_headline(found),
        assumptions=(*_ASSUMPTIONS, *found.notes),
        versions=versions(),
        command=command,
    )
    return render_page(content, [one for one in sections if one.figures or one.tables])


def _headline(found: SizingAnswer) -> tuple[Fact, ...]:
    plan, at = found.plan, found.plan.figures
    if plan.chosen is None or at is None:
        why = "" if plan.possible is None else f"{plan.possible.plan.text}: {plan.possible.why}"
        return (Fact("plan", "nothing meets the target", good=False, note=why or plan.note),)
    by = "take-over" if at.promised_recovery_s is None else "checkpoint"
    promised = found.problem.asked.copies.take_over_s if at.promised_recovery_s is None else at.promised_recovery_s
    return (
        Fact("plan", plan.chosen.plan.text, good=True, note=f"{plan.status}: {plan.note}"),
        Fact("checkpoint every", duration_text(at.interval_s), note=plan.interval_note),
        Fact("cost", _cost(found, plan.objective)),
        Fact("down a month", duration_text(downtime_s(at.unavailability))),
        Fact("recovery", duration_text(promised), note=f"by {by}"),
    )


def _cost(found: SizingAnswer, cost: float | None) -> str:
    return "–" if cost is None else f"{cost * scale_of(found.problem):.6g} {cost_unit(found.problem)}"


def _curves(found: SizingAnswer) -> tuple[Figure, ...]:
    """Cost against unavailability, in steps that are never below what it costs."""
    points = [point for point in found.plan.curve if point.cost is not None]
    if not points:
        return ()
    scale, unit = scale_of(found.problem), cost_unit(found.problem)
    asked = found.problem.allowed
    at = [point.unavailability for point in points]
    data: list[Spec] = [
        {
            "type": "scatter", "mode": "lines+markers", "name": "cheapest", "x": at,
            "y": [float(f"{(point.cost or 0) * scale:.6g}") for point in points],
            "line": {"color": "var:--c1", "width": 2, "shape": "vh"}, "marker": {"size": 7},
        }
    ]  # fmt: skip
    data += [
        {
            "type": "scatter", "mode": "markers", "name": "asked", "x": [point.unavailability],
            "y": [float(f"{(point.cost or 0) * scale:.6g}")],
            "marker": {"size": 13, "symbol": "diamond-open", "color": "var:--ink"},
        }
        for point in points
        if point.unavailability == asked
    ]  # fmt: skip
    layout: Spec = {
        "xaxis": {
            "title": {"text": "share of the time not there (log scale)"},
            "type": "log", "autorange": "reversed", **share_ticks(min(at)),
        },
        "yaxis": {"title": {"text": f"cost [{unit}]"}, "rangemode": "tozero"},
        "hovermode": "x unified",
    }  # fmt: skip
    every = [
        (
            f"{1 - point.unavailability:.10g}",
            duration_text(downtime_s(point.unavailability)),
            "–" if point.plan is None else point.plan.text,
            _cost(found, point.cost),
        )
        for point in found.plan.curve
    ]
    beyond = len(found.plan.curve) - len(points)
    caption = "Each point is the cheapest plan, proven where units leave nothing open. "
    caption += "Between two points the line says what the stricter one costs."
    if beyond:
        caption += f" {beyond} stricter availabilities have none."
    heads = ("availability", "down a month", "cheapest plan", "cost")
    return (Figure("cost", "Cost of an availability", caption, data, layout, 400, heads, tuple(every)),)


def _tables(found: SizingAnswer) -> tuple[Table, ...]:
    plan = found.plan
    tables = [_table(found, "one-less", "One unit less", plan.next_cheaper)] if plan.next_cheaper else []
    if plan.possible is not None:
        tables.append(_table(found, "possible", "The best that is possible", (plan.possible,)))
    return (*tables, _table(found, "judged", "Every plan that was gone through", plan.judged))


def _table(found: SizingAnswer, name: str, title: str, judged: Sequence[Judged]) -> Table:
    heads = ("plan", "verdict", "why", "cost", "down a month, found", "proven least")
    rows = tuple(
        (
            one.plan.text,
            one.verdict.value,
            plain(one.why),
            _cost(found, one.cost),
            "–" if one.best is None else duration_text(downtime_s(one.best.unavailability)),
            "–" if one.least is None else duration_text(downtime_s(one.least)),
        )
        for one in judged[:_MOST_ROWS]
    )
    note = f"The first {_MOST_ROWS:,} of {len(judged):,} rows." if len(judged) > _MOST_ROWS else ""
    return Table(name, title, heads, rows, (False, False, False, True, True, True), note=note, prose=2, facet="verdict",
                 facets=tuple(one.verdict.value for one in judged[:_MOST_ROWS]))  # fmt: skip
