"""Recovery from outputs that upstream keeps until acks of several levels trim them, with checkpoints of states."""

from __future__ import annotations

from collections import defaultdict

import networkx as nx

from sim.control.cluster import NOWHERE
from sim.control.host_choice import Choice, HostChoice
from sim.control.replicas import Replicas
from sim.control.run_state import StateOn
from sim.data_plane import InstancePlane
from sim.recovery.state_management import StateManagement


class ElasticUpstreamBackup(StateManagement):
    """Restore states from their newest checkpoint, begin all else anew; upstream replays what is not trimmed.

    Lost: the partitions of the host. Taken by: the host with the fewest key groups, one after the other, so that key
    groups of one task replay side by side (parallel recovery); a host whose failure would then take more tasks one
    behind the other than the levels of acks survive only if there is no other. State: the checkpoint of a partition
    with state, with the outputs that are not trimmed where `fault_tolerance.trimming.reading` is safe; of any other
    nothing. Replayed: by all live partitions upstream, what acks have not trimmed. Dropped downstream: outputs that
    come a second time, by their ids.
    """

    def __init__(self, state: StateOn[InstancePlane], hosts: HostChoice, replicas: Replicas) -> None:
        super().__init__(state, hosts, replicas)
        self._chains: dict[tuple[int, frozenset[int]], list[int]] = {}

    def host_for(self, partition: int) -> Choice:
        """Return the least used host, if it can be one whose next failure the levels of acks survive."""
        return self.hosts.for_partition(partition, avoided=self._avoided(partition))

    def _avoided(self, partition: int) -> dict[int, str]:
        """Return the hosts on which the partition would complete a chain of tasks that is too long, and which."""
        cluster, plan = self.cluster, self.state.plan
        trimming = plan.trimming
        here = cluster.partition_operator[partition]
        if trimming is None or not self._is_inner(here):
            return {}
        on_host: dict[int, set[int]] = defaultdict(set)
        for other, task in enumerate(cluster.partition_task):
            if task != NOWHERE and self._is_inner(cluster.partition_operator[other]):
                on_host[cluster.task_host[task]].add(cluster.partition_operator[other])
        found = {}
        for host, operators in on_host.items():
            chain = self._chain_with(here, frozenset(operators))
            if len(chain) >= trimming.levels:
                names = " and ".join(plan.operators[operator].name for operator in chain)
                found[host] = f"its next failure would take tasks of {names} together"
        return found

    def _is_inner(self, operator: int) -> bool:
        # A source reads a log that nobody loses, and what a sink has delivered is outside.
        return not (self.state.plan.operators[operator].is_source or self.state.plan.operators[operator].is_sink)

    def _chain_with(self, operator: int, others: frozenset[int]) -> list[int]:
        """Return the longest chain with this operator among these others in which each sends to the next."""
        known = self._chains.get((operator, others))
        if known is None:
            graph = self.state.plan.dataflow.subgraph({operator, *others})
            # Each longest path of what leads to the operator ends with it, and each of what follows begins with it.
            before = nx.dag_longest_path(graph.subgraph({operator, *nx.ancestors(graph, operator)}))
            after = nx.dag_longest_path(graph.subgraph({operator, *nx.descendants(graph, operator)}))
            known = self._chains[operator, others] = before + after[1:]
        return known
