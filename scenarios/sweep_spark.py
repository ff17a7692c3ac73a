"""Chunks of a sweep as tasks of Spark: one partition for each, stored by whoever makes it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from analysis.spark.session import spark_session
from models.errors import WorkerLost
from scenarios.sweep_run import Chunks
from scenarios.sweep_store import SweepStore

_LOOK_S = 0.5


def on_spark(
    directory: Path,
    todo: Sequence[int],
    time_limit_s: float | None,
    workers: int,
    master: str | None,
    look: Callable[[], None],
) -> None:
    """Make chunks on the cluster of `master`, or on threads of this machine; all must see the directory.

    A task is tried four times; what is stored stays stored. Raises WorkerLost where Spark gave up.
    """
    place = str(directory)

    def make(chunk: int) -> int:
        _chunks(place, time_limit_s).run(chunk)
        return chunk

    with (
        spark_session("holdfast sweep", cores=workers, master=master or f"local[{workers},4]") as session,
        _looking(look),
    ):
        chunks = session.sparkContext.parallelize(list(todo), len(todo))
        try:
            chunks.map(make).collect()
        except Exception as error:
            last = str(error).strip().splitlines()[:1]
            text = "Spark gave up; what is done is stored: give the same command to go on"
            raise WorkerLost(f"{text} ({last[0][:200] if last else type(error).__name__})") from error


@lru_cache(maxsize=1)
def _chunks(place: str, time_limit_s: float | None) -> Chunks:
    """What a worker of Spark keeps from one task to the next; the process behind it ends with the worker."""
    return Chunks(Path(place), SweepStore(Path(place)).plan(), time_limit_s)


class _looking:  # noqa: N801 - a context manager
    """Look at what is stored from time to time, as long as the block runs."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look, self._stop = look, threading.Event()
        self._thread = threading.Thread(target=self._go, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _go(self) -> None:
        while not self._stop.wait(_LOOK_S):
            self._look()
