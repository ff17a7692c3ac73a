"""Starts of a search: every instance on a host, with anti-affinity, though hosts may have too much."""

from __future__ import annotations

import math
import time

import numpy as np

from models.checked_arrays import BoolArray, IntArray
from models.planning.placement import Placement
from optimizer.common.first_fit import best_fit, largest_shares


def start(
    problem: Placement, most_colours: int, is_open: BoolArray, running: IntArray | None, deadline: float = math.inf
) -> IntArray | None:
    """Return a host for every instance (n,): `running` where it may stay, else best fit, else where least is too much.

    None when an operator finds no zone, or more than `max_moves` instances would move, or after the `deadline`.
    """
    if running is None:
        host = best_fit(problem, max_colours=most_colours, open_hosts=is_open, deadline=deadline)
    else:
        host = staying(problem, is_open, running)
    complete = _completed(problem, host, is_open, deadline)
    if complete is None or (problem.max_moves is not None and problem.moves(complete) > problem.max_moves):
        return None
    return complete


def staying(problem: Placement, is_open: BoolArray, running: IntArray) -> IntArray:
    """Return the running placement on open hosts, fixed instances in place; of two with anti-affinity the first."""
    host = np.where((running >= 0) & is_open[running], running, -1)
    host = np.where(problem.fixed_hosts >= 0, problem.fixed_hosts, host)
    placed = np.flatnonzero(host >= 0)
    placed = placed[np.argsort(problem.fixed_hosts[placed] < 0, kind="stable")]
    pairs = np.stack([problem.operators[placed], problem.zones[host[placed]]], axis=1)
    first = np.unique(pairs, axis=0, return_index=True)[1]
    kept = np.full(len(host), -1, dtype=np.int64)
    kept[placed[first]] = host[placed[first]]
    return kept


def _completed(problem: Placement, host: IntArray, is_open: BoolArray, deadline: float) -> IntArray | None:
    """Return hosts where each free instance is on the open host that is left with most, or has least excess."""
    host = host.copy()
    scale = np.maximum(problem.rooms.mean(axis=0), 1.0)
    free = (problem.rooms - problem.used(host)) / scale
    zones_of: dict[int, list[int]] = {}
    for i in np.flatnonzero(host >= 0).tolist():
        zones_of.setdefault(int(problem.operators[i]), []).append(int(problem.zones[host[i]]))
    left = np.flatnonzero(host < 0)
    for i in left[np.argsort(-largest_shares(problem)[left], kind="stable")].tolist():
        taken = zones_of.setdefault(int(problem.operators[i]), [])
        allowed = is_open if not taken else is_open & ~np.isin(problem.zones, taken)
        if not allowed.any() or time.monotonic() > deadline:
            return None
        after = (free - problem.loads[i] / scale).min(axis=1)
        h = int(np.where(allowed, after, -np.inf).argmax())
        host[i] = h
        free[h] -= problem.loads[i] / scale
        taken.append(int(problem.zones[h]))
    return host


def sent_home(problem: Placement, host: IntArray, most_colours: int, deadline: float) -> IntArray:
    """Return the placement (n,) with each instance back where it runs, if that breaks no rule and opens no host."""
    assert problem.current is not None
    host = host.copy()
    for i in np.flatnonzero((problem.current >= 0) & (host != problem.current) & (problem.fixed_hosts < 0)).tolist():
        if time.monotonic() > deadline:
            break
        home, zones = int(problem.current[i]), problem.zones
        there = np.flatnonzero(host == home)
        same = np.flatnonzero((problem.operators == problem.operators[i]) & (host >= 0))
        separate = all(zones[host[j]] != zones[home] for j in same.tolist() if j != i)
        has_room = (problem.loads[there].sum(axis=0) + problem.loads[i] <= problem.rooms[home]).all()
        colours = set(problem.colours[there].tolist()) | {int(problem.colours[i])}
        if len(there) and separate and has_room and len(colours - {-1}) <= most_colours:
            host[i] = home
    return host
