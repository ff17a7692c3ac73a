"""Charts and a table of the study of Megaphone, for the page of claims: latencies by bins, keys and query."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from analysis.report.parts import Chart
from models import display
from models.table import Column, Table
from scenarios.studies.reproduce.bin_moves import BinMove, Strategy
from scenarios.studies.reproduce.live_migration import (
    MORE_KEYS,
    NUMBERS_OF_BINS,
    QUERIES,
    STEPPED,
    Made,
    counted,
    query,
)


def migration_charts(found: Made) -> tuple[Chart, Chart]:
    """Return the longest latency by the number of bins, and by that of keys, with the closed forms as marks."""
    bins = NUMBERS_OF_BINS["optimised"]
    return (
        _chart(
            found,
            "latency-bins",
            "Longest latency by the number of bins",
            "bins",
            bins,
            {name: lambda count, name=name: counted(name, bins=count) for name in STEPPED},  # type: ignore[misc]
            "4,096 million keys, of which a quarter moves: twice as many bins make each step half as long.",
        ),
        _chart(
            found,
            "latency-keys",
            "Longest latency by the number of keys",
            "million keys",
            [keys / 1e6 for keys in MORE_KEYS],
            {name: lambda keys, name=name: counted(name, keys * 1e6) for name in ("all-at-once", *STEPPED)},  # type: ignore[misc]
            "4,096 bins: a step takes as long as its states, and all at once is one step.",
        ),
    )


def queries_table(found: Made) -> Table:
    """Return the longest latency of each query by both strategies, that of an idle job included."""
    columns = (
        Column("query", number=False),
        Column("bytes of a bin", display.size),
        Column("all at once", display.duration),
        Column("optimised", display.duration),
    )
    rows = []
    for name in QUERIES:
        whole, stepped = (found.of(query(name, one)) for one in ("all-at-once", "optimised"))
        times = (one.longest_s + one.least_s for one in (whole, stepped))
        rows.append((name, whole.move.bin_bytes, *times))
    return Table("Queries of NEXMark: longest latency", columns, tuple(rows), "queries")


def _chart(
    found: Made,
    name: str,
    title: str,
    axis: str,
    at: Sequence[float],
    moves: dict[Strategy, Callable[[float], BinMove]],
    caption: str,
) -> Chart:
    asked = [[made(x) for x in at] for made in moves.values()]
    seen = [[found.of(move).longest_s if move in found.moved else np.nan for move in row] for row in asked]
    formed = [[move.longest_s if move in found.moved else np.nan for move in row] for row in asked]
    return Chart(
        name,
        title,
        axis,
        "longest latency",
        "s",
        np.array(at, np.float64),
        tuple(moves),
        np.array(seen),
        f"{caption} Rings are closed forms.",
        np.array(formed),
        "closed form",
        x_unit="",
        digits=4,
        log=True,
    )
