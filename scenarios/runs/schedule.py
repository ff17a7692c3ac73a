"""In which order pieces are made, and when all of them will be: from what each was expected to take, and what it took.

Pieces are given out one after the other, each to the worker that is free first; so the longest come first, and the
last ones, which keep one worker busy while others have nothing left, are short.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

# A little weight for the expectation: the first short piece alone must not decide the pace of a long study.
_PRIOR = 0.02  # of the expected time of all pieces: how much the expectation weighs beside what pieces took
# A piece that runs over its time may take as long again in proportion; zero would let the forecast stand still.
_LATE = 0.5  # of the time by which a piece is late it takes yet


def longest_first(costs_s: Sequence[float]) -> list[int]:
    """Return the numbers of the pieces in the order in which they begin; equal ones keep theirs."""
    # Ties by number, so that the order is the same on every machine.
    return sorted(range(len(costs_s)), key=lambda number: (-costs_s[number], number))


def makespan_s(costs_s: Sequence[float], workers: int, busy_s: Sequence[float] = ()) -> float:
    """Return when the last piece ends [s], if they begin in this order; some workers are busy for so long before."""
    # Graham's list scheduling: each piece goes to the worker that is free first.
    free = [*busy_s, *[0.0] * (max(1, workers) - len(busy_s))]
    heapq.heapify(free)
    for cost_s in costs_s:
        heapq.heappush(free, heapq.heappop(free) + cost_s)
    return max(free)


class Forecast:
    """A forecast of the time left for pieces that begin in the order of their costs.

    `now_s` counts from the begin of the first.

    Before any has ended costs are taken as they are, then times the ratio of what pieces took to what they should have:
    a long piece counts as much as all short ones that are as long together.
    """

    def __init__(self, costs_s: Sequence[float], workers: int) -> None:
        self._costs, self._workers = list(costs_s), max(1, workers)
        # Reversed, as the next one is popped from the end.
        self._waiting = longest_first(costs_s)[::-1]
        self._began: dict[int, float] = {}
        self._expected_s = self._took_s = _PRIOR * math.fsum(costs_s)
        self._start(0.0)

    @property
    def running(self) -> tuple[int, ...]:
        """The pieces under way, those that began first before others."""
        return tuple(self._began)

    def began_s(self, number: int) -> float:
        """Return when a piece under way began [s]."""
        return self._began[number]

    def ended(self, number: int, took_s: float | None, now_s: float) -> None:
        """Note that a piece took so long, None where nobody knows; the next begins."""
        if number in self._began:
            del self._began[number]
        else:  # workers may be given work in another order, by Spark for example
            self._waiting.remove(number)
        if took_s is not None:
            self._expected_s += self._costs[number]
            self._took_s += took_s
        self._start(now_s)

    def left_s(self, now_s: float) -> float:
        """Return how long it will be until all are made [s]."""
        pace = self._took_s / self._expected_s if self._expected_s else 1.0
        busy = []
        for number, began_s in self._began.items():
            left_s = self._costs[number] * pace - (now_s - began_s)
            busy.append(max(left_s, -_LATE * left_s))
        return makespan_s([self._costs[number] * pace for number in reversed(self._waiting)], self._workers, busy)

    def _start(self, now_s: float) -> None:
        while self._waiting and len(self._began) < self._workers:
            self._began[self._waiting.pop()] = now_s
