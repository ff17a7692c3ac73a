"""The recoveries of a run: which partitions are lost, wait or recover, how far each has come, and when it is over.

A partition has caught up when its task has (`sim/control/catch_up.py`), and a failure when the last task downstream of
the recovered partitions has. Replays to a partition after that belong to the recovery of the upstream partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from models.records.tables import NEVER
from sim.control.catch_up import CatchUps
from sim.control.cluster import LostPartition
from sim.control.run_state import StateOn
from sim.data_plane import RecoverablePlane
from sim.migration.moves import Migrations


@dataclass(eq=False)
class PartitionRecovery:
    """The recovery of one partition, as far as it has come.

    The plane counts replayed tuples (`pending`, and when the last was processed) until the recovery is over.
    """

    host: int
    partition: int
    task: int
    failure: int  # row in the table of failures
    failed_ns: int
    detected_ns: int
    allocated_ns: int
    started_ns: int
    restored_ns: int = NEVER
    replayed_ns: int = NEVER
    caught_up_ns: int = NEVER
    pending: int = 0  # replayed tuples that are on their way or in the queue
    replayed: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, loss: LostPartition, partition: int, task: int, now_ns: int) -> PartitionRecovery:
        """Return the recovery of a loss by a partition whose task is up now."""
        detected = now_ns if loss.detected_ns is None else loss.detected_ns
        allocated = now_ns if loss.allocated_ns is None else loss.allocated_ns
        return cls(loss.host, partition, task, loss.failure, loss.failed_ns, detected, allocated, now_ns)

    def note(self, pending: int, processed_ns: int) -> None:
        """Note the plane's counts of replayed tuples; no replay ends before the restore."""
        self.pending, self.replayed_ns = pending, max(self.restored_ns, processed_ns)


class Recoveries:
    """Follows each lost partition through its phases, whatever the method of recovery."""

    def __init__(self, state: StateOn[RecoverablePlane], catch_ups: CatchUps, migrations: Migrations) -> None:
        self.state, self.cluster, self.clock, self.recorder = state, state.cluster, state.clock, state.recorder
        self.catch_ups = catch_ups
        self.is_taking: list[Callable[[int], bool]] = [migrations.is_taking]  # by a run that is not over
        self.all: list[PartitionRecovery] = []  # in the order in which they began
        self._last: dict[int, PartitionRecovery] = {}  # key group -> its recovery that began last
        self.open: dict[int, PartitionRecovery] = {}  # partition -> recovery that is not over
        self._open_failures: Counter[int] = Counter()  # instant -> recoveries that have not caught up
        self._taken_back: dict[int, PartitionRecovery] = {}  # partition -> recovery by a run that has its state
        self.orphans: list[LostPartition] = []  # no host can take them
        self.starting: list[LostPartition] = []  # slots are being allocated to them, or their tasks start

    def begin(self, loss: LostPartition) -> PartitionRecovery:
        """Return the recovery of a partition that has just been assigned to a task."""
        recovery = self._new(loss, loss.partition)
        self.open[loss.partition] = recovery
        return recovery

    def take_over(self, loss: LostPartition, replica: int) -> PartitionRecovery:
        """Return the recovery by another instance: there is nothing to restore, unless that one is dead itself."""
        recovery = self._new(loss, replica)
        if self.cluster.partition_live[replica]:
            self.restored(recovery)
        self.open[replica] = recovery
        return recovery

    def taken_back(self, loss: LostPartition) -> PartitionRecovery:
        """Return the recovery of a partition that a run of a protocol brings back from its own copy."""
        recovery = self._new(loss, loss.partition)
        self._taken_back[loss.partition] = recovery
        return recovery

    def came_back(self, partition: int) -> None:
        """Note that such a partition has its state."""
        recovery = self._taken_back.pop(partition, None)
        if recovery:
            self.restored(recovery)
            recovery.replayed_ns = self.clock.now_ns()

    def restored(self, recovery: PartitionRecovery) -> None:
        """Note that the state is there; watch for the first output of what was born after each failure that is open."""
        recovery.restored_ns = self.clock.now_ns()
        for failed_ns in sorted(self._open_failures):
            self.state.plane.watch_outputs(failed_ns)

    def _new(self, loss: LostPartition, partition: int) -> PartitionRecovery:
        recovery = PartitionRecovery.of(loss, partition, self.cluster.partition_task[partition], self.clock.now_ns())
        self.all.append(recovery)
        self._last[self.cluster.group_of(partition)] = recovery
        self._open_failures[recovery.failed_ns] += 1
        return recovery

    @property
    def busy(self) -> bool:
        """Return True if a recovery is not over."""
        return bool(self.open or self.catch_ups or self.orphans or self.starting)

    def is_recovering(self, partition: int) -> bool:
        """Return whether the partition is assigned to a task and not caught up with."""
        return partition in self.open

    def watch(self, begun: list[PartitionRecovery]) -> None:
        """Note when the tasks of these recoveries have caught up, and when the last task downstream of them has."""

        def ready(task: int) -> bool:
            # A group that moves here brings tuples of the outage with it.
            taking = any(asked(task) for asked in self.is_taking)
            if taking or any(one.task == task for one in self._taken_back.values()):
                return False
            # A task asks each time it is idle. What was assigned last is mostly restored last: look there first.
            for recovery in reversed(self.open.values()):
                if recovery.task == task and recovery.restored_ns == NEVER:
                    return False
            own = (recovery for recovery in self.open.values() if recovery.task == task)
            return not any(self.state.plane.replayed(recovery.partition)[0] for recovery in own)

        def caught_up(task: int) -> None:
            for recovery in begun:
                if (
                    self.cluster.partition_task[self.cluster.successor_of(recovery.partition)] == task
                    and recovery.caught_up_ns == NEVER
                ):
                    self._caught_up(recovery)

        tasks = list(dict.fromkeys(recovery.task for recovery in begun))
        self.catch_ups.follow(tasks, ready, caught_up, lambda: self._note_caught_up(begun))

    def _caught_up(self, recovery: PartitionRecovery) -> None:
        """End the recovery; where the group was lost again meanwhile, its last recovery says how it ended."""
        last = self._last[self.cluster.group_of(recovery.partition)]
        if self.open.get(last.partition) is last:
            last.note(*self.state.plane.replayed(last.partition))
        recovery.restored_ns = max(recovery.restored_ns, last.restored_ns)
        recovery.replayed_ns = max(recovery.replayed_ns, last.replayed_ns)
        recovery.caught_up_ns = self.clock.now_ns()
        self._open_failures -= Counter([recovery.failed_ns])
        if self.open.get(recovery.partition) is recovery:
            self._close(recovery.partition)

    def _close(self, partition: int) -> None:
        """Close an open recovery of the partition with the last counts of the plane."""
        recovery = self.open.pop(partition, None)
        if recovery:
            recovery.note(*self.state.plane.stop_counting_replays(partition))

    def _note_caught_up(self, begun: list[PartitionRecovery]) -> None:
        """Write the end into the rows of the failures that have nothing left open or lost again."""
        for failure in sorted({recovery.failure for recovery in begun}):
            own = [recovery for recovery in self.all if recovery.failure == failure]
            waits = any(loss.failure == failure for loss in (*self.orphans, *self.starting))
            if not waits and all(recovery.caught_up_ns != NEVER for recovery in own):
                self.recorder.revise("failures", failure, caught_up_ns=self.clock.now_ns())

    def leaves(self, partition: int) -> None:
        """Note that a partition has caught up: its state leaves its task, where all that came before was served."""
        if partition in self.open:
            for recovery in self.all:
                if recovery.partition == partition and recovery.caught_up_ns == NEVER:
                    self._caught_up(recovery)

    def lost_again(self, partition: int) -> None:
        """Close the recovery of a partition that is lost before it has caught up; its row stays as far as it came."""
        self._taken_back.pop(partition, None)
        self._close(partition)

    def rows(self) -> list[tuple[int, ...]]:
        """Return the rows of all recoveries, as far as they have come."""
        for partition, recovery in self.open.items():
            recovery.note(*self.state.plane.replayed(partition))
        return [
            (
                recovery.host,
                self.cluster.partition_operator[recovery.partition],
                self.cluster.partition_index[recovery.partition],
                self.cluster.task_host[recovery.task],
                recovery.failed_ns,
                recovery.detected_ns,
                recovery.allocated_ns,
                recovery.started_ns,
                recovery.restored_ns,
                NEVER if recovery.pending and recovery.caught_up_ns == NEVER else recovery.replayed_ns,
                recovery.caught_up_ns,
                recovery.replayed,
                recovery.bytes,
            )
            for recovery in self.all
        ]
