"""The global query graph: all queries at once; equal operators are merged, and released when no query needs them.

Incremental multi-query optimisation: a new query is merged breadth-first from the sources. An operator is shared if
type, predicate, window and inputs are equal. The inputs of a join have no order, those of a sequence have. Destinations
are never shared. Source: Adaptive selective replication (VLDB PhD workshop 2013), section 2.1.

`OperatorTable` has the loads of operators on CPUs and networks, linear in the rates of the source streams. With r the
rates of the streams [1/s], the input rate of an operator is a row of coefficients times r. So are its load
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

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import networkx as nx
import numpy as np

from models import display
from models.checked_arrays import FloatArray, IntArray, frozen
from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.queries.description import Kind
from models.queries.operators import Operator, Query
from models.validation_messages import nearest, path_text

Key = tuple[str, str, float | None, tuple[int, ...]]


@dataclass(frozen=True)
class Node:
    """An operator of the graph, without a name: queries may call it differently.

    `predicate`: what it does with tuples; the stream of a source or destination. `window_s` [s]: None without a window.
    `inputs`: numbers of other nodes; of a join in rising order, since it treats its inputs alike. `cost_s`: CPU time of
    a tuple [s]. `selectivity`: tuples out for each that comes in. `tuple_bytes`: size of one that goes out [B].
    """

    kind: Kind
    predicate: str
    window_s: float | None
    inputs: tuple[int, ...]
    cost_s: float
    selectivity: float
    tuple_bytes: float

    @property
    def key(self) -> Key:
        """Return the identity of the operator, without destinations: operators with equal keys are shared."""
        return self.kind, self.predicate, self.window_s, self.inputs


class QueryGraph:
    """Queries that come and go, and the operators that they share.

    A node has a number that is never given twice, and is there as long as a query needs it.

    Numbers rise in topological order: the inputs of a node have smaller ones. Invariants: each node has at least one
    user; no two nodes except destinations have equal keys; every input of a node is in the graph.

    >>> from models.queries.operators import Operator, Query
    >>> steps = {"s": Operator("source", "tick"), "d": Operator("destination", "", ("s",))}
    >>> graph = QueryGraph([Query("one", steps), Query("two", steps)])  # the source is shared, destinations are not
    >>> [graph.users(node) for node in graph.nodes]
    [('one', 'two'), ('one',), ('two',)]
    >>> graph.remove("one")
    (1,)
    """

    def __init__(self, queries: Iterable[Query] = ()) -> None:
        self._queries: dict[str, Query] = {}
        self._members: dict[str, dict[str, int]] = {}  # query -> its name of an operator -> node
        self._nodes: dict[int, Node] = {}
        self._users: dict[int, dict[str, None]] = {}
        self._numbers: dict[Key, int] = {}
        self._next = 0
        for query in queries:
            self.add(query)

    @property
    def nodes(self) -> Mapping[int, Node]:
        """Return the operators by number, in the order in which they came."""
        return self._nodes

    @property
    def queries(self) -> Mapping[str, Query]:
        """Return the queries by name, in the order in which they came."""
        return self._queries

    def members(self, query: str) -> Mapping[str, int]:
        """Return the nodes of a query by what it calls them."""
        return self._members[query]

    def users(self, node: int) -> tuple[str, ...]:
        """Return the queries that need an operator."""
        return tuple(self._users[node])

    def add(self, query: Query) -> tuple[int, ...]:
        """Merge a query; return the numbers of the new operators.

        Raises InputError, and changes nothing, if the name is taken, or an equal operator has another cost, selectivity
        or size of tuples.
        """
        if query.name in self._queries:
            raise InputError.at(path_text(("queries", query.name)), query.name, "is there already")
        # Everything that can fail comes first, so that a refused query leaves the graph as it was.
        found, new = self._merged(query)
        self._queries[query.name], self._members[query.name] = query, found
        for number, node in new.items():
            self._nodes[number], self._users[number] = node, {}
            if node.kind != "destination":
                self._numbers[node.key] = number
        self._next += len(new)
        for number in found.values():
            self._users[number][query.name] = None
        return tuple(new)

    def remove(self, name: str) -> tuple[int, ...]:
        """Remove a query; return the numbers of the operators that no query needs any more.

        Raises InputError for a name that is not in the graph.
        """
        if name not in self._queries:
            raise InputError.at(path_text(("queries", name)), name, "is no query", nearest(name, self._queries))
        released = []
        # Nodes that two names of the query share must be released once.
        for number in dict.fromkeys(self._members.pop(name).values()):
            users = self._users[number]
            del users[name]
            if not users:
                released.append(number)
        # Collected first: a mapping must not change while its users are counted.
        for number in released:
            node = self._nodes.pop(number)
            del self._users[number]
            if node.kind != "destination":
                del self._numbers[node.key]
        del self._queries[name]
        return tuple(released)

    def _merged(self, query: Query) -> tuple[dict[str, int], dict[int, Node]]:
        """Return (its name of an operator -> node, new nodes by number) of a query, and change nothing.

        Raises InputError if an operator that would be shared differs in cost, selectivity or size of tuples.
        """
        found: dict[str, int] = {}
        new: dict[int, Node] = {}
        keys: dict[Key, int] = {}
        # Faults of the whole query at once, not of the first operator that differs.
        faults: list[InputFault] = []
        # Breadth-first: inputs have their numbers before an operator is compared, so equal keys are equal numbers.
        for name in query.order():
            node = _node(query.operators[name], found)
            # A destination is never shared: each query has its own user.
            there = None if node.kind == "destination" else self._numbers.get(node.key, keys.get(node.key))
            if there is None:
                there = self._next + len(new)
                new[there] = node
                if node.kind != "destination":
                    keys[node.key] = there
            else:
                path = path_text(("queries", query.name, "operators", name))
                faults += _differences(path, node, self._nodes.get(there) or new[there])
            found[name] = there
        raise_if_any(faults)
        return found, new

    def names(self) -> dict[int, str]:
        """Return what the first query of each operator calls it, as query.operator, in the order of the nodes."""
        found: dict[int, str] = {}
        for query, members in self._members.items():
            for name, number in members.items():
                found.setdefault(number, f"{query}.{name}")
        return {number: found[number] for number in self._nodes}

    def graph(self) -> nx.DiGraph[int]:
        """Return a graph of its own for drawing and analysis: operators by number, edges the way that tuples go.

        Nodes have `name`, `kind`, `predicate`, `cost_s`, `selectivity`, `tuple_bytes`, `queries` (how many need it),
        and `window_s` where there is a window.
        """
        graph: nx.DiGraph[int] = nx.DiGraph()
        for (number, node), name in zip(self._nodes.items(), self.names().values(), strict=True):
            window = {} if node.window_s is None else {"window_s": node.window_s}
            graph.add_node(
                number,
                name=name,
                kind=node.kind,
                predicate=node.predicate,
                cost_s=node.cost_s,
                selectivity=node.selectivity,
                tuple_bytes=node.tuple_bytes,
                queries=len(self._users[number]),
                **window,
            )
            graph.add_edges_from((one, number) for one in node.inputs)
        return graph


def _node(operator: Operator, found: Mapping[str, int]) -> Node:
    """Return the node of an operator; `found` has the nodes of its inputs by the query's names."""
    inputs = [found[name] for name in operator.inputs]
    return Node(
        operator.kind,
        operator.predicate,
        operator.window_s,
        tuple(sorted(inputs) if operator.kind == "join" else inputs),
        operator.cost_s,
        operator.selectivity,
        operator.tuple_bytes,
    )


def _differences(path: str, node: Node, there: Node) -> Iterator[InputFault]:
    """Yield the numbers in which an operator differs from the one that it would share."""
    for field, key in (("cost_s", "cost"), ("selectivity", "selectivity"), ("tuple_bytes", "tuple")):
        mine, other = getattr(node, field), getattr(there, field)
        if mine != other:
            rule = f"must be {display.exact(other)}: the same operator has that in a query before"
            yield InputFault(f"{path}.{key}", mine, rule, "give it another predicate if it is another")


@dataclass(frozen=True, eq=False)
class OperatorTable:
    """The graph at one moment, operators by index 0 .. n-1 in the order in which they came.

    `streams` (n_streams): names of source streams, the order of the columns below. `nodes` (n): numbers in the graph.
    `kinds`, `names` (n): type, and query.operator of the first query. `edges` (E, 2): [from, to]. `queries`, `weights`
    (m): names and weights. `operators` (m): indices of the operators of each query, rising. `cost_s` (n,): CPU time of
    a tuple [s]. `tuple_bytes` (n,): size of a tuple that goes out [B].

    `arriving`, `leaving` (n, n_streams): tuples in and out for each tuple of a stream; a destination sends none.
    `received` (n, n_streams): bytes in for each of them. Rates r [1/s] give tuples per second as `arriving @ r`.
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
        """Return the rates of the streams [1/s] in order, (n_streams,); raises InputError if one is missing.

        `given`: rate by name of stream [1/s]; other names are ignored. A rate must be finite and not negative.
        """
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
        """Return the CPUs that each operator uses, (n,), at these rates of the streams [1/s], (n_streams,)."""
        return frozen(self.load_matrix @ rates)

    def network(self, rates: FloatArray) -> FloatArray:
        """Return the bytes that each operator receives and sends [B/s], (n,), at these rates of the streams [1/s]."""
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
    # Insertion order is a topological order, so one pass sums all rates.
    for place, node in enumerate(nodes):  # inputs have come before
        if node.kind == "source":
            stream = streams.index(node.predicate)
            arriving[place, stream] = 1.0
            received[place, stream] = (tuple_bytes or {}).get(node.predicate, node.tuple_bytes)
        for one in node.inputs:
            arriving[place] += leaving[index[one]]
            received[place] += leaving[index[one]] * size[index[one]]
        leaving[place] = 0.0 if node.kind == "destination" else arriving[place] * node.selectivity
    # An operator that reads another twice has one edge to it, but counts its tuples twice.
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
