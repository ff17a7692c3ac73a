"""Recordings of real engines that failed; `data/engine/README.md` says what they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "data" / "engine"


def recorded(name: str) -> list[dict[str, Any]]:
    """The rows of `flink_recoveries`, `flink_rescales` or `spark_recoveries`."""
    rows: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text())[name.partition("_")[2]]
    return rows
