"""The queue trimming protocol: slices of what partitions process, and rounds of acks by which upstream trims outputs.

All of it is counts of what is there: a *mark* at the end of a slice says how many tuples a partition had applied (the
input slice table) and how many outputs it had kept for each receiver (the output slice table). An ack says of each
level how many of the first applied tuples of a partition it confirms; the sender finds them in its outputs by their
ids, so that an order that changed in a recovery does no harm.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from models.scenario.recovery_methods import History
from models.scenario.recovery_methods import Trimming as Description
from models.units import to_ns
from sim.clock import MESSAGE, Process, channel
from sim.plain.channels import Channels
from sim.plain.partition import Checkpoint, EventTime, Partition, TaskView, Work


class Mark(NamedTuple):
    """The end of a slice of a partition: what there was so far in this incarnation."""

    applied: int
    kept: dict[Partition, int]  # by receiver


@dataclass
class Slices:
    """The slices of a partition that are not acknowledged at the highest level, and the acks of its outputs."""

    confirmed: list[int]  # by level: how many of the first applied tuples
    marks: deque[Mark] = field(default_factory=deque)
    trimmed: dict[Partition, int] = field(default_factory=dict)  # by receiver: outputs in this incarnation
    acked: dict[Partition, list[int]] = field(default_factory=dict)  # by receiver, by level: outputs, trimmed ones too


class Confirmation(NamedTuple):
    """One partition's part of an ack: how many of its applied tuples it confirms to a sender, by level."""

    sender: Partition
    receiver: Partition
    incarnation: int  # of the receiver
    counts: Sequence[int]


class TrimmingProtocol:
    """Marks slices, sends acks, and trims."""

    def __init__(self, plane: Channels, description: Description) -> None:
        self.plane, self.levels, self.ack_bytes = plane, description.levels, round(description.ack_bytes)
        self.work_ns, self.step_ns = to_ns(description.work_s), to_ns(description.hop_s)
        self.safe = description.reading == "safe"
        self._slices: dict[Partition, Slices] = {}

    def of(self, partition: Partition) -> Slices:
        """Return the slices of a partition."""
        return self._slices.setdefault(partition, Slices([0] * self.levels))

    # -- slices

    def mark_all(self) -> None:
        """End a slice of each live partition that has something to acknowledge one day."""
        for partition in self.plane.instances():
            self.mark(partition)

    def mark(self, partition: Partition) -> None:
        """End a slice of the partition, if it is live and has something to acknowledge one day."""
        if partition.live and self._has_slices(partition):
            self._mark(partition)

    def _has_slices(self, partition: Partition) -> bool:
        # A source reads a log that nobody trims, and what a sink has delivered needs no ack from downstream.
        return self.levels > 1 and not partition.operator.is_source and not partition.operator.is_sink

    def _mark(self, partition: Partition) -> None:
        own = self.of(partition)
        kept = {receiver: own.trimmed.get(receiver, 0) + len(rows) for receiver, rows in partition.kept.items()}
        own.marks.append(Mark(len(partition.applied), kept))

    # -- rounds of acks

    def round(self, hops: int) -> None:
        """Have each task of the operators so far from the end acknowledge to all that keep outputs for it, in order."""
        far = self.plane.plan.hops_to_end
        for task in [task for task in self.plane.tasks if task.alive and far[task.operator.index] == hops]:
            self.acknowledge(task)

    def acknowledge(self, task: TaskView) -> None:
        """Have a task acknowledge to all tasks that keep outputs for it, in order."""
        goals: dict[int, list[Confirmation]] = {}
        for partition in self._at(task):
            counts = self.confirmed(partition)
            for sender in partition.senders:
                if sender.kept.get(partition):
                    said = Confirmation(sender, partition, partition.incarnation, counts)
                    goals.setdefault(sender.task.index, []).append(said)
        for goal in sorted(goals):
            self._send(task, self.plane.tasks[goal], goals[goal])
        self._work(task, len(goals))

    def _at(self, task: TaskView) -> Iterator[Partition]:
        """Yield the live partitions at a task that acknowledge what they process: owners of their groups."""
        for partition in self.plane.instances():
            owns = partition.live and partition.group.owner is partition
            if partition.task is task and owns and not partition.operator.is_source:
                yield partition

    def confirmed(self, partition: Partition) -> list[int]:
        """Return by level how many of the first applied tuples the partition confirms now."""
        applied = len(partition.applied)
        if partition.operator.is_sink:
            return [applied] * self.levels
        own = self.of(partition)
        own.confirmed[0] = applied
        for level in range(1, self.levels):
            done = 0
            while done < len(own.marks) and self._is_confirmed(partition, own.marks[done], level):
                done += 1
            if done:
                # What was confirmed once stays so, although a receiver may have lost it with its host since.
                own.confirmed[level] = max(own.confirmed[level], own.marks[done - 1].applied)
            if level == self.levels - 1:
                for _ in range(done):
                    own.marks.popleft()
        return list(own.confirmed)

    def _is_confirmed(self, partition: Partition, mark: Mark, level: int) -> bool:
        """Return whether downstream acknowledges the outputs of a slice one level below, and a checkpoint has it."""
        own = self.of(partition)
        # Of one that is over, another instance has to acknowledge all that it had not.
        acked = all(
            receiver.retired
            or kept <= own.acked.get(receiver, [0] * self.levels)[level - 1]
            or kept <= own.trimmed.get(receiver, 0)
            for receiver, kept in mark.kept.items()
        )
        saved = partition.checkpoint.count if partition.checkpoint else 0
        return acked and (not partition.operator.description.stateful or mark.applied <= saved)

    def _send(self, task: TaskView, goal: TaskView, said: Sequence[Confirmation]) -> None:
        plane = self.plane
        plane.recorder.message(plane.clock.now_ns(), "ack", 1, self.ack_bytes)
        rank, latency_ns = channel(MESSAGE, goal.index, task.index), plane.plan.latency_ns

        def comes(arrival_ns: int) -> None:
            # The event cannot be cancelled: an ack is void if its sender died before the last byte had left.
            left_ns = arrival_ns - (latency_ns if goal.host is not task.host else 0)
            plane.clock.at(arrival_ns, rank, lambda _: None if task.died_by(left_ns) else self._comes(goal, said))

        plane.transmit(task, goal, self.ack_bytes, comes)

    def _work(self, task: TaskView, acks: int) -> None:
        """Occupy a task with acks that it sends or gets."""
        if acks * self.work_ns and task.operator.service_ns is not None:
            task.put_in_front([Work(acks * self.work_ns, task.host.ticket(), lambda: None)])

    def _comes(self, goal: TaskView, said: Sequence[Confirmation]) -> None:
        """Take in an ack: of a sender that is elsewhere by now, or a receiver that was restored since, it is void."""
        if goal.alive:
            self._work(goal, 1)
        for one in said:
            here = one.sender.task is goal and one.sender.live
            if goal.alive and here and one.incarnation == one.receiver.incarnation:
                self._acknowledge(one)

    def _acknowledge(self, said: Confirmation) -> None:
        sender, receiver = said.sender, said.receiver
        own, rows, position = self.of(sender), sender.kept.get(receiver, deque()), receiver.position
        acked = own.acked.setdefault(receiver, [0] * self.levels)
        trimmed = own.trimmed.get(receiver, 0)
        for level, count in enumerate(said.counts):
            at = max(acked[level], trimmed) - trimmed
            # From the front only, as in `Partition.trim`.
            while at < len(rows) and position.get(rows[at].id, count) < count:
                at += 1
            acked[level] = trimmed + at
        own.trimmed[receiver] = trimmed + sender.trim(receiver, said.counts[-1])

    # -- key groups that go elsewhere

    def split_slices(self, sender: Partition, receiver: Partition, other: Partition, before: int) -> None:
        """Have slices wait for another receiver, too, which was kept `before` outputs, and those for the first now."""
        own = self.of(sender)
        gone, first = own.trimmed.get(receiver, 0), own.trimmed.get(other, 0) + before
        for mark in own.marks:
            copied = mark.kept.get(receiver, 0) - gone
            if copied > 0:
                mark.kept[other] = max(mark.kept.get(other, 0), first + copied)

    # -- crashes

    def forget_acks_of(self, receiver: Partition) -> None:
        """Forget what was acknowledged by an incarnation that is over, but for what is trimmed."""
        for sender in receiver.senders:
            self.of(sender).acked.pop(receiver, None)

    def begin_again(self, partition: Partition) -> None:
        """Begin a new incarnation of the partition, whose state was restored: all of that is its first slice."""
        self._slices[partition] = Slices([0] * self.levels)
        if self._has_slices(partition):
            self._mark(partition)

    def state_to_restore(self, partition: Partition) -> Checkpoint | None:
        """Return the stored checkpoint; of a partition without state the tuples that upstream has let go.

        All that follows from these is downstream: it is not processed again if another task sends one of them again.
        """
        if partition.operator.description.stateful:
            return partition.checkpoint
        return Checkpoint(partition.applied, partition.trimmed, (), 0, 0, 0, EventTime(), partition.incarnation)

    # -- records

    def tables_of(self, partition: Partition) -> tuple[int, int, int]:
        """Return the bytes that are kept, applied tuples that are not confirmed, and slices that have ended."""
        if not self._has_slices(partition) or not partition.live:
            return partition.kept_bytes(), 0, 0
        own = self.of(partition)
        return partition.kept_bytes(), len(partition.applied) - own.confirmed[-1], len(own.marks)


class HistoryProtocol:
    """Trims outputs by their age: backup of the last time, upstream or at sources, without acks and checkpoints."""

    safe = True

    def __init__(self, plane: Channels, description: History, sources_replay: bool) -> None:
        self.plane, self.length_ns, self.sources_replay = plane, to_ns(description.length_s), sources_replay

    def round(self) -> None:
        """Let upstream forget what was created before the history, in order, as far as receivers have applied it.

        Where sources replay, others forget all that receivers have applied: it is not gone, as sources have it.
        """
        now_ns = self.plane.clock.now_ns()
        for sender in self.plane.instances():
            replays = sender.operator.is_source or not self.sources_replay
            before_ns = now_ns - self.length_ns if replays else now_ns
            for receiver, rows in sender.kept.items():
                while rows and rows[0].created_ns < before_ns and rows[0].id in receiver.position:
                    position = receiver.position[rows.popleft().id]
                    if replays:
                        receiver.trimmed = max(receiver.trimmed, position + 1)

    def state_to_restore(self, partition: Partition) -> Checkpoint | None:
        """Return that there is none: what upstream keeps makes it anew."""
        return None

    def begin_again(self, partition: Partition) -> None:
        """Do nothing: there are no slices."""

    def forget_acks_of(self, receiver: Partition) -> None:
        """Do nothing: there are no acks."""

    def split_slices(self, sender: Partition, receiver: Partition, other: Partition, before: int) -> None:
        """Do nothing: there are no slices."""

    def tables_of(self, partition: Partition) -> tuple[int, int, int]:
        """Return the bytes that are kept; there are no slices."""
        return partition.kept_bytes(), 0, 0


class Trims(Channels):
    """The verbs of `sim.data_plane.TrimmingPlane`."""

    def start_slices(self, every_ns: int) -> None:
        """End a slice of each live partition at each multiple of this time."""
        self.clock.process(self._each(every_ns, self._trimming().mark_all))

    def start_trimming(self, every_ns: int) -> None:
        """Begin a round of acks, or look for what is old, at each multiple of this time."""
        if isinstance(self.trimming, HistoryProtocol):
            self.clock.process(self._each(every_ns, self.trimming.round))
            return
        protocol = self._trimming()
        for hops in sorted(set(self.plan.hops_to_end)):
            self.clock.process(self._each(every_ns, partial(protocol.round, hops), hops * protocol.step_ns))

    def _each(self, every_ns: int, act: Callable[[], None], late_ns: int = 0) -> Process:
        yield self.clock.timeout(every_ns + late_ns)
        while True:
            act()
            yield self.clock.timeout(every_ns)

    def _trimming(self) -> TrimmingProtocol:
        if not isinstance(self.trimming, TrimmingProtocol):
            raise ValueError("the run does not trim by acks")
        return self.trimming
