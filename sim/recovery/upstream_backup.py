"""Recovery from the history that upstream keeps, without checkpoints (UB)."""

from __future__ import annotations

from sim.recovery.state_management import StateManagement


class UpstreamBackup(StateManagement):
    """Start each lost partition with an empty state; upstream sends the history again, from which it is made anew.

    Lost: the partitions of the host, and for good what is older than `fault_tolerance.history`. Taken by: the host with
    the fewest key groups. State: none. Replayed: by all live partitions upstream, what was created within the history
    or is not processed yet. Dropped downstream: outputs that come a second time, by their ids. Source: Hwang et al.,
    ICDE 2005.
    """
