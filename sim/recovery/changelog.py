"""Recovery from changelogs, with standbys, as Kafka Streams does it."""

from __future__ import annotations

from sim.control.host_choice import Choice, HostChoice
from sim.control.replicas import Replicas
from sim.control.restores import Restores
from sim.control.run_state import StateOn
from sim.control.standbys import Standbys
from sim.data_plane import REMOTE, InstancePlane
from sim.recovery.checkpoint import RestoreFromCheckpoint
from sim.recovery.method import SavedState


class RestoreFromChangelog(RestoreFromCheckpoint):
    """Restore each lost partition from its changelog, or go on with a standby; all others go on meanwhile.

    Lost: the partitions of the host. Taken by: the host whose standby misses least, else the one with the fewest key
    groups, but none that had only sources and sinks at the start, the topics; there by the task that has the fewest.
    State: what was committed, which is read beside the tasks of the host: nothing where a standby has it. Replayed: by
    all live partitions upstream, what they keep since then. Dropped downstream: outputs that come a second time.
    Source: Kafka Streams, `HighAvailabilityTaskAssignor`, `StoreChangelogReader`.
    """

    def __init__(self, state: StateOn[InstancePlane], hosts: HostChoice, replicas: Replicas) -> None:
        super().__init__(state, hosts, replicas)
        operators, cluster = state.plan.operators, state.cluster
        inner = [not (operators[one].is_source or operators[one].is_sink) for one in cluster.task_operator]
        topics = set(cluster.task_host) - {cluster.task_host[task] for task, is_inner in enumerate(inner) if is_inner}
        self._workers = [host for host in range(len(state.plan.host_names)) if host not in topics]
        self.restores = restores = Restores(state)
        self.standbys = Standbys(state, restores, self._workers)

    def start(self) -> None:
        """Make the standbys of the start."""
        self.standbys.start()

    def settled(self) -> None:
        """Make standbys that are missing: owners and hosts are known again."""
        self.standbys.renew()

    def host_died(self, host: int) -> None:
        """End what is restored there, which dies with the host."""
        if self.restores is not None:
            self.restores.host_died(host)

    def host_lost(self, host: int) -> None:
        """Forget the standbys of a host whose failure is detected."""
        self.standbys.host_lost(host)

    def host_for(self, partition: int) -> Choice:
        """Return the host of a standby, or the least used one."""
        for one in self.standbys.of(partition):
            if self.can_take(one.host, partition):
                return Choice(one.host, "it has a standby" if one.complete else "it has begun to make a standby")
        operator = self.cluster.partition_operator[partition]
        described = self.state.plan.operators[operator]
        can = set(self._workers) if not (described.is_source or described.is_sink) else None
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
        plane = self.state.plane
        size = round(self.standbys.size(partition) * self.standbys.take(partition, self.cluster.host_of(partition)))
        return SavedState(REMOTE if size and plane.checkpoint_host(partition) is not None else None, size)
