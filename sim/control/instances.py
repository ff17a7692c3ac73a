"""Key groups as managers see them: instances with owner and routes, outages, and the hosts of their checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from models.records.decisions import Action
from models.records.tables import NEVER
from sim.control.run_state import StateOn
from sim.data_plane import InstancePlane, Plane
from sim.plane_values import NO_HOST


class Outages:
    """Keeps the times from the death of a group's host until the group has a live owner.

    It uses the truth, not the view of control: an outage goes on if a group is assigned to a host that is dead, too.
    """

    def __init__(self, state: StateOn[Plane]) -> None:
        self.clock, self.cluster = state.clock, state.cluster
        self._since: dict[int, int] = {}  # group -> when its host died
        self._over: list[tuple[int, int, int]] = []  # group, from, until

    def lost(self, partitions: Iterable[int]) -> None:
        """Begin outages of the live owners among partitions that are about to be lost; call it before they are.

        One that is on its way to a task was live a moment ago.
        """
        for partition in partitions:
            live = self.cluster.partition_live[partition] or partition in self.cluster.on_the_way
            if live and self.cluster.is_owner(partition):
                self._since.setdefault(self.cluster.group_of(partition), self.clock.now_ns())

    def check(self, instances: Iterable[int]) -> None:
        """End outages of groups whose owner is live; call it with instances that have become live, or the owner."""
        for group in map(self.cluster.group_of, instances):
            if group in self._since and self.cluster.partition_live[self.cluster.owner_of(group)]:
                self._over.append((group, self._since.pop(group), self.clock.now_ns()))

    def rows(self) -> list[tuple[int, ...]]:
        """Return one row for each outage, in the order of their begin."""
        found = [*self._over, *((group, since, NEVER) for group, since in self._since.items())]
        operator, index = self.cluster.partition_operator, self.cluster.partition_index
        found.sort(key=lambda one: (one[1], one[0]))
        return [(operator[group], index[group], since, until) for group, since, until in found]


class Instances:
    """Opens, owns and retires instances, in the cluster and on the plane, and keeps the tables of routes."""

    def __init__(self, state: StateOn[InstancePlane], outages: Outages) -> None:
        self.state, self.cluster, self._outages = state, state.cluster, outages
        self._routes: dict[tuple[int, int], tuple[int, ...]] = {}  # (task, group) -> instances
        self.task_added: list[Callable[[int], None]] = []  # called for each new task

    def upstream(self, group: int) -> set[int]:
        """Return the operators that send to the group."""
        return set(self.state.plan.dataflow.predecessors(self.cluster.partition_operator[group]))

    def has_event_time(self, group: int) -> bool:
        """Return whether watermarks come to the group, or go from it."""
        return self.state.plan.operators[self.cluster.partition_operator[group]].timed

    def task_on(self, operator: int, host: int) -> int:
        """Return the operator's task on that host; a new one where there is none."""
        task = self.cluster.task_on(operator, host)
        return self.new_task(operator, host) if task is None else task

    def new_task(self, operator: int, host: int, index: int | None = None) -> int:
        """Start a new, empty task of the operator on that host; `index` as in `Cluster.new_task`."""
        task = self.cluster.new_task(operator, host, index)
        self.state.plane.add_task(task)
        for told in self.task_added:
            told(task)
        return task

    def add(self, group: int, task: int) -> int:
        """Return one more instance of the group, at that task and not live."""
        instance = self.cluster.new_instance(group, task)
        self.state.plane.add_instance(instance, group, task)
        return instance

    def open(self, instance: int) -> None:
        """Mark the instance as live; it goes on from its state.

        Outputs that its checkpoint keeps for a key group that has moved since, or has got a replica, it keeps for the
        new instance, too. It does not send them: the old instance has, and its successor sends them again if it dies
        (`Migrations.host_died`, `Migrations.cancelled`, `Replicas._take_over`).
        """
        cluster, plane = self.cluster, self.state.plane
        cluster.set_live(instance, True)
        self._outages.check((instance,))
        # Open before release: tuples that were held go to the queue, and would be held again if it were not live.
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
        self._outages.check((instance,))
        self.state.plane.own(instance)

    def retire(self, instance: int) -> None:
        """End the instance."""
        self.cluster.retire(instance)
        self.state.plane.retire(instance)

    def route(self, task: int, group: int, instances: tuple[int, ...]) -> None:
        """Send outputs of the task for the group to these instances from now on, or (none) to the owner."""
        self._routes[task, group] = instances
        self.state.plane.route(task, group, instances)

    def unroute(self, group: int, instance: int) -> None:
        """Send outputs for the group to this instance no more: to the others alone, or to the owner."""
        owner = (self.cluster.owner_of(group),)
        for (task, its), targets in list(self._routes.items()):
            if its == group and targets:
                others = tuple(target for target in targets if target != instance)
                self.route(task, group, () if others == owner else others)

    def resend(self, partition: int) -> None:
        """Send the outputs that the partition keeps once more; receivers that have them drop them."""
        cluster, plane = self.cluster, self.state.plane
        for receiver in plane.receivers(partition):
            if not cluster.retired(receiver) and self.state.view.task_alive(cluster.partition_task[receiver]):
                plane.replay(partition, receiver)


class CheckpointHosts:
    """Chooses a checkpoint host in place of the planned one, and plans it from then on."""

    def __init__(self, state: StateOn[Plane]) -> None:
        self._state, self._cluster = state, state.cluster
        cluster, operators = state.cluster, state.plan.operators
        self._partitions = [
            partition for partition, index in enumerate(cluster.partition_operator) if not operators[index].is_source
        ]

    def choose(self, partition: int, besides: int | None = None) -> int:
        """Return the trusted host, other than the owner, with the fewest planned checkpoints, or NO_HOST.

        Not `besides` either where there is another one.
        """
        cluster = self._cluster
        owner, planned = cluster.task_host[cluster.partition_task[partition]], cluster.planned_checkpoint_host
        others = [host for host, alive in enumerate(cluster.trusted) if alive and host != owner]
        # Preferences, not conditions: a host that is about to be left is better than no checkpoint at all.
        others = [host for host in others if cluster.accepts_work(host)] or others
        others = [host for host in others if host != besides] or others
        if not others:
            return NO_HOST
        held = Counter(planned[other] for other in self._partitions)
        chosen = min(others, key=lambda host: (held[host], host))
        name, target = cluster.partition_name(partition), cluster.plan.host_names[chosen]
        self._state.decide(Action.STORE, name, self._why(planned[partition]), target=target)
        planned[partition] = chosen
        return chosen

    def _why(self, planned: int | None) -> str:
        if planned is None:
            return "none was planned"
        if planned in self._cluster.leaving:
            return "the planned checkpoint host is to be left"
        return "the planned checkpoint host is dead or owns the group"
