"""Worker processes: Ctrl-C is for the caller alone, and no worker outlives the work that it was started for."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from models.errors import WorkerLost
from scenarios.runs.sandbox import end_with

T = TypeVar("T")
_EVERY_S = 0.2


@contextmanager
def submitted(
    function: Callable[..., T],
    arguments: Iterable[tuple[Any, ...]],
    workers: int,
    begin: Callable[..., None] | None = None,
    shared: tuple[Any, ...] = (),
) -> Iterator[Iterator[list[tuple[int, T]]]]:
    """Call the function once for each tuple of arguments, on fresh interpreters.

    Yields lists of what has arrived since: the number of the tuple and its result, in the order of the numbers. A list
    comes at least every 0.2 s, if need be an empty one. Each worker first calls `begin(*shared)`. If the block raises,
    the workers are terminated, and have ended when the exception goes on. Raises WorkerLost if a worker was killed.
    """
    with _handler(signal.SIGTERM, _terminated), _pool(workers, begin, shared) as pool:
        with _without_interrupts():  # the executor starts its processes while it takes the work
            futures = [pool.submit(function, *one) for one in arguments]
        _leave_results_to_workers(pool)
        yield _arrived(futures)


def _arrived(futures: list[Future[T]]) -> Iterator[list[tuple[int, T]]]:
    """Yield the numbers and results of futures as they come.

    An exception that a signal raises amid `wait` or `result` could leave the lock of a future taken, for which the
    thread of the executor would then wait for ever.
    """
    left = {future: number for number, future in enumerate(futures)}
    while left:
        with _without_interrupts():
            done = sorted(wait(left, _EVERY_S, FIRST_COMPLETED).done, key=left.__getitem__)
            results = [(left.pop(future), future.result()) for future in done]
        yield results


@contextmanager
def _pool(workers: int, begin: Callable[..., None] | None, shared: tuple[Any, ...]) -> Iterator[ProcessPoolExecutor]:
    """Yield an executor whose processes are terminated if the block raises."""
    others = set(multiprocessing.active_children())
    # A fresh interpreter for each worker: a fork would copy whatever threads the caller runs.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _begin, (os.getpid(), begin, shared))
    try:
        yield pool
    except BaseException as error:
        # Futures are not cancelled: the executor cannot take it that one is when a worker ends.
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        if isinstance(error, BrokenProcessPool):
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
    came: list[int] = []

    def wait(number: int, _: Any) -> None:
        came.append(number)

    with _handler(signal.SIGTERM, wait), _handler(signal.SIGINT, wait), _blocked(signal.SIGINT):
        yield
    if came:
        signal.raise_signal(came[0])


@contextmanager
def _handler(number: signal.Signals, handle: Callable[[int, Any], object]) -> Iterator[None]:
    """Handle a signal in the main thread of Python; elsewhere, and where it is ignored, do nothing."""
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
    raise SystemExit(128 + number)


def _begin(parent: int, begin: Callable[..., None] | None, shared: tuple[Any, ...]) -> None:
    """Prepare a worker, which ends with the process that waits for it."""
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    if begin is not None:
        begin(*shared)
