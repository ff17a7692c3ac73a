"""What the control plane takes for true: a host lives, and has what it had, until its failure is noticed."""

from __future__ import annotations

from dataclasses import dataclass, field

from sim.control.cluster import Cluster


@dataclass
class Unnoticed:
    """What was on a host that is dead, and of which control does not know that yet."""

    tasks: set[int] = field(default_factory=set)
    live: set[int] = field(default_factory=set)  # units that were live there
    lost: list[int] = field(default_factory=list)  # all units that were there, or were sent there since
    held: dict[int, int] = field(default_factory=dict)  # unit -> host, of the checkpoints that it held


class Beliefs:
    """Hosts, tasks, units and holders as control believes they are; the truth is in `sim.control.cluster`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._unnoticed: dict[int, Unnoticed] = {}  # by host
        self.returning: set[int] = set()  # hosts whose failure is noticed because they come back

    def died(self, host: int, held: dict[int, int]) -> list[int]:
        """The host is about to be lost, with its tasks, units and the checkpoints it held; nobody knows.

        Returns its units, among which are from now on those that are sent there although it is dead.
        """
        cluster = self._cluster
        gone = self._unnoticed.setdefault(host, Unnoticed())
        units = cluster.units_on(host)
        gone.tasks.update(cluster.host_tasks[host])
        gone.live.update(unit for unit in units if cluster.unit_live[unit])
        gone.lost += units
        gone.held |= held
        return gone.lost

    def noticed(self, host: int) -> None:
        """The failure of the host is known."""
        self._cluster.believed_alive[host] = False
        self._unnoticed.pop(host, None)

    def back(self, host: int) -> None:
        """The host is known to be there."""
        self.returning.discard(host)
        self._cluster.believed_alive[host] = True

    def host(self, host: int) -> bool:
        """Whether the host is believed to live."""
        return self._cluster.believed_alive[host]

    def task(self, task: int) -> bool:
        """Whether the task is believed to live."""
        return self._cluster.task_alive[task] or any(task in gone.tasks for gone in self._unnoticed.values())

    def tasks_on(self, host: int) -> list[int]:
        """The tasks that are believed to be on the host, rising."""
        gone = self._unnoticed.get(host)
        return sorted({*self._cluster.host_tasks[host], *(gone.tasks if gone else ())})

    def units_on(self, host: int) -> list[int]:
        """The units that are believed to be on the host, rising."""
        gone = self._unnoticed.get(host)
        return sorted({*self._cluster.units_on(host), *(gone.lost if gone else ())})

    def unit(self, unit: int) -> bool:
        """Whether the unit is believed to be live."""
        return self._cluster.unit_live[unit] or any(unit in gone.live for gone in self._unnoticed.values())

    def holder(self, unit: int, truth: int | None) -> int | None:
        """Who is believed to hold the newest checkpoint of the unit."""
        if truth is not None:
            return truth
        return next((gone.held[unit] for gone in self._unnoticed.values() if unit in gone.held), None)
