"""Event time: watermarks on their way from the sources, and windows that end where they pass.

The event time of a tuple is its birth. A watermark says that no tuple with an earlier event time will come over its
channel any more. It is a virtual tuple: without bytes it keeps its place on the link, without a service its turn in
the queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from reference.mark import Mark
from reference.outbox import Passing
from sim.clock import ARRIVAL, TICKS, channel

if TYPE_CHECKING:
    from reference.source import Source
    from reference.task import Task
    from reference.unit import Row, Unit
    from reference.world import World
    from sim.operator_plan import Edge, OperatorPlan


class Progress:
    """How far event time has come at a task: what came over each of its channels, their minimum, what it sent."""

    def __init__(self, origins: list[Task]) -> None:
        self.of_channel = dict.fromkeys(origins, 0)
        self.event_ns = 0
        self.sent_ns = 0


class Watermarks:
    """Sends the watermarks of a run, and ends windows where they pass."""

    def __init__(self, world: World) -> None:
        self.world, self.clock = world, world.clock
        origins: dict[Task, list[Task]] = {task: [] for task in world.tasks}
        for task in world.tasks:
            for receiver in self._receivers(task):
                origins[receiver].append(task)
        self.progress = {task: Progress(senders) for task, senders in origins.items()}
        for source in world.sources:
            if source.unit.operator.timed:
                self._wait(source, source.unit.operator.watermark_ns)

    # -- sending

    def _wait(self, source: Source, at_ns: int) -> None:
        self.clock.at(at_ns, TICKS + source.unit.task.index, lambda _: self._tick(source, at_ns))

    def _tick(self, source: Source, now: int) -> None:
        """Everything that the source bears before now is sent, but for what waits, which holds event time back."""
        self._rise(source.unit.task, source.promise_ns(now))
        self._wait(source, now + source.unit.operator.watermark_ns)

    def _tasks(self, operator: OperatorPlan) -> list[Task]:
        return [task for task in self.world.tasks if task.operator is operator]

    def _receivers(self, task: Task) -> Iterator[Task]:
        """The tasks that get the watermarks of a task: all that it can send tuples to on the way to a window."""
        for edge in task.operator.edges:
            if edge.down.timed:
                yield from self._over(edge, task)

    def _over(self, edge: Edge, task: Task) -> list[Task]:
        receivers = self._tasks(edge.down)
        return [receivers[self._tasks(task.operator).index(task)]] if edge.partitioning == "forward" else receivers

    def _rise(self, origin: Task, event_ns: int) -> None:
        """Send a watermark over all channels of a task, behind what waits there, if it is a later one."""
        own = self.progress[origin]
        if event_ns > own.sent_ns:
            own.sent_ns = event_ns
            for task in self._receivers(origin):
                origin.outbox.pass_on(Passing(Mark(event_ns, origin), task))

    def send(self, mark: Mark, task: Task) -> None:
        """Send a watermark to a task, behind all that went before on the same channel."""
        origin, arrive = mark.origin, partial(self._arrive, mark, task)
        rank = channel(ARRIVAL, task.index, origin.index)
        self.world.transmit(origin, task, 0, lambda arrival_ns: self.clock.at(arrival_ns, rank, arrive))

    def _arrive(self, mark: Mark, task: Task, _: object) -> None:
        mark.ticket = task.host.ticket()
        task.queue.append(mark)
        task.cores.dispatch()
        self.world.tell()

    # -- at its turn

    def turn(self, mark: Mark, task: Task) -> None:
        """The watermark of the task is the least that came over all its channels; what it passes ends."""
        own = self.progress[task]
        own.of_channel[mark.origin] = mark.event_ns
        least = min(own.of_channel.values())
        if least <= own.event_ns:
            return
        own.event_ns = least
        windows = task.operator.windows
        if windows is not None and task.operator.joins is None:
            self._end_windows(task, least)
            least = windows.held_ns(least)
        elif windows is not None:
            self._forget_pairs(task, least)
        self._rise(task, least)

    def _end_windows(self, task: Task, event_ns: int) -> None:
        """By window, key group, and first tuple of a key."""
        operator, windows = task.operator, task.operator.windows
        assert windows is not None
        units = [unit for unit in self.world.units[operator.index] if unit.task is task]
        over = {window for unit in units for window in unit.windows if windows.end_ns(window) <= event_ns}
        for window in sorted(over):
            for unit in units:
                for key, newest_ns in unit.windows.pop(window, {}).items():
                    for child, child_key in operator.results(unit.index, key, window):
                        self.world.emit(unit, child, newest_ns, child_key)

    def _forget_pairs(self, task: Task, event_ns: int) -> None:
        windows = task.operator.windows
        assert windows is not None
        for unit in self.world.units[task.operator.index]:
            if unit.task is task:
                unit.sides = {at: rows for at, rows in unit.sides.items() if windows.end_ns(at[0]) > event_ns}

    def join(self, unit: Unit, row: Row, origin: OperatorPlan) -> None:
        """The tuple meets those of the other input that are in its window already, in the order in which they came."""
        operator = unit.operator
        assert operator.windows is not None
        window, side = operator.windows.last(row.birth_ns), int(origin.index != operator.joins)
        assert row.birth_ns >= self.progress[unit.task].event_ns, "a tuple came behind its watermark"
        for other in unit.sides.get((window, row.key, 1 - side), ()):
            for child, key in operator.pairs(row.id, other.id, row.key):
                self.world.emit(unit, child, max(row.birth_ns, other.birth_ns), key)
        unit.sides.setdefault((window, row.key, side), []).append(row)

    def enter(self, unit: Unit, row: Row) -> None:
        """The tuple is in all windows around its event time; of each key a window knows the newest."""
        windows = unit.operator.windows
        assert windows is not None
        assert row.birth_ns >= self.progress[unit.task].event_ns, "a tuple came behind its watermark"
        for window in range(windows.first(row.birth_ns), windows.last(row.birth_ns) + 1):
            newest = unit.windows.setdefault(window, {})
            newest[row.key] = max(newest.get(row.key, 0), row.birth_ns)
