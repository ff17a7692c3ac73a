"""`holdfast reproduce`: what papers claim, beside what comes out here."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.report import render_page
from analysis.report.claims_sections import claims_table
from holdfast import terminal
from holdfast.commands.options import Master, On, OnWorkers, refuse_master
from holdfast.progress import progress
from scenarios.files.write_once import refuse_page, write_text
from scenarios.pages.claims import claims_page
from scenarios.pages.elastic_claims import skew_table
from scenarios.pages.migration_claims import query_resolutions_table, resolutions_table
from scenarios.studies.reproduce.claims import Outcome, tried
from scenarios.studies.reproduce.tasks import TaskRunner

if TYPE_CHECKING:
    from analysis.report.parts import ClaimRow
    from models.table import Table

_CLAIM_FAILS = 4
_ELASTIC, _MIGRATION = "elastic-upstream-backup", "live-migration"


def reproduce(
    studies: Annotated[list[str] | None, typer.Argument(metavar="STUDY", help="Studies; all by default")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 4 if a claim that was tried fails")] = False,
    out: Annotated[Path | None, typer.Option(help="Directory in which results are kept and reused")] = None,
    on: On = "local",
    workers: OnWorkers = 1,
    master: Master = None,
    report: Annotated[Path | None, typer.Option(help="Write a page with the claims and their curves: .html")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file of --report")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print an array with one entry for each claim")] = False,
) -> None:
    """Try the claims of papers again: each with the paper's value, ours, its tolerance, and whether it holds."""
    refuse_master(master, on)
    # Before the studies, which take minutes.
    refuse_page(report, force=force)
    with progress() as show_progress:
        runner = TaskRunner(out, on, workers, master, show_progress, say=lambda line: typer.echo(line, err=True))
        outcome = tried(studies or (), runner, quick=quick)
    rows = outcome.rows
    if report is not None:
        _write(report, outcome, shlex.join(["holdfast", "reproduce", *(studies or ()), *["--quick"] * quick]), force)
    if as_json:
        terminal.print_json([asdict(row) for row in rows])
    else:
        terminal.show(*claims_tables(rows))
        if _ELASTIC in outcome.results:
            terminal.show(skew_table(outcome.results[_ELASTIC]))
        if _MIGRATION in outcome.results:
            migration = outcome.results[_MIGRATION]
            terminal.show(resolutions_table(migration).brief, query_resolutions_table(migration).brief)
    # `is False`: a claim that was not tried has None.
    if strict and any(row.holds is False for row in rows):
        raise typer.Exit(_CLAIM_FAILS)


def _write(path: Path, outcome: Outcome, command: str, force: bool) -> None:
    results = outcome.results
    page = claims_page(
        outcome.rows,
        results.get("selective-replication"),
        command,
        results.get(_ELASTIC),
        results.get(_MIGRATION),
    )
    write_text(path, render_page(page), force=force)


def claims_tables(rows: Sequence[ClaimRow]) -> list[Table | str]:
    """Return one table for each study, and a line for each claim that does not hold, with its tolerance and cause."""
    shown: list[Table | str] = []
    for study in dict.fromkeys(row.study for row in rows):
        own = [row for row in rows if row.study == study]
        shown.append(claims_table(own, study).brief)
        for row in own:
            if row.holds is False:
                shown.append(f"{row.claim}: accepted: {row.tolerance}. Cause: {row.cause}.")
            elif row.cause:
                shown.append(f"{row.claim}: {row.cause}")
        # Claims that were not tried count neither for nor against.
        tried = [row for row in own if row.holds is not None]
        held = sum(bool(row.holds) for row in tried)
        shown.append(f"{held} of {len(tried)} claims that were tried hold; {len(own) - len(tried)} were not tried.")
    return shown
