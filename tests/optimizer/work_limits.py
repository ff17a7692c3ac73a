"""Limits of work in the place of limits of time, and made-up clocks: no test depends on the speed of the machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from optimizer.checkpoint_allocation import params
from optimizer.placement import budget
from optimizer.selection import queries, query_tree

_TIMES = 1000.0
_START, _YEARS = 1e6, 1e9
_PER_SECOND = (
    (queries, ("_WORK_BEFORE_PER_S", "_WORK_AROUND_PER_S", "_WORK_AFTER_PER_S", "_FILLING_PER_S")),
    (query_tree, ("_DETERMINISTIC_PER_S",)),
    (budget, ("_WORK_PER_S", "_MODEL_SHARE")),
)
"""What searches do in each second of their limit, by module."""


@contextmanager
def as_much_work_as_in(seconds: float) -> Iterator[float]:
    """Yield a time limit [s] that is out of reach, in which searches do the work of these seconds."""
    with pytest.MonkeyPatch.context() as patch:
        for module, names in _PER_SECOND:
            for name in names:
                patch.setattr(module, name, getattr(module, name) / _TIMES)
        patch.setattr(params, "DEFAULT", replace(params.DEFAULT, work_per_s=params.DEFAULT.work_per_s / _TIMES))
        yield _TIMES * seconds


class MadeUpClock:
    """A clock that stands still until it has been read so often; then years pass from one reading to the next."""

    def __init__(self, readings: float) -> None:
        self.readings = readings
        self.read = 0

    def __call__(self) -> float:
        """Return the time [s]."""
        self.read += 1
        return _START + _YEARS * max(0.0, self.read - self.readings)

    @property
    def struck(self) -> bool:
        """Return whether somebody has read that the time is over."""
        return self.read > self.readings


@contextmanager
def clock_that_strikes_after(readings: float) -> Iterator[MadeUpClock]:
    """Put a made-up clock in the place of the two that searches read."""
    clock = MadeUpClock(readings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", clock)
        patch.setattr(time, "perf_counter", clock)
        yield clock
