"""Time of a run in whole nanoseconds, and the order of events within an instant.

Within an instant: control (SimPy processes, in creation order), then messages that leave a shared link, then
messages that arrive, then services that end and tuples that are emitted, then pauses that are over, timers and
post-dated outputs, and watermarks of sources, then room that got free, then tuples that arrive. Arrivals are ordered by
receiver, then sender, then as sent. Data of earlier instants is always done first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from heapq import heappush
from typing import Any

import simpy
from simpy.events import NORMAL, URGENT

from sim.plane_values import Key

Process = Generator[simpy.Event, Any, None]

_CLASS = 1 << 48  # SimPy's own priorities 0 and 1 (control) come before all of these
RECEIVER = 1 << 24  # between two receivers there is room for all senders
HOST_RECEIVER = 1 << 20  # hosts as receivers come after all tasks
MESSAGE, SERVICE, ARRIVAL, END_OF_INSTANT = (k * _CLASS for k in (1, 2, 3, 4))  # the last only checks, after all else
LINK = _CLASS // 2  # what leaves a link that is shared evenly, by host
CREDIT = SERVICE + _CLASS // 2  # tasks that go on with their outbox: by task; then those that waited, by receiver
PAUSES = SERVICE + (1 << 45)  # pauses are over after all services that end and all arrivals of the instant, by task
TIMERS = SERVICE + (1 << 46)  # then timers emit, by task, and what is post-dated leaves, by partition
TICKS = TIMERS + (1 << 45)  # then sources send watermarks, before room that got free (CREDIT)


def channel(kind: int, receiver: int, sender: int) -> int:
    """Return the rank, within its instant, of what arrives at `receiver` from `sender`."""
    return kind + receiver * RECEIVER + sender


class Happening(simpy.Event):
    """An event with a fixed instant and one callback, which gets the event and does not use it."""

    def __init__(self, env: simpy.Environment, call: Callable[[Any], None]) -> None:
        self.env = env
        # Built by hand and not by `Event.__init__`: this is made for every message and service of a run.
        self.callbacks = [call]
        self._value = None
        self._ok = True


class _Numbers:
    """The numbers 0, 1, 2, ...; the next one can be read without being taken."""

    def __init__(self) -> None:
        self.next = 0

    def __next__(self) -> int:
        number = self.next
        self.next = number + 1
        return number


class Clock(simpy.Environment):
    """A SimPy environment on integer nanoseconds that numbers events as they are made."""

    def __init__(self) -> None:
        super().__init__(initial_time=0)
        # The compiled engine numbers its own events from the same sequence: it has to read the next number.
        self._eid = _Numbers()  # type: ignore[assignment]  # SimPy only ever asks for the next

    def now_ns(self) -> int:
        """Return the current instant [ns]."""
        return self._now  # type: ignore[return-value]

    def head(self) -> Key | None:
        """Return the place of the next event in the order of all, or None without one."""
        # Without the event itself: entries compare by time, rank and number, which are unique.
        return self._queue[0][:3] if self._queue else None  # type: ignore[return-value]

    def next_number(self) -> int:
        """Return the number that the next event will get."""
        return self._eid.next  # type: ignore[attr-defined, no-any-return]

    def take_numbers(self, upto: int) -> None:
        """Skip the numbers below `upto`: events outside this clock have them."""
        self._eid.next = upto  # type: ignore[attr-defined]

    def move_to(self, time_ns: int) -> None:
        """Make `time_ns` the current instant; raises ValueError if that is over."""
        if time_ns < self._now:
            raise ValueError(f"cannot go back from {self._now} to {time_ns}")
        self._now = time_ns

    def at(self, time_ns: int, rank: int, call: Callable[[Any], None]) -> None:
        """Call `call` at `time_ns`, at its `rank` within that instant; equal ranks in order of these calls.

        The same as `schedule` without its sums.
        """
        heappush(self._queue, (time_ns, rank, next(self._eid), Happening(self, call)))  # type: ignore[misc]

    def after(self, delay_ns: int, call: Callable[[], None]) -> None:
        """Call after a time, in the order within its instant of a control process that begins now and sleeps so long.

        Without the process: its generator, and the event of its end, cost more than most of what control does.
        """
        begun = (self._now, URGENT, next(self._eid), Happening(self, lambda _: self._sleeps(delay_ns, call)))
        heappush(self._queue, begun)

    def _sleeps(self, delay_ns: int, call: Callable[[], None]) -> None:
        self.at(self.now_ns() + delay_ns, NORMAL, lambda _: call())

    def sleep(self, until_ns: int) -> Any:
        """Return what a control process yields to go on at `until_ns`."""
        return self.timeout(until_ns - self._now)
