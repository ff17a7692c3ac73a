"""Sweeps: every design point times every replication, on processes of this machine or on Spark, resumed by default."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Literal

from analysis.comparison import Replications
from scenarios.files import LoadedScenario
from scenarios.guard import Answer
from scenarios.sweep_plan import SweepPlan, make_plan
from scenarios.sweep_run import Chunks
from scenarios.sweep_store import OK, Row, SweepStore, digest

Engine = Literal["local", "spark"]
Progress = Callable[[float], None]
_LOOK_S = 0.2


@dataclass(frozen=True)
class SweepResult:
    """All that is known of a sweep: its plan, and a row for each run."""

    directory: Path
    plan: SweepPlan
    rows: tuple[Row, ...]

    @property
    def failed(self) -> tuple[Row, ...]:
        """The runs that did not come to their end."""
        return tuple(row for row in self.rows if row.status != OK)

    @property
    def digest(self) -> str:
        """Digest of the results, equal for any engine and number of workers."""
        return digest(self.rows)

    def replications(self, point: int) -> Replications:
        """Replication -> metrics of a design point, of the runs that came to their end."""
        own = (row for row in self.rows if row.point == point and row.status == OK)
        return {row.replication: row.metrics for row in own}


def sweep(
    loaded: LoadedScenario,
    out: Path | str,
    *,
    engine: Engine = "local",
    workers: int = 1,
    master: str | None = None,
    time_limit_s: float | None = None,
    retry: bool = False,
    on_progress: Progress | None = None,
    on_compile: Progress | None = None,
) -> SweepResult:
    """Make what is missing of a sweep in the directory `out`, and return all of it.

    The same scenario gives the same digest for any engine, number of workers and interruptions. `workers` are processes
    (local) or threads of Spark (without a `master`). A run that takes more CPU time than `time_limit_s` (without it
    `limits.time`) ends as a row with that status; `retry` makes again what ended by time, memory or a crash. Raises
    InputError for a directory that holds something else, WorkerLost where Spark gave up.
    """
    directory = Path(out).resolve()
    store = SweepStore(directory)
    plan = store.begin(make_plan(loaded, directory))
    store.clean()
    todo = store.to_do(plan, retry=retry)
    if todo:
        progress = _Share(plan, set(range(len(plan.chunks))) - set(todo), on_progress or (lambda _: None))
        if engine == "spark":
            from scenarios.sweep_spark import on_spark  # noqa: PLC0415 - only where Spark is asked for

            on_spark(directory, todo, time_limit_s, workers, master, lambda: progress.look(store))
        else:
            _on_processes(directory, plan, todo, time_limit_s, workers, progress, on_compile)
    return read_sweep(directory)


def read_sweep(directory: Path | str) -> SweepResult:
    """What there is of the sweep in a directory; raises InputError where there is none."""
    store = SweepStore(Path(directory))
    return SweepResult(Path(directory), store.plan(), tuple(store.rows()))


class _Share:
    """What part of a sweep is done, by expected time."""

    def __init__(self, plan: SweepPlan, done: set[int], report: Progress) -> None:
        self._costs, self._done, self._report = [max(cost, 1e-9) for cost in plan.costs_s], done, report
        self._sizes = [len(chunk) for chunk in plan.chunks]
        self._under_way: dict[int, float] = {}

    def note(self, chunk: int, runs: int, done: float) -> None:
        """So many runs of a chunk are done, and that part of the next."""
        self._under_way[chunk] = (runs + done) / self._sizes[chunk]
        self.report()

    def look(self, store: SweepStore) -> None:
        """Count what is stored."""
        self._done |= store.committed()
        self.report()

    def report(self) -> None:
        """Tell the share."""
        parts = {**dict.fromkeys(self._under_way, 0.0), **self._under_way, **dict.fromkeys(self._done, 1.0)}
        self._report(sum(self._costs[chunk] * part for chunk, part in parts.items()) / sum(self._costs))


def _on_processes(
    directory: Path,
    plan: SweepPlan,
    todo: Sequence[int],
    time_limit_s: float | None,
    workers: int,
    progress: _Share,
    on_compile: Progress | None,
) -> None:
    """Chunks by threads of this process, each with a process for the runs."""
    left: SimpleQueue[int] = SimpleQueue()
    for chunk in todo:
        left.put(chunk)
    stop, faults = threading.Event(), SimpleQueue[BaseException]()
    notes: SimpleQueue[tuple[int, Answer]] = SimpleQueue()

    def work() -> None:
        chunks = Chunks(directory, plan, time_limit_s)
        try:
            while not stop.is_set():
                chunk = left.get_nowait()
                chunks.run(chunk, lambda what, chunk=chunk: notes.put((chunk, what)), stop.is_set)  # type: ignore[misc]
        except Empty:
            pass
        except BaseException as error:
            faults.put(error)
            stop.set()
        finally:
            chunks.close()

    with _threads(work, min(workers, len(todo)), stop) as threads:
        while any(thread.is_alive() for thread in threads):
            time.sleep(_LOOK_S)
            while not notes.empty():
                chunk, what = notes.get()
                if "compiled" in what and on_compile:
                    on_compile(what["compiled"])
                elif "done" in what:
                    progress.note(chunk, what["runs"], what["done"])
    if not faults.empty():
        raise faults.get()


@contextmanager
def _threads(work: Callable[[], None], count: int, stop: threading.Event) -> Iterator[list[threading.Thread]]:
    """Threads that have ended, or were told to, when the block is left."""
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        stop.set()
        for thread in threads:
            thread.join()
