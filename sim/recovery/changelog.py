"""Recovery from changelogs, with standbys, as Kafka Streams does it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sim.control.host_choice import Choice, HostChoice
from sim.control.replicas import Replicas
from sim.control.restores import Restores
from sim.control.run_state import StateOn
from sim.control.standbys import Standbys
from sim.data_plane import ParcelPlane
from sim.plane_values import REMOTE, Parcel
from sim.recovery.checkpoint import RestoreFromCheckpoint
from sim.recovery.method import SavedState


@dataclass(eq=False)
class Closed:
    """The state of a partition whose task was ended on purpose, all of it committed.

    `host` has it on its disk, unless that is gone; `receivers`: partition that gets its outputs -> its task then.
    `sent`: whether all outputs have left the host, or still do.
    """

    parcel: Parcel
    host: int
    on_disk: bool
    receivers: dict[int, int]
    sent: bool


class RestoreFromChangelog(RestoreFromCheckpoint):
    """Restore each lost partition from its changelog, or go on with a standby; all others go on meanwhile.

    Lost: the partitions of the host. Taken by: the host whose standby misses least, else the one with the fewest key
    groups, but none that had only sources and sinks at the start, the topics; there by the task that has the fewest.
    State: what was committed, which is read beside the tasks of the host: nothing where a standby has it. Replayed: by
    all live partitions upstream, what they keep since then. Dropped downstream: outputs that come a second time.
    Source: Kafka Streams, `HighAvailabilityTaskAssignor`, `StoreChangelogReader`.
    """

    state: StateOn[ParcelPlane]

    def __init__(self, state: StateOn[ParcelPlane], hosts: HostChoice, replicas: Replicas) -> None:
        super().__init__(state, hosts, replicas)
        operators, cluster = state.plan.operators, state.cluster
        inner = [not (operators[one].is_source or operators[one].is_sink) for one in cluster.task_operator]
        topics = set(cluster.task_host) - {cluster.task_host[task] for task, is_inner in enumerate(inner) if is_inner}
        self.workers = [host for host in range(len(state.plan.host_names)) if host not in topics]
        self.restores = restores = Restores(state.clock, [group.cores for group in state.plan.host_groups])
        self.standbys = Standbys(state, restores, self.workers)
        self.closed: dict[int, Closed] = {}  # partitions that are live nowhere
        self.bound: dict[int, int] = {}  # partition -> host that is to take it

    def start(self) -> None:
        """Make the standbys of the start."""
        self.standbys.start()

    def settled(self) -> None:
        """Make standbys that are missing: owners and hosts are known again."""
        self.standbys.renew()

    def host_died(self, host: int) -> None:
        """End what is restored there, which dies with the host; what was to be sent from there may not have been."""
        if self.restores is not None:
            self.restores.host_died(host)
        for one in self.closed.values():
            one.sent = one.sent and one.host != host

    def host_lost(self, host: int) -> None:
        """Forget the standbys of a host whose failure is detected."""
        self.standbys.host_lost(host)

    # -- tasks that end on purpose

    def close(self, task: int, on_disk: bool, sent: bool) -> None:
        """Keep the states of the live partitions at a task that is about to end, and to be killed at once."""
        cluster, plane, operators = self.cluster, self.state.plane, self.state.plan.operators
        operator = operators[cluster.task_operator[task]]
        if operator.is_source or operator.is_sink:  # they are topics: what they have had is outside
            return
        for one in cluster.partitions_at(task):
            if cluster.partition_live[one]:
                receivers = {receiver: cluster.partition_task[receiver] for receiver in plane.receivers(one)}
                self.closed[one] = Closed(plane.snapshot([one]), cluster.task_host[task], on_disk, receivers, sent)

    def stops(self, host: int, on_disk: bool) -> None:
        """Close all that a host has, which is about to stop."""
        for task in self.cluster.host_tasks[host]:
            self.close(task, on_disk, sent=False)
        kept = [one for one, closed in self.closed.items() if closed.host == host] if on_disk else []
        self.standbys.stops(host, kept, on_disk)

    def resumed(self, host: int, partitions: Iterable[int]) -> None:
        """Bind partitions to the host that had them."""
        self.bound.update(dict.fromkeys(partitions, host))
        self.standbys.resumed(host)

    def came(self, host: int) -> None:
        """Find the states that are on the disk of a host."""
        self.standbys.came(host)

    def prepare(self, partition: int) -> bool:
        """Give a partition the state with which it was closed; return whether it has that."""
        closed, task = self.closed.get(partition), self.cluster.partition_task[partition]
        if closed is not None and self.cluster.task_alive[task]:
            self.state.plane.put(closed.parcel.number, task)
        return closed is not None

    def lacks(self, partition: int, receiver: int) -> bool:
        """Return whether outputs may not have left, or the receiver has gone on elsewhere since."""
        closed = self.closed[partition]
        return not closed.sent or closed.receivers.get(receiver) != self.cluster.partition_task[receiver]

    def opened(self, partition: int) -> None:
        """Forget how the partition was closed; where that was its store is as good as a standby."""
        self.bound.pop(partition, None)
        closed = self.closed.pop(partition, None)
        if closed is not None:
            self.state.plane.discard(closed.parcel.number)
            if closed.on_disk and self.cluster.host_alive[closed.host]:
                self.standbys.keep(partition, closed.host)

    # -- where what is lost goes on, and with which state

    def host_for(self, partition: int) -> Choice:
        """Return the host that is to take it, that of a standby, or the least used one."""
        bound = self.bound.get(partition)
        if bound is not None and self.can_take(bound, partition):
            return Choice(bound, "it is to have it")
        for one in self.standbys.of(partition):
            if self.can_take(one.host, partition):
                return Choice(one.host, "it has a standby" if one.complete else "it has begun to make a standby")
        operator = self.cluster.partition_operator[partition]
        described = self.state.plan.operators[operator]
        can = set(self.workers) if not (described.is_source or described.is_sink) else None
        has_room = self.hosts.slots.has_room
        host = self.hosts.least_used(lambda one: has_room(operator, one) and (can is None or one in can))
        if host is None:
            return Choice(None, "no host that may have it is alive and has room")
        return Choice(host, "it has the fewest key groups and tasks of the live hosts")

    def task_for(self, partition: int, host: int) -> int:
        """Return the task of the operator there with the fewest partitions; a new one for each core that has none."""
        cluster, operator = self.cluster, self.cluster.partition_operator[partition]
        tasks = [one for one in cluster.host_tasks[host] if cluster.task_operator[one] == operator]
        at = {task: len(cluster.partitions_at(task)) for task in tasks}
        if not tasks or (min(at.values()) and len(tasks) < self.state.plan.host_groups[host].cores):
            return self.replicas.instances.new_task(operator, host)
        return min(tasks, key=lambda one: (at[one], one))

    def saved_state(self, partition: int) -> SavedState:
        """Return what is to be read of the changelog: what no standby on the host has read."""
        closed, host = self.closed.get(partition), self.cluster.host_of(partition)
        missing = self.standbys.take(partition, host)
        if closed is not None and closed.on_disk and closed.host == host:
            missing = 0.0
        size = round(self.standbys.size(partition) * missing)
        stored = self.state.plane.checkpoint_host(partition) is not None
        return SavedState(REMOTE if size and stored else None, size)
