"""Queries as text, in a small part of an event processing language, compiled to operators.

    INSERT INTO averages SELECT compName, avg(tick) FROM ticks WITHIN 600 seconds
    GROUP BY compName WHERE compName = "SAP";

becomes source, filter, aggregation and destination. FROM takes one stream, or two that a join ("a JOIN b ON key") or a
sequence ("a THEN b ON key") brings together; a condition of WHERE that names a stream ("a.price > 10") filters that
stream before they meet, others filter what comes of them. Without an aggregate SELECT is a projection, except of *.
Texts that say the same in other words, case or order of conditions give the same operators, which are then shared.
Source: the example of Adaptive selective replication (VLDB PhD workshop 2013), section 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from models.errors import InputError
from models.queries.description import Kind, OperatorEntry

GRAMMAR = r"""
query: "INSERT"i "INTO"i NAME "SELECT"i columns "FROM"i streams within? clauses ";"?
columns: "*" -> everything
       | column ("," column)* -> columns
column: NAME "(" (field | "*") ")" -> aggregate
      | field -> plain
streams: NAME -> one
       | NAME "JOIN"i NAME "ON"i NAME -> join
       | NAME "THEN"i NAME "ON"i NAME -> sequence
within: "WITHIN"i NUMBER UNIT
clauses: (group | where)*
group: "GROUP"i "BY"i field ("," field)*
where: "WHERE"i condition ("AND"i condition)*
condition: field COMPARISON value
field: NAME ("." NAME)?
value: STRING | SIGNED
COMPARISON: "<=" | ">=" | "!=" | "<" | ">" | "="
UNIT: /(milliseconds?|seconds?|minutes?|hours?|days?|ms|min|s|h|d)\b/i
NAME: /(?!(?:INSERT|INTO|SELECT|FROM|WITHIN|GROUP|BY|WHERE|AND|JOIN|THEN|ON)\b)[A-Za-z_][A-Za-z0-9_]*/i
STRING: /"[^"]*"/ | /'[^']*'/
NUMBER: /\d+(\.\d+)?/
SIGNED: /-?\d+(\.\d+)?/
%import common.WS
%ignore WS
"""
_SECONDS = {"ms": 1e-3, "millisecond": 1e-3, "s": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0}
_SECONDS |= {"h": 3600.0, "hour": 3600.0, "d": 86400.0, "day": 86400.0}
_AGGREGATES = ("avg", "sum", "min", "max", "count")


@dataclass(frozen=True)
class Parsed:
    """The parts of a query; conditions and groups in an order that does not depend on how they were written."""

    into: str
    columns: tuple[str, ...]
    aggregates: tuple[str, ...]
    streams: tuple[str, ...]
    meet: Kind | None
    key: str
    window_s: float | None
    groups: tuple[str, ...]
    conditions: tuple[tuple[str, str], ...]  # (stream or "", condition)


def compile_query(path: str, text: str) -> dict[str, OperatorEntry]:
    """Return the operators of the text of a query; raises InputError, at `path`, with the place of what is no query."""
    return _operators(path, parse(path, text))


def parse(path: str, text: str) -> Parsed:
    """Return the parts of a query; raises InputError at `path`."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedInput  # noqa: PLC0415 - only for texts

    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        where = f"line {error.line}, column {error.column}" if error.line and error.line > 0 else "its end"
        wanted = error.allowed if isinstance(error, UnexpectedCharacters) else getattr(error, "expected", None)
        hint = "expected here: " + ", ".join(sorted(map(_word, wanted))) if wanted else ""
        raise InputError.at(f"{path}, {where}", text.strip(), "is not a query", hint) from None
    found = _Reader(path).read(tree)
    assert isinstance(found, Parsed)
    return found


def _word(terminal: str) -> str:
    named = {"NAME": "a name", "NUMBER": "a number", "STRING": "a text", "UNIT": "a unit of time", "SIGNED": "a number"}
    signs = {"STAR": "*", "COMMA": ",", "SEMICOLON": ";", "LPAR": "(", "RPAR": ")", "DOT": ".", "$END": "the end"}
    return named.get(terminal) or signs.get(terminal) or ("=, <, ..." if terminal == "COMPARISON" else terminal)


@lru_cache(maxsize=1)
def _parser() -> Any:
    from lark import Lark  # noqa: PLC0415 - only for texts

    # Contextual: words such as `s` are units after a number and names elsewhere.
    return Lark(GRAMMAR, start="query", parser="lalr", lexer="contextual")


class _Reader:
    """Reads the tree of a text from its leaves: a method for each rule of the grammar, given what its parts came to."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self, node: Any) -> Any:
        """Return the value of a tree, or of a token."""
        if not hasattr(node, "children"):
            return node
        return getattr(self, str(node.data))([self.read(child) for child in node.children])

    def everything(self, _: list[Any]) -> list[tuple[str, str]]:
        return []

    def columns(self, items: list[Any]) -> list[tuple[str, str]]:
        return items

    def plain(self, items: list[Any]) -> tuple[str, str]:
        return "", items[0]

    def aggregate(self, items: list[Any]) -> tuple[str, str]:
        name = str(items[0]).lower()
        if name not in _AGGREGATES:
            raise InputError.at(self._path, str(items[0]), "must be one of " + ", ".join(_AGGREGATES))
        return name, f"{name}({items[1] if len(items) > 1 else '*'})"

    def field(self, items: list[Any]) -> str:
        return ".".join(map(str, items))

    def value(self, items: list[Any]) -> str:
        text = str(items[0])
        # One spelling for equal values (1 and 1.0, 'a' and "a"): equal predicates are shared operators.
        return f'"{text[1:-1]}"' if text[0] in "\"'" else format(Decimal(text).normalize(), "f")

    def condition(self, items: list[Any]) -> tuple[str, str]:
        field, sign, value = items
        stream, _, own = field.rpartition(".")
        return stream, f"{own} {sign} {value}"

    def within(self, items: list[Any]) -> float:
        number, name = items[0], str(items[1]).lower()
        return float(number) * _SECONDS[name if name in _SECONDS else name.removesuffix("s")]

    def one(self, items: list[Any]) -> tuple[tuple[str, ...], Kind | None, str]:
        return (str(items[0]),), None, ""

    def join(self, items: list[Any]) -> tuple[tuple[str, ...], Kind | None, str]:
        return (str(items[0]), str(items[1])), "join", str(items[2])

    def sequence(self, items: list[Any]) -> tuple[tuple[str, ...], Kind | None, str]:
        return (str(items[0]), str(items[1])), "sequence", str(items[2])

    def group(self, items: list[Any]) -> tuple[str, list[str]]:
        return "group", items

    def where(self, items: list[Any]) -> tuple[str, list[tuple[str, str]]]:
        return "where", items

    def clauses(self, items: list[Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, own in items:
            if name in found:
                word = "GROUP BY" if name == "group" else "WHERE"
                raise InputError.at(self._path, word, "stands there twice", "conditions are joined by AND")
            found[name] = own
        return found

    def query(self, items: list[Any]) -> Parsed:
        into, columns, (streams, meet, key), *rest = items
        return Parsed(
            into=str(into),
            columns=tuple(text for name, text in columns if not name),
            aggregates=tuple(sorted({text for name, text in columns if name})),
            streams=streams,
            meet=meet,
            key=key,
            window_s=rest[0] if len(rest) > 1 else None,
            groups=tuple(sorted(set(rest[-1].get("group", [])))),
            # Sorted and without doubles: AND does not depend on order, and sharing compares texts.
            conditions=tuple(sorted(set(rest[-1].get("where", [])))),
        )


def _operators(path: str, said: Parsed) -> dict[str, OperatorEntry]:
    """Return the operators of a query: sources, filters, join or sequence, filter, then aggregation or projection."""
    _check(path, said)
    found: dict[str, OperatorEntry] = {}
    ends = []
    for number, stream in enumerate(said.streams):
        name = "source" if said.meet is None else f"source_{number + 1}"
        found[name] = OperatorEntry(kind="source", stream=stream)
        # Filters stand as early as they can, right behind their source: less goes into the join, and more is shared.
        own = [text for of, text in said.conditions if of == stream or (not of and said.meet is None)]
        ends.append(_then(found, "filter", " AND ".join(sorted(own)), name, name.replace("source", "filter")))
    last = ends[0]
    if said.meet is not None:
        found[said.meet] = OperatorEntry(
            kind=said.meet, predicate=f"on {said.key}", inputs=tuple(ends), window_s=said.window_s
        )
        rest = " AND ".join(text for of, text in said.conditions if not of)
        last = _then(found, "filter", rest, said.meet, "filter")
    if said.aggregates:
        by = f" by {', '.join(said.groups)}" if said.groups else ""
        entry = OperatorEntry(
            kind="aggregation", predicate=", ".join(said.aggregates) + by, inputs=(last,), window_s=said.window_s
        )
        found["aggregation"], last = entry, "aggregation"
    elif said.columns:
        last = _then(found, "projection", ", ".join(sorted(set(said.columns))), last, "projection")
    found["destination"] = OperatorEntry(kind="destination", stream=said.into, inputs=(last,))
    return found


def _then(found: dict[str, OperatorEntry], kind: Kind, predicate: str, before: str, name: str) -> str:
    """Return the name of one more operator after another; that of the other where it has nothing to do."""
    if not predicate:
        return before
    found[name] = OperatorEntry(kind=kind, predicate=predicate, inputs=(before,))
    return name


def _check(path: str, said: Parsed) -> None:
    """Raise InputError for a query that can be parsed and makes no sense."""
    for of, text in said.conditions:
        if of and of not in said.streams:
            raise InputError.at(path, f"{of}.{text}", f"is about a stream that FROM has not: {', '.join(said.streams)}")
    if said.meet is not None and said.streams[0] == said.streams[1]:
        raise InputError.at(path, said.streams[0], f"cannot be both inputs of a {said.meet}")
    if said.groups and not said.aggregates:
        raise InputError.at(path, "GROUP BY", "needs an aggregate in SELECT", ", ".join(_AGGREGATES))
    loose = [one for one in said.columns if said.aggregates and one not in said.groups]
    if loose:
        raise InputError.at(path, loose[0], "must stand in GROUP BY, or in an aggregate")
    if said.window_s is not None and said.meet is None and not said.aggregates:
        raise InputError.at(path, "WITHIN", "needs an aggregate, JOIN or THEN")
    if said.window_s == 0:
        raise InputError.at(path, "WITHIN 0", "must be longer than zero")
