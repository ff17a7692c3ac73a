"""What surrounds a job of Spark: Ctrl-C, and how much of it is done."""

from __future__ import annotations

import logging
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from analysis.spark import files
from analysis.spark.files import _ended_by_interrupt, watched


def session_with(**parts: Any) -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(**parts))


def test_an_interrupt_ends_the_java_machine_whatever_waits_for_it() -> None:
    ended: list[str] = []
    gateway = SimpleNamespace(proc=SimpleNamespace(kill=lambda: ended.append("killed")))
    before, logged = signal.getsignal(signal.SIGINT), logging.root.manager.disable

    def waits() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            raise ConnectionError("no answer")  # as PySpark has it, which waits for the job all the same

    try:
        with pytest.raises(KeyboardInterrupt), _ended_by_interrupt(session_with(_gateway=gateway)):
            waits()
    finally:
        logging.disable(logged)
    assert ended == ["killed"]
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_without_an_interrupt_stays_what_it_is() -> None:
    with pytest.raises(ConnectionError), _ended_by_interrupt(session_with()):
        raise ConnectionError("no answer")


def test_the_share_of_done_tasks_is_told_and_never_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_SHORT_S", 0.001)
    monkeypatch.setattr(files, "_LOOK_S", 0.001)
    stages = iter([None, (2, 1), (20, 5), (20, 10), (8, 1), (20, 20)])  # None: gone since it was named
    told: list[float] = []

    def info(_number: int) -> Any:
        found = next(stages)
        return found and SimpleNamespace(numTasks=found[0], numCompletedTasks=found[1])

    tracker = SimpleNamespace(getActiveStageIds=lambda: [7], getStageInfo=info)
    with watched(session_with(statusTracker=lambda: tracker), told.append):
        for _ in range(2000):
            if told[-1:] == [1.0]:
                break
            files.threading.Event().wait(0.005)
    assert told == [0.25, 0.5, 0.5, 1.0]
