"""Charts and a table of the study of Megaphone, for the page of claims.

Longest latencies by bins, keys and query; latency over time for each query; memory over time; the overhead of bins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from analysis.report.parts import Chart
from models import display
from models.table import Column, Table
from scenarios.studies.reproduce.bin_moves import BinMove, Strategy
from scenarios.studies.reproduce.live_migration import (
    COARSE,
    LOADED_KEYS,
    MORE_KEYS,
    NATIVE,
    NUMBERS_OF_BINS,
    QUERIES,
    RESOLUTIONS,
    STEPPED,
    STILL,
    TABLE,
    Made,
    Moved,
    counted,
    query,
    resolved,
    sooner,
)

_SHOWN: tuple[Strategy, ...] = ("all-at-once", "optimised")
_STRATEGIES: tuple[Strategy, ...] = ("all-at-once", *STEPPED)
_STATE = {
    "q1": "no state",
    "q3": "a join that grows",
    "q4": "open auctions and their bids",
    "q5": "bids of 60 panes of 1 s",
}
_STATE |= {"q7": "one value of each window and bin", "q8": "persons, for a join in windows of 12 h"}
_ALIKE = {"q1": "Queries 1 and 2", "q4": "Queries 4 and 6"}  # what moves is the same; they differ behind it


def migration_charts(found: Made) -> tuple[Chart, ...]:
    """Return all charts: by the number of bins, and by that of keys, with closed forms as marks; then over time."""
    return (*_by_size(found), _overhead(found), _memory(found), *(_over_time(found, name) for name in QUERIES))


def _by_size(found: Made) -> tuple[Chart, Chart]:
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


def _overhead(found: Made) -> Chart:
    """Return the latency without a migration by the number of bins."""
    runs = [one for one in STILL if one.scanned]
    native = display.duration(found.still[NATIVE][0])
    return Chart(
        "overhead",
        "Latency while nothing moves, by the number of bins",
        "bins",
        "latency of the frontier",
        "s",
        np.array([one.bins for one in runs], np.float64),
        ("90 % are below",),
        np.array([[found.still[one][0] for one in runs]]),
        f"A worker looks at all bins in each round; without bins 90 % are below {native}. Rings are the paper's, the "
        "middle one of three experiments. The time of a bin was fitted to them.",
        np.array([[float(np.median(TABLE[one.bins][0])) if one.bins in TABLE else np.nan for one in runs]]),
        "the paper",
        x_unit="",
        digits=4,
        log=True,
    )


def _memory(found: Made) -> Chart:
    """Return what the machine that holds most holds, over time, of the largest state."""
    moves = [counted(one, LOADED_KEYS) for one in _SHOWN]
    return _of_slots(
        moves,
        np.array([found.of(move).held_bytes or [np.nan] * (move.slots_s.size - 1) for move in moves]) / 2**30,
        "memory",
        f"Memory of the machine that holds most, {display.count(LOADED_KEYS / 1e6)} million keys",
        ("held by its tasks", "GiB"),
        "All at once a machine holds copies of all that it sends and receives; in steps, of the bins of one step.",
    )


def _over_time(found: Made, name: str) -> Chart:
    """Return the latency over time of a query."""
    moves = [query(name, one) for one in _STRATEGIES]
    values = [found.of(move).latency_s or [None] * (move.slots_s.size - 1) for move in moves]
    lasting = display.duration(found.of(query(name, "fluid")).duration_s)
    return _of_slots(
        moves,
        np.array(values, np.float64),
        f"time-{name}",
        f"{_ALIKE.get(name, f'Query {name[1:]}')}: longest latency of what comes at a time ({_STATE[name]})",
        ("latency", "s"),
        f"A quarter of 4,096 bins of {display.size(_of_a_bin(found, name))} moves from 0 s on. One by one (fluid) that "
        f"takes {lasting}, beyond the end of the figure.",
    )


def _of_slots(
    moves: Sequence[BinMove], values: np.ndarray, name: str, title: str, axis: tuple[str, str], caption: str
) -> Chart:
    edges_s = moves[0].slots_s
    times = axis[1] == "s"
    middle_s = (edges_s[1:] + edges_s[:-1]) / 2
    return Chart(
        name,
        title,
        "since the begin of the migration",
        *axis,
        middle_s,
        tuple(move.strategy for move in moves),
        values,
        caption,
        x_unit="s",
        digits=4,
        from_zero=not times,
        log_values=times,
    )


def _of_a_bin(found: Made, name: str) -> float:
    """Return the size of a bin of a query as it moves back, on average [B]."""
    made = found.of(query(name, "all-at-once"))
    return made.moved_bytes / made.move.moved


def queries_table(found: Made) -> Table:
    """Return the longest latency of each query by each strategy, that of an idle job included."""
    columns = (
        Column("query", number=False),
        Column("bytes of a bin", display.size),
        Column("all at once", display.duration),
        Column("fluid", display.duration),
        Column("optimised", display.duration),
        Column("resolution", number=False),
    )
    rows = []
    for name in QUERIES:
        made = [found.of(query(name, one)) for one in _STRATEGIES]
        times = (one.longest_s + one.least_s for one in made)
        rows.append((name, _of_a_bin(found, name), *times, ", ".join(str(one.resolution) for one in made)))
    note = "Queries 1 and 4 have their state by formula; that of the others comes by what they do."
    return Table("Queries of NEXMark: longest latency", columns, tuple(rows), "queries", note)


def resolutions_table(found: Made) -> Table:
    """Return what a migration takes by its resolution, of which 1 is exact, with the relative difference to that."""
    heads = ("longest latency", "duration", "records that wait", "extra memory")
    count: Callable[[float | None], str] = partial(display.number, digits=4)
    forms = (display.duration, display.duration, count, display.size)

    def figures(resolution: int) -> tuple[float | None, ...]:
        one = found.of(resolved(resolution))
        return one.longest_s, one.duration_s, one.queue, one.extra_bytes

    rows = [(one, *_beside_exact(forms, figures(one), figures(1) if one > 1 else None)) for one in RESOLUTIONS]
    errors = [*map(resolved, RESOLUTIONS), *(sooner(name, exact=exact) for name in COARSE for exact in (True, False))]
    coarse = [one.resolution for move, one in found.moved.items() if move not in errors]
    note = (
        f"One simulated record stands for as many as the resolution says, for {min(coarse)} to {max(coarse)} in the "
        "migrations of the claims. Here it is a smaller one, of which each record can be simulated: 1,024 bins of "
        "2 MB, optimised, at 4 million records/s."
    )
    columns = (Column("resolution"), *(Column(head) for head in heads))
    return Table("What the resolution changes", columns, tuple(rows), "resolution", note)


def _beside_exact(
    forms: Sequence[Callable[[float | None], str]],
    values: Sequence[float | None],
    exact: Sequence[float | None] | None,
) -> list[str]:
    """Return figures as text, with their relative difference to the exact ones; None for these themselves."""
    given = [None] * len(values) if exact is None else exact
    return [
        form(value) + (f", {display.share(value / true - 1, 2)}" if value is not None and true else "")
        for form, value, true in zip(forms, values, given, strict=True)
    ]


def query_resolutions_table(found: Made) -> Table:
    """Return what the resolutions of queries change, after a tenth of the time, in which each record is simulated."""
    count: Callable[[float | None], str] = partial(display.number, digits=4)
    forms = (display.duration, display.duration, count, display.size)

    def figures(one: Moved) -> tuple[float | None, ...]:
        return one.longest_s + one.least_s, one.duration_s, one.queue, one.moved_bytes

    rows = []
    for name in COARSE:
        exact, coarse = (found.of(sooner(name, exact=one)) for one in (True, False))
        rows.append((name, exact.resolution, *_beside_exact(forms, figures(exact), None)))
        rows.append((name, coarse.resolution, *_beside_exact(forms, figures(coarse), figures(exact))))
    heads = ("longest latency", "duration", "records that wait", "states that move")
    columns = (Column("query", number=False), Column("resolution"), *(Column(head) for head in heads))
    note = "After a tenth of the time, with windows of a tenth of their length, optimised, so that states are small."
    return Table("What the resolution changes in queries", columns, tuple(rows), "query-resolution", note)


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
