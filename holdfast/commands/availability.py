"""`holdfast availability`: how often queries are broken because hosts are down."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.report import render_page
from holdfast import terminal
from models import display
from models.reliability.description import warnings
from models.reliability.times import downtime_s
from scenarios.files.write_once import refuse_page, write_text
from scenarios.reliability.availability import answer, document, read_with_doubts, weakest
from scenarios.reliability.importance import importances
from scenarios.reliability.tables import (
    fewer_table,
    gains_table,
    importance_table,
    known_table,
    percent,
    queries_table,
    reading_notes,
    settings_on_terminal,
    settings_table,
    single_points_table,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from models.table import Table
    from scenarios.reliability.availability import Answer
    from scenarios.reliability.importance import Importance

_MOST_ROWS = 20
MISSED = 4


def availability(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Queries, operators and hosts: .toml or .json")],
    p: Annotated[
        list[float] | None, typer.Option("--p", metavar="P", help="Probability that a host is down; repeatable")
    ] = None,
    method: Annotated[str, typer.Option(help="auto, exact, monte-carlo, stratified, importance-sampling")] = "auto",
    runs: Annotated[int, typer.Option(help="Runs for each setting where something is sampled")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Decides the draws: 0 to 2^63 - 1")] = 1,
    workers: Annotated[int, typer.Option(help="Threads; never changes the answer")] = 1,
    target: Annotated[float | None, typer.Option(help="Availability that every query must have")] = None,
    importance: Annotated[
        bool, typer.Option("--importance", help="Also what each host, and one more replica, is worth")
    ] = False,
    report: Annotated[Path | None, typer.Option(help="Write a page: .html")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace --report")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document")] = False,
) -> None:
    """Say how often each query, the mean query, and at least one of all is broken, and by which method.

    Exit code 0: answered; 2: bad input; 4: a query misses the target, or bounds leave it open.
    """
    refuse_page(report, force=force)
    description, doubts = read_with_doubts(file)
    # Before the answer: a value that was probably not meant is seen even if the answer takes long.
    terminal.warn(warnings(description))
    found = answer(
        description, p=p or (), method=method, runs=runs, seed=seed, workers=workers, target=target,
        on_progress=lambda text: typer.echo(text, err=True),
    )  # fmt: skip
    found_importance = importances(description, p or ()) if importance else ()
    if report is not None:
        from scenarios.pages.availability import availability_page  # noqa: PLC0415

        write_text(
            report, render_page(availability_page(found, found_importance, command=terminal.again())), force=force
        )
    if as_json:
        more = {"importance": [one.document() for one in found_importance]} if importance else {}
        terminal.print_json(document(found) | more)
    else:
        terminal.show(*_tables(found, found_importance), _fewest_down(found), *_notes(found), *doubts)
    if found.missed:
        missed = f"{len(found.missed)} of {len(description.queries)} queries miss {percent(found.target)}"
        typer.echo(missed + (" in some setting" if len(found.lines) > 1 else ""), err=True)
        raise typer.Exit(MISSED)


def _tables(found: Answer, importance: Sequence[Importance]) -> list[Table]:
    """Return all tables, as a terminal has room for them; those of importance are of the last setting."""
    made = [settings_table(found), known_table(found), fewer_table(found), queries_table(found)]
    made.append(single_points_table(found))
    if importance:
        made += [importance_table(importance[-1]), gains_table(importance[-1])]
    return [one.brief.cut(_MOST_ROWS) for one in made if one is not None]


def _fewest_down(found: Answer) -> str:
    """Return in words how many failures queries take: by structure, the same in all settings."""
    _, fewest = weakest(found.description)
    failures = "hosts or domains" if found.description.domains else "hosts"
    counts = sorted(Counter(fewest.values()).items(), key=lambda one: (one[0] is None, one[0]))
    parts = [f"{size or 'not known'} ({of} {'query' if of == 1 else 'queries'})" for size, of in counts]
    return f"Fewest {failures} down that break a query: {', '.join(parts)}."


def _notes(found: Answer) -> list[str]:
    notes, times = [], found.description.times
    if times is not None and times.mttf_s is not None:
        down = "" if times.mttr_s is None else f", down {display.duration(times.mttr_s)}"
        notes.append(f"Hosts fail after {display.duration(times.mttf_s)}{down}.")
    if found.target is not None:
        notes.append(f"{percent(found.target)} allows {display.duration(downtime_s(1 - found.target))} a month.")
    shown_of = settings_on_terminal(found)
    if len(found.lines) > shown_of:
        notes.append(f"By query the last {shown_of} of {len(found.lines)} settings; --json has all.")
    return [*notes, *reading_notes(found)]
