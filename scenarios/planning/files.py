"""Files of planning problems of every kind: JSON, TOML and NPZ in, JSON and NPZ out, with every fault of a file told.

A problem has the keys of its class: `CheckpointAllocation`, `OperatorSelection`, `QuerySelection`, `MigrationSteps`,
`Placement` or `CheckpointInterval`; what a key may hold stands there. JSON `null` and, in an NPZ file, a missing array
both mean "none". A problem that would take more memory than is allowed is refused before it is read: the estimate comes
from the size of the file, or from the heads of the arrays in an archive.

A file of a checkpoint problem may hold measured loads in place of costs, which then follow from them:

    "history": {"load": [[..]], "host": [..], "speed": [..], "outside": [..], "theta": 0.85, "seed": 0, "group": [..]}

load (key groups, windows) in cores, host: the node of each key group, speed: cores times speed of each node, outside:
the share of each node that others take (none without it), theta: the utilisation above which a node is overloaded.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np

from analysis.usable import EXPECTED, expected_allocation
from models import display
from models.checked_arrays import CheckedArrays
from models.correlation import pearson
from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.planning.checkpoint_allocation import CheckpointAllocation, allocation_from_correlation
from models.planning.checkpoint_interval import CheckpointInterval
from models.planning.migration_steps import MigrationSteps
from models.planning.placement import Placement
from models.planning.selection import OperatorSelection, QuerySelection
from models.schema_types import seed_faults
from scenarios.files.documents import BROKEN, key_faults, read_document, refuse_suffix
from scenarios.files.write_once import write_file, write_text

KEYS = ("load", "host", "speed", "outside", "theta", "seed", "group")
_REQUIRED_LOADS = ("load", "host", "speed")


def problem_of_history(found: Mapping[str, Any], method: str) -> CheckpointAllocation:
    """Return the problem that the method solves: expected usable checkpoints, or by the paper's correlations.

    `found` are the keys of the file, of which `history` is one. Raises InputError.
    """
    history = found["history"]
    # Costs beside a history would be two answers to one question.
    others = [key for key, value in found.items() if key != "history" and value is not None]
    faults = [InputFault(key, NO_VALUE, "stands beside a history", "leave out one of them") for key in others]
    if not isinstance(history, Mapping):
        raise InputError.at("history", history, "must be an object")
    faults += key_faults(history, KEYS, _REQUIRED_LOADS, noun="history", at="history.")
    raise_if_any(faults)
    check = CheckedArrays()
    load = check.floats("history.load", history["load"], (None, None), low=0.0)
    speed = check.floats("history.speed", history["speed"], (None,), low=0.0)
    groups, nodes = (None if load is None else len(load)), (None if speed is None else len(speed))
    host = check.indices("history.host", history["host"], (groups,), (nodes,))
    theta, seed = (_plain(history.get(key, default)) for key, default in (("theta", 0.85), ("seed", 0)))
    if isinstance(theta, bool) or not isinstance(theta, (int, float)) or not theta > 0:
        check.add("history.theta", theta, "must be a positive number")
    check.faults.extend(seed_faults("history.seed", seed))
    labels = _labels(check, _plain(history.get("group")), groups)
    outside = history.get("outside")
    taken = np.zeros(nodes or 0) if outside is None else check.floats("history.outside", outside, (nodes,), low=0.0)
    # All arrays have been looked at: one message names every fault of the file.
    raise_if_any(check.faults)
    assert load is not None and speed is not None and host is not None and taken is not None
    nodes = len(speed)
    if method == EXPECTED:
        return expected_allocation(load, host, speed=speed, outside=taken, theta=theta, seed=seed, group=labels)
    return allocation_from_correlation(pearson(load), load.mean(axis=1), host, nodes, group=labels)


def _labels(check: CheckedArrays, group: Any, groups: int | None) -> tuple[str | int, ...] | None:
    """Return the operator of each key group, None where there are none or faults."""
    if group is None:
        return None
    rule = "must be a list with a text or a whole number for each key group"
    if not isinstance(group, (list, tuple)):
        check.add("history.group", group, rule)
        return None
    wrong = [(k, one) for k, one in enumerate(group) if isinstance(one, bool) or not isinstance(one, (str, int))]
    if wrong:
        check.add(f"history.group[{wrong[0][0]}]", wrong[0][1], "must be a text or a whole number")
    elif groups is not None and len(group) != groups:
        check.add("history.group", f"{len(group)} entries", f"must have {groups}, one for each key group")
    return tuple(group)


def _plain(value: Any) -> Any:
    """Return an array of an NPZ file as JSON would have it."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


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
        # No limit rather than a guess: a wrong one would refuse problems that fit.
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
        # A broken archive is not told here: reading the file gives the message with path and cause.
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
        raise InputError.at(str(path), NO_VALUE, rule, hint)


def _head(archive: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], int]:
    """Return shape and bytes per entry of an array in the archive, without its data."""
    with archive.open(name) as file:
        major, _ = np.lib.format.read_magic(file)
        # Only the head is unpacked: an archive of a few kilobytes can hold an array of terabytes.
        reads = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        return _shape_and_size(reads(file))


def _shape_and_size(head: tuple[tuple[int, ...], bool, np.dtype[np.generic]]) -> tuple[tuple[int, ...], int]:
    shape, _, kind = head
    return shape, kind.itemsize


Problem = OperatorSelection | QuerySelection | MigrationSteps | Placement | CheckpointInterval

PROBLEMS: dict[str, type[Problem]] = {
    "selection": OperatorSelection,
    "queries": QuerySelection,
    "steps": MigrationSteps,
    "placement": Placement,
    "interval": CheckpointInterval,
}
PROBLEM_KEYS = (
    "cost",
    "load",
    "capacity",
    "capacity_min",
    "forbidden",
    "anti_affinity",
    "group",
    "current",
    "max_moves",
)
"""Of a problem of checkpoints."""
_REQUIRED = ("cost", "load")
_SUFFIXES, _OF_CHECKPOINTS = (".json", ".toml", ".npz"), (".json", ".npz")
_COMPRESSED = 50_000_000  # bytes of costs up to which an archive is compressed


def read_problem(path: str | Path, method: str = "exact", *, memory_bytes: float | None = None) -> CheckpointAllocation:
    """Return the checkpoint-allocation problem in a .json or .npz file.

    A file that would take more than `memory_bytes` (None: a share of the machine's) is refused with the estimate.

    A file with a `history` has the loads that costs follow from, by what the method minimises
    (`scenarios.planning.files`). Raises InputError for a missing or broken file, unknown or missing keys, wrong
    contents, and a method that needs a history where there is none.

    >>> from holdfast import read_problem
    >>> read_problem("examples/checkpoints.json").cost.shape  # checkpoints, nodes
    (5, 4)
    """
    # Before the file is opened, since parsing is what takes the memory.
    refuse_too_large(Path(path), memory_bytes)
    found = _with_history(read_document(path, _OF_CHECKPOINTS, "problem of checkpoints"))
    if found.get("history") is not None:
        return problem_of_history(found, method)
    if method == EXPECTED:
        raise InputError.at("history", NO_VALUE, f"is missing: {method} minimises what follows from measured loads")
    raise_if_any(key_faults(found, PROBLEM_KEYS, _REQUIRED, noun="checkpoint problem"))
    return CheckpointAllocation(**_given(found))


def _with_history(found: dict[str, Any]) -> dict[str, Any]:
    """Return the document with arrays of an NPZ file that are named history.KEY as one history."""
    own = {key.removeprefix("history."): value for key, value in found.items() if key.startswith("history.")}
    rest = {key: value for key, value in found.items() if not key.startswith("history.")}
    return rest | ({"history": own} if own else {})


def _given(found: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if value is not None}


def read_problem_of(kind: str, path: str | Path, *, memory_bytes: float | None = None) -> Problem:
    """Return the problem of a kind (a key of PROBLEMS) in a file; raises InputError with every fault.

    What would take more than `memory_bytes` (None: a share of the machine's) is refused with the estimate.
    """
    refuse_too_large(Path(path), memory_bytes, kind)
    if kind == "interval":
        return interval_of(path, {})
    made: Problem = _made(kind, read_document(path, _SUFFIXES, f"problem of {kind}"))
    return made


def _made(kind: str, found: Mapping[str, Any]) -> Any:
    """Return the problem of some values; raises InputError for keys that are unknown or missing."""
    made, given = PROBLEMS[kind], _given(found)
    # The keys of a file are the fields of the class: neither can be changed without the other.
    needed = [field.name for field in fields(made) if field.default is MISSING]
    raise_if_any(key_faults(given, [field.name for field in fields(made)], needed, noun=f"problem of {kind}"))
    return made(**given)


def interval_of(path: str | Path | None, given: Mapping[str, float | None]) -> CheckpointInterval:
    """Return the question for an interval of a file, or none, with given values in place of its own; None is not given.

    An NPZ file has numbers as arrays without dimensions.
    """
    found = {} if path is None else read_document(path, _SUFFIXES, "problem of interval")
    made: CheckpointInterval = _made("interval", found | _given(given))
    return made


def write_problem(problem: CheckpointAllocation, path: str | Path, *, force: bool = False) -> None:
    """Write a problem so that `read_problem` gives it back; the suffix decides between JSON and NPZ.

    Raises InputError when the file exists and `force` is false, or the suffix is neither.
    """
    path = Path(path)
    refuse_suffix(path, _OF_CHECKPOINTS)
    if path.suffix == ".json":
        write_text(path, json.dumps(problem_to_dict(problem), allow_nan=False) + "\n", force=force)
        return
    values = {key: _as_array(value) for key in PROBLEM_KEYS if (value := getattr(problem, key)) is not None}
    # Compressing gigabytes of random costs takes minutes and saves little.
    save = np.savez_compressed if problem.cost.nbytes <= _COMPRESSED else np.savez
    write_file(path, lambda file: save(file, allow_pickle=False, **values), force=force)


def problem_to_dict(problem: CheckpointAllocation) -> dict[str, Any]:
    """Return the problem as the JSON interface writes it; what is not there is null."""
    values = {key: getattr(problem, key) for key in PROBLEM_KEYS}
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in values.items()}


def _as_array(value: Any) -> Any:
    if isinstance(value, tuple) and len({type(label) for label in value}) > 1:
        value = tuple(map(str, value))  # one array has one type
    return np.asarray(value)
