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
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.candidates import Candidates
from optimizer.checkpoint_allocation.params import DEFAULT, LagrangianParameters
from optimizer.common.solvers import linear_program, sparse_matrix


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
    problem: CheckpointAllocation,
    found: Candidates,
    prices: FloatArray,
    budget: Budget,
    parameters: LagrangianParameters = DEFAULT.lagrangian,
) -> tuple[FloatArray, IntArray] | None:
    """Return dual prices (N,) of the linear program on the core, and the column (J,) with the largest share.

    None where the clock strikes, and where there is no solution.
    """
    extra = _extra(found, prices)
    # The margin decides how many pairs the program has; the rest stays on its cheapest node at these prices.
    core = _core(problem, found, extra, (extra <= _margin(extra, parameters.core_pairs)) & np.isfinite(extra))
    # A node that the fixed ones alone overload leaves the program without a solution: no use in solving it.
    if not len(core.j) or (core.room < 0).any() or problem.capacity is None:
        return None
    answer = _solved(core, prices, math.inf, budget)
    if answer is None:
        return None
    shares, change = answer
    at = extra.argmin(axis=1)
    # Ascending shares: the last write for each checkpoint is its largest share.
    order = np.argsort(shares, kind="stable")
    at[core.j[order]] = core.k[order]
    # Costs were relative to the prices, so duals are changes of them; a price below 0 is not one of a capacity.
    return np.maximum(prices + change, 0.0), at


def dived(
    problem: CheckpointAllocation,
    found: Candidates,
    prices: FloatArray,
    budget: Budget,
    parameters: LagrangianParameters = DEFAULT.lagrangian,
    *,
    gain: float,
    share: float,
) -> IntArray | None:
    """Return columns (J,) that a dive leads to; `gain`: how far a known answer is from the bound of the prices.

    A checkpoint is heavy when it takes more than a share of the smallest capacity. None when nothing is heavy, a
    program fails, or the clock strikes.
    """
    finite = np.isfinite(found.cost)
    # Relative to the smallest capacity: heavy where one checkpoint alone decides whether a node has room.
    heavy = np.where(finite, found.load, 0.0).max(axis=1) > share * float(problem.upper.min())
    extra = _extra(found, prices)
    if problem.capacity is None or not heavy.any() or not (prices > 0).any():
        return None
    # Light checkpoints get the global margin; heavy ones keep alternatives even where these are dear.
    margin = _margin(extra[~heavy], max(parameters.dive_pairs, parameters.dive_pairs_per_node * problem.n_nodes))
    rank = np.argsort(np.argsort(extra, axis=1, kind="stable"), axis=1, kind="stable")
    # A better answer may put a heavy checkpoint some share of the gap away from its cheapest node: that stays open.
    near = (extra <= max(margin, parameters.dive_far * gain)) & (rank < parameters.dive_nodes)
    kept = np.where(heavy[:, None], near, extra <= margin) & finite
    at: IntArray = extra.argmin(axis=1)
    # Dearer than any price of room: the program overloads a node only where it has to.
    excess = parameters.dive_excess * float(prices.max())
    # Ends: every round decides some of the heavy checkpoints that are in parts, or leaves the loop.
    for left in range(parameters.dive_programs - 1, -1, -1):
        core = _core(problem, found, extra, kept)
        at[core.only] = kept[core.only].argmax(axis=1)
        if not len(core.j):
            break
        answer = _solved(core, prices, excess, budget)
        if answer is None:
            return None
        order = np.argsort(answer[0], kind="stable")
        at[core.j[order]] = core.k[order]
        parts = _parts(core, heavy, answer[0], parameters.dive_part)
        # The last round but one decides all, so that the last program only distributes the light ones.
        if left != 1:
            parts = parts[: math.ceil(parameters.dive_decided * len(parts))]
        if not len(parts):
            break
        # Deciding is leaving a single pair: `_core` then counts the checkpoint as fixed.
        kept[parts] = False
        kept[parts, at[parts]] = True
    return at


def _extra(found: Candidates, prices: FloatArray) -> FloatArray:
    priced = found.priced(prices)
    priced -= priced.min(axis=1, keepdims=True)
    return priced


def _margin(extra: FloatArray, pairs: int) -> float:
    """Return the extra cost of the dearest of so many pairs beside the cheapest ones."""
    flat = extra[np.isfinite(extra)]
    most = len(extra) + pairs
    return math.inf if len(flat) <= most else float(np.partition(flat, most)[most])


def _core(problem: CheckpointAllocation, found: Candidates, extra: FloatArray, kept: BoolArray) -> _Core:
    """Return the core of the kept pairs (J, K), and the room that checkpoints with a single pair leave."""
    j, k = np.nonzero(kept)
    only = kept.sum(axis=1) == 1
    node, load = found.nodes[j, k], found.load[j, k]
    stays = only[j]
    held = np.bincount(node[stays], weights=load[stays], minlength=problem.n_nodes).astype(np.float64)
    j, k, node, load = j[~stays], k[~stays], node[~stays], load[~stays]
    # An unlimited node would make an infinite right-hand side; more room than all loads changes nothing.
    upper = np.minimum(problem.upper, 2 * (held + float(load.sum())))  # more is no limit
    # Rows are shares of the capacity: coefficients near 1 keep the tolerances of the solver meaningful.
    size = np.where(upper > 0, upper, 1.0)
    room: FloatArray = upper - held
    return _Core(np.flatnonzero(only), j, k, node, load, extra[j, k], room, size)


def _parts(core: _Core, heavy: BoolArray, shares: FloatArray, least: float) -> IntArray:
    """Return the heavy checkpoints in parts, those with the largest part first, ties by index."""
    # Both conditions: the largest part counts only for those that the program really splits.
    inside = heavy[core.j] & (shares > least) & (shares < 1 - least)
    rows = np.unique(core.j[inside])
    largest = np.zeros(len(heavy))
    np.maximum.at(largest, core.j, shares)
    return rows[np.argsort(-largest[rows], kind="stable")]


def _solved(core: _Core, prices: FloatArray, excess: float, budget: Budget) -> tuple[FloatArray, FloatArray] | None:
    """Return the shares of the pairs (P,) and the change of the prices (N,), where costs are relative to the prices.

    Unused room gives its price back: its column costs the price, and fills the row. Load above a capacity costs
    `excess` for each unit; infinite forbids it. None where the program has no solution or the clock strikes.
    """
    n, size = len(core.room), core.size
    row = np.unique(core.j, return_inverse=True)[1]
    # Costs are brought to at most 1: tolerances of the solver are absolute.
    unit = max(float(core.extra.max()), 1e-300)
    pairs, count, nodes = np.arange(len(core.j)), int(row.max()) + 1, np.arange(n)
    # One column of unused room for each node makes the capacity rows equations and gives the price back.
    costs, signs = [core.extra, prices * size], [1.0]
    if math.isfinite(excess):
        costs.append(np.full(n, excess) * size)
        signs.append(-1.0)
    others = len(pairs) + np.arange(n * len(signs))
    both = sparse_matrix(
        np.concatenate([core.load / size[core.node], np.repeat(signs, n), np.ones(len(pairs))]),
        np.concatenate([core.node, np.tile(nodes, len(signs)), n + row]),
        np.concatenate([pairs, others, pairs]),
        (n + count, len(pairs) + len(others)),
    )
    objective = np.concatenate(costs) / unit
    # Prices of extreme units overflow here: no program is better than one with infinite costs.
    if not np.isfinite(objective).all():
        return None
    answer = linear_program(
        objective,
        equal=(both, np.concatenate([core.room / size, np.ones(count)])),
        method="highs-ds",
        limit_s=budget.left_s,
    )
    if not answer.is_optimal or answer.x is None:
        return None
    # Undo the scaling of rows and costs; a dual of an equation may have either sign.
    change = -answer.dual_equal[:n] * unit / size
    return answer.x[: len(pairs)], np.where(np.isfinite(change), change, 0.0)
