"""The pieces of a study: made by processes of this machine or by Spark, and kept, so that a second attempt resumes.

    DIR/results/NAME.json   what came out of one piece, whole, written once
    DIR/tmp/                what is being written

The name holds all that the result depends on, the version of this program too. So pieces that two attempts have in
common (those of `--quick` are part of the whole) are made once. Costs of pieces were measured on one machine;
`machine_pace` says how fast this one is beside it.

A schedule says when all pieces will be made, from the expected and the measured time of each. Pieces are given out one
after the other, each to the worker that is free first; so the longest come first, and the last ones, which keep one
worker busy while others have nothing left, are short."""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from models.errors import NO_VALUE, InputError
from scenarios.files.write_once import disk_errors, remove_stale, write_once
from scenarios.runs.execute import COMPILING
from scenarios.runs.task_runner import run_tasks
from scenarios.sweeps.sweep import Where

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


_MEASURED_S = 0.019  # CPU time of the same work on that machine, when it had nothing else to do
_TRIES = 3
_SLOWEST, _FASTEST = 8.0, 0.125  # what is beyond is an accident


@lru_cache(maxsize=1)
def machine_pace() -> float:
    """Return how many times as long a piece takes here as there: by the CPU time of some work, the least of tries."""
    # The least of some tries: other processes can only make the work slower.
    return min(_SLOWEST, max(_FASTEST, min(_work_s() for _ in range(_TRIES)) / _MEASURED_S))


def _work_s() -> float:
    """Return the CPU time [s] of work of the kind that pieces do: short arrays, and Python between them."""
    # CPU time, not wall time: the estimate must not depend on what else runs at the moment.
    began = time.process_time()
    rng, total = np.random.default_rng(1), 0.0
    for _ in range(300):
        drawn = rng.random(500)
        order = np.argsort(drawn, kind="stable")
        total += float(drawn[order].cumsum()[-1])
        total += sum(k * k for k in order.tolist() if k % 3)
    return time.process_time() - began


Prepare = Callable[[Callable[[float], None]], None]

RESULTS, TMP = "results", "tmp"
_TOOK_S = "took_s"  # of a piece that was made now
_WORKER_START_S, _SPARK_START_S = 2.0, 8.0  # until several processes, or those of Spark, have begun, as measured
_LONG_S = 2.0  # after which a piece is named


class ProgressCallback(Protocol):
    """Is told what is done, the share of it that is done, how long the rest takes [s], and what of it is under way."""

    def __call__(self, text: str, share: float | None, left_s: float | None = None, now: str = "") -> None: ...


def _silent(text: str, share: float | None, left_s: float | None = None, now: str = "") -> None:
    """Tell nobody."""


class Task(Protocol):
    """A frozen dataclass whose fields say everything that its result depends on."""

    @property
    def label(self) -> str:
        """Its subject, as the beginning of a file's name."""
        ...

    @property
    def cost_s(self) -> float:
        """About how much CPU time it takes."""
        ...

    def run(self) -> Any:
        """Return the result, as JSON can hold it."""
        ...


@dataclass(frozen=True)
class TaskRunner:
    """Where and how pieces are made; without `directory` nothing is kept. `say` gets a line for whoever waits."""

    directory: Path | None = None
    on: Where = "local"
    workers: int = 1
    master: str | None = None
    on_progress: ProgressCallback = _silent
    say: Callable[[str], None] = lambda line: None

    def make(self, title: str, tasks: Sequence[Task], prepare: Prepare | None = None) -> list[Any]:
        """Return the results, in order; pieces that are kept are not made again.

        The longest are begun first. `prepare` compiles what the pieces need, for this machine, before several processes
        would do the same. Raises InputError for a directory of something else or that cannot be written, WorkerLost
        where a process was killed or Spark gave up.
        """
        kept = [_kept(self.directory, task) for task in tasks]
        missing = [k for k, one in enumerate(kept) if one is None]
        if missing:
            todo = [tasks[k] for k in missing]
            costs_s = self._costs(todo)
            self.say(_expected(costs_s, len(tasks), self._at_once(len(todo)), self._start_s(len(todo))))
            if prepare:
                # In this process, before workers start: each would compile the same code.
                prepare(lambda share: self.on_progress(COMPILING, share))
            for k, result in zip(missing, self._made(title, todo, costs_s), strict=True):
                kept[k] = result
        return [one["result"] for one in kept if one is not None]

    def _costs(self, todo: Sequence[Task]) -> list[float]:
        pace = machine_pace()
        return [task.cost_s * pace for task in todo]

    def _at_once(self, pieces: int) -> int:
        return min(self.workers, pieces)

    def _start_s(self, pieces: int) -> float:
        """Return how long it takes until the first piece begins."""
        if self.on == "spark":
            return _SPARK_START_S
        return _WORKER_START_S if self._at_once(pieces) > 1 else 0.0

    def _made(self, title: str, todo: Sequence[Task], costs_s: Sequence[float]) -> list[dict[str, Any]]:
        """Return the content of each piece, in the order of `todo`, by processes of this machine or by Spark."""
        make = partial(_make, None if self.directory is None else os.fsencode(self.directory.resolve()))
        order = longest_first(costs_s)
        at_once = self._at_once(len(todo))
        progress = _Progress(title, todo, Forecast(costs_s, at_once), self._start_s(len(todo)), self.on_progress)
        made: dict[int, dict[str, Any]] = {}

        def ended(number: int, content: dict[str, Any]) -> None:
            made[number] = content
            progress.ended(number, content.get(_TOOK_S))

        if self.on == "spark":
            from scenarios.sweeps.spark import each_on_spark  # noqa: PLC0415 - only where Spark is asked for

            def look() -> None:
                for number, task in enumerate(todo):
                    # Workers of Spark report by the files that they write: a look at the disk is the progress.
                    there = None if number in made else _kept(self.directory, task)
                    if there is not None:
                        ended(number, there)
                progress.tell()

            # Spark begins partitions in their order: the longest first, as local workers do.
            given = [todo[number] for number in order]
            results = each_on_spark("holdfast reproduce", make, given, self.workers, self.master, look)
            return [one for _, one in sorted(zip(order, results, strict=True), key=lambda pair: pair[0])]
        return run_tasks(make, todo, at_once, order=order, on_result=ended, on_look=progress.tell)


class _Progress:
    """The progress of pieces: the share of the expected time that is done, and what is left."""

    def __init__(
        self, title: str, todo: Sequence[Task], forecast: Forecast, start_s: float, on_progress: ProgressCallback
    ) -> None:
        self._title, self._todo, self._forecast, self._on_progress = title, todo, forecast, on_progress
        self._zero = time.monotonic() + start_s
        self._all_s, self._done_s = math.fsum(task.cost_s for task in todo), 0.0

    def ended(self, number: int, took_s: float | None) -> None:
        """Tell that a piece ended, which took so long; None where another driver made it."""
        self._done_s += self._todo[number].cost_s
        self._forecast.ended(number, took_s, self._now_s)
        self.tell()

    def tell(self) -> None:
        """Tell how far it is."""
        now_s, under_way = self._now_s, ""
        if self._forecast.running:
            first = self._forecast.running[0]
            so_far_s = now_s - self._forecast.began_s(first)
            if so_far_s >= _LONG_S:
                under_way = f"{self._todo[first].label} for {so_far_s:.0f} s"
        self._on_progress(self._title, min(1.0, self._done_s / self._all_s), self._forecast.left_s(now_s), under_way)

    @property
    def _now_s(self) -> float:
        return time.monotonic() - self._zero


def check_directory(directory: Path) -> None:
    """Make the directory, or take the one of an earlier attempt; raises InputError for one of something else."""
    with disk_errors(directory, "cannot be made"):
        if directory.exists() and not directory.is_dir():
            raise InputError.at(str(directory), "a file", "must be a directory or not there yet")
        if directory.exists() and any(
            one.name not in (RESULTS, TMP) or not one.is_dir() for one in directory.iterdir()
        ):
            rule = "must be a new or empty directory, or that of an earlier attempt"
            raise InputError.at(str(directory), "something else", rule, "choose another --out; nothing was changed")
        for name in (RESULTS, TMP):
            (directory / name).mkdir(parents=True, exist_ok=True)
    remove_stale(directory / TMP)


def _expected(costs_s: Sequence[float], every: int, workers: int, start_s: float) -> str:
    """Return how many pieces are made, and about how long that takes on so many workers, the longest first."""
    seconds = start_s + makespan_s(sorted(costs_s, reverse=True), workers)
    about = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{max(1.0, seconds):.0f} s"
    there = f", {every - len(costs_s)} are there" if len(costs_s) < every else ""
    return f"{len(costs_s)} of {every} pieces to make{there}: about {about} on {workers} core{'s' * (workers > 1)}"


@lru_cache
def _version() -> str:
    return version("holdfast")


def _path(directory: Path, task: Task) -> Path:
    # The repr of a frozen dataclass has all its fields: another seed or variant has another name.
    digest = hashlib.sha256(f"{_version()} {task!r}".encode()).hexdigest()[:16]
    return directory / RESULTS / f"{task.label}-{digest}.json"


def _kept(directory: Path | None, task: Task) -> dict[str, Any] | None:
    """Return the stored content of a piece; None where there is none, or it is damaged, and then removed."""
    if directory is None:
        return None
    path = _path(directory, task)
    try:
        content = json.loads(path.read_bytes())
        # Compared in full, as a digest of 64 bits in a name may collide.
        if content["task"] == repr(task) and "result" in content:
            return dict(content)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        pass
    except OSError as error:
        raise InputError.at(str(path), NO_VALUE, "cannot be read", (error.strerror or str(error)).lower()) from None
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    return None


def _make(place: bytes | None, task: Task, _: object = None) -> dict[str, Any]:
    """Make one piece and keep it; of several equal pieces the first is kept."""
    directory = None if place is None else Path(os.fsdecode(place))
    there = _kept(directory, task)  # by another driver
    if there is not None:
        return there
    began, began_cpu = time.monotonic(), time.process_time()
    result = json.loads(json.dumps(task.run(), allow_nan=False))  # the same, kept or not
    content = {"task": repr(task), "result": result, "cpu_s": round(time.process_time() - began_cpu, 3)}
    if directory is not None:
        with disk_errors(directory):
            # If another driver was first its file stays: both hold the same result.
            write_once(_path(directory, task), json.dumps(content).encode(), directory / TMP)
    return content | {_TOOK_S: time.monotonic() - began}
