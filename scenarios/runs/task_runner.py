"""The runner of tasks that runs, fleets, sweeps and reproductions of papers share.

Results come in the order of the tasks, for any number of workers. Workers are processes (`run_tasks`), or threads that
each drive a process of their own for work that may crash or hang (`run_on_threads`). Only the caller gets Ctrl-C, no
worker outlives its call, and every callback runs in the thread of the caller.

Read `submitted` first: it owns the pool of processes, with the signals and the ways in which a pool can hang.
`run_tasks` adds order and progress to it; `run_on_threads` needs no pool, because a sandbox ends its own process.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from models.errors import WorkerLost
from scenarios.runs.sandbox import end_with

Item = TypeVar("Item")
T = TypeVar("T")
R = TypeVar("R")
# How often a caller that waits for results gets a turn [s]: for progress, and for a signal that was kept waiting.
_EVERY_S = 0.2


@contextmanager
def submitted(
    function: Callable[..., Item],
    arguments: Iterable[tuple[Any, ...]],
    workers: int,
    begin: Callable[..., None] | None = None,
    shared: tuple[Any, ...] = (),
) -> Iterator[Iterator[list[tuple[int, Item]]]]:
    """Call the function once for each tuple of arguments, on fresh interpreters.

    Yields lists of what has arrived since: the number of the tuple and its result, in the order of the numbers. A list
    comes at least every 0.2 s, if need be an empty one. Each worker first calls `begin(*shared)`. If the block raises,
    the workers are terminated, and have ended when the exception goes on. Raises WorkerLost if a worker was killed.
    """
    # SIGTERM raises SystemExit while the pool is open, so that `_pool` ends the workers before this process goes.
    with _handler(signal.SIGTERM, _terminated), _pool(workers, begin, shared) as pool:
        with _without_interrupts():  # the executor starts its processes while it takes the work
            futures = [pool.submit(function, *one) for one in arguments]
        # Only now: workers that are started after this would inherit a closed pipe.
        _leave_results_to_workers(pool)
        yield _arrived(futures)


def _arrived(futures: list[Future[Item]]) -> Iterator[list[tuple[int, Item]]]:
    """Yield the numbers and results of futures as they come.

    An exception that a signal raises amid `wait` or `result` could leave the lock of a future taken, for which the
    thread of the executor would then wait for ever.
    """
    left = {future: number for number, future in enumerate(futures)}
    while left:
        with _without_interrupts():
            # `wait` returns a set: sorting gives callers the same order in every process.
            done = sorted(wait(left, _EVERY_S, FIRST_COMPLETED).done, key=left.__getitem__)
            results = [(left.pop(future), future.result()) for future in done]
        yield results


@contextmanager
def _pool(workers: int, begin: Callable[..., None] | None, shared: tuple[Any, ...]) -> Iterator[ProcessPoolExecutor]:
    """Yield an executor whose processes are terminated if the block raises."""
    # The caller may have children of its own: only those that appear after this are workers of this pool.
    others = set(multiprocessing.active_children())
    # A fresh interpreter for each worker: a fork would copy whatever threads the caller runs.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _begin_worker, (os.getpid(), begin, shared))
    try:
        yield pool
    except BaseException as error:
        # Futures are not cancelled: the executor cannot take it that one is when a worker ends.
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        if isinstance(error, BrokenProcessPool):
            # SIGTERM to the whole group may reach a worker first: give this process the time to get its own.
            time.sleep(_EVERY_S)
            text = "a worker process was killed, perhaps because memory ran out: try fewer workers, or a shorter run"
            raise WorkerLost(text) from None
        raise
    finally:
        pool.shutdown()


def _leave_results_to_workers(pool: ProcessPoolExecutor) -> None:
    """Close this process's end of the pipe into which workers write results; all of them have been started.

    A worker that is terminated while it writes leaves half a message. The executor would wait for the rest for ever,
    since an end of file comes only when nobody can write any more.
    """
    writer = getattr(getattr(pool, "_result_queue", None), "_writer", None)  # the executor has no public name for it
    if writer is not None:
        writer.close()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Keep Ctrl-C and SIGTERM waiting until the block ends; processes that are started inside never get Ctrl-C.

    New processes inherit the blocked signal. Another thread of this process may take it all the same, and Python would
    raise KeyboardInterrupt in the main thread: so its handler waits as well. SIGTERM is not blocked, since it is what
    ends workers; its handler must not raise while a process is half started.
    """
    # Only the first is raised again: the block is left once, however often Ctrl-C was pressed meanwhile.
    came: list[int] = []

    def wait(number: int, _: Any) -> None:
        came.append(number)

    try:
        with _handler(signal.SIGTERM, wait), _handler(signal.SIGINT, wait), _blocked(signal.SIGINT):
            yield
    finally:
        # Also if the block raised: SIGTERM to the whole group kills workers, whose loss is not what the user asked for.
        if came:
            signal.raise_signal(came[0])


@contextmanager
def _handler(number: signal.Signals, handle: Callable[[int, Any], object]) -> Iterator[None]:
    """Handle a signal in the main thread of Python; elsewhere, and where it is ignored, do nothing."""
    # Python sets handlers in its main thread only; SIG_IGN (nohup) and handlers set in C (None) stay as they are.
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(number) in (signal.SIG_IGN, None):
        yield
        return
    before = signal.signal(number, handle)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def _blocked(number: signal.Signals) -> Iterator[None]:
    """Block a signal in this thread."""
    if not hasattr(signal, "pthread_sigmask"):  # a system without
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _terminated(number: int, _: Any) -> None:
    """Leave as a process that the signal kills, but after all workers have ended."""
    # The exit code that a shell reports for a process that the signal ended.
    raise SystemExit(128 + number)


def _begin_worker(parent: int, begin: Callable[..., None] | None, shared: tuple[Any, ...]) -> None:
    """Prepare a worker, which ends with the process that waits for it."""
    # A parent that is killed cannot terminate its workers: each looks for itself whether the parent is there.
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    if begin is not None:
        begin(*shared)


Part = Callable[[float], None]
_performing: Any = None  # in a worker process: what performs tasks, and how far each task has come


class Share:
    """Keep the share of the expected time of some tasks that is done, which never falls.

    It is told to `report` when it may have changed.
    """

    def __init__(self, costs_s: Sequence[float], report: Callable[[float], None], done: Iterable[int] = ()) -> None:
        # Above zero, or tasks without an expected time would make the sum, by which is divided, zero.
        self._costs, self._report = [max(cost, 1e-9) for cost in costs_s], report
        self._parts = dict.fromkeys(done, 1.0)

    def note(self, task: int, part: float) -> None:
        """Note the part of a task that is done; less than before counts for nothing."""
        # Neither a late note of a worker nor a run that is made again (`sim.engine`) must move a bar back.
        self._parts[task] = max(part, self._parts.get(task, 0.0))
        self.tell()

    def ended(self, task: int, _: object = None) -> None:
        """Note that a task has ended."""
        self.note(task, 1.0)

    def tell(self) -> None:
        """Tell the share."""
        done = math.fsum(self._costs[task] * part for task, part in self._parts.items())  # in any order the same
        self._report(done / math.fsum(self._costs))


def run_tasks(
    perform: Callable[[T, Part], R],
    tasks: Sequence[T],
    workers: int,
    *,
    order: Sequence[int] | None = None,
    on_part: Callable[[int, float], None] = lambda task, part: None,
    on_result: Callable[[int, R], None] = lambda task, result: None,
    on_look: Callable[[], None] = lambda: None,
) -> list[R]:
    """Return what `perform` makes of each task, in the order of the tasks.

    With one worker or one task it does so in this process, else on fresh interpreters: `perform` reaches each of them
    once, as a pickle, and tasks begin in `order`, each on the worker that is free first. `perform` also gets a function
    that it tells the part of the task that is done. `on_part` and `on_result` get the number of a task; `on_look` is
    called now and then. Raises WorkerLost if a worker was killed; an error of a task ends all others.
    """
    numbers = range(len(tasks)) if order is None else order
    results: dict[int, R] = {}

    def ended(number: int, result: R) -> None:
        results[number] = result
        on_result(number, result)

    # In this process: no start of an interpreter, and a debugger or profiler sees the task.
    if min(workers, len(tasks)) <= 1:
        for number in numbers:
            on_look()
            ended(number, perform(tasks[number], partial(on_part, number)))
        return [results[number] for number in range(len(tasks))]
    # Shared memory without a lock: each task writes one aligned double, and an old value does no harm.
    parts = multiprocessing.RawArray("d", len(tasks))
    # The pool takes work in the order in which it is submitted.
    given = [(number, tasks[number]) for number in numbers]
    with submitted(_one, given, min(workers, len(tasks)), _begin, (perform, parts)) as arrived:
        told = [0.0] * len(tasks)
        for done in arrived:
            for place, result in done:
                ended(numbers[place], result)
            # After the results, or a task that has ended would be told as unfinished once more.
            for number, part in enumerate(parts):
                if part != told[number] and number not in results:
                    told[number] = part
                    on_part(number, part)
            on_look()
    return [results[number] for number in range(len(tasks))]


def _begin(perform: Callable[[Any, Part], Any], parts: Any) -> None:
    global _performing  # noqa: PLW0603 - the only way to hand shared memory to the workers of a pool
    _performing = perform, parts


def _one(number: int, task: Any) -> Any:
    perform, parts = _performing

    def tell(part: float) -> None:
        parts[number] = part

    return perform(task, tell)


class Attendant(Protocol):
    """Performs tasks with a process of its own, for one thread; ends the process when it is closed."""

    def run(self, task: int, note: Callable[[dict[str, Any]], None], stop: Callable[[], bool]) -> object:
        """Perform one task, or give up soon after `stop` says so."""
        ...

    def close(self) -> None:
        """End the process."""
        ...


def run_on_threads(
    make: Callable[[], Attendant],
    tasks: Sequence[int],
    workers: int,
    *,
    on_note: Callable[[int, dict[str, Any]], None],
) -> None:
    """Perform all tasks on threads, each with an attendant of its own; `on_note` gets a task and what was said of it.

    The first error of a thread stops all others, and is raised when they have ended.
    """
    # Filled before any thread starts and never again: an empty queue means that all work is given out.
    left: SimpleQueue[int] = SimpleQueue()
    for task in tasks:
        left.put(task)
    stop, faults = threading.Event(), SimpleQueue[BaseException]()
    notes: SimpleQueue[tuple[int, dict[str, Any]]] = SimpleQueue()

    def work() -> None:
        attendant = make()
        try:
            while not stop.is_set():
                task = left.get_nowait()
                attendant.run(task, lambda said, task=task: notes.put((task, said)), stop.is_set)  # type: ignore[misc]
        # Another thread took the last task between the check and `get_nowait`.
        except Empty:
            pass
        # KeyboardInterrupt too: an exception that ends a thread would otherwise be lost, and the caller would not know.
        except BaseException as error:
            faults.put(error)
            stop.set()
        finally:
            attendant.close()

    with _threads(work, min(workers, len(tasks)), stop) as threads:
        alive = True
        while alive:
            alive = any(thread.is_alive() for thread in threads)  # before the notes are taken: none comes after it
            while not notes.empty():
                on_note(*notes.get())
            time.sleep(_EVERY_S * alive)
    if not faults.empty():
        raise faults.get()


@contextmanager
def _threads(work: Callable[[], None], count: int, stop: threading.Event) -> Iterator[list[threading.Thread]]:
    """Yield threads that have ended, or were told to, when the block is left."""
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        stop.set()
        # Joined even when the block raised: attendants end their processes in `finally`, so none is left behind.
        for thread in threads:
            thread.join()
