"""`holdfast plan placement`: which host takes each instance of an operator."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from holdfast import terminal
from holdfast.commands.options import bytes_of, refuse_limits, refuse_method
from holdfast.commands.plan_selection import File, Force, Json, Memory, Out, Running
from holdfast.plan_lines import leave_without_plan
from models import display
from optimizer.common.reasons import placement_reasons
from optimizer.placement import FITS, fitted, solve
from scenarios.files.write_once import refuse_plan
from scenarios.planning.files import read_problem_of
from scenarios.planning.plan_files import placement_from, plan_document, write_plan

if TYPE_CHECKING:
    from models.planning.placement import Placement, PlacementPlan
    from optimizer.common.reasons import PlacementReason

_MOST_ROWS = 200
_SHOWN = (
    "status",
    "objective",
    "bound",
    "gap",
    "colours",
    "hosts",
    "hosts_bound",
    "moves",
    "unplaced",
    "reason",
    "note",
)


def placement(
    file: File,
    method: Annotated[str, typer.Option(help="exact, first-fit or best-fit")] = "exact",
    time_limit: Annotated[
        float, typer.Option(help="Seconds that decide how much is tried, and after which it ends")
    ] = 60.0,
    seed: Annotated[int, typer.Option(help="Decides the draws of the search: 0 to 2^63 - 1")] = 0,
    json: Json = False,
    running: Running = None,
    max_moves: Annotated[int | None, typer.Option(help="Most instances that may leave where --from has them")] = None,
    reasons: Annotated[bool, typer.Option("--reasons", help="Say why, against two other hosts")] = False,
    out: Out = None,
    memory: Memory = "",
    force: Force = False,
) -> None:
    """Choose the host of every instance: fewest colours on a host, then fewest hosts, or as the goal says.

    Exit code 0: feasible or optimal; 2: bad input; 3: infeasible; 4: no placement of everything found.
    """
    refuse_limits(time_limit, seed)
    refuse_method(method, ("exact", *FITS))
    refuse_plan(out, file, force=force)
    given: Any = read_problem_of("placement", file, memory_bytes=bytes_of(memory))
    # What runs becomes part of the problem: moves are then counted, and limited, in the model.
    problem = placement_from(given, running, max_moves)
    plan = _plan(problem, method, time_limit, seed)
    # None, not an empty list: the document has the key only if it was asked for.
    rows = placement_reasons(problem, plan) if reasons else None
    document = plan_document(plan)
    if rows is not None:
        document["reasons"] = [asdict(row) for row in rows]
    if out is not None:
        write_plan(document, out, force=force)
    if json:
        terminal.print_json(document)
    else:
        _show(problem, plan, document, rows)
    leave_without_plan(plan)


def _plan(problem: Placement, method: str, time_limit: float, seed: int) -> PlacementPlan:
    if method == "exact":
        return solve(problem, time_limit_s=time_limit, seed=seed)
    return fitted(problem, method)


def _show(
    problem: Placement, plan: PlacementPlan, document: dict[str, Any], rows: list[PlacementReason] | None
) -> None:
    shown = {name: document[name] for name in _SHOWN if document[name] is not None}
    width = max(map(len, shown))
    terminal.show(*(f"{name:<{width}}  {_text(value)}" for name, value in shown.items()))
    if plan.infeasible_set is not None:
        terminal.show(f"instances: {_listed(plan.infeasible_set.tolist())}")
    if plan.host is None:
        return
    if rows is None:
        terminal.show(_hosts_table(problem, plan))
        return
    columns = ("instance", "host", "why", "not on", "why not")
    terminal.show(terminal.table("Reasons", columns, _cells(rows[:_MOST_ROWS]), text_columns=5))


def _cells(rows: list[PlacementReason]) -> list[tuple[str, ...]]:
    cells: list[tuple[str, ...]] = []
    for row in rows:
        first = (str(row.instance), str(row.host) if row.host >= 0 else "", row.why)
        for other in row.elsewhere:
            cells.append((*first, str(other.host), other.why_not))
            first = ("", "", "")
        if not row.elsewhere:
            cells.append((*first, "", "there is no other host"))
    return cells


def _hosts_table(problem: Placement, plan: PlacementPlan) -> Any:
    assert plan.host is not None
    colours = problem.colours_of_hosts(plan.host)
    cells = []
    for h in range(min(problem.n_hosts, _MOST_ROWS)):
        here = np.flatnonzero(plan.host == h)
        amounts = [(problem.cpu, problem.host_cpu)]
        if problem.network is not None and problem.host_network is not None:
            amounts.append((problem.network, problem.host_network))
        shares = [f"{display.number(load[here].sum(), 6)} of {display.number(has[h], 6)}" for load, has in amounts]
        cells.append((str(h), *shares, str(colours[h]), _listed(here.tolist())))
    columns = ("host", *problem.resources, "colours", "instances")
    return terminal.table("Hosts", columns, cells, text_columns=len(columns))


def _text(value: Any) -> str:
    return display.number(value, 6) if isinstance(value, float) else str(value)


def _listed(items: list[int]) -> str:
    shown = " ".join(map(str, items[:12]))
    return shown if len(items) <= 12 else f"{shown} and {len(items) - 12} more"
