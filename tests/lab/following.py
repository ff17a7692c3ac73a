"""What becomes of each tuple and each state while key groups move in steps, hosts die, and nothing is kept.

It is said without the rules that it checks. A tuple that is sent is applied once where it has come, dropped once, or
still on its way. A state is whole, or it is empty: then a host has died where it was, where it was going, or where it
came from before it had come. A window ends once, with all that was applied to the state since that was last empty.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from sim.control.assembly import Control
from sim.migration.protocol import Message
from sim.plain.audit import accounts
from sim.plain.partition import Partition, PostDated, Row, TaskView, Visit
from sim.plain.plane import PlainPlane
from sim.plain.watermarks import Watermarks

_NS = 1_000_000_000


class Followed:
    """A run on the plain plane, before its start, of which each tuple and each state is followed."""

    def __init__(self, control: Control) -> None:
        assert isinstance(control.plane, PlainPlane)
        self.control, self.plane = control, control.plane
        self.sent = Counter[tuple[int, int]]()  # (partition, id) -> times
        self.applied = Counter[tuple[int, int]]()
        self.dropped = Counter[tuple[int, int]]()
        self.came_to: dict[tuple[int, int], TaskView] = {}
        self.there: defaultdict[int, list[int]] = defaultdict(list)  # partition -> ids in its state
        self.in_lost_states = set[tuple[int, int]]()
        self.at_risk: dict[int, set[int]] = {}  # key group on its way -> hosts whose death takes its state
        self.may_be_lost, self.must_be_empty = set[int](), set[int]()
        self.losses = Counter[int]()  # partition -> times
        self.post_dated: dict[int, tuple[int, int]] = {}  # id of an output -> its partition, and losses before it
        self.said = Counter[str]()
        self.row_of: dict[tuple[int, int], tuple[Row, int]] = {}  # (partition, id) -> applied, and from which operator
        self.ended = Counter[tuple[int, int]]()  # (partition, window) -> times
        self._watch_tuples()
        self._watch_states()
        self._watch_windows()
        for partition in self.plane.instances():
            self._watch_partition(partition)

    def _watch_tuples(self) -> None:
        plane = self.plane
        ships, drops, comes = plane.send_tuple, plane.drop, plane.hand_over
        postpones, emits = plane.postpone, plane.emit

        def sends(origin: TaskView, sender: Partition, receiver: Partition, row: Row) -> None:
            self.sent[receiver.number, row.id] += 1
            ships(origin, sender, receiver, row)

        def loses(visit: Visit, task: TaskView, reason: str) -> None:
            self.dropped[visit.partition.number, visit.row.id] += 1
            drops(visit, task, reason)

        def hands_over(item: Any, task: TaskView) -> None:
            if isinstance(item, Visit):
                self.came_to[item.partition.number, item.row.id] = task
            comes(item, task)

        def puts_off(partition: Partition, output: PostDated) -> None:
            self.post_dated[output.tuple_id] = partition.number, self.losses[partition.number]
            postpones(partition, output)

        def makes(partition: Partition, tuple_id: int, *others: Any, **named: Any) -> None:
            before = self.post_dated.get(tuple_id, (partition.number, self.losses[partition.number]))
            if before != (partition.number, self.losses[partition.number]):
                self.said["an output of a state that is lost leaves"] += 1
            emits(partition, tuple_id, *others, **named)

        plane.send_tuple, plane.drop, plane.hand_over = sends, loses, hands_over  # type: ignore[method-assign]
        plane.postpone, plane.emit = puts_off, makes  # type: ignore[method-assign]

    def _watch_states(self) -> None:
        plane, runtime = self.plane, self.control.coordinator.runtime
        crash, take, put, deliver = plane.crash, plane.take, plane.put, runtime.deliver

        def crashes(host: int) -> None:
            for partition in plane.instances():
                one = partition.number
                if partition.operator.is_sink or partition.operator.is_source:
                    continue
                if partition.task.host.index == host:  # it is there, or it was going there
                    self._is_lost(one)
                elif host in self.at_risk.get(one, set()):
                    self.may_be_lost.add(one)
            for task in plane.tasks:  # what it withholds would have been sent
                if task.host.index == host:
                    self.sent.update((one.receiver.number, one.row.id) for one in task.outbox.unsent)
            crash(host)

        def takes(partitions: Sequence[int]) -> Any:
            parcel = take(partitions)
            for one in partitions:
                target = plane.instances()[one].task
                sources = {self.control.cluster.host_of(one)}
                self.at_risk[one] = {target.host.index} | sources
                if not target.alive:
                    self._is_lost(one)
            return parcel

        def puts(parcel: int, task: int) -> None:
            for one in plane.parcels[parcel].taken:
                self.at_risk.pop(one.number, None)
                self.may_be_lost.discard(one.number)
                if one.number in self.must_be_empty:
                    self.said["a state comes to a task that was dead"] += 1
            put(parcel, task)

        def delivers(message: Message) -> None:
            for parcel in message.parcels if message.kind == "state" else ():
                for one in parcel.partitions:
                    if one in self.at_risk and parcel.number in plane.parcels:  # whence it came matters no more
                        self.at_risk[one] = {plane.instances()[one].task.host.index}
                        self.may_be_lost.discard(one)
            deliver(message)

        plane.crash, plane.take, plane.put = crashes, takes, puts  # type: ignore[method-assign]
        runtime.deliver = delivers  # type: ignore[method-assign]

    def _watch_windows(self) -> None:
        watermarks = self.plane.watermarks
        assert isinstance(watermarks, Watermarks)
        end, join = watermarks._end_windows, watermarks.join

        def ends(task: TaskView, partitions: list[Partition]) -> None:
            before = {one: dict(one.time.windows) for one in partitions}
            end(task, partitions)
            for one, windows in before.items():
                for window in windows.keys() - one.time.windows.keys():
                    self.ended[one.number, window] += 1
                    if windows[window] != self._newest(one, window):
                        self.said["a window ends without what was applied, or with what is lost"] += 1

        def joins(partition: Partition, row: Row, origin: Any) -> None:
            windows, side = partition.operator.windows, int(origin.index != partition.operator.joins)
            assert windows is not None
            window = windows.last(row.created_ns)
            there = (self.row_of[partition.number, one] for one in self.there[partition.number])
            met = [
                one
                for one, upstream in there
                if one.key == row.key and upstream != origin.index and windows.last(one.created_ns) == window
            ]
            if met != partition.time.sides.get((window, row.key, 1 - side), []):
                self.said["a tuple meets others than those that were applied"] += 1
            join(partition, row, origin)

        watermarks._end_windows, watermarks.join = ends, joins  # type: ignore[method-assign]

    def _newest(self, partition: Partition, window: int) -> dict[int, int]:
        """Return the newest creation time of each key in a window, as tuples were applied."""
        windows, found = partition.operator.windows, dict[int, int]()
        assert windows is not None
        for one in self.there[partition.number]:
            row, _ = self.row_of[partition.number, one]
            if windows.first(row.created_ns) <= window <= windows.last(row.created_ns):
                found[row.key] = max(found.get(row.key, 0), row.created_ns)
        return found

    def _watch_partition(self, partition: Partition) -> None:
        apply, install, number = partition.apply, partition.install, partition.number

        def applies(row: Row, upstream: int) -> None:
            self.applied[number, row.id] += 1
            self.row_of[number, row.id] = row, upstream
            self.there[number].append(row.id)
            if number in self.must_be_empty:
                self.said["a state that is lost goes on"] += 1
            if self.came_to[number, row.id] is not partition.task:
                self.said["a tuple is applied where it has not come"] += 1
            apply(row, upstream)

        def installs(checkpoint: Any) -> int:
            if number not in self.must_be_empty:
                if number not in self.may_be_lost:
                    self.said["a state is lost for no reason"] += 1
                self._is_lost(number)
            self.must_be_empty.discard(number)
            self.may_be_lost.discard(number)
            self.at_risk.pop(number, None)
            return install(checkpoint)

        partition.apply, partition.install = applies, installs  # type: ignore[method-assign]

    def _is_lost(self, partition: int) -> None:
        """Note that the state of a partition is gone."""
        self.losses[partition] += 1
        self.in_lost_states.update((partition, one) for one in self.there.pop(partition, ()))
        self.must_be_empty.add(partition)

    # -- what is wrong

    def faults(self) -> list[str]:
        """Return what is wrong at the end of the run, in words."""
        found = {
            *self.said,
            *self._of_tuples(),
            *self._of_states(),
            *self._of_ends(),
            *self._of_event_time(),
            *self._of_ledger(),
        }
        return sorted(found)

    def _on_their_way(self) -> Counter[tuple[int, int]]:
        plane = self.plane
        found = Counter((visit.partition.number, visit.row.id) for visit in plane.wire)
        for task in plane.tasks:
            found.update((one.partition.number, one.row.id) for one in task.items() if isinstance(one, Visit))
        for partition in plane.instances():
            found.update((partition.number, visit.row.id) for visit in partition.held)
        return found

    def _of_tuples(self) -> Iterator[str]:
        ends = self.applied + self.dropped + self._on_their_way()
        if ends != self.sent or any(count != 1 for count in ends.values()):
            yield "a tuple is not once applied, dropped or on its way"

    def _of_states(self) -> Iterator[str]:
        for partition in self.plane.instances():
            is_known = not partition.operator.is_source and partition.number not in self.must_be_empty
            if is_known and partition.applied != self.there[partition.number]:
                yield "a state is neither whole nor empty"

    def _of_ends(self) -> Iterator[str]:
        """Say what is not over, although all that was down has been up again for a second and more."""
        control, plane = self.control, self.plane
        if any(not run.over for run in control.reconfigurations.runs):
            yield "a move never ends"
        if control.coordinator.waiting:
            yield "a move never begins"
        if control.cluster.down_owners or control.cluster.on_the_way or not all(one.live for one in plane.instances()):
            yield "a key group is down at the end"
        if plane.parcels:
            yield "a state is on its way for ever"
        for partition in plane.instances():
            if partition.task.index != control.cluster.partition_task[partition.number]:
                yield "a key group is not where control thinks"
            if not partition.task.alive:
                yield "a key group is at a dead task"
            if partition.goal is not None or partition.placed:
                yield "an entry of a table is left"
            if partition.held or partition.overdue:
                yield "something waits for ever"
        if any(task.alive and (task.side or task.rules or task.paused_until_ns) for task in plane.tasks):
            yield "a task stands still for ever"
        if any(task.outbox.unsent for task in plane.tasks):
            yield "a task withholds something for ever"

    def _of_event_time(self) -> Iterator[str]:
        """Say what windows have ended too early or twice, or do not end, as event time stands still."""
        watermarks, recent_ns = self.plane.watermarks, self.plane.clock.now_ns() - 2 * _NS
        assert isinstance(watermarks, Watermarks)
        if watermarks.late:
            yield "a tuple comes behind its watermark"
        if any(count > 1 for count in self.ended.values()):
            yield "a window ends twice"
        timed = [one for one in self.plane.instances() if one.operator.timed and not one.operator.is_source]
        if any(one.time.event_ns < recent_ns for one in timed):
            yield "event time stands still"
        for one in timed:
            windows = one.operator.windows
            if windows and any(windows.end_ns(window) <= one.time.event_ns for window in one.time.windows):
                yield "a window that is over does not end"

    def _of_ledger(self) -> Iterator[str]:
        """Compare what the audit has as lost with what was seen: what was never sent follows from something lost."""
        coming, first = self._on_their_way(), self.control.plan.first_partition
        ended = self.in_lost_states | self.dropped.keys()
        for operator, account in accounts(self.plane).items():
            gone = {(first[operator] + index, tuple_id) for index, tuple_id in account.lost}
            if account.duplicated:
                yield "something counts twice"
            if any(one in coming or (one in self.applied and one not in self.in_lost_states) for one in gone):
                yield "the audit has as lost what is there"
            if any(first[operator] <= one[0] < first[operator + 1] and one not in gone for one in ended):
                yield "the audit does not have what is lost"
