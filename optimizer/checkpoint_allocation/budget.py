"""The limits of a search: work that is counted decides, the clock is the last resort.

Counted work is the same on every machine, so the same problem gives the same answer. A unit is about a second of a
quiet machine, unless the owner counts in another one.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

_LEAST_S, _MOST_S = 0.01, 1e6  # what solvers accept as a time limit
_KNAPSACK, _ITEM, _ENTRY = 1.1e-4, 1.8e-7, 1.2e-9  # of one knapsack problem, its items, and entries of its tables
_PROGRAM, _ROOT, _PAIR = 0.02, 1.5e-3, 2.5e-5  # of a small program, its pairs, and these times its nodes
_LINEAR, _COLUMN, _ITERATION = 2e-3, 4e-6, 2e-7  # of a linear program, its columns, and its iterations times its rows
_STATES, _STATE = 5e-5, 3e-8  # of looking at some sets at once, and of each of them


@dataclass
class Budget:
    """Work that may be done, work that is done, and the clock (`until`, of time.perf_counter).

    `struck`: the clock ended something. `cut`: something was left out, for lack of work or of time.
    """

    limit: float = math.inf
    until: float = math.inf
    done: float = 0.0
    struck: bool = False
    cut: bool = False
    began: float = field(default_factory=time.perf_counter)

    @classmethod
    def of_seconds(cls, time_limit_s: float, work: float = math.inf) -> Budget:
        """Return a budget of so much work whose clock strikes after the time limit."""
        now = time.perf_counter()
        return cls(work, now + time_limit_s, began=now)

    def part(self, work: float, share: float = 1.0) -> Budget:
        """Return a budget of so much work whose clock strikes after a share of the time of this one."""
        # The time is a share of the whole, counted from the same beginning: what earlier steps left over is not lost.
        return Budget(work, self.began + share * (self.until - self.began), began=self.began)

    @property
    def seconds(self) -> float:
        """Return the time limit [s]."""
        return self.until - self.began

    @property
    def spent_s(self) -> float:
        """Return the time since the beginning [s]."""
        return time.perf_counter() - self.began

    @property
    def left(self) -> float:
        """Return the work that is left."""
        return self.limit - self.done

    @property
    def left_s(self) -> float:
        """Return the time until the clock strikes [s], within the limits that solvers accept."""
        # Never 0 nor infinite: not every solver accepts these as a limit.
        return max(min(self.until - time.perf_counter(), _MOST_S), _LEAST_S)

    @property
    def late(self) -> bool:
        """Return whether the clock has struck."""
        # Once struck it stays struck: two steps of one search must not disagree about the end.
        self.struck = self.struck or time.perf_counter() > self.until
        return self.struck

    @property
    def over(self) -> bool:
        """Return whether nothing more may be done; the caller then leaves something out, which `cut` notes."""
        # Only here is `cut` set: whoever asks `over` would have done more.
        if self.late or self.done >= self.limit:
            self.cut = True
            return True
        return False

    def spend(self, work: float, *, limited: bool = False) -> None:
        """Count work; `limited` when it ended at a limit without an answer."""
        self.done += work
        self.cut = self.cut or limited
        # A limited call at the end of the time was ended by the clock, even if nobody looks at it again.
        self.struck = self.struck or (limited and time.perf_counter() >= self.until)

    def knapsack(self, items: int, entries: int) -> None:
        """Count one knapsack problem with so many items, and entries in its tables."""
        self.spend(_KNAPSACK + _ITEM * items + _ENTRY * entries)

    def program(self, pairs: int, nodes: int) -> None:
        """Count a small mixed-integer program with so many pairs and nodes of branch and bound."""
        self.spend(_PROGRAM + _ROOT * pairs + _PAIR * pairs * nodes)

    def linear(self, rows: int, columns: int, iterations: int) -> None:
        """Count a linear program."""
        self.spend(_LINEAR + _COLUMN * columns + _ITERATION * iterations * rows)

    def states(self, count: int) -> None:
        """Count some sets that were looked at together."""
        self.spend(_STATES + _STATE * count)
