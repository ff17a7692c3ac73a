"""Recovery from checkpoints, with upstream backup."""

from __future__ import annotations

from sim.control.host_choice import Choice
from sim.recovery.method import RecoveryMethod, SavedState


class RestoreFromCheckpoint(RecoveryMethod):
    """Restore each lost partition from its newest checkpoint; upstream replays what that lacks.

    Lost: the partitions of the host. Taken by: the host that holds the checkpoint, or the one with the fewest key
    groups. State: the checkpoint, with the outputs that downstream has not saved. Replayed: by all live partitions
    upstream, what they keep for it. Dropped downstream: outputs that come a second time.
    """

    def host_for(self, partition: int) -> Choice:
        """Prefer the host with the checkpoint, which need not be sent."""
        # As far as control knows: a checkpoint on a host that is dead and trusted still counts.
        holder = self.state.view.checkpoint_host(partition, self.state.plane.checkpoint_host(partition))
        return self.hosts.for_partition(partition, holder)

    def saved_state(self, partition: int) -> SavedState:
        """Return the stored checkpoint."""
        plane = self.state.plane
        return SavedState(plane.checkpoint_host(partition), plane.checkpoint_bytes(partition))

    def replayers(self, partition: int) -> list[int]:
        """Return the live partitions upstream that keep outputs for it; one that is down replays once it is live."""
        return [
            sender
            for sender in self.state.plane.senders(partition)
            if self.cluster.partition_live[sender] and not self.replicas.silent(sender)
        ]
