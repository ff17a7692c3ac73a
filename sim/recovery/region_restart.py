"""Recovery of failover regions from their checkpoints, as Flink does it."""

from __future__ import annotations

from collections.abc import Sequence

from models.topology import layout
from models.topology.weak_points import failover_regions
from sim.control.cluster import LostPartition, RunPlan
from sim.control.host_choice import Choice, HostChoice
from sim.control.replicas import Replicas
from sim.control.run_state import StateOn
from sim.data_plane import InstancePlane
from sim.recovery.checkpoint import RestoreFromCheckpoint


class RegionRestart(RestoreFromCheckpoint):
    """Roll the failover region of what is lost back: kill its tasks, and start as many again.

    Lost: every partition that is connected to a lost one. Taken by: a new task for each that was there, on the same
    host if that has a slot, else on the one with the fewest key groups; none starts before all have a slot. State: the
    checkpoint. Replayed: what checkpoints and sources keep. Dropped downstream: outputs that come a second time.
    Source: Flink's documentation, "Task Failure Recovery".
    """

    def __init__(self, state: StateOn[InstancePlane], hosts: HostChoice, replicas: Replicas) -> None:
        super().__init__(state, hosts, replicas)
        self._regions = _regions(state.plan)
        self._hosts: dict[int, int] = {}  # task that is gone -> host with a slot for its successor
        self._successors: dict[int, int] = {}  # task that is gone -> the new one

    def rolled_back(self, losses: Sequence[LostPartition]) -> Sequence[int]:
        """Return the live tasks in the regions of what is lost."""
        down = {self.region_of(loss.partition) for loss in losses}
        alive, at = self.cluster.task_alive, self.cluster.partition_task
        found = {at[one] for one, region in enumerate(self._regions) if region in down}
        return sorted(task for task in found if task >= 0 and alive[task])

    def region_of(self, partition: int) -> int:
        """Return the number of the region of a partition."""
        return self._regions[partition]

    def partitions_in(self, region: int) -> list[int]:
        """Return the partitions of a region."""
        return [one for one, other in enumerate(self._regions) if other == region]

    def host_for(self, partition: int) -> Choice:
        """Return the host with a slot for the successor of the partition's task, which is the same once there is one.

        One that was found and has died since is not asked for again.
        """
        task = self.cluster.partition_task[partition]
        host = self._hosts.get(task)
        if host is not None and self.state.view.host_alive(host):
            return Choice(host, "its task has a slot there")
        self._hosts.pop(task, None)
        operator, own = self.cluster.partition_operator[partition], self.cluster.task_host[task]
        if self.state.view.host_alive(own) and self._has_slot(operator, own):
            choice = Choice(own, "it was there before the region was rolled back")
        else:
            host = self.hosts.least_used(lambda one: self._has_slot(operator, one))
            free = "it has a free slot, and the fewest key groups and tasks" if host is not None else "no slot is free"
            choice = Choice(host, free)
        if choice.host is not None:
            self._hosts[task] = choice.host
        return choice

    def task_for(self, partition: int, host: int) -> int:
        """Return the successor of the partition's task; a new one for the first of its partitions."""
        task = self.cluster.partition_task[partition]
        if task not in self._successors:
            operator = self.cluster.partition_operator[partition]
            self._successors[task] = self.replicas.instances.new_task(operator, host)
        return self._successors[task]

    def hosts_of(self, losses: Sequence[LostPartition]) -> list[int]:
        """Return the hosts with slots for the tasks of lost partitions."""
        tasks = {self.cluster.partition_task[loss.partition] for loss in losses}
        return [self._hosts[task] for task in sorted(tasks) if task in self._hosts]

    def release(self, losses: Sequence[LostPartition]) -> None:
        """Give back the slots of the tasks of lost partitions, in which nothing was started."""
        for task in {self.cluster.partition_task[loss.partition] for loss in losses}:
            self._hosts.pop(task, None)

    def _has_slot(self, operator: int, host: int) -> bool:
        """Return whether a task of the operator has a slot on a host beside those that are to start there."""
        waiting = [
            self.cluster.task_operator[task]
            for task, at in self._hosts.items()
            if at == host and task not in self._successors
        ]
        return self.hosts.slots.free(operator, host, waiting) > 0


def _regions(plan: RunPlan) -> list[int]:
    """Return the number of the failover region of each partition (n_partitions,)."""
    numbers = {task: number for number, tasks in enumerate(failover_regions(plan.scenario)) for task in tasks}
    return [
        numbers[layout.task_name(operator.name, operator.description.task_of(index))]
        for operator in plan.operators
        for index in range(operator.description.groups)
    ]
