"""The summary of a sweep: each design point's means with intervals, and its difference to the first one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from analysis.comparison import Difference, common_metrics, compare, mean_over
from analysis.runs.metrics import FREE_SECTIONS, possible_metrics
from models.errors import InputError
from models.validation_messages import nearest
from scenarios.sweeps.sweep import SweepResult

MAIN_METRICS = (
    "latency_s.mean",
    "latency_s.p99",
    "recoveries.total_s.mean",
    "recoveries.unfinished",
    "migrations.pause_s.max",
    "migrations.completion_s.max",
    "guarantee.lost",
    "targets.missed",
)
"""What people look at first, as far as it was seen and is not the same everywhere."""


def check_metrics(result: SweepResult, requested: Sequence[str]) -> None:
    """Raise InputError for a metric that no run has, and none can have that is still to be made."""
    for name in requested:
        if name in _seen(result) or (len(result.rows) < result.plan.runs and name.startswith(FREE_SECTIONS)):
            continue
        known = _seen(result)
        for names in _possible(result):
            known |= names
            if name in names:
                break
        else:
            raise InputError.at("--metric", name, "is no metric of this sweep", nearest(name, known))


def _seen(result: SweepResult) -> dict[str, None]:
    """Return the metrics of the runs that there are, as the keys of a dict in their order."""
    return dict.fromkeys(name for row in result.rows for name in row.metrics)


def _possible(result: SweepResult) -> Iterator[dict[str, None]]:
    """Yield the metrics that runs of a design point can have, for each point, where some are still to be made."""
    plan = result.plan
    if len(result.rows) < plan.runs:
        for point in plan.points:
            yield dict.fromkeys(possible_metrics(point.of(plan.scenario)))


def chosen_metrics(result: SweepResult, requested: Sequence[str] | None) -> list[str]:
    """Return the metrics for a table: those asked for, or the main ones; raises InputError for one that no run has."""
    check_metrics(result, requested or ())
    known = _seen(result)
    if requested:
        return [name for name in requested if name in known]
    found = [name for name in MAIN_METRICS if name in known]
    return [name for name in found if name.startswith("latency") or _varies(result, name)]


def differences(result: SweepResult, point: int, metrics: Sequence[str]) -> list[Difference]:
    """Return a design point beside the first one."""
    return compare(
        result.replications(0),
        result.replications(point),
        same_numbers=_seed(result, 0) == _seed(result, point),
        metrics=metrics,
    )


def sweep_summary(result: SweepResult) -> dict[str, Any]:
    """Return the sweep as one JSON document: all metrics of all design points."""
    return {
        "scenario": result.plan.scenario.name,
        "directory": str(result.directory),
        "digest": result.digest,
        "runs": len(result.rows),
        "failed": [
            {
                "point": row.point,
                "replication": row.replication,
                "status": row.status,
                "stage": row.stage,
                "message": row.message,
            }
            for row in result.failed
        ],
        "points": [_point(result, number) for number in range(len(result.plan.points))],
    }


def _point(result: SweepResult, number: int) -> dict[str, Any]:
    own = result.replications(number)
    names = common_metrics(own) if own else []
    return {
        "point": number,
        "settings": dict(result.plan.points[number].settings),
        "runs": len(own),
        "metrics": {
            one.metric: {
                "runs": one.counts[1],
                "mean": one.second.mean,
                "ci95": one.second.ci95,
                "difference": difference_entry(one) if number else None,
            }
            for one in differences(result, number, names)
        },
    }


def difference_entry(one: Difference) -> dict[str, Any]:
    """Return a difference for JSON."""
    return {
        "mean": one.difference.mean,
        "ci95": one.difference.ci95,
        "relative": one.relative,
        "paired": one.paired,
        "pairs": one.counts[0] if one.paired else None,
        "shown": one.shown,
    }


def _varies(result: SweepResult, metric: str) -> bool:
    """Return whether the design points do not all have the same mean, or it is not zero everywhere."""
    means = {mean_over(result.replications(number), metric).mean for number in range(len(result.plan.points))}
    return len(means) > 1 or means not in ({0.0}, {None})


def _seed(result: SweepResult, point: int) -> object:
    return result.plan.points[point].settings.get("seed", result.plan.scenario.seed)
