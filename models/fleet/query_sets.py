"""A description with the queries of a query set: operators that they share, loads that follow the rates of streams."""

from __future__ import annotations

from collections.abc import Iterator

from models.checked_arrays import FloatArray
from models.errors import InputFault, raise_if_any
from models.fleet.description import Fleet, Operator, Query, Source
from models.queries.loads import OperatorTable
from models.schema_types import FrozenMap
from models.validation_messages import nearest_if_shown, path_text


def with_query_set(fleet: Fleet, table: OperatorTable, rates: FloatArray) -> Fleet:
    """Return the description with operators, queries and streams of the table; its own entries take precedence.

    Raises InputError for tables about operators and queries that there are not, and for what the query set decides.
    """
    raise_if_any(_faults(fleet, table))
    streams = table.streams
    operators = {}
    for index, name in enumerate(table.names):
        costs = {stream: float(table.load_matrix[index, k]) for k, stream in enumerate(streams)}
        own = fleet.operator(name) if name in fleet.operators else Operator()
        operators[name] = own.model_copy(update={"cost_s": FrozenMap({s: c for s, c in costs.items() if c})})
    queries = {}
    for name, needs, weight in zip(table.queries, table.operators, table.weights, strict=True):
        found = fleet.query(name) if name in fleet.queries else Query()
        own_weight = found.weight if "weight" in found.model_fields_set else weight
        needed = tuple(table.names[op] for op in needs)
        queries[name] = found.model_copy(update={"operators": needed, "weight": own_weight})
    sources = {name: Source(rate_per_s=float(rate)) for name, rate in zip(streams, rates.tolist(), strict=True)}
    changes = {
        "operators": FrozenMap(operators),
        "queries": FrozenMap(queries),
        "sources": FrozenMap({**sources, **fleet.sources}),
    }
    return fleet.model_copy(update=changes)


def _faults(fleet: Fleet, table: OperatorTable) -> Iterator[InputFault]:
    for key, given, known in (("operators", fleet.operators, table.names), ("queries", fleet.queries, table.queries)):
        for name in given:
            if name not in known:
                rule = f"is not among the {key} of the query set"
                yield InputFault(path_text((key, name)), name, rule, nearest_if_shown(name, known))
    for name in fleet.queries:
        if fleet.query(name).operators:
            yield InputFault(path_text(("queries", name, "operators")), name, "is what the query set says")
    for name in fleet.operators:
        if fleet.operator(name).cost_s:
            yield InputFault(path_text(("operators", name, "cost")), name, "is what the query set says")
