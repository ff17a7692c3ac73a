"""Recovery of the whole job from its checkpoints, as systems with global snapshots or micro-batches do it."""

from __future__ import annotations

from collections.abc import Sequence

from sim.control.cluster import LostPartition
from sim.control.host_choice import Choice
from sim.recovery.checkpoint import RestoreFromCheckpoint


class SynchronousCheckpoints(RestoreFromCheckpoint):
    """Roll the whole job back: kill every task, and restore all states from their newest checkpoints.

    Lost: every partition, also those whose hosts live. Taken by: the host on which the partition was, where that lives;
    else the one that holds the checkpoint, or the one with the fewest key groups. State: the checkpoint. Replayed: what
    checkpoints and sources keep. Dropped downstream: outputs that come a second time.
    """

    def rolled_back(self, losses: Sequence[LostPartition]) -> Sequence[int]:
        """Return all tasks that are alive."""
        return [task for task, alive in enumerate(self.cluster.task_alive) if alive]

    def host_for(self, partition: int) -> Choice:
        """Leave a partition where it was, if that host has not failed."""
        host = self.cluster.task_host[self.cluster.partition_task[partition]]
        if self.state.view.host_alive(host) and self.hosts.slots.has_room(
            self.cluster.partition_operator[partition], host
        ):
            return Choice(host, "it was there before the job was rolled back")
        return super().host_for(partition)
