"""Tables of a study for the terminal; they fit 80 columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from analysis.comparison import Difference, mean_over
from analysis.statistics import Mean
from analysis.statistics import Mean as Plain
from holdfast.terminal import table
from models import display
from scenarios.studies import findings
from scenarios.studies.findings import replications_of

if TYPE_CHECKING:
    from analysis.comparison import Difference
    from analysis.statistics import Mean
    from models.table import Table
    from scenarios.studies.study import Study, StudyDesign

Write = Callable[[str, "Mean"], str]
_MOST_DESIGNS = 24


def plans_table(study: Study) -> Table:
    """Return each method's plan with its proof, and what it is worth on the profile."""
    rows = [
        (
            one.method,
            one.plan.status,
            display.number(one.plan.objective, 5),
            display.share(one.plan.gap),
            display.share(one.usable.usable_share),
            display.share(one.usable.assisted_share),
        )
        for one in study.planned
    ]
    columns = ("method", "status", "objective", "gap", "usable", "assisted")
    return table("Who holds the checkpoints: plans, on the profile alone", columns, rows, text_columns=2)


def designs_tables(study: Study) -> list[Table]:
    """Return what the designs came to, means of their runs with 95 % intervals: moves first, where there are any."""
    moves: list[tuple[str, str, Write]] = [
        ("moves", findings.MOVES, _number),
        ("assisted", findings.ASSISTED, _percent),
        ("usable", findings.USABLE, _percent),
        ("pause of a move", findings.PAUSE, _seconds),
    ]
    worth: list[tuple[str, str, Write]] = [
        ("latency mean", findings.LATENCY, _seconds),
        ("latency p99", findings.P99, _seconds),
        ("overhead", findings.OVERHEAD, _bytes_per_s),
        ("cost", findings.COST, _money),
    ]
    if any(one.summary.recoveries for design in study.designs for one in design.runs):
        worth.insert(2, ("recovery max", findings.RECOVERY, _seconds))
    runs = sorted({len(design.runs) for design in study.designs})
    many = f"means of {' to '.join(map(str, runs))} run{'s' if runs != [1] else ''}"
    shown = f"{many} with 95 % intervals" if runs[-1] > 1 else many
    made = [_table(study, f"What it takes, {shown}", worth)]
    if study.scenario.migrates:
        made.insert(0, _table(study, f"What moves, {shown}", moves))
    return made


def gains_table(study: Study) -> Table | None:
    """Return the run in full's design beside the first one; None where they are one, or nothing can be compared."""
    first, other = study.designs[0], study.design_of(study.method)
    if other is None or other is first or not first.runs:
        return None
    writers: Mapping[str, Write] = {
        findings.ASSISTED: _percent, findings.USABLE: _percent, findings.MOVES: _number, findings.PAUSE: _seconds,
        findings.WORST: _seconds, findings.LATENCY: _seconds, findings.P99: _seconds,
        findings.OVERHEAD: _bytes_per_s, findings.NETWORK: _percent, findings.COST: _money, findings.RECOVERY: _seconds,
    }  # fmt: skip
    rows = [
        _gain(findings.SHORT[name], one, writers[name])
        for name, one in findings.differences(study, first, other).items()
        if one.difference.mean is not None and name in writers
    ]
    columns = ("", "first", "second", "difference", "", "")
    title = f"{other.label} (second) beside {first.label} (first), run by run"
    return table(title, columns, rows, text_columns=1)


def _gain(name: str, one: Difference, write: Write) -> tuple[str, ...]:
    relative = "" if one.relative is None else display.change(one.relative)
    plain = [write(one.metric, _alone(mean)) for mean in (one.first, one.second)]
    return (name, *plain, write(one.metric, one.difference), relative, one.shown)


def _alone(mean: Mean) -> Mean:
    """Return the mean without its interval."""
    return Plain(mean.mean, None)


def _table(study: Study, title: str, columns: list[tuple[str, str, Write]]) -> Table:
    rows = []
    for design in study.designs[:_MOST_DESIGNS]:
        own = replications_of(design)
        rows.append((_named(design), *(write(name, mean_over(own, name)) for _, name, write in columns)))
    if len(study.designs) > _MOST_DESIGNS:
        title += f": the first {_MOST_DESIGNS} of {len(study.designs)}"
    return table(title, ("design", *(heading for heading, _, _ in columns)), rows)


def _named(design: StudyDesign) -> str:
    return design.label if design.runs else f"{design.label} (failed)"


def _number(_: str, mean: Mean) -> str:
    return _with_half(mean)


def _percent(_: str, mean: Mean) -> str:
    return _with_half(mean, display.share)


def _money(_: str, mean: Mean) -> str:
    said = _with_half(mean, display.money)
    return said if said == display.NONE else f"{said} USD"


def _seconds(_: str, mean: Mean) -> str:
    return _with_half(mean, display.duration)


def _bytes_per_s(_: str, mean: Mean) -> str:
    return _with_half(mean, display.byte_rate)


def _with_half(mean: Mean, form: display.Form = display.number) -> str:
    """Return the mean and half of its interval, short enough for four of them in a line."""
    known = mean.ci95 is not None and not math.isclose(*mean.ci95, rel_tol=1e-9, abs_tol=1e-12)
    return display.plus_minus(mean.mean, mean.half if known else None, form)
