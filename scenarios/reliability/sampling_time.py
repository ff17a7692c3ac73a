"""How long sampling takes: a small batch is timed before many runs begin."""

from __future__ import annotations

import time
from collections.abc import Callable

from models import display
from models.errors import InputError

MEASURED = 100_000_000  # runs of all settings, from which on a batch is timed: fewer take seconds
BATCH = 1_000_000
_WARMING = 4096  # runs in which compiled code is loaded
_LONGEST_S = 86_400.0

ProgressCallback = Callable[[str], None]


class SamplingTime:
    """The expected time of sampling `runs` for each of so many settings; `clock` counts seconds."""

    def __init__(
        self, runs: int, settings: int, on_progress: ProgressCallback, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._runs, self._settings, self._on_progress, self._clock = runs, settings, on_progress, clock
        self._known = runs * settings <= MEASURED

    def check(self, sample: Callable[[int], object]) -> None:
        """Time a batch of `sample` and tell what all will take; raise InputError where that is more than a day.

        Do so once, and only where there are many runs.
        """
        if self._known:
            return
        self._known = True
        batch = min(BATCH, self._runs)
        sample(min(_WARMING, batch))
        begun = self._clock()
        sample(batch)
        each_s = (self._clock() - begun) / batch * self._settings
        expected_s = each_s * self._runs
        several = f" for each of {self._settings} settings" if self._settings > 1 else ""
        said = f"sampling {display.count(self._runs, 'run')}{several} takes about {display.duration(expected_s)}"
        if expected_s > _LONGEST_S:
            fitting = display.about(_LONGEST_S / each_s, 1)
            hint = f"about {fitting} runs take a day; stratified and importance-sampling need fewer for what is rare"
            raise InputError.at("--runs", self._runs, f"{said}: at most a day", hint)
        self._on_progress(said)
