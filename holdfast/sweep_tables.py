"""Tables of sweeps and comparisons for the terminal; they fit 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from analysis.runs.metrics import is_time, quantity
from holdfast.terminal import table
from models import display
from scenarios.sweeps.plan import short_names
from scenarios.sweeps.summary import differences, resolutions_said

if TYPE_CHECKING:
    from analysis.comparison import Difference
    from analysis.statistics import Mean
    from models.table import Table
    from scenarios.sweeps.sweep import SweepResult

_MOST_ROWS = 24
_VERDICTS = (
    "lower or higher if the interval excludes zero, equal if no run differs, else unclear. Each interval is for one "
    "comparison: of twenty without a difference, one excludes zero by chance."
)


def with_interval(metric: str, mean: Mean) -> str:
    """Return the mean and half of its 95 % interval, in one unit."""
    form = display.duration if is_time(metric) else display.number
    return display.plus_minus(mean.mean, mean.half, form)


def sweep_tables(result: SweepResult, metrics: Sequence[str]) -> list[Table]:
    """Return one table for each metric: a row for each design point; of many the ones with the least values."""
    points = range(len(result.plan.points))
    found = {number: differences(result, number, metrics) for number in points}
    made = []
    for place, metric in enumerate(metrics):
        order = sorted(points, key=lambda number: (_or_last(found[number][place].second.mean), number))
        # As long as all fit they stay in the order of the file; only a choice is sorted.
        few = order[:_MOST_ROWS] if len(order) > _MOST_ROWS else list(points)
        rows = [_row(result, number, found[number][place]) for number in few]
        runs = _runs(result, found, place)
        title = f"{metric}, of one run each" if runs == "1" else f"{metric}, means of {runs} runs"
        if len(few) < len(order):
            title += f": the {len(few)} least of {len(order):,}"
        columns = ("", *short_names(list(result.plan.scenario.sweep)), "mean", "to design 0", "")
        made.append(table(title, columns, rows, text_columns=len(columns) - 3))
    return made


def explained(result: SweepResult) -> str:
    """Say what the differences in the tables are; nothing for one design, or with less than two runs of design 0."""
    if len(result.plan.points) < 2 or len(result.replications(0)) < 2:
        return ""
    return (
        "± is the 95 % interval of the difference to design 0, taken run by run where the seeds are equal. A design is "
        f"{_VERDICTS}"
    )


def sweep_line(result: SweepResult) -> str:
    """Return how many runs there are and where."""
    many = (display.count(len(result.plan.points), "design"), display.count(len(result.rows), "run"))
    text = f"{', '.join(many)} in {result.directory}"
    coarse = resolutions_said(result)
    return f"{text}; digest {result.digest[:12]}" + (f". {coarse}" if coarse else "")


def comparison_table(found: Sequence[Difference]) -> Table:
    """Return two designs, metric by metric."""
    rows = [
        (
            one.metric,
            quantity(one.metric, one.first.mean),
            quantity(one.metric, one.second.mean),
            with_interval(one.metric, one.difference),
            display.change(one.relative),
            one.shown,
        )
        for one in found
    ]
    return table("B beside A", ("metric", "A", "B", "B - A", "", "B is"), rows, whole_columns=1)


def comparison_words(found: Sequence[Difference]) -> str:
    """Say what the verdicts of a comparison mean; nothing where no metric has an interval."""
    return f"B is {_VERDICTS}" if any(one.difference.ci95 for one in found) else ""


def _row(result: SweepResult, number: int, one: Difference) -> tuple[object, ...]:
    """Return the row of a design point; design 0 has no difference."""
    settings = result.plan.short_settings(number).values()
    mean = quantity(one.metric, one.second.mean)
    if number == 0:
        return (number, *settings, mean, "", "")
    verdict = "" if one.difference.mean is None else one.shown
    return (number, *settings, mean, _to_first(one) if verdict else "", verdict)


def _to_first(one: Difference) -> str:
    """Return the difference to design 0 with half of its interval: in per cent, or in its unit if design 0 has zero."""
    return one.per_cent or with_interval(one.metric, one.difference)


def _runs(result: SweepResult, found: Mapping[int, Sequence[Difference]], place: int) -> str:
    """Return how many runs the means are of; where runs failed of those that the design and the first one have."""
    counts = {one[place].counts[1] for one in found.values()}
    least, most = min(counts), max(counts)
    return f"{most}" if least == most else f"{least} to {most}"


def _or_last(value: float | None) -> float:
    return float("inf") if value is None else value
