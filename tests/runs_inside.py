"""Runs of sweeps in this process: one of their own takes seconds to begin, and most tests ask for the rows alone.

`test_sweep` has real processes, and finds the same rows by them; `test_guard` asks what they add.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from scenarios.runs.sandbox import Answer, Note
from scenarios.sweeps.run import Runs

_ONE = threading.Lock()
"""Workers of a sweep are threads, and a process has one run at a time."""


class Inside:
    """In the place of the `Sandbox` of `scenarios.sweeps.run`: no limits, and nothing survives what ends a process."""

    def __init__(self, _: str, arguments: Sequence[str]) -> None:
        self._places = [Path(one) for one in arguments[:2]]
        self._runs: Runs | None = None

    def ask(self, request: Answer, _: float, note: Note, stop: Callable[[], bool]) -> Answer:
        """What the process would answer."""
        if stop():
            return {"ended": "stopped"}
        with _ONE:
            self._runs = self._runs or Runs(*self._places)
            self._runs.prepare(request["point"], note)
            answer = self._runs.run(request["point"], request["replication"], note, whole=request["whole"])
        return dict(json.loads(json.dumps(answer)))

    def close(self) -> None:
        """Forget what was prepared."""
        self._runs = None


@contextmanager
def inside() -> Iterator[None]:
    """Let sweeps of this machine make their runs in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scenarios.sweeps.run.Sandbox", Inside)
        yield
