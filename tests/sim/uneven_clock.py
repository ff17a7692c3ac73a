"""A clock that keeps the order on each channel and no other, for what needs times: windows, bounds, shared links.

Without these `lab.scheduler` reaches more orders.

Every channel between two tasks, and every task, has a pace of its own in a run, and everything takes a time of its own
around that. What is joined by a channel stays in order; all else may happen in any.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from sim.clock import ARRIVAL, CREDIT, END_OF_INSTANT, MESSAGE, PAUSES, SERVICE, TIMERS, Clock

_CLASS = ARRIVAL - SERVICE
_CHANNELS, _TASKS = (0.02, 0.3, 1.0, 1.0, 10.0), (0.05, 0.3, 0.8)  # tasks are not to be overloaded
_LEAST_NS = 200_000  # what takes no time takes up to so much at a pace of 1


class UnevenClock(Clock):
    """Only for the plain plane, whose every step is an event of its clock.

    What `bears` says are sources, at first so many tasks, bear their tuples at the instants that these carry, and
    watermarks and timers are in time: what they say of event time is about instants.
    """

    def __init__(self, seed: int, sources: int = 0) -> None:
        super().__init__()
        self.bears: Callable[[int], bool] = lambda task: task < sources
        self._draw = Random(seed)
        self._pace: dict[int, float] = {}
        self._last: dict[int, int] = {}

    def at(self, time_ns: int, rank: int, call: Callable[[Any], None]) -> None:
        """Call `call` about then, behind all that came before it on its channel."""
        kind, place = divmod(rank, _CLASS)
        if TIMERS <= rank < CREDIT or (SERVICE <= rank < PAUSES and self.bears(place)):
            super().at(time_ns, rank, call)
            return
        if kind * _CLASS in (MESSAGE, SERVICE, ARRIVAL):
            key = place if kind * _CLASS != SERVICE else -1 - place
            pace = self._pace.setdefault(key, self._draw.choice(_CHANNELS if key >= 0 else _TASKS))
            now = self.now_ns()
            time_ns = now + int((max(time_ns - now, _LEAST_NS)) * pace * self._draw.uniform(0.2, 1.8))
            if key >= 0:
                time_ns = self._last[key] = max(time_ns, self._last.get(key, 0))
        elif rank == END_OF_INSTANT:  # what is looked for may come later than it was to: look again, but not at once
            time_ns = max(time_ns, self.now_ns() + _LEAST_NS)
        super().at(time_ns, rank, call)
