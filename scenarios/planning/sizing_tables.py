"""Tables of `holdfast size`: the terminal shows their brief form, pages the whole."""

from __future__ import annotations

from collections.abc import Sequence

from models import display
from models.planning.sizing.problem import CurvePoint, EvaluatedPlan, PlanFigures, SizingProblem
from models.table import Column, Table, rows_of
from scenarios.planning.sizing import SizingAnswer, cost_text, cost_unit, down_text


def plans_table(found: SizingAnswer, name: str, title: str, evaluated: Sequence[EvaluatedPlan]) -> Table:
    """Return plans with verdict and reason; time down and interval are of the interval to use, or of the best found."""
    problem = found.problem
    columns = (
        Column("plan", problem.text, "plan", number=False, whole=True),
        Column("verdict", of="verdict", number=False, wide=True),
        Column("why", of="why", number=False, prose=True),
        Column(_cost_head(problem), lambda cost: cost_text(problem, cost), "cost"),
        Column("interval", _interval, "at", wide=True),
        Column("down a month", _down, "at"),
        Column("at any interval", display.at_least, "least_down_s", wide=True),
    )
    facets = tuple(one.verdict.value for one in evaluated)
    return Table(title, columns, rows_of(evaluated, columns), name, facet="verdict", facets=facets)


def curve_table(found: SizingAnswer) -> Table:
    """Return the cheapest plan of each availability, the one that was asked for marked."""
    problem = found.problem
    columns = (
        Column("availability", number=False, whole=True),
        Column("allowed a month", display.duration, wide=True),
        Column("cheapest plan", lambda point: _cheapest(problem, point), number=False, whole=True),
        Column("interval", _interval),
        Column(_cost_head(problem), lambda point: _cost(problem, point)),
        Column("down a month", _down),
    )
    rows = tuple(
        (_availability(problem, one), one.allowed_down_s, one, one.at, one, one.at) for one in found.plan.curve
    )
    asked = [one.allowed for one in found.plan.curve]
    marked = asked.index(problem.allowed) if problem.allowed in asked else None
    return Table("What an availability costs", columns, rows, "curve", marked=marked)


def _availability(problem: SizingProblem, point: CurvePoint) -> str:
    return display.availability(point.allowed, 10) + (" (asked)" if point.allowed == problem.allowed else "")


def _cheapest(problem: SizingProblem, point: CurvePoint) -> str:
    if point.plan is None:
        return "none" if point.bound is None else "none for certain"
    return problem.text(point.plan)


def _cost(problem: SizingProblem, point: CurvePoint) -> str:
    """Return the cost of the plan, after the proven bound of any cost where that is lower."""
    cost, bound = (cost_text(problem, one) for one in (point.cost, point.bound))
    if point.plan is None:
        return cost if point.bound is None else f"≥ {bound}"
    return cost if point.bound == point.cost else f"{bound}–{cost}"


def _cost_head(problem: SizingProblem) -> str:
    return f"cost [{cost_unit(problem)}]"


def _interval(at: PlanFigures | None) -> str:
    return display.NONE if at is None else display.duration(at.interval_s)


def _down(at: PlanFigures | None) -> str:
    return display.NONE if at is None else down_text(at)
