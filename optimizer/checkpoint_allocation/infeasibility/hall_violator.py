"""Sets of nodes that cannot hold what may go nowhere else: why there is no allocation, not even of parts.

For a set T of nodes, S(T) are the checkpoints that only nodes of T may store, R(T) those that some node of T may store.
Where the load of a checkpoint is the same on all nodes and there is no anti-affinity,

    load(S(T)) <= capacity(T)    and    capacity_min(T) <= load(R(T))    for all T

are needed, and enough for an allocation that may divide checkpoints (Hall 1935; Hoffman 1960 with minima). A minimum
cut finds a T that breaks one. Nodes are taken out of it as long as that is so, then the lightest checkpoints: of what
is left every part is needed. Sums decide, not the cut, which works on rounded numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.lagrangian.bound import fitting
from optimizer.checkpoint_allocation.params import DEFAULT

SURE = 1 + 1e-12  # sums are compared with room for their rounding
_BITS = 52
_MOST_PAIRS = 200_000_000  # J * N above which nothing is looked at: a byte for each


@dataclass(frozen=True)
class HallViolator:
    """Checkpoints and nodes that do not go together: more load than room, or `least`: a minimum beyond the load."""

    checkpoints: IntArray
    nodes: IntArray
    load: float
    room: float
    least: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """Numbers of nodes and checkpoints: a smaller set says more."""
        return len(self.nodes), len(self.checkpoints)


@dataclass(frozen=True)
class _Rows:
    """Checkpoints that the same nodes may store, as one: where (G, N), load (G,) in all."""

    where: BoolArray
    load: FloatArray


def hall_violator(problem: CheckpointAllocation, *, most_arcs: int | None = None) -> HallViolator | None:
    """The smallest set found that breaks a condition, by nodes and then checkpoints; None without any.

    Loads must be the same on all nodes; anti-affinity pairs and moves are not looked at, so None guarantees nothing
    then. With `most_arcs` only networks of so many arcs are looked at.
    """
    if problem.load.ndim != 1 or problem.cost.size > _MOST_PAIRS:
        return None
    fits = fitting(problem)
    rows = _rows(problem, fits)
    if most_arcs is not None and rows.where.size > most_arcs:
        return None
    sets: list[HallViolator] = []
    for least in (False, True):
        limit = problem.lower if least else problem.upper
        if (limit > 0).any() if least else problem.capacity is not None:
            found = _smallest_nodes(rows, limit, least=least)
            if found is not None:
                sets.append(_few_checkpoints(problem, fits, found, least=least))
    return min(sets, key=lambda one: one.size, default=None)


def _rows(problem: CheckpointAllocation, fits: BoolArray) -> _Rows:
    _, first, group = np.unique(np.packbits(fits, axis=1), axis=0, return_index=True, return_inverse=True)
    return _Rows(fits[first], np.bincount(group.reshape(-1), weights=problem.load).astype(np.float64))


def _smallest_nodes(rows: _Rows, limit: FloatArray, *, least: bool) -> BoolArray | None:
    """The nodes (N,) of the smallest set found: one or two nodes, else what a cut leaves; None without any."""
    n = len(limit)
    for size in (1, 2) if n <= DEFAULT.infeasibility.paired_nodes else (1,):
        best = _of_size(rows, limit, size, least=least)
        if best is not None:
            return best
    cut = _cut(rows, limit, least=least)
    if cut is None or not _broken(rows, limit, cut, least=least):
        return None
    orders = (np.argsort(limit, kind="stable"), np.argsort(-limit, kind="stable"), np.arange(n))
    filtered = [_without(rows, limit, cut, order, least=least) for order in orders]
    return min(filtered, key=lambda one: int(one.sum()))


def _of_size(rows: _Rows, limit: FloatArray, size: int, *, least: bool) -> BoolArray | None:
    """The first set of one or two nodes that breaks the condition."""
    n = len(limit)
    count = rows.where.sum(axis=1)
    if size == 1 or n == 1:
        asked = [[a] for a in range(n)]
    elif least:
        asked = [[a, b] for a in range(n) for b in range(a + 1, n)]
    else:  # only pairs that are all some checkpoints have
        asked = np.unique(np.nonzero(rows.where[count == 2])[1].reshape(-1, 2), axis=0).tolist()
    for nodes in asked:
        chosen = np.zeros(n, dtype=np.bool_)
        chosen[nodes] = True
        if _broken(rows, limit, chosen, least=least):
            return chosen
    return None


def _of_nodes(rows: _Rows, nodes: BoolArray, *, least: bool) -> BoolArray:
    """The groups that count for a set of nodes, (G,)."""
    touched: BoolArray = np.asarray(rows.where[:, nodes].any(axis=1))
    return touched if least else touched & ~rows.where[:, ~nodes].any(axis=1)


def _broken(rows: _Rows, limit: FloatArray, nodes: BoolArray, *, least: bool) -> bool:
    load = math.fsum(rows.load[_of_nodes(rows, nodes, least=least)].tolist())
    room = math.fsum(limit[nodes].tolist())
    return room > load * SURE if least else load > room * SURE


def _without(rows: _Rows, limit: FloatArray, cut: BoolArray, order: IntArray, *, least: bool) -> BoolArray:
    """The set without nodes that are not needed, taken out in this order."""
    nodes = cut.copy()
    for n in order[cut[order]].tolist():
        nodes[n] = False
        if not _broken(rows, limit, nodes, least=least):
            nodes[n] = True
    return nodes


def _cut(rows: _Rows, limit: FloatArray, *, least: bool) -> BoolArray | None:
    """The nodes of a minimum cut between loads and limits; None where all can flow."""
    from ortools.graph.python import max_flow  # noqa: PLC0415 - slow to load

    total = math.fsum(rows.load.tolist())
    finite = np.minimum(limit, 2 * total)
    scale = _BITS - math.frexp(max(total, math.fsum(finite.tolist()), 1e-300))[1]
    load = np.floor(np.ldexp(rows.load, scale)).astype(np.int64)
    room = np.floor(np.ldexp(finite, scale)).astype(np.int64)
    g, n = rows.where.shape
    row, column = np.nonzero(rows.where)
    source, sink = g + n, g + n + 1
    network = max_flow.SimpleMaxFlow()
    tails = np.concatenate([np.full(g, source), row, g + np.arange(n)])
    heads = np.concatenate([np.arange(g), g + column, np.full(n, sink)])
    network.add_arcs_with_capacity(tails, heads, np.concatenate([load, np.full(len(row), 2**_BITS * 2), room]))
    if network.solve(source, sink) != network.OPTIMAL:
        return None
    wanted = int(room.sum()) if least else int(load.sum())
    if network.optimal_flow() >= wanted:
        return None
    side = np.asarray(network.get_sink_side_min_cut() if least else network.get_source_side_min_cut(), dtype=np.int64)
    nodes = np.zeros(n, dtype=np.bool_)
    nodes[side[(side >= g) & (side < source)] - g] = True
    return nodes


def _few_checkpoints(problem: CheckpointAllocation, fits: BoolArray, nodes: BoolArray, *, least: bool) -> HallViolator:
    """The set with its checkpoints: of more load than room only the heaviest that are needed."""
    if least:
        able = np.flatnonzero(fits[:, nodes].any(axis=1))
        load, asked = math.fsum(problem.load[able].tolist()), math.fsum(problem.lower[nodes].tolist())
        return HallViolator(able, np.flatnonzero(nodes), load, asked, least=True)
    while True:
        only = np.flatnonzero(fits[:, nodes].any(axis=1) & ~fits[:, ~nodes].any(axis=1))
        only = only[np.argsort(-problem.load[only], kind="stable")]
        room = math.fsum(problem.upper[nodes].tolist())
        enough = int(np.searchsorted(np.cumsum(problem.load[only]), room * SURE, side="right")) + 1
        while math.fsum(problem.load[only[:enough]].tolist()) <= room * SURE:
            enough += 1  # a running sum is rounded differently
        chosen = np.sort(only[:enough])
        reached = np.asarray(fits[chosen].any(axis=0))
        if (reached == nodes).all():
            return HallViolator(chosen, np.flatnonzero(nodes), math.fsum(problem.load[chosen].tolist()), room)
        nodes = reached
