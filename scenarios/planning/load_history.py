"""Problems from measured loads: a file may hold loads, from which the costs of an allocation follow.

    "history": {"load": [[..]], "host": [..], "speed": [..], "outside": [..], "theta": 0.85, "seed": 0, "group": [..]}

load (key groups, windows) in cores, host: the node of each key group, speed: cores times speed of each node, outside:
the share of each node that others take (none without it), theta: the utilisation above which a node is overloaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from analysis.expected_usable import EXPECTED, expected_allocation
from models.checked_arrays import CheckedArrays
from models.correlation import pearson
from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.checkpoint_correlation import allocation_from_correlation
from models.schema_types import seed_faults
from scenarios.files.documents import key_faults

KEYS = ("load", "host", "speed", "outside", "theta", "seed", "group")
_REQUIRED = ("load", "host", "speed")


def problem_of_history(found: Mapping[str, Any], method: str) -> CheckpointAllocation:
    """Return the problem that the method solves: expected usable checkpoints, or by the paper's correlations.

    `found` are the keys of the file, of which `history` is one. Raises InputError.
    """
    history = found["history"]
    others = [key for key, value in found.items() if key != "history" and value is not None]
    faults = [InputFault(key, NO_VALUE, "stands beside a history", "leave out one of them") for key in others]
    if not isinstance(history, Mapping):
        raise InputError.at("history", history, "must be an object")
    faults += key_faults(history, KEYS, _REQUIRED, noun="history", at="history.")
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
