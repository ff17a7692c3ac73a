"""The choice of a checkpoint host when the planned host cannot store a checkpoint."""

from __future__ import annotations

from collections import Counter

from models.records.decisions import Action
from sim.control.run_state import StateOn
from sim.data_plane import NO_HOST, Plane


class CheckpointHosts:
    """Chooses a checkpoint host in place of the planned one, which is the planned one from then on."""

    def __init__(self, state: StateOn[Plane]) -> None:
        self._state, self._cluster = state, state.cluster
        cluster, operators = state.cluster, state.plan.operators
        self._partitions = [
            partition for partition, index in enumerate(cluster.partition_operator) if not operators[index].is_source
        ]

    def choose(self, partition: int, besides: int | None = None) -> int:
        """Return the trusted host, other than the owner, with the fewest planned checkpoints, or NO_HOST.

        Not `besides` either where there is another one.
        """
        cluster = self._cluster
        owner, planned = cluster.task_host[cluster.partition_task[partition]], cluster.planned_checkpoint_host
        others = [host for host, alive in enumerate(cluster.trusted) if alive and host != owner]
        others = [host for host in others if cluster.accepts_work(host)] or others
        others = [host for host in others if host != besides] or others
        if not others:
            return NO_HOST
        held = Counter(planned[other] for other in self._partitions)
        chosen = min(others, key=lambda host: (held[host], host))
        name, target = cluster.partition_name(partition), cluster.plan.host_names[chosen]
        self._state.decide(Action.STORE, name, self._why(planned[partition]), target=target)
        planned[partition] = chosen
        return chosen

    def _why(self, planned: int | None) -> str:
        if planned is None:
            return "none was planned"
        if planned in self._cluster.leaving:
            return "the planned checkpoint host is to be left"
        return "the planned checkpoint host is dead or owns the group"
