"""Instances of key groups: the owner, the routes of outputs, and the outputs that a new instance keeps for others."""

from __future__ import annotations

from collections.abc import Callable

from sim.control.outages import Outages
from sim.control.run_state import StateOn
from sim.data_plane import InstancePlane


class Instances:
    """Opens, owns and retires instances, in the cluster and on the plane, and keeps the tables of routes."""

    def __init__(self, state: StateOn[InstancePlane], outages: Outages) -> None:
        self.state, self.cluster, self._outages = state, state.cluster, outages
        self._routes: dict[tuple[int, int], tuple[int, ...]] = {}  # (task, group) -> instances
        self.task_added: Callable[[int], None] = lambda _: None  # called for each new task

    def upstream(self, group: int) -> set[int]:
        """Return the operators that send to the group."""
        return set(self.state.plan.dataflow.predecessors(self.cluster.partition_operator[group]))

    def has_event_time(self, group: int) -> bool:
        """Return whether watermarks come to the group, or go from it."""
        return self.state.plan.operators[self.cluster.partition_operator[group]].timed

    def task_on(self, operator: int, host: int) -> int:
        """Return the operator's task on that host; a new one where there is none."""
        task = self.cluster.task_on(operator, host)
        if task is None:
            task = self.cluster.new_task(operator, host)
            self.state.plane.add_task(task)
            self.task_added(task)
        return task

    def add(self, group: int, task: int) -> int:
        """Return one more instance of the group, at that task and not live."""
        instance = self.cluster.new_instance(group, task)
        self.state.plane.add_instance(instance, group, task)
        return instance

    def open(self, instance: int) -> None:
        """Mark the instance as live; it goes on from its state.

        What its checkpoint keeps for a key group that has moved since, or has got a replica, it keeps for the new
        instance, too. It sends none of that: the old instance has sent it, and whoever goes on when that dies sends it
        again (`Migrations.host_died`, `Migrations.cancelled`, `Replicas._take_over`).
        """
        cluster, plane = self.cluster, self.state.plane
        cluster.set_live(instance, True)
        self._outages.check()
        plane.open(instance)
        plane.release(instance)
        for receiver in plane.receivers(instance):
            group = cluster.group_of(receiver)
            targets = self._routes.get((cluster.partition_task[instance], group)) or (cluster.owner_of(group),)
            for target in targets:
                if target != receiver and not cluster.retired(target):
                    plane.copy_kept(instance, receiver, target)

    def own(self, instance: int) -> None:
        """Make the instance the owner of its group."""
        self.cluster.own(instance)
        self._outages.check()
        self.state.plane.own(instance)

    def retire(self, instance: int) -> None:
        """End the instance."""
        self.cluster.retire(instance)
        self.state.plane.retire(instance)

    def route(self, task: int, group: int, instances: tuple[int, ...]) -> None:
        """Send outputs of the task for the group to these instances from now on, or (none) to the owner."""
        self._routes[task, group] = instances
        self.state.plane.route(task, group, instances)

    def unroute(self, group: int) -> None:
        """Send outputs for the group to its owner alone."""
        for task, its in list(self._routes):
            if its == group and self._routes[task, its]:
                self.route(task, group, ())

    def resend(self, partition: int) -> None:
        """Send downstream once more what the partition keeps; who has it drops it."""
        cluster, plane = self.cluster, self.state.plane
        for receiver in plane.receivers(partition):
            if not cluster.retired(receiver) and self.state.view.task_alive(cluster.partition_task[receiver]):
                plane.replay(partition, receiver)
