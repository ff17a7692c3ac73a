"""Documents: the keys and values of a JSON, TOML or NPZ file, and the faults of its keys.

Problems, plans and descriptions of every kind are read here; what a key may hold is the business of each kind.
"""

from __future__ import annotations

import difflib
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from models.errors import NO_VALUE, InputError, InputFault
from scenarios.files.json import read_json, refuse_special
from scenarios.files.scenario import tables_of

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
    if key == "group" or array.ndim == 0:
        return array.tolist()
    if key in _PAIRS and array.size == 0:  # an empty list has lost that its rows would be pairs
        return array.reshape(0, 2)
    array.setflags(write=False)
    return array
