"""Among equally cheap answers the one that spreads the load of checkpoints: the paper's tie rule.

Source: Madsen and Zhou, CIKM 2015, Algorithm 3: of equal values the node with the lowest load of checkpoints.
"""

from __future__ import annotations

import numpy as np

from models.checked_arrays import IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.lagrangian.separable import is_separable


def level_ties(problem: CheckpointAllocation, assignment: IntArray) -> IntArray:
    """The assignment (J,) with each checkpoint on the least loaded of the nodes that cost it exactly the same.

    Largest first; the objective stays what it is. Only where nothing couples the checkpoints: else the assignment is
    returned as it is.
    """
    if not is_separable(problem) or problem.neighbours or problem.max_moves is not None:
        return assignment
    held = np.zeros(problem.n_nodes)
    found = assignment.copy()
    own = problem.cost[np.arange(problem.n_checkpoints), assignment]
    equal = problem.allowed & (problem.cost == own[:, None])
    load = problem.weights[np.arange(problem.n_checkpoints), assignment]
    for j in np.argsort(-load, kind="stable").tolist():
        nodes = np.flatnonzero(equal[j])
        found[j] = nodes[np.argmin(held[nodes])]
        held[found[j]] += problem.weights[j, found[j]]
    return found
