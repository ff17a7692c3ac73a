"""The view that control has of the cluster: a host is trusted, with all it had, until its failure is detected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from sim.control.cluster import Cluster


class LostPartition(NamedTuple):
    """A partition that was on a host when it failed."""

    partition: int
    host: int
    failed_ns: int
    failure: int  # row in the table of failures


@dataclass
class UndetectedFailure:
    """The contents of a host that is dead while control does not know it yet."""

    tasks: set[int] = field(default_factory=set)
    live: set[int] = field(default_factory=set)  # partitions that were live there
    lost: list[int] = field(default_factory=list)  # all partitions that were there, or were sent there since
    held: dict[int, int] = field(default_factory=dict)  # partition -> host, of the checkpoints that it held


class ClusterView:
    """Hosts, tasks, partitions and checkpoint hosts as control sees them; the truth is in `sim.control.cluster`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._undetected: dict[int, UndetectedFailure] = {}  # by host
        self.returning: set[int] = set()  # hosts whose failure is detected because they come back

    def died(self, host: int, held: dict[int, int]) -> list[int]:
        """Note what the host, about to be lost, has: tasks, partitions, and the checkpoints that it held.

        Returns its partitions, among which are from now on those that are sent there although it is dead.
        """
        cluster = self._cluster
        gone = self._undetected.setdefault(host, UndetectedFailure())
        partitions = cluster.partitions_on(host)
        gone.tasks.update(cluster.host_tasks[host])
        gone.live.update(partition for partition in partitions if cluster.partition_live[partition])
        gone.lost += partitions
        gone.held |= held
        return gone.lost

    def detected(self, host: int) -> None:
        """Suspect the host: control knows of its failure."""
        self._cluster.trusted[host] = False
        self._undetected.pop(host, None)

    def back(self, host: int) -> None:
        """Trust the host: control knows that it is there."""
        self.returning.discard(host)
        self._cluster.trusted[host] = True

    def host_alive(self, host: int) -> bool:
        """Return whether the host is trusted: in use, and not suspected."""
        return self._cluster.trusted[host]

    def task_alive(self, task: int) -> bool:
        """Return whether the task is alive, as far as control knows."""
        return self._cluster.task_alive[task] or any(task in gone.tasks for gone in self._undetected.values())

    def tasks_on(self, host: int) -> list[int]:
        """Return the tasks on the host as far as control knows, rising."""
        gone = self._undetected.get(host)
        return sorted({*self._cluster.host_tasks[host], *(gone.tasks if gone else ())})

    def partitions_on(self, host: int) -> list[int]:
        """Return the partitions on the host as far as control knows, rising."""
        gone = self._undetected.get(host)
        return sorted({*self._cluster.partitions_on(host), *(gone.lost if gone else ())})

    def partition_live(self, partition: int) -> bool:
        """Return whether the partition is live, as far as control knows."""
        return self._cluster.partition_live[partition] or any(
            partition in gone.live for gone in self._undetected.values()
        )

    def checkpoint_host(self, partition: int, truth: int | None) -> int | None:
        """Return who holds the newest checkpoint of the partition, as far as control knows."""
        if truth is not None:
            return truth
        return next((gone.held[partition] for gone in self._undetected.values() if partition in gone.held), None)
