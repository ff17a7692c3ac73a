"""`holdfast plan replicas`: which operators of queries get replicas, and where these go."""

from __future__ import annotations

import json as json_text
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast import terminal

if TYPE_CHECKING:
    from models.replication.problem import Replication, ReplicationPlan

_EXIT = {"infeasible": 3, "unknown": 4}


def replicas(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Queries, or templates, and hosts: .toml")],
    importance: Annotated[
        list[str] | None, typer.Option(help="degree, utilisation, product, gain, random; repeatable; all without")
    ] = None,
    selection: Annotated[str, typer.Option(help="stepwise, direct, knapsack, queries")] = "stepwise",
    placement: Annotated[str, typer.Option(help="first-fit, coloured")] = "first-fit",
    budget: Annotated[float | None, typer.Option(help="What replicas may take [CPUs]")] = None,
    level: Annotated[int | None, typer.Option(help="The most replicas of an operator")] = None,
    p: Annotated[
        list[float] | None, typer.Option("--p", metavar="P", help="Probability that a host is down; repeatable")
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides ties, and importance by chance")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document: the best plan")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the best plan to this JSON file as well")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file of --out")] = False,
) -> None:
    """Choose which operators get replicas, and their hosts, by importance; each plan with its exact availability.

    Exit code 0: planned; 2: bad input; 3: primaries cannot fit; 4: primaries found no host.
    """
    from models.replication.importance import IMPORTANCE  # noqa: PLC0415
    from scenarios.planning_files import refuse_unwritable, write_text  # noqa: PLC0415
    from scenarios.query_files import read_queries  # noqa: PLC0415
    from scenarios.replication import Asked, best_of, document, plans, problem_of  # noqa: PLC0415

    if out is not None:
        refuse_unwritable(out, force=force)  # before any work is done
    asked = Asked(
        tuple(dict.fromkeys(importance or IMPORTANCE)), selection, placement, tuple(p or ()), budget, level, seed=seed
    )
    loaded = read_queries(file)
    problem = problem_of(loaded, asked)
    found = plans(problem, asked)
    best = best_of(found)
    made = document(found[best], problem, loaded, asked)
    if out is not None:
        write_text(out, json_text.dumps(made, allow_nan=False) + "\n", force=force)
    if json:
        made["compared"] = {name: _figures(plan, problem) for name, plan in found.items()}
        sys.stdout.write(json_text.dumps(made, allow_nan=False) + "\n")
    else:
        _show(found, problem, list(made["p"]), best)
    status = found[best].status.value
    if status in _EXIT:
        typer.echo(f"{status}: {found[best].note}", err=True)
        raise typer.Exit(_EXIT[status])


def _figures(plan: ReplicationPlan, problem: Replication) -> dict[str, Any]:
    levels = plan.levels
    return {
        "mean_broken": None if plan.broken is None else (plan.broken @ problem.shares).tolist(),
        "worst_broken": None if plan.broken is None else plan.broken.max(axis=1).tolist(),
        "cost": plan.cost,
        "replicated": None if levels is None else int((levels > 0).sum()),
        "left_out": plan.left_out,
        "colours": plan.colours,
    }


def _show(found: dict[str, ReplicationPlan], problem: Replication, chances: list[float], best: str) -> None:
    rows = []
    for name, plan in found.items():
        if plan.broken is None or plan.levels is None or plan.cost is None:
            continue
        running = [f"{100 * (1 - value):.4f} %" for value in (plan.broken @ problem.shares).tolist()]
        worst = f"{100 * (1 - float(plan.broken[0].max())):.3f} %"
        rows.append((name, *running, worst, str(int((plan.levels > 0).sum())), f"{plan.cost:.4g}", str(plan.left_out)))
    if not rows:
        return
    columns = ("importance", *(f"p = {value:g}" for value in chances), "worst query", "operators", "CPUs", "left out")
    title = f"Queries that run, of {problem.n_queries} on {problem.n_operators} operators"
    colours = found[best].colours
    notes = [f"Replicas may take {problem.capacity:.6g} CPUs. Best at p = {chances[0]:g}: {best}."]
    notes += [] if colours is None else [f"At most {colours} different operators on a host."]
    terminal.show(terminal.table(title, columns, rows), *notes)
