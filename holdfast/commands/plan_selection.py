"""`holdfast plan selection | queries | steps | interval`: replicas, migration steps, checkpoint intervals."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast import terminal
from holdfast.commands.options import as_options, bytes_of, option_names, refuse_limits
from holdfast.plan_lines import leave_without_plan, plan_lines
from models import display
from models.planning.checkpoint_interval import daly_first, daly_higher, young
from optimizer.checkpoint_interval import solve as solve_interval
from optimizer.common.reasons import query_reasons, selection_reasons
from optimizer.migration_steps import solve as solve_steps
from optimizer.selection import solve as solve_selection
from scenarios.files.write_once import refuse_plan
from scenarios.planning.files import interval_of, read_problem_of
from scenarios.planning.plan_files import plan_document, read_plan_file, write_plan

if TYPE_CHECKING:
    from models.planning.solution import Solution
    from optimizer.common.reasons import SelectionReason

_MOST_ROWS = 200

File = Annotated[Path, typer.Argument(metavar="FILE", help="Problem: .json, .toml or .npz")]
TimeLimit = Annotated[float, typer.Option(help="Seconds after which the best plan so far is the answer")]
Seed = Annotated[int, typer.Option(help="Decides the draws of local search: 0 to 2^63 - 1")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document")]
Reasons = Annotated[bool, typer.Option("--reasons", help="Say of each why it is chosen, or not")]
Out = Annotated[Path | None, typer.Option(help="Write the plan to this JSON file as well")]
Memory = Annotated[str, typer.Option(help="Most memory, as in 2 GB; else 80 % of the machine")]
From = Annotated[Path | None, typer.Option("--from", help="Start from this plan: the answer is never worse")]
Running = Annotated[Path | None, typer.Option("--from", help="Start from this plan: what runs now")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the file of --out")]


def selection(
    file: File,
    time_limit: TimeLimit = 60.0,
    json: Json = False,
    reasons: Reasons = False,
    out: Out = None,
    running: From = None,
    memory: Memory = "",
    force: Force = False,
) -> None:
    """Choose operators, or levels of replication, of most value within a capacity.

    Exit code 0: feasible or optimal; 2: bad input.
    """
    refuse_limits(time_limit)
    problem, start = _read("selection", file, out, force, memory, running)
    plan = solve_selection(problem, time_limit_s=time_limit, hint=start)
    why = selection_reasons(problem, plan) if reasons else None
    _write(plan, why, json, out, force, capacity=problem.capacity)


def queries(
    file: File,
    time_limit: TimeLimit = 60.0,
    seed: Seed = 0,
    json: Json = False,
    reasons: Reasons = False,
    out: Out = None,
    running: From = None,
    memory: Memory = "",
    force: Force = False,
) -> None:
    """Choose queries of most value whose operators all fit a capacity, then single operators for the rest.

    Exit code 0: feasible or optimal; 2: bad input.
    """
    refuse_limits(time_limit, seed)
    problem, start = _read("queries", file, out, force, memory, running)
    plan = solve_selection(problem, time_limit_s=time_limit, seed=seed, hint=start)
    why = query_reasons(problem, plan) if reasons else None
    _write(plan, why, json, out, force, capacity=problem.capacity)


def steps(
    file: File,
    time_limit: TimeLimit = 60.0,
    seed: Seed = 0,
    json: Json = False,
    out: Out = None,
    running: From = None,
    memory: Memory = "",
    force: Force = False,
) -> None:
    """Arrange moves in the fewest steps, or with sizes in the shortest time, one move at a time per host.

    Exit code 0: feasible or optimal; 2: bad input.
    """
    refuse_limits(time_limit, seed)
    problem, start = _read("steps", file, out, force, memory, running)
    _write(solve_steps(problem, time_limit_s=time_limit, seed=seed, hint=start), None, json, out, force)


def interval(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Problem: .json, .toml or .npz; else options")
    ] = None,
    checkpoint_s: Annotated[float | None, typer.Option(help="Pause of the work by a checkpoint [s]")] = None,
    mtbf_s: Annotated[float | None, typer.Option(help="Mean time between failures [s]")] = None,
    restart_s: Annotated[float | None, typer.Option(help="From a failure until work goes on [s]; else 0")] = None,
    complete_s: Annotated[float | None, typer.Option(help="Until a checkpoint can be used [s]; else its pause")] = None,
    utilisation: Annotated[float | None, typer.Option(help="Of a stream, before the failure: below 1")] = None,
    recovery_target_s: Annotated[
        float | None, typer.Option(help="Time until the job has caught up after a failure [s]")
    ] = None,
    rate_per_s: Annotated[float | None, typer.Option(help="Records per second, for the replay")] = None,
    json: Json = False,
    out: Out = None,
    force: Force = False,
) -> None:
    """Choose how often to make checkpoints: least slowdown, for streams under a recovery target.

    Options take the place of what the file says. Exit code 0: optimal or feasible; 2: bad input; 3: no interval meets
    the target.
    """
    refuse_plan(out, file, force=force)
    given = {
        "checkpoint_s": checkpoint_s,
        "mtbf_s": mtbf_s,
        "restart_s": restart_s,
        "complete_s": complete_s,
        "utilisation": utilisation,
        "recovery_target_s": recovery_target_s,
        "rate_per_s": rate_per_s,
    }
    with as_options(option_names(name for name, value in given.items() if value is not None)):
        # Options replace values of the file, so faults may come from either: they are named by their option.
        problem = interval_of(file, given)
    useful = {
        "young_s": young(problem.checkpoint_s, problem.mtbf_s),
        "daly_first_s": daly_first(problem.checkpoint_s, problem.mtbf_s, problem.restart_s),
        "daly_higher_s": daly_higher(problem.checkpoint_s, problem.mtbf_s),
    }
    _write(solve_interval(problem), None, json, out, force, useful)


def _read(kind: str, file: Path, out: Path | None, force: bool, memory: str, running: Path | None) -> tuple[Any, Any]:
    """Return the problem in a file, and the plan to start from, None without one."""
    refuse_plan(out, file, force=force)
    problem = read_problem_of(kind, file, memory_bytes=bytes_of(memory))
    return problem, None if running is None else read_plan_file(running, kind).plan()


def _write(
    plan: Solution,
    rows: list[SelectionReason] | None,
    json: bool,
    out: Path | None,
    force: bool,
    more: dict[str, float] | None = None,
    capacity: float | None = None,
) -> None:
    """Print the plan, write it to `out`, and leave with the exit code of its status."""
    # What else the command knows, such as Young's and Daly's intervals, stands beside the plan for comparison.
    document = plan_document(plan) | (more or {})
    if rows is not None:
        document["reasons"] = [asdict(row) for row in rows]
    if out is not None:
        write_plan(document, out, force=force)
    if json:
        terminal.print_json(document)
    else:
        _show(document, rows, capacity)
    leave_without_plan(plan)


def _show(document: dict[str, Any], rows: list[SelectionReason] | None, capacity: float | None) -> None:
    terminal.show(*plan_lines(document["kind"], document, capacity))
    if rows:
        of_queries = document["kind"] == "queries"
        cells = []
        for row in rows[:_MOST_ROWS]:
            level = ("no", "yes")[row.level] if of_queries else str(row.level)
            cells.append((str(row.index), level, display.number(row.value, 6), display.number(row.weight, 6), row.why))
        columns = ("query", "chosen") if of_queries else ("operator", "level")
        terminal.show(terminal.table("Reasons", (*columns, "value", "weight", "why"), cells, text_columns=5))
