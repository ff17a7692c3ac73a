"""One number per name from a summary: what sweeps store of a run, and what is compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.runs.summary import summarise
from models.scenario.scenario import Scenario

Metrics = dict[str, float | None]

_LEFT_OUT = ("scenario", "seed", "duration_s", "warmup_s", "recording", "kernel", "replications", "targets")
_RECOVERY = ("detect_s", "restore_s", "replay_s", "catch_up_s", "total_s")
FREE_SECTIONS = ("messages.", "checkpoints.delayed.", "checkpoints.hosts.")
_SECTIONS = {  # what a summary has of these where something happened
    "broken": ("times", "total_s", "longest_s", "share"),
    "elasticity": (
        "checks", "overloaded", "groups", "usable", "assisted", "direct", "drained", "unplaced", "usable_share",
        "assisted_share",
    ),
    "maintenance": ("comparisons", "moved", "stored", "bytes"),
    "replicas": (
        "groups", "took_over", "lost", "renewed", "pause_mean_s", "pause_max_s", "protected_share",
    ),
}  # fmt: skip


def metrics_of(summary: Mapping[str, Any]) -> Metrics:
    """Dotted name -> number, or None where nothing was seen, of the summary of one replication.

    Numbers keep the path that they have in the summary. Of recoveries and migrations there are the number (`count`), of
    each length mean and greatest, and how many did not end (`unfinished`); of targets how many were missed.
    """
    plain = {name: value for name, value in summary.items() if name not in ("recoveries", "migrations")}
    found = dict(_numbers(plain, ""))
    found |= _of_entries("recoveries", summary["recoveries"], _RECOVERY, "total_s")
    found |= _of_entries("migrations", summary["migrations"], ("pause_s", "completion_s"), "completion_s")
    if summary["targets"] is not None:
        found["targets.missed"] = float(sum(not one["met"] for one in summary["targets"].values()))
    return found


def possible_metrics(scenario: Scenario) -> list[str]:
    """Return the names that metrics of a run of the scenario can have, without a run.

    Of sections in `FREE_SECTIONS` the names depend on what happens.
    """
    summary = summarise(scenario, [])
    entry: Mapping[str, float] = defaultdict(float)
    happened = {name: dict.fromkeys(keys, 0.0) for name, keys in _SECTIONS.items()}
    return list(metrics_of({**summary, **happened, "recoveries": [entry], "migrations": [entry]}))


def _numbers(value: Mapping[str, Any], path: str) -> list[tuple[str, float | None]]:
    found: list[tuple[str, float | None]] = []
    for name, inner in value.items():
        here = f"{path}.{name}" if path else name
        if name in _LEFT_OUT or name.endswith("ci95"):
            continue
        if isinstance(inner, Mapping):
            found += _numbers(inner, here)
        elif inner is None or (isinstance(inner, (int, float)) and not isinstance(inner, bool)):
            found.append((here, None if inner is None else float(inner)))
    return found


def _of_entries(name: str, entries: Sequence[Mapping[str, Any]], lengths: Sequence[str], last: str) -> Metrics:
    found: Metrics = {f"{name}.count": float(len(entries))}
    if entries:
        found[f"{name}.unfinished"] = float(sum(entry[last] is None for entry in entries))
    for length in lengths:
        values = [entry[length] for entry in entries if entry[length] is not None]
        if values:
            found[f"{name}.{length}.mean"] = sum(values) / len(values)
            found[f"{name}.{length}.max"] = max(values)
    return found
