"""`holdfast run`: simulate a scenario."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.runs import tables
from analysis.runs.elasticity import changes_of_hosts, not_rescaled
from analysis.runs.recoveries import still_down
from analysis.runs.tables import target
from analysis.runs.timelines import backpressure
from holdfast import run_tables, terminal
from holdfast.progress import progress
from models import display
from models.scenario.inputs import Engine, engine_of
from models.scenario.rules import said_of_runs
from models.steady_state.estimate import estimate
from models.steady_state.scaled_down import resolution_said
from models.validation_messages import path_text
from scenarios.files.scenario import LoadedScenario, moved, read_scenario, resolve, scenario_text
from scenarios.runs.execute import COMPILING
from scenarios.runs.first_run import Beside
from scenarios.runs.run import RunResult
from scenarios.runs.run import run as run_scenario

if TYPE_CHECKING:
    from models.scenario.inputs import RunInputs
    from models.scenario.scenario import Scenario

_TARGET_MISSED = 4
_ANNOUNCED_S = 5.0  # a run that takes longer is announced


def run(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Scenario file, or a name of the library")],
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change one value of the scenario")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Directory for records, summary and report.html")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run in --out")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Also keep one row per tuple and operator")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes for replications")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON document")] = False,
    engine: Annotated[
        str,
        typer.Option(
            help="auto; compiled: on a first run, too, which waits for it; plain: slow, to be read. Equal rows"
        ),
    ] = "auto",
) -> None:
    """Simulate a scenario: latency, load, recoveries and what was lost or duplicated."""
    chosen = engine_of(engine, "--engine")
    loaded = read_scenario(resolve(file), settings or [])
    if out is not None:
        from scenarios.runs.store import check_target  # noqa: PLC0415 - as in `_write`

        # Before the simulation: nobody shall wait for an hour to be told that the directory is taken.
        check_target(out, force=force)
    if loaded.scenario.sweep:
        typer.echo("note: run simulates the scenario as it stands; holdfast sweep varies it", err=True)
    known: list[RunInputs] = []  # reading a profile takes longer than showing the result: it is read once

    def checked(scenario: Scenario, inputs: RunInputs) -> None:
        # What is said of a run and its page know nothing of who holds which checkpoint at the start.
        known.append(replace(inputs, checkpoint_hosts={}))
        if chosen == "plain":
            _announce(scenario, inputs)

    with progress() as show_progress:
        title = "simulating"
        result = run_scenario(
            loaded.scenario,
            folder=loaded.folder,
            workers=workers,
            on_progress=lambda share: show_progress(title, share),
            on_compile=lambda share: show_progress(COMPILING, share),
            engine=chosen,
            on_checked=checked,
            on_first_run=_say_first_run,
        )
    if out is not None:
        _write(out, _command(file, settings or [], chosen), result, loaded, *known, force=force, raw=raw)
    if as_json:
        print(json.dumps(result.summary, allow_nan=False))
    else:
        _show(result)
    # After the result, on stderr: the cause of a backlog explains it, and does not disturb the document on stdout.
    terminal.warn(map(str, said_of_runs(result.scenario, *known)))
    _say_absent(result)
    for name in result.missed:
        verdict = (result.typed_summary.targets or {})[name]
        limit, value = verdict.limit, verdict.value
        unknown = "did not end" if verdict.met is False else "nothing seen"
        reached = unknown if value is None else target(name, value)
        typer.echo(f"target missed: {name}: {reached}, must be at most {target(name, limit)}", err=True)
    if result.missed:
        # Last: a missed target is an answer, which has been written and shown in full.
        raise typer.Exit(_TARGET_MISSED)


def _say_absent(result: RunResult) -> None:
    """Say on stderr which events did not happen in some replications."""
    for name, count in result.absent.items():
        of = f"{display.count(count)} of {display.count(len(result.records), 'replication')}"
        where = path_text(("events", name))
        typer.echo(f"note: {where} did not happen in {of}: its time was after the end of the run", err=True)


def _announce(scenario: Scenario, inputs: RunInputs) -> None:
    """Say on stderr how long a run on the plain engine takes, and how long on the compiled one; nothing of a short run.

    Both may differ from it by a factor of two.
    """
    plain, auto = (estimate(scenario, inputs.rates, inputs.shares, engine).time_s for engine in ("plain", "auto"))
    if plain >= _ANNOUNCED_S:
        slow, fast = display.duration(plain), display.duration(auto)
        typer.echo(f"note: about {slow} on the plain engine; the compiled one takes about {fast}", err=True)


_BESIDE: dict[Beside, str] = {
    "begun": "; the compiled one is prepared in the background, for about a minute",
    "busy": "; another process compiles at the moment, so the compiled one may not be ready for the next run",
    "no directory": ", as no directory can be written in which compiled code is kept; --engine compiled compiles anew",
    "not started": ", as the compiler could not be started in the background; --engine compiled waits for it",
}


def _say_first_run(beside: Beside) -> None:
    """Say on stderr which engine makes this run, and whether the compiler works behind it."""
    note = "note: no compiled code of its kind is kept on this machine: the plain engine makes it, with the same result"
    if beside in ("begun", "busy"):
        note = "note: first run of its kind on this machine: the plain engine makes it, with the same result"
    typer.echo(note + _BESIDE[beside], err=True)


def _command(file: str, settings: list[str], engine: Engine = "auto") -> str:
    """Return the command that simulates the same again."""
    chosen = [] if engine == "auto" else ["--engine", engine]
    return shlex.join(["holdfast", "run", file, *(part for one in settings for part in ("--set", one)), *chosen])


def _write(
    out: Path,
    command: str,
    result: RunResult,
    loaded: LoadedScenario,
    inputs: RunInputs,
    *,
    force: bool,
    raw: bool,
) -> None:
    # Without --out nothing is written: then what writes pages and Parquet, a fifth of the start, is not loaded.
    from analysis.report import render_page  # noqa: PLC0415
    from scenarios.pages.run import run_page  # noqa: PLC0415
    from scenarios.runs.store import write_run  # noqa: PLC0415

    page = render_page(run_page(result, inputs, command=command))
    write_run(
        out,
        scenario_text(moved(loaded, out)),
        result.summary,
        result.records,
        force=force,
        raw=raw,
        pages={"report.html": page},
        metrics=result.metrics,
    )
    if raw and any(one.detail == "histograms" for one in result.records):
        typer.echo(
            "note: recorded as histograms, so there is no row per tuple: --set recording.detail=tuples keeps them",
            err=True,
        )


def _show(result: RunResult) -> None:
    summary = result.typed_summary
    terminal.show(*filter(None, [resolution_said(summary.resolution)]))
    terminal.show(tables.operators_table(summary.operators).brief, run_tables.latency_table(summary))
    terminal.show(*run_tables.visible_said(result.scenario, summary))
    if summary.checkpoints:
        terminal.show(*run_tables.checkpoints_said(summary.checkpoints))
    if summary.migrations:
        terminal.show(*run_tables.migrations_said(summary.migrations))
    if summary.rebalances:
        terminal.show(tables.rebalances_table(summary.rebalances).brief)
    if summary.rescales:
        terminal.show(run_tables.rescales_table(summary))
    terminal.show(*not_rescaled(result.scenario, result.records))
    terminal.show(*run_tables.reconfigurations_said(summary), *run_tables.memory_said(result.scenario, summary))
    if summary.elasticity:
        terminal.show(run_tables.elasticity_table(summary.elasticity, summary.hosts))
        changes = changes_of_hosts(result.records)
        if changes:
            terminal.show(run_tables.acquisitions_table(changes))
    if summary.maintenance:
        terminal.show(run_tables.maintenance_table(summary.maintenance, len(summary.replications)))
    if summary.replicas:
        terminal.show(run_tables.replicas_table(summary.replicas))
    if summary.recoveries:
        shown = tables.recoveries_table(summary.recoveries, "*").brief
        terminal.show(shown, *run_tables.recovery_means_said(summary), *filter(None, [still_down(result.records)]))
    held = backpressure(result.scenario, result.records)
    if any(one.places for one in held.values()):
        terminal.show(run_tables.backpressure_table(held))
    if summary.targets:
        terminal.show(tables.targets_table(summary.targets).brief)
    if summary.broken:
        terminal.show(run_tables.broken_line(summary.broken))
    terminal.show(run_tables.guarantee_line(summary), *run_tables.engine_lines(summary))
