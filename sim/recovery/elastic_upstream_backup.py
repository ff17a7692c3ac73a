"""Recovery from outputs that upstream keeps until acks of several levels trim them, with checkpoints of states."""

from __future__ import annotations

from sim.recovery.state_management import StateManagement


class ElasticUpstreamBackup(StateManagement):
    """Restore states from their newest checkpoint, begin all else anew; upstream replays what is not trimmed.

    Lost: the partitions of the host. Taken by: the host with the fewest key groups, one after the other, so that key
    groups of one task replay side by side (parallel recovery). State: the checkpoint of a partition with state, with
    the outputs that are not trimmed where `fault_tolerance.trimming.reading` is safe; of any other nothing. Replayed:
    by all live partitions upstream, what acks have not trimmed. Dropped downstream: outputs that come a second time, by
    their ids.
    """
