"""Chunks of a sweep as tasks of Spark: one partition for each, stored by whoever makes it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from analysis.spark.session import spark_session
from models.errors import InputError, MissingTool, WorkerLost
from scenarios.sweeps.run import Chunks
from scenarios.sweeps.store import SweepStore

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")

# Workers may be on other machines: progress is seen by the files that they commit, at this interval [s].
_LOOK_S = 0.5
_STACK, _NOT_USEFUL = "Traceback (most recent call last):", ("at ", "An error occurred")


def on_spark(
    directory: Path,
    folder: Path,
    todo: Sequence[int],
    time_limit_s: float | None,
    workers: int,
    master: str | None,
    look: Callable[[], None],
    summaries: bool = False,
) -> None:
    """Make chunks on the cluster of `master`, or on threads of this machine; all must see the directory and the folder.

    A task is tried four times; what is stored stays stored. Raises WorkerLost where Spark does not start or gave up.
    """
    # As bytes: a name that is not UTF-8 does not pass through Spark's serialisers as text.
    place, files = os.fsencode(directory), os.fsencode(folder)

    def make(chunk: int) -> int:
        _chunks(place, files, time_limit_s, summaries).run(chunk)
        return chunk

    each_on_spark("holdfast sweep", make, todo, workers, master, look)


def each_on_spark(
    name: str,
    make: Callable[[_Item], _Made],
    items: Sequence[_Item],
    workers: int,
    master: str | None,
    look: Callable[[], None],
) -> list[_Made]:
    """Return the result for each item, in order, by tasks of Spark; `look` is called now and then.

    Raises WorkerLost where Spark does not start or gave up.
    """
    # `look` ends before the session does: the session is the outer block.
    with (
        _started(spark_session(name, cores=workers, master=master or f"local[{workers},4]")) as session,
        _looking(look),
    ):
        try:
            # One partition per item: Spark then balances single chunks and repeats no finished one after a failure.
            made: list[_Made] = session.sparkContext.parallelize(list(items), len(items)).map(make).collect()
        except Exception as error:
            text = "Spark gave up; finished runs are stored, and the same command continues"
            raise WorkerLost(f"{text} ({_first_line(error)})") from error
    return made


@contextmanager
def _started(session: AbstractContextManager[Any]) -> Iterator[Any]:
    """Yield the session; WorkerLost in place of a page of Java where there is none."""
    with ExitStack() as stack:
        try:
            started = stack.enter_context(session)
        except (InputError, MissingTool):
            raise
        except Exception as error:
            raise WorkerLost(f"Spark did not start ({_first_line(error)})") from error
        yield started


def _first_line(error: Exception) -> str:
    """Return the message of an error without the stacks of Java and Python."""
    lines = str(error).strip().splitlines()
    if _STACK in lines:  # the first line that is not indented after it is what went wrong
        lines = [line for line in lines[lines.index(_STACK) + 1 :] if not line.startswith(" ")]
    useful = (line.strip().removeprefix(": ") for line in lines if not line.strip().startswith(_NOT_USEFUL))
    return next((line[:200] for line in useful if line), type(error).__name__)


@lru_cache(maxsize=1)
def _chunks(place: bytes, files: bytes, time_limit_s: float | None, summaries: bool) -> Chunks:
    """Return the chunks that a worker of Spark keeps for its next task; the process behind it ends with the worker."""
    directory, folder = Path(os.fsdecode(place)), Path(os.fsdecode(files))
    return Chunks(directory, folder, SweepStore(directory).plan(), time_limit_s, summaries=summaries)


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
