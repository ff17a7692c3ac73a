"""`holdfast fleet`: queries that come and go on hosts that fail, and a manager that keeps availability objectives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.fleet.tables import decisions_table, queries_table
from analysis.report import render_page
from holdfast import terminal
from holdfast.progress import progress
from models import display
from models.fleet.rules import warnings
from scenarios.files.write_once import refuse_page, refuse_page_within, write_text
from scenarios.fleet.runs import FleetResult, check_format, check_out, read_fleet, run_fleet, write_fleet
from scenarios.pages.fleet import fleet_page

if TYPE_CHECKING:
    from analysis.fleet.fleet_summary import FleetSummary, UseOfHosts
    from analysis.statistics import Mean
    from models.table import Table
    from scenarios.fleet.runs import FleetResult

# The exit code where an objective cannot be met at the start, so that nothing is run.
INFEASIBLE = 3
# A terminal shows as many lines; the page and --json have all rows.
_MOST_ROWS = 20


def fleet(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Hosts, operators, queries, manager: .toml or .json")],
    replications: Annotated[int | None, typer.Option(help="How often, with other draws; else as the file says")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides the draws: 0 to 2^63 - 1; else as the file says")] = None,
    method: Annotated[str, typer.Option(help="auto, events, merged (only where nothing is decided)")] = "auto",
    workers: Annotated[int, typer.Option(min=1, help="Processes for replications; never changes the answer")] = 1,
    out: Annotated[Path | None, typer.Option(help="Directory for the summary, tables of all rows and a page")] = None,
    tables: Annotated[str, typer.Option(help="Of --out: parquet or csv")] = "parquet",
    report: Annotated[Path | None, typer.Option(help="Write the page alone: .html")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run in --out, or --report")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON document")] = False,
) -> None:
    """Simulate hosts that fail under queries that come and go: which break, how long, and what is decided.

    Exit code 0: done; 2: bad input; 3: an availability objective that cannot be met at the start, with the best that is
    possible.
    """
    refuse_page_within(report, out)
    fleet, log = read_fleet(file)
    terminal.warn(warnings(fleet))
    check_format(tables)
    refuse_page(report, force=force)
    if out is not None:
        check_out(out, force=force)
    with progress() as show_progress:
        result = run_fleet(
            fleet,
            log,
            replications=replications,
            seed=seed,
            method=method,
            workers=workers,
            on_progress=lambda share: show_progress("simulating", share),
        )
    if result.unkept:
        _say_unkept(result, as_json)
        raise typer.Exit(INFEASIBLE)
    page = "" if out is None and report is None else render_page(fleet_page(result, command=terminal.again()))
    if out is not None:
        write_fleet(result, out, table_format=tables, force=force, page=page)
    if report is not None:
        write_text(report, page, force=force)
    if as_json:
        terminal.print_json(result.summary)
    else:
        summary, managed = result.found, result.system.fleet.manager is not None
        terminal.show(*_tables(summary), *_notes(summary, managed=managed))


def _say_unkept(result: FleetResult, as_json: bool) -> None:
    unkept, slos = result.unkept, sum(one is not None for one in result.system.slos)
    if as_json:
        terminal.print_json({"status": "infeasible", "unkept": [one.document() for one in unkept]})
    else:
        rows = [
            [
                one.query,
                *display.apart(1 - one.slo, one.broken, one.least_broken, form=display.share),
            ]
            for one in unkept
        ]
        columns = ["query", "allowed", "broken", "at best"]
        terminal.show(
            terminal.table("Availability objectives that cannot be met at the start (unavailability)", columns, rows)
        )
    typer.echo(f"{len(unkept)} of {slos} availability objectives cannot be met at the start", err=True)


def _tables(summary: FleetSummary) -> list[Table]:
    running = summary.running
    rows = [
        ["time average", *_with_interval(running.time_average)],
        ["end of day", *_with_interval(running.end_of_day)],
    ]
    if running.exact is not None:
        rows.append(["exact", display.share(running.exact, 4), display.NONE])
    found = [
        terminal.table("Share of queries that run", ["", "share", "95 % interval"], rows),
        queries_table(summary).brief.cut(_MOST_ROWS),
    ]
    if summary.decisions:
        found.append(decisions_table(summary).brief)
    if summary.refused_for:
        refused = [(one.query, one.action, one.count) for one in summary.refused_for[:_MOST_ROWS]]
        columns = ["query", "action", "times"]
        found.append(terminal.table("Refused because of an SLO", columns, refused, text_columns=2))
    return found


def _notes(summary: FleetSummary, *, managed: bool) -> list[str]:
    length, gap = display.duration(summary.duration_s), display.duration(summary.longest_gap_s)
    notes = [
        f"{summary.replications} × {length}: {display.count(summary.host_failures, 'outage')} of hosts, "
        f"{display.count(summary.take_overs, 'take-over')}.",
        f"At most {gap} went by until another instance took over.",
    ]
    if managed or summary.hosts_in_use.cost_usd is not None:
        notes.append(_use(summary.hosts_in_use))
    if summary.overloaded_host_s:
        notes.append(f"Hosts were overloaded for {display.duration(summary.overloaded_host_s)} together.")
    if summary.exact_refused:
        notes.append(f"No exact figures beside it: {summary.exact_refused}.")
    return notes


def _use(used: UseOfHosts) -> str:
    cost = "" if used.cost_usd is None else f", {display.money(used.cost_usd)} USD a replication"
    return f"{display.number(used.mean)} hosts were in use on average{cost}."


def _with_interval(mean: Mean) -> tuple[str, str]:
    if mean.mean is None:
        return display.NONE, display.NONE
    interval = mean.ci95
    if interval is None or interval[0] == interval[1]:  # replications that are all alike say nothing of chance
        return display.share(mean.mean, 4), display.NONE
    return display.share(mean.mean, 4), display.between(interval[0], interval[1], display.share, 4)
