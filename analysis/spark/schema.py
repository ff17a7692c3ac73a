"""The schema of a trace as text: names and simple types of all its columns, `ts TIMESTAMP, id STRING`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from models.errors import InputError, InputFault, raise_if_any

TYPES = {
    "string": "string", "boolean": "boolean", "date": "date", "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz", "timestamp_ltz": "timestamp", "float": "float", "real": "float",
    "double": "double", "tinyint": "tinyint", "byte": "tinyint", "smallint": "smallint", "short": "smallint",
    "int": "int", "integer": "int", "bigint": "bigint", "long": "bigint",
}  # fmt: skip
INTEGERS = ("tinyint", "smallint", "int", "bigint")
FRACTIONS = ("float", "double")
KEY_TYPES = ("string", *INTEGERS, "boolean")
TIME_TYPES = ("timestamp", "timestamp_ntz", "date", "string")
SIMPLE_TYPES = (*KEY_TYPES, *TIME_TYPES, *FRACTIONS)
NESTED = "nested"
_FITTING = {
    "key": (KEY_TYPES, "must be text, a whole number or a boolean"),
    "time": (TIME_TYPES, "must be a timestamp, a date or text in ISO 8601"),
    "weight": (INTEGERS, "must be a whole number"),
}
_COLUMN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([\w.]+))\s*(?::\s*|\s+)(\w+)\s*(?:,|$)")

Columns = tuple[tuple[str, str], ...]  # (name, one of the values of TYPES) in order


def parse_schema(text: str) -> Columns:
    """Return the columns of a schema in Spark's DDL with simple types. Raises InputError with every fault found.

    >>> parse_schema("ts TIMESTAMP, `tail number` STRING")
    (('ts', 'timestamp'), ('tail number', 'string'))
    """
    columns, faults, place = [], [], 0
    while place < len(text.rstrip()):
        found = _COLUMN.match(text, place)
        if not found:
            hint = f"not so from {text[place:].strip()!r}"
            rule = 'must be columns with types, as in "ts TIMESTAMP, id STRING"'
            raise InputError.at("ingest.schema", text, rule, hint)
        name = found[1].replace("``", "`") if found[1] else found[2]
        kind = TYPES.get(found[3].lower())
        if kind is None:
            known = ", ".join(sorted(set(TYPES.values())))
            faults.append(InputFault(f"ingest.schema.{name}", found[3], f"must be one of {known}"))
        columns.append((name, kind or ""))
        place = found.end()
    times = Counter(name.casefold() for name, _ in columns)
    for name in sorted({name for name, _ in columns if times[name.casefold()] > 1}):
        faults.append(InputFault("ingest.schema", name, "is named more than once"))
    if not columns:
        faults.append(InputFault("ingest.schema", text, "must name at least one column"))
    raise_if_any(faults)
    return tuple(columns)


def type_faults(kinds: Mapping[str, str], options: Mapping[str, str]) -> list[InputFault]:
    """Return faults of the columns of `asked`, by option; `kinds` has the simple type of each column, by name.

    `options` maps an option (key, time, weight) to the column that it names.
    """
    faults = []
    for option, name in options.items():
        kind, (fit, rule) = kinds.get(name), _FITTING[option]
        if kind is None or kind == NESTED:
            faults.append(InputFault(f"ingest.{option}", name, f"{rule}, not a nested or binary column"))
        elif kind not in fit:
            # Spark has both as decimals; a schema makes them what it says, and rows that do not fit bad ones.
            wide = option != "time" and (kind == "uint64" or kind.startswith("decimal"))
            hint = f'give the schema of the columns, as in "{name} BIGINT, ..."' if wide else ""
            called = "uint64, not one of 64 bits with a sign" if kind == "uint64" else kind
            faults.append(InputFault(f"ingest.{option}", name, f"{rule}, it is {called}", hint))
    return faults
