"""`holdfast verify`: a plan checked against its problem without any solver."""

from __future__ import annotations

import json as json_text
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from models import display
from models.errors import InputError
from models.planning.placement import Placement
from optimizer.verify.checkpoints import Verdict, verify_checkpoints
from optimizer.verify.stated import figures_of, figures_of_checkpoints, with_stated
from scenarios.planning.files import plan_and_claims, read_fields, read_plan_document, read_problem
from scenarios.planning.running_plans import placement_from, running_checkpoints, with_few_moves
from scenarios.planning.selection_files import kind_of_plan, read_plan_of, read_problem_of

REPLICAS, PLACEMENT = "replicas", "placement"


@dataclass(frozen=True)
class Start:
    """The plan that another started from, and how many could move."""

    running: Path | None
    max_moves: int | None


def verify(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan, as `plan --json` prints it")],
    problem_file: Annotated[Path, typer.Argument(metavar="PROBLEM", help="Problem: .json, .toml or .npz")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document")] = False,
    running: Annotated[Path | None, typer.Option("--from", help="The plan that PLAN started from")] = None,
    max_moves: Annotated[int | None, typer.Option(help="Most that could move away from --from")] = None,
) -> None:
    """Recompute all that a plan states and list every constraint, figure and claim that does not hold.

    A bound, and with it "optimal" or "infeasible", is proven or refuted without a solver, or named as not proven. A
    plan of checkpoints or of a placement that was made with --from and --max-moves is checked with them.

    Exit code 0: the plan holds, and all that it claims is proven; 2: bad input; 4: something does not hold or is not
    proven.
    """
    kind, start = kind_of_plan(plan_file), Start(running, max_moves)
    if kind is None:
        verdict, status = _of_checkpoints(plan_file, problem_file, start)
    else:
        verdict, status = _of(kind, plan_file, problem_file, start)
    text = json_text.dumps(_document(verdict), allow_nan=False) if json else "\n".join(_lines(verdict, status))
    sys.stdout.write(text + "\n")
    if not verdict.holds:
        raise typer.Exit(4)


def _of_checkpoints(plan_file: Path, problem_file: Path, start: Start) -> tuple[Verdict, str]:
    stated = read_plan_document(plan_file)
    plan, gap, loads = plan_and_claims(stated)
    problem = read_problem(problem_file, plan.method or "exact")
    before = None if start.running is None else running_checkpoints(problem, start.running)
    if start.max_moves is not None:
        problem = with_few_moves(problem, before, start.max_moves)
    verdict = verify_checkpoints(problem, plan, gap=gap, node_loads=loads)
    return with_stated(verdict, stated, figures_of_checkpoints(problem, plan)), plan.status


def _of(kind: str, plan_file: Path, problem_file: Path, start: Start) -> tuple[Verdict, str]:
    if kind != PLACEMENT and start != Start(None, None):
        path, value = ("--max-moves", start.max_moves) if start.running is None else ("--from", str(start.running))
        raise InputError.at(path, value, f"is for plans of checkpoints and of placements, and this is one of {kind}")
    if kind == REPLICAS:
        return _of_replicas(plan_file, problem_file)
    from optimizer.verify.plans import verify_plan  # noqa: PLC0415 - loads OR-Tools, which takes a second

    plan, gap = read_plan_of(kind, plan_file)
    problem = read_problem_of(kind, problem_file)
    if isinstance(problem, Placement):
        problem = placement_from(problem, start.running, start.max_moves)
    verdict = verify_plan(problem, plan, gap=gap)
    return with_stated(verdict, read_fields(plan_file), figures_of(problem, plan)), plan.status


def _of_replicas(plan_file: Path, problem_file: Path) -> tuple[Verdict, str]:
    from optimizer.verify.replicas import verify_replicas  # noqa: PLC0415 - loads OR-Tools, which takes a second
    from scenarios.queries.replicas import (  # noqa: PLC0415
        figures_of_replicas,
        read_plan_of_replicas,
        unverified_of_replicas,
    )

    problem, plan, gap = read_plan_of_replicas(plan_file, problem_file)
    stated = read_fields(plan_file)
    verdict = with_stated(
        verify_replicas(problem, plan, gap=gap), stated, figures_of_replicas(problem, plan, problem_file)
    )
    unverified = unverified_of_replicas(stated, problem, problem_file)
    return replace(verdict, assumed=tuple(unverified)), plan.status


def _document(verdict: Verdict) -> dict[str, Any]:
    return {
        "ok": verdict.holds,
        "objective": verdict.objective,
        "violations": [{"kind": one.kind, "text": one.text} for one in verdict.violations],
        "checked": list(verdict.checked),
        "not_checked": list(verdict.not_checked),
        "assumed": list(verdict.assumed),
        "counterexample": None if verdict.counterexample is None else list(verdict.counterexample),
    }


def _lines(verdict: Verdict, status: str) -> list[str]:
    lines = [str(one) for one in verdict.violations]
    if verdict.ok:
        lines.append(_conclusion(verdict, status))
    if verdict.objective is not None:
        lines.append(f"objective: {display.number(verdict.objective, 12)}")
    listed = {"checked": verdict.checked, "not checked": verdict.not_checked, "assumed": verdict.assumed}
    return lines + [f"{name}: {'; '.join(texts)}" for name, texts in listed.items() if texts]


def _conclusion(verdict: Verdict, status: str) -> str:
    if verdict.holds:
        return "the plan holds"
    if verdict.checked:
        return "the plan breaks no rule, but not all that it claims is proven"
    if verdict.not_checked:
        return f'the plan says "{status}", which is not proven'
    return f'nothing to check: the plan says "{status}" and has no assignment'
