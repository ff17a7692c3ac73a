"""Copies of snapshots on the disks of the hosts that took them: local recovery.

Each task keeps the snapshot of the last complete checkpoint of the job on the disk of its host, beside the one in the
store. If it starts again on that host, it reads the copy. A host that dies has lost its copies.
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.control.run_state import StateOn
from sim.data_plane import Plane

_NS = 1_000_000_000


class LocalCopies:
    """Knows which hosts have a copy of which partition, and when it is read where a disk reads one after the other."""

    def __init__(self, state: StateOn[Plane]) -> None:
        self.state = state
        self.rules = state.plan.scenario.fault_tolerance.local_recovery
        self._host: dict[int, int] = {}  # partition -> host that has a copy
        self._free_ns = [0] * len(state.plan.host_names)  # when the disk of a host has read all that it was asked for

    def completed(self, hosts: Mapping[int, int]) -> None:
        """Keep the copies of a complete checkpoint alone: partition -> host that took its snapshot."""
        if self.rules is not None:
            alive = self.state.cluster.host_alive
            self._host = {partition: host for partition, host in hosts.items() if alive[host]}

    def lost(self, host: int) -> None:
        """Forget the copies of a host that has died."""
        self._host = {partition: at for partition, at in self._host.items() if at != host}

    def has(self, partition: int, host: int) -> bool:
        """Return whether a host has a copy."""
        return self.rules is not None and self._host.get(partition) == host

    def read_ns(self, host: int, size: int) -> int:
        """Return when a host has read so many bytes of a copy, and occupy its disk."""
        assert self.rules is not None
        rate, begin = self.rules.disk_bytes_per_s, max(self.state.clock.now_ns(), self._free_ns[host])
        self._free_ns[host] = begin + (0 if rate is None else round(size * _NS / rate))
        return self._free_ns[host]
