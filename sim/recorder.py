"""Collects the rows that a run emits; nothing is computed from them here."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from models.records import TABLES, table

if TYPE_CHECKING:
    from sim.task import Task

_SECOND = 1_000_000_000


class Recorder:
    """One list of rows per table; the two large tables are plain arrays of 64-bit numbers."""

    def __init__(self) -> None:
        self._visits = array("q")
        self._deliveries = array("q")
        self._messages: dict[tuple[int, str], list[int]] = {}
        self.rows: dict[str, list[tuple[Any, ...]]] = {
            name: [] for name in TABLES if name not in ("visits", "deliveries", "messages")
        }

    def visit(self, task: Task, arrival_ns: int, start_ns: int, end_ns: int) -> None:
        """A tuple was processed by a task."""
        self._visits.extend((task.operator.index, task.index, arrival_ns, start_ns, end_ns))

    def delivery(self, operator: int, birth_ns: int, delivered_ns: int) -> None:
        """A sink accepted a tuple."""
        self._deliveries.extend((operator, birth_ns, delivered_ns))

    def message(self, now_ns: int, kind: str, count: int, size_bytes: int) -> None:
        """`count` messages of a kind were sent."""
        key = (now_ns - now_ns % _SECOND, kind)
        total = self._messages.get(key)
        if total is None:
            total = self._messages[key] = [0, 0]
        total[0] += count
        total[1] += size_bytes

    def decision(self, now_ns: int, what: str, why: str) -> None:
        """The control plane decided something."""
        self.rows["decisions"].append((now_ns, what, why))

    def tables(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """All tables in the shape of `models.records`."""
        made = {name: table(name, rows) for name, rows in self.rows.items()}
        made["visits"] = _columns("visits", self._visits)
        made["deliveries"] = _columns("deliveries", self._deliveries)
        made["messages"] = table("messages", [(*key, *total) for key, total in sorted(self._messages.items())])
        return made


def _columns(name: str, flat: array[int]) -> dict[str, np.ndarray]:
    columns = TABLES[name]
    matrix = np.frombuffer(flat, dtype=np.int64).reshape(-1, len(columns)) if len(flat) else np.empty((0, len(columns)))
    return table(name, {column.name: matrix[:, k] for k, column in enumerate(columns)})
