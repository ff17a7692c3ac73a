"""Operators of continuous queries, the rules that make a graph of them a query, and how a file becomes queries.

Source: Adaptive selective replication (VLDB PhD workshop 2013), section 2.1. An operator has a type, a predicate and
one or two inputs; a source has a stream in place of them, a destination ends a query.

`models.queries.description` is a file as it is written; `queries_from` makes queries of it. The text of a query is
compiled by a function that the caller passes, since the compiler is in `scenarios.queries`.

`cycles` is used by other packages, too, for their graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import networkx as nx

from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.queries.description import KINDS, Kind, KindDefaults, OperatorEntry, QueryEntry, QuerySet
from models.validation_messages import nearest_if_shown, path_text

N = TypeVar("N", bound=Hashable)


def cycles(graph: nx.DiGraph[N]) -> list[list[N]]:
    """Return one cycle for each set of nodes that reach each other, from its first node on and back to that.

    First nodes, and the cycles, are in the order of the graph.

    >>> cycles(nx.DiGraph([("a", "b"), ("b", "c"), ("c", "b"), ("d", "d")]))
    [['b', 'c', 'b'], ['d', 'd']]

    The graph has none if and only if the result is empty. Each cycle is one of the shortest through its first node.
    """
    place = {node: index for index, node in enumerate(graph)}
    found = []
    for nodes in nx.strongly_connected_components(graph):
        first = min(nodes, key=place.__getitem__)
        if len(nodes) > 1 or graph.has_edge(first, first):
            within = graph.subgraph(nodes)
            # A shortest cycle through the first node: the message shows as few names as possible.
            back = min(within.predecessors(first), key=place.__getitem__)
            found.append([*nx.shortest_path(within, first, back), first])
    return sorted(found, key=lambda cycle: place[cycle[0]])


INPUTS: dict[str, int] = {
    "source": 0,
    "projection": 1,
    "filter": 1,
    "aggregation": 1,
    "sequence": 2,
    "join": 2,
    "destination": 1,
}
WINDOWED = ("aggregation", "sequence", "join")
NO_PREDICATE = ("source", "destination")  # what stands there is the name of a stream


@dataclass(frozen=True)
class Operator:
    """One operator of a query; `inputs` are names of operators of the same query.

    `kind`: a key of INPUTS. `predicate`: what it does with tuples; of a source and a destination the stream.
    `window_s`: length of its window [s], for the kinds of WINDOWED. `cost_s`: CPU time of a tuple [s]. `selectivity`:
    tuples out for each that comes in, on all inputs together. `tuple_bytes`: size of one that goes out [B].
    """

    kind: Kind
    predicate: str = ""
    inputs: tuple[str, ...] = ()
    window_s: float | None = None
    cost_s: float = 0.0
    selectivity: float = 1.0
    tuple_bytes: float = 0.0


@dataclass(frozen=True)
class Query:
    """A query: its operators by name, and its weight in means over queries.

    The operators form a graph without cycles, in which each path leads from a source to a destination.

    Raises InputError with every fault: unknown types and inputs, wrong numbers of inputs, cycles, operators whose
    tuples nobody takes, numbers out of range.
    """

    name: str
    operators: Mapping[str, Operator]
    weight: float = 1.0

    def __post_init__(self) -> None:
        raise_if_any(self._faults())

    def graph(self) -> nx.DiGraph[str]:
        """Return the operators, in the order of the query, with an edge from each of its inputs to each."""
        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(self.operators)
        graph.add_edges_from((one, name) for name, operator in self.operators.items() for one in operator.inputs)
        return graph

    def order(self) -> list[str]:
        """Return the operators breadth-first from the sources: each after its inputs, nearest first."""
        place = {name: index for index, name in enumerate(self.operators)}
        levels = nx.topological_generations(self.graph())
        return [name for level in levels for name in sorted(level, key=place.__getitem__)]

    def _faults(self) -> Iterator[InputFault]:
        """Yield the faults of the operators one by one, then those of the graph."""
        path = path_text(("queries", self.name))
        if not (0 < self.weight < math.inf):
            yield InputFault(f"{path}.weight", self.weight, "must be positive and finite")
        if not self.operators:
            yield InputFault(f"{path}.operators", NO_VALUE, "must have an operator at least")
            return
        taken = {one for operator in self.operators.values() for one in operator.inputs}
        for name, operator in self.operators.items():
            where = path_text(("queries", self.name, "operators", name))
            yield from _own_faults(where, operator)
            yield from self._input_faults(where, operator)
            # Only destinations end a query: what nobody takes is most probably a forgotten line.
            if operator.kind != "destination" and name not in taken:
                yield InputFault(
                    where, operator.kind, "has no one to send its tuples to", "end the query in a destination"
                )
        yield from self._cycles(path)

    def _input_faults(self, where: str, operator: Operator) -> Iterator[InputFault]:
        """Yield a wrong number of inputs, and inputs that do not exist or send nothing."""
        needed = INPUTS.get(operator.kind)
        if needed is not None and len(operator.inputs) != needed:
            rule = f"of a {operator.kind} must be {needed}"
            yield InputFault(f"{where}.inputs", len(operator.inputs), rule)
        for index, one in enumerate(operator.inputs):
            if one not in self.operators:
                yield InputFault(
                    f"{where}.inputs[{index}]", one, "is no operator", nearest_if_shown(one, self.operators)
                )
            elif self.operators[one].kind == "destination":
                yield InputFault(f"{where}.inputs[{index}]", one, "is a destination, which sends nothing on")

    def _cycles(self, path: str) -> Iterator[InputFault]:
        """Yield one fault for each set of operators that feed each other."""
        for cycle in cycles(self.graph()):
            yield InputFault(f"{path}.operators", " -> ".join(cycle), "must not feed each other in a circle")


def _own_faults(where: str, operator: Operator) -> Iterator[InputFault]:
    """Yield the faults of an operator by itself: kind, stream, window and numbers."""
    if operator.kind not in KINDS:
        yield InputFault(
            f"{where}.kind", operator.kind, "must be one of " + ", ".join(KINDS), nearest_if_shown(operator.kind, KINDS)
        )
    if operator.kind == "source" and not operator.predicate:
        yield InputFault(f"{where}.stream", NO_VALUE, "is missing: a source needs one")
    if operator.window_s is not None and operator.kind not in WINDOWED:
        yield InputFault(f"{where}.window", operator.window_s, "is for " + ", ".join(WINDOWED))
    if operator.window_s is not None and not (0 < operator.window_s < math.inf):
        yield InputFault(f"{where}.window", operator.window_s, "must be longer than zero")
    for name, value in (
        ("cost", operator.cost_s),
        ("selectivity", operator.selectivity),
        ("tuple", operator.tuple_bytes),
    ):
        if not (0 <= value < math.inf):
            yield InputFault(f"{where}.{name}", value, "must be finite and not negative")


Compile = Callable[[str, str], Mapping[str, OperatorEntry]]  # (path, text of a query) -> its operators


def queries_from(query_set: QuerySet, compiled: Compile) -> tuple[Query, ...]:
    """Return the queries of a file in its order.

    `compiled`: (path, text of a query) -> its operators by name; it raises InputError with faults below that path. It
    is called for queries that have a `text` in place of operators.

    Raises InputError with the faults of all queries.
    """
    faults: list[InputFault] = []
    found: list[Query] = []
    for name, entry in query_set.queries.items():
        path = path_text(("queries", name))
        # Query by query: later steps need what the earlier ones checked, and each query reports its own faults.
        try:
            raise_if_any(_entry_faults(path, entry))
            entries = compiled(f"{path}.text", entry.text) if entry.text else entry.operators
            raise_if_any(_stream_faults(path, entries, query_set))
            operators = {key: _operator(one, query_set) for key, one in entries.items()}
            found.append(Query(name, operators, entry.weight))
        except InputError as error:
            faults += error.faults
    raise_if_any(faults)
    return tuple(found)


def _entry_faults(path: str, entry: QueryEntry) -> Iterator[InputFault]:
    """Yield a query that has both operators and a text, or neither."""
    if entry.operators and entry.text:
        yield InputFault(f"{path}.text", entry.text, "must not be given beside operators")
    if not entry.operators and not entry.text:
        yield InputFault(path, NO_VALUE, "is empty: it must have operators or a text")


def _stream_faults(path: str, entries: Mapping[str, OperatorEntry], query_set: QuerySet) -> Iterator[InputFault]:
    """Yield unknown streams, and streams and predicates of operators that have none."""
    for name, entry in entries.items():
        where = f"{path}.operators.{name}"
        if entry.kind == "source" and entry.stream and entry.stream not in query_set.streams:
            yield InputFault(
                f"{where}.stream", entry.stream, "is no stream", nearest_if_shown(entry.stream, query_set.streams)
            )
        if entry.stream and entry.kind not in NO_PREDICATE:
            yield InputFault(f"{where}.stream", entry.stream, "is for sources and destinations")
        if entry.predicate and entry.kind in NO_PREDICATE:
            yield InputFault(f"{where}.predicate", entry.predicate, f"is not for a {entry.kind}")


def _operator(entry: OperatorEntry, query_set: QuerySet) -> Operator:
    """Return an operator with the defaults of its kind, and of its stream, for all that the file leaves out."""
    own = query_set.kinds.get(entry.kind, KindDefaults())
    size = own.tuple_bytes if entry.tuple_bytes is None else entry.tuple_bytes
    # An operator's own size first, then that of its stream, then that of its kind.
    if entry.kind == "source" and entry.tuple_bytes is None and entry.stream in query_set.streams:
        size = query_set.streams[entry.stream].tuple_bytes
    return Operator(
        entry.kind,
        entry.stream if entry.kind in NO_PREDICATE else entry.predicate,
        entry.inputs,
        entry.window_s,
        own.cost_s if entry.cost_s is None else entry.cost_s,
        own.selectivity if entry.selectivity is None else entry.selectivity,
        size,
    )
