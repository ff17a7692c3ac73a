"""Events come in the order of (instant, rank, order of setting), wherever they wait."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from sim.clock import ARRIVAL, RECEIVER, SERVICE, TICKS
from sim.kernel.event_loop import events, pools
from sim.kernel.event_loop.codes import END, NONE, TICK
from sim.kernel.event_loop.events import RING
from sim.kernel.event_loop.state import ARRAYS, LoopState

Entry = tuple[int, int, int, int]  # instant, rank, order of setting, subject


def empty_state(tasks: int) -> LoopState:
    """A state that can hold events, and nothing else."""
    made = LoopState(**{name: np.zeros(1, dtype) for name, dtype in ARRAYS.items()} | pools.empty())
    for task in range(tasks):
        with_task(made, task)
    return made


def with_task(s: LoopState, task: int) -> None:
    """One more task; every other one shares the place of the task before it."""
    pools.with_task(s, task)
    s.tasks["place"][task] = task - task % 2


class Agenda:
    """The compiled events, and beside them a list of all that were set."""

    def __init__(self, tasks: int) -> None:
        self.state, self.tasks, self.waiting = empty_state(tasks), tasks, list[Entry]()

    def set(self, kind: str, time: int, task: int, subject: int) -> None:
        """Set an event of the task; `arrival` is for the task, from task 0."""
        s, serial = self.state, int(self.state.clock["serial"])
        if int(s.queue["in_heap"]) == len(s.heap):
            s.heap = pools.longer(s.heap, 0)
        if kind == "own":
            rank = SERVICE + task
            events.push_own(s, time, task, END, subject)
        else:
            rank = ARRIVAL + task * RECEIVER if kind == "arrival" else TICKS + task
            if kind == "arrival":
                events.push_arrival(s, time, rank, serial, subject)
            else:
                events.push(s, time, rank, serial, TICK, subject)
            s.clock["serial"] += 1
        self.waiting.append((time, rank, serial, subject))

    def take(self) -> Entry:
        """Remove the first one."""
        events.replay_vacant(self.state)
        place = events.first_of(self.state)
        time, rank, serial, _, subject = events.event_at(self.state, place)
        events.remove_first(self.state, place, time)
        return time, rank, serial, subject

    def first(self) -> Entry:
        """Which should be the first one."""
        found = min(self.waiting)
        self.waiting.remove(found)
        return found


@pytest.mark.parametrize("tasks", [1, 3, 21])
def test_events_come_by_instant_rank_and_order_of_setting(tasks: int) -> None:
    random, agenda = Random(tasks), Agenda(tasks)
    for number in range(1500):
        now = int(agenda.state.clock["now"])
        # Few different instants: ties of all kinds are common. Some arrivals come earlier than others set before.
        for _ in range(random.choice((0, 0, 1, 3))):
            later = random.choice((0, 0, 1, 2, 5))
            agenda.set(random.choice(("own", "arrival", "other")), now + later, random.randrange(tasks), number)
        if number % 400 == 399:  # tasks may be added at any time
            with_task(agenda.state, len(agenda.state.own))
        while agenda.waiting and random.random() < 0.6:
            assert agenda.take() == agenda.first()
    while agenda.waiting:
        assert agenda.take() == agenda.first()
    events.replay_vacant(agenda.state)
    assert events.first_of(agenda.state) == NONE


def test_what_a_full_ring_has_no_place_for_comes_in_order_all_the_same() -> None:
    agenda = Agenda(2)
    for number in range(RING + 50):
        agenda.set("arrival", 10 + number // 3, 1, number)
    assert int(agenda.state.queue["far_count"]) == RING
    assert int(agenda.state.queue["in_heap"]) == 50
    for expected in sorted(agenda.waiting):
        assert agenda.take() == expected


def test_instants_too_far_away_for_the_tournament_come_in_order_all_the_same() -> None:
    agenda = Agenda(2)
    latest = int(agenda.state.queue["horizon"])
    for number, time in enumerate((latest + 7, latest - 1, latest // 4 - 1, 5, latest, latest // 4)):
        agenda.tasks = number + 1
        with_task(agenda.state, 2 * number)
        agenda.set("own", time, 2 * number, number)
    assert len(agenda.state.own) > 4
    assert int(agenda.state.queue["horizon"]) < latest // 2  # more tasks leave fewer bits for the instant
    for expected in sorted(agenda.waiting):
        assert agenda.take() == expected
    events.replay_vacant(agenda.state)
    assert events.first_of(agenda.state) == NONE
