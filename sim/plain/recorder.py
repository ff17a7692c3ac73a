"""Collects the rows of the plain data plane; nothing is computed from them here."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from models.records.tables import NEVER, TABLES, table
from sim.plain.partition import TaskView

_SECOND = 1_000_000_000


class Recorder:
    """One list of rows per table; the two large tables are plain arrays of 64-bit numbers."""

    def __init__(self) -> None:
        self._visits = array("q")
        self._deliveries = array("q")
        self.messages: dict[tuple[int, str], list[int]] = {}
        self.rows: dict[str, list[tuple[Any, ...]]] = {"dropped": [], "checkpoints": []}

    def visit(self, task: TaskView, arrival_ns: int, start_ns: int, end_ns: int) -> None:
        """Record that a tuple was processed by a task."""
        self._visits.extend((task.operator.index, task.index, arrival_ns, start_ns, end_ns))

    def delivery(self, operator: int, created_ns: int, delivered_ns: int) -> None:
        """Record that a sink accepted a tuple."""
        self._deliveries.extend((operator, created_ns, delivered_ns))

    def message(self, now_ns: int, kind: str, count: int, size_bytes: int) -> None:
        """Record that `count` messages of a kind were sent."""
        total = self.messages.setdefault((now_ns - now_ns % _SECOND, kind), [0, 0])
        total[0] += count
        total[1] += size_bytes

    def tables(
        self, serving: list[tuple[int, int, int, int]], waiting: list[tuple[int, int, int]]
    ) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return the tables, with services (operator, task, arrival, start) that run and tuples that wait."""
        left = array("q", [number for row in serving for number in (*row, NEVER)])
        return {
            "visits": _columns("visits", self._visits + left),
            "waiting": table("waiting", [*waiting]),
            "deliveries": _columns("deliveries", self._deliveries),
            "dropped": table("dropped", self.rows["dropped"]),
            "checkpoints": table("checkpoints", self.rows["checkpoints"]),
        }


def _columns(name: str, flat: array[int]) -> dict[str, np.ndarray]:
    columns = TABLES[name]
    matrix = np.array(flat, dtype=np.int64).reshape(-1, len(columns))
    return table(name, {column.name: matrix[:, k] for k, column in enumerate(columns)})
