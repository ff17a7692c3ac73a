"""Documents: the keys and values of a JSON, TOML or NPZ file, and the faults of its keys.

Problems, plans and descriptions of every kind are read here; what a key may hold is the business of each kind. A JSON
file is one object, with finite numbers and each key given once; all else is refused.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import stat
import tokenize
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.errors import NO_VALUE, InputError, InputFault
from models.validation_messages import Step, path_text

_NULL = "write null where there is no value"
_JSON_NAMES = {
    type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list",
}  # fmt: skip
_LARGEST_TOML = 10_000_000  # bytes
_PLACE = re.compile(r"\s*\(at line (\d+), column (\d+)\)$")
_QUOTED = re.compile(r" \(.*\)|(?<= table key) .*", re.DOTALL)  # keys of the file, which may be a foreign one


# -- a file that is there, and its text


def refuse_unreadable(path: Path) -> None:
    """Raise InputError for a file that is missing, a directory, or no plain file: reading a pipe could wait forever.

    All commands refuse files by this function, or `unreadable`, so that they do it in the same words.
    """
    try:
        found = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    if stat.S_ISDIR(found):
        raise InputError.at(str(path), NO_VALUE, "is a directory", "name a file")
    if not stat.S_ISREG(found):
        raise InputError.at(str(path), NO_VALUE, "is not a plain file")


def unreadable(path: Path, error: Exception) -> InputError:
    """Return the error for a file that the system does not give; ValueError stands for a null byte in its name."""
    reason = getattr(error, "strerror", None) or ("not a file name" if isinstance(error, ValueError) else str(error))
    return InputError.at(str(path), NO_VALUE, "cannot be read", reason.lower())


def refuse_suffix(path: Path, suffixes: Sequence[str]) -> None:
    """Raise InputError for a file whose name ends in none of the suffixes."""
    if path.suffix not in suffixes:
        *others, last = suffixes
        endings = f"{', '.join(others)} or {last}" if others else last
        raise InputError.at(str(path), NO_VALUE, f"must end in {endings}")


def read_text(path: Path, most: int | None = None) -> str:
    """Return the text of a file in UTF-8, without a byte order mark.

    Raises InputError where it cannot be read, has more than `most` bytes, or is no UTF-8, with the line of the first
    byte that is none.
    """
    refuse_unreadable(path)
    try:
        with path.open("rb") as file:
            data = file.read(-1 if most is None else most + 1)
    except OSError as error:
        raise unreadable(path, error) from None
    if most is not None and len(data) > most:
        raise InputError.at(str(path), NO_VALUE, f"is larger than {most // 10**6} MB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError.at(f"{path}:{line}", NO_VALUE, "is not text in UTF-8") from None


# -- TOML


def tables_of(path: Path, noun: str = "scenario") -> dict[str, Any]:
    """Return the tables of a TOML file; raises InputError where it cannot be read, with the line at fault.

    `noun` is what the file should be, for messages.
    """
    text = read_text(path, _LARGEST_TOML)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(str(path), str(error)) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or thousands of nested tables
        raise InputError.at(str(path), NO_VALUE, f"is not a {noun}: a value in it is too large or too deep") from None


def _syntax_error(shown: str, message: str) -> InputError:
    place = _PLACE.search(message)
    where = f"{shown}:{place[1]}" if place else shown
    reason = _QUOTED.sub("", _PLACE.sub("", message)) or "invalid"
    return InputError.at(where, NO_VALUE, "is not TOML", reason[:1].lower() + reason[1:])


# -- JSON


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; raises InputError where there is none, also for keys that are given twice."""
    return json_object(read_text(path), str(path))


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
            raise InputError.at(path or name, too_large[0], "must be a finite number", _NULL)
    except json.JSONDecodeError as error:
        reason = f"{error.msg[:1].lower()}{error.msg[1:]} at column {error.colno}"
        raise InputError.at(f"{name}:{error.lineno}", NO_VALUE, "is not JSON", reason) from error
    except (RecursionError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError.at(name, NO_VALUE, "is no readable JSON: too deep, or a number too long") from error
    if not isinstance(found, dict):
        raise InputError.at(name, NO_VALUE, "must be a JSON object", f"it is {_JSON_NAMES[type(found)]}")
    return found


def _infinite(value: Any, path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """Yield the paths of infinite numbers, in the order of the text."""
    if isinstance(value, float) and math.isinf(value):
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _infinite(each, (*path, key))


def _no_constant(name: str) -> Callable[[str], Any]:
    """Return a function that refuses NaN and Infinity, which Python's reader would take."""

    def refuse(constant: str) -> Any:
        raise InputError.at(name, NO_VALUE, f"holds {constant}, which is not a JSON number", _NULL)

    return refuse


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these pairs; raises InputError for a key that is given twice."""
    found = dict(pairs)
    # JSON allows a key twice and readers keep the last: one of the two values would be ignored in silence.
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise InputError.at(twice, NO_VALUE, "is given twice")
    return found


_ZIP = (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error)
_HEAD = (SyntaxError, tokenize.TokenError, TypeError)  # numpy reads the head of an array as Python
BROKEN = (ValueError, EOFError, KeyError, RuntimeError, MemoryError, *_ZIP, *_HEAD)
"""Errors of an archive that is no readable NPZ; RuntimeError if it is encrypted or packed in an unknown way."""

_ARCHIVE, _ARRAY = b"PK", b"\x93NUMPY"  # the first bytes of an NPZ and of an NPY file
_PAIRS = ("forbidden", "anti_affinity")
_NEAR = 0.7  # similarity of two keys from which one may be a slip of the other; `apart` and `capacity` have 0.62


def read_document(path: str | Path, suffixes: tuple[str, ...], noun: str) -> dict[str, Any]:
    """Return key -> value of a file with one of these suffixes; arrays of an NPZ file are read-only.

    `noun` is what a TOML file should be, for messages. Raises InputError for another suffix and for a file that cannot
    be read.
    """
    path = Path(path)
    refuse_suffix(path, suffixes)
    if path.suffix == ".toml":
        return tables_of(path, noun)
    return read_arrays(path) if path.suffix == ".npz" else read_json(path)


def key_faults(
    found: Mapping[str, Any], known: Collection[str], needed: Iterable[str] = (), *, noun: str, at: str = ""
) -> Iterator[InputFault]:
    """Yield a fault for each key that is not known, with the known key that it is near to, and for each missing one.

    A key whose value is null is missing. `at` stands before the keys in messages.
    """
    for key in found:
        if key not in known:
            # Cut: comparing takes quadratic time, and a key may be megabytes long.
            near = difflib.get_close_matches(key[:80], known, n=1, cutoff=_NEAR)
            hint = f"did you mean {near[0]}?" if near else ""
            yield InputFault(at + key, NO_VALUE, f"is not a key of a {noun}", hint)
    for key in needed:
        if found.get(key) is None:
            yield InputFault(at + key, NO_VALUE, "is missing")


def read_arrays(path: Path) -> dict[str, Any]:
    """Return name -> array of an NPZ file, never unpickled; what has no dimensions is a value. Raises InputError."""
    refuse_unreadable(path)
    try:
        # Asked of the first bytes: numpy takes any other file for a pickled object, and says so.
        with path.open("rb") as file:
            first = file.read(len(_ARRAY))
        if first == _ARRAY:
            raise _no_archive(path, "it is a single array")
        if not first.startswith(_ARCHIVE):
            raise _no_archive(path, "it is no archive")
        # Arrays are unpacked here, one by one: a broken one raises now, with the name of the file at hand.
        with np.load(path, allow_pickle=False) as archive:
            return {key: _value(key, archive[key]) for key in archive.files}
    except InputError:
        raise
    except OSError as error:
        raise unreadable(path, error) from error
    except BROKEN as error:
        pickled = "pickle" in str(error).lower()
        raise _no_archive(
            path, "it holds pickled objects, which are not read" if pickled else "it is broken"
        ) from error


def _no_archive(path: Path, reason: str) -> InputError:
    return InputError.at(str(path), NO_VALUE, "must be an NPZ file of plain arrays", reason)


def _value(key: str, array: Any) -> Any:
    """Return an array as problems take it: read only, a value where it has no dimensions, `group` as a list."""
    if key == "group" or array.ndim == 0:
        return array.tolist()
    if key in _PAIRS and array.size == 0:  # an empty list has lost that its rows would be pairs
        return array.reshape(0, 2)
    array.setflags(write=False)
    return array
