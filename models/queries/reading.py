"""From the description of a file to queries, with the numbers of their kinds where operators say nothing.

`models.queries.description` is the file as it is written; `models.queries.operators` is what it means. The text of a
query is compiled by a function that the caller passes, since the compiler is in `scenarios.queries`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.queries.description import KindDefaults, OperatorEntry, QueryEntry, QuerySet
from models.queries.operators import NO_PREDICATE, Operator, Query
from models.validation_messages import nearest_if_shown, path_text

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
