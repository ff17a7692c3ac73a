"""`holdfast sweep`: every design point of a scenario, times every replication."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from holdfast import sweep_tables, terminal
from holdfast.commands.options import Master, On, OnWorkers, refuse_master
from holdfast.progress import progress
from scenarios.files.scenario import read_scenario, refuse_swept, resolve
from scenarios.pages.sweep import runs_of_designs, write_page
from scenarios.runs.execute import COMPILING
from scenarios.sweeps.best import best_sentence, best_summary, best_table, check_best
from scenarios.sweeps.summary import check_metrics, chosen_metrics, sweep_answer, sweep_summary
from scenarios.sweeps.sweep import sweep as run_sweep

_RUNS_FAILED = 4


def sweep(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Scenario file with a [sweep], or a name of the library")],
    out: Annotated[Path, typer.Option(help="Directory of the sweep and its report.html; finished runs there are kept")],
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change one value of the scenario")
    ] = None,
    on: On = "local",
    workers: OnWorkers = 1,
    master: Master = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="CPU time of one run (else limits.time)")
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Run again what hit a limit of time or memory, crashed or failed")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue with missing runs; always done")] = True,
    metric: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Metric of the table; repeatable")] = None,
    best: Annotated[
        str | None, typer.Option(metavar="KEY", help="Say which value of KEY is best, for each setting of the others")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all metrics as one JSON document")] = False,
) -> None:
    """Simulate every combination of the values of [sweep]; if interrupted, the same command continues."""
    del resume  # there is no other way
    refuse_master(master, on)
    path = resolve(file)
    loaded = read_scenario(path, settings or [])
    refuse_swept(loaded.scenario, path, settings or [])
    check_best(loaded.scenario, best)
    with progress() as show_progress:
        result = run_sweep(
            loaded,
            out,
            on=on,
            workers=workers,
            master=master,
            time_limit_s=time_limit,
            retry=retry,
            on_plan=lambda share: show_progress("planning", share),
            on_progress=lambda share: show_progress("sweeping", share),
            on_compile=lambda share: show_progress(COMPILING, share),
            # A misspelt metric is told before the runs are made, not after.
            check=lambda stored: check_metrics(stored, metric or ()),
        )
    names = chosen_metrics(result, metric)
    # Without workers and where they are: these change no result, and the page stays equal on every machine.
    settings_again = (part for one in settings or [] for part in ("--set", one))
    asked = [*(part for name in metric or [] for part in ("--metric", name)), "--best", best] if best else []
    again = shlex.join(["holdfast", "sweep", file, *settings_again, *asked, "--out", out.name])
    by = [] if best is None else [best_table(result, best, name) for name in names]
    sentences = [] if best is None else [best_sentence(result, best, name) for name in names]
    write_page(result, command=again, best=by, said=sentences)
    if as_json:
        terminal.print_json(
            sweep_summary(result) | ({} if best is None else {"best": best_summary(result, best, names)})
        )
    elif best is not None:
        terminal.show(*(one.brief for one in by), *sentences, sweep_tables.sweep_line(result))
    else:
        words = [one for one in (sweep_tables.explained(result), *sweep_answer(runs_of_designs(result))) if one]
        terminal.show(*sweep_tables.sweep_tables(result, names), *words, sweep_tables.sweep_line(result))
    for row in result.failed[:5]:
        terminal.error(f"run {row.replication} of design {row.point}: {row.status} in {row.stage}: {row.message}")
    if result.failed:
        more = f", the first {5} above" if len(result.failed) > 5 else ""
        typer.echo(f"{len(result.failed)} of {len(result.rows)} runs failed{more}", err=True)
        raise typer.Exit(_RUNS_FAILED)
