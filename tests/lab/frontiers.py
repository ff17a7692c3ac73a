"""What needs the time in moves of key groups by plans: control that tells in time, and queues that have been empty."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from lab.scheduler import Chooser, Place, Step
from sim.clock import Process
from sim.migration.protocol import Message
from sim.migration.protocols.megaphone import Megaphone
from sim.migration.reconfiguration import ReconfigurationContext

FROM_CONTROL = (1 << 24) - 1  # as a sender


class Punctual(Chooser):
    """A chooser that lets what control tells in time come in time: before an instant, at the latest."""

    def __init__(self, chooser: Chooser) -> None:
        self._chooser, self.now_ns = chooser, lambda: 0
        self.due: dict[Place, deque[int]] = {}  # the instants, of each place

    def follow(self, lab: Any) -> None:
        """Let what takes the latency alone come in the order of sending, and note when control has to tell what."""
        runtime, clock = lab.coordinator.runtime, lab.clock
        send, self.now_ns = runtime.send, clock.now_ns

        def asks(operator: int, time_ns: int, told: Callable[[], None]) -> Process:
            yield clock.reach(time_ns)
            token = lab.state.new_token()
            runtime._frontiers[token] = told
            lab.plane.passed(operator, time_ns, token)

        def sends(message: Message, turn: bool, channels: int = 0) -> None:
            if message.kind == "configure":
                assert isinstance(message.note, int)
                self.due.setdefault(("channel", message.to, FROM_CONTROL), deque()).append(message.note)
            send(message, turn, channels)

        runtime._later = lambda call: clock.add(("told", 0, 0), lambda _: call())
        runtime._asks, runtime.send = asks, sends

    def is_late(self, message: Message) -> bool:
        """Return whether control has told a configuration after its time: a fault of the laboratory alone."""
        return self.now_ns() >= self.due["channel", message.to, FROM_CONTROL].popleft()

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
