"""How much a search may do: deterministic work decides, the clock is the last resort."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

_KNAPSACK, _ITEM, _ENTRY = 1.1e-4, 1.8e-7, 1.2e-9  # of one knapsack problem, its items, and entries of its tables
_PROGRAM, _ROOT, _PAIR = 0.02, 1.5e-3, 2.5e-5  # of a small program, its pairs, and these times its nodes
_LINEAR, _COLUMN, _ITERATION = 2e-3, 4e-6, 2e-7  # of a linear program, its columns, and its iterations times its rows
_STATES, _STATE = 5e-5, 3e-8  # of looking at some sets at once, and of each of them


@dataclass
class Work:
    """What may be done, in units that take about a second on a quiet machine, what is done, and the clock."""

    limit: float
    until: float = math.inf
    done: float = 0.0
    struck: bool = False

    @property
    def over(self) -> bool:
        """True when nothing more may be done."""
        self.struck = self.struck or time.perf_counter() > self.until
        return self.struck or self.done >= self.limit

    @property
    def left_s(self) -> float:
        """Seconds until the clock strikes."""
        return max(min(self.until - time.perf_counter(), 1e6), 0.01)

    def knapsack(self, items: int, entries: int) -> None:
        """Count one knapsack problem with so many items, and entries in its tables."""
        self.done += _KNAPSACK + _ITEM * items + _ENTRY * entries

    def program(self, pairs: int, nodes: int) -> None:
        """Count a small program."""
        self.done += _PROGRAM + _ROOT * pairs + _PAIR * pairs * nodes

    def linear(self, rows: int, columns: int, iterations: int) -> None:
        """Count a linear program."""
        self.done += _LINEAR + _COLUMN * columns + _ITERATION * iterations * rows

    def states(self, count: int) -> None:
        """Count some sets that were looked at together."""
        self.done += _STATES + _STATE * count
