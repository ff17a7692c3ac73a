"""Hosts that come and go: acquired when they are needed, released when they are empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.records.tables import NEVER
from models.units import to_ns
from sim.clock import Process

if TYPE_CHECKING:
    from sim.control.assembly import Control


class SpareHosts:
    """Which hosts are in use; a spare host counts as dead: no task, no checkpoint, and nothing is recovered there."""

    def __init__(self, control: Control) -> None:
        self.control, self.cluster = control, control.cluster
        self.coming: int | None = None  # the host that was acquired and cannot be used yet
        self.usable_since: dict[int, int] = {}
        self._intervals = [[host, 0, NEVER] for host in range(len(self.cluster.host_alive)) if not self.is_spare(host)]

    def is_spare(self, host: int) -> bool:
        """Whether the host is not in use."""
        return host in self.cluster.spare

    def acquire(self, host: int, why: str) -> None:
        """The host is in use from now on; tasks can be there once the acquisition is over."""
        now = self.control.clock.now_ns()
        self.control.recorder.decision(now, f"{self._name(host)} is acquired", why)
        self.cluster.spare.remove(host)
        self.coming = host
        self._intervals.append([host, now, NEVER])
        self.control.clock.process(self._arrives(host))

    def _arrives(self, host: int) -> Process:
        clock, elasticity = self.control.clock, self.control.plan.scenario.elasticity
        yield clock.sleep(clock.now_ns() + to_ns(elasticity.acquisition_s))
        self.coming = None
        self.usable_since[host] = clock.now_ns()
        self.control.failures.begins(host)
        self.control.recovery.host_is_back()

    def can_release(self, host: int) -> bool:
        """Whether nothing is left there: no partition, checkpoint or work, and no move or recovery under way."""
        cluster, plane, migrations = self.cluster, self.control.plane, self.control.migrations
        if not cluster.host_alive[host] or cluster.partitions_on(host) or self.control.recovery.busy:
            return False
        parts = [(run.move.source, run.move.target, *run.move.upstream) for run in migrations.open.values()]
        moving = any(cluster.task_host[task] == host for tasks in parts for task in tasks)
        held = any(
            plane.checkpoint_host(partition) == host
            for partition in range(len(cluster.partition_task))
            if cluster.is_owner(partition)
        )
        return not moving and not held and all(map(plane.empty, cluster.host_tasks[host]))

    def release(self, host: int, why: str) -> None:
        """The host is given back. What it may not have sent yet is sent again by those who have its key groups now."""
        control, now = self.control, self.control.clock.now_ns()
        control.recorder.decision(now, f"{self._name(host)} is released", why)
        self.cluster.leaving.discard(host)
        self.cluster.spare.append(host)
        self.cluster.spare.sort()
        control.failures.ends(host)
        control.plane.crash(host)
        self.cluster.lose_tasks(host)
        control.migrations.host_died(host)
        next(one for one in self._intervals if one[0] == host and one[2] == NEVER)[2] = now

    def _name(self, host: int) -> str:
        return self.control.plan.host_names[host]

    def rows(self, end_ns: int) -> list[tuple[int, int, int]]:
        """When each host was in use."""
        return [(host, since, end_ns if until == NEVER else until) for host, since, until in self._intervals]
