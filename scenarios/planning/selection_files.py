"""Files of selections, steps, placements and intervals: problems in JSON, TOML or NPZ, plans in JSON, all faults told.

A problem has the keys of `OperatorSelection`, `QuerySelection`, `MigrationSteps`, `Placement` or `CheckpointInterval`;
a plan says which by its `kind`. What would take more memory than is allowed is refused before it is read.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np

from models.checked_arrays import CheckedArrays
from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.planning.checkpoint_interval import CheckpointInterval, IntervalPlan
from models.planning.migration_steps import MigrationSteps, StepsPlan
from models.planning.placement import Placement, PlacementPlan
from models.planning.selection import OperatorSelection, QueryPlan, QuerySelection, SelectionPlan
from models.planning.solution import Solution, Status
from scenarios.files.scenario import tables_of
from scenarios.planning.files import LARGEST_FIGURE, read_fields
from scenarios.planning.memory import refuse_too_large

Problem = OperatorSelection | QuerySelection | MigrationSteps | Placement | CheckpointInterval
Plan = SelectionPlan | QueryPlan | StepsPlan | PlacementPlan | IntervalPlan

PROBLEMS: dict[str, tuple[type[Problem], type[Plan]]] = {
    "selection": (OperatorSelection, SelectionPlan),
    "queries": (QuerySelection, QueryPlan),
    "steps": (MigrationSteps, StepsPlan),
    "placement": (Placement, PlacementPlan),
    "interval": (CheckpointInterval, IntervalPlan),
}
_COMMON = ("status", "objective", "bound", "gap", "wall_s", "note")


def read_problem_of(kind: str, path: str | Path, *, memory_bytes: float | None = None) -> Problem:
    """The problem of a kind (a key of PROBLEMS) in a file; raises InputError with every fault.

    What would take more than `memory_bytes` (None: a share of the machine's) is refused with the estimate.
    """
    refuse_too_large(Path(path), memory_bytes, kind)
    if kind == "interval":
        return interval_of(path, {})
    found = {key: value for key, value in _given(path, kind).items() if value is not None}
    made: Problem = _made(PROBLEMS[kind][0], kind, found)
    return made


def _given(path: str | Path, kind: str) -> dict[str, Any]:
    """What the file says, by key."""
    return tables_of(Path(path), f"problem of {kind}") if Path(path).suffix == ".toml" else read_fields(path)


def _made(made: type[Any], kind: str, found: dict[str, Any]) -> Any:
    """The problem of some values; raises InputError for keys that it has not, and that are missing."""
    keys = {field.name: field.default is MISSING for field in fields(made)}
    faults = [_unknown(key, kind, list(keys)) for key in found if key not in keys]
    faults += [InputFault(key, NO_VALUE, "is missing") for key, needed in keys.items() if needed and key not in found]
    raise_if_any(faults)
    return made(**found)


def interval_of(path: str | Path | None, given: dict[str, float | None]) -> CheckpointInterval:
    """The question for an interval of a file, or none, with given values in place of its own; None is not given."""
    found = {} if path is None else {key: _number(value) for key, value in _given(path, "interval").items()}
    found |= {key: value for key, value in given.items() if value is not None}
    kept = {key: value for key, value in found.items() if value is not None}
    made: CheckpointInterval = _made(CheckpointInterval, "interval", kept)
    return made


def _number(value: Any) -> Any:
    """A number of an NPZ file, which is an array without dimensions, as a number."""
    return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value


def _unknown(key: str, kind: str, keys: list[str]) -> InputFault:
    near = difflib.get_close_matches(key, keys, n=1, cutoff=0.0)
    hint = f"did you mean {near[0]}?" if near else ""
    return InputFault(key, NO_VALUE, f"is not a key of a problem of {kind}", hint)


def plan_document(plan: Solution) -> dict[str, Any]:
    """A plan as JSON writes it: its kind, what every answer has, and its own fields; infinite numbers are null."""
    kind = next(kind for kind, (_, made) in PROBLEMS.items() if isinstance(plan, made))
    written: dict[str, Any] = {"kind": kind}
    for name in _COMMON:
        written[name] = _plain(getattr(plan, name))
    for field in fields(plan):
        if field.name not in _COMMON:
            written[field.name] = _plain(getattr(plan, field.name))
    return written


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Status):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value != "" else None


def kind_of_plan(path: str | Path) -> str | None:
    """The kind that a plan file names, None where it names none (a plan of checkpoints)."""
    if Path(path).suffix != ".json":
        return None
    kind = read_fields(path).get("kind")
    if kind is not None and kind not in (*PROBLEMS, "replicas"):
        raise InputError.at(
            "kind", kind, "must be one of " + ", ".join((*PROBLEMS, "replicas")), "only these plans have a problem file"
        )
    return None if kind is None else str(kind)


def read_plan_of(kind: str, path: str | Path) -> tuple[Plan, float | None]:
    """The plan of a kind in a JSON file, and the gap it claims; keys beyond its fields are ignored.

    Raises InputError for values of the wrong type. Whether the plan is any good is the business of the verifier.
    """
    found = read_fields(path)
    check = CheckedArrays()
    statuses = [status.value for status in Status]
    if found.get("status") not in statuses:
        check.add("status", found.get("status"), "must be one of " + ", ".join(statuses))
    values: dict[str, Any] = {}
    for field in fields(PROBLEMS[kind][1]):
        value = found.get(field.name)
        if value is not None and field.name != "status":
            values[field.name] = _read(check, field.name, value)
    gap = None if found.get("gap") is None else _read(check, "gap", found["gap"])
    raise_if_any(check.faults)
    return PROBLEMS[kind][1](status=Status(found["status"]), **values), gap


def _read(check: CheckedArrays, name: str, value: Any) -> Any:
    if name in ("note", "reason"):
        if isinstance(value, str):
            return value
        check.add(name, value, "must be text or null")
        return None
    if name in ("level", "step", "host", "infeasible_set"):
        return check.indices(name, value, (None,), (None,))
    if name in ("queries", "operators"):
        if isinstance(value, list) and all(isinstance(one, bool) for one in value):
            return np.array(value, dtype=np.bool_)
        check.add(name, value, "must be a list of true and false")
        return None
    if name in ("start_s", "split"):
        return check.floats(name, value, (None,), most=LARGEST_FIGURE)
    found = None if isinstance(value, (list, bool)) else check.floats(name, value, (), most=LARGEST_FIGURE)
    if found is not None and name in ("colours", "hosts", "hosts_bound", "moves", "unplaced"):
        if float(found).is_integer():
            return int(found)
        check.add(name, value, "must be a whole number")
    if found is not None and name in ("wall_s", "price") and not found >= 0:
        check.add(name, value, "must be at least 0")
    if found is None and not check.faults:
        check.add(name, value, "must be a number")
    return None if found is None else float(found)
