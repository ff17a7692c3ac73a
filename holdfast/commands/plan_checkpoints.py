"""`holdfast plan checkpoints`: which node holds each checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from analysis.usable import EXPECTED
from holdfast import terminal
from holdfast.commands.options import bytes_of, refuse_limits, refuse_method
from holdfast.commands.plan_selection import Force, Json, Memory, Running
from holdfast.plan_lines import leave_without_plan, listed, plan_lines
from models import display
from optimizer.common.reasons import Reason
from optimizer.common.reasons import reasons as explain
from scenarios.files.write_once import refuse_plan
from scenarios.planning.checkpoints import METHODS, solve_by
from scenarios.planning.files import read_problem
from scenarios.planning.plan_files import plan_to_dict, running_checkpoints, with_few_moves, write_plan

if TYPE_CHECKING:
    from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
    from models.table import Table

_MOST_ROWS = 200


def checkpoints(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Problem: .json or .npz")],
    method: Annotated[str, typer.Option(help="baseline, even, sensitive-first, exact, expected-usable")] = "exact",
    time_limit: Annotated[float, typer.Option(help="Seconds after which `exact` gives its best")] = 60.0,
    seed: Annotated[int, typer.Option(help="Decides the draws of baseline and even: 0 to 2^63 - 1")] = 0,
    workers: Annotated[int, typer.Option(help="Processes; never changes the answer")] = 1,
    json: Json = False,
    running: Running = None,
    max_moves: Annotated[int | None, typer.Option(help="Most checkpoints that may leave where --from has them")] = None,
    reasons: Annotated[bool, typer.Option("--reasons", help="Say why, against the next two nodes")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the plan to this file as well: .json or .npz")] = None,
    memory: Memory = "",
    force: Force = False,
) -> None:
    """Choose the node of every checkpoint.

    Exit code 0: feasible or optimal; 2: bad input; 3: infeasible; 4: no feasible plan found.
    """
    refuse_limits(time_limit, seed, workers)
    refuse_method(method, (*METHODS, EXPECTED))
    # All options are checked before the problem is read and solved.
    refuse_plan(out, file, force=force, suffixes=(".json", ".npz"))
    problem = read_problem(file, method, memory_bytes=bytes_of(memory))
    hint = None if running is None else running_checkpoints(problem, running)
    if max_moves is not None:
        # Part of the problem, so that bound and proof are about the plans that are allowed.
        problem = with_few_moves(problem, hint, max_moves)
    plan = solve_by(method, problem, time_limit_s=time_limit, seed=seed, workers=workers, hint=hint)
    # Only on request: reasons compare every checkpoint with its next best nodes.
    rows = explain(problem, plan) if reasons else []
    document = plan_to_dict(plan, problem)
    if reasons:
        document["reasons"] = [_reason_to_dict(row) for row in rows]
    if out is not None:
        write_plan(document, out, force=force)
    if json:
        terminal.print_json(document)
    else:
        _show(problem, plan, document, rows)
    # Last: the document of an infeasible problem is written and shown as well.
    leave_without_plan(plan)


def _reason_to_dict(row: Reason) -> dict[str, object]:
    others = [
        {"node": other.node, "cost": other.cost, "costs_more": other.costs_more, "why_not": other.why_not}
        for other in row.alternatives
    ]
    return {"checkpoint": row.checkpoint, "node": row.node, "cost": row.cost, "alternatives": others}


def _show(problem: CheckpointAllocation, plan: CheckpointPlan, document: dict[str, Any], rows: list[Reason]) -> None:
    terminal.show(*plan_lines("checkpoints", document))
    terminal.show(*(f"breaks {violation}" for violation in plan.violations[:_MOST_ROWS]))
    if plan.assignment is not None:
        terminal.show(_reasons_table(rows) if rows else _nodes_table(problem, plan))


def _nodes_table(problem: CheckpointAllocation, plan: CheckpointPlan) -> Table:
    assert plan.assignment is not None
    loads = problem.node_loads(plan.assignment)
    cells = []
    for n in range(min(problem.n_nodes, _MOST_ROWS)):
        here = np.flatnonzero(plan.assignment == n).tolist()
        capacity = () if problem.capacity is None else (display.number(float(problem.capacity[n]), 6),)
        cells.append((str(n), display.number(float(loads[n]), 6), *capacity, listed(here)))
    columns = ("node", "load", *(() if problem.capacity is None else ("capacity",)), "checkpoints")
    return terminal.table("Nodes", columns, cells, text_columns=len(columns))


def _reasons_table(rows: list[Reason]) -> Table:
    cells = []
    for row in rows[:_MOST_ROWS]:
        first = (str(row.checkpoint), str(row.node), display.number(row.cost, 6))
        for other in row.alternatives:
            cells.append((*first, str(other.node), display.number(other.cost, 6), other.why_not))
            first = ("", "", "")
        if not row.alternatives:
            cells.append((*first, "", "", "the only node"))
    columns = ("checkpoint", "node", "cost", "not on", "cost", "why not")
    return terminal.table("Reasons", columns, cells, text_columns=len(columns))
