"""`holdfast ingest`: from a trace to the profile of its load. stdout is data, stderr is for messages."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from analysis.spark.ingest import ingest as profile_of
from holdfast.progress import Stopwatch, progress
from holdfast.terminal import print_json, show, table
from models import display, units
from models.errors import InputError, InputFault, raise_if_any
from scenarios.files.documents import refuse_unreadable
from scenarios.files.profiles import check_target, profile_summary, write_profile


def ingest(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Trace: .csv, .jsonl (or .gz) or .parquet")],
    key: Annotated[str, typer.Option(help="Column whose hash is the key group")],
    time: Annotated[str, typer.Option(help="Column with the time of a row; without a zone it is UTC")],
    key_groups: Annotated[int, typer.Option(help="How many key groups")],
    out: Annotated[Path, typer.Option(help="Directory of the profile")],
    bin_: Annotated[str, typer.Option("--bin", help='Length of a bin, as in "1 h"')] = "1 h",
    copies: Annotated[int, typer.Option(help="Copies of the volume, each with key groups of its own, summed")] = 1,
    weight: Annotated[str | None, typer.Option(help="Column that says how many rows a row stands for")] = None,
    where: Annotated[str | None, typer.Option(help="Rows to keep: a condition in SQL")] = None,
    stream: Annotated[
        list[str] | None, typer.Option(metavar="NAME=SQL", help="A stream of its own; may be repeated")
    ] = None,
    schema: Annotated[
        str | None, typer.Option(help='Columns with types, as in "ts TIMESTAMP, id STRING"; else flights')
    ] = None,
    max_bad_share: Annotated[float, typer.Option(help="Share of bad rows above which ingest stops")] = 0.05,
    force: Annotated[bool, typer.Option("--force", help="Replace the profile in --out")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document")] = False,
) -> None:
    """Make the profile of a trace: its load by stream, key group and bin, and the correlation of the loads.

    Exit code 0: the profile is written; 2: bad input.
    """
    # All that can be refused without Spark is refused first.
    bin_s, streams = _seconds(bin_), _streams(stream)
    for file in files:
        refuse_unreadable(file)
    check_target(out, force=force)
    with progress() as show:
        show_progress = Stopwatch(show, "checking")
        profile, quarantine = profile_of(
            files, key=key, time=time, where=where, streams=streams, key_groups=key_groups, bin_s=bin_s,
            copies=copies, weight=weight, schema=schema, max_bad_share=max_bad_share, on_progress=show_progress,
        )  # fmt: skip
        show_progress("writing", None)
        write_profile(profile, out, quarantine, force=force)
    summary, took = profile_summary(profile), show_progress.seconds()
    if json:
        print_json({**summary, "wall_s": took})
    else:
        _show(summary, took)


def _seconds(text: str) -> float:
    try:
        return units.parse(text, "s")
    except units.UnitError as error:
        raise InputError.at("ingest.bin", text, error.rule, error.hint) from None


def _streams(given: list[str] | None) -> dict[str, str] | None:
    if not given:
        return None
    found: dict[str, str] = {}
    faults: list[InputFault] = []
    for text in given:
        name, equals, sql = text.partition("=")
        if not equals or not name.strip():
            faults += InputError.at("ingest.streams", text, "must be NAME=SQL").faults
        elif name.strip() in found:
            faults += InputError.at("ingest.streams", name.strip(), "is named more than once").faults
        else:
            found[name.strip()] = sql
    raise_if_any(faults)
    return found


def _show(summary: dict[str, Any], took: dict[str, float]) -> None:
    totals, air = summary["totals"], summary["minutes_in_air"]
    streams = [
        (
            name,
            display.count(rate["rows"]),
            display.share(summary["selectivity"][name]),
            display.number(rate["mean_per_s"], 4),
            display.number(rate["peak_per_s"], 4),
            f"{summary['correlation']['between_groups'][name][name]:.2f}",
        )
        for name, rate in summary["rates"].items()
    ]
    top = ", ".join(f"{pair['key'][:_LONGEST_KEY]} ({display.count(pair['rows'])})" for pair in summary["top_keys"][:3])
    facts = [
        ("rows read", display.count(totals["rows_read"])),
        ("kept / dropped / bad", " / ".join(display.count(totals[f"rows_{fate}"]) for fate in _FATES)),
        ("key groups", f"{summary['key_groups']} ({summary['hash']} of {display.count(summary['keys'], 'key')})"),
        *([("weight", f"each row counts as often as {summary['weight']} says")] if "weight" in summary else []),
        *([("copies", f"{summary['copies']}, each with key groups of its own")] if summary["copies"] > 1 else []),
        ("bins", f"{display.count(summary['bins'])} of {display.duration(summary['bin_s'])} from {summary['start']}"),
        ("most frequent keys", top),
    ]
    if air:
        facts.append(
            ("minutes in the air", f"{display.count(air['total'])}, {display.number(air['mean'], 4)} on average")
        )
    of_it = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in took.items())
    first, *others = textwrap.wrap(f"{sum(took.values()):.1f} s: {of_it}", 80 - _INDENT)
    facts += [("took", first), *(("", line) for line in others)]
    title = f"{', '.join(summary['sources'])} by {summary['key']}"
    headings = ("stream", "rows", "share", "rows/s", "peak rows/s", "r of groups")
    show(table(title, headings, streams), *(f"{name:<{_INDENT}}{value}" for name, value in facts))


_LONGEST_KEY = 20
_INDENT = 22
_FATES = ("kept", "dropped", "quarantined")
