"""Documents: the keys and values of a JSON, TOML or NPZ file, and the faults of its keys.

Problems, plans and descriptions of every kind are read here; what a key may hold is the business of each kind. A JSON
file is one object, with finite numbers and each key given once; all else is refused.
"""

from __future__ import annotations

import difflib
import json
import math
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from models.errors import NO_VALUE, InputError, InputFault
from models.validation_messages import Step, path_text
from scenarios.files.scenario import tables_of

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
    """Return a function that refuses NaN and Infinity, which Python's reader would take."""

    def refuse(constant: str) -> Any:
        raise InputError.at("file", name, f"holds {constant}, which is not a JSON number", _NULL)

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
"""What an archive that is no readable NPZ raises; RuntimeError where it is encrypted or packed in an unknown way."""

_PAIRS = ("forbidden", "anti_affinity")
_NEAR = 0.7  # similarity of two keys from which one may be a slip of the other; `apart` and `capacity` have 0.62


def read_document(path: str | Path, suffixes: tuple[str, ...], noun: str) -> dict[str, Any]:
    """Return key -> value of a file with one of these suffixes; arrays of an NPZ file are read-only.

    `noun` is what a TOML file should be, for messages. Raises InputError for another suffix and for a file that cannot
    be read.
    """
    path = Path(path)
    if path.suffix not in suffixes:
        *others, last = suffixes
        endings = f"{', '.join(others)} or {last}" if others else last
        raise InputError.at("file", path.name, f"must end in {endings}")
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
    try:
        refuse_special(path)
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise InputError.at("file", str(path), "is a single array, not an NPZ archive of arrays")
        # Arrays are unpacked here, one by one: a broken one raises now, with the name of the file at hand.
        with archive:
            return {key: _value(key, archive[key]) for key in archive.files}
    except InputError:
        raise
    except OSError as error:
        raise InputError.at("file", str(path), f"cannot be read: {error.strerror or error}") from error
    except BROKEN as error:
        pickled = "pickle" in str(error).lower()
        reason = "holds pickled objects, which are not read" if pickled else "is broken"
        raise InputError.at("file", str(path), f"{reason}: an NPZ file of plain arrays is needed") from error


def _value(key: str, array: Any) -> Any:
    """Return an array as problems take it: read only, a value where it has no dimensions, `group` as a list."""
    if key == "group" or array.ndim == 0:
        return array.tolist()
    if key in _PAIRS and array.size == 0:  # an empty list has lost that its rows would be pairs
        return array.reshape(0, 2)
    array.setflags(write=False)
    return array
