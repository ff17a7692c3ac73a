"""`holdfast size`: how many hosts, copies and crews, and which checkpoint interval, for a target."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.report import render_page
from holdfast import terminal
from holdfast.progress import progress
from holdfast.terminal import facts
from models import display
from models.engines.behaviours import Status
from models.reliability.times import downtime_s
from scenarios.files.write_once import refuse_page, write_text
from scenarios.pages.sizing import sizing_page
from scenarios.planning.sizing import (
    EXIT,
    SizingAnswer,
    answer,
    causes,
    cost_text,
    cost_unit,
    document,
    down_text,
    part_text,
    recovery_figures,
    recovery_target,
    serving_text,
    until_work,
    warnings,
)
from scenarios.planning.sizing_tables import curve_table, plans_table

if TYPE_CHECKING:
    from models.planning.sizing.problem import EvaluatedPlan, PlanFigures, SizingProblem, SystemPlan
    from models.table import Table
    from scenarios.planning.sizing import SizingAnswer

_NEGLIGIBLE = 1e-3  # share of the time down below which a cause is left out


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
    refuse_page(report, force=force)
    with progress() as show_progress:
        found = answer(
            file, curve=curve, on_progress=lambda _: show_progress("going through plans", None)
        )  # one line, not one for each
    terminal.warn(warnings(found.problem))
    if report is not None:
        write_text(report, render_page(sizing_page(found, command=terminal.again())), force=force)
    if as_json:
        terminal.print_json(document(found))
    else:
        terminal.show(*_parts(found))
    # After the output: infeasible is an answer, with the best system that is possible.
    code = EXIT.get(found.plan.status, 0)
    if code:
        typer.echo(found.plan.note, err=True)
        raise typer.Exit(code)


def _parts(found: SizingAnswer) -> list[Table | str]:
    plan = found.plan
    parts: list[Table | str] = [*_chosen(found)] if plan.chosen is not None else [*_possible(found)]
    if plan.next_cheaper:
        parts.append(plans_table(found, "one-less", _less(plan.next_cheaper), plan.next_cheaper).brief)
    if plan.curve:
        parts.append(curve_table(found).brief)
        if any(point.bound != point.cost for point in plan.curve if point.plan is not None):
            parts.append("LOW–HIGH: the plan costs HIGH; no plan below LOW meets the availability.")
    return [*parts, *found.notes, *_engine_lines(found.problem)]


def _less(evaluated: tuple[EvaluatedPlan, ...]) -> str:
    said = "One unit less, and why each fails"
    return said if all(one.verdict == "fails" for one in evaluated) else said + " or may fail"


def _chosen(found: SizingAnswer) -> list[str]:
    plan, problem, at = found.plan, found.problem, found.plan.figures
    assert plan.chosen is not None
    assert at is not None
    cost, bound = (f"{cost_text(problem, one)} {cost_unit(problem)}" for one in (plan.objective, plan.bound))
    proof = "the least that meets the target" if plan.status == "optimal" else f"no plan below {bound} does"
    hosts = f"{problem.host_word}s"
    lines = [
        ("plan", f"{problem.text(plan.chosen.plan)}, a {problem.save_word} every {display.duration(at.interval_s)}"),
        ("cost", f"{cost}, {proof}: {plan.note}"),
        ("availability", f"{serving_text(at)}, asked {_availability_target(problem)}"),
        ("down a month", f"{down_text(at)} of {display.duration(problem.allowed_down_s)} allowed"),
        ("of that", _causes(problem, at)),
        *_until_work(problem, plan.chosen.plan),
        *_recoveries(found, plan.chosen.plan, at),
        ("interval", plan.interval_note),
        (f"{hosts} busy", f"{part_text(at, at.utilisation, display.share)} of the time, {problem.save_word}s included"),
        (hosts, f"fail after {display.duration(problem.mttf_s)}, down {display.duration(problem.mttr_s)}"),
    ]
    return facts(lines, 17 if problem.description.engine is None else 22)


def _until_work(problem: SizingProblem, plan: SystemPlan) -> list[tuple[str, str]]:
    """Return a line for each part of the time until work goes on by the rules of the engine, and for the whole."""
    return [(one.part, f"{_mean_to_latest(one.mean_s, one.latest_s)}: {one.by}") for one in until_work(problem, plan)]


def _mean_to_latest(mean_s: float, latest_s: float) -> str:
    if mean_s == latest_s:
        return display.duration(mean_s)
    return f"{display.duration(mean_s)} on average, {display.duration(latest_s)} at the latest"


def _engine_lines(problem: SizingProblem) -> Iterator[str]:
    """Yield what of the engine the recoveries follow; nothing without one."""
    engine, found = problem.description.engine, problem.restarts
    if engine is None or found is None:
        return
    yield f"Recoveries follow the rules of {engine.title}:"
    for status in Status:
        names = [one.name.lower() for one in found.behaviours if one.status == status]
        if names:
            yield f"  {status.value}: {', '.join(names)}"


def _causes(problem: SizingProblem, at: PlanFigures) -> str:
    # Relative to the time down: of a system that is hardly ever down small causes still count.
    shown = [one for one in causes(problem, at) if one[1] > _NEGLIGIBLE * at.unavailability]
    return ", ".join(f"{cause} {part_text(at, downtime_s(share))}" for cause, share in shown)


def _recoveries(found: SizingAnswer, plan: SystemPlan, at: PlanFigures) -> list[tuple[str, str]]:
    """Return a line for each kind of loss, with all times of its recovery; the last one has the target beside it."""
    said: dict[tuple[str, str], list[str]] = {}
    for one in recovery_figures(found.problem, plan, at):
        said.setdefault((one.loss, one.by), []).append(f"{one.figure} {display.duration(one.seconds)}")
    lines = [(loss, f"{by}: {', '.join(times)}") for (loss, by), times in said.items()]
    if found.problem.description.target.recovery_s is None:
        return lines
    loss, text = lines[-1]
    return [*lines[:-1], (loss, f"{text}; asked {recovery_target(found.problem)}")]


def _availability_target(problem: SizingProblem) -> str:
    return display.exact(problem.description.target.availability)


def _possible(found: SizingAnswer) -> list[Table | str]:
    plan, target = found.plan, found.problem.description.target
    targets = f"availability {_availability_target(found.problem)}"
    targets += "" if target.recovery_s is None else f", recovery within {display.duration(target.recovery_s)}"
    nothing = "Nothing meets" if plan.status == "infeasible" else "Nothing is certain to meet"
    lines: list[Table | str] = [f"{nothing} {targets}: {plan.note}."]
    if plan.possible is not None:
        lines.append(plans_table(found, "possible", "The best that is possible", (plan.possible,)).brief)
    if target.budget_per_s is not None:
        met = next((one for one in plan.curve if one.allowed == found.problem.allowed), None)
        if met is not None and met.plan is not None:
            cost = f"{cost_text(found.problem, met.cost)} {cost_unit(found.problem)}"
            lines.append(f"Without the budget: {cost}, {found.problem.text(met.plan)}.")
    return lines
