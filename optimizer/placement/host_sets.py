"""All that one host can have, and as few of these sets as cover all instances: packings of some dozen instances.

    minimise sum_s z[s]   subject to   sum_{s has i} z[s] >= 1 for each instance i,   z binary

Sets that take no more instance are enough: what is covered twice is left out once. With all of them known, prices y of
instances prove

    hosts >= sum_i y[i] / Z,    Z the price of the dearest set,

whatever the prices are (Farley, 1990): they are rounded to whole numbers, and so are the sums. This linear relaxation
knows all resources and the anti-affinity of operators, and is mostly the number of hosts itself when it is rounded up.
The branch and bound that finds the sets proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.placement import Placement
from optimizer.common.solvers import left_s, linear_program, mixed_integer_program, sparse_matrix

_UNIT = 2**20  # prices are whole multiples of its inverse
_NODES = 200  # of branch and bound: the root mostly is enough


@dataclass(frozen=True)
class Covered:
    """Hosts (n,) numbered from 0, None where none were found; the least number of hosts that the prices prove."""

    host: IntArray | None
    bound: int


def host_sets(problem: Placement, most: int) -> BoolArray | None:
    """Return all maximal sets of instances that fit on one host, (sets, n); None if more than `most` are seen.

    Hosts must be alike; colours are not counted.
    """
    order = np.argsort(-(problem.loads / np.maximum(problem.rooms[0], 1)).max(axis=1), kind="stable").tolist()
    loads = [tuple(each) for each in problem.loads[order].tolist()]
    operators = problem.operators[order].tolist()
    found: list[tuple[int, ...]] = []
    waiting: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = [(0, tuple(problem.rooms[0].tolist()), ())]
    while waiting:
        first, room, chosen = waiting.pop()
        found.append(chosen)
        if len(found) > most:
            return None
        taken = {operators[i] for i in chosen}
        for i in range(first, len(loads)):
            left = tuple(r - load for r, load in zip(room, loads[i], strict=True))
            if min(left) >= 0 and operators[i] not in taken:
                waiting.append((i + 1, left, (*chosen, i)))
    sets = np.zeros((len(found), problem.n_instances), dtype=np.bool_)
    sizes = [len(chosen) for chosen in found]
    columns = [order[i] for chosen in found for i in chosen]
    sets[np.repeat(np.arange(len(found)), sizes), columns] = True
    return sets[~_take_more(problem, sets)]


def _take_more(problem: Placement, sets: BoolArray) -> BoolArray:
    """Return which sets (sets, n) have room for another instance."""
    used = sets.astype(np.int64) @ problem.loads
    codes = np.unique(problem.operators, return_inverse=True)[1]
    has = np.zeros((len(sets), int(codes.max(initial=0)) + 1), dtype=np.bool_)
    at, instance = np.nonzero(sets)
    has[at, codes[instance]] = True
    more = np.zeros(len(sets), dtype=np.bool_)
    for i in range(problem.n_instances):
        more |= ~has[:, codes[i]] & (used + problem.loads[i] <= problem.rooms[0]).all(axis=1)
    return more


def covered(sets: BoolArray, *, deadline: float) -> Covered:
    """Return as few sets as cover all instances, within the limits, and the bound of the linear relaxation."""
    count, n = sets.shape
    instance, column = np.nonzero(sets.T)
    rows = sparse_matrix(np.ones(len(column)), instance, column, (n, count))
    relaxed = linear_program(np.ones(count), at_most=(-rows, -np.ones(n)), method="highs-ds")
    bound = dual_bound(sets, -relaxed.dual_at_most) if relaxed.is_optimal else 1
    answer = mixed_integer_program(
        np.ones(count), [(rows, 1, np.inf)], nodes=_NODES, gap=None, limit_s=left_s(deadline)
    )
    if answer.x is None:
        return Covered(None, bound)
    taken = np.flatnonzero(answer.x > 0.5)
    host = np.where(sets[taken].any(axis=0), sets[taken].argmax(axis=0), -1)
    return Covered(None if (host < 0).any() else host.astype(np.int64), bound)


def dual_bound(sets: BoolArray, prices: FloatArray) -> int:
    """Return the least number of sets that cover all instances, as prices (n,) prove it in whole numbers."""
    whole = np.floor(np.clip(np.nan_to_num(prices), 0.0, 1.0) * _UNIT).astype(np.int64)
    dearest = int((sets.astype(np.int64) @ whole).max(initial=0))
    return -(-int(whole.sum()) // dearest) if dearest else 1
