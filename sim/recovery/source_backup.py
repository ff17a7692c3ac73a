"""Recovery from the history that sources keep, without checkpoints (SB)."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx

from sim.control.cluster import LostPartition
from sim.control.host_choice import Choice
from sim.recovery.upstream_backup import UpstreamBackup


class SourceBackup(UpstreamBackup):
    """Start each lost partition and all tasks upstream of it with empty states; sources send the history again.

    Lost: the partitions of the host, those of every task between them and the sources, and for good what is older than
    `fault_tolerance.history`. Taken by: the host on which a partition was, where that lives; else the one with the
    fewest key groups. State: none. Replayed: by sources, what was created within the history or is not processed yet;
    others keep only what their receivers have not processed. Dropped downstream: outputs that come a second time, by
    their ids. Source: the replay of Storm's spouts, without acks.
    """

    def rolled_back(self, losses: Sequence[LostPartition]) -> Sequence[int]:
        """Return the live tasks through which the history comes to what is lost: they would drop it as duplicates."""
        plan, cluster = self.state.plan, self.cluster
        lost = {cluster.partition_operator[loss.partition] for loss in losses}
        above = {one for operator in lost for one in nx.ancestors(plan.dataflow, operator)}
        return [
            task
            for task, operator in enumerate(cluster.task_operator)
            if cluster.task_alive[task] and operator in above and not plan.operators[operator].is_source
        ]

    def host_for(self, partition: int) -> Choice:
        """Leave a partition where it was, if that host has not failed."""
        return self.where_it_was(partition) or super().host_for(partition)
