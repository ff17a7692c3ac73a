"""`holdfast verify`: a plan checked against its problem without any solver."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast import terminal
from models import display
from models.errors import InputError
from models.planning.checkpoint_allocation import CheckpointPlan
from models.planning.placement import Placement
from optimizer.verify.checkpoints import verify_checkpoints
from optimizer.verify.claims import Verdict
from optimizer.verify.plans import verify_plan
from optimizer.verify.replicas import verify_replicas
from optimizer.verify.stated import figures_of, figures_of_checkpoints, with_stated
from scenarios.planning.files import read_problem, read_problem_of
from scenarios.planning.plan_files import (
    CHECKPOINTS,
    REPLICAS,
    StatedPlan,
    placement_from,
    read_plan_file,
    running_checkpoints,
    with_few_moves,
)
from scenarios.queries.files import read_queries
from scenarios.queries.replica_files import figures_of_replicas, posed, unverified_of_replicas

PLACEMENT = "placement"


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
    # The file says of which kind the plan is; the problem is then read as one of that kind.
    stated, start = read_plan_file(plan_file), Start(running, max_moves)
    if start != Start(None, None) and stated.kind not in (CHECKPOINTS, PLACEMENT):
        path, value = ("--max-moves", max_moves) if running is None else ("--from", str(running))
        raise InputError.at(
            path, value, f"is for plans of checkpoints and of placements, and this is one of {stated.kind}"
        )
    verdict = _VERIFY.get(stated.kind, _of_problem)(stated, problem_file, start)
    status = stated.document["status"]
    if json:
        terminal.print_json(_document(verdict))
    else:
        print("\n".join(_lines(verdict, status)))
    if not verdict.holds:
        raise typer.Exit(4)


def _of_checkpoints(stated: StatedPlan, problem_file: Path, start: Start) -> Verdict:
    plan: CheckpointPlan = stated.plan()
    problem = read_problem(problem_file, plan.method or "exact")
    # The constraint on moves is no part of the problem file: it has to be posed as it was for the solver.
    before = None if start.running is None else running_checkpoints(problem, start.running)
    if start.max_moves is not None:
        problem = with_few_moves(problem, before, start.max_moves)
    verdict = verify_checkpoints(problem, plan, gap=stated.gap, node_loads=stated.values.get("node_loads"))
    return with_stated(verdict, stated.document, figures_of_checkpoints(problem, plan))


def _of_problem(stated: StatedPlan, problem_file: Path, start: Start) -> Verdict:
    plan, problem = stated.plan(), read_problem_of(stated.kind, problem_file)
    if isinstance(problem, Placement):
        problem = placement_from(problem, start.running, start.max_moves)
    verdict = verify_plan(problem, plan, gap=stated.gap)
    return with_stated(verdict, stated.document, figures_of(problem, plan))


def _of_replicas(stated: StatedPlan, problem_file: Path, _: Start) -> Verdict:
    found = read_queries(problem_file)
    problem, plan = posed(stated, found), stated.plan()
    verdict = with_stated(
        verify_replicas(problem, plan, gap=stated.gap), stated.document, figures_of_replicas(problem, plan, found)
    )
    return replace(verdict, assumed=tuple(unverified_of_replicas(stated.document, problem, found)))


_VERIFY = {CHECKPOINTS: _of_checkpoints, REPLICAS: _of_replicas}


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
