"""Loads of operators on CPUs and networks: linear in the rates of the source streams.

With r the rates of the streams [1/s], the input rate of an operator is a row of coefficients times r. So are its load
(input rate x cost of a tuple; 1.0 is one CPU), and the bytes that it receives and sends [B/s]. A change of rates is one
product. A join or a sequence counts the tuples of both inputs. Source: Adaptive selective replication (VLDB PhD
workshop 2013), section 2.4.

>>> from models.queries.graph import QueryGraph
>>> from models.queries.operators import Operator, Query
>>> steps = {"s": Operator("source", "tick", cost_s=1e-5, tuple_bytes=100)}
>>> steps["f"] = Operator("filter", "SAP", ("s",), cost_s=2e-5, selectivity=0.5, tuple_bytes=100)
>>> steps["d"] = Operator("destination", "", ("f",), cost_s=4e-5)
>>> table = table_of(QueryGraph([Query("q", steps)]))
>>> table.load(table.rates({"tick": 1000.0})).round(6).tolist()
[0.01, 0.02, 0.02]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from models.checked_arrays import FloatArray, IntArray, frozen
from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.queries.graph import QueryGraph
from models.validation_messages import path_text


@dataclass(frozen=True, eq=False)
class OperatorTable:
    """The graph at one moment, operators by index 0 .. n-1 in the order in which they came.

    names (n): query.operator of the first query; edges (E, 2): [from, to]; operators (m): those of each query;
    arriving and leaving (n, n_streams): tuples in and out for each of a stream; received (n, n_streams): bytes in.
    """

    streams: tuple[str, ...]
    nodes: tuple[int, ...]
    kinds: tuple[str, ...]
    names: tuple[str, ...]
    edges: IntArray
    queries: tuple[str, ...]
    operators: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]
    cost_s: FloatArray
    tuple_bytes: FloatArray
    arriving: FloatArray
    leaving: FloatArray
    received: FloatArray

    @property
    def n_operators(self) -> int:
        """Return n, the number of operators."""
        return len(self.nodes)

    @cached_property
    def load_matrix(self) -> FloatArray:
        """Return the CPUs of each operator for a tuple a second of each stream, (n, n_streams)."""
        return frozen(self.arriving * self.cost_s[:, None])

    @cached_property
    def network_matrix(self) -> FloatArray:
        """Return the bytes in and out of each operator for each tuple of a stream, (n, n_streams)."""
        return frozen(self.received + self.leaving * self.tuple_bytes[:, None])

    def rates(self, given: Mapping[str, float]) -> FloatArray:
        """Return the rates of the streams [1/s] in order, (n_streams,); raises InputError if one is missing."""
        raise_if_any(
            InputFault(path_text(("streams", name)), NO_VALUE, "is missing: queries read it")
            for name in self.streams
            if name not in given
        )
        rates = np.array([given[name] for name in self.streams], dtype=np.float64)
        if not (np.isfinite(rates) & (rates >= 0)).all():
            raise InputError.at("streams", NO_VALUE, "must have finite rates that are not negative")
        return frozen(rates)

    def load(self, rates: FloatArray) -> FloatArray:
        """Return the CPUs that each operator uses, (n,)."""
        return frozen(self.load_matrix @ rates)

    def network(self, rates: FloatArray) -> FloatArray:
        """Return the bytes that each operator receives and sends [B/s], (n,)."""
        return frozen(self.network_matrix @ rates)

    def degree(self) -> IntArray:
        """Return how many queries need each operator, (n,)."""
        found = np.zeros(self.n_operators, dtype=np.int64)
        for needed in self.operators:
            found[list(needed)] += 1
        return frozen(found)


def table_of(graph: QueryGraph, tuple_bytes: Mapping[str, float] | None = None) -> OperatorTable:
    """Return the table of a graph; `tuple_bytes`: the size of tuples that arrive at the sources, by stream.

    Without an entry a source receives tuples of the size that it sends.
    """
    index = {number: place for place, number in enumerate(graph.nodes)}
    nodes = list(graph.nodes.values())
    streams = tuple(dict.fromkeys(node.predicate for node in nodes if node.kind == "source"))
    shape = (len(nodes), len(streams))
    arriving, leaving, received = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    size = np.array([node.tuple_bytes for node in nodes], dtype=np.float64)
    for place, node in enumerate(nodes):  # inputs have come before
        if node.kind == "source":
            stream = streams.index(node.predicate)
            arriving[place, stream] = 1.0
            received[place, stream] = (tuple_bytes or {}).get(node.predicate, node.tuple_bytes)
        for one in node.inputs:
            arriving[place] += leaving[index[one]]
            received[place] += leaving[index[one]] * size[index[one]]
        leaving[place] = 0.0 if node.kind == "destination" else arriving[place] * node.selectivity
    edges = [(index[one], place) for place, node in enumerate(nodes) for one in dict.fromkeys(node.inputs)]
    return OperatorTable(
        streams=streams,
        nodes=tuple(graph.nodes),
        kinds=tuple(node.kind for node in nodes),
        names=tuple(graph.names().values()),
        edges=frozen(np.array(edges, dtype=np.int64).reshape(-1, 2)),
        queries=tuple(graph.queries),
        operators=tuple(tuple(sorted({index[n] for n in graph.members(q).values()})) for q in graph.queries),
        weights=tuple(query.weight for query in graph.queries.values()),
        cost_s=frozen(np.array([node.cost_s for node in nodes], dtype=np.float64)),
        tuple_bytes=frozen(size),
        arriving=frozen(arriving),
        leaving=frozen(leaving),
        received=frozen(received),
    )
