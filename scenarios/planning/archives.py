"""Plans as NPZ archives: the arrays as arrays, all else as the JSON document that they are taken from."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from models.errors import InputError, named
from scenarios.files.json import json_object

_ARRAYS = ("assignment", "node_loads", "prices", "multipliers")
_NOWHERE = -1


def packed(document: dict[str, Any]) -> bytes:
    """The archive of a plan's document, as `plan_to_dict` makes it."""
    rest = {key: value for key, value in document.items() if key not in _ARRAYS or value is None}
    arrays = {key: _array(key, document[key]) for key in _ARRAYS if document.get(key) is not None}
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, plan=np.array(json.dumps(rest, allow_nan=False)), **arrays)
    return file.getvalue()


def unpacked(arrays: dict[str, Any], name: str) -> dict[str, Any]:
    """The document of an archive that was read; InputError when it is none of a plan."""
    text = arrays.get("plan")
    if not isinstance(text, str):
        rule = "is no plan: its array `plan` must hold the document of a plan as JSON text"
        raise InputError.at("file", name, rule)
    with named("plan"):
        document = json_object(text, name)
    for key in _ARRAYS:
        if key in arrays:
            document[key] = _listed(key, arrays[key])
    return document


def _array(key: str, values: list[Any]) -> np.ndarray:
    if key == "assignment":
        return np.array([_NOWHERE if value is None else value for value in values], dtype=np.int64)
    return np.array(values, dtype=np.float64)


def _listed(key: str, array: Any) -> Any:
    values = array.tolist() if isinstance(array, np.ndarray) else array
    if key == "assignment" and isinstance(values, list):
        return [None if value == _NOWHERE else value for value in values]
    return values
