"""What needs the time in moves of key groups by plans: control that tells in time, and queues that have been empty."""

from __future__ import annotations

from collections import deque

from lab.scheduler import Chooser, Place, Step
from sim.migration.protocols.megaphone import Megaphone
from sim.migration.reconfiguration import ReconfigurationContext


class Punctual(Chooser):
    """A chooser that lets what control tells in time come in time: before an instant, at the latest."""

    def __init__(self, chooser: Chooser) -> None:
        self._chooser, self.now_ns = chooser, lambda: 0
        self.due: dict[Place, deque[int]] = {}  # the instants, of each place

    def choose(self, lanes: dict[Place, deque[Step]]) -> Place:
        # A line of a file may lie far ahead of what is told after it.
        waiting = [(min(due), place) for place, due in self.due.items() if due and place in lanes]
        if waiting:
            at_ns, place = min(waiting)
            if self.now_ns() + sum(len(lanes[one]) for _, one in waiting) + 1 >= at_ns:
                return place
        return self._chooser.choose(lanes)


class SteppedContext(ReconfigurationContext):
    """The verbs of `megaphone`, of which the laboratory hears."""

    def when_passed(self, step: int, kind: str, then: str) -> None:
        """Note that a step is awaited; then do it."""
        self._runtime.awaits(self._run, step)  # type: ignore[attr-defined]
        super().when_passed(step, kind, then)


class SteppedMegaphone(Megaphone):
    """`megaphone` with these verbs."""

    context = SteppedContext
