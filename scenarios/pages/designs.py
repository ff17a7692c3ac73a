"""Designs of a study or a sweep as a report compares them: one interval for each measure, over the runs of each.

Intervals are Student's t over runs (`analysis.statistics.mean_of`); differences are paired run by run where two designs
had the same random numbers (common random numbers; Law, *Simulation Modeling and Analysis*, 5th ed., section 11.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from analysis.comparison import Difference, compare
from analysis.report.parts import Change, Curve, Design
from analysis.report.tables import with_interval
from analysis.runs.metrics import Metrics, metrics_of
from analysis.runs.run_summary import RunSummary
from analysis.runs.undone_moves import undone_moves
from analysis.statistics import mean_of

OVERHEAD = ("checkpoint", "trim", "restore", "replay", "protocol")
"""Kinds of messages that are there because of fault tolerance and of moves."""

_PATHS = {
    "latency_mean_s": "latency_s.mean",
    "latency_p50_s": "latency_s.p50",
    "latency_p99_s": "latency_s.p99",
    "pause_s": "migrations.pause_s.mean",
    "longest_pause_s": "moves.pause_s",
    "moves": "migrations.count",
    "assisted_share": "elasticity.assisted_share",
    "usable_share": "elasticity.usable_share",
    "output_s": "rebalances.restore_s.mean",
    "recovery_s": "recoveries.total_s.mean",
    "detect_s": "recoveries.detect_s.mean",
    "allocate_s": "recoveries.allocate_s.mean",
    "restart_s": "recoveries.restart_s.mean",
    "restore_s": "recoveries.restore_s.mean",
    "replay_s": "recoveries.replay_s.mean",
    "catch_up_s": "recoveries.catch_up_s.mean",
    "cost_usd": "hosts.cost_usd",
    "busy_cores": "resources.busy_cores",
    "kept_bytes_max": "resources.kept_bytes_max",
}
_COMPARED = ("latency_mean_s", "latency_p99_s", "pause_s", "output_s", "recovery_s")
_UNFINISHED = "recoveries.unfinished"
_SHARES = {"p50": 0.5, "p90": 0.1, "p95": 0.05, "p99": 0.01, "p999": 0.001}


@dataclass(frozen=True)
class DesignRuns:
    """The runs of one design: `metrics` of each one that came to its end, as `analysis.runs.metrics` names them.

    `draws` says of each which random numbers it had, (seed, replication): runs of two designs with the same ones are
    compared with each other. `window_s` is the time after the warm-up that they cover.
    """

    label: str
    allocation: str
    protocol: str
    metrics: tuple[Metrics, ...]
    window_s: float
    failed: int = 0
    draws: tuple[tuple[int, int], ...] = ()


def design_runs(
    label: str, allocation: str, protocol: str, summaries: Sequence[RunSummary], *, failed: int = 0
) -> DesignRuns:
    """Return the design of these summaries, each that of one replication with the same duration (`run --json`)."""
    window_s = summaries[0].duration_s - summaries[0].warmup_s if summaries else 0.0
    draws = tuple((one.seed, one.replications[0].replication) for one in summaries)
    return DesignRuns(label, allocation, protocol, tuple(map(metrics_of, summaries)), window_s, failed, draws)


def designs(given: Sequence[DesignRuns]) -> tuple[Design, ...]:
    """Return each design with means and 95 % intervals over its runs; moves only where there are any.

    `values` of a design are in SI units by measure, such as `latency_p99_s` and `overhead_bytes_per_s`. The first
    design is the baseline, and has no `changes`.
    """
    migrated = any(one.get("migrations.count") for design in given for one in design.metrics)
    made = [_design(design, migrated) for design in given]
    return tuple(
        replace(one, changes=_changes(given[0], own)) if k else one
        for k, (one, own) in enumerate(zip(made, given, strict=True))
    )


def methods_of(given: Sequence[tuple[str, DesignRuns]]) -> tuple[Design, ...]:
    """Return a design for each method of recovery, over the runs of all designs that have it; (method, design)."""
    by_method: dict[str, list[DesignRuns]] = {}
    for method, one in given:
        by_method.setdefault(method, []).append(one)
    return tuple(
        _design(replace(ones[0], label=method, metrics=tuple(run for one in ones for run in one.metrics)), False)
        for method, ones in by_method.items()
    )


def difference(first: DesignRuns, second: DesignRuns, measure: str) -> Difference | None:
    """Return the difference in a measure, run by run where both had the same random numbers; None without runs.

    `measure` is a key of `Design.values`.
    """
    return next(iter(_differences(first, second, [measure]).values()), None)


def _changes(first: DesignRuns, second: DesignRuns) -> dict[str, Change]:
    """Return the differences of a design to the first one in the compared measures."""
    return {
        name: Change(one.difference, one.per_cent or with_interval(one.difference), one.shown)
        for name, one in _differences(first, second, _COMPARED).items()
    }


def _differences(first: DesignRuns, second: DesignRuns, measures: Sequence[str]) -> dict[str, Difference]:
    """Return measure -> difference; empty where the draws of runs are not known."""
    # The same draw gets the same number in both designs: `compare` pairs runs by number.
    numbers = {draw: number for number, draw in enumerate(dict.fromkeys((*first.draws, *second.draws)))}
    runs = [
        {numbers[draw]: metrics for draw, metrics in zip(one.draws, one.metrics, strict=True)}
        for one in (first, second)
        if len(one.draws) == len(one.metrics)
    ]
    if len(runs) < 2:
        return {}
    same = bool(runs[0].keys() & runs[1].keys())
    found = compare(*runs, same_numbers=same, metrics=[_PATHS[name] for name in measures])
    return {name: one for name, one in zip(measures, found, strict=True) if one.difference.mean is not None}


def _design(given: DesignRuns, migrated: bool) -> Design:
    """Return a design with means and intervals of its measures; those that no run has are left out."""
    columns = {name: [one.get(path) for one in given.metrics] for name, path in _PATHS.items()}
    if not migrated:
        del columns["moves"]
    traffic = [_traffic(one, given.window_s) for one in given.metrics]
    columns["overhead_bytes_per_s"] = [rate for rate, _ in traffic]
    columns["overhead_share"] = [share for _, share in traffic]
    columns["sent_bytes_per_s"] = [_sent(one, given.window_s) for one in given.metrics]
    known = {name: [value for value in column if value is not None] for name, column in columns.items()}
    values = {name: mean_of(column) for name, column in known.items() if column}
    latency_ccdf = _latency_ccdf(given)
    runs, unfinished = len(given.metrics), sum(int(one.get(_UNFINISHED) or 0) for one in given.metrics)
    return Design(
        given.label,
        given.allocation,
        given.protocol,
        runs,
        values,
        given.failed,
        latency_ccdf,
        unfinished,
        undone_moves(given.metrics),
    )


def _traffic(one: Metrics, window_s: float) -> tuple[float | None, float | None]:
    """Return overhead in bytes per second, and as a share of all that hosts send each other."""
    extra = sum(one.get(f"messages.{kind}.bytes") or 0.0 for kind in OVERHEAD)
    everything = extra + (one.get("messages.data.bytes") or 0.0)
    return extra / window_s if window_s > 0 else None, extra / everything if everything else None


def _sent(one: Metrics, window_s: float) -> float | None:
    """Return all that hosts send each other in bytes per second."""
    sent = [
        value or 0.0
        for path, value in one.items()
        if path.startswith("messages.") and path.endswith(".bytes") and path != "messages.local.bytes"
    ]
    return sum(sent) / window_s if window_s > 0 else None


def _latency_ccdf(given: DesignRuns) -> Curve | None:
    """Return the quantiles of latency, means over the runs, with the share of tuples that took longer."""
    counts = [one.get("latency_s.count") or 0.0 for one in given.metrics]
    if not counts or not min(counts):
        return None
    rarest = 1 / fmean(counts)
    # Quantiles rarer than one tuple of a run would repeat the maximum.
    points = {fmean(one[f"latency_s.{name}"] or 0.0 for one in given.metrics): share
              for name, share in _SHARES.items() if share > rarest}  # fmt: skip
    # The slowest tuple is one of as many as a run delivers.
    points[fmean(one["latency_s.max"] or 0.0 for one in given.metrics)] = rarest
    at = sorted(points)
    return Curve(given.label, np.array(at), np.array([points[when] for when in at]), points=True)
