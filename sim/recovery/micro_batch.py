"""Recovery of a job that runs in micro-batches, as Spark does it."""

from __future__ import annotations

from collections.abc import Sequence

from sim.control.cluster import LostPartition
from sim.control.host_choice import Choice, HostChoice
from sim.control.replicas import Replicas
from sim.control.run_state import StateOn
from sim.data_plane import InstancePlane
from sim.recovery.checkpoint import RestoreFromCheckpoint


class MicroBatch(RestoreFromCheckpoint):
    """Repeat what an executor has lost inside its batch; with the driver the whole query is lost.

    Lost: the partitions of the host; those of all hosts where the driver dies. Taken by: a new task for each that was
    there, on the same host if that lives, else on the one with the fewest key groups. State: the last version that was
    stored. Replayed: what upstream and the sources have kept since then. Dropped downstream: outputs that come a second
    time. Source: Spark, `MicroBatchExecution`.
    """

    def __init__(self, state: StateOn[InstancePlane], hosts: HostChoice, replicas: Replicas) -> None:
        super().__init__(state, hosts, replicas)
        self.driver_is_down = False
        self._absent: set[int] = set()  # hosts that were dead when the driver started: it has no executor there
        self._successors: dict[int, int] = {}  # task that is gone -> the new one

    def rolled_back(self, losses: Sequence[LostPartition]) -> Sequence[int]:
        """Return all tasks that are alive if the driver is dead: executors end with it."""
        return [task for task, alive in enumerate(self.cluster.task_alive) if alive and self.driver_is_down]

    def host_for(self, partition: int) -> Choice:
        """Return the host where the partition's task goes on."""
        successor = self._successor(partition)
        if successor is not None:
            return Choice(self.cluster.task_host[successor], "its task goes on there")
        self._absent = {host for host in self._absent if not self.cluster.host_alive[host]}
        own = self.where_it_was(partition)
        if own is not None and own.host not in self._absent:
            return own
        absent = "it has no executor for the driver"
        return self.hosts.for_partition(partition, avoided=dict.fromkeys(self._absent, absent))

    def driver_starts(self) -> None:
        """Note where the driver gets executors: on hosts that live, whatever its predecessor knew of them."""
        self.driver_is_down = False
        self._absent = {host for host, alive in enumerate(self.cluster.host_alive) if not alive}

    def task_for(self, partition: int, host: int) -> int:
        """Return the successor of the partition's task; a new one for the first of its partitions."""
        successor = self._successor(partition)
        if successor is None:
            successor = self.replicas.instances.new_task(self.cluster.partition_operator[partition], host)
            self._successors[self.cluster.partition_task[partition]] = successor
        return successor

    def _successor(self, partition: int) -> int | None:
        successor = self._successors.get(self.cluster.partition_task[partition])
        return successor if successor is not None and self.state.view.task_alive(successor) else None
