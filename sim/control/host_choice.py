"""Which host takes a partition that is lost, or a task that is to be started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from sim.control.cluster import NOWHERE
from sim.control.replicas import Replicas
from sim.control.run_state import StateOn
from sim.control.slots import Slots
from sim.data_plane import Plane
from sim.plane_values import REMOTE


class Choice(NamedTuple):
    """A host, or None where there is none, and why."""

    host: int | None
    why: str


class HostChoice:
    """Chooses among the hosts that control trusts and that have room."""

    def __init__(self, state: StateOn[Plane], replicas: Replicas, slots: Slots) -> None:
        self.state, self.cluster, self.plan, self.replicas, self.slots = (
            state,
            state.cluster,
            state.plan,
            replicas,
            slots,
        )

    def for_partition(
        self, partition: int, holder: int | None = None, avoided: Mapping[int, str] = MappingProxyType({})
    ) -> Choice:
        """Return the host that takes a lost partition: the holder of its checkpoint, or the least used one.

        `holder` may also be REMOTE. `avoided` has the hosts that take it only if no other one can, and why. With
        `fault_tolerance.restart = "own-hosts"` only the hosts of the partition count.
        """
        operator, has_room = self.cluster.partition_operator[partition], self.slots.has_room
        full = ""
        if holder is not None and holder != REMOTE:
            if has_room(operator, holder):
                return Choice(holder, "it holds the checkpoint")
            full = f"{self.plan.host_names[holder]}, which holds the checkpoint, has no free slot; "
        if self.plan.scenario.fault_tolerance.restart == "own-hosts":
            homes = [host for host in self.replicas.homes(partition) if self.state.view.host_alive(host)]
            if not homes:
                return Choice(None, "none of its own hosts is alive")
            homes = [host for host in homes if has_room(operator, host)]
            if not homes:
                return Choice(None, "its own hosts have no free slot")
            home = next((host for host in homes if host not in avoided), homes[0])
            though = f", although {avoided[home]}" if home in avoided else ""
            return Choice(home, f"it is one of its own hosts{though}")
        least = self.least_used(lambda host: has_room(operator, host) and host not in avoided)
        if least is not None:
            others = " that are not avoided" if avoided else ""
            return Choice(least, f"{full}it has the fewest key groups and tasks of the live hosts{others}")
        least = self.least_used(lambda host: has_room(operator, host))
        if least is None:
            return Choice(None, "no live host has a free slot" if any(self.cluster.trusted) else "no host is alive")
        though = f", although {avoided[least]}" if avoided else ""
        return Choice(least, f"{full}it has the fewest key groups and tasks of the live hosts{though}")

    def for_task(self) -> int | None:
        """Return the least used host with a free slot; None without one."""
        return self.least_used(self.slots.has_free)

    def least_used(self, has_room: Callable[[int], bool]) -> int | None:
        """Return the live host with the fewest key groups and tasks, as far as control knows; None without one.

        Hosts that have no room are left out.
        """
        partitions = [0] * len(self.cluster.trusted)
        for task in self.cluster.partition_task:
            if task != NOWHERE:
                partitions[self.cluster.task_host[task]] += 1
        trusted = enumerate(self.cluster.trusted)
        live = [host for host, alive in trusted if alive and has_room(host)]
        live = [host for host in live if self.cluster.accepts_work(host)] or live
        return min(live, key=lambda host: (partitions[host], host), default=None)
