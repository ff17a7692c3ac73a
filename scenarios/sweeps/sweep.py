"""Sweeps: every design point times every replication, on processes of this machine or on Spark, resumed by default."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Literal

from analysis.comparison import Replications
from analysis.runs.metrics import Metrics
from models import display
from models.errors import NO_VALUE, InputError, WorkerLost
from scenarios.files.scenario import LoadedScenario
from scenarios.runs.sandbox import Answer
from scenarios.sweeps.plan import SweepPlan, make_plan
from scenarios.sweeps.run import Chunks
from scenarios.sweeps.store import OK, Row, SweepStore, digest

Engine = Literal["local", "spark"]
Progress = Callable[[float], None]
_LOOK_S = 0.2
_LIMITS_S = (0.001, 1e9)  # what --time-limit may be


@dataclass(frozen=True)
class SweepResult:
    """All that is known of a sweep: its plan, and a row for each run.

    >>> from holdfast import LoadedScenario, read_scenario, scenario_with, sweep
    >>> loaded = read_scenario("examples/two-hosts.toml")
    >>> varied = scenario_with(loaded.scenario, {"sweep": {"fault_tolerance.interval": ["2 s", "10 s"]}})
    >>> result = sweep(LoadedScenario(varied, loaded.folder), "intervals-2")
    >>> result.failed, len(result.rows)
    ((), 2)
    """

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
        return self._by_point.get(point, {})

    @cached_property
    def _by_point(self) -> dict[int, dict[int, Metrics]]:
        found: dict[int, dict[int, Metrics]] = {}
        for row in self.rows:
            if row.status == OK:
                found.setdefault(row.point, {})[row.replication] = row.metrics
        return found


def sweep(
    loaded: LoadedScenario,
    out: Path | str,
    *,
    engine: Engine = "local",
    workers: int = 1,
    master: str | None = None,
    time_limit_s: float | None = None,
    retry: bool = False,
    summaries: bool = False,
    on_plan: Progress = lambda share: None,
    on_progress: Progress | None = None,
    on_compile: Progress | None = None,
    check: Callable[[SweepResult], object] = lambda stored: None,
) -> SweepResult:
    """Make what is missing of a sweep in the directory `out`, and return all of it.

    The same scenario gives the same digest for any engine, number of workers and interruptions. `workers` are
    processes (local) or threads of Spark (without a `master`). A run that takes more CPU time than `time_limit_s`
    (without it `limits.time`) ends as a row with that status; `retry` makes again what ended by time, memory, a
    crash or an error that nobody expected. `summaries` keeps the whole summary of each run in its row. Files that
    the scenario names are read from where `loaded` found them. `check` sees what is stored before anything is made,
    and may raise. Raises InputError for a directory that holds something else or cannot be written, WorkerLost
    where Spark gave up or the machine could not go on.

    >>> from holdfast import LoadedScenario, read_scenario, scenario_with, sweep
    >>> loaded = read_scenario("examples/two-hosts.toml")
    >>> varied = scenario_with(loaded.scenario, {"sweep": {"fault_tolerance.interval": ["2 s", "10 s"]}})
    >>> result = sweep(LoadedScenario(varied, loaded.folder), "intervals")
    >>> [row.status for row in result.rows]
    ['ok', 'ok']
    """
    low, high = _LIMITS_S
    if time_limit_s is not None and not low <= time_limit_s <= high:
        raise InputError.at(
            "--time-limit", time_limit_s, f"must be between {display.duration(low, 6)} and {display.duration(high, 6)}"
        )
    directory = _resolved(out)
    store = SweepStore(directory)
    with _machine_faults(directory):
        plan = store.begin(make_plan(loaded, on_plan))
        store.clean()
        todo = store.to_do(plan, summaries=summaries)
        check(SweepResult(directory, plan, tuple(store.rows(plan))))
        if retry:
            todo = store.to_do(plan, retry=True, summaries=summaries)
        if todo:
            store.check_writable()
            progress = _Share(plan, set(range(len(plan.chunks))) - set(todo), on_progress or (lambda _: None))
            if engine == "spark":
                from scenarios.sweeps.spark import on_spark  # noqa: PLC0415 - only where Spark is asked for

                look = partial(progress.look, store)
                on_spark(directory, loaded.folder, todo, time_limit_s, workers, master, look, summaries)
            else:
                make = partial(Chunks, directory, loaded.folder, plan, time_limit_s, summaries=summaries)
                _on_processes(make, plan, todo, workers, progress, on_compile)
    return read_sweep(directory)


@contextmanager
def _machine_faults(directory: Path) -> Iterator[None]:
    """WorkerLost in place of what a disk or a limit of the system says."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        text = "what is done is stored: give the same command again"
        raise WorkerLost(f"{directory}: {(error.strerror or str(error)).lower()}; {text}") from error


def _resolved(out: Path | str) -> Path:
    try:
        directory = Path(out).resolve()
        directory.exists()
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: a symbolic link that leads to itself
        why = getattr(error, "strerror", None) or "no directory can have this name"
        raise InputError.at(str(out), NO_VALUE, "is no directory that can be made", why.lower()) from None
    return directory


def read_sweep(directory: Path | str) -> SweepResult:
    """What there is of the sweep in a directory; raises InputError where there is none.

    >>> from holdfast import LoadedScenario, read_scenario, read_sweep, scenario_with, sweep
    >>> loaded = read_scenario("examples/two-hosts.toml")
    >>> varied = scenario_with(loaded.scenario, {"sweep": {"fault_tolerance.interval": ["2 s", "10 s"]}})
    >>> made = sweep(LoadedScenario(varied, loaded.folder), "intervals-3")
    >>> read_sweep("intervals-3").rows == made.rows
    True
    """
    store = SweepStore(Path(directory))
    plan = store.plan()
    return SweepResult(Path(directory), plan, tuple(store.rows(plan)))


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
        done = math.fsum(self._costs[chunk] * part for chunk, part in parts.items())  # in any order: never above all
        self._report(done / math.fsum(self._costs))


def _on_processes(
    make: Callable[[], Chunks],
    plan: SweepPlan,
    todo: Sequence[int],
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
        chunks = make()
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
