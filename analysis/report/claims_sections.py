"""The sections about claims of papers: the claims themselves, curves beside theirs, and what they hang on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from analysis.report import text
from analysis.report.figure import Figure, Section, Spec, header, log_ticks, plain_list, reading
from analysis.report.parts import Chart, ClaimRow
from analysis.report.text import Style, styles
from models import display
from models.table import Column, Table, rows_of

_VERDICTS = {True: "holds", False: "does not hold", None: "not tried"}


def claims_section(claims: Sequence[ClaimRow]) -> Section | None:
    """Return every claim with the paper's value, ours and the verdict, and causes where one does not hold."""
    if not claims:
        return None
    tried = [row for row in claims if row.holds is not None]
    held = sum(bool(row.holds) for row in tried)
    words = f"{held} of {len(tried)} claims that were tried hold, by tolerances that were fixed before."
    why = [row for row in claims if row.cause]
    tables = [claims_table(claims), *([_causes(why)] if why else [])]
    return Section("claims", "Claims", "Claims", words, tables=tuple(tables))


def claims_table(rows: Sequence[ClaimRow], title: str = "Claims and what came out") -> Table:
    """Return the table of claims: the paper's value, ours, the tolerance and the verdict."""
    columns = (
        Column("claim", of="claim", number=False, whole=True),
        Column("verdict", lambda holds: _VERDICTS[holds], "holds", number=False),
        Column("what it says", of="text", number=False, prose=True, wide=True),
        Column("paper", of="paper", number=False),
        Column("here", lambda ours: ours or text.NONE, "ours", number=False, prose=True),
        Column("accepted", of="tolerance", number=False, prose=True, wide=True),
    )
    return Table(title, columns, rows_of(rows, columns), "claims")


def _causes(rows: Sequence[ClaimRow]) -> Table:
    columns = (Column("claim", of="claim", number=False), Column("why", of="cause", number=False, prose=True))
    return Table("Why, and on what it hangs", columns, rows_of(rows, columns), "causes")


def charts_section(charts: Sequence[Chart]) -> Section | None:
    """Return the curves; None without any."""
    drawn_as = styles(name for one in charts for name in one.names)
    drawn = [_chart(one, drawn_as) for one in charts if one.values.size]
    return Section("curves", "Curves", "Curves", figures=tuple(drawn)) if drawn else None


def _chart(given: Chart, drawn_as: Mapping[str, Style]) -> Figure:
    data = [_line(given, k, drawn_as[name]) for k, name in enumerate(given.names)]
    if given.marks is not None:
        data += [
            _marks(given, k, drawn_as[given.names[k]])
            for k in range(len(given.names))
            if np.isfinite(given.marks[k]).any()
        ]
    x_unit = given.unit if given.x_unit is None else given.x_unit
    x_axis = f"{given.x_axis} [{x_unit}]" if x_unit else given.x_axis
    y_axis: Spec = {"title": {"text": f"{given.y_axis} [{given.unit}]"}}
    y_axis |= {"rangemode": "tozero"} if given.from_zero else {}
    across: Spec = {"title": {"text": x_axis}, "unifiedhovertitle": header(x_unit)}
    if given.log or given.log_values:
        seen = given.values[np.isfinite(given.values)]
        y_axis = {"title": {"text": given.y_axis}, "type": "log", **log_ticks(seen, seen)}
    if given.log:
        across |= {"type": "log", "tickvals": plain_list(given.x), "ticktext": [display.count(at) for at in given.x]}
    layout: Spec = {
        "xaxis": across,
        "yaxis": y_axis,
        "showlegend": True,
        "hovermode": "x unified",
    }
    rows = tuple(
        (display.number(at, 6), *(text.NONE if not np.isfinite(v) else f"{v:.{given.digits}f}" for v in column))
        for at, column in zip(given.x.tolist(), given.values.T.tolist(), strict=True)
    )
    heads = (x_axis, *map(text.plain, given.names))
    return Figure(given.name, given.title, given.caption, data, layout, 420, heads, rows)


def _line(given: Chart, k: int, drawn: Style) -> Spec:
    colour, dash, symbol = drawn
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": text.label(given.names[k], 28),
        "x": plain_list(given.x),
        "y": plain_list(given.values[k]),
        "line": {"color": colour, "width": 2.2, "dash": dash},
        "marker": {"color": colour, "size": 6, "symbol": symbol},
        "hovertemplate": reading("y", given.unit, given.values[k]),
    }


def _marks(given: Chart, k: int, drawn: Style) -> Spec:
    assert given.marks is not None
    return {
        "type": "scatter",
        "mode": "markers",
        "name": text.label(f"{given.names[k]}, {given.marked}", 44),
        "x": plain_list(given.x),
        "y": plain_list(given.marks[k]),
        "marker": {"color": drawn.colour, "size": 11, "symbol": "circle-open"},
        "hovertemplate": reading("y", given.unit, given.marks[k]),
        "showlegend": False,
    }


def methods_section(tables: Sequence[Table]) -> Section | None:
    """Return methods of recovery side by side; None without any."""
    return Section("methods", "Methods of recovery", "Methods", tables=tuple(tables)) if tables else None


def grids_section(grids: Sequence[Table]) -> Section | None:
    """Return the values under other assumptions; None without any."""
    if not grids:
        return None
    return Section("grids", "What hangs on the assumptions", "Assumptions tried", tables=tuple(grids))
