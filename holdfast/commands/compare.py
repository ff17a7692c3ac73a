"""`holdfast compare`: two designs side by side, or all designs of a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast import sweep_tables, terminal
from holdfast.progress import progress
from models.errors import NO_VALUE, InputError
from scenarios.runs.execute import COMPILING
from scenarios.sweeps.designs import compare_designs, read_design
from scenarios.sweeps.side_by_side import document, metrics_side_by_side, sentences, side_by_side
from scenarios.sweeps.store import PLAN
from scenarios.sweeps.sweep import read_sweep


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="Run directory, sweep directory:DESIGN, or scenario file")],
    second: Annotated[
        str | None, typer.Argument(metavar="B", help="The same, for the other design; without it A is a whole sweep")
    ] = None,
    metric: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Metric to compare; repeatable")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Compare all metrics that both have")] = False,
    replications: Annotated[
        int | None, typer.Option(min=1, help="Replications of designs that are simulated for this")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes for replications")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print all differences as one JSON document")] = False,
) -> None:
    """Say in which metrics two designs differ, with 95 % intervals; or show all designs of a sweep in one table."""
    if second is None:
        if replications is not None:
            raise InputError.at("--replications", replications, "is for two designs", "a sweep has its runs already")
        _all_designs(first, metric, everything, as_json)
        return
    with progress() as show_progress:
        designs = [
            read_design(
                text,
                replications=replications,
                workers=workers,
                on_progress=lambda share, text=text: show_progress(f"simulating {text}", share),  # type: ignore[misc]
                on_compile=lambda share: show_progress(COMPILING, share),
            )
            for text in (first, second)
        ]
    # A document is for programs, which choose for themselves: it has all metrics.
    found = compare_designs(*designs, metrics=metric, everything=everything or as_json)
    if as_json:
        terminal.print_json(found.document())
        return
    terminal.show(f"A: {designs[0].title}", f"B: {designs[1].title}", sweep_tables.comparison_table(found.differences))
    words = sweep_tables.comparison_words(found.differences)
    terminal.show(*filter(None, [found.sentence(), words, found.unfinished(), found.resolution()]))


def _all_designs(directory: str, metric: list[str] | None, everything: bool, as_json: bool) -> None:
    """Show all designs of a sweep beside each other."""
    if everything:
        raise InputError.at("--all", NO_VALUE, "is for two designs", "name metrics with --metric")
    if not (Path(directory) / PLAN).is_file():
        raise InputError.at("B", NO_VALUE, f"is missing, and {directory} is no directory of a sweep")
    result = read_sweep(directory)
    names = metrics_side_by_side(result, metric)
    if as_json:
        terminal.print_json(document(result, names))
    else:
        table = side_by_side(result, names).brief
        parts = terminal.in_parts(table, len(result.plan.scenario.sweep))
        terminal.show(*parts, *sentences(result), sweep_tables.sweep_line(result))
