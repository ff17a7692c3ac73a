"""The global query graph: all queries at once; equal operators are merged, and released when no query needs them.

Incremental multi-query optimisation: a new query is merged breadth-first from the sources. An operator is shared if
type, predicate, window and inputs are equal. The inputs of a join have no order, those of a sequence have. Destinations
are never shared. Source: Adaptive selective replication (VLDB PhD workshop 2013), section 2.1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import networkx as nx

from models import display
from models.errors import InputError, InputFault, raise_if_any
from models.queries.description import Kind
from models.queries.operators import Operator, Query
from models.validation_messages import nearest, path_text

Key = tuple[str, str, float | None, tuple[int, ...]]


@dataclass(frozen=True)
class Node:
    """An operator of the graph: `inputs` are numbers of others; `names` says what its queries call it."""

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
        """Remove a query; return the numbers of the operators that no query needs any more. Raises InputError."""
        if name not in self._queries:
            raise InputError.at(path_text(("queries", name)), name, "is no query", nearest(name, self._queries))
        released = []
        for number in dict.fromkeys(self._members.pop(name).values()):
            users = self._users[number]
            del users[name]
            if not users:
                released.append(number)
        for number in released:
            node = self._nodes.pop(number)
            del self._users[number]
            if node.kind != "destination":
                del self._numbers[node.key]
        del self._queries[name]
        return tuple(released)

    def _merged(self, query: Query) -> tuple[dict[str, int], dict[int, Node]]:
        found: dict[str, int] = {}
        new: dict[int, Node] = {}
        keys: dict[Key, int] = {}
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

    def canonical(self) -> dict[str, tuple[str, ...]]:
        """Return the graph without numbers: digest of each operator, down to its sources -> its queries, sorted.

        Two graphs are equal when these are, however they came about.
        """
        digests: dict[int, str] = {}
        for number, node in self._nodes.items():  # inputs have come before
            inputs = [digests[one] for one in node.inputs]
            own = sorted(inputs) if node.kind == "join" else inputs
            user = next(iter(self._users[number])) if node.kind == "destination" else ""
            name = self._destination(number, user) if user else ""
            words = (
                node.kind,
                node.predicate,
                node.window_s,
                node.cost_s,
                node.selectivity,
                node.tuple_bytes,
                own,
                user,
                name,
            )
            digests[number] = hashlib.blake2b(repr(words).encode(), digest_size=16).hexdigest()
        return {digest: tuple(sorted(self._users[number])) for number, digest in digests.items()}

    def _destination(self, number: int, user: str) -> str:
        return next(name for name, one in self._members[user].items() if one == number)


def _node(operator: Operator, found: Mapping[str, int]) -> Node:
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
    for field, key in (("cost_s", "cost"), ("selectivity", "selectivity"), ("tuple_bytes", "tuple")):
        mine, other = getattr(node, field), getattr(there, field)
        if mine != other:
            rule = f"must be {display.exact(other)}: the same operator has that in a query before"
            yield InputFault(f"{path}.{key}", mine, rule, "give it another predicate if it is another")
