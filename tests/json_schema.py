"""A checker of JSON schemas, for the keywords that ours have: what an editor would underline."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_SAYS_NOTHING = {"title", "description", "examples", "default", "$schema", "$defs", "discriminator"}
_TYPES = {"object": Mapping, "array": list, "string": str, "boolean": bool, "null": type(None)}


def faults(value: Any, schema: Any, root: Any = None, at: str = "$") -> Iterator[str]:
    """The places where a value is not what the schema says; KeyError for a keyword that is not known here."""
    root = schema if root is None else root
    for keyword, wanted in schema.items():
        if keyword not in _SAYS_NOTHING:
            yield from _KEYWORDS[keyword](value, wanted, schema, root, at)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _has_type(value: Any, name: str) -> bool:
    if name == "number":
        return _is_number(value)
    if name == "integer":
        return _is_number(value) and float(value).is_integer()
    return isinstance(value, _TYPES[name])


def _type(value, name, schema, root, at):  # type: ignore[no-untyped-def]
    if not _has_type(value, name):
        yield f"{at}: no {name}"


def _ref(value, name, schema, root, at):  # type: ignore[no-untyped-def]
    yield from faults(value, root["$defs"][name.removeprefix("#/$defs/")], root, at)


def _any(value, options, schema, root, at):  # type: ignore[no-untyped-def]
    if all(next(faults(value, option, root, at), None) for option in options):
        yield f"{at}: none of {len(options)} alternatives"


def _one(value, options, schema, root, at):  # type: ignore[no-untyped-def]
    fitting = sum(next(faults(value, option, root, at), None) is None for option in options)
    if fitting != 1:
        yield f"{at}: {fitting} of {len(options)} alternatives"


def _properties(value, known, schema, root, at):  # type: ignore[no-untyped-def]
    for key, inner in known.items() if isinstance(value, Mapping) else ():
        if key in value:
            yield from faults(value[key], inner, root, f"{at}.{key}")


def _others(value, wanted, schema, root, at):  # type: ignore[no-untyped-def]
    for key in value if isinstance(value, Mapping) else ():
        if key in schema.get("properties", {}):
            continue
        if wanted is False:
            yield f"{at}.{key}: not known"
        elif wanted is not True:
            yield from faults(value[key], wanted, root, f"{at}.{key}")


def _names(value, wanted, schema, root, at):  # type: ignore[no-untyped-def]
    for key in value if isinstance(value, Mapping) else ():
        yield from faults(key, wanted, root, f"{at}: name {key}")


def _pattern_properties(value, wanted, schema, root, at):  # type: ignore[no-untyped-def]
    for key in value if isinstance(value, Mapping) else ():
        for pattern, inner in wanted.items():
            if re.search(pattern, key):
                yield from faults(value[key], inner, root, f"{at}.{key}")


def _required(value, keys, schema, root, at):  # type: ignore[no-untyped-def]
    yield from (f"{at}.{key}: missing" for key in keys if isinstance(value, Mapping) and key not in value)


def _items(value, wanted, schema, root, at):  # type: ignore[no-untyped-def]
    for index, one in enumerate(value if isinstance(value, list) else ()):
        yield from faults(one, wanted, root, f"{at}[{index}]")


def _first_items(value, wanted, schema, root, at):  # type: ignore[no-untyped-def]
    for index, (one, inner) in enumerate(zip(value, wanted, strict=False) if isinstance(value, list) else ()):
        yield from faults(one, inner, root, f"{at}[{index}]")


def _bound(applies, holds):  # type: ignore[no-untyped-def]
    def check(value, wanted, schema, root, at):  # type: ignore[no-untyped-def]
        if applies(value) and not holds(value, wanted):
            yield f"{at}: beyond {wanted}"

    return check


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


_KEYWORDS = {
    "type": _type,
    "$ref": _ref,
    "anyOf": _any,
    "oneOf": _one,
    "properties": _properties,
    "additionalProperties": _others,
    "patternProperties": _pattern_properties,
    "propertyNames": _names,
    "required": _required,
    "items": _items,
    "prefixItems": _first_items,
    "const": _bound(lambda value: True, lambda value, wanted: value == wanted and type(value) is type(wanted)),
    "enum": _bound(lambda value: True, lambda value, wanted: any(value == one for one in wanted)),
    "minimum": _bound(_is_number, lambda value, wanted: value >= wanted),
    "maximum": _bound(_is_number, lambda value, wanted: value <= wanted),
    "exclusiveMinimum": _bound(_is_number, lambda value, wanted: value > wanted),
    "exclusiveMaximum": _bound(_is_number, lambda value, wanted: value < wanted),
    "minItems": _bound(_is_list, lambda value, wanted: len(value) >= wanted),
    "maxItems": _bound(_is_list, lambda value, wanted: len(value) <= wanted),
    "minLength": _bound(_is_text, lambda value, wanted: len(value) >= wanted),
    "maxLength": _bound(_is_text, lambda value, wanted: len(value) <= wanted),
    "pattern": _bound(_is_text, lambda value, wanted: re.search(wanted, value) is not None),
}
