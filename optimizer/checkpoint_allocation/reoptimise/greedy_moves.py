"""The moves that save most from a running plan, each into room that is there: an answer to begin with.

It has the best single move, which a search at prices may miss.
"""

from __future__ import annotations

import numpy as np

from models.checked_arrays import IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.verify.checkpoint_bounds import fits_in

_CHUNK = 2_000_000


def greedy_moves(problem: CheckpointAllocation) -> IntArray | None:
    """The running plan (J,) after at most `max_moves` such moves; None where it breaks a constraint."""
    assert problem.current is not None and problem.max_moves is not None
    answer, rows = problem.current.copy(), np.arange(problem.n_checkpoints)
    loads = problem.node_loads(answer)
    kept = problem.allowed[rows, answer].all()
    if not kept or (loads > problem.upper).any() or (loads < problem.lower).any():
        return None
    saved, to = np.empty(len(rows)), np.empty(len(rows), dtype=np.int64)
    room, slack = problem.upper - loads, loads - problem.lower
    step = max(1, _CHUNK // problem.n_nodes)
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        cost = np.where(fits_in(problem, part) & (problem.weights[part] <= room), problem.cost[part], np.inf)
        to[part] = cost.argmin(axis=1)
        saved[part] = problem.cost[rows[part], answer[part]].astype(np.float64) - cost[rows[part] - first, to[part]]
    order = np.argsort(-saved, kind="stable")
    moved = 0
    for row in order[saved[order] > 0].tolist():
        if moved == problem.max_moves:
            break
        node, here = int(to[row]), int(answer[row])
        brought, taken = problem.weights[row, node], problem.weights[row, here]
        if brought <= room[node] and taken <= slack[here]:
            answer[row] = node
            room[node] -= brought
            slack[node] += brought
            room[here] += taken
            slack[here] -= taken
            moved += 1
    loads = problem.node_loads(answer)  # sums in another order may differ in the last place
    return answer if (loads <= problem.upper).all() and (loads >= problem.lower).all() else None
