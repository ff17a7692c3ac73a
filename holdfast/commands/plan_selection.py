"""`holdfast plan selection | queries | steps | interval`: replicas, migration steps, checkpoint intervals."""

from __future__ import annotations

import json as json_text
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast import terminal
from holdfast.commands.options import as_options, bytes_of, option_names, refuse_limits
from models import display

if TYPE_CHECKING:
    from models.solution import Solution
    from optimizer.selection.reasons import SelectionReason

_EXIT = {"infeasible": 3, "unknown": 4}
_MOST_ROWS = 200

File = Annotated[Path, typer.Argument(metavar="FILE", help="Problem: .json, .toml or .npz")]
TimeLimit = Annotated[float, typer.Option(help="Seconds after which the best plan so far is the answer")]
Seed = Annotated[int, typer.Option(help="Decides the draws of local search: 0 to 2^63 - 1")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document")]
Reasons = Annotated[bool, typer.Option("--reasons", help="Say of each why it is chosen, or not")]
Out = Annotated[Path | None, typer.Option(help="Write the plan to this JSON file as well")]
Memory = Annotated[str, typer.Option(help="Most memory, as in 2 GB; else 80 % of the machine")]
From = Annotated[Path | None, typer.Option("--from", help="Start from this plan: the answer is never worse")]
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
    from optimizer.selection import solve  # noqa: PLC0415
    from optimizer.selection.reasons import selection_reasons  # noqa: PLC0415

    refuse_limits(time_limit)
    problem, start = _read("selection", file, out, force, memory, running)
    plan = solve(problem, time_limit_s=time_limit, hint=start)
    _write(plan, selection_reasons(problem, plan) if reasons else None, json, out, force)


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
    from optimizer.selection import solve  # noqa: PLC0415
    from optimizer.selection.reasons import query_reasons  # noqa: PLC0415

    refuse_limits(time_limit, seed)
    problem, start = _read("queries", file, out, force, memory, running)
    plan = solve(problem, time_limit_s=time_limit, seed=seed, hint=start)
    _write(plan, query_reasons(problem, plan) if reasons else None, json, out, force)


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
    from optimizer.migration_steps import solve  # noqa: PLC0415

    refuse_limits(time_limit, seed)
    problem, start = _read("steps", file, out, force, memory, running)
    _write(solve(problem, time_limit_s=time_limit, seed=seed, hint=start), None, json, out, force)


def interval(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Problem: .json, .toml or .npz; else options")
    ] = None,
    checkpoint_s: Annotated[float | None, typer.Option(help="Pause of the work by a checkpoint [s]")] = None,
    mtbf_s: Annotated[float | None, typer.Option(help="Mean time between failures [s]")] = None,
    restart_s: Annotated[float | None, typer.Option(help="From a failure until work goes on [s]; else 0")] = None,
    complete_s: Annotated[float | None, typer.Option(help="Until a checkpoint can be used [s]; else its pause")] = None,
    utilisation: Annotated[float | None, typer.Option(help="Of a stream, before the failure: below 1")] = None,
    recovery_target_s: Annotated[float | None, typer.Option(help="Time until a failure is worked off [s]")] = None,
    rate_per_s: Annotated[float | None, typer.Option(help="Records per second, for the replay")] = None,
    json: Json = False,
    out: Out = None,
    force: Force = False,
) -> None:
    """Choose how often to make checkpoints: least slowdown, for streams under a recovery target.

    Options take the place of what the file says. Exit code 0: optimal or feasible; 2: bad input; 3: no interval meets
    the target.
    """
    from models.checkpoint_interval import daly_first, daly_higher, young  # noqa: PLC0415
    from optimizer.checkpoint_interval import solve  # noqa: PLC0415
    from scenarios.selection_files import interval_of  # noqa: PLC0415
    from scenarios.write_once import refuse_plan  # noqa: PLC0415

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
        problem = interval_of(file, given)
    useful = {
        "young_s": young(problem.checkpoint_s, problem.mtbf_s),
        "daly_first_s": daly_first(problem.checkpoint_s, problem.mtbf_s, problem.restart_s),
        "daly_higher_s": daly_higher(problem.checkpoint_s, problem.mtbf_s),
    }
    _write(solve(problem), None, json, out, force, useful)


def _read(kind: str, file: Path, out: Path | None, force: bool, memory: str, running: Path | None) -> tuple[Any, Any]:
    """The problem in a file, and the plan to start from, None without one."""
    from scenarios.selection_files import read_plan_of, read_problem_of  # noqa: PLC0415
    from scenarios.write_once import refuse_plan  # noqa: PLC0415

    refuse_plan(out, file, force=force)
    problem = read_problem_of(kind, file, memory_bytes=bytes_of(memory))
    return problem, None if running is None else read_plan_of(kind, running)[0]


def _write(
    plan: Solution,
    rows: list[SelectionReason] | None,
    json: bool,
    out: Path | None,
    force: bool,
    more: dict[str, float] | None = None,
) -> None:
    """Print the plan, write it to `out`, and leave with the exit code of its status."""
    from scenarios.selection_files import plan_document  # noqa: PLC0415
    from scenarios.write_once import write_text  # noqa: PLC0415

    document = plan_document(plan) | (more or {})
    if rows is not None:
        document["reasons"] = [asdict(row) for row in rows]
    if out is not None:
        write_text(out, json_text.dumps(document, allow_nan=False) + "\n", force=force)
    if json:
        sys.stdout.write(json_text.dumps(document, allow_nan=False) + "\n")
    else:
        _show(document, rows)
    if plan.status.value in _EXIT:
        typer.echo(f"{plan.status}: {plan.note}", err=True)
        raise typer.Exit(_EXIT[plan.status.value])


def _show(document: dict[str, Any], rows: list[SelectionReason] | None) -> None:
    shown = [(name, _text(name, value)) for name, value in document.items() if name not in ("kind", "reasons", "split")]
    width = max(len(name) for name, _ in shown)
    terminal.show(*(f"{name:<{width}}  {text}" for name, text in shown if text))
    if rows:
        cells = [
            (str(row.index), str(row.level), display.number(row.value, 6), display.number(row.weight, 6), row.why)
            for row in rows
        ]
        columns = ("", "level", "value", "weight", "why")
        terminal.show(terminal.table("Reasons", columns, cells[:_MOST_ROWS], text_columns=5))


def _text(name: str, value: Any) -> str:
    if isinstance(value, list) and name in ("queries", "operators"):
        return _listed([k for k, chosen in enumerate(value) if chosen])
    if isinstance(value, list):
        return _listed(value)
    return "" if value is None else display.number(value, 6) if isinstance(value, float) else str(value)


def _listed(items: list[Any]) -> str:
    shown = " ".join(display.number(item, 6) for item in items[:12])
    return shown if len(items) <= 12 else f"{shown} and {len(items) - 12} more"
