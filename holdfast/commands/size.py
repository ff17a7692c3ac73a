"""`holdfast size`: how many hosts, copies and crews, and which checkpoint interval, for a target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from models.units import duration_text

if TYPE_CHECKING:
    from rich.table import Table

    from models.sizing.answer import CurvePoint, Judged, PlanFigures
    from scenarios.sizing import SizingAnswer


def size(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Targets, work, hosts, failures: .toml or .json")],
    curve: Annotated[bool, typer.Option("--curve/--no-curve", help="Also what other availabilities cost")] = True,
    report: Annotated[
        Path | None, typer.Option("--report", "--page", help="Write a page with the curve: .html")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace --report")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document")] = False,
) -> None:
    """Find the cheapest system that meets an availability and a recovery time, and show why none cheaper does.

    Exit code 0: found; 2: bad input; 3: nothing within the limits meets the target, with the best that is possible; 4:
    not decided.
    """
    from holdfast import terminal  # noqa: PLC0415
    from holdfast.progress import progress  # noqa: PLC0415
    from scenarios.report_sizing import sizing_page  # noqa: PLC0415
    from scenarios.sizing import EXIT, answer, document  # noqa: PLC0415
    from scenarios.write_once import refuse_page, write_text  # noqa: PLC0415

    refuse_page(report, force=force)
    with progress() as talk:
        found = answer(
            file, curve=curve, talk=lambda _: talk("going through plans", None)
        )  # one line, not one for each
    if report is not None:
        write_text(report, sizing_page(found, command=terminal.again()), force=force)
    if as_json:
        terminal.print_json(document(found))
    else:
        terminal.show(*_parts(found))
    code = EXIT.get(found.plan.status, 0)
    if code:
        typer.echo(found.plan.note, err=True)
        raise typer.Exit(code)


def _parts(found: SizingAnswer) -> list[Table | str]:
    plan = found.plan
    parts: list[Table | str] = [*_chosen(found)] if plan.chosen is not None else [*_possible(found)]
    if plan.next_cheaper:
        parts.append(_rows(found, _less(plan.next_cheaper), plan.next_cheaper))
    if plan.curve:
        parts.append(_curve(found))
    return [*parts, *found.notes]


def _less(judged: tuple[Judged, ...]) -> str:
    said = "One unit less, and why each fails"
    return said if all(one.verdict == "fails" for one in judged) else said + " or is not certain to do"


def _chosen(found: SizingAnswer) -> list[str]:
    from scenarios.sizing import cost_unit, scale_of  # noqa: PLC0415

    plan, problem, at = found.plan, found.problem, found.plan.figures
    assert plan.chosen is not None
    assert at is not None
    scale, unit = scale_of(problem), cost_unit(problem)
    units = problem.asked.units is not None
    full = "hosts too full" if units else "too few hosts"
    shares = ((full, at.standing), ("recoveries", at.recovering), ("take-overs", at.switching))
    there = f"{'at least ' if units else ''}{1 - at.unavailability:.7g}"
    target = problem.asked.target
    by = "take-over" if at.promised_recovery_s is None else "checkpoint"
    promised = problem.asked.copies.take_over_s if at.promised_recovery_s is None else at.promised_recovery_s
    proof = "no cheaper one does" if plan.status == "optimal" else f"none below {plan.bound or 0:.6g} does"
    asked = "" if target.recovery_s is None else f", asked {duration_text(target.recovery_s)}"
    lines = [
        ("plan", f"{plan.chosen.plan.text}, a checkpoint every {duration_text(at.interval_s)}"),
        ("cost", f"{(plan.objective or 0) * scale:.6g} {unit}; {proof}: {plan.note}"),
        (
            "availability",
            f"{there}, asked {target.availability:.10g}",
        ),
        ("down a month", f"{_down(at)} of {_month(problem.allowed)} allowed"),
        ("most of it", ", ".join(f"{name} {_month(share)}" for name, share in shares if share)),
        ("recovery", f"{duration_text(promised)} by {by} for {_failures(target.recovery_share)}{asked}"),
        (
            "by checkpoint",
            f"{duration_text(at.mean_recovery_s)} on average, {duration_text(at.worst_recovery_s)} at most",
        ),
        ("interval", plan.interval_note),
        ("hosts busy", f"{at.utilisation:.1%} of the time, checkpoints included"),
        ("hosts", f"fail after {duration_text(problem.mttf_s)}, down {duration_text(problem.mttr_s)}"),
    ]
    from holdfast.terminal import facts  # noqa: PLC0415

    return facts(lines, 14)


def _down(at: PlanFigures) -> str:
    if at.at_least is None:
        return _month(at.unavailability)
    return f"{_month(at.at_least)} to {_month(at.unavailability)}"


def _possible(found: SizingAnswer) -> list[Table | str]:
    plan, target = found.plan, found.problem.asked.target
    asked = f"availability {target.availability:.10g}"
    asked += "" if target.recovery_s is None else f", recovery within {duration_text(target.recovery_s)}"
    nothing = "Nothing meets" if plan.status == "infeasible" else "Nothing is certain to meet"
    lines: list[Table | str] = [f"{nothing} {asked}: {plan.note}."]
    if plan.possible is not None:
        lines.append(_rows(found, "The best that is possible", (plan.possible,)))
    if target.budget_per_s is not None:
        met = [point for point in plan.curve if point.unavailability == found.problem.allowed and point.plan]
        if met:
            lines.append(f"Without the budget: {_point(found, met[0].cost)}, {met[0].plan.text}.")  # type: ignore[union-attr]
    return lines


def _rows(found: SizingAnswer, title: str, judged: tuple[Judged, ...]) -> Table:
    from holdfast.terminal import table  # noqa: PLC0415

    rows = [
        (one.plan.text, one.why, _point(found, one.cost), "-" if one.best is None else _month(one.best.unavailability))
        for one in judged
    ]
    return table(title, ("plan", "why it fails", "cost", "a month"), rows, text_columns=2)


def _curve(found: SizingAnswer) -> Table:
    from holdfast.terminal import table  # noqa: PLC0415

    rows = [
        (
            f"{1 - point.unavailability:.10g}{' (asked)' if point.unavailability == found.problem.allowed else ''}",
            _cheapest(point),
            _point(found, point.cost),
            _month(point.unavailability),
        )
        for point in found.plan.curve
    ]
    return table(
        "What an availability costs", ("availability", "cheapest", "cost", "allowed a month"), rows, text_columns=2
    )


def _cheapest(point: CurvePoint) -> str:
    if point.plan is None:
        return "nothing within the limits" if point.bound is None else "nothing that is certain"
    return point.plan.text if point.bound == point.cost else f"{point.plan.text}, perhaps fewer"


def _point(found: SizingAnswer, cost: float | None) -> str:
    from scenarios.sizing import cost_unit, scale_of  # noqa: PLC0415

    return "-" if cost is None else f"{cost * scale_of(found.problem):.6g} {cost_unit(found.problem)}"


def _failures(share: float) -> str:
    return "all failures" if share == 1 else f"{100 * share:.6g} % of failures"


def _month(share: float) -> str:
    from models.availability.times import downtime_s  # noqa: PLC0415

    return duration_text(downtime_s(share))
