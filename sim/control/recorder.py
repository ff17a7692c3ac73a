"""Collects the rows of the control plane, and puts them together with those of the data plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from models.records.tables import HISTOGRAM_TABLES, TABLES, table
from sim.data_plane import Rows

_SECOND = 1_000_000_000
_OF_THE_PLANE = ("visits", "waiting", "deliveries", "dropped", "checkpoints", "messages")


class Recorder:
    """Lists of rows, one for each table of the control plane; nothing is computed from them here."""

    def __init__(self) -> None:
        self._restores: dict[int, list[int]] = {}
        self._blocks: dict[str, list[tuple[int, np.ndarray]]] = {}  # in place of rows of a table
        self.rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES if name not in _OF_THE_PLANE}

    def sample(self, name: str, now_ns: int, rows: Rows) -> None:
        """Add what was sampled at an instant: rows of a table without their first column."""
        if isinstance(rows, np.ndarray):
            self._blocks.setdefault(name, []).append((now_ns, rows))
        else:
            self.rows[name] += [(now_ns, *row) for row in rows]

    def restore(self, now_ns: int, size_bytes: int) -> None:
        """Count a checkpoint that was fetched from the remote store."""
        total = self._restores.setdefault(now_ns - now_ns % _SECOND, [0, 0])
        total[0] += 1
        total[1] += size_bytes

    def revise(self, name: str, row: int, **values: object) -> None:
        """Fill in columns of a row that are known now."""
        known = dict(zip((column.name for column in TABLES[name]), self.rows[name][row], strict=True))
        self.rows[name][row] = tuple((known | values).values())

    def tables(
        self,
        plane: Mapping[str, Mapping[str, np.ndarray]],
        messages: Mapping[tuple[int, str], Sequence[int]],
    ) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return all tables as `models.records.tables` has them; `plane` and `messages` come from the data plane."""
        totals = dict(messages) | {(second, "restore"): total for second, total in self._restores.items()}
        made = {
            name: table(name, _columns(name, self._blocks[name]) if name in self._blocks else rows)
            for name, rows in self.rows.items()
        }
        made["messages"] = table("messages", [(*key, *totals[key]) for key in sorted(totals)])
        binned = [name for name in HISTOGRAM_TABLES if name in plane]
        return {name: plane[name] if name in plane else made[name] for name in (*TABLES, *binned)}


def _columns(name: str, blocks: list[tuple[int, np.ndarray]]) -> dict[str, object]:
    """Return the columns of a table that was sampled in blocks, one for each instant."""
    at_ns = np.repeat([now for now, _ in blocks], [len(rows) for _, rows in blocks])
    rest = np.concatenate([rows for _, rows in blocks]).T.copy()
    return dict(zip((column.name for column in TABLES[name]), (at_ns, *rest), strict=True))
