"""`holdfast study`: the main job, from real flights to a report."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from analysis.runs.tables import recoveries_table
from holdfast import run_tables, study_tables, terminal
from holdfast.progress import progress
from scenarios.files.scenario import read_scenario
from scenarios.studies.findings import findings
from scenarios.studies.store import check_target, write_study
from scenarios.studies.study import (
    Study,
    begin_again,
    check,
    in_place,
    ingest_flights,
    key_groups_of,
    place_of,
    profile_in,
)
from scenarios.studies.study import study as run_study

_RUNS_FAILED = 4


def study(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Scenario whose rate is a profile")],
    out: Annotated[Path, typer.Option(help="Directory for profile, plans, runs and report.html")] = Path("study"),
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change one value of the scenario")
    ] = None,
    copies: Annotated[
        int, typer.Option(help="Copies of the flights; with 22 New York has as many as the country")
    ] = 22,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier study in --out")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes for runs")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as one JSON document")] = False,
) -> None:
    """Ingest the bundled flights, place checkpoints by four methods, simulate every design, and report.

    Designs are the combinations of [sweep], or without it the four methods. What was killed goes on with the same
    command. Exit code 0: the study is written; 2: bad input; 4: it is written, and runs of it failed.
    """
    check_target(out, force=force)
    loaded = read_scenario(file, settings or [])
    check(loaded.scenario)
    # From here on paths start in the directory of the study, where the profile is going to be.
    loaded = in_place(loaded, place_of(out))
    groups = key_groups_of(loaded.scenario)
    with progress() as show_progress:
        profile = profile_in(loaded.folder, groups, copies, lambda: ingest_flights(groups, copies, show_progress))
        # After the profile, which is worth keeping even if the stored runs are not.
        begin_again(loaded, force=force)
        found = run_study(loaded, profile, workers=workers, on_progress=show_progress)
        show_progress("writing the report", None)
        write_study(out, found, force=force, command=_command(file, settings, copies))
    if as_json:
        terminal.print_json(findings(found))
    else:
        _show(found, out)
    for row in found.sweep.failed[:5]:
        terminal.error(f"run {row.replication} of design {row.point}: {row.status} in {row.stage}: {row.message}")
    # Last: the study is written and shown, with the runs that came to their end.
    if found.sweep.failed:
        raise typer.Exit(_RUNS_FAILED)


def _command(file: Path, settings: list[str] | None, copies: int) -> str:
    changes = [word for one in settings or [] for word in ("--set", one)]
    return shlex.join(["holdfast", "study", str(file), *changes, "--copies", str(copies)])


def _show(found: Study, out: Path) -> None:
    summary = found.run.typed_summary
    terminal.show(study_tables.plans_table(found), *study_tables.designs_tables(found))
    gains = study_tables.gains_table(found)
    if gains is not None:
        terminal.show(gains)
    terminal.show(
        "usable   of the key groups on overloaded hosts, those whose checkpoint is on\n"
        "          a host with room for them\n"
        "assisted  of the moves off overloaded hosts, those to the host of the checkpoint\n"
        "overhead  bytes of checkpoints and moves between hosts",
    )
    if summary.recoveries:
        terminal.show(recoveries_table(summary.recoveries, "*").brief)
    terminal.show(
        f"(the run in full, with {found.method}) {run_tables.guarantee_line(summary)}",
        f"Report: {out / 'report.html'}",
    )
