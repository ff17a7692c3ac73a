"""What needs the time in moves of key groups by plans: control that tells in time, and queues that have been empty."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from lab.scheduler import Chooser, Place, Step
from sim.clock import Process
from sim.migration.protocol import Message
from sim.migration.protocols.megaphone import Megaphone
from sim.migration.reconfiguration import ReconfigurationContext
from sim.plain.partition import Message as Letter

FROM_CONTROL = (1 << 24) - 1  # as a sender
IN_TIME = ("ahead", "configure")  # what control tells in time


class Punctual(Chooser):
    """A chooser that lets what control tells in time come in time: before an instant, at the latest."""

    def __init__(self, chooser: Chooser) -> None:
        self._chooser, self.now_ns = chooser, lambda: 0
        self.is_gone: Callable[[int], bool] = lambda task: False
        """Whether a task is known to be dead: what it had sent comes first, within the latency of its failure."""
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
            if message.kind in IN_TIME:
                assert isinstance(message.note, int)
                # What is known to be late has no time of its own, and comes within the latency all the same.
                is_known = message.kind == "configure" and runtime.runs[message.run].plan.late_ns
                at_ns = clock.now_ns() + lab.plan.latency_ns + 1 if is_known else message.note
                self.due.setdefault(("channel", message.to, FROM_CONTROL), deque()).append(at_ns)
            send(message, turn, channels)

        runtime._later = lambda call: clock.add(("told", 0, 0), lambda _: call())
        runtime._asks, runtime.send = asks, sends

    def is_late(self, message: Message) -> bool:
        """Return whether control has told something after its time: a fault of the laboratory alone."""
        return message.kind in IN_TIME and self.now_ns() >= self.due["channel", message.to, FROM_CONTROL].popleft()

    def choose(self, lanes: dict[Place, deque[Step]]) -> Place:
        # A line of a file may lie far ahead of what is told after it.
        waiting = [(min(due), place) for place, due in self.due.items() if due and place in lanes]
        if waiting:
            at_ns, place = min(waiting)
            if self.now_ns() + sum(len(lanes[one]) for _, one in waiting) + 1 >= at_ns:
                return place
        channels = (place for place in lanes if place[0] == "channel" and place[2] != FROM_CONTROL)
        last = next((place for place in channels if self.is_gone(place[2])), None)
        return self._chooser.choose(lanes) if last is None else last


class Queues:
    """The queues that have to be empty between two steps: no instant tells, so the laboratory looks."""

    def __init__(self, lab: Any, faults: Counter[str]) -> None:
        self._lab, self._faults = lab, faults
        self._waited = set[Letter]()  # messages that have lined up behind something
        self._drained: dict[int, set[int]] = {}  # run -> members that have been empty since its last step was over
        plane = lab.plane
        lab.coordinator.runtime.awaits = self._awaits
        plane.has_waited = lambda message: message in self._waited
        add_task = plane.add_task

        def adds(task: int) -> None:
            add_task(task)
            self._watch(plane.tasks[-1])

        plane.add_task = adds
        for task in plane.tasks:
            self._watch(task)

    def _watch(self, task: Any) -> None:
        arrive = task.arrive

        def arrives(*items: Any) -> None:
            lined_up = (item for item in items if isinstance(item, Letter) and item.lined_up)
            self._waited.update(item for item in lined_up if not task.empty)
            arrive(*items)

        task.arrive = arrives

    def over(self, run: int) -> None:
        """Note that a step of a run is over."""
        self._drained[run] = set()

    def look(self) -> None:
        """See which queues are empty after a step of the laboratory."""
        for run in self._lab.reconfigurations.runs:
            if run.plan.drain and run.number in self._drained:
                empty = (task for task in run.plan.members if self._lab.plane.tasks[task].empty)
                self._drained[run.number].update(empty)

    def _awaits(self, run: Any, step: int) -> None:
        """The coordinator goes on with a step: the queues have been empty since the one before, where they have to."""
        if run.plan.drain and step and self._drained.get(run.number, set()) < set(run.plan.members):
            self._faults["a step is awaited before all queues have been empty"] += 1


class SteppedContext(ReconfigurationContext):
    """The verbs of `megaphone`, of which the laboratory hears."""

    def when_passed(self, step: int, kind: str, then: str) -> None:
        """Note that a step is awaited; then do it."""
        self._runtime.awaits(self._run, step)  # type: ignore[attr-defined]
        super().when_passed(step, kind, then)

    def when_due(self, step: int, kind: str, note: object) -> None:
        """Send itself the message when it is due: here a time may be over early."""
        run = self._run
        sent_ns = run.times[step].from_ns - self._state.plan.latency_ns - run.by_time + run.plan.late_ns
        self._state.clock.process(self._when(sent_ns, kind, note))

    def when_heard(self, kind: str, note: object) -> None:
        """Send itself the message when the latency is over."""
        clock: Any = self._state.clock
        clock.process(self._when(clock.now_ns() + self._state.plan.latency_ns + 1, kind, note))

    def _when(self, at_ns: int, kind: str, note: object) -> Process:
        clock: Any = self._state.clock
        yield clock.reach(at_ns)
        self._runtime.reach(Message(self._run.number, kind, self.me, self.me, note))


class SteppedMegaphone(Megaphone):
    """`megaphone` with these verbs."""

    context = SteppedContext
