"""Files of plans of every kind: one reader, which knows the keys of each kind and tells every fault of a file.

A plan is a JSON document. Its `kind` says what it is a plan of; without one it is a plan of checkpoints, which may also
be an NPZ archive: its lists as arrays, all else as the JSON document that they are taken from. Whether a plan is any
good is the business of `optimizer.verify`.

In this order: reading, one reader for the value of each key, writing, and last the problems that begin with a running
plan (`--from`), of which only so many parts may move.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from models import display
from models.checked_arrays import CheckedArrays, FloatArray, frozen
from models.errors import NO_VALUE, InputError, named, raise_if_any
from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from models.planning.checkpoint_interval import IntervalPlan
from models.planning.migration_steps import StepsPlan
from models.planning.placement import Placement, PlacementPlan
from models.planning.replicas import KIND, Instances, ReplicaPlan, checked_instances
from models.planning.selection import QueryPlan, SelectionPlan
from models.planning.solution import Solution, Status
from scenarios.files.documents import json_object, key_faults, read_arrays, read_document, read_json
from scenarios.files.write_once import write_file, write_text

CHECKPOINTS, REPLICAS = "checkpoints", KIND
Plan = SelectionPlan | QueryPlan | StepsPlan | PlacementPlan | IntervalPlan | ReplicaPlan
PLANS: dict[str, type[Plan]] = {
    "selection": SelectionPlan,
    "queries": QueryPlan,
    "steps": StepsPlan,
    "placement": PlacementPlan,
    "interval": IntervalPlan,
    REPLICAS: ReplicaPlan,
}
"""The kinds that a plan file may name."""
LARGEST_FIGURE = 1e210
"""The largest number of a plan: sums and ratios of those of its problem, which are at most 1e100."""
FIGURE = f"a finite number of magnitude at most {display.number(LARGEST_FIGURE, 6)}"

_COMMON = ("status", "objective", "bound", "gap", "wall_s", "note")
_ARRAYS = ("assignment", "node_loads", "prices", "multipliers")
# NPZ arrays have no null: a checkpoint without a node is this number there, and null in JSON.
_NOWHERE = -1
# Python refuses to convert numbers of thousands of digits: a limit gives an error with a path in place of that.
_MOST_DIGITS = 20  # of the number of a row of a certificate


@dataclass(frozen=True)
class StatedPlan:
    """A plan as its file states it: its kind, the whole document, and the values of keys that are not null."""

    kind: str
    document: Mapping[str, Any]
    values: Mapping[str, Any]

    @property
    def gap(self) -> float | None:
        """The gap that the file claims; a plan computes its own."""
        return self.values.get("gap")

    def plan(self) -> Any:
        """Return the plan: a `CheckpointPlan`, or one of PLANS."""
        made = CheckpointPlan if self.kind == CHECKPOINTS else PLANS[self.kind]
        names = {field.name for field in fields(made)}
        return made(**{name: value for name, value in self.values.items() if name in names})


# -- reading


def read_plan_file(path: str | Path, kind: str | None = None) -> StatedPlan:
    """Return the plan in a file, of the kind that is wanted, or else of the kind that it names.

    Raises InputError for a file that cannot be read, a kind without a problem file, keys that plans of the kind do not
    have, and values of the wrong type.
    """
    found_kind, found = plan_document_in(path)
    kind = found_kind if kind is None else kind
    keys = _KEYS[kind]
    # Names of keys first: a reader of values would report a misspelt key as a missing one.
    raise_if_any(key_faults(found, _known(kind), noun=f"plan of {kind}"))
    check = CheckedArrays()
    values = {}
    for key, read in keys.items():
        # Null and missing mean the same, so that a plan reads the same from JSON and NPZ.
        if found.get(key) is not None or key in _NEEDED:
            values[key] = read(check, key, found.get(key))
    raise_if_any(check.faults)
    return StatedPlan(kind, found, values)


def plan_document_in(path: str | Path) -> tuple[str, dict[str, Any]]:
    """Return the kind and the document of a plan in a JSON or NPZ file; raises InputError for an unknown kind."""
    path = Path(path)
    found = _unpacked(read_arrays(path), str(path)) if path.suffix == ".npz" else read_json(path)
    kind = found.get("kind")
    # PLANS has no entry for checkpoints: their files have no `kind`.
    if kind is not None and kind not in tuple(PLANS):  # perhaps a list, which has no hash
        raise InputError.at("kind", kind, "must be one of " + ", ".join(PLANS), "only these plans have a problem file")
    return CHECKPOINTS if kind is None else str(kind), found


def plan_fields(path: str | Path) -> dict[str, Any]:
    """Return the document of a plan file of any kind, a front too; raises InputError for keys that the kind has not."""
    found = read_document(path, (".json", ".npz"), "plan")
    kind = found.get("kind")
    if isinstance(kind, str) and kind in _KEYS:
        raise_if_any(key_faults(found, _known(kind), noun=f"plan of {kind}"))
    return found


def read_checkpoint_plan(path: str | Path) -> CheckpointPlan:
    """Return the plan of checkpoints in a file, as `plan checkpoints --out` writes it; raises InputError."""
    made: CheckpointPlan = read_plan_file(path, CHECKPOINTS).plan()
    return made


# -- values: each reader notes what is wrong, and returns the value of a key


def _status(check: CheckedArrays, key: str, value: Any) -> Status | None:
    """Return the status that a text names; note a fault for any other value."""
    known = [status.value for status in Status]
    if value in known:
        return Status(value)
    check.add(key, value, "must be one of " + ", ".join(known))
    return None


def _figure(check: CheckedArrays, key: str, value: Any) -> float | None:
    """Return a number that can be computed with; note a fault for NaN, infinity and numbers beyond LARGEST_FIGURE."""
    if is_figure(value):
        return float(value)
    check.add(key, value, f"must be {FIGURE}, or null")
    return None


def is_figure(value: Any) -> bool:
    """Return True for a number that can be computed with: not infinite, and not nearly so."""
    # `bool` is an `int` in Python. NaN compares false and is refused as well.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST_FIGURE


def _not_negative(check: CheckedArrays, key: str, value: Any) -> float | None:
    found = _figure(check, key, value)
    if found is not None and found < 0:
        check.add(key, value, "must be at least 0")
    return found


def _share(check: CheckedArrays, key: str, value: Any) -> float | None:
    found = _figure(check, key, value)
    if found is not None and not 0 <= found <= 1:
        check.add(key, value, "must be a probability, between 0 and 1")
    return found


def _count(check: CheckedArrays, key: str, value: Any) -> int | None:
    """Return a whole number that JSON may have written as a float; note a fault for fractions."""
    found = _figure(check, key, value)
    if found is None:
        return None
    if not found.is_integer():
        check.add(key, value, "must be a whole number")
    return int(found)


def _whole(check: CheckedArrays, key: str, value: Any) -> int | None:
    """Return a whole number that fits into int64; note a fault for booleans and floats."""
    # Arrays hold int64: a larger number would raise OverflowError deep inside numpy.
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**63:
        check.add(key, value, "must be a whole number")
        return None
    return value


def _text(check: CheckedArrays, key: str, value: Any) -> str:
    if not isinstance(value, str):
        check.add(key, value, "must be text or null")
    return str(value)


def _flags(check: CheckedArrays, key: str, value: Any) -> Any:
    """Return booleans (n,); note a fault for anything but a list of true and false."""
    if isinstance(value, list) and all(isinstance(one, bool) for one in value):
        return np.array(value, dtype=np.bool_)
    check.add(key, value, "must be a list of true and false")
    return None


def _indices(check: CheckedArrays, key: str, value: Any) -> Any:
    return check.indices(key, value, (None,), (None,))


def _figures(check: CheckedArrays, key: str, value: Any) -> Any:
    return check.floats(key, value, (None,), most=LARGEST_FIGURE)


def _nodes(check: CheckedArrays, key: str, value: Any) -> Any:
    """Return the node of each checkpoint (n,), -1 where it is null; note the first entry that is no node."""
    if not isinstance(value, list):
        check.add(key, value, "must be a list with one node per checkpoint, or null")
        return None
    for index, node in enumerate(value):
        if node is not None and (isinstance(node, bool) or not isinstance(node, int) or abs(node) >= 2**63):
            check.add(f"{key}[{index}]", node, "must be a node's number")
            return None
    return np.array([_NOWHERE if node is None else node for node in value], dtype=np.int64)


def _one_per(each: str, check: CheckedArrays, key: str, value: Any) -> FloatArray | None:
    """Return numbers (n,), one for each node or checkpoint; note the first entry that is none."""
    if not isinstance(value, list):
        check.add(key, NO_VALUE, f"must be a list with one number per {each}, or null")
        return None
    wrong = next((index for index, one in enumerate(value) if not is_figure(one)), None)
    if wrong is not None:
        check.add(f"{key}[{wrong}]", value[wrong], f"must be {FIGURE}")
        return None
    return np.array(value, dtype=np.float64)


def _chances(check: CheckedArrays, key: str, value: Any) -> tuple[float, ...]:
    """Return probabilities; a fault and an empty tuple for anything but a list with entries."""
    if not isinstance(value, list) or not value or None in value:
        check.add(key, value, "must be a list of numbers")
        return ()
    return tuple(_figure(check, key, one) or 0.0 for one in value)


def _instances(check: CheckedArrays, key: str, value: Any) -> Instances:
    """Return hosts by operator; faults keep the paths that `checked_instances` gives them."""
    try:
        return checked_instances(value, key)
    except InputError as error:
        check.faults += error.faults
        return ()


def _certificate(check: CheckedArrays, key: str, value: Any) -> FloatArray | None:
    """Return the multipliers of a certificate, (rows,), zero where the file names none; all must be at least 0."""
    rule = "must have rows, a whole number, and multipliers: numbers, none below zero, by row"
    rows = value.get("rows") if isinstance(value, Mapping) else None
    said = value.get("multipliers") if isinstance(value, Mapping) else None
    # The limit keeps a short file from asking for an array that fills the memory.
    if isinstance(rows, bool) or not isinstance(rows, int) or not 0 <= rows <= 10**7 or not isinstance(said, Mapping):
        check.add(key, value, rule)
        return None
    found = np.zeros(rows)
    for row, each in said.items():
        number = is_figure(each) and each >= 0
        # `isdigit` alone also accepts digits that `int` does not, such as superscripts.
        if not number or not (row.isascii() and row.isdigit() and len(row) <= _MOST_DIGITS) or not int(row) < rows:
            check.add(f"{key}.multipliers.{row}", each, rule)
            return None
        found[int(row)] = each
    return frozen(found)


_Read = Callable[[CheckedArrays, str, Any], Any]
_NEEDED = ("status", "p")  # also read where they are null: a plan cannot do without
_ANSWER: dict[str, _Read] = {
    "status": _status,
    "objective": _figure,
    "bound": _figure,
    "gap": _figure,
    "wall_s": _not_negative,
    "note": _text,
}
_KEYS: dict[str, dict[str, _Read]] = {
    CHECKPOINTS: _ANSWER
    | {
        "method": _text,
        "assignment": _nodes,
        "prices": partial(_one_per, "node"),
        "multipliers": partial(_one_per, "checkpoint"),
        "node_loads": partial(_one_per, "node"),
    },
    "selection": _ANSWER | {"level": _indices, "used": _figure, "price": _not_negative},
    "queries": _ANSWER
    | {"queries": _flags, "operators": _flags, "used": _figure, "price": _not_negative}
    | {"single_value": _figure, "single_bound": _figure, "split": _figures},
    "steps": _ANSWER | {"step": _indices, "start_s": _figures, "reason": _text},
    "placement": _ANSWER
    | {"host": _indices, "infeasible_set": _indices, "reason": _text}
    | dict.fromkeys(("colours", "hosts", "hosts_bound", "moves", "unplaced"), _count),
    "interval": _ANSWER
    | dict.fromkeys(("interval_s", "useful_s", "worst_recovery_s", "mean_recovery_s"), _figure)
    | dict.fromkeys(("least_interval_s", "most_interval_s", "mean_replay_records"), _figure),
    REPLICAS: _ANSWER
    | {"p": _chances, "budget": _figure, "cost": _figure, "target": _share, "certificate": _certificate}
    | {"instances": _instances, "running": _instances}
    | dict.fromkeys(("max_level", "max_moves", "max_replicas", "moves"), _whole),
}
"""Type of each key of plans, by kind; only of keys from which something is computed."""
_STATED: dict[str, tuple[str, ...]] = {
    CHECKPOINTS: ("violations", "reasons"),
    "selection": ("reasons",),
    "queries": ("reasons",),
    "placement": ("reasons",),
    "interval": ("young_s", "daly_first_s", "daly_higher_s"),
    REPLICAS: (
        *("goal", "capacity", "colours", "replicated", "operators", "names", "mean_broken", "queries", "compared"),
    ),
}
"""Keys of plans that nothing is computed from: `verify` compares them with what follows from problem and plan."""


def _known(kind: str) -> tuple[str, ...]:
    return ("kind", *_KEYS[kind], *_STATED.get(kind, ()))


# -- writing


def plan_document(plan: Solution) -> dict[str, Any]:
    """Return a plan as JSON writes it: its kind, what every answer has, and its own fields; infinity is null."""
    kind = next(kind for kind, made in PLANS.items() if isinstance(plan, made))
    own = [field.name for field in fields(plan) if field.name not in _COMMON]
    return {"kind": kind} | {name: _plain(getattr(plan, name)) for name in (*_COMMON, *own)}


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: arrays as lists, and null for infinity, NaN and empty texts."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Status):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    # Notes that are empty are null, as every field without a value.
    return value if value != "" else None


def plan_to_dict(plan: CheckpointPlan, problem: CheckpointAllocation | None = None) -> dict[str, Any]:
    """Return a plan of checkpoints as JSON writes it; with its problem also the load of every node."""
    assignment = plan.assignment
    first = ("status", "objective", "bound", "gap", "wall_s")
    written: dict[str, Any] = {name: _plain(getattr(plan, name)) for name in first}
    written["assignment"] = None if assignment is None else [None if n < 0 else n for n in assignment.tolist()]
    written |= {name: _plain(getattr(plan, name)) for name in ("method", "note")}
    written["violations"] = list(plan.violations)
    written |= {name: _plain(getattr(plan, name)) for name in ("prices", "multipliers")}
    if problem is not None:
        written["node_loads"] = None if assignment is None else problem.node_loads(assignment).tolist()
    return written


def write_plan(document: Mapping[str, Any], path: Path, *, force: bool = False) -> None:
    """Write the document of a plan: JSON, or an NPZ archive where the suffix says so."""
    if path.suffix == ".npz":
        write_file(path, lambda file: file.write(_packed(document)), force=force)
    else:
        write_text(path, json.dumps(document, allow_nan=False) + "\n", force=force)


def _packed(document: Mapping[str, Any]) -> bytes:
    """Return the archive of the document of a plan of checkpoints."""
    arrays = {key: _array(key, document[key]) for key in _ARRAYS if document.get(key) is not None}
    rest = {key: value for key, value in document.items() if key not in arrays}
    file = io.BytesIO()
    # Never pickled: reading a plan must not be able to run code.
    np.savez_compressed(file, allow_pickle=False, plan=np.array(json.dumps(rest, allow_nan=False)), **arrays)
    return file.getvalue()


def _array(key: str, values: list[Any]) -> np.ndarray:
    if key == "assignment":
        return np.array([_NOWHERE if value is None else value for value in values], dtype=np.int64)
    return np.array(values, dtype=np.float64)


def _unpacked(arrays: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the document of an archive; raises InputError when it is none of a plan."""
    text = arrays.get("plan")
    if not isinstance(text, str):
        rule = "is no plan: its array `plan` must hold the document of a plan as JSON text"
        raise InputError.at(name, NO_VALUE, rule)
    with named("plan"):
        document = json_object(text, name)
    return document | {key: _listed(key, arrays[key]) for key in _ARRAYS if key in arrays}


def _listed(key: str, array: Any) -> Any:
    values = array.tolist() if isinstance(array, np.ndarray) else array
    if key == "assignment" and isinstance(values, list):
        return [None if value == _NOWHERE else value for value in values]
    return values


# -- Problems that begin with a running plan --------------------------------------------------------------------------


def running_checkpoints(problem: CheckpointAllocation, path: Path) -> CheckpointPlan:
    """Return the plan of these checkpoints in a file; raises InputError for a plan of anything else."""
    kind, _ = plan_document_in(path)
    if kind != CHECKPOINTS:
        raise InputError.at("--from", str(path), f"must be a plan of checkpoints, and is one of {kind}")
    plan = read_checkpoint_plan(path)
    if plan.assignment is not None and len(plan.assignment) != problem.n_checkpoints:
        rule = f"must have a node for each of {problem.n_checkpoints} checkpoints"
        raise InputError.at("--from", str(path), rule, f"it has {len(plan.assignment)}")
    return plan


def with_few_moves(
    problem: CheckpointAllocation, running: CheckpointPlan | None, max_moves: int
) -> CheckpointAllocation:
    """Return the problem with at most so many moves away from the running plan, or else from its own `current`."""
    current = problem.current if running is None or running.assignment is None else running.assignment
    _refuse_moves(max_moves, current is not None, "allocation")
    return replace(problem, current=current, max_moves=max_moves)


def _refuse_moves(max_moves: int, runs: bool, what: str) -> None:
    """Raise InputError for a number of moves that is out of range, or without anything that runs."""
    # Solvers count in doubles, which hold whole numbers exactly below 2^53.
    if not 0 <= max_moves < 2**53:
        rule = "must be a whole number, at least 0 and below 2^53"
        raise InputError.at("--max-moves", max_moves, rule, "leave it out where all may move")
    if not runs:
        raise InputError.at("--max-moves", max_moves, f"counts moves from a running {what}", "name it with --from")


def placement_from(problem: Placement, running: Path | None, max_moves: int | None) -> Placement:
    """Return the problem with what runs by the plan in a file, and at most so many moves.

    Raises InputError for a file that has no placement of these instances, and for moves of nothing that runs.
    """
    if running is not None:
        plan: PlacementPlan = read_plan_file(running, "placement").plan()
        if plan.host is None:
            raise InputError.at("--from", str(running), "is a plan without a placement")
        problem = replace(problem, current=plan.host)
    if max_moves is not None:
        _refuse_moves(max_moves, problem.current is not None, "placement")
        problem = replace(problem, max_moves=max_moves)
    if problem.current is not None and len(problem.current) != problem.n_instances:
        raise InputError.at("current", NO_VALUE, f"must have a host for each of {problem.n_instances} instances")
    return problem
