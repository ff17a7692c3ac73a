"""Rows that must have a choice each, all different: which of them have too few between them (Hall 1935)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from models.checked_arrays import BoolArray

_FREE = "free"


def violating_rows(may: BoolArray) -> list[int]:
    """Return rows that have one choice less together than they are; none where each row can have one of its own.

    `may` (rows, choices). Rows are matched one after the other along shortest paths; the first that finds no way to a
    free choice is returned with all rows that it meets, ascending: the fewest of the rows so far, whatever matching was
    found. (`networkx.bipartite` has matchings as well. They recurse along paths, for which a thousand rows in a line
    are too many, and do not say which rows come first.)
    """
    rows = _few_choices(may)
    if not rows:
        return []
    import networkx as nx  # noqa: PLC0415 - only where there is a question

    graph: nx.DiGraph[int | str] = nx.DiGraph()
    graph.add_edges_from((-1 - row, choice) for row in rows for choice in np.flatnonzero(may[row]).tolist())
    graph.add_edges_from((choice, _FREE) for choice in np.flatnonzero(may[rows].any(axis=0)).tolist())
    graph.add_nodes_from([_FREE, *(-1 - row for row in rows)])
    for row in rows:
        try:
            path = nx.shortest_path(graph, -1 - row, _FREE)
        except nx.NetworkXNoPath:
            met = nx.descendants(graph, -1 - row) | {-1 - row}
            return [one for one in rows if -1 - one in met]
        graph.remove_edges_from(list(pairwise(path)))
        graph.add_edges_from((b, a) for a, b in pairwise(path[:-1]))
    return []


def _few_choices(may: BoolArray) -> list[int]:
    """Return the rows that have fewer choices than there are rows: others find one whatever the rest take."""
    counts = may.sum(axis=1)
    order = np.argsort(counts, kind="stable")
    few = len(order)
    while few and counts[order[few - 1]] >= few:
        few -= 1
    return sorted(order[:few].tolist())
