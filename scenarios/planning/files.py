"""Files of planning problems and plans: JSON and NPZ in and out, with every fault of a file reported.

A checkpoint problem has the keys of `CheckpointAllocation`; what a key may hold stands there. JSON `null`
and, in an NPZ file, a missing array both mean "none". NPZ arrays carry the same names and are never
unpickled.
"""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import numpy as np

from analysis.expected_usable import EXPECTED
from models import display
from models.checked_arrays import FloatArray
from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from models.planning.solution import Status
from scenarios.files.json import read_json, refuse_special
from scenarios.files.write_once import write_file, write_text
from scenarios.planning.archives import packed, unpacked
from scenarios.planning.load_history import problem_of_history
from scenarios.planning.memory import BROKEN, refuse_too_large

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
_REQUIRED = ("cost", "load")
_PAIRS = ("forbidden", "anti_affinity")
_SUFFIXES = (".json", ".npz")
_COMPRESSED = 50_000_000  # bytes of costs up to which an archive is compressed
_VALUES = ("objective", "bound", "gap")
LARGEST_FIGURE = 1e210
"""The largest number of a plan: sums and ratios of those of its problem, which are at most 1e100."""
FIGURE = f"a finite number of magnitude at most {display.number(LARGEST_FIGURE, 6)}"


def read_problem(path: str | Path, method: str = "exact", *, memory_bytes: float | None = None) -> CheckpointAllocation:
    """The checkpoint-allocation problem in a .json or .npz file.

    A file that would take more than `memory_bytes` (None: a share of the machine's) is refused with the estimate.

    A file with a `history` has the loads that costs follow from, by what the method minimises
    (`scenarios.planning.load_history`). Raises InputError for a missing or broken file, unknown or missing keys, wrong
    contents, and a method that needs a history where there is none.

    >>> from holdfast import read_problem
    >>> read_problem("examples/checkpoints.json").cost.shape  # checkpoints, nodes
    (5, 4)
    """
    refuse_too_large(Path(path), memory_bytes)
    found = _with_history(read_fields(path))
    if found.get("history") is not None:
        return problem_of_history(found, method)
    if method == EXPECTED:
        raise InputError.at("history", NO_VALUE, f"is missing: {method} minimises what follows from measured loads")
    faults = [_unknown(key) for key in found if key not in PROBLEM_KEYS]
    faults += [InputFault(key, NO_VALUE, "is missing") for key in _REQUIRED if found.get(key) is None]
    raise_if_any(faults)
    values = {key: value for key, value in found.items() if value is not None}
    return CheckpointAllocation(**values)


def read_fields(path: str | Path) -> dict[str, Any]:
    """Key -> value in a .json or .npz file; of NPZ read-only arrays. Raises InputError for a broken file."""
    path = Path(path)
    if path.suffix not in _SUFFIXES:
        raise InputError.at("file", path.name, "must end in .json or .npz")
    return _read_npz(path) if path.suffix == ".npz" else read_json(path)


def _with_history(found: dict[str, Any]) -> dict[str, Any]:
    """Arrays of an NPZ file that are named history.KEY as one history."""
    own = {key.removeprefix("history."): value for key, value in found.items() if key.startswith("history.")}
    rest = {key: value for key, value in found.items() if not key.startswith("history.")}
    return rest | ({"history": own} if own else {})


def write_problem(problem: CheckpointAllocation, path: str | Path, *, force: bool = False) -> None:
    """Write a problem so that `read_problem` gives it back; the suffix decides between JSON and NPZ.

    Raises InputError when the file exists and `force` is false, or the suffix is neither.
    """
    path = Path(path)
    if path.suffix not in _SUFFIXES:
        raise InputError.at("file", path.name, "must end in .json or .npz")
    if path.suffix == ".json":
        write_text(path, json.dumps(problem_to_dict(problem), allow_nan=False) + "\n", force=force)
        return
    arrays = {key: value for key in PROBLEM_KEYS if (value := getattr(problem, key)) is not None}
    save = np.savez_compressed if problem.cost.nbytes <= _COMPRESSED else np.savez
    values = {key: _as_array(arrays[key]) for key in arrays}
    write_file(path, lambda file: save(file, allow_pickle=False, **values), force=force)


def problem_to_dict(problem: CheckpointAllocation) -> dict[str, Any]:
    """The problem as the JSON interface writes it; what is not there is null."""
    values = {key: getattr(problem, key) for key in PROBLEM_KEYS}
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in values.items()}


def plan_to_dict(plan: CheckpointPlan, problem: CheckpointAllocation | None = None) -> dict[str, Any]:
    """The plan as the JSON interface writes it; with its problem also the load of every node."""
    assignment = plan.assignment
    written: dict[str, Any] = {
        "status": plan.status.value,
        "objective": _finite(plan.objective),
        "bound": _finite(plan.bound),
        "gap": _finite(plan.gap),
        "wall_s": plan.wall_s,
        "assignment": None if assignment is None else [None if n < 0 else n for n in assignment.tolist()],
        "method": plan.method or None,
        "note": plan.note or None,
        "violations": list(plan.violations),
        "prices": None if plan.prices is None else plan.prices.tolist(),
        "multipliers": None if plan.multipliers is None else plan.multipliers.tolist(),
    }
    if problem is not None:
        written["node_loads"] = None if assignment is None else problem.node_loads(assignment).tolist()
    return written


def read_plan(path: str | Path) -> CheckpointPlan:
    """The plan in a JSON or NPZ file, as `plan checkpoints --out` writes it; keys beyond the interface are ignored.

    Raises InputError for a missing or broken file and values of the wrong type. Whether the plan is any
    good is the business of `optimizer.verify.checkpoints`.
    """
    return read_plan_and_gap(path)[0]


def read_plan_and_gap(path: str | Path) -> tuple[CheckpointPlan, float | None]:
    """As `read_plan`, and the gap that the file claims, which a plan computes itself; None without one."""
    return plan_and_claims(read_plan_document(path))[:2]


def read_plan_document(path: str | Path) -> dict[str, Any]:
    """Key -> value of the plan in a JSON or NPZ file; raises InputError for a missing or broken file."""
    path = Path(path)
    return unpacked(_read_npz(path), path.name) if path.suffix == ".npz" else read_json(path)


def plan_and_claims(found: dict[str, Any]) -> tuple[CheckpointPlan, float | None, FloatArray | None]:
    """The plan of a document, and the gap and the loads of nodes that it claims, None where it claims none.

    Raises InputError for values of the wrong type.
    """
    faults: list[InputFault] = []
    statuses = [status.value for status in Status]
    if found.get("status") not in statuses:
        faults.append(InputFault("status", found.get("status"), "must be one of " + ", ".join(statuses)))
    for key in (*_VALUES, "wall_s"):
        if not (found.get(key) is None or is_figure(found[key])):
            faults.append(InputFault(key, found[key], f"must be {FIGURE}, or null"))
    if is_figure(found.get("wall_s")) and not found["wall_s"] >= 0:
        faults.append(InputFault("wall_s", found["wall_s"], "must be at least 0"))
    for key in ("method", "note"):
        if not (found.get(key) is None or isinstance(found[key], str)):
            faults.append(InputFault(key, found[key], "must be text or null"))
    nodes = found.get("assignment")
    faults += _assignment_faults(nodes)
    for key, each in (("prices", "node"), ("multipliers", "checkpoint"), ("node_loads", "node")):
        faults += _list_faults(key, found.get(key), each)
    raise_if_any(faults)
    objective, bound, gap = (None if found.get(key) is None else float(found[key]) for key in _VALUES)
    plan = CheckpointPlan(
        status=Status(found["status"]),
        objective=objective,
        bound=bound,
        wall_s=float(found.get("wall_s") or 0.0),
        note=str(found.get("note") or ""),
        method=str(found.get("method") or ""),
        prices=_numbers(found.get("prices")),
        multipliers=_numbers(found.get("multipliers")),
        assignment=None if nodes is None else np.array([-1 if n is None else n for n in nodes], dtype=np.int64),
    )
    return plan, gap, _numbers(found.get("node_loads"))


def _numbers(values: list[float] | None) -> FloatArray | None:
    return None if values is None else np.array(values, dtype=np.float64)


def write_plan(document: dict[str, Any], path: Path, *, force: bool = False) -> None:
    """Write the document of a plan: JSON, or an NPZ archive where the suffix says so."""
    if path.suffix == ".npz":
        write_file(path, lambda file: file.write(packed(document)), force=force)
    else:
        write_text(path, json.dumps(document, allow_nan=False) + "\n", force=force)


def _read_npz(path: Path) -> dict[str, Any]:
    try:
        refuse_special(path)
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise InputError.at("file", str(path), "is a single array, not an NPZ archive of arrays")
        with archive:
            return {key: _from_array(key, archive[key]) for key in archive.files}
    except InputError:
        raise
    except OSError as error:
        raise InputError.at("file", str(path), f"cannot be read: {error.strerror or error}") from error
    except BROKEN as error:
        pickled = "pickle" in str(error).lower()
        reason = "holds pickled objects, which are not read" if pickled else "is broken"
        raise InputError.at("file", str(path), f"{reason}: an NPZ file of plain arrays is needed") from error


def _from_array(key: str, array: Any) -> Any:
    if key == "group" or array.ndim == 0:
        return array.tolist()
    if key in _PAIRS and array.size == 0:
        return array.reshape(0, 2)
    array.setflags(write=False)
    return array


def _as_array(value: Any) -> Any:
    if isinstance(value, tuple) and len({type(label) for label in value}) > 1:
        value = tuple(map(str, value))  # one array has one type
    return np.asarray(value)


def _unknown(key: str) -> InputFault:
    near = difflib.get_close_matches(key, PROBLEM_KEYS, n=1, cutoff=0.0)
    hint = f"did you mean {near[0]}?" if near else ""
    return InputFault(key, NO_VALUE, "is not a key of a checkpoint problem", hint)


def _assignment_faults(nodes: Any) -> list[InputFault]:
    if nodes is None:
        return []
    if not isinstance(nodes, list):
        return [InputFault("assignment", nodes, "must be a list with one node per checkpoint, or null")]
    for index, node in enumerate(nodes):
        if node is not None and (isinstance(node, bool) or not isinstance(node, int) or abs(node) >= 2**63):
            return [InputFault(f"assignment[{index}]", node, "must be a node's number")]
    return []


def _list_faults(key: str, values: Any, each: str) -> list[InputFault]:
    if values is None:
        return []
    if not isinstance(values, list):
        return [InputFault(key, NO_VALUE, f"must be a list with one number per {each}, or null")]
    wrong = next((index for index, value in enumerate(values) if not is_figure(value)), None)
    return [] if wrong is None else [InputFault(f"{key}[{wrong}]", values[wrong], f"must be {FIGURE}")]


def is_figure(value: Any) -> bool:
    """Whether a value of a plan file is a number that can be computed with: not infinite, and not nearly so."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST_FIGURE


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None
