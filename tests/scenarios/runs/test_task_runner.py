"""The runner of tasks: order of results, what is told meanwhile, and the end of workers."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable

import pytest
from other_processes import until

from scenarios.runs.task_runner import Share, run_on_threads, run_tasks


def squared(number: int, tell: Callable[[float], None]) -> int:
    tell(0.5)
    if number < 0:
        raise ValueError(number)
    return number**2


@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_the_order_of_the_tasks_whatever_the_order_of_work(workers):
    ended: dict[int, int] = {}
    found = run_tasks(squared, [3, 1, 4, 1, 5], workers, order=[4, 2, 0, 1, 3], on_result=ended.__setitem__)
    assert found == [9, 1, 16, 1, 25]
    assert ended == dict(enumerate(found))


def test_in_one_process_tasks_begin_in_their_order_and_tell_their_part():
    told: list[tuple[int, float]] = []
    run_tasks(squared, [1, 2, 3], 1, order=[2, 0, 1], on_part=lambda task, part: told.append((task, part)))
    assert told == [(2, 0.5), (0, 0.5), (1, 0.5)]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_error_of_a_task_ends_all_others(workers):
    with pytest.raises(ValueError, match="-1"):
        run_tasks(squared, [1, -1, 2, 3], workers)
    assert multiprocessing.active_children() == []


def test_no_task_needs_no_worker():
    assert run_tasks(squared, [], 4) == []


def test_the_share_counts_tasks_by_their_time_and_never_falls():
    """Not when a run is made again with longer spells, nor by a late note of a worker."""
    told: list[float] = []
    share = Share([1.0, 3.0], told.append, done=[0])
    share.note(1, 0.5)
    share.note(1, 0.1)
    share.note(1, 0.75)
    share.ended(1)
    share.note(1, 0.2)
    assert told == [0.625, 0.625, 0.8125, 1.0, 1.0]


class Attendant:
    """Performs tasks until one is 0; waits at others for the stop where there is a 0."""

    closed = 0

    def __init__(self, waits: bool) -> None:
        self._waits = waits

    def run(self, task: int, note: Callable[[dict[str, object]], None], stop: Callable[[], bool]) -> None:
        if task == 0:
            raise ValueError("zero")
        note({"task": task})
        if self._waits:
            until(stop)

    def close(self) -> None:
        type(self).closed += 1


@pytest.mark.parametrize("workers", [1, 2, 9])
def test_threads_perform_each_task_once_and_close_what_they_have_opened(workers):
    Attendant.closed, said = 0, []
    run_on_threads(lambda: Attendant(False), [1, 2, 3], workers, on_note=lambda task, note: said.append((task, note)))
    assert sorted(said, key=lambda one: one[0]) == [(task, {"task": task}) for task in (1, 2, 3)]
    assert Attendant.closed == min(workers, 3)


def test_the_error_of_a_thread_stops_the_others_before_it_is_raised():
    Attendant.closed, before = 0, set(threading.enumerate())
    with pytest.raises(ValueError, match="zero"):
        run_on_threads(lambda: Attendant(True), [1, 0, 2], 2, on_note=lambda task, note: None)
    assert Attendant.closed == 2
    assert set(threading.enumerate()) <= before
