"""Questions about graphs that more than one package asks."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

import networkx as nx

N = TypeVar("N", bound=Hashable)


def cycles(graph: nx.DiGraph[N]) -> list[list[N]]:
    """Return one cycle for each set of nodes that reach each other, from its first node on and back to that.

    First nodes, and the cycles, are in the order of the graph.

    >>> cycles(nx.DiGraph([("a", "b"), ("b", "c"), ("c", "b"), ("d", "d")]))
    [['b', 'c', 'b'], ['d', 'd']]
    """
    place = {node: index for index, node in enumerate(graph)}
    found = []
    for nodes in nx.strongly_connected_components(graph):
        first = min(nodes, key=place.__getitem__)
        if len(nodes) > 1 or graph.has_edge(first, first):
            within = graph.subgraph(nodes)
            back = min(within.predecessors(first), key=place.__getitem__)
            found.append([*nx.shortest_path(within, first, back), first])
    return sorted(found, key=lambda cycle: place[cycle[0]])
