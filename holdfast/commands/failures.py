"""`holdfast failures`: what a failure log says of up times, repairs and their laws."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.failure_logs.lifetimes import verdict
from analysis.failure_logs.records import LogQuestion
from analysis.report import render_page
from holdfast import terminal
from holdfast.progress import progress
from holdfast.terminal import again as said_again
from holdfast.terminal import facts
from models import display
from scenarios.files.documents import refuse_unreadable
from scenarios.files.write_once import refuse_page, refuse_unwritable, write_text
from scenarios.pages.failures import failures_page, hosts_differ
from scenarios.reliability.failure_logs import FailureAnswer, document, read_failures, write_failures
from scenarios.reliability.failure_tables import hosts_table, laws_table

if TYPE_CHECKING:
    from models.table import Table
    from scenarios.reliability.failure_logs import FailureAnswer

_MOST_HOSTS = 10


def failures(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Logs: .csv, .csv.gz or .parquet")],
    zone: Annotated[str, typer.Option(help="Time zone of times that name none")] = "UTC",
    begin: Annotated[str | None, typer.Option(help="Begin of the window, ISO 8601; else what the log tells")] = None,
    end: Annotated[str | None, typer.Option(help="End of the window; else what the log tells")] = None,
    hosts: Annotated[int | None, typer.Option(help="How many hosts there were, with those that never failed")] = None,
    cause: Annotated[list[str] | None, typer.Option(help="Count these causes alone; repeatable")] = None,
    system: Annotated[list[str] | None, typer.Option(help="Of LANL's log these systems alone; repeatable")] = None,
    refuse_overlaps: Annotated[
        bool, typer.Option("--refuse-overlaps", help="Records of a host that overlap are an error")
    ] = False,
    max_bad_share: Annotated[float, typer.Option(help="Share of bad records above which the log is refused")] = 0.05,
    on: Annotated[str, typer.Option(help="local, spark (needs Java), or auto: Spark above 64 MB")] = "auto",
    draws: Annotated[int | None, typer.Option(help="Bootstrap draws for each law, 0 for none; else 99 or 19")] = None,
    seed: Annotated[int, typer.Option(help="Decides these draws: 0 to 2^63 - 1")] = 1,
    out: Annotated[Path | None, typer.Option(help="Write a .json that run, availability and size take")] = None,
    report: Annotated[
        Path | None, typer.Option("--report", "--page", help="Write a page with the curves: .html")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace --out and --report")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document")] = False,
) -> None:
    """Read a failure log: time down by host, MTTF and MTTR with intervals, and which laws fit them.

    A log is a table with the columns host, down, up and perhaps cause, or has the format of the failure data of Los
    Alamos National Laboratory. Exit code 0: answered; 2: bad input.
    """
    question = LogQuestion(
        zone, begin, end, hosts, tuple(cause or ()), tuple(system or ()), max_bad_share, merge=not refuse_overlaps
    )
    for file in files:
        refuse_unreadable(file)
    # Both places are checked before the log is read.
    refuse_page(report, force=force)
    if out is not None:
        refuse_unwritable(out, force=force, option="--out")
    with progress() as show_progress:
        found = read_failures(
            files, question, on=on, draws=draws, seed=seed, on_progress=lambda text: show_progress(text, None)
        )
    if out is not None:
        write_failures(found, out, force=force)
    if report is not None:
        again = said_again()
        write_text(report, render_page(failures_page(found, command=again)), force=force)
    if as_json:
        terminal.print_json(document(found))
    else:
        terminal.show(*_facts(found), *_tables(found), *_verdicts(found))


def _facts(found: FailureAnswer) -> list[str]:
    said, log = document(found, hosts=False), found.log
    records = said["records"]
    bad = ", ".join(f"{n} {why}" for why, n in records["bad"].items()) or "none"
    low, high = said["mttf_interval_s"]
    interval = display.between(low, high)
    lines = [
        ("window", f"{said['window']['begin']} to {said['window']['end']}"),
        ("hosts", f"{said['hosts']}, {said['hosts_without_failure']} of them without a failure"),
        ("records", f"{records['used']} of {records['read']} used; {records['merged_into_others']} overlap or touch"),
        ("bad records", bad),
        (
            "failures",
            f"{display.count(log.failures)}, {display.number(said['failures_per_host_year'], 4)} a year and host",
        ),
        ("mean up time (MTTF)", f"{display.duration(said['mttf_s'])}, 95 % {interval} if failures are Poisson"),
        ("mean repair (MTTR)", _mean(said["mttr_s"], said["mttr_interval_s"])),
        ("unavailability", display.share(said["unavailability"])),
    ]
    if said["causes"] and set(said["causes"]) != {"not given"}:
        shown = sorted(said["causes"].items(), key=lambda pair: (-pair[1], pair[0]))
        lines.append(("causes", ", ".join(f"{name} {n}" for name, n in shown[:8])))

    return facts(lines, 21)


def _mean(value: float | None, interval: Sequence[float] | None) -> str:
    shown = display.duration(value)
    return shown if interval is None else f"{shown}, 95 % {display.between(interval[0], interval[1])}"


def _tables(found: FailureAnswer) -> list[Table]:
    known = (("up-laws", "Up times, best first", found.up), ("repair-laws", "Repair times, best first", found.repair))
    laws = [laws_table(name, title, laws).brief for name, title, laws in known if laws]
    return [*laws, hosts_table(found.log).brief.cut(_MOST_HOSTS)]


def _verdicts(found: FailureAnswer) -> list[str]:
    """Return the conclusions, in sentences."""
    lines = [verdict(noun, laws) for noun, laws in (("Up times", found.up), ("Repair times", found.repair))]
    differ = hosts_differ(found)
    return [*lines, differ] if differ else lines
