"""Time of a run in whole nanoseconds, and the order of what happens at one instant.

Within an instant: control (SimPy processes, in creation order), then messages that arrive, then services that
end and tuples that are emitted, then tuples that arrive. Arrivals are ordered by receiver, then sender, then
as sent. Data of earlier instants is always done first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from heapq import heappush
from typing import Any

import simpy

Process = Generator[simpy.Event, Any, None]

_CLASS = 1 << 48  # SimPy's own priorities 0 and 1 (control) come before all of these
_RECEIVER = 1 << 24
MESSAGE, SERVICE, ARRIVAL, SETTLED = (k * _CLASS for k in (1, 2, 3, 4))  # SETTLED only looks, after all else


def channel(kind: int, receiver: int, sender: int) -> int:
    """The rank, within its instant, of what arrives at `receiver` from `sender`."""
    return kind + receiver * _RECEIVER + sender


class Happening(simpy.Event):
    """An event with a fixed instant and one callback, which gets the event and has no use for it."""

    def __init__(self, env: simpy.Environment, call: Callable[[Any], None]) -> None:
        self.env = env
        self.callbacks = [call]
        self._value = None
        self._ok = True


class Clock(simpy.Environment):
    """A SimPy environment on integer nanoseconds."""

    def __init__(self) -> None:
        super().__init__(initial_time=0)

    def now_ns(self) -> int:
        """The current instant [ns]."""
        return self._now  # type: ignore[return-value]

    def at(self, time_ns: int, rank: int, call: Callable[[Any], None]) -> None:
        """Call `call` at `time_ns`, at its `rank` within that instant; equal ranks in order of these calls.

        The same as `schedule` without its sums.
        """
        heappush(self._queue, (time_ns, rank, next(self._eid), Happening(self, call)))  # type: ignore[misc]

    def sleep(self, until_ns: int) -> Any:
        """What a control process yields to go on at `until_ns`."""
        return self.timeout(until_ns - self._now)
