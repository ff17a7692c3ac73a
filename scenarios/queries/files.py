"""Files of queries: TOML text to queries, the graph that they share, and the rates of its streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from models.checked_arrays import FloatArray
from models.queries.description import QuerySet, query_set_from
from models.queries.graph import OperatorTable, QueryGraph, table_of
from models.queries.operators import Query, queries_from
from scenarios.files.documents import read_document
from scenarios.queries.language import compile_query
from scenarios.queries.templates import workload


@dataclass(frozen=True, eq=False)
class LoadedQueries:
    """The content of a file: its description, its queries, and the table of the operators that they share."""

    query_set: QuerySet
    queries: tuple[Query, ...]
    table: OperatorTable
    rates: FloatArray
    members: Mapping[str, Mapping[str, int]]  # query -> its name of an operator -> node of the table

    @property
    def load(self) -> FloatArray:
        """CPUs that each operator takes, (n,)."""
        return self.table.load(self.rates)

    @property
    def network(self) -> FloatArray:
        """Bytes that each operator receives and sends [B/s], (n,)."""
        return self.table.network(self.rates)


def read_queries(path: str | Path) -> LoadedQueries:
    """Return the queries of a TOML file; raises InputError with all its faults."""
    return loaded(query_set_from(read_document(path, (".toml",), "query")))


def loaded(query_set: QuerySet) -> LoadedQueries:
    """Return the queries of a description, or those that its templates give; raises InputError."""
    if query_set.templates is not None:
        made = workload(query_set.templates, query_set.templates.seed)
        return LoadedQueries(query_set, made.queries, made.table, made.rates, {})
    queries = queries_from(query_set, compile_query)
    graph = QueryGraph(queries)
    table = table_of(graph, {name: one.tuple_bytes for name, one in query_set.streams.items()})
    rates = table.rates({name: one.rate_per_s for name, one in query_set.streams.items()})
    members = {query: dict(graph.members(query)) for query in graph.queries}
    return LoadedQueries(query_set, queries, table, rates, members)
