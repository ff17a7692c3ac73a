"""JSON documents of frozen dataclasses: keys are the names of fields, in their order.

A field whose key is no name that Python allows has it beside its type: `origin: Annotated[str, "from"]`.

The pair is used for the summary of a run: typed in Python, plain in files and on stdout, and equal after both ways.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_document(value: Any) -> Any:
    """Return the value as plain dicts, lists, texts, numbers and None, ready for JSON.

    >>> from dataclasses import make_dataclass
    >>> Point = make_dataclass("Point", [("x", int), ("tags", tuple)])
    >>> to_document(Point(1, ("a", "b")))
    {'x': 1, 'tags': ['a', 'b']}
    """
    # Dataclasses are neither mappings nor sequences: asked first, so that a field decides its own key.
    if is_dataclass(value):
        return {key: to_document(getattr(value, name)) for name, key, _ in _fields(type(value))}  # type: ignore[arg-type]
    if isinstance(value, Mapping):
        return {name: to_document(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_document(inner) for inner in value]
    return value


def from_document(kind: type[T], document: Mapping[str, Any]) -> T:
    """Return the dataclass of which this is the document; raises KeyError where a key is missing.

    It is the inverse of `to_document` for classes of which every field has a type: lists become tuples again. Keys that
    no field has are ignored.
    """
    return kind(**{name: _value(inner, document[key]) for name, key, inner in _fields(kind)})  # type: ignore[arg-type]


def _value(kind: Any, value: Any) -> Any:
    """Return the value of a field of this type from its JSON form; None stays None."""
    if value is None:
        return None
    # Only `X | None` occurs: None itself has been dealt with.
    if get_origin(kind) is types.UnionType:
        kind = next(one for one in get_args(kind) if one is not types.NoneType)
    if is_dataclass(kind):
        return from_document(kind, value)  # type: ignore[arg-type]
    inner = get_args(kind)
    if isinstance(value, Mapping):
        return {name: _value(inner[1], one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        # JSON has lists; frozen dataclasses hold tuples.
        return tuple(_value(inner[0], one) for one in value)
    return value


@cache
def _fields(kind: Any) -> tuple[tuple[str, str, Any], ...]:
    """Return name, key and type of each field."""
    hints = get_type_hints(kind, include_extras=True)
    split = [(one.name, hints[one.name]) for one in fields(kind)]
    return tuple(
        (name, hint.__metadata__[0], hint.__origin__) if get_origin(hint) is Annotated else (name, name, hint)
        for name, hint in split
    )
