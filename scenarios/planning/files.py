"""Files of planning problems of every kind: JSON, TOML and NPZ in, JSON and NPZ out, with every fault of a file told.

A problem has the keys of its class: `CheckpointAllocation`, `OperatorSelection`, `QuerySelection`, `MigrationSteps`,
`Placement` or `CheckpointInterval`; what a key may hold stands there. JSON `null` and, in an NPZ file, a missing array
both mean "none". What would take more memory than is allowed is refused before it is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np

from analysis.expected_usable import EXPECTED
from models.errors import NO_VALUE, InputError, raise_if_any
from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.checkpoint_interval import CheckpointInterval
from models.planning.migration_steps import MigrationSteps
from models.planning.placement import Placement
from models.planning.selection import OperatorSelection, QuerySelection
from scenarios.files.documents import key_faults, read_document
from scenarios.files.write_once import write_file, write_text
from scenarios.planning.load_history import problem_of_history
from scenarios.planning.memory import refuse_too_large

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
    (`scenarios.planning.load_history`). Raises InputError for a missing or broken file, unknown or missing keys, wrong
    contents, and a method that needs a history where there is none.

    >>> from holdfast import read_problem
    >>> read_problem("examples/checkpoints.json").cost.shape  # checkpoints, nodes
    (5, 4)
    """
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
    if path.suffix not in _OF_CHECKPOINTS:
        raise InputError.at("file", path.name, "must end in .json or .npz")
    if path.suffix == ".json":
        write_text(path, json.dumps(problem_to_dict(problem), allow_nan=False) + "\n", force=force)
        return
    values = {key: _as_array(value) for key in PROBLEM_KEYS if (value := getattr(problem, key)) is not None}
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
