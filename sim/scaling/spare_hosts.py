"""Hosts that come and go: acquired when they are needed, released when they are empty."""

from __future__ import annotations

from models.records.decisions import Action
from models.records.tables import NEVER
from models.units import to_ns
from sim.clock import Process
from sim.control.cluster import Cluster
from sim.control.failures import Failures
from sim.control.recovery import Recovery
from sim.control.run_state import StateOn
from sim.data_plane import RecoverablePlane
from sim.migration.moves import Migrations


def in_use(cluster: Cluster) -> list[int]:
    """Return the hosts that are in use now."""
    return [host for host in range(len(cluster.host_alive)) if host not in cluster.spare]


class SpareHosts:
    """Acquires and releases hosts. A spare host counts as dead: no task, no checkpoint, and no recovery there."""

    def __init__(
        self, state: StateOn[RecoverablePlane], migrations: Migrations, recovery: Recovery, failures: Failures
    ) -> None:
        self.state, self.cluster, self.failures = state, state.cluster, failures
        self._recovery, self._migrations = recovery, migrations
        self.coming: int | None = None  # the host that was acquired and cannot be used yet
        self.usable_since: dict[int, int] = {}
        self._intervals = [[host, 0, NEVER] for host in in_use(self.cluster)]

    def is_spare(self, host: int) -> bool:
        """Return True if the host is not in use."""
        return host in self.cluster.spare

    def acquire(self, host: int, why: str) -> None:
        """Take the host into use; tasks can be there once the acquisition is over."""
        now = self.state.clock.now_ns()
        self.state.decide(Action.ACQUIRE, self._name(host), why)
        self.cluster.spare.remove(host)
        self.coming = host
        self._intervals.append([host, now, NEVER])
        self.state.clock.process(self._arrives(host))

    def _arrives(self, host: int) -> Process:
        clock, elasticity = self.state.clock, self.state.plan.scenario.elasticity
        yield clock.sleep(clock.now_ns() + to_ns(elasticity.acquisition_s))
        self.coming = None
        self.usable_since[host] = clock.now_ns()
        # Known to control first: partitions that no host could take may be assigned to it.
        self.failures.begins(host)
        self.failures.crash.recover_orphans()

    def can_release(self, host: int) -> bool:
        """Return True if nothing is left there: no partition, checkpoint or work, and no move or recovery under way.

        A recovery anywhere counts: it may still choose this host, or read a checkpoint from it."""
        cluster, plane, migrations = self.cluster, self.state.plane, self._migrations
        if not cluster.host_alive[host] or cluster.partitions_on(host) or self._recovery.busy:
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
        """Give the host back. New owners of its key groups send again outputs that may not have left it."""
        now = self.state.clock.now_ns()
        self.state.decide(Action.RELEASE, self._name(host), why)
        self.cluster.leaving.discard(host)
        self.cluster.spare.append(host)
        self.cluster.spare.sort()
        self.failures.ends(host)
        next(one for one in self._intervals if one[0] == host and one[2] == NEVER)[2] = now

    def _name(self, host: int) -> str:
        return self.state.plan.host_names[host]

    def rows(self, end_ns: int) -> list[tuple[int, int, int]]:
        """Return when each host was in use."""
        return [(host, since, end_ns if until == NEVER else until) for host, since, until in self._intervals]
