"""Single exchanges for more value: an instance that is left out takes a place, or the place of one of less value."""

from __future__ import annotations

import time

import numpy as np

from models.checked_arrays import BoolArray, IntArray
from models.planning.placement import Placement

_ROUNDS = 50
_TRIED = 20  # exchanges of one instance that are tried, the best first


def exchanged(problem: Placement, host: IntArray, worth: IntArray, deadline: float) -> IntArray:
    """Return a placement (n,) worth as much or more in `worth` (n,): no single exchange raises it, up to the limits.

    `host` must keep every rule, and so does what comes back.
    """
    host = host.copy()
    free = problem.rooms - problem.used(host)
    for _ in range(_ROUNDS):
        gained = False
        out = np.flatnonzero(host < 0)
        for j in out[np.argsort(-worth[out], kind="stable")].tolist():
            if time.monotonic() > deadline:
                return host
            gained |= _placed(problem, host, free, worth, j)
        if not gained:
            break
    return host


def _placed(problem: Placement, host: IntArray, free: IntArray, worth: IntArray, j: int) -> bool:
    """Return whether instance j got a host by itself, or for something worth less; `host` and `free` follow."""
    for h in np.flatnonzero((free >= problem.loads[j]).all(axis=1)).tolist():
        if worth[j] > 0 and _may(problem, host, j, h, None):
            host[j] = h
            free[h] -= problem.loads[j]
            return True
    movable: BoolArray = (host >= 0) & (problem.fixed_hosts < 0) & (worth < worth[j])
    movable &= (free[host] + problem.loads >= problem.loads[j]).all(axis=1)
    inside = np.flatnonzero(movable)
    for i in inside[np.argsort(worth[inside], kind="stable")][:_TRIED].tolist():
        h = int(host[i])
        if _may(problem, host, j, h, i):
            host[i], host[j] = -1, h
            free[h] += problem.loads[i] - problem.loads[j]
            return True
    return False


def _may(problem: Placement, host: IntArray, j: int, h: int, gone: int | None) -> bool:
    """Return whether j may come to host h when `gone` leaves it: operators, colours and moves."""
    trial = host if gone is None else host.copy()
    if gone is not None:
        trial[gone] = -1
    same = trial[problem.operators == problem.operators[j]]
    if (problem.zones[same[same >= 0]] == problem.zones[h]).any():
        return False
    if problem.max_colours is not None and problem.colours[j] >= 0:
        colours = set(problem.colours[trial == h].tolist()) | {int(problem.colours[j])}
        if len(colours - {-1}) > problem.max_colours:
            return False
    if problem.max_moves is None:
        return True
    after = trial.copy()
    after[j] = h
    return problem.moves(after) <= problem.max_moves
