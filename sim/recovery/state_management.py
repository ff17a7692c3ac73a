"""Recovery with managed state: the newest checkpoint of a task is divided among several hosts (R+SM)."""

from __future__ import annotations

from sim.control.host_choice import Choice
from sim.recovery.checkpoint import RestoreFromCheckpoint


class StateManagement(RestoreFromCheckpoint):
    """Divide the checkpoints of lost key groups among the live hosts, so that they replay side by side.

    Lost: the partitions of the host. Taken by: the host with the fewest key groups, one after the other. State: the
    checkpoint, from wherever it is. Replayed: by all live partitions upstream, what they keep for it. Dropped
    downstream: outputs that come a second time. Source: Castro Fernandez et al., SIGMOD 2013.
    """

    def host_for(self, partition: int) -> Choice:
        """Return the least used host, whoever holds the checkpoint."""
        return self.hosts.for_partition(partition)
