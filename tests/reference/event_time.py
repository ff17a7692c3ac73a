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
    from reference.unit import Checkpoint, Row, Unit
    from reference.world import World
    from sim.operator_plan import Edge, OperatorPlan


class Watermarks:
    """Sends the watermarks of a run, and ends windows where they pass.

    A task stands for the units that are live there. What a watermark promises holds for a unit that receives it, and
    of a unit that is where it came from, if both were there when it was made: then all that the one had sent to the
    other by then is in front of it, or in the checkpoint from which the receiver came back.
    """

    def __init__(self, world: World) -> None:
        self.world, self.clock = world, world.clock
        self.sent_ns: dict[Task, int] = {}
        self.late: list[tuple[Unit, Row]] = []  # what came behind a watermark
        for sender in world.all_units():
            for edge in sender.operator.edges:
                if edge.down.timed:
                    for receiver in self._over(edge, sender):
                        receiver.time.of_sender[sender] = 0
        for source in world.sources:
            if source.unit.operator.timed:
                self._wait(source, source.unit.operator.watermark_ns)

    def _over(self, edge: Edge, sender: Unit) -> list[Unit]:
        receivers = self.world.units[edge.down.index]
        return [receivers[sender.index % len(receivers)]] if edge.partitioning == "forward" else receivers

    def _units(self, task: Task) -> list[Unit]:
        """The units there, and behind them further instances of key groups."""
        here = self.world.instances()
        return [unit for unit in here if unit.task is task and not unit.retired]

    # -- sending

    def _wait(self, source: Source, at_ns: int) -> None:
        self.clock.at(at_ns, TICKS + source.unit.task.index, lambda _: self._tick(source, at_ns))

    def _tick(self, source: Source, now: int) -> None:
        """Everything that the sources there bear before now is sent, but for what waits, which holds event time back.

        A source that is down or paused says nothing.
        """
        task = source.unit.task
        if source.unit.live and not task.paused_until_ns:
            here = [other for other in self.world.sources if other.unit.task is task and other.unit.live]
            self._rise(task, min(other.promise_ns(now) for other in here))
        self._wait(source, now + source.unit.operator.watermark_ns)

    def _receivers(self, task: Task) -> Iterator[Task]:
        """The tasks that get the watermarks of a task: all that it can send tuples to on the way to a window."""
        for edge in task.operator.edges:
            if edge.down.timed:
                units = [unit for sender in self._units(task) for unit in self._over(edge, sender)]
                everywhere = [other for other in self.world.tasks if other.operator is edge.down]
                goals = {unit.task for unit in units} if edge.partitioning == "forward" else set(everywhere)
                yield from [goal for goal in everywhere if goal in goals and goal.alive]

    def _rise(self, origin: Task, event_ns: int) -> None:
        """Send a watermark over all channels of a task, behind what waits there, if it is a later one."""
        if event_ns > self.sent_ns.get(origin, 0):
            self.sent_ns[origin] = event_ns
            for task in self._receivers(origin):
                origin.outbox.pass_on(Passing(Mark(event_ns, origin, self.world.next_number()), task))

    def send(self, mark: Mark, task: Task) -> None:
        """Send a watermark to a task, behind all that went before on the same channel."""
        origin, arrive = mark.origin, partial(self._arrive, mark, task)
        rank = channel(ARRIVAL, task.index, origin.index)
        comes = lambda arrival_ns: self.clock.at(arrival_ns, rank, arrive)  # noqa: E731
        self.world.transmit(origin, task, 0, comes)

    def _arrive(self, mark: Mark, task: Task, _: object) -> None:
        if task.alive and mark.origin.alive:
            task.arrive(mark)
            self.world.tell()

    # -- at its turn

    def turn(self, mark: Mark, task: Task) -> None:
        """Event time rises at the units there; what it passes ends."""
        units = [unit for unit in self._units(task) if unit.live]
        for unit in units:
            self._hear(unit, mark)
        windows = task.operator.windows
        if windows is not None and task.operator.joins is None:
            self._end_windows(task, units)
            self._rise(task, min((windows.held_ns(unit.time.event_ns) for unit in units), default=0))
            return
        if windows is not None:
            for unit in units:
                sides = unit.time.sides
                unit.time.sides = {at: sides[at] for at in sides if windows.end_ns(at[0]) > unit.time.event_ns}
        self._rise(task, min((unit.time.event_ns for unit in units), default=0))

    def _hear(self, unit: Unit, mark: Mark) -> None:
        """The event time of a unit is the least of what came from all units that send to it."""
        time = unit.time
        if mark.number >= unit.assigned_at and mark.begun > unit.freed_at and self._is_meant(unit, mark):
            for sender, event_ns in time.of_sender.items():
                if any(self._speaks(instance, mark) for instance in self.world.instances_of(sender)):
                    time.of_sender[sender] = max(event_ns, mark.event_ns)
            time.event_ns = max(time.event_ns, min(time.of_sender.values()))

    def _is_meant(self, unit: Unit, mark: Mark) -> bool:
        """Whether the task that the mark is from has sent the unit its tuples ever since the mark was made.

        What a rule keeps aside was sent before the mark, and is not applied.
        """
        group, origin = unit.group, mark.origin.index
        if any(of in (None, unit.number) and task in (None, origin) for of, task in unit.task.rules):
            return False
        if origin in group.routes:
            return unit in group.routes[origin] and mark.number >= group.routed_at[origin]
        return group.owner is unit and mark.number >= unit.owned_at

    def _speaks(self, sender: Unit, mark: Mark) -> bool:
        """Whether the mark comes from where the instance is, and was made since it has sent all that it kept."""
        return sender.task is mark.origin and sender.live and not sender.muted and mark.number >= sender.live_at

    def _end_windows(self, task: Task, units: list[Unit]) -> None:
        """By window, key group, and first tuple of a key."""
        operator, windows = task.operator, task.operator.windows
        assert windows is not None

        def over(unit: Unit) -> list[int]:
            return [window for window in unit.time.windows if windows.end_ns(window) <= unit.time.event_ns]

        for window in sorted({window for unit in units for window in over(unit)}):
            for unit in units:
                if window in over(unit):
                    for key, newest_ns in unit.time.windows.pop(window).items():
                        for child, child_key in operator.results(unit.index, key, window):
                            self.world.emit(unit, child, newest_ns, child_key)

    def join(self, unit: Unit, row: Row, origin: OperatorPlan) -> None:
        """The tuple meets those of the other input that are in its window already, in the order in which they came."""
        operator, windows, time = unit.operator, unit.operator.windows, unit.time
        assert windows is not None
        window, side = windows.last(row.birth_ns), int(origin.index != operator.joins)
        self._note_late(unit, row)
        if windows.end_ns(window) <= time.event_ns:
            return
        for other in time.sides.get((window, row.key, 1 - side), ()):
            for child, key in operator.pairs(row.id, other.id, row.key):
                self.world.emit(unit, child, max(row.birth_ns, other.birth_ns), key)
        time.sides.setdefault((window, row.key, side), []).append(row)

    def enter(self, unit: Unit, row: Row) -> None:
        """The tuple is in all windows around its event time; of each key a window knows the newest."""
        windows, time = unit.operator.windows, unit.time
        assert windows is not None
        self._note_late(unit, row)
        first = max(windows.first(row.birth_ns), windows.first(time.event_ns))  # the first that has not ended
        for window in range(first, windows.last(row.birth_ns) + 1):
            newest = time.windows.setdefault(window, {})
            newest[row.key] = max(newest.get(row.key, 0), row.birth_ns)

    def _note_late(self, unit: Unit, row: Row) -> None:
        if row.birth_ns < unit.time.event_ns:
            assert self.world.plan.may_fail, "a tuple came behind its watermark"
            self.late.append((unit, row))

    # -- after a crash

    def restore(self, unit: Unit, checkpoint: Checkpoint | None) -> None:
        """Event time as in the stored checkpoint, or from the beginning."""
        saved, windows = checkpoint.time if checkpoint else None, unit.operator.windows
        time = unit.time = unit.time.restored(saved, self.world.plan.replays)
        if windows is not None:
            passed = time.event_ns
            time.windows = {n: newest for n, newest in time.windows.items() if windows.end_ns(n) > passed}
            time.sides = {at: rows for at, rows in time.sides.items() if windows.end_ns(at[0]) > passed}
