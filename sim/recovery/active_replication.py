"""Recovery by a second instance of everything, without checkpoints (AR)."""

from __future__ import annotations

from sim.recovery.upstream_backup import UpstreamBackup


class ActiveReplication(UpstreamBackup):
    """Let replicas answer for what is lost; start what has none, or has lost both, with an empty state.

    Every task between sources and sinks has a replica (`sim.control.replicas`), which takes over as soon as the failure
    is detected: nothing is restored and nothing replayed to it. Lost: what is on the host; for good the states of which
    both instances are gone. Taken by: the replica, else the host with the fewest key groups. State: that of the
    replica, else none. Replayed: what a lost partition without a replica has not processed yet. Dropped downstream:
    outputs of the replica that the owner had sent already, by their ids.
    """
