"""All designs of a sweep in one table: a row for each design, a column for each metric, and why some cannot run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from analysis.comparison import mean_over
from analysis.runs.metrics import quantity
from analysis.runs.undone_moves import UndoneMoves, undone_moves
from models import display
from models.errors import InputError
from models.scenario.reading import DesignPoint
from models.scenario.rules import not_simulated
from models.scenario.scenario import Scenario
from models.table import Column, Table
from scenarios.sweeps.plan import short_names
from scenarios.sweeps.summary import chosen_metrics
from scenarios.sweeps.sweep import SweepResult

_OF_MOVES = {
    "moves.pause_s": "pause",
    "latency_s.max": "largest latency",
    "latency_s.p99": "p99 latency",
    "moves.completion_s": "done",
    "moves.bytes": "sent",
    "moves.replayed": "sent again",
    "guarantee.lost": "lost",
    "guarantee.state_lost": "lost in state",
    "reconfigurations.lost_bytes": "taken by crashes",
    "memory.peak_bytes": "peak memory",
}
"""Metrics of a move that people ask for, and the heads of their columns."""
_IF_ANY = ("guarantee.state_lost", "reconfigurations.lost_bytes")  # most protocols lose no state, and nothing dies


def metrics_side_by_side(result: SweepResult, requested: Sequence[str] | None) -> list[str]:
    """Return the metrics asked for; else those of moves where something moves, or the main ones."""
    return ([] if requested else metrics_of_moves(result)) or chosen_metrics(result, requested)


def metrics_of_moves(result: SweepResult) -> list[str]:
    """Return the metrics of moves that the runs have; none where nothing moves."""
    known = {name for row in result.rows for name in row.metrics}
    if not any(name.startswith("moves.") for name in known):
        return []
    none = [name for name in _IF_ANY if not any(row.metrics.get(name) for row in result.rows)]
    return [name for name in _OF_MOVES if name in known and name not in none]


def side_by_side(result: SweepResult, metrics: Sequence[str]) -> Table:
    """Return a row for each design: its settings, the mean of each metric, and the guarantee where these differ."""
    sweep = result.plan.scenario.sweep
    settings = [Column(name, number=False, whole=True) for name in short_names(list(sweep))]
    values = [Column(_OF_MOVES.get(name, name), partial(_text, name)) for name in metrics]
    held = guarantees(result)
    last = [Column("if a host fails", number=False, whole=True)] if len({*held.values()}) > 1 else []
    rows = []
    for number in range(len(result.plan.points)):
        own = result.replications(number)
        names = result.plan.short_settings(number).values()
        said = [held.get(number, "")] * len(last)
        rows.append((*names, *(mean_over(own, name).mean for name in metrics), *said))
    empty = [*[None] * len(metrics), *[""] * len(last)]
    rows += [(name, *[""] * (len(sweep) - 1), *empty) for name in _left_out(result)]
    runs = sorted({len(result.replications(number)) for number in range(len(result.plan.points))})
    many = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    title = "Designs, of one run each" if runs == [1] else f"Designs, means of {many} runs"
    return Table(title, (*settings, *values, *last), tuple(rows), "side-by-side")


def _text(metric: str, value: float | None) -> str:
    if metric.endswith("bytes"):
        return display.size(value, 2)
    return quantity(metric, value)


def _left_out(result: SweepResult) -> dict[str, str]:
    """Return design -> why it cannot run, of the designs that a sweep of `design` alone does not try."""
    scenario = result.plan.scenario
    if [*scenario.sweep] != ["design"]:
        return {}
    found = {name: _fault(scenario, name) for name in scenario.designs if name not in scenario.sweep["design"]}
    return {name: why for name, why in found.items() if why}


def reasons(result: SweepResult) -> dict[str, str]:
    """Return design -> why it has no metrics: the fault that a run of it would report."""
    found = dict[str, str]()
    for row in result.failed:
        settings = result.plan.points[row.point].settings
        found.setdefault(", ".join(map(str, settings.values())), row.message)
    return found | _left_out(result)


def _fault(scenario: Scenario, design: str) -> str:
    """Return the first fault of a design, or nothing."""
    try:
        faults = not_simulated(DesignPoint(0, {"design": design}).of(scenario))
    except InputError as error:
        faults = [*error.faults]
    return str(faults[0]) if faults else ""


def guarantees(result: SweepResult) -> dict[int, str]:
    """Return number of a design -> what it guarantees if a host fails; `none` where nothing is kept for that."""
    found: dict[int, str] = {}
    for number, point in enumerate(result.plan.points):
        try:
            tolerance = point.of(result.plan.scenario).fault_tolerance
        except InputError:
            continue
        found[number] = "none" if tolerance.method == "none" else tolerance.guarantee
    return found


def sentences(result: SweepResult) -> list[str]:
    """Return what no column says: why designs have no row."""
    there, planned = len(result.rows), result.plan.runs
    said = [f"Not finished: {there:,} of {planned:,} runs are there."] if there < planned else []
    said += [f"{design}: {why}" for design, why in reasons(result).items()]
    return said + [_unfinished(result, number) for number in range(len(result.plan.points)) if _undone(result, number)]


def _undone(result: SweepResult, number: int) -> UndoneMoves:
    return undone_moves(result.replications(number).values())


def _unfinished(result: SweepResult, number: int) -> str:
    """Say in how many runs of a design a move did not end, or was cancelled."""
    name, count = ", ".join(result.plan.short_settings(number).values()), len(result.replications(number))
    undone = _undone(result, number)
    ends = {"did not end": undone.unfinished, "was cancelled": undone.cancelled}
    said = (f"{words} in {runs} of {count} runs" if count > 1 else words for words, runs in ends.items() if runs)
    return f"{name}: a move {' and '.join(said)}; latencies are those of a part of it."


def document(result: SweepResult, metrics: Sequence[str]) -> dict[str, Any]:
    """Return the same for JSON."""
    held, why = guarantees(result), reasons(result)
    designs = []
    for number, point in enumerate(result.plan.points):
        own, name = result.replications(number), ", ".join(map(str, point.settings.values()))
        means = {metric: mean_over(own, metric) for metric in metrics}
        designs.append(
            {
                "settings": dict(point.settings),
                "runs": len(own),
                **asdict(_undone(result, number)),
                "guarantee": held.get(number),
                "reason": why.get(name),
                "metrics": {metric: {"mean": one.mean, "ci95": one.ci95} for metric, one in means.items()},
            }
        )
    for name, reason in _left_out(result).items():
        left = {
            "settings": {"design": name},
            "runs": 0,
            **asdict(UndoneMoves()),
            "guarantee": None,
            "reason": reason,
            "metrics": {},
        }
        designs.append(left)
    return {"scenario": result.plan.scenario.name, "designs": designs}
