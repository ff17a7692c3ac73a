"""Recovery without any copy of the state."""

from __future__ import annotations

from sim.recovery.method import RecoveryMethod, SavedState


class StartEmpty(RecoveryMethod):
    """Start each lost partition with an empty state.

    Lost: the partitions of the host. Taken by: the host with the fewest key groups. State: none; where checkpoints are
    taken in waves, `sim.migration.checkpoint_source` brings the state back. Replayed: nothing; with an acker, sources
    emit again the roots that were not done in time. Dropped downstream: nothing.
    """

    def saved_state(self, partition: int) -> SavedState:
        """Return that there is none."""
        return SavedState(None, 0)

    def replayers(self, partition: int) -> list[int]:
        """Return none: nobody keeps outputs."""
        return []
