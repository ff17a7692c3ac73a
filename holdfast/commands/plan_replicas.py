"""`holdfast plan replicas`: which operators of queries get replicas, and where these go."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.report import render_page
from holdfast import terminal
from holdfast.commands.options import refuse_limits
from holdfast.plan_lines import leave_without_plan
from models import display
from models.errors import NO_VALUE, InputError
from models.planning.replicas import IMPORTANCE
from models.validation_messages import similar
from optimizer.replicas.task import STRUCK
from scenarios.files.write_once import refuse_page, refuse_plan, write_text
from scenarios.planning.plan_files import write_plan
from scenarios.queries.files import LoadedQueries, read_queries
from scenarios.queries.replica_files import document
from scenarios.queries.replicas import (
    OVER,
    Options,
    best_of,
    broken_alone,
    count_of,
    found_plans,
    front_of,
    no_room,
    problem_of,
    running_by_plan,
)
from scenarios.queries.tables import front_table, operators_table, plans_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from models.planning.replicas import ReplicaPlan, ReplicaProblem
    from models.queries.graph import OperatorTable
    from models.table import Table
    from optimizer.replicas.optimise import FrontPoint

_MOST_ROWS = 20
_MOST_NAMED = 6
_ALONE = "one of --optimise, --target and --front"


def replicas(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Queries, or templates, and hosts: .toml")],
    importance: Annotated[
        list[str] | None, typer.Option(help="degree, utilisation, product, gain, random; repeatable; all by default")
    ] = None,
    selection: Annotated[str, typer.Option(help="stepwise, direct, knapsack, queries")] = "stepwise",
    placement: Annotated[str, typer.Option(help="first-fit, coloured")] = "first-fit",
    budget: Annotated[float | None, typer.Option(help="What replicas may take [CPUs]")] = None,
    budget_replicas: Annotated[
        int | None, typer.Option(help="How many replicas there may be, beside the CPUs that they take")
    ] = None,
    level: Annotated[int | None, typer.Option(help="The most replicas of an operator")] = None,
    p: Annotated[
        list[float] | None, typer.Option("--p", metavar="P", help="Probability that a host is down; repeatable")
    ] = None,
    optimise: Annotated[bool, typer.Option("--optimise", help="Search the best plan too, with a bound")] = False,
    target: Annotated[
        float | None, typer.Option(help="Search the cheapest plan under which this share of queries runs")
    ] = None,
    front: Annotated[int, typer.Option(help="Search plans for so many budgets, from nothing to all")] = 0,
    over: Annotated[str, typer.Option(help="What budgets of --front count: cpus or replicas")] = "cpus",
    goal: Annotated[str, typer.Option(help="mean: queries by weight; worst: the worst query")] = "mean",
    running: Annotated[
        Path | None,
        typer.Option("--from", metavar="PLAN", help="What runs: a plan that --out wrote; its replicas stay"),
    ] = None,
    max_moves: Annotated[
        int | None, typer.Option(help="Most running replicas that may leave their hosts; all by default")
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(help="Seconds after which the best plan and bound so far are the answer"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides ties, and importance by chance: 0 to 2^63 - 1")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document: the best plan")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write the best plan, or the front, to this JSON file as well")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page of the plans, or the front: .html")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the files of --out and --report")] = False,
) -> None:
    """Choose which operators get replicas, and their hosts, by importance; each plan with its exact availability.

    With --optimise, --target or --front by search, each with a proven bound; where --time-limit ends it, the note of
    the plan says so. Exit code 0: planned; 2: bad input; 3: primaries cannot fit, or no plan reaches the target;
    4: none was found.
    """
    # The limit is on the whole command: reading and compiling queries are taken off the time of the search.
    began = time.monotonic()
    refuse_limits(1.0 if time_limit is None else time_limit)
    refuse_page(report, force=force)
    refuse_plan(out, file, force=force)
    if front or target is not None:
        _refuse_heuristics(importance, selection, placement)
    if sum((optimise, target is not None, front != 0)) > 1:
        raise InputError.at("--target" if target is not None else "--front", target or front, "stands alone", _ALONE)
    _refuse_over(over, front)
    # An importance named twice is one plan; the order of the user decides that of the table.
    names = tuple(dict.fromkeys(importance or IMPORTANCE))
    loaded = read_queries(file)
    placed = None if running is None else running_by_plan(running, loaded)
    options = Options(
        importance=names,
        selection=selection,
        placement=placement,
        p=tuple(p or ()),
        budget=budget,
        level=level,
        goal=goal,
        seed=seed,
        moves=max_moves,
        budget_replicas=budget_replicas,
        time_limit_s=math.inf if time_limit is None else max(0.0, began + time_limit - time.monotonic()),
        running=placed,
    )
    problem = problem_of(loaded, options)
    if front:
        points = front_of(problem, front, options.time_limit_s, over)
        _print_front(problem, points, over, json, loaded, _Places(out, report, force))
        return
    found = found_plans(problem, options, target=target, optimise=optimise)
    # The plan that is written and printed; all others appear only in the comparison.
    best = best_of(found)
    made = document(found[best], problem, loaded, options)
    if report is not None:
        from scenarios.pages.replicas import plans_page  # noqa: PLC0415

        table = loaded.table
        page = render_page(
            plans_page(
                found, problem, table.names, table.queries, title=loaded.query_set.name, command=terminal.again()
            )
        )
        write_text(report, page, force=force)
    if out is not None:
        write_plan(made, out, force=force)
    if json:
        made["compared"] = {name: _figures(plan, problem) for name, plan in found.items()}
        terminal.print_json(made)
    else:
        # The time limit may end the heuristics early: those that did not run are named.
        skipped = [] if target is not None else [name for name in names if name not in found]
        _show(found, problem, list(made["p"]), best, loaded.table, skipped)
    leave_without_plan(found[best])


def _refuse_over(over: str, front: int) -> None:
    """Raise InputError for budgets of a front that count nothing that is known, or without a front."""
    if over not in OVER:
        raise InputError.at("--over", over, "must be one of " + ", ".join(OVER), similar(over, OVER))
    if over != OVER[0] and not front:
        raise InputError.at("--over", over, "says what --front counts, and there is none", "--front 11")


def _refuse_heuristics(importance: list[str] | None, selection: str, placement: str) -> None:
    """Raise InputError for an option of the heuristics."""
    given = {"--importance": bool(importance), "--selection": selection != "stepwise"}
    given["--placement"] = placement != "first-fit"
    for name in (name for name, there in given.items() if there):
        rule = "is of the heuristics, which --target and --front do not run"
        raise InputError.at(name, NO_VALUE, rule, "leave it out")


@dataclass(frozen=True)
class _Places:
    out: Path | None
    report: Path | None
    force: bool


def _print_front(
    problem: ReplicaProblem,
    found: Sequence[FrontPoint],
    over: str,
    json: bool,
    loaded: LoadedQueries,
    places: _Places,
) -> None:
    """Print the Pareto front as a table or one JSON document, and write it to --out and as a page."""
    if not found:
        leave_without_plan(no_room(problem))
    if places.report is not None:
        from scenarios.pages.replicas import front_page  # noqa: PLC0415

        page = render_page(front_page(found, problem, over=over, title=loaded.query_set.name, command=terminal.again()))
        write_text(places.report, page, force=places.force)
    rows = [
        {"budget": one.budget, "cost": one.plan.cost, "broken": one.plan.objective, "bound": one.plan.bound}
        | {"replicas": count_of(one.plan), "note": one.plan.note or None}
        | {"gap": one.plan.gap, "levels": None if one.plan.levels is None else one.plan.levels.tolist()}
        | {"status": one.plan.status.value, "instances": one.plan.instances}
        for one in found
    ]
    made: dict[str, Any] = {"kind": "front", "goal": problem.goal, "over": over, "max_replicas": problem.max_replicas}
    made |= {"operators": list(loaded.table.names), "points": rows}
    if places.out is not None:
        write_plan(made, places.out, force=places.force)
    if json:
        terminal.print_json(made)
        return
    notes = [f"The front was cut short: {found[-1].plan.note}."] if found[-1].plan.note else []
    terminal.show(front_table(found, problem).brief, *notes)


def _figures(plan: ReplicaPlan, problem: ReplicaProblem) -> dict[str, Any]:
    levels = plan.levels
    alone = None if plan.instances is None else {str(host): len(of) for host, of in broken_alone(plan, problem).items()}
    return {
        "mean_broken": None if plan.broken is None else (plan.broken @ problem.shares).tolist(),
        "worst_broken": None if plan.broken is None else plan.broken.max(axis=1).tolist(),
        "cost": plan.cost,
        "replicated": None if levels is None else int((levels > 0).sum()),
        "replicas": None if levels is None else int(levels.sum()),
        "left_out": plan.left_out,
        "broken_by_one_host": alone,
        "methods": list(plan.methods),
        "colours": plan.colours,
    } | ({"moves": plan.moves} if problem.running else {})


def _show(
    found: dict[str, ReplicaPlan],
    problem: ReplicaProblem,
    chances: list[float],
    best: str,
    table: OperatorTable,
    skipped: Sequence[str],
) -> None:
    compared = plans_table(found, problem)
    if compared is None:
        return
    colours = found[best].colours
    most = "" if problem.max_replicas is None else f", and be {problem.max_replicas} at most"
    notes = [
        f"Replicas may take {display.number(problem.capacity, 6)} CPUs{most}. "
        f"Best at p = {display.exact(chances[0])}: {best}."
    ]
    notes += [f"The time limit struck before: {', '.join(skipped)}."] if skipped else []
    notes += [f"The search was cut short: {found[best].note}."] if found[best].note.endswith(STRUCK) else []
    bound = found[best].bound
    if bound is not None and found[best].target is None:
        which = "The worst query of no plan" if problem.goal == "worst" else "With no plan the mean query"
        lowest = display.share(bound, 4, rounding="down")
        notes.append(f"{which} is broken less than {lowest} of the time ({found[best].status}).")
    elif bound is not None:
        least = display.number(bound, 6, rounding="down")
        notes.append(f"No plan for the target takes less than {least} CPUs ({found[best].status}).")
    notes += _alone(found[best], problem, table.queries)
    notes += [] if colours is None else [f"At most {colours} different operators on a host."]
    notes += _moved(found[best], problem, table.names)
    terminal.show(compared.brief, *notes, *_which(found[best], problem, table.names, best))


def _alone(plan: ReplicaPlan, problem: ReplicaProblem, queries: Sequence[str]) -> list[str]:
    """Return in words which queries a single host still breaks."""
    if plan.instances is None:
        return []
    alone = broken_alone(plan, problem)
    if not alone:
        return ["No single host breaks a query."]
    broken, (host, most) = sorted(set().union(*alone.values())), next(iter(alone.items()))
    said = f"Broken by a single host: {len(broken)} of {problem.n_queries} queries ({_named(broken, queries)})."
    if len(most) == len(broken):
        return [f"{said} Host {host} by itself breaks {'all of them' if len(broken) > 1 else 'it'}."]
    return [f"{said} Host {host} breaks the most of them, {len(most)} ({_named(most, queries)})."]


def _named(found: Sequence[int], queries: Sequence[str]) -> str:
    shown = ", ".join(queries[q] for q in found[:_MOST_NAMED])
    return shown if len(found) <= _MOST_NAMED else f"{shown} and {display.count(len(found) - _MOST_NAMED)} more"


def _moved(plan: ReplicaPlan, problem: ReplicaProblem, names: Sequence[str]) -> list[str]:
    """Return the fate of the replicas that run, in words."""
    if not problem.running or plan.instances is None:
        return []
    total, most = sum(map(len, problem.running)), problem.max_moves
    pairs = list(zip(names, problem.running, plan.instances, strict=True))
    new = sum(len(set(hosts[1:]) - set(now)) for _, now, hosts in pairs)
    allowed = "" if most is None else f", at most {most} may"
    lines = [f"Of {total} replicas that run {plan.moves} leave their hosts{allowed}; {new} start."]
    lines += [f"{plan.left_out} that were chosen found no host."] if plan.left_out else []
    for name, now, hosts in pairs:
        gone = [str(h) for h in now if h not in hosts]
        to = [str(h) for h in hosts[1:] if h not in now][: len(gone)]
        if gone and len(lines) <= _MOST_ROWS:
            lines.append(f"  {name}: from host {', '.join(gone)} " + (f"to {', '.join(to)}" if to else "away"))
    return lines


def _which(plan: ReplicaPlan, problem: ReplicaProblem, names: Sequence[str], name: str) -> list[Table]:
    """Return a table of the operators with replicas in the best plan, and what breaks without these."""
    if plan.instances is None:
        return []
    chosen = sum(len(hosts) > 1 for hosts in plan.instances)
    listed = operators_table(plan, problem, names).brief.cut(min(chosen, _MOST_ROWS))
    return [replace(listed, title=f"{listed.title}: plan {name}")] if chosen else []
