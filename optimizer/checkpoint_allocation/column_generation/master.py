"""Multipliers of the checkpoints from the master program: linear programs in a box around the best ones so far.

The sets known so far are the columns; their linear program says where L(u) could be largest. Far from u it knows
nothing, so u[j] may change by at most `box` (the boxstep method: Marsten, Hogan and Blankenship 1975). A step that
brings half of what the program predicted widens the box, a step that loses narrows it. It ends when the program
predicts too little: then L(u) is within that of the bound of Dantzig-Wolfe. Floating point decides where to look; L(u)
is evaluated in whole numbers.
"""

from __future__ import annotations

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.column_generation.multipliers import Multipliers, Part, Sets, evaluated, members
from optimizer.common.solvers import linear_program

_AT_BOX = 0.999  # share of the box from which on a multiplier is at the box


class _Columns:
    """Sets of the nodes, positions in the part, no set twice."""

    def __init__(self, part: Part, sets: Sets) -> None:
        self.part = part
        self.known: dict[tuple[int, bytes], IntArray] = {}
        item = {true: at for at, true in enumerate(part.items.tolist())}
        node = {true: at for at, true in enumerate(part.nodes.tolist())}
        for true, weights in sets.weights.items():
            for key in weights:
                self.add(node[true], np.array([item[one] for one in members(key).tolist()], dtype=np.int64))

    def add(self, node: int, chosen: IntArray) -> bool:
        """Return whether the set is new."""
        ordered = np.sort(chosen)
        key = (node, ordered.tobytes())
        new = key not in self.known
        self.known[key] = ordered
        return new

    def program(self, u: FloatArray, box: float, until_s: float) -> tuple[FloatArray, float, int] | None:
        """Return what to add to u (j,), what the sum of the sets' reduced costs would be, and iterations."""
        from scipy import sparse  # noqa: PLC0415

        chosen = list(self.known.values())
        node = np.array([key[0] for key in self.known])
        sizes = np.array([len(one) for one in chosen])
        rows, columns = np.concatenate(chosen), np.repeat(np.arange(len(chosen)), sizes)
        cost = np.bincount(columns, self.part.cost[node[columns], rows] - u[rows], len(chosen))
        j, n = self.part.cost.shape[1], len(self.part.nodes)
        more = np.arange(j)
        at = (
            np.concatenate([rows, more, more, j + node]),
            np.concatenate([columns, len(chosen) + more, len(chosen) + j + more, np.arange(len(chosen))]),
        )
        ones = np.ones(len(rows) + len(chosen) + 2 * j)
        ones[len(rows) + j : len(rows) + 2 * j] = -1
        matrix = sparse.csr_array((ones, at), shape=(j + n, len(chosen) + 2 * j))
        answer = linear_program(
            np.concatenate([cost / box, np.ones(2 * j)]),
            at_most=(matrix[j:], np.ones(n)),
            equal=(matrix[:j], np.ones(j)),
            method="highs-ds",
            limit_s=until_s,
            iterations=self.part.parameters.master_iterations,
        )
        return (answer.dual_equal * box, answer.objective * box, answer.iterations) if answer.is_optimal else None


def boxed(
    part: Part,
    start: Multipliers,
    sets: Sets,
    *,
    box: float,
    close: float,
    work: Budget,
) -> Multipliers:
    """Multipliers whose bound is within `close` of the best there are, unless the work ends.

    They are never worse than the start; `sets` have been met before.
    """
    best, own = start, part.parameters
    wider, narrower, much_wider = own.box_factors
    columns = _Columns(part, sets)
    for _ in range(own.master_steps):
        if work.over or not columns.known:
            break
        found = columns.program(best.u, box, work.left_s)
        if found is None or not np.isfinite(found[0]).all():
            break
        step, change, iterations = found
        work.linear(len(step) + len(part.nodes), len(columns.known) + 2 * len(step), iterations)
        u = np.rint(best.u + step)
        value, _, chosen = evaluated(part, u, work)
        new = [columns.add(node, at) for node, at in enumerate(chosen)]
        predicted, got = float(best.u.sum()) + change - best.bound, value - best.bound
        stopped = float((np.abs(step) > _AT_BOX * box).mean())
        if got > 0:
            best = Multipliers(u, value, best.delta)
        if predicted < close and stopped < own.box_felt:
            break
        if predicted < close or not any(new):
            box *= much_wider
        elif got > 0.5 * predicted and stopped > own.box_felt:
            box *= wider
        elif got < -predicted:
            box = max(box * narrower, 1.0)
    return best
