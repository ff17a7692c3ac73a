"""The pieces of a study: made by processes of this machine or by Spark, and kept, so that a second attempt goes on.

    DIR/results/NAME.json   what came out of one piece, whole, written once
    DIR/tmp/                what is being written

The name holds all that the result depends on, the version of this program too. So pieces that two attempts have in
common (those of `--quick` are part of the whole) are made once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Protocol

from models.errors import NO_VALUE, InputError
from scenarios.execute import COMPILING
from scenarios.unfinished import remove_stale
from scenarios.workers import submitted
from scenarios.write_once import disk_errors, write_once

Engine = Literal["local", "spark"]
Talk = Callable[[str, float | None], None]
Prepare = Callable[[Callable[[float], None]], None]

RESULTS, TMP = "results", "tmp"


class Task(Protocol):
    """A frozen dataclass whose fields say everything that its result depends on."""

    @property
    def label(self) -> str:
        """What it is about, as the beginning of a file's name."""
        ...

    @property
    def cost_s(self) -> float:
        """About how much CPU time it takes."""
        ...

    def run(self) -> Any:
        """What comes out, as JSON can hold it."""
        ...


@dataclass(frozen=True)
class Desk:
    """Where and how pieces are made; without `directory` nothing is kept. `say` gets a line for whoever waits."""

    directory: Path | None = None
    engine: Engine = "local"
    workers: int = 1
    master: str | None = None
    talk: Talk = lambda text, share: None
    say: Callable[[str], None] = lambda line: None

    def make(self, title: str, tasks: Sequence[Task], prepare: Prepare | None = None) -> list[Any]:
        """The results, in order; pieces that are kept are not made again.

        `prepare` compiles what the pieces need, for this machine, before several processes would do the same.
        Raises InputError for a directory of something else or that cannot be written, WorkerLost where a process was
        killed or Spark gave up.
        """
        kept = [_kept(self.directory, task) for task in tasks]
        missing = [k for k, one in enumerate(kept) if one is None]
        if missing:
            self.say(_expected([tasks[k] for k in missing], len(tasks), self.workers))
            if prepare:
                prepare(lambda share: self.talk(COMPILING, share))
            for k, result in zip(missing, self._made(title, tasks, missing), strict=True):
                kept[k] = result
        return [one["result"] for one in kept if one is not None]

    def _made(self, title: str, tasks: Sequence[Task], missing: Sequence[int]) -> list[dict[str, Any]]:
        make = partial(_make, None if self.directory is None else os.fsencode(self.directory.resolve()))
        todo = [tasks[k] for k in missing]
        all_s = sum(task.cost_s for task in todo)
        if self.engine == "spark":
            from scenarios.sweep_spark import each_on_spark  # noqa: PLC0415 - only where Spark is asked for

            def look() -> None:
                self.talk(title, sum(task.cost_s for task in todo if _kept(self.directory, task)) / all_s)

            return each_on_spark("holdfast reproduce", make, todo, self.workers, self.master, look)
        done_s = 0.0
        made: dict[int, dict[str, Any]] = {}

        def done(number: int, result: dict[str, Any]) -> None:
            nonlocal done_s
            made[number] = result
            done_s += todo[number].cost_s
            self.talk(title, done_s / all_s)

        _on_processes(make, todo, self.workers, done)
        return [made[number] for number in range(len(todo))]


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


def _expected(todo: Sequence[Task], every: int, workers: int) -> str:
    minutes = sum(task.cost_s for task in todo) / workers / 60
    about = f"{minutes:.0f} min" if minutes >= 1.5 else f"{max(1.0, 60 * minutes):.0f} s"
    there = f", {every - len(todo)} are there" if len(todo) < every else ""
    return f"{len(todo)} of {every} pieces to make{there}: about {about} on {workers} core{'s' * (workers > 1)}"


@lru_cache
def _version() -> str:
    return version("holdfast")


def _path(directory: Path, task: Task) -> Path:
    digest = hashlib.sha256(f"{_version()} {task!r}".encode()).hexdigest()[:16]
    return directory / RESULTS / f"{task.label}-{digest}.json"


def _kept(directory: Path | None, task: Task) -> dict[str, Any] | None:
    """What is kept of a piece; None where there is nothing, or something damaged, which is removed."""
    if directory is None:
        return None
    path = _path(directory, task)
    try:
        content = json.loads(path.read_bytes())
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


def _make(place: bytes | None, task: Task) -> dict[str, Any]:
    """Make one piece and keep it; whoever was first is believed."""
    directory = None if place is None else Path(os.fsdecode(place))
    there = _kept(directory, task)  # by another driver
    if there is not None:
        return there
    began = time.process_time()
    result = json.loads(json.dumps(task.run(), allow_nan=False))  # the same, kept or not
    content = {"task": repr(task), "result": result, "cpu_s": round(time.process_time() - began, 3)}
    if directory is not None:
        with disk_errors(directory):
            write_once(_path(directory, task), json.dumps(content).encode(), directory / TMP)
    return content


def _on_processes(
    make: Callable[[Task], dict[str, Any]],
    todo: Sequence[Task],
    workers: int,
    done: Callable[[int, dict[str, Any]], None],
) -> None:
    """Make the pieces; `done` gets the number and the content of each as it is made."""
    if workers <= 1 or len(todo) <= 1:
        for number, task in enumerate(todo):
            done(number, make(task))
        return
    with submitted(make, [(task,) for task in todo], min(workers, len(todo))) as futures:
        numbers = {future: number for number, future in enumerate(futures)}
        for future in as_completed(futures):
            done(numbers[future], future.result())
