"""Summarise bounded queues: how full they were, whom they held back, and how far sources were behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.runs.timelines import Series, fullest_queues, held_back, lags
from models.records.tables import RunRecords
from models.scenario.scenario import Scenario


@dataclass(frozen=True)
class Held:
    """One operator, by the samples after the warm-up of all replications; None for what it does not have."""

    places: int | None
    """In the queue of one task."""
    fullest: float | None
    """Greatest share of the places that were taken at once."""
    held_back: float
    """Share of time in which a task had outputs that waited for room."""
    lag_mean: float | None
    lag_max: int | None
    """Tuples that arrived and are not emitted."""


def backpressure(scenario: Scenario, records: Sequence[RunRecords]) -> dict[str, Held]:
    """Return what bounded queues did, for operators that have one, were held back or had a lag; in file order."""
    places = {name: operator.buffer for name, operator in scenario.operators.items()}
    full = _by_name(records, [fullest_queues(one, list(places.values())) for one in records])
    held = _by_name(records, [held_back(one) for one in records])
    lag = _by_name(records, [lags(one) for one in records])
    found = {
        name: Held(
            bound,
            float(full[name].max()) if name in full else None,
            float(held[name].sum()) / max(1, _samples(records)) if name in held else 0.0,
            float(lag[name].mean()) if name in lag else None,
            int(lag[name].max()) if name in lag else None,
        )
        for name, bound in places.items()
    }
    return {name: one for name, one in found.items() if one.places or one.held_back or one.lag_max}


def _by_name(records: Sequence[RunRecords], lines: Sequence[Series]) -> dict[str, np.ndarray]:
    """Return the values after warm-up of all replications, for each name that has any."""
    parts: dict[str, list[np.ndarray]] = {}
    for one, line in zip(records, lines, strict=True):
        late = line.at_ns >= one.warmup_ns
        for name, values in zip(line.names, line.values, strict=True):
            parts.setdefault(name, []).append(values[late])
    return {name: np.concatenate(found) for name, found in parts.items() if sum(map(len, found))}


def _samples(records: Sequence[RunRecords]) -> int:
    """Return spans between samples after warm-up; an operator that was never held back in a replication has no line."""
    return sum(int((held_back(one).at_ns >= one.warmup_ns).sum()) for one in records)
