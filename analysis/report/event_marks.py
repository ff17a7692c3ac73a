"""Mark failures, moves, rebalances and hosts that come and go below a figure over time, each kind in its own row.

Rows below the figure share its time axis, so that a rise of latency can be traced to what happened then. The same
events are listed as text, for readers who do not see the figure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.report import text
from analysis.report.content import Decision
from analysis.report.figure import Figure, Spec, reading
from analysis.runs.migration_kinds import ClassifiedMigration
from analysis.runs.recovery_summary import Recovery
from analysis.runs.run_summary import Reconfiguration
from models import display
from models.records.decisions import Action

_ROW = 26  # height [px]
_MOST_MARKS, _MOST_LISTED = 300, 200
_CROWD = 80  # marks of a row
_SHAPES = {
    "failures": ("x", "var:--crash"),
    "rebalances": ("star", "var:--c4"),
    "hosts": ("square", "var:--c5"),
    "assisted": ("triangle-up", "var:--c3"),
    "direct": ("diamond", "var:--c2"),
    "moves": ("triangle-up", "var:--c1"),
    "steps": ("triangle-right", "var:--c1"),
}
_ROWS: dict[str, str] = {Action.ACQUIRE: "hosts", Action.RELEASE: "hosts", Action.REBALANCE: "rebalances"}
_NAMES = {"hosts": "hosts come, go", "assisted": "assisted moves", "direct": "direct moves"}
_NAMES |= {"steps": "moves in steps"}


@dataclass(frozen=True)
class _Mark:
    """One event: the row below the figure, its instant [s], and its text."""

    row: str
    at_s: float
    said: str


def with_marks(
    figure: Figure,
    *,
    recoveries: Sequence[Recovery],
    migrations: Sequence[ClassifiedMigration],
    decisions: Sequence[Decision],
    replication: int,
    reconfigurations: Sequence[Reconfiguration] = (),
) -> Figure:
    """Return the figure with marks of events in the replication, and a list of them for those who do not see it.

    Only events of `replication` are marked. The height of the figure grows by a row for each kind of event; a figure
    whose only events are failures stays as it is, since a line and a name mark these already. More than 300 marks of a
    kind are drawn in groups, and at most 200 events are listed (`Figure.events_left` counts the others).
    """
    marks = _marks(recoveries, migrations, decisions, reconfigurations, replication)
    rows = [row for row in reversed(_SHAPES) if any(mark.row == row for mark in marks)]
    figure = replace(figure, events=_listed(marks), events_left=max(0, len(marks) - _MOST_LISTED))
    if not set(rows) - {"failures"}:  # a line and a name say that already
        return figure
    height = figure.height + _ROW * len(rows) + 12
    # Domains of axes are shares of the plot, which is the figure without its margins.
    share = (_ROW * len(rows)) / (height - 90)
    layout = {
        **figure.layout,
        "xaxis": {**figure.layout["xaxis"], "anchor": "y2"},
        "yaxis": {**figure.layout["yaxis"], "domain": [share + 0.04, 1]},
        "yaxis2": {
            "domain": [0, share],
            "range": [-0.6, len(rows) - 0.4],
            "tickvals": list(range(len(rows))),
            "ticktext": [_NAMES.get(row, row) for row in rows],
            "fixedrange": True,
            "zeroline": False,
        },
    }
    drawn = [_trace(row, place, [mark for mark in marks if mark.row == row]) for place, row in enumerate(rows)]
    return replace(
        figure,
        caption=f"{figure.caption} {_counted(marks)}".strip(),
        data=[*figure.data, *drawn],
        layout=layout,
        height=height,
    )


def _marks(
    recoveries: Sequence[Recovery],
    migrations: Sequence[ClassifiedMigration],
    decisions: Sequence[Decision],
    reconfigurations: Sequence[Reconfiguration],
    replication: int,
) -> list[_Mark]:
    """Return all events of the replication, by time."""
    # One row for each kind, whatever the figure above shows: times of different kinds can be compared by eye.
    found = [
        _Mark("failures", one.failed_s, f"{one.failed} {one.happened}")
        for one in recoveries
        if one.replication == replication
    ]
    found += [
        _Mark(one.kind or "moves", one.requested_s, f"{one.partition}: {one.origin} to {one.target}, {one.protocol}")
        for one in migrations
        if one.replication == replication
    ]
    found += [
        _Mark("steps", one.requested_s if one.begun_s is None else one.begun_s, _of_steps(one))
        for one in reconfigurations
        if one.replication == replication
    ]
    found += [
        _Mark(_ROWS[one.action], one.at_s, one.what)
        for one in decisions
        if one.replication == replication and one.action in _ROWS
    ]
    return sorted(found, key=lambda mark: mark.at_s)


def _of_steps(one: Reconfiguration) -> str:
    """Return which operator moves key groups, how, and for how long."""
    end = "not over" if one.duration_s is None else display.duration(one.duration_s)
    end = end if one.cancelled_s is None else "cancelled"
    return f"{one.operator}: {one.strategy}, {display.count(one.steps, 'step')}, {end}"


def _trace(row: str, place: int, marks: Sequence[_Mark]) -> Spec:
    """Return the marks of one row; many together are one mark, larger or longer."""
    shape, colour = _SHAPES[row]
    shown = _gathered(marks)
    most = max(count for _, _, count in shown)
    crowded = len(shown) > _CROWD
    sizes = [4 + 9 * count / most if crowded else min(18.0, 9 + 2 * math.log2(count)) for _, _, count in shown]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": _NAMES.get(row, row),
        "showlegend": False,
        "yaxis": "y2",
        "x": [at for at, _, _ in shown],
        "y": [place] * len(shown),
        "text": [said for _, said, _ in shown],
        "marker": {
            # Where they would hide each other they are bars, as long as they are many.
            "symbol": "line-ns-open" if crowded else shape,
            "size": [round(size, 1) for size in sizes],
            "color": colour,
            "line": {"color": colour, "width": 1.5},
        },
        "hovertemplate": f"%{{text}}, at {reading('x', 's', [at for at, _, _ in shown])}<extra></extra>",
        "cliponaxis": False,
    }


def _gathered(marks: Sequence[_Mark]) -> list[tuple[float, str, int]]:
    """Return (instant, words, how many) of each mark; where there are too many, of what falls together."""
    begin, end = marks[0].at_s, marks[-1].at_s
    # Without a width marks of the same instant are one, all others stay apart.
    width = (end - begin) / _MOST_MARKS if len(marks) > _MOST_MARKS else 0.0
    groups: dict[float, list[_Mark]] = {}
    for mark in marks:
        groups.setdefault(math.floor((mark.at_s - begin) / width) if width else mark.at_s, []).append(mark)
    found = []
    for together in groups.values():
        first = text.label(together[0].said, 60)
        more = f" and {len(together) - 1} more" if len(together) > 1 else ""
        found.append((float(f"{together[0].at_s:.6g}"), first + more, len(together)))
    return found


def _counted(marks: Sequence[_Mark]) -> str:
    """Return how many there are of each kind."""
    count = Counter(mark.row for mark in marks)
    one = {"failures": "failure", "hosts": "host that comes or goes", "assisted": "assisted move"}
    one |= {"direct": "direct move", "moves": "move", "rebalances": "rebalance", "steps": "move in steps"}
    many = {"hosts": "hosts that come or go", "steps": "moves in steps"}
    said = [f"{n:,} {one[row] if n == 1 else many.get(row, f'{one[row]}s')}" for row in _SHAPES if (n := count[row])]
    return f"Marked below: {', '.join(said)}."


def _listed(marks: Sequence[_Mark]) -> tuple[tuple[str, str], ...]:
    return tuple((f"{text.number(mark.at_s, 6)}\u00a0s", text.plain(mark.said)) for mark in marks[:_MOST_LISTED])
