"""The page of a sizing: the plan, what every availability costs, and why no cheaper plan does.

Tables of plans and of the curve are those of `scenarios.planning.sizing_tables`, which the terminal draws as well. Time
down is always said per month of 30.44 days.
"""

from __future__ import annotations

from dataclasses import replace

from analysis.report.figure import Figure, Section, Spec, reading, share_ticks
from analysis.report.page import Fact, Page
from analysis.report.tables import cut, text_table
from analysis.report.text import NONE, style
from models import display
from models.planning.sizing.problem import CurvePoint, SizingProblem, SystemPlan
from models.planning.solution import Status
from models.reliability.times import downtime_s
from models.table import Table
from scenarios.pages.run import versions
from scenarios.planning.sizing import (
    SizingAnswer,
    amount,
    causes,
    cost_text,
    cost_unit,
    down_text,
    part_text,
    recovery_figures,
    recovery_target,
    serving_text,
    until_work,
)
from scenarios.planning.sizing_tables import curve_table, plans_table

_INTERVALS = (
    "Time down is at the interval beside it: of the chosen plan the one to use, of others the best one found. The last "
    "column is a bound that is proven for every interval."
)
_MEANING = {
    "too few hosts": "too few hosts up for the work, and catching up after that",
    "too few task managers": "too few slots or task managers up for the work, and catching up after that",
    "hosts too full": "hosts with more units than they have room for",
    "recoveries": "recoveries from checkpoints, catching up included",
    "take-overs": "take-overs by other copies",
}
_ASSUMPTIONS = (
    "The system is down while it does not serve or is behind: a recovery ends when the work that piled up is done. "
    "A month has 30.44 days.",
    "Hosts are alike and fail independently; times to failure, repairs, take-overs, rebuilds and recoveries are "
    "exponential with the means given.",
    "Tasks are many and spread evenly over the hosts that are up, unless units are given.",
    "All figures are computed from formulas and Markov chains; nothing is sampled.",
)
_AT_LATEST = "Means are over all phases of the heartbeats, other figures of recoveries are of the latest one."
_UNITS = "Units stay where recoveries put them: figures marked ≤ are upper bounds for wherever that is."


def sizing_page(found: SizingAnswer, *, command: str = "") -> Page:
    """Return the page of a sizing.

    Without a chosen plan the page says why: infeasible (all plans fail) or unknown (some are not decided), with the
    best plan that is possible. Sections that have nothing to show are left out.
    """
    problem = found.problem
    units = () if problem.description.units is None else (_UNITS,)
    engine = problem.description.engine
    rules: tuple[str, ...] = ()
    if engine is not None and problem.restarts is not None:
        rules = (f"Recoveries follow the rules of {engine.title}. {_AT_LATEST}",)
        rules += tuple(f"{one.name} ({one.status}): {one.text}" for one in problem.restarts.behaviours)
    sections = [
        Section("plan", "What the plan gives", "Plan", tables=_plan(found)),
        Section("curve", "What an availability costs", "Curve", figures=_curves(found)),
        Section("cheaper", *_proof(found), tables=_tables(found)),
    ]
    return Page(
        title=problem.description.name or "Sizing",
        question="Which is the cheapest system that meets its targets?",
        facts=(
            Fact("availability asked", _availability_target(problem)),
            Fact("recovery asked", recovery_target(problem)),
            Fact(f"a {problem.host_word} fails after", display.duration(problem.mttf_s)),
            Fact("and is down for", display.duration(problem.mttr_s)),
        ),
        headline=_headline(found),
        assumptions=(*_ASSUMPTIONS, *units, *rules, *found.notes),
        versions=versions(),
        command=command,
        sections=[one for one in sections if one.figures or one.tables],
    )


def _proof(found: SizingAnswer) -> tuple[str, str]:
    """Return title and short title of the section of all plans."""
    if found.plan.chosen is None:
        return "Why nothing meets the target", "Why"
    return "Why nothing cheaper will do", "Cheaper"


def _availability_target(problem: SizingProblem) -> str:
    return display.exact(problem.description.target.availability)


def _headline(found: SizingAnswer) -> tuple[Fact, ...]:
    """Return the facts of the chosen plan, or why there is none."""
    plan, at, problem = found.plan, found.plan.figures, found.problem
    if plan.chosen is None or at is None:
        why = "" if plan.possible is None else f"{_together(problem, plan.possible.plan)}: {plan.possible.why}"
        nothing = "nothing meets the target"
        if plan.status is Status.UNKNOWN:
            nothing = "nothing is certain to meet the target"
        return (Fact("plan", nothing, good=False, note=why or plan.note),)
    recovery = recovery_figures(problem, plan.chosen.plan, at)[-1]
    down = f"down {down_text(at)} a month, {display.duration(problem.allowed_down_s)} allowed"
    return (
        Fact("plan", _together(problem, plan.chosen.plan), good=True, note=f"{plan.status}: {plan.note}"),
        Fact("checkpoint every", display.duration(at.interval_s), note=plan.interval_note),
        Fact("cost", _cost(found, plan.objective)),
        Fact("availability", serving_text(at), note=down),
        Fact(
            f"recovery, {recovery.loss}",
            display.duration(at.quantile_recovery_s),
            note=f"{display.share(problem.description.target.recovery_share, 6)} within that, {recovery.by}",
        ),
    )


def _together(problem: SizingProblem, plan: SystemPlan) -> str:
    """Return the plan with spaces between number and noun that do not break."""
    return problem.text(plan).replace(" ", "\u00a0").replace(",\u00a0", ", ")


def _plan(found: SizingAnswer) -> tuple[Table, ...]:
    """Return where the time down comes from, and how long recoveries take.

    The causes of time down are disjoint, so their shares sum to the unavailability, the marked last row.
    """
    plan, at, problem = found.plan, found.plan.figures, found.problem
    if plan.chosen is None or at is None:
        return ()
    down = [
        (cause, _MEANING[cause], part_text(at, share, display.share), part_text(at, downtime_s(share)))
        for cause, share in causes(problem, at)
        if share
    ]
    total = ("in all", "", part_text(at, at.unavailability, display.share), down_text(at))
    recovery = [
        (one.loss, one.by, one.figure, display.duration(one.seconds))
        for one in recovery_figures(problem, plan.chosen.plan, at)
    ]
    until = [
        (one.part, one.by, display.duration(one.mean_s), display.duration(one.latest_s))
        for one in until_work(problem, plan.chosen.plan)
    ]
    asked = "" if problem.description.target.recovery_s is None else f"Target: {recovery_target(problem)}."
    heads = ("cause", "meaning", "share of the time", "a month")
    tables = [
        text_table("down", "Time down", heads, (*down, total), (False, False, True, True), marked=len(down),
                   prose=(1,)),
        text_table("recovery", f"Recovery with all {problem.host_word}s up before",
                   ("loss", "recovery", "figure", "time"), tuple(recovery), (False, False, False, True), note=asked,
                   prose=(1,)),
    ]  # fmt: skip
    if until:
        names, numbers = ("until", "decided by", "mean", "at the latest"), (False, False, True, True)
        tables.append(text_table("until-work", "From a failure until work goes on", names, until, numbers,
                                 marked=len(until) - 1, prose=(1,)))  # fmt: skip
    return tuple(tables)


def _cost(found: SizingAnswer, cost: float | None) -> str:
    return NONE if cost is None else f"{cost_text(found.problem, cost)} {cost_unit(found.problem)}"


def _curves(found: SizingAnswer) -> tuple[Figure, ...]:
    """Return the cost of an availability, as steps that are never below what it costs.

    The axis is the share of time that may be down, from lax to strict. Costs are in the unit of the answer: USD an
    hour, or hosts where these have no price.
    """
    points = [point for point in found.plan.curve if point.cost is not None]
    if not points:
        return ()
    asked = found.problem.allowed
    at, cost = [point.allowed for point in points], [_number(found, point) for point in points]
    data: list[Spec] = [
        {
            "type": "scatter", "mode": "lines+markers", "name": "cheapest", "x": at, "y": cost,
            "line": {"color": style(0).colour, "width": 2, "shape": "vh"}, "marker": {"size": 7},
            "hovertemplate": reading("y", cost_unit(found.problem), cost),
        }
    ]  # fmt: skip
    data += [
        {
            "type": "scatter", "mode": "markers", "name": "asked", "x": [allowed], "y": [y],
            "marker": {"size": 13, "symbol": "diamond-open", "color": "var:--ink"}, "hoverinfo": "skip",
        }
        for allowed, y in zip(at, cost, strict=True)
        if allowed == asked
    ]  # fmt: skip
    layout: Spec = {
        "xaxis": {
            "title": {"text": "share of the time that may be down (log scale)"},
            "type": "log", "autorange": "reversed", **share_ticks(min(at), max(at)),
            "unifiedhovertitle": {"text": "down %{x:.3~p} of the time"},
        },
        "yaxis": {"title": {"text": f"cost [{cost_unit(found.problem)}]"}, "rangemode": "tozero"},
        "hovermode": "x unified",
    }  # fmt: skip
    table = curve_table(found)
    caption = _caption(found)
    return (Figure("cost", "Cost of an availability", caption, data, layout, 400, table.heads, table.cells),)


def _number(found: SizingAnswer, point: CurvePoint) -> float:
    return amount(found.problem, point.cost) or 0.0


def _caption(found: SizingAnswer) -> str:
    least = (
        "proven to be the cheapest" if found.problem.description.units is None else "the cheapest that surely meets it"
    )
    caption = f"Each point is a plan, {least}, at the checkpoint interval to use for that availability. "
    caption += "Between two points the line shows the cost of the stricter one."
    beyond = sum(point.cost is None for point in found.plan.curve)
    if any(point.bound != point.cost for point in found.plan.curve if point.plan is not None):
        caption += " LOW–HIGH: the plan costs HIGH, and no plan below LOW meets the availability."
    return (
        f"{caption} No plan within the limits surely meets the {beyond} strictest of the table." if beyond else caption
    )


def _tables(found: SizingAnswer) -> tuple[Table, ...]:
    plan = found.plan
    tables = [plans_table(found, "one-less", "One unit less", plan.next_cheaper)] if plan.next_cheaper else []
    if plan.possible is not None:
        tables.append(plans_table(found, "possible", "The best that is possible", (plan.possible,)))
    # The closest ones first.
    evaluated = cut(plans_table(found, "evaluated", "Every plan that was evaluated", plan.evaluated[::-1]))
    evaluated = replace(evaluated, note=f"{_INTERVALS} {evaluated.note}".strip())
    return (*tables, evaluated if plan.chosen is None else replace(evaluated, marked=0))
