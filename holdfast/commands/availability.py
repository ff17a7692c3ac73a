"""`holdfast availability`: how often queries are broken because hosts are down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.report import render_page
from holdfast import terminal
from models import display
from models.reliability.description import warnings
from models.reliability.times import downtime_s
from scenarios.files.write_once import refuse_page, write_text
from scenarios.reliability.availability import Answer, Figure, answer, document, read_with_doubts, weakest
from scenarios.reliability.importance import Element, Importance, Replica, importances

if TYPE_CHECKING:
    from models.table import Table
    from scenarios.reliability.availability import Answer, Figure
    from scenarios.reliability.importance import Element, Importance, Replica

_MOST_ROWS = 20
_MOST_COLUMNS = 5
_MOST_NAMED = 4  # queries that a single point of failure breaks
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
        terminal.show(*_tables(found), *_weakest(found), *_importance_tables(found_importance), *_notes(found), *doubts)
    if found.missed:
        missed = f"{len(found.missed)} of {len(description.queries)} queries miss {_percent(found.target)}"
        typer.echo(missed + (" in some setting" if len(found.lines) > 1 else ""), err=True)
        raise typer.Exit(MISSED)


def _tables(found: Answer) -> list[Table]:
    rows = [
        [line.label, _number(line.mean), _span(line.mean), _number(line.some), line.mean.method] for line in found.lines
    ]
    columns = ["setting", "mean unavail.", "a month", "some broken", "method"]
    return [terminal.table("All queries", columns, rows), *_known(found), *_joint(found), _by_query(found)]


def _known(found: Answer) -> list[Table]:
    """Return a table of both ends of figures that are sampled or have bounds."""
    rows = [
        [line.label, _ends(line.mean), _ends(line.some), *(_ends(line.short[share]) for share in (0.95,) if line.short)]
        for line in found.lines
        if any(one is not None and one.low < one.high for one in (line.mean, line.some, *line.short.values()))
    ]
    if not rows:
        return []
    columns = ["setting", "mean unavail.", "some broken", "< 95 % run"]
    width = max(map(len, rows))
    return [terminal.table("Known to lie in (sampled: with 95 %)", columns[:width], [row[:width] for row in rows])]


def _joint(found: Answer) -> list[Table]:
    """Return a table of P(fewer than a share of the queries run); none where no setting has it."""
    lines = [line for line in found.lines if line.short]
    if not lines:
        return []
    shares = list(lines[0].short)
    rows = [[line.label, *(_number(line.short[share]) for share in shares)] for line in lines]
    columns = ["setting", *(f"< {_percent(share)}" for share in shares)]
    return [terminal.table("Probability that fewer queries run", columns, rows)]


def _by_query(found: Answer) -> Table:
    names, last = list(found.description.queries), found.lines[-1]
    open_ends = any(one.low < one.high for one in last.queries)
    lines = found.lines[-(_MOST_COLUMNS - 2 * open_ends) :]
    order = sorted(range(len(names)), key=lambda query: (-lines[-1].queries[query].high, query))[:_MOST_ROWS]
    rows = [
        [
            names[query],
            *(_number(line.queries[query]) for line in lines),
            *([_ends(last.queries[query])] if open_ends else []),
            last.queries[query].method,
        ]
        for query in order
    ]
    more = f"the worst {len(order)} of {len(names)}" if len(order) < len(names) else "worst first"
    columns = ["query", *(line.label for line in lines), *(["known to lie in"] if open_ends else []), "method"]
    return terminal.table(f"Unavailability by query, {more}", columns, rows)


def _weakest(found: Answer) -> list[Table | str]:
    """Return single points of failure, and how many failures queries take: by structure, the same in all settings."""
    alone, fewest = weakest(found.description)
    failures = "hosts or domains" if found.description.domains else "hosts"
    counts = sorted(Counter(fewest.values()).items(), key=lambda one: (one[0] is None, one[0]))
    parts = [f"{size or 'not known'} ({of} {'query' if of == 1 else 'queries'})" for size, of in counts]
    note = f"Fewest {failures} down that break a query: {', '.join(parts)}."
    rows = [(one.name, one.kind, _few(one.queries), f"{len(one.queries)}") for one in alone[:_MOST_ROWS]]
    if not rows:
        return [note]
    more = f", the first {len(rows)} of {len(alone)}" if len(rows) < len(alone) else ""
    title = f"Single points of failure, of {len(fewest)} queries{more}"
    return [terminal.table(title, ("fails", "kind", "breaks", "queries"), rows, text_columns=3), note]


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")


def _importance_tables(found: Sequence[Importance]) -> list[Table]:
    """Return tables of the importance of elements, and of gains of replicas, for the last setting."""
    if not found:
        return []
    last = found[-1]
    elements = [(one.name, _between(one)) for one in last.elements[:_MOST_ROWS]]
    replicas = [(one.operator, one.host, _between(one)) for one in last.replicas[:_MOST_ROWS]]
    left = f", {last.left_out} operators not tried" if last.left_out else ""
    return [
        terminal.table(f"Importance (Birnbaum), {last.label}", ("host or domain", "decides"), elements),
        terminal.table(
            f"One more replica, {last.label}{left}", ("operator", "host", "mean gains"), replicas, text_columns=2
        ),
    ]


def _between(one: Element | Replica) -> str:
    return display.between(one.low, one.high, display.share, 4)


def _notes(found: Answer) -> list[str]:
    notes, times = [], found.description.times
    if times is not None and times.mttf_s is not None:
        down = "" if times.mttr_s is None else f", down {display.duration(times.mttr_s)}"
        notes.append(f"Hosts fail after {display.duration(times.mttf_s)}{down}.")
    if found.target is not None:
        notes.append(f"{_percent(found.target)} allows {display.duration(downtime_s(1 - found.target))} a month.")
    shown_of = _MOST_COLUMNS - 2 * any(one.low < one.high for one in found.lines[-1].queries)
    if len(found.lines) > shown_of:
        notes.append(f"By query the last {shown_of} of {len(found.lines)} settings; --json has all.")
    shown = [one for line in found.lines for one in (*line.queries, line.mean, line.some, *line.short.values()) if one]
    if any(one.estimate is not None for one in shown):
        notes.append("~: sampled; an interval or a ≤ of such a value holds with 95 %, and --json has all of them.")
    if any(one.value is None for one in shown):
        notes.append("LOW–HIGH: the exact value lies between these bounds.")
    return notes


def _number(figure: Figure | None) -> str:
    if figure is None:
        return display.NONE
    value = figure.value
    if value is None:
        return display.between(figure.low, figure.high, display.share)
    if figure.estimate == 0:
        return display.at_most(figure.high, display.share)
    return f"{'~' if figure.estimate is not None else ''}{display.share(value)}"


def _ends(figure: Figure | None) -> str:
    if figure is None:
        return display.NONE
    return "exact" if figure.low == figure.high else display.between(figure.low, figure.high, display.share)


def _span(figure: Figure) -> str:
    """Time down in a month; the upper end where there are only bounds, or nothing was seen."""
    value = None if figure.estimate == 0 else figure.value
    return display.at_most(downtime_s(figure.high)) if value is None else display.duration(downtime_s(value))


def _percent(share: float | None) -> str:
    return "" if share is None else display.share(share, 10)
