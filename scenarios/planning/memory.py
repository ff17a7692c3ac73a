"""How much memory a planning problem will take, from the head of its file: told before anything is read."""

from __future__ import annotations

import math
import os
import zipfile
from pathlib import Path

import numpy as np

from models import display
from models.errors import InputError
from scenarios.files.documents import BROKEN

_JSON = 8.0  # bytes of memory for each byte of a JSON file while it is read: Python's numbers are large
_PAIR = 2.0  # bytes for each pair beside its cost: what is allowed, and what is looked at
_CHECKPOINT = 2_500.0  # bytes for each checkpoint: its best nodes with costs, loads and shares
_FIXED = 250e6
_EACH = {
    "selection": ("value", 300.0),
    "queries": ("uses", 1_500.0),
    "steps": ("moves", 700.0),
    "placement": ("cpu", 1_200.0),
}
"""Bytes for each level of an operator, pair of query and operator, move, instance, while it is planned (measured)."""
_SHORTEST = 20.0  # bytes in a JSON file of what one of these takes there
_SHARE = 0.8  # of the machine's memory, when nothing is said


def machine_memory() -> float:
    """Return the bytes that a plan may take when nothing is said: a share of what the machine has."""
    try:
        return _SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # a system that does not tell
        return math.inf


def needed_bytes(path: Path, kind: str = "checkpoints") -> float:
    """Return the estimate for a problem file of a kind [B]; 0 for a file that cannot be read: its reader says why."""
    array, each = _EACH.get(kind, ("", 0.0))
    try:
        if path.suffix != ".npz":
            return _FIXED + (_JSON + each / _SHORTEST) * path.stat().st_size
        if not path.is_file():
            return 0.0
        with zipfile.ZipFile(path) as archive:
            arrays = {name: _head(archive, name) for name in archive.namelist() if name.endswith(".npy")}
    except (OSError, *BROKEN):
        return 0.0
    total = float(sum(math.prod(shape) * size for shape, size in arrays.values()))
    if array:
        shape, _ = arrays.get(f"{array}.npy", ((0,), 0))
        return _FIXED + total + each * (math.prod(shape) if kind == "selection" else shape[0] if shape else 0)
    shape, _ = arrays.get("cost.npy", ((0, 0), 0))
    return _FIXED + total + _PAIR * math.prod(shape) + _CHECKPOINT * (shape[0] if shape else 0)


def refuse_too_large(path: Path, memory_bytes: float | None = None, kind: str = "checkpoints") -> None:
    """Raise InputError when the estimate is above the limit, which is a share of the machine's memory when None."""
    limit = machine_memory() if memory_bytes is None else memory_bytes
    needed = needed_bytes(path, kind)
    if needed > limit:
        rule = "needs about {} of memory, {} may be taken".format(*display.apart(needed, limit, form=display.size))
        smaller = "write cost as float32 into an .npz file" if kind == "checkpoints" else "write an .npz file"
        hint = f"{smaller}, or allow more with --memory"
        raise InputError.at("file", path.name, rule, hint)


def _head(archive: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], int]:
    """Shape and bytes per entry of an array in the archive, without its data."""
    with archive.open(name) as file:
        major, _ = np.lib.format.read_magic(file)
        reads = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        return _shape_and_size(reads(file))


def _shape_and_size(head: tuple[tuple[int, ...], bool, np.dtype[np.generic]]) -> tuple[tuple[int, ...], int]:
    shape, _, kind = head
    return shape, kind.itemsize
