"""Answers what size a system must have: reads the file and the failure log it names, and writes the document."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from models import display, units
from models.errors import InputError, named
from models.planning.sizing.description import Sizing, sizing_from
from models.planning.sizing.problem import EvaluatedPlan, PlanFigures, SizingPlan, SizingProblem, SystemPlan
from models.planning.sizing.restarts import UntilWork
from models.planning.solution import Status
from models.reliability.times import mostly_down
from models.units import in_unit
from optimizer.sizing import solve
from scenarios.files.documents import read_document
from scenarios.reliability.failure_logs import read_kept

EXIT = {Status.INFEASIBLE: 3, Status.UNKNOWN: 4}
_SHORTEST_UP = 1e-3  # MTTF over MTTR below which no question of availability is meant


@dataclass(frozen=True, eq=False)
class SizingAnswer:
    """The problem, with MTTF and MTTR perhaps from a log, and its plan."""

    problem: SizingProblem
    plan: SizingPlan
    notes: tuple[str, ...] = ()


def read_sizing(path: str | Path) -> tuple[SizingProblem, tuple[str, ...]]:
    """Return the problem in a .toml or .json file, and doubts about a log that it names; raises InputError."""
    path = Path(path)
    description = sizing_from(read_document(path, (".toml", ".json"), "sizing"))
    return problem_of(description, path.parent)


def warnings(problem: SizingProblem) -> list[str]:
    """Return what is legal and probably not meant: hosts that are down for most of the time."""
    ways = ("mttf_s", "mtbf_s", "per_day", "per_year", "afr", "log")
    given = next(name for name in ways if getattr(problem.description.failures, name) is not None)
    return [*mostly_down(f"failures.{given.removesuffix('_s')}", problem.mttf_s, problem.mttr_s)]


def problem_of(description: Sizing, folder: Path) -> tuple[SizingProblem, tuple[str, ...]]:
    """Return the question in numbers; `folder` is where the path of a log starts from."""
    said, kept, notes = description.failures, None, []
    if said.log is not None:
        with named("failures.log"):
            kept = read_kept(folder / said.log)
        notes = kept.doubts()
    # A log gives both times, but a repair time that is said beside it goes first: logs often lack the ends of outages.
    mttf_s = description.mttf_s if kept is None else kept.mttf_s
    mttr_s = said.mttr_s if said.mttr_s is not None or kept is None else kept.mttr_s
    if mttf_s is None:
        raise InputError.at("failures.log", said.log, "has no failure: its MTTF is not known")
    if mttr_s is None:
        raise InputError.at("failures.log", said.log, "has no repair that ended", "say failures.mttr beside it")
    # Hosts that are down nearly always: probably two values were swapped, or a unit is wrong.
    if mttf_s < _SHORTEST_UP * mttr_s:
        most = display.number(1 / _SHORTEST_UP)
        raise InputError.at("failures.mttr", units.show(mttr_s, "s"), f"must be at most {most} times the MTTF")
    problem = SizingProblem(description, mttf_s, mttr_s)
    if problem.restarts is not None:
        problem.restarts.check()  # before any plan is looked at
    return problem, tuple(notes)


def answer(
    path: str | Path, *, curve: bool = True, on_progress: Callable[[str], None] = lambda text: None
) -> SizingAnswer:
    """Return the cheapest system that the file asks for, or the best that is possible; raises InputError."""
    problem, notes = read_sizing(path)
    every = len(problem.plans())
    plan = solve(problem, curve=curve, on_plan=lambda number: on_progress(f"plan {number + 1} of at most {every}"))
    return SizingAnswer(problem, plan, notes)


def document(found: SizingAnswer) -> dict[str, Any]:
    """Return the answer as one JSON document; costs in USD/h, or in hosts where these have no price."""
    problem, plan = found.problem, found.plan
    return {
        "name": problem.description.name,
        "status": plan.status.value,
        "cost": amount(problem, plan.objective),
        "bound": amount(problem, plan.bound),
        "cost_unit": cost_unit(problem),
        "note": plan.note,
        "notes": list(found.notes),
        "mttf_s": problem.mttf_s,
        "mttr_s": problem.mttr_s,
        "load": problem.description.load,
        "engine": _engine(problem),
        "target": {
            "availability": problem.description.target.availability,
            "allowed_s_per_month": problem.allowed_down_s,
            "recovery_s": problem.description.target.recovery_s,
            "recovery_share": problem.description.target.recovery_share,
        },
        "plan": None if plan.chosen is None else asdict(plan.chosen.plan),
        "until_work": [] if plan.chosen is None else [asdict(one) for one in until_work(problem, plan.chosen.plan)],
        "at": _figures(plan.figures),
        "interval_decided_by": plan.interval_note or None,
        "next_cheaper": [_evaluated(problem, one) for one in plan.next_cheaper],
        "possible": None if plan.possible is None else _evaluated(problem, plan.possible),
        "evaluated": [_evaluated(problem, one) for one in plan.evaluated],
        "curve": [
            {
                "allowed_unavailability": point.allowed,
                "allowed_s_per_month": point.allowed_down_s,
                "cost": amount(problem, point.cost),
                "bound": amount(problem, point.bound),
                "plan": None if point.plan is None else asdict(point.plan),
                "at": _figures(point.at),
            }
            for point in plan.curve
        ],
    }


def _engine(problem: SizingProblem) -> dict[str, Any] | None:
    """Return the engine whose rules the recoveries follow, with what of it is modelled, simplified or absent."""
    engine = problem.description.engine
    if engine is None or problem.restarts is None:
        return None
    return {
        "name": engine.name,
        "version": engine.version,
        "behaviours": [one._asdict() for one in problem.restarts.behaviours],
    }


def _figures(at: PlanFigures | None) -> dict[str, Any] | None:
    """Return all figures of a plan at an interval; times without a bound are null, as JSON has no infinity."""
    if at is None:
        return None
    # A time is infinite where work waits for a repair of unbounded length.
    said = {name: None if value == math.inf else value for name, value in asdict(at).items()}
    return said | {
        "availability": at.availability,
        "down_s_per_month": at.down_s,
        "down_s_per_month_at_least": at.down_at_least_s,
    }


def _evaluated(problem: SizingProblem, one: EvaluatedPlan) -> dict[str, Any]:
    return {
        "plan": asdict(one.plan),
        "cost": amount(problem, one.cost),
        "verdict": one.verdict.value,
        "why": one.why,
        "least": one.least,
        "least_s_per_month": one.least_down_s,
        "at": _figures(one.at),
        "shortest_recovery_s": one.shortest_recovery_s,
    }


def down_text(at: PlanFigures) -> str:
    """Return the time down in a month: both proven ends where it is not known exactly."""
    return display.duration(at.down_s) if at.down_at_least_s is None else display.between(at.down_at_least_s, at.down_s)


def serving_text(at: PlanFigures) -> str:
    """Return the availability; where it is not known exactly, what it is at least."""
    if at.unavailability_at_least is None:
        return display.availability(at.unavailability)
    return f"≥ {display.availability(at.unavailability, rounding='up')}"


def part_text(at: PlanFigures, value: float, form: display.Form = display.duration) -> str:
    """Return one of the figures that are upper bounds where the time down is one."""
    return form(value) if at.down_at_least_s is None else display.at_most(value, form)


def cost_text(problem: SizingProblem, cost: float | None) -> str:
    """Return a cost as a number of `cost_unit`."""
    return display.money(amount(problem, cost))


def causes(problem: SizingProblem, at: PlanFigures) -> tuple[tuple[str, float], ...]:
    """Return each cause of time down with its share of all time; the shares sum to the unavailability."""
    # Disjoint causes: only so do the shares sum to the unavailability.
    full = f"too few {problem.host_word}s" if problem.description.units is None else "hosts too full"
    return (full, at.standing), ("recoveries", at.recovering), ("take-overs", at.switching)


def until_work(problem: SizingProblem, plan: SystemPlan) -> tuple[UntilWork, ...]:
    """Return the parts of that time after the loss of one host, and the whole; nothing without an engine."""
    found, left = problem.restarts, plan.hosts - 1
    return () if found is None or not left else found.parts(left)


@dataclass(frozen=True)
class RecoveryFigure:
    """One time of recovery [s]: after which loss, by what, and which figure of its law it is.

    It is infinite where the work may have to wait for a repair, however long that takes.
    """

    loss: str
    by: str
    figure: str
    seconds: float


def recovery_figures(problem: SizingProblem, plan: SystemPlan, at: PlanFigures) -> tuple[RecoveryFigure, ...]:
    """Return the times of recovery of a system that was whole; the target is asked of the loss named last."""
    copies, share = problem.description.copies, problem.description.target.recovery_share
    lost = f"one {problem.host_word} lost" if plan.copies == 1 else "all copies lost"
    times = {"mean": at.mean_recovery_s, f"{display.share(share, 6)} within": at.quantile_recovery_s}
    times |= {"longest": at.worst_recovery_s}
    found = [RecoveryFigure(lost, "from the checkpoint", *one) for one in times.items() if one[0] != "100 % within"]
    if plan.copies > 1:
        by = f"take-over, {display.share(copies.coverage, 6)} of cases"
        found.insert(0, RecoveryFigure("one host lost", by, "mean", copies.take_over_s))
    return tuple(found)


def recovery_target(problem: SizingProblem) -> str:
    """Return the recovery target as text; a dash where there is none."""
    target, share = problem.description.target.recovery_s, problem.description.target.recovery_share
    return display.duration(target) + ("" if share == 1 or target is None else f" for {display.share(share, 6)}")


def cost_unit(problem: SizingProblem) -> str:
    """Return the unit of costs."""
    return f"{problem.host_word}s" if problem.description.hosts.price_per_s is None else "USD/h"


def amount(problem: SizingProblem, cost: float | None) -> float | None:
    """Return a cost in `cost_unit`: the sum of the prices as they are written, without what floats add to it."""
    if cost is None or problem.description.hosts.price_per_s is None:
        return cost
    # Prices are kept per second: a product with 3600 would show 0.30000000000000004.
    return in_unit(cost, "USD/s", "USD/h")
