"""Recovery of partitions: restore from the checkpoint, replay from upstream, catch up.

A partition has caught up when its task has (`sim/control/catch_up.py`), and a failure when the last task downstream of
the recovered partitions has. Replays to a partition after that belong to the recovery of the upstream partition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from models.records.decisions import Action, Verdict
from models.records.tables import NEVER
from sim.clock import MESSAGE, channel
from sim.control.catch_up import CatchUps
from sim.control.cluster import NOWHERE, LostPartition
from sim.control.instances import Outages
from sim.control.replicas import Replicas
from sim.control.run_state import StateOn
from sim.control.slots import Slots
from sim.data_plane import REMOTE, InstancePlane
from sim.migration.moves import Migrations

_NS = 1_000_000_000


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


class Recovery:
    """Brings the partitions of dead hosts back elsewhere."""

    def __init__(
        self,
        state: StateOn[InstancePlane],
        outages: Outages,
        catch_ups: CatchUps,
        replicas: Replicas,
        migrations: Migrations,
        slots: Slots,
    ) -> None:
        self.state, self.cluster, self.plan = state, state.cluster, state.plan
        self.clock, self.recorder = state.clock, state.recorder
        self.outages, self.catch_ups, self.replicas, self.migrations = outages, catch_ups, replicas, migrations
        self.slots = slots
        self.recoveries: list[PartitionRecovery] = []
        self._open: dict[int, PartitionRecovery] = {}  # partition -> recovery that is not over
        self._taken_back: dict[int, PartitionRecovery] = {}  # partition -> recovery by a run that has its state
        self._orphans: list[LostPartition] = []  # while no host is alive
        self.starting: list[LostPartition] = []  # slots are being allocated to them, or their tasks start

    def take_over(self, loss: LostPartition, replica: int) -> PartitionRecovery:
        """Return the recovery by another instance: there is nothing to restore, unless that one is dead itself."""
        now = self.clock.now_ns()
        recovery = PartitionRecovery.of(loss, replica, self.cluster.partition_task[replica], now)
        recovery.restored_ns = now if self.cluster.partition_live[replica] else NEVER
        self.recoveries.append(recovery)
        self._open[replica] = recovery
        return recovery

    def taken_back(self, loss: LostPartition) -> PartitionRecovery:
        """Return the recovery of a partition that a run of a protocol brings back from its own copy."""
        task = self.cluster.partition_task[loss.partition]
        recovery = PartitionRecovery.of(loss, loss.partition, task, self.clock.now_ns())
        self.recoveries.append(recovery)
        self._taken_back[loss.partition] = recovery
        return recovery

    def came_back(self, partition: int) -> None:
        """Note that such a partition has its state."""
        recovery = self._taken_back.pop(partition, None)
        if recovery:
            recovery.restored_ns = recovery.replayed_ns = self.clock.now_ns()

    @property
    def busy(self) -> bool:
        """Return True if a recovery is not over."""
        return bool(self._open or self.catch_ups or self._orphans or self.starting)

    def is_recovering(self, partition: int) -> bool:
        """Return whether the partition is assigned to a task and not caught up with."""
        return partition in self._open

    def take_orphans(self) -> list[LostPartition]:
        """Return, and forget, the partitions for which no host was alive, or had a free slot, and one is now."""
        can = [loss for loss in self._orphans if self._target(loss.partition)[0] is not None]
        self._orphans = [loss for loss in self._orphans if loss not in can]
        return can

    def assign(self, loss: LostPartition) -> PartitionRecovery | None:
        """Give the partition to a live host, which holds what comes for it; None where no host can take it."""
        partition = loss.partition
        target, why = self._target(partition)
        if target is None:
            self._refuse(loss, why)
            return None
        self.state.decide(
            Action.RESTORE, self.cluster.partition_name(partition), why, target=self.plan.host_names[target]
        )
        # From here on upstream sends to this task, which holds the tuples until the restore.
        task = self.migrations.instances.task_on(self.cluster.partition_operator[partition], target)
        self.cluster.partition_task[partition] = task
        self.state.plane.assign(partition, task)
        recovery = PartitionRecovery.of(loss, partition, task, self.clock.now_ns())
        self.recoveries.append(recovery)
        self._open[partition] = recovery
        return recovery

    def _refuse(self, loss: LostPartition, why: str) -> None:
        """Have the partition wait for a host that can take it."""
        name = self.cluster.partition_name(loss.partition)
        self.state.decide(Action.RESTORE, name, why, verdict=Verdict.REFUSED)
        self._orphans.append(loss._replace(allocated_ns=None))

    def allocate(self, loss: LostPartition) -> LostPartition | None:
        """Return the loss with the instant at which it has a host; None where no host can take it."""
        target, why = self._target(loss.partition)
        if target is None:
            self._refuse(loss, why)
            return None
        return loss._replace(allocated_ns=self.clock.now_ns())

    def watch(self, begun: list[PartitionRecovery]) -> None:
        """Note when the tasks of these recoveries have caught up, and when the last task downstream of them has."""

        def ready(task: int) -> bool:
            # A group that moves here brings tuples of the outage with it.
            if self.migrations.is_taking(task) or any(one.task == task for one in self._taken_back.values()):
                return False
            recoveries = [recovery for recovery in self._open.values() if recovery.task == task]
            return all(
                recovery.restored_ns != NEVER and not self.state.plane.replayed(recovery.partition)[0]
                for recovery in recoveries
            )

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
        group = self.cluster.group_of(recovery.partition)
        last = next(other for other in reversed(self.recoveries) if self.cluster.group_of(other.partition) == group)
        if self._open.get(last.partition) is last:
            last.note(*self.state.plane.replayed(last.partition))
        recovery.restored_ns = max(recovery.restored_ns, last.restored_ns)
        recovery.replayed_ns = max(recovery.replayed_ns, last.replayed_ns)
        recovery.caught_up_ns = self.clock.now_ns()
        if self._open.get(recovery.partition) is recovery:
            self._close(recovery.partition)

    def _close(self, partition: int) -> None:
        """Close an open recovery of the partition with the last counts of the plane."""
        recovery = self._open.pop(partition, None)
        if recovery:
            recovery.note(*self.state.plane.stop_counting_replays(partition))

    def _note_caught_up(self, begun: list[PartitionRecovery]) -> None:
        """Write the end into the rows of the failures that have nothing left open or lost again."""
        for failure in sorted({recovery.failure for recovery in begun}):
            own = [recovery for recovery in self.recoveries if recovery.failure == failure]
            waits = any(loss.failure == failure for loss in (*self._orphans, *self.starting))
            if not waits and all(recovery.caught_up_ns != NEVER for recovery in own):
                self.recorder.revise("failures", failure, caught_up_ns=self.clock.now_ns())

    def _target(self, partition: int) -> tuple[int | None, str]:
        # As far as control knows: a checkpoint on a host that is dead and trusted still counts.
        checkpoint_host = self.state.view.checkpoint_host(partition, self.state.plane.checkpoint_host(partition))
        operator, has_room = self.cluster.partition_operator[partition], self.slots.has_room
        full = ""
        if checkpoint_host is not None and checkpoint_host != REMOTE:
            if has_room(operator, checkpoint_host):
                return checkpoint_host, "it holds the checkpoint"
            full = f"{self.plan.host_names[checkpoint_host]}, which holds the checkpoint, has no free slot; "
        if self.plan.scenario.fault_tolerance.restart == "own-hosts":
            homes = [host for host in self.replicas.homes(partition) if self.state.view.host_alive(host)]
            if not homes:
                return None, "none of its own hosts is alive"
            homes = [host for host in homes if has_room(operator, host)]
            return (homes[0], "it is one of its own hosts") if homes else (None, "its own hosts have no free slot")
        least = self.least_used(lambda host: has_room(operator, host))
        if least is None:
            return None, "no live host has a free slot" if any(self.cluster.trusted) else "no host is alive"
        return least, f"{full}it has the fewest key groups and tasks of the live hosts"

    def least_used(self, has_room: Callable[[int], bool]) -> int | None:
        """Return the live host with the fewest key groups and tasks, as far as control knows; None without one.

        Hosts that have no room are left out.
        """
        partitions = [0] * len(self.cluster.trusted)
        for task in self.cluster.partition_task:
            if task != NOWHERE:
                partitions[self.cluster.task_host[task]] += 1
        trusted = enumerate(self.cluster.trusted)
        live = [host for host, alive in trusted if alive and has_room(host)]
        live = [host for host in live if self.cluster.accepts_work(host)] or live
        return min(live, key=lambda host: (partitions[host], host), default=None)

    def replay_upstream(self, recovery: PartitionRecovery) -> None:
        """Ask the live partitions upstream for what they keep; one that is down replays when it is live again."""
        self.ask_upstream(recovery.partition)

    def ask_upstream(self, partition: int) -> None:
        """Have the live partitions upstream send what they keep for a partition."""
        for sender in self.state.plane.senders(partition):
            if self.cluster.partition_live[sender] and not self.replicas.silent(sender):
                self._replay(sender, partition)

    def restore(self, recovery: PartitionRecovery) -> None:
        """Fetch the checkpoint where it is not on the host already, then install it; nothing where it is lost again."""
        if self._open.get(recovery.partition) is not recovery:
            return
        plane, now = self.state.plane, self.clock.now_ns()
        size = plane.checkpoint_bytes(recovery.partition)
        recovery.bytes += size
        holder, host = plane.checkpoint_host(recovery.partition), self.cluster.task_host[recovery.task]
        if holder in (None, host):
            self._install(recovery, size)
            return
        assert holder is not None
        self.recorder.restore(now, size)
        at_ns = plane.fetch_ns(size) if holder == REMOTE else now + self._transfer_ns(holder, host, size)
        rank = channel(MESSAGE, recovery.task, recovery.task)
        self.clock.at(at_ns, rank, lambda _: self._fetched(recovery, size))

    def _transfer_ns(self, holder: int, host: int, size: int) -> int:
        """Return the time in which a checkpoint comes from the host that holds it; it delays nothing else there."""
        limits = [self.plan.host_groups[one].network_bytes_per_s for one in (holder, host)]
        rate = min((limit for limit in limits if limit is not None), default=None)
        return self.plan.latency_ns + (0 if rate is None else round(size * _NS / rate))

    def _fetched(self, recovery: PartitionRecovery, size: int) -> None:
        if self._open.get(recovery.partition) is recovery:
            self._install(recovery, size)

    def _install(self, recovery: PartitionRecovery, size: int) -> None:
        operator = self.plan.operators[self.cluster.partition_operator[recovery.partition]]
        rate = operator.description.deserialise_bytes_per_s
        if rate is None or size == 0 or operator.service_ns is None:
            self._installed(recovery)
            return
        self.state.work(recovery.task, max(1, round(size * _NS / rate)), lambda: self._installed(recovery))

    def _installed(self, recovery: PartitionRecovery) -> None:
        """Make the partition live: it sends what it still keeps, then goes on with what was held."""
        recovery.restored_ns = self.clock.now_ns()
        self.install(recovery.partition)
        self.open(recovery.partition)
        self.go_on(recovery.partition)
        self.migrations.coordinator.begin_what_can()

    def install(self, partition: int) -> None:
        """Give a partition the state of its stored checkpoint, or an empty one; a decision says what is missing."""
        operator = self.plan.operators[self.cluster.partition_operator[partition]]
        if operator.is_source or operator.is_sink:  # what a sink delivered is outside
            return
        missing = self.state.plane.install(partition)
        if missing:
            why = f"no checkpoint has {missing} tuples that upstream let go"
            self.state.decide(Action.LOSE_STATE, self.cluster.partition_name(partition), why)

    def open(self, partition: int, resend: bool = True) -> None:
        """Make a partition with a state live, and send what it still keeps if `resend`; then call `go_on`."""
        plane = self.state.plane
        # Live in the cluster first: `outages.check` reads it there.
        self.cluster.set_live(partition, True)
        self.outages.check()
        plane.open(partition)
        for receiver in plane.receivers(partition):
            successor = self.cluster.successor_of(receiver)
            if successor != receiver:  # a key group that has moved since the checkpoint
                plane.copy_kept(partition, receiver, successor)
                plane.retire(receiver)
        self._keep_for_replicas(partition)
        # Replay before release: new outputs of tuples that were held must come behind those of the checkpoint.
        for receiver in plane.receivers(partition) if resend else ():
            self._replay(partition, receiver)

    def go_on(self, partition: int) -> None:
        """Let a live partition process what it held, and emit what waited at it."""
        plane, operator = self.state.plane, self.plan.operators[self.cluster.partition_operator[partition]]
        plane.release(partition)
        if operator.is_source or operator.timer_ns:
            plane.resume(partition)
        self.catch_ups.notice_empty(self.cluster.partition_task[partition])

    def _keep_for_replicas(self, partition: int) -> None:
        """Keep the outputs in a checkpoint for a replica that came later, as for its owner."""
        plane = self.state.plane
        receivers = plane.receivers(partition)
        for receiver in receivers:
            replica = self.replicas.beside(receiver)
            if replica is not None and replica not in receivers:
                plane.copy_kept(partition, receiver, replica)

    def _replay(self, sender: int, receiver: int) -> None:
        if not self.state.view.task_alive(self.cluster.partition_task[receiver]):
            return  # `replay_upstream` sends it when the receiver has been assigned
        rows, size = self.state.plane.replay(sender, receiver)
        recovery = self._open.get(receiver)
        if recovery:
            recovery.replayed += rows
            recovery.bytes += size

    def lost_again(self, partition: int) -> None:
        """Close the recovery of a partition that is lost before it has caught up; its row stays as far as it came."""
        self._taken_back.pop(partition, None)
        self._close(partition)

    def rows(self) -> list[tuple[int, ...]]:
        """Return the rows of all recoveries, as far as they have come."""
        for partition, recovery in self._open.items():
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
            for recovery in self.recoveries
        ]
