"""Recovery of failover regions from their checkpoints, as Flink does it."""

from __future__ import annotations

from collections.abc import Sequence

from models.scenario.events import Reconfigure
from models.topology import layout
from models.topology.weak_points import failover_regions
from sim.control.cluster import LostPartition, RunPlan
from sim.control.host_choice import Choice, HostChoice
from sim.control.replicas import Replicas
from sim.control.run_state import StateOn
from sim.data_plane import InstancePlane
from sim.recovery.checkpoint import RestoreFromCheckpoint

Seat = tuple[int, int]
"""An operator, and a place in its parallelism: a restart gives it another task."""


class RegionRestart(RestoreFromCheckpoint):
    """Roll the failover region of what is lost back: kill its tasks, and start as many again, or `parallelism`.

    Lost: every partition that is connected to a lost one. Taken by: a new task for each that was there, on the same
    host if that has a slot, else on the one with the fewest key groups; none starts before all have a slot. State: the
    checkpoint. Replayed: what checkpoints and sources keep. Dropped downstream: outputs that come a second time.
    Source: Flink's documentation, "Task Failure Recovery".

    `parallelism` says of each operator how many tasks it has from the next restart on, which is then one of the whole
    job. Key groups are divided as at the start; so are the tasks of an operator without key groups, which are at most
    as many as at the start. Tasks of a chain stay together: they were on one host, with the same slots, and what is
    chosen for one is chosen for the others.

    Key groups that a reconfiguration has moved stay in the place to which its last step that is over has moved them. A
    place may then be without key groups: its task goes down and comes back with the others all the same.
    """

    def __init__(self, state: StateOn[InstancePlane], hosts: HostChoice, replicas: Replicas) -> None:
        super().__init__(state, hosts, replicas)
        self._regions = _regions(state.plan)
        self._reconfigured = _reconfigured(state.plan)
        self._down: set[int] = set()  # regions that have lost a task without key groups, which is detected now
        self.parallelism = [operator.description.parallelism for operator in state.plan.operators]
        self._hosts: dict[Seat, int] = {}  # seat without a task -> host with a slot for it
        self._tasks: dict[Seat, int] = {}  # of the restart that is under way: seat -> the new task

    def rolled_back(self, losses: Sequence[LostPartition]) -> Sequence[int]:
        """Return the live tasks in the regions of what is lost."""
        down = {self.region_of(loss.partition) for loss in losses} | self._down
        self._down = set()
        alive, at = self.cluster.task_alive, self.cluster.partition_task
        found = {at[one] for one, region in enumerate(self._regions) if region in down}
        found |= {task for task in self._without_groups() if self._region_of_all(task) in down}
        return sorted(task for task in found if task >= 0 and alive[task])

    def host_lost(self, host: int) -> None:
        """Note the regions that have lost a task without key groups, which is among no losses."""
        newest = {self._place_of(task): task for task in range(len(self.cluster.task_host))}
        for task in self._without_groups():
            gone = not self.cluster.task_alive[task] and newest[self._place_of(task)] == task
            if gone and self.cluster.task_host[task] == host:
                self._down.add(self._region_of_all(task))

    def has_lost_empty_tasks(self) -> bool:
        """Return whether there are such regions."""
        return bool(self._down)

    def _without_groups(self) -> list[int]:
        """Return the tasks without key groups of operators that are reconfigured, rising; the dead are among them."""
        its = self.cluster.task_operator
        if not self._reconfigured:
            return []
        used = set(self.cluster.partition_task)
        return [task for task, one in enumerate(its) if one in self._reconfigured and task not in used]

    def _region_of_all(self, task: int) -> int:
        """Return the region of an operator's task: that of all its key groups, which come from the same senders."""
        return self._regions[self.state.plan.first_partition[self.cluster.task_operator[task]]]

    def _place_of(self, task: int) -> tuple[int, int | None]:
        return self.cluster.task_operator[task], self.cluster.task_place[task]

    def region_of(self, partition: int) -> int:
        """Return the number of the region of a partition."""
        return self._regions[partition]

    def partitions_in(self, region: int) -> list[int]:
        """Return the partitions of a region."""
        return [one for one, other in enumerate(self._regions) if other == region]

    def host_for(self, partition: int) -> Choice:
        """Return the host with a slot for the partition's task, which is the same once there is one.

        One that was found and has died since is not asked for again.
        """
        return self._slot_for(self._seat(partition))

    def has_other_slots(self, losses: Sequence[LostPartition]) -> bool:
        """Return whether tasks of the losses' operators that get none of these partitions have slots, too."""
        return all(self._slot_for(seat).host is not None for seat in self._seats(losses))

    def _slot_for(self, seat: Seat) -> Choice:
        host = self._hosts.get(seat)
        if host is not None and self.state.view.host_alive(host):
            return Choice(host, "its task has a slot there")
        self._hosts.pop(seat, None)
        own = self._host_before(seat)
        if own is not None and self.state.view.host_alive(own) and self._has_slot(seat[0], own):
            choice = Choice(own, "it was there before the region was rolled back")
        else:
            host = self.hosts.least_used(lambda one: self._has_slot(seat[0], one))
            free = "it has a free slot, and the fewest key groups and tasks" if host is not None else "no slot is free"
            choice = Choice(host, free)
        if choice.host is not None:
            self._hosts[seat] = choice.host
        return choice

    def task_for(self, partition: int, host: int) -> int:
        """Return the new task of the partition's seat, which starts with the first of its partitions."""
        return self._task_in(self._seat(partition), host)

    def _task_in(self, seat: Seat, host: int) -> int:
        if seat not in self._tasks:
            self._tasks[seat] = self.replicas.instances.new_task(seat[0], host, seat[1])
        return self._tasks[seat]

    def run_with(self, parallelism: Sequence[int]) -> None:
        """Start the job with so many tasks of each operator from now on; all of it is down, and has no slots."""
        self.parallelism = [*parallelism]
        self._hosts.clear()

    def hosts_of(self, losses: Sequence[LostPartition]) -> list[int]:
        """Return the hosts with slots for the tasks of lost partitions."""
        return [self._hosts[seat] for seat in self._seats(losses) if seat in self._hosts]

    def release(self, losses: Sequence[LostPartition]) -> None:
        """Give back the slots of the tasks of lost partitions, in which nothing was started."""
        for seat in self._seats(losses):
            self._hosts.pop(seat, None)

    def start_others(self, losses: Sequence[LostPartition]) -> None:
        """Start the tasks without key groups, which have slots: whoever moves some expects all tasks to be there."""
        for seat in sorted({*self._seats(losses)} - {self._seat(loss.partition) for loss in losses}):
            self._task_in(seat, self._hosts[seat])

    def started(self, losses: Sequence[LostPartition]) -> None:
        """Note that all tasks of lost partitions are in their slots."""
        for seat in self._seats(losses):
            self._hosts.pop(seat, None)
            self._tasks.pop(seat, None)

    def _seat(self, partition: int) -> Seat:
        operator = self.cluster.partition_operator[partition]
        return operator, self.cluster.place_of(partition, self.parallelism[operator])

    def _seats(self, losses: Sequence[LostPartition]) -> list[Seat]:
        found = {self._seat(loss.partition) for loss in losses}
        whole = {operator for operator, _ in found} & self._reconfigured
        return sorted(found | {(operator, k) for operator in whole for k in range(self.parallelism[operator])})

    def _host_before(self, seat: Seat) -> int | None:
        """Return the host of the task that was in the seat; None of a seat that there was not."""
        operator, index = seat
        first, end = self.state.plan.first_partition[operator : operator + 2]
        before = [*dict.fromkeys(self.cluster.partition_task[first:end])]  # by seat
        if operator in self._reconfigured:
            places = self.cluster.task_place
            before = [task for task, its in enumerate(self.cluster.task_operator) if its == operator]
            return self.cluster.task_host[next(task for task in reversed(before) if places[task] == index)]
        return self.cluster.task_host[before[index]] if index < len(before) else None

    def _has_slot(self, operator: int, host: int) -> bool:
        """Return whether a task of the operator has a slot on a host beside those that are to start there."""
        waiting = [seat[0] for seat, at in self._hosts.items() if at == host and seat not in self._tasks]
        return self.hosts.slots.free(operator, host, waiting) > 0


def _reconfigured(plan: RunPlan) -> set[int]:
    """Return the operators whose key groups change their tasks in steps."""
    events = (one for one in plan.scenario.events.values() if isinstance(one, Reconfigure) and not one.moves_each)
    names = {one.operator for one in events}
    return {operator.index for operator in plan.operators if operator.name in names}


def _regions(plan: RunPlan) -> list[int]:
    """Return the number of the failover region of each partition (n_partitions,); the adaptive scheduler has one."""
    if plan.scenario.recovery.adapts:
        return [0] * plan.first_partition[-1]
    numbers = {task: number for number, tasks in enumerate(failover_regions(plan.scenario)) for task in tasks}
    return [
        numbers[layout.task_name(operator.name, operator.description.task_of(index))]
        for operator in plan.operators
        for index in range(operator.description.groups)
    ]
