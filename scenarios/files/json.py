"""JSON files: one object each, with numbers that are numbers and keys that are given once; all else is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from models.errors import NO_VALUE, InputError
from models.validation_messages import Step, path_text

_NULL = "write null where there is no value"


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; raises InputError where there is none, also for keys that are given twice."""
    try:
        refuse_special(path)
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError.at("file", str(path), "is not UTF-8 text") from error
    except OSError as error:
        raise InputError.at("file", str(path), f"cannot be read: {error.strerror}") from error
    return json_object(text, str(path))


def refuse_special(path: Path) -> None:
    """Raise InputError for what is neither a plain file nor a directory: a pipe would be waited for without end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError.at("file", str(path), "is not a plain file")


def json_object(text: str, name: str) -> dict[str, Any]:
    """Return the object in a JSON text; raises InputError. `name` is its origin, for messages."""
    too_large: list[str] = []

    def number(digits: str) -> float:
        value = float(digits)
        if math.isinf(value):
            too_large.append(digits)
        return value

    try:
        found = json.loads(
            text, parse_float=number, parse_constant=_no_constant(name), object_pairs_hook=_no_duplicates
        )
        if too_large:
            path = path_text(next(_infinite(found)))
            raise InputError.at(path or "file", too_large[0], "must be a finite number", _NULL)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError.at("file", name, f"is not JSON: {error.msg} at {where}") from error
    except (RecursionError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError.at("file", name, "is no readable JSON: too deep, or a number too long") from error
    if not isinstance(found, dict):
        raise InputError.at("file", name, f"must be a JSON object, is a {type(found).__name__}")
    return found


def _infinite(value: Any, path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """Yield the paths of infinite numbers, in the order of the text."""
    if isinstance(value, float) and math.isinf(value):
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _infinite(each, (*path, key))


def _no_constant(name: str) -> Callable[[str], Any]:
    def refuse(constant: str) -> Any:
        raise InputError.at("file", name, f"holds {constant}, which is not a JSON number", _NULL)

    return refuse


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise InputError.at(twice, NO_VALUE, "is given twice")
    return found
