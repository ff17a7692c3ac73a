"""The steps by which lost partitions come back; what differs between methods is asked of one (`sim.recovery`)."""

from __future__ import annotations

from collections.abc import Callable

from models.records.decisions import Action, Verdict
from sim.clock import MESSAGE, channel
from sim.control.cluster import LostPartition
from sim.control.host_choice import Choice, HostChoice
from sim.control.instances import Outages
from sim.control.local_copies import LocalCopies
from sim.control.recoveries import PartitionRecovery, Recoveries
from sim.control.replicas import Replicas
from sim.control.run_state import StateOn
from sim.control.shared_reads import SharedReads
from sim.data_plane import InstancePlane
from sim.migration.moves import Migrations
from sim.plane_values import REMOTE
from sim.recovery import method_of

_NS = 1_000_000_000


class Recovery:
    """Brings the partitions of dead hosts back elsewhere."""

    def __init__(
        self,
        state: StateOn[InstancePlane],
        outages: Outages,
        replicas: Replicas,
        migrations: Migrations,
        recoveries: Recoveries,
        hosts: HostChoice,
    ) -> None:
        self.state, self.cluster, self.plan = state, state.cluster, state.plan
        self.clock, self.recorder = state.clock, state.recorder
        self.outages, self.replicas, self.migrations, self.recoveries = outages, replicas, migrations, recoveries
        self.method = method_of(state.plan.scenario)(state, hosts, replicas)
        self.copies = LocalCopies(state)
        shares = state.plan.scenario.fault_tolerance.shares_restores
        self.reads = SharedReads(state) if shares else None  # else the store is read as the plane says
        self.next_task: Callable[[int], int | None] = lambda _: None  # that a lost key group was to come to
        self.begins_again: Callable[[int], None] = lambda _: None  # called with a partition that has got a task
        self._prepared: set[int] = set()  # partitions that have their state, and are not live yet
        self.opened: list[Callable[[int], None]] = []  # called with a host where a partition is live again
        # Called with a live source: before it sends what it keeps, and when it may emit; set by who reads for sources.
        self.reads_again: Callable[[int], None] = lambda partition: None
        self.reads_on: Callable[[int], None] = lambda partition: None

    def take_orphans(self) -> list[LostPartition]:
        """Return, and forget, the partitions for which no host was alive, or had a free slot, and one is now."""
        can = [loss for loss in self.recoveries.orphans if self.method.host_for(loss.partition).host is not None]
        self.recoveries.orphans = [loss for loss in self.recoveries.orphans if loss not in can]
        return can

    def assign(self, loss: LostPartition) -> PartitionRecovery | None:
        """Give the partition to a live host, which holds what comes for it; None where no host can take it."""
        partition, task = loss.partition, self.next_task(loss.partition)
        target, why = self._host_for(partition)
        if target is None:
            self._refuse(loss, why)
            return None
        self.state.decide(
            Action.RESTORE, self.cluster.partition_name(partition), why, target=self.plan.host_names[target]
        )
        # From here on upstream sends to this task, which holds the tuples until the restore.
        if task is None or not self.cluster.task_alive[task]:  # one that is dead, which nobody knows, starts again
            task = self.method.task_for(partition, target)
        self.begins_again(partition)
        self.cluster.partition_task[partition] = task
        self.state.plane.assign(partition, task)
        return self.recoveries.begin(loss)

    def _host_for(self, partition: int) -> Choice:
        """Return the host that takes a lost partition: that of the task that it was to come to, or by the method."""
        task = self.next_task(partition)
        if task is None:
            return self.method.host_for(partition)
        return Choice(self.cluster.task_host[task], "it was to come to its task there")

    def _refuse(self, loss: LostPartition, why: str) -> None:
        """Have the partition wait for a host that can take it."""
        name = self.cluster.partition_name(loss.partition)
        self.state.decide(Action.RESTORE, name, why, verdict=Verdict.REFUSED)
        self.recoveries.orphans.append(loss._replace(allocated_ns=None))

    def allocate(self, loss: LostPartition) -> LostPartition | None:
        """Return the loss with the instant at which it has a host; None where no host can take it."""
        target, why = self._host_for(loss.partition)
        if target is None:
            self._refuse(loss, why)
            return None
        return loss._replace(allocated_ns=self.clock.now_ns())

    def ask_upstream(self, partition: int) -> None:
        """Have live partitions send what they keep for a lost one, as the method says.

        One that has a state already lacks a part of it only.
        """
        if self.method.prepare(partition):
            self._prepared.add(partition)
        for sender in self.method.replayers(partition):
            self._replay(sender, partition)

    def restore(self, recovery: PartitionRecovery) -> None:
        """Fetch the checkpoint where it is not on the host already, then install it; nothing where it is lost again."""
        if self.recoveries.open.get(recovery.partition) is not recovery:
            return
        now, host = self.clock.now_ns(), self.cluster.task_host[recovery.task]
        holder, size = self.method.saved_state(recovery.partition)
        recovery.bytes += size
        if holder is None or holder == host:
            self._install(recovery, size)
            return
        rank = channel(MESSAGE, recovery.task, recovery.task)
        has_copy = self.copies.has(recovery.partition, host)
        if not has_copy:
            self.recorder.restore(now, size)
        if self.reads is not None and (has_copy or holder == REMOTE):
            place = host if has_copy else REMOTE
            self.reads.read(recovery.task, place, size, lambda: self._fetched(recovery, size))
            return
        if has_copy:
            at_ns = self.copies.read_ns(host, size)
        elif holder == REMOTE:
            at_ns = self.state.plane.fetch_ns(size)
        else:
            at_ns = now + self.plan.transfer_ns(holder, host, size)
        self.clock.at(at_ns, rank, lambda _: self._fetched(recovery, size))

    def task_died(self, task: int) -> None:
        """End what a task reads that is dead."""
        if self.reads is not None:
            self.reads.died(task)

    def _fetched(self, recovery: PartitionRecovery, size: int) -> None:
        if self.recoveries.open.get(recovery.partition) is recovery:
            self._install(recovery, size)

    def _install(self, recovery: PartitionRecovery, size: int) -> None:
        operator = self.plan.operators[self.cluster.partition_operator[recovery.partition]]
        rate = operator.description.deserialise_bytes_per_s
        if rate is None or size == 0 or operator.service_ns is None:
            self._installed(recovery)
            return
        work_ns = max(1, round(size * _NS / rate))
        if self.method.restores is None:
            self.state.work(recovery.task, work_ns, lambda: self._installed(recovery))
        else:
            self.method.restores.begin(self.cluster.task_host[recovery.task], work_ns, lambda: self._read(recovery))

    def _read(self, recovery: PartitionRecovery) -> None:
        if self.recoveries.open.get(recovery.partition) is recovery:
            self._installed(recovery)

    def _installed(self, recovery: PartitionRecovery) -> None:
        """Make the partition live: it sends what it still keeps, then goes on with what was held."""
        self.recoveries.restored(recovery)
        if recovery.partition in self._prepared:
            self.reopen(recovery.partition)
        else:
            self.install(recovery.partition)
            self.open(recovery.partition)
            self.method.opened(recovery.partition)
            self.go_on(recovery.partition)
        self.migrations.coordinator.begin_what_can()

    def reopen(self, partition: int) -> None:
        """Make a partition live that has its state, and sends only what receivers may lack; then let it go on."""
        self._prepared.discard(partition)
        self.open(partition, resend=False)
        for receiver in self.state.plane.receivers(partition):
            if self.method.lacks(partition, receiver):
                self._replay(partition, receiver, missing=self.cluster.partition_live[receiver])
        self.method.opened(partition)
        self.go_on(partition)

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
        self.outages.check((partition,))
        plane.open(partition)
        for told in self.opened:
            told(self.cluster.host_of(partition))
        self.reads_again(partition)
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
        if operator.postpone_ns is not None:  # what is due is older than what follows from tuples that were held
            plane.resume(partition)
        plane.release(partition)
        if operator.is_source or operator.timer_ns:
            plane.resume(partition)
            self.reads_on(partition)
        self.recoveries.catch_ups.notice_empty(self.cluster.partition_task[partition])

    def _keep_for_replicas(self, partition: int) -> None:
        """Keep the outputs in a checkpoint for a replica that came later, as for its owner."""
        plane = self.state.plane
        receivers = plane.receivers(partition)
        for receiver in receivers:
            replica = self.replicas.beside(receiver)
            if replica is not None and replica not in receivers:
                plane.copy_kept(partition, receiver, replica)

    def _replay(self, sender: int, receiver: int, missing: bool = False) -> None:
        """Send what is kept once more, or what is `missing` at a receiver that has its state."""
        if not self.state.view.task_alive(self.cluster.partition_task[receiver]):
            return  # it asks for it when the receiver has been assigned
        missing = missing or receiver in self._prepared
        rows, size = self.state.plane.replay(sender, receiver, missing=missing)
        recovery = self.recoveries.open.get(receiver)
        if recovery:
            recovery.replayed += rows
            recovery.bytes += size
