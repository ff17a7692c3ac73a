"""Event time: watermarks on their way from the sources, and windows that end where they pass.

The event time of a tuple is its creation time. A watermark says that no tuple with an earlier event time will come over
its channel any more. It is a virtual tuple: without bytes it keeps its place on the link, without a service its turn in
the queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from sim.clock import ARRIVAL, TICKS, channel
from sim.operator_plan import Edge, OperatorPlan
from sim.plain.channels import Channels, Source
from sim.plain.partition import Partition, Passing, Row, TaskView, Watermark


class Watermarks:
    """Sends the watermarks of a run, and ends windows where they pass.

    A task stands for the partitions that are live there. The promise of a watermark holds between two partitions, one
    where it came from and one that receives it, if both were there when it was made: then all tuples from one to the
    other are in front of it, or in the checkpoint from which the receiver was restored.

    A partition that moves without a second instance hears no watermark while it is live nowhere. What they are about
    waits at its next task. So it hears the last one of each channel there once all that has been served (`recall`).
    Watermarks of its next task count for it once what it has sent from the old one has come (`take_leave`).
    """

    def __init__(self, plane: Channels) -> None:
        self.plane, self.clock = plane, plane.clock
        self.sent_ns: dict[TaskView, int] = {}
        self.passed: dict[TaskView, dict[TaskView, Watermark]] = {}  # the last ones at a task, by their origin
        self.came: dict[TaskView, dict[TaskView, int]] = {}  # the numbers of these, or of farewells that came later
        self.begun_to_speak: set[TaskView] = set()  # tasks that have got a partition since their last watermark
        self.late: list[tuple[Partition, Row]] = []  # tuples that came behind a watermark
        for sender in plane.all_partitions():
            for edge in sender.operator.edges:
                if edge.down.timed:
                    for receiver in self._over(edge, sender):
                        receiver.time.of_sender[sender] = 0
        for source in plane.sources:
            if source.partition.operator.timed:
                self._wait(source, source.partition.operator.watermark_ns)

    def _over(self, edge: Edge, sender: Partition) -> list[Partition]:
        receivers = self.plane.partitions[edge.down.index]
        return [receivers[sender.index % len(receivers)]] if edge.partitioning == "forward" else receivers

    def _partitions(self, task: TaskView) -> list[Partition]:
        """Return the partitions there, and behind them further instances of key groups."""
        here = self.plane.instances()
        return [partition for partition in here if partition.task is task and not partition.retired]

    # -- sending

    def _wait(self, source: Source, at_ns: int) -> None:
        self.clock.at(at_ns, TICKS + source.partition.task.index, lambda _: self._tick(source, at_ns))

    def _tick(self, source: Source, now: int) -> None:
        """Send a watermark up to now, or up to the first tuple that waits at a source of the task.

        A source that is down or paused sends none.
        """
        task = source.partition.task
        if source.partition.live and not task.paused_until_ns:
            here = [other for other in self.plane.sources if other.partition.task is task and other.partition.live]
            self._rise(task, min(other.promise_ns(now) for other in here))
        self._wait(source, now + source.partition.operator.watermark_ns)

    def _receivers(self, task: TaskView) -> Iterator[TaskView]:
        """Yield the tasks that get the watermarks of a task: all it can send tuples to on the way to a window."""
        for edge in task.operator.edges:
            if edge.down.timed:
                partitions = [partition for sender in self._partitions(task) for partition in self._over(edge, sender)]
                everywhere = [other for other in self.plane.tasks if other.operator is edge.down]
                goals = (
                    {partition.task for partition in partitions} if edge.partitioning == "forward" else set(everywhere)
                )
                yield from [goal for goal in everywhere if goal in goals and goal.alive]

    def _rise(self, origin: TaskView, event_ns: int) -> None:
        """Send a watermark over all channels of a task, behind its unsent outputs, if it is a later one."""
        # Watermarks of a task only rise; one that does not is no news, unless the task now speaks for more partitions.
        sent_ns = self.sent_ns.get(origin, 0)
        if event_ns > sent_ns or (origin in self.begun_to_speak and event_ns == sent_ns > 0):
            self.begun_to_speak.discard(origin)
            self.sent_ns[origin] = event_ns
            self._send_each(origin, event_ns)

    def _send_each(self, origin: TaskView, event_ns: int, again: bool = False) -> None:
        for task in self._receivers(origin):
            origin.outbox.pass_on(Passing(Watermark(event_ns, origin, self.plane.next_number(), again), task))

    def take_leave(self, taken: Sequence[Partition]) -> None:
        """Send a farewell from the task of these partitions, which are taken out of it: a watermark that says nothing.

        It is behind all that they have sent from there. Only then the watermarks of another task can count for them.
        """
        task = taken[0].task
        if any(edge.down.timed for edge in task.operator.edges):
            number = self.plane.next_number()
            for one in taken:
                one.left[task] = number
            self._send_each(task, 0, again=True)

    def speak_for_the_rest(self, task: TaskView) -> None:
        """Send what the partitions there have heard, which one that was to leave did not: now it is taken."""
        here = [partition.time.event_ns for partition in self._partitions(task) if partition.live]
        if here:
            windows = task.operator.windows
            ends = windows is not None and task.operator.joins is None
            self._rise(task, windows.held_ns(min(here)) if ends and windows is not None else min(here))

    def take_last_leave(self, task: TaskView) -> None:
        """Let a last farewell come from a task whose host has died, if it has sent something for who has left it.

        It comes behind all that had left the link: a latency from now.
        """
        if not any(task in one.left for one in self.plane.instances()):
            return
        at_ns = self.clock.now_ns() + self.plane.plan.latency_ns
        below = [edge.down for edge in task.operator.edges if edge.down.timed]
        for goal in [other for down in below for other in self.plane.tasks if other.operator is down and other.alive]:
            last = Watermark(0, task, self.plane.next_number(), again=True, last=True)
            self.clock.at(at_ns, channel(ARRIVAL, goal.index, task.index), partial(self._arrive, last, goal))

    def send(self, watermark: Watermark, task: TaskView) -> None:
        """Send a watermark to a task, behind all that went before on the same channel."""
        origin, arrive = watermark.origin, partial(self._arrive, watermark, task)
        rank = channel(ARRIVAL, task.index, origin.index)
        comes = lambda arrival_ns: self.clock.at(arrival_ns, rank, arrive)  # noqa: E731
        self.plane.transmit(origin, task, 0, comes)

    def _arrive(self, watermark: Watermark, task: TaskView, _: object) -> None:
        if task.alive and (watermark.origin.alive or watermark.last):
            self.plane.hand_over(watermark, task)
            self.plane.tell()

    # -- at its turn

    def turn(self, watermark: Watermark, task: TaskView) -> None:
        """Raise event time at the partitions there, and end the windows that it passes."""
        partitions = [partition for partition in self._partitions(task) if partition.live]
        passed, begun = self.passed.setdefault(task, {}), watermark.begun
        if watermark.origin is task:
            begun = watermark.number  # more may have been put in front since it was: that is not served yet
        else:
            if watermark.origin.alive or watermark.last:
                self.came.setdefault(task, {})[watermark.origin] = watermark.number
            if not watermark.again:  # a farewell says nothing for who has come to its task since the last one
                passed[watermark.origin] = watermark
        heard = [*passed.values()] if watermark.again else [watermark]
        for partition in partitions:
            for one in heard:
                self._hear(partition, one, begun)
        # End windows before the watermark goes on: their results are older than it, and have to be in front of it.
        windows = task.operator.windows
        if windows is not None and task.operator.joins is None:
            self._end_windows(task, partitions)
            self._rise(task, min((windows.held_ns(partition.time.event_ns) for partition in partitions), default=0))
            return
        if windows is not None:
            for partition in partitions:
                sides = partition.time.sides
                partition.time.sides = {
                    at: sides[at] for at in sides if windows.end_ns(at[0]) > partition.time.event_ns
                }
        self._rise(task, min((partition.time.event_ns for partition in partitions), default=0))

    def begin_to_speak(self, task: TaskView) -> None:
        """Let the watermarks of a task count for partitions that it has got, too."""
        self.begun_to_speak.add(task)

    def recall(self, task: TaskView) -> list[Watermark]:
        """Return what has the partitions of a task hear the last watermark of each channel again, at its turn, if any.

        It is a watermark of the task to itself.
        """
        return [Watermark(0, task, self.plane.next_number(), again=True)] if task.operator.timed else []

    def raise_event_time(self, task: TaskView, event_ns: int) -> None:
        """Raise event time at the partitions there on the word of control, and end the windows that it passes."""
        partitions = [partition for partition in self._partitions(task) if partition.live]
        for partition in partitions:
            partition.time.event_ns = max(partition.time.event_ns, event_ns)
        if task.operator.windows is not None and task.operator.joins is None:
            self._end_windows(task, partitions)

    def _hear(self, partition: Partition, watermark: Watermark, begun: int) -> None:
        """Raise event time at the partition to the least watermark over all partitions that send to it.

        `begun`: the number of its turn.
        """
        time, number, event_ns = partition.time, watermark.number, watermark.event_ns
        if partition.goal is not None:
            # What is born from then on may wait at its next task; behind windows that may be created earlier.
            event_ns = min(event_ns, partition.placed_from_ns if partition.operator.reckoned else 0)
        if number >= partition.assigned_at and begun > partition.freed_at and self._is_meant(partition, watermark):
            for sender, before_ns in time.of_sender.items():
                instances = self.plane.instances_of(sender)
                if any(self._speaks(instance, watermark, partition.task) for instance in instances):
                    time.of_sender[sender] = max(before_ns, event_ns)
            # The least over all senders: below it nobody sends a tuple any more. It never falls.
            time.event_ns = max(time.event_ns, min(time.of_sender.values()))

    def _is_meant(self, partition: Partition, watermark: Watermark) -> bool:
        """Return whether the origin has sent tuples to this partition ever since the watermark was made.

        It does not count while a rule holds tuples of the origin: these were sent before it, and are not applied.
        """
        group, origin = partition.group, watermark.origin.index
        if any(of in (None, partition.number) and task in (None, origin) for of, task in partition.task.rules):
            return False
        if origin in group.routes:
            return partition in group.routes[origin] and watermark.number >= group.routed_at[origin]
        return group.owner is partition and watermark.number >= partition.owned_at

    def _speaks(self, sender: Partition, watermark: Watermark, task: TaskView) -> bool:
        """Return whether the watermark comes from the task of the instance, made since that went live and replayed.

        All that the instance has sent to the task of the watermark from other tasks has to have come there.
        """
        here = sender.task is watermark.origin
        if not (here and sender.live and not sender.muted and watermark.number >= sender.live_at):
            return False
        came = self.came.get(task, {})
        return all(came.get(one, task.since) >= left for one, left in sender.left.items())

    def _end_windows(self, task: TaskView, partitions: list[Partition]) -> None:
        """End windows that event time has passed, by window, key group, and first tuple of a key."""
        operator, windows = task.operator, task.operator.windows
        assert windows is not None

        def over(partition: Partition) -> list[int]:
            return [window for window in partition.time.windows if windows.end_ns(window) <= partition.time.event_ns]

        for window in sorted({window for partition in partitions for window in over(partition)}):
            for partition in partitions:
                if window in over(partition):
                    for key, newest_ns in partition.time.windows.pop(window).items():
                        for child, child_key in operator.results(partition.index, key, window):
                            self.plane.emit(partition, child, newest_ns, child_key, since_ns=self.clock.now_ns())

    def join(self, partition: Partition, row: Row, origin: OperatorPlan) -> None:
        """Pair the tuple with those of the other input that are in its window, in the order in which they came."""
        operator, windows, time = partition.operator, partition.operator.windows, partition.time
        assert windows is not None
        window, side = windows.last(row.created_ns), int(origin.index != operator.joins)
        self._note_late(partition, row)
        if windows.end_ns(window) <= time.event_ns:
            return
        for other in time.sides.get((window, row.key, 1 - side), ()):
            for child, key in operator.pairs(row.id, other.id, row.key):
                newest_ns = max(row.created_ns, other.created_ns)
                self.plane.emit(partition, child, newest_ns, key, since_ns=row.since_ns)
        time.sides.setdefault((window, row.key, side), []).append(row)

    def enter(self, partition: Partition, row: Row) -> None:
        """Put the tuple into all windows around its event time; of each key a window knows the newest."""
        windows, time = partition.operator.windows, partition.time
        assert windows is not None
        self._note_late(partition, row)
        first = max(windows.first(row.created_ns), windows.first(time.event_ns))  # the first that has not ended
        for window in range(first, windows.last(row.created_ns) + 1):
            newest = time.windows.setdefault(window, {})
            newest[row.key] = max(newest.get(row.key, 0), row.created_ns)

    def _note_late(self, partition: Partition, row: Row) -> None:
        if row.created_ns < partition.time.event_ns:
            assert self.plane.plan.keeps_ids, "a tuple came behind its watermark"
            self.late.append((partition, row))
