"""Among equally cheap answers the one that spreads the load of checkpoints: the paper's tie rule.

Source: Madsen and Zhou, CIKM 2015, Algorithm 3: of equal values the node with the lowest load of checkpoints.
"""

from __future__ import annotations

import numpy as np

from models.checked_arrays import IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.lagrangian.separable import is_separable


def level_ties(problem: CheckpointAllocation, assignment: IntArray) -> IntArray:
    """Return the assignment (J,) with each checkpoint on the least loaded of the nodes of exactly the same cost.

    Largest first; the objective stays what it is. Only where nothing couples the checkpoints: else the assignment is
    returned as it is.
    """
    # With capacities or copies kept apart, a change of one checkpoint could break a rule or spoil the answer of
    # another.
    if not is_separable(problem) or problem.neighbours or problem.max_moves is not None:
        return assignment
    held = np.zeros(problem.n_nodes)
    found = assignment.copy()
    # Exactly equal, not nearly: the objective must keep every digit.
    own = problem.cost[np.arange(problem.n_checkpoints), assignment]
    equal = problem.allowed & (problem.cost == own[:, None])
    load = problem.weights[np.arange(problem.n_checkpoints), assignment]
    # Largest first, as in list scheduling: small ones fill up what large ones leave uneven.
    for j in np.argsort(-load, kind="stable").tolist():
        nodes = np.flatnonzero(equal[j])
        found[j] = nodes[np.argmin(held[nodes])]
        held[found[j]] += problem.weights[j, found[j]]
    return found
