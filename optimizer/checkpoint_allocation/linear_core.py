"""Linear programs on a core of pairs: the best prices of the nodes, and a first answer from them.

Checkpoints whose second node is dearer by more than a margin stay on their best one; the others have the pairs within
the margin. The program has duals, the best prices there are when nothing that was left out is cheaper at them, and its
solution puts all but at most N checkpoints on one node.

Which of two nodes a light checkpoint is rounded to matters little, for others fill what it leaves. A heavy one that is
in parts on two nodes leaves much room on one or pushes much out of the other. So the heavy ones are decided first: the
program is solved, the third of those in parts whose largest part is largest go there, and so on; a dive. There what is
too much on a node costs, so each program has a solution.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.candidates import Candidates
from optimizer.common.solvers import linear_program

_CORE_PAIRS = 40_000  # pairs of the linear program
_DIVE_PAIRS, _NODE_PAIRS = 8_000, 20  # the same, of those of a dive: in all, or for each node where that is more,
_FAR, _NODES = 0.1, 3  # where heavy checkpoints have the best few nodes within a share of what is to be gained
_DECIDED = 1 / 3  # of the heavy checkpoints in parts, by one program
_PROGRAMS = 8
_PART = 1e-6  # less is no part
_EXCESS = 10.0  # of the largest price: what load costs that is too much


@dataclass(frozen=True)
class _Core:
    """Pairs of checkpoints that may go to several nodes: row, column, node, load, extra cost; the other checkpoints.

    `room` (N,) is left by these; `size` (N,) is what loads are divided by.
    """

    only: IntArray
    j: IntArray
    k: IntArray
    node: IntArray
    load: FloatArray
    extra: FloatArray
    room: FloatArray
    size: FloatArray


def relaxed(
    problem: CheckpointAllocation, found: Candidates, prices: FloatArray, *, until: float = math.inf
) -> tuple[FloatArray, IntArray] | None:
    """Dual prices (N,) of the linear program on the core, and the column (J,) with the largest share.

    `until`: of time.perf_counter, when the clock strikes; None then, and where there is no solution.
    """
    extra = _extra(found, prices)
    core = _core(problem, found, extra, (extra <= _margin(extra, _CORE_PAIRS)) & np.isfinite(extra))
    if not len(core.j) or (core.room < 0).any() or problem.capacity is None:
        return None
    answer = _solved(core, prices, math.inf, until)
    if answer is None:
        return None
    shares, change = answer
    at = extra.argmin(axis=1)
    order = np.argsort(shares, kind="stable")
    at[core.j[order]] = core.k[order]
    return np.maximum(prices + change, 0.0), at


def dived(
    problem: CheckpointAllocation,
    found: Candidates,
    prices: FloatArray,
    *,
    gain: float,
    share: float,
    until: float = math.inf,
) -> IntArray | None:
    """Columns (J,) that a dive leads to; `gain`: how far a known answer is from the bound of the prices.

    Heavy is what takes more than a share of the smallest capacity. None when nothing is heavy, a program fails, or the
    clock (`until`, of time.perf_counter) strikes.
    """
    finite = np.isfinite(found.cost)
    heavy = np.where(finite, found.load, 0.0).max(axis=1) > share * float(problem.upper.min())
    extra = _extra(found, prices)
    if problem.capacity is None or not heavy.any() or not (prices > 0).any():
        return None
    margin = _margin(extra[~heavy], max(_DIVE_PAIRS, _NODE_PAIRS * problem.n_nodes))
    rank = np.argsort(np.argsort(extra, axis=1, kind="stable"), axis=1, kind="stable")
    near = (extra <= max(margin, _FAR * gain)) & (rank < _NODES)
    kept = np.where(heavy[:, None], near, extra <= margin) & finite
    at: IntArray = extra.argmin(axis=1)
    excess = _EXCESS * float(prices.max())
    for left in range(_PROGRAMS - 1, -1, -1):
        core = _core(problem, found, extra, kept)
        at[core.only] = kept[core.only].argmax(axis=1)
        if not len(core.j):
            break
        answer = _solved(core, prices, excess, until)
        if answer is None:
            return None
        order = np.argsort(answer[0], kind="stable")
        at[core.j[order]] = core.k[order]
        parts = _parts(core, heavy, answer[0], all_of_them=left == 1)
        if not len(parts):
            break
        kept[parts] = False
        kept[parts, at[parts]] = True
    return at


def _extra(found: Candidates, prices: FloatArray) -> FloatArray:
    priced = found.priced(prices)
    priced -= priced.min(axis=1, keepdims=True)
    return priced


def _margin(extra: FloatArray, pairs: int) -> float:
    """What the dearest of so many pairs beside the cheapest ones is dearer by."""
    flat = extra[np.isfinite(extra)]
    most = len(extra) + pairs
    return math.inf if len(flat) <= most else float(np.partition(flat, most)[most])


def _core(problem: CheckpointAllocation, found: Candidates, extra: FloatArray, kept: BoolArray) -> _Core:
    j, k = np.nonzero(kept)
    only = kept.sum(axis=1) == 1
    node, load = found.nodes[j, k], found.load[j, k]
    stays = only[j]
    held = np.bincount(node[stays], weights=load[stays], minlength=problem.n_nodes).astype(np.float64)
    j, k, node, load = j[~stays], k[~stays], node[~stays], load[~stays]
    upper = np.minimum(problem.upper, 2 * (held + float(load.sum())))  # more is no limit
    size = np.where(upper > 0, upper, 1.0)
    room: FloatArray = upper - held
    return _Core(np.flatnonzero(only), j, k, node, load, extra[j, k], room, size)


def _parts(core: _Core, heavy: BoolArray, shares: FloatArray, *, all_of_them: bool) -> IntArray:
    """The heavy checkpoints in parts that are decided next: those whose largest part is largest, ties by index."""
    inside = heavy[core.j] & (shares > _PART) & (shares < 1 - _PART)
    rows = np.unique(core.j[inside])
    largest = np.zeros(len(heavy))
    np.maximum.at(largest, core.j, shares)
    order = rows[np.argsort(-largest[rows], kind="stable")]
    return order if all_of_them else order[: math.ceil(_DECIDED * len(order))]


def _solved(core: _Core, prices: FloatArray, excess: float, until: float) -> tuple[FloatArray, FloatArray] | None:
    """The shares of the pairs, and what to add to the prices, when costs are relative to them.

    Room that is left over gives its price back: a column of it costs the price, and fills the row. What is too much
    costs `excess`; infinite where nothing may be too much.
    """
    from scipy import sparse  # noqa: PLC0415

    n, size = len(core.room), core.size
    row = np.unique(core.j, return_inverse=True)[1]
    unit = max(float(core.extra.max()), 1e-300)
    columns, count = np.arange(len(core.j)), int(row.max()) + 1
    one = sparse.eye_array(n)
    loads = [sparse.csr_array((core.load / size[core.node], (core.node, columns)), shape=(n, len(columns))), one]
    costs = [core.extra, prices * size]
    if math.isfinite(excess):
        loads.append(-one)
        costs.append(np.full(n, excess) * size)
    once = sparse.csr_array((np.ones(len(columns)), (row, columns)), shape=(count, len(columns) + n * (len(loads) - 1)))
    both: Any = sparse.vstack([sparse.hstack(loads), once])
    objective = np.concatenate(costs) / unit
    if not np.isfinite(objective).all():
        return None
    answer = linear_program(
        objective,
        equal=(both, np.concatenate([core.room / size, np.ones(count)])),
        method="highs-ds",
        limit_s=None if math.isinf(until) else max(until - time.perf_counter(), 1e-3),
    )
    if not answer.is_optimal or answer.x is None:
        return None
    change = -answer.dual_equal[:n] * unit / size
    return answer.x[: len(columns)], np.where(np.isfinite(change), change, 0.0)
