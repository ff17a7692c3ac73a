"""A clock that is a scheduler: any step that could come next may come next; time only counts steps.

A *place* is what keeps an order: a channel between two tasks, a task (the end of its service, the next arrival at a
source), the link of a host, a timer of control, a fault that is to come. The first step of each place is enabled, but
for *late* places: those come when there is nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, islice
from random import Random
from typing import Any

from sim.clock import ARRIVAL, CREDIT, END_OF_INSTANT, MESSAGE, RECEIVER, SERVICE, TICKS, TIMERS, Clock, Process

CLASS = ARRIVAL - SERVICE
SPEEDS = (0.003, 0.03, 0.3, 1.0, 1.0)  # of a place in a schedule: some crawl
Place = tuple[str, int, int]


@lru_cache(maxsize=1 << 16)
def place_of(rank: int) -> Place:
    """Return the place at which a step has to keep its order."""
    kind, rest = divmod(rank, CLASS)
    if kind == 0:
        return "link", rest, 0
    if kind * CLASS == SERVICE:
        return "task", rest, 0
    receiver, sender = divmod(rest, RECEIVER)
    if kind * CLASS == MESSAGE and receiver == sender:
        return "trim", receiver, 0
    return "channel", receiver, sender


class Chooser(ABC):
    """A choice of the next step, among the enabled places."""

    @abstractmethod
    def choose(self, lanes: dict[Place, deque[Step]]) -> Place:
        """Return one of the places."""


class Seeded(Chooser):
    """A draw in which every place has a speed of its own."""

    def __init__(self, seed: int) -> None:
        self._draw = Random(seed)
        self._speed: dict[Place, float] = {}

    def choose(self, lanes: dict[Place, deque[Step]]) -> Place:
        speed = self._speed
        if len(lanes) == 1:
            return next(iter(lanes))
        if not speed.keys() >= lanes.keys():
            for place in lanes:
                if place not in speed:
                    speed[place] = self._draw.choice(SPEEDS)
        sums = [*accumulate(map(speed.__getitem__, lanes))]
        at = bisect_right(sums, self._draw.random() * sums[-1])
        return next(islice(lanes, min(at, len(sums) - 1), None))


def in_order(lanes: dict[Place, deque[Step]]) -> list[Place]:
    """Return the places by the age of their first step: the order in which all places are equally fast."""
    return sorted(lanes, key=lambda place: lanes[place][0][0])


class Listed(Chooser):
    """A list of numbers among the enabled places by age; after the list always the oldest."""

    def __init__(self, choices: Sequence[int]) -> None:
        self._choices, self._next = choices, 0

    def choose(self, lanes: dict[Place, deque[Step]]) -> Place:
        if len(lanes) == 1:
            return next(iter(lanes))  # no choice, and no place in the list
        number = self._choices[self._next] if self._next < len(self._choices) else 0
        self._next += 1
        return in_order(lanes)[min(number, len(lanes) - 1)]


class Noted(Chooser):
    """A chooser that writes down the choices of another one as such a list."""

    def __init__(self, chooser: Chooser) -> None:
        self._chooser = chooser
        self.choices: list[int] = []

    def choose(self, lanes: dict[Place, deque[Step]]) -> Place:
        place = self._chooser.choose(lanes)
        if len(lanes) > 1:
            self.choices.append(in_order(lanes).index(place))
        return place


Step = tuple[int, Callable[[Any], None]]  # its number and what it does
NOW = object()  # what a control process yields that goes on at once
Condition = Callable[[], bool]


class Signal:
    """What a control process waits for until somebody gives it, as an event of SimPy; it goes on in that instant."""

    def __init__(self, clock: Scheduler) -> None:
        self._clock, self.triggered = clock, False
        self.process: Process | None = None

    def succeed(self) -> None:
        """Let the process go on that waits."""
        self.triggered = True
        if self.process is not None:
            self._clock.goes_on(self.process)


class Scheduler(Clock):
    """Only for the plain plane, whose every step is an event of its clock.

    Control processes yield nothing but what `sleep` returns, so nothing of SimPy runs. As there, those that begin go
    before those that go on.
    """

    def __init__(self, chooser: Chooser) -> None:
        super().__init__()
        self.chooser = chooser
        self.lanes: dict[Place, deque[Step]] = {}
        self.late: dict[Place, deque[Step]] = {}
        self.late_steps = 0  # so far
        self.last: Place | None = None
        self._added = 0
        self._begin: deque[Process] = deque()  # control processes of this instant
        self._go_on: deque[Process] = deque()
        self._waiting: list[tuple[Condition, Process]] = []  # control processes that look again and again
        self._ends: list[tuple[int, Callable[[Any], None]]] = []  # what only checks, at the end of a step
        self._instants: list[int] = []  # for which somebody waits
        self._due: list[tuple[int, int, int, Callable[[Any], None]]] = []  # what is done at its instant, in order

    def add(self, place: Place, call: Callable[[Any], None]) -> None:
        """Add a step that may come at any time from now on, behind the others at its place."""
        lane = self.lanes.get(place)
        if lane is None:
            lane = self.lanes[place] = deque()
        self._added += 1
        lane.append((self._added, call))

    def add_fault(self, what: str, do: Callable[[], None]) -> None:
        """Add something that is asked for, or that happens, at any time from now on."""
        self._added += 1
        self.lanes[what, self._added, 0] = deque([(self._added, lambda _: do())])

    def add_timer(self, call: Callable[[Any], None], late: bool) -> None:
        """Add a step at a place of its own."""
        self._added += 1
        (self.late if late else self.lanes)["timer", self._added, 0] = deque([(self._added, call)])

    def at(self, time_ns: int, rank: int, call: Callable[[Any], None]) -> None:
        """Add the step, whatever the time; watermarks have no meaning without one, and are left out.

        What only checks at the end of an instant is no step: it comes at the end of this one, or of the next. Neither
        is an output that is post-dated: it leaves before the step that its time has come with.
        """
        if TIMERS <= rank < TICKS:
            self._added += 1
            insort(self._due, (time_ns, rank, self._added, call))
        elif rank == END_OF_INSTANT:
            self._ends.append((min(time_ns, self._now + 1), call))
        elif not TICKS <= rank < CREDIT:
            self.add(place_of(rank), call)

    def process(self, process: Process) -> Any:
        """Begin a control process in this instant."""
        self._begin.append(process)

    def after(self, delay_ns: int, call: Callable[[], None]) -> None:
        """Call from a process that begins in this instant and sleeps: as there, at a step of its own."""
        self.process(self._calls(self._now + delay_ns, call))

    def _calls(self, at_ns: int, call: Callable[[], None]) -> Process:
        yield self.sleep(at_ns)
        call()

    def sleep(self, until_ns: int) -> Any:
        """Return what a control process yields: it goes on at a step of its own, or at once if the time has come."""
        return NOW if until_ns <= self._now else None

    def event(self) -> Any:
        """Return something for which a control process waits."""
        return Signal(self)

    def goes_on(self, process: Process) -> None:
        """Let a control process go on in this instant."""
        self._go_on.append(process)

    def when(self, holds: Condition) -> Any:
        """Return what a control process yields that looks again and again: it may go on at a step once that holds.

        Looks that find nothing change nothing, and are left out.
        """
        return holds

    def reach(self, at_ns: int) -> Any:
        """Return what a control process yields that goes on at a step of its own, but not before an instant.

        A step takes 1 ns. Where nothing else is left to come the instant does.
        """
        insort(self._instants, at_ns)
        return lambda: self._now >= at_ns

    def _leap(self) -> bool:
        """Let the next instant come for which somebody waits; return False if there is none."""
        while self._instants and self._instants[0] <= self._now:
            self._instants.pop(0)
        next_ns = [*self._instants[:1], *(one[0] for one in self._due[:1])]
        if not next_ns:
            return False
        self._comes(max(self._now, min(next_ns)))
        self.settle()
        return True

    def _comes(self, now_ns: int) -> None:
        """Let an instant come, with what is due until then."""
        self._now = now_ns
        while self._due and self._due[0][0] <= now_ns:
            self._due.pop(0)[-1](None)

    def take(self) -> bool:
        """Do the next step, and all that control does at once because of it; return False if none is left."""
        if not self.lanes and self._leap():
            return True
        lanes = self.lanes or self.late
        if not lanes and self._ends:
            self._now += 1
            self.settle()
            return True
        if not lanes:
            return False
        self.late_steps += not self.lanes
        place = self.last = self.chooser.choose(lanes)
        lane = lanes[place]
        _, call = lane.popleft()
        if not lane:
            del lanes[place]
        self._comes(self._now + 1)
        call(None)
        self.settle()
        return True

    def settle(self) -> None:
        """Run the control processes of this instant, then what only checks at its end."""
        self._run_control()
        while any(at_ns <= self._now for at_ns, _ in self._ends):
            due = [call for at_ns, call in self._ends if at_ns <= self._now]
            self._ends = [one for one in self._ends if one[0] > self._now]
            for call in due:
                call(None)
            self._run_control()

    def _run_control(self) -> None:
        while self._begin or self._go_on:
            process = self._begin.popleft() if self._begin else self._go_on.popleft()
            try:
                event = next(process)
            except StopIteration:
                continue
            if event is NOW:
                self._go_on.append(process)
            elif event is None:
                self._sleeps(process)
            elif isinstance(event, Signal):
                event.process = process
            else:
                self._waiting.append((event, process))
        if self._waiting:
            ready = [process for holds, process in self._waiting if holds()]
            self._waiting = [one for one in self._waiting if one[1] not in ready]
            for process in ready:
                self._sleeps(process)

    def _sleeps(self, process: Process) -> None:
        self.add_timer(lambda _: self._go_on.append(process), late=False)
