"""Chains of tasks on one host that a failure would take together, although acks of n levels survive fewer."""

from __future__ import annotations

from collections import defaultdict

import networkx as nx

from sim.control.cluster import NOWHERE
from sim.control.run_state import StateOn
from sim.data_plane import Plane


class AdjacentTasks:
    """Says on which hosts a task would be one of n that send to each other, where outputs are trimmed by acks."""

    def __init__(self, state: StateOn[Plane]) -> None:
        self.cluster, self.plan = state.cluster, state.plan
        self._chains: dict[tuple[int, frozenset[int]], list[int]] = {}

    def too_many(self, operator: int) -> dict[int, str]:
        """Return the hosts on which a task of the operator would complete a chain that is too long, and which."""
        cluster, plan = self.cluster, self.plan
        if plan.trimming is None or not self._is_inner(operator):
            return {}
        on_host: dict[int, set[int]] = defaultdict(set)
        for other, task in enumerate(cluster.partition_task):
            if task != NOWHERE and self._is_inner(cluster.partition_operator[other]):
                on_host[cluster.task_host[task]].add(cluster.partition_operator[other])
        found = {}
        for host, operators in on_host.items():
            chain = self._chain_with(operator, frozenset(operators))
            if len(chain) >= plan.trimming.levels:
                names = " and ".join(plan.operators[one].name for one in chain)
                found[host] = f"its next failure would take tasks of {names} together"
        return found

    def _is_inner(self, operator: int) -> bool:
        # A source reads a log that nobody loses, and what a sink has delivered is outside.
        return not (self.plan.operators[operator].is_source or self.plan.operators[operator].is_sink)

    def _chain_with(self, operator: int, others: frozenset[int]) -> list[int]:
        """Return the longest chain with this operator among these others in which each sends to the next."""
        known = self._chains.get((operator, others))
        if known is None:
            graph = self.plan.dataflow.subgraph({operator, *others})
            # Each longest path of what leads to the operator ends with it, and each of what follows begins with it.
            before = nx.dag_longest_path(graph.subgraph({operator, *nx.ancestors(graph, operator)}))
            after = nx.dag_longest_path(graph.subgraph({operator, *nx.descendants(graph, operator)}))
            known = self._chains[operator, others] = before + after[1:]
        return known
