"""Infer the fields of a file of JSON lines from its first lines; fields of inner objects have dotted paths."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from models.errors import InputError

LINES = 1000
"""So many are looked at; what no row of them has is null in all of them."""
MOST_COLUMNS = 1000
SHORT_GZIP = "the gzip file ends too early"
_LONGEST_LINE = 1_000_000
_NESTED = "nested"
_HINT = "one object per line: jq -c '.[]' makes lines of an array"


def columns_of(path: Path) -> tuple[tuple[str, str], ...]:
    """The columns with their types, by Spark's names, in order of appearance.

    A column's type is that of most of its values, and double where whole numbers and others mix; lists are left out.
    Raises InputError for a file without an object in a line.
    """
    kinds: dict[str, Counter[str]] = {}
    found = 0
    for number, line in enumerate(_lines(path)):
        if number == 0 and line.lstrip().startswith("["):
            raise InputError.at("ingest.files", str(path), "begins with an array, not with an object", _HINT)
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue  # one bad line is a bad row
        if isinstance(row, dict):
            found += 1
            _note(row, "", kinds)
    if not found:
        rule = f"has no JSON object in one of its first {LINES} lines"
        raise InputError.at("ingest.files", str(path), rule, _HINT)
    if len(kinds) > MOST_COLUMNS:
        rule = f"has more than {MOST_COLUMNS} different fields in its first {LINES} lines"
        raise InputError.at("ingest.files", str(path), rule, "its names must not be data")
    simple = {name: _kind(values) for name, values in kinds.items()}
    return tuple((name, kind) for name, kind in simple.items() if kind != _NESTED and _in_objects(name, simple))


def _lines(path: Path) -> Iterator[str]:
    try:
        with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb") as file:
            empty = True
            for number in range(LINES):
                line = file.readline(_LONGEST_LINE)
                if not line:
                    break
                empty = False
                yield line.decode("utf-8-sig" if number == 0 else "utf-8", "replace")
    except EOFError:
        raise InputError.at("ingest.files", str(path), f"cannot be read: {SHORT_GZIP}") from None
    if empty:
        raise InputError.at("ingest.files", str(path), "is empty")


def _note(row: Mapping[str, Any], before: str, kinds: dict[str, Counter[str]]) -> None:
    """Add what kinds of values the fields have; names that a dotted path cannot tell are left out."""
    for field, value in row.items():
        if not field or "." in field:
            continue
        name = before + field
        known = kinds.setdefault(name, Counter())
        if isinstance(value, dict):
            known[_NESTED] += 1
            _note(value, name + ".", kinds)
        elif value is not None:
            known[_KINDS.get(type(value), _NESTED)] += 1


_KINDS = {str: "string", bool: "boolean", int: "bigint", float: "double"}


def _kind(kinds: Counter[str]) -> str:
    """The type of a field: that of most values. Of a field that is always null, text."""
    most = max(kinds, key=lambda kind: kinds[kind], default="string")
    return "double" if most == "bigint" and kinds["double"] else most


def _in_objects(name: str, kinds: Mapping[str, str]) -> bool:
    """Return whether all that the field is part of are objects."""
    parts = name.split(".")
    return all(kinds[".".join(parts[:count])] == _NESTED for count in range(1, len(parts)))


def held_by_others(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of columns (whole, part): a row cannot have both."""
    known = set(names)
    paths = ((name, name[:place]) for name in names for place, letter in enumerate(name) if letter == ".")
    return [(whole, name) for name, whole in paths if whole in known]


def structure(names: Sequence[str]) -> dict[str, Any]:
    """Return names as fields within fields: those at the end are None."""
    tree: dict[str, Any] = {}
    for name in names:
        *parents, last = name.split(".")
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = None
    return tree
