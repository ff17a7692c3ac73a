"""Recordings of real engines that failed; `data/engine/README.md` says what they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

Instants = Sequence[float]
Errors = list[tuple[float, float]]

FOLDER = Path(__file__).parent / "data" / "engine"


def recorded(name: str) -> list[dict[str, Any]]:
    """The rows of `flink_recoveries`, `flink_rescales` or `spark_recoveries`."""
    rows: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text())[name.partition("_")[2]]
    return rows


def errors(
    conditions: Mapping[int, Sequence[dict[str, Any]]],
    predicted: Callable[[int], Instants],
    observed: Callable[[int], Instants],
    recording: str,
) -> Errors:
    """The median and the greatest error over the conditions of a recording, of each instant [%]."""
    numbers = [number for number, kills in conditions.items() if kills[0]["recording"] == recording]
    each = [
        [abs(one - seen) / seen for one, seen in zip(predicted(number), observed(number), strict=True)]
        for number in numbers
    ]
    return [(round(100 * median(found), 1), round(100 * max(found), 1)) for found in zip(*each, strict=True)]
