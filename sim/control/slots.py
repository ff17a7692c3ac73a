"""Slots of hosts: whether one more task may start there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from sim.clock import Process
from sim.control.cluster import NOWHERE
from sim.control.replicas import Replicas
from sim.control.run_state import StateOn
from sim.data_plane import InstancePlane


class Slots:
    """Counts the tasks that occupy slots, as far as control knows.

    A task occupies its slot while a key group is there or is coming by a move. Active replicas need no slot. Where
    slots are shared, one holds a task of each operator.
    """

    def __init__(self, state: StateOn[InstancePlane], replicas: Replicas) -> None:
        self.state, self.cluster, self.replicas = state, state.cluster, replicas
        self.limits = [group.slots for group in state.plan.host_groups]
        self.shared = state.plan.scenario.placement.slot_sharing
        self.freed: Callable[[], None] = lambda: None  # called when a slot may be free; set by who knows recovery

    def free(self, operator: int, host: int, others: Sequence[int] = ()) -> float:
        """Return how many slots of the host a new task of the operator may have; infinite without a limit.

        `others`: operators of tasks that are to start there.
        """
        limit = self.limits[host]
        if limit is None:
            return math.inf
        used = [*others, *(self.cluster.task_operator[task] for task in self._tasks(host))]
        return limit - (used.count(operator) if self.shared else len(used))

    def has_room(self, operator: int, host: int) -> bool:
        """Return whether the operator has a task on the host, or may start one there."""
        if self.limits[host] is None or self.free(operator, host) > 0:
            return True
        return any(self.cluster.task_operator[task] == operator for task in self._tasks(host))

    def has_free(self, host: int) -> bool:
        """Return whether a slot of the host is free."""
        limit = self.limits[host]
        return limit is None or len(self._tasks(host)) < limit

    def note_freed(self) -> None:
        """Call `freed` at this instant, in a cluster whose hosts have a limit, once what is going on is over."""
        if any(limit is not None for limit in self.limits):
            self.state.clock.process(self._later())

    def _later(self) -> Process:
        # A process of its own: the crash that cancels a move is still being handled.
        yield self.state.clock.sleep(self.state.clock.now_ns())
        self.freed()

    def _tasks(self, host: int) -> set[int]:
        at, alive = self.cluster.task_host, self.state.view.task_alive
        found = {
            task
            for partition, task in enumerate(self.cluster.partition_task)
            if task != NOWHERE and at[task] == host and not self.replicas.silent(partition)
        }
        return {task for task in found if alive(task)}
