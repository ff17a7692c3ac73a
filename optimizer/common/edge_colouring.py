"""Colouring the edges of a multigraph: no two edges with a common end have the same colour."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np

from models.checked_arrays import FloatArray, IntArray


class Colouring:
    """Edges coloured one after the other; holds for each node which edge has which colour there."""

    def __init__(self, ends: IntArray, n_colours: int) -> None:
        self._ends = ends.tolist()
        n = int(ends.max()) + 1 if len(ends) else 0
        self._at: list[dict[int, int]] = [{} for _ in range(n)]
        # Each colour below it is taken at the node: looking from 0 on would take the square of the degree.
        self._lowest = [0] * n
        self.colour = [-1] * len(self._ends)
        self.n_colours = n_colours

    def add_colour(self) -> None:
        """Allow one more colour."""
        self.n_colours += 1

    def _free(self, node: int, most: int) -> list[int]:
        """Return the lowest colours that no edge has at a node."""
        taken, first = self._at[node], self._first_free(node)
        return list(itertools.islice((c for c in range(first, self.n_colours) if c not in taken), most))

    def _first_free(self, node: int) -> int:
        """Return the lowest colour that no edge has at a node."""
        taken, lowest = self._at[node], self._lowest[node]
        while lowest in taken:
            lowest += 1
        self._lowest[node] = lowest
        return lowest

    def paint(self, edge: int, tries: int) -> bool:
        """Colour one edge, if need be by swapping two colours along a path; False where `tries` paths all failed.

        With a colour `a` free at one end and `b` at the other, the edges of colours a and b make a path from the second
        end. Unless it leads to the first end, swapping them frees a at both. In a bipartite graph it never does:
        edges of colour a are entered on the side of the second end, and none with a is at the first (Koenig 1916).
        """
        u, v = self._ends[edge]
        here, there = self._at[u], self._at[v]
        first = max(self._first_free(u), self._first_free(v))
        common = next((c for c in range(first, self.n_colours) if c not in here and c not in there), None)
        if common is not None:
            self._set(edge, common)
            return True
        others = self._free(v, tries)
        for a in self._free(u, tries):
            for b in others:
                path = self._path(v, a, b)
                if self._leads_to(path, v) != u:
                    self._swap(path, a, b)
                    self._set(edge, a)
                    return True
        return False

    def _set(self, edge: int, colour: int) -> None:
        self.colour[edge] = colour
        for node in self._ends[edge]:
            self._at[node][colour] = edge

    def _path(self, start: int, first: int, second: int) -> list[int]:
        """Return the edges of a path from a node, of the first colour and the second in turn."""
        path, node, colour = [], start, first
        while (edge := self._at[node].get(colour, -1)) >= 0:
            path.append(edge)
            a, b = self._ends[edge]
            node = b if node == a else a
            colour = second if colour == first else first
        return path

    def _leads_to(self, path: list[int], start: int) -> int:
        node = start
        for edge in path:
            a, b = self._ends[edge]
            node = b if node == a else a
        return node

    def _swap(self, path: list[int], a: int, b: int) -> None:
        old = [self.colour[edge] for edge in path]
        for edge, colour in zip(path, old, strict=True):
            for node in self._ends[edge]:
                del self._at[node][colour]
                self._lowest[node] = min(self._lowest[node], colour)
        for edge, colour in zip(path, old, strict=True):
            self._set(edge, b if colour == a else a)


def coloured(ends: IntArray, n_colours: int, tries: int = 8) -> tuple[IntArray, int]:
    """Return a colour for each edge (E,), and how many were needed: `n_colours`, and one more whenever no path helped.

    With the largest degree for `n_colours` a bipartite multigraph never needs more.
    """
    colouring = Colouring(ends, n_colours)
    for edge in range(len(ends)):
        while not colouring.paint(edge, tries):
            colouring.add_colour()
    return np.array(colouring.colour, dtype=np.int64), colouring.n_colours


def is_bipartite(ends: IntArray) -> bool:
    """Return whether the nodes fall into two sides so that each edge joins one with the other.

    The largest degree is then the least number of colours (Koenig 1916).
    """
    return bool(nx.is_bipartite(nx.from_edgelist(ends.tolist())))


def busiest(ends: IntArray, weights: FloatArray) -> tuple[float, tuple[int, ...]]:
    """Return the least time for edges of these weights, one at a time at each node, and the nodes that need it.

    One node takes the sum of its edges. Of 2k + 1 nodes at most k edges go on at once, so they take the sum of the
    edges among them over k; triangles and connected parts are looked at. Sums are correctly rounded.
    """
    if not len(ends):
        return 0.0, ()
    at: dict[int, list[float]] = {}
    between: dict[tuple[int, int], list[float]] = {}
    for (a, b), weight in zip(ends.tolist(), weights.tolist(), strict=True):
        at.setdefault(a, []).append(weight)
        at.setdefault(b, []).append(weight)
        between.setdefault((min(a, b), max(a, b)), []).append(weight)
    most: float = 0.0
    nodes: tuple[int, ...] = (int(ends[0, 0]),)
    for node in sorted(at):
        if (total := math.fsum(at[node])) > most:
            most, nodes = total, (node,)
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(sorted(at))  # triangles and parts come in their order
    graph.add_edges_from(between)
    for a, b, c in sorted(nx.all_triangles(graph)):
        if (total := math.fsum(between[a, b] + between[a, c] + between[b, c])) > most:
            most, nodes = total, (a, b, c)
    for part in nx.connected_components(graph):
        if len(part) >= 5 and len(part) % 2:
            among = math.fsum(weight for (a, _), each in between.items() if a in part for weight in each)
            if (total := among / (len(part) // 2)) > most:
                most, nodes = total, tuple(sorted(part))
    return most, nodes
