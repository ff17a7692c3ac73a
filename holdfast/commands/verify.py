"""`holdfast verify`: a plan checked against its problem without any solver."""

from __future__ import annotations

import json as json_text
import sys
from pathlib import Path
from typing import Annotated

import typer


def verify(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan, as `plan --json` prints it")],
    problem_file: Annotated[Path, typer.Argument(metavar="PROBLEM", help="Problem: .json or .npz")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document")] = False,
) -> None:
    """Recompute a plan's objective and list every constraint and claim that does not hold.

    Exit code 0: the plan holds; 2: bad input; 4: it does not.
    """
    from optimizer.verify import verify_checkpoints  # noqa: PLC0415
    from scenarios.planning_files import read_plan, read_problem  # noqa: PLC0415

    verdict = verify_checkpoints(read_problem(problem_file), read_plan(plan_file))
    if json:
        listed = [{"kind": one.kind, "text": one.text} for one in verdict.violations]
        document = {"ok": verdict.ok, "objective": verdict.objective, "violations": listed}
        sys.stdout.write(json_text.dumps(document, allow_nan=False) + "\n")
    else:
        lines = [str(one) for one in verdict.violations] or ["the plan holds"]
        if verdict.objective is not None:
            lines.append(f"objective: {verdict.objective:.12g}")
        sys.stdout.write("\n".join(lines) + "\n")
    if not verdict.ok:
        raise typer.Exit(4)
