"""The constraints of a checkpoint allocation, checked on an assignment without any solver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models import display
from models.checked_arrays import BoolArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation

MOST_LISTED = 20  # violations of one kind that are spelled out


@dataclass(frozen=True)
class Violation:
    """A rule that an answer breaks: its kind, and a sentence with the numbers.

    Kinds of checkpoints: `shape`, `unassigned`, `range`, `forbidden`, `anti_affinity`, `capacity`, `capacity_min` and
    `max_moves`. False statements of a plan have the kind `claim`, and figures beside its answer `stated`.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def constraint_violations(problem: CheckpointAllocation, assignment: IntArray) -> list[Violation]:
    """Return every constraint that an assignment (J,) breaks; the list is empty for a feasible one.

    A wrong shape hides everything else. A checkpoint on no node counts as moved, and takes part in no other rule. Each
    kind lists at most MOST_LISTED.
    """
    if assignment.shape != (problem.n_checkpoints,):
        text = f"has shape {assignment.shape}, must have one node for each checkpoint: {problem.n_checkpoints}"
        return [Violation("shape", text)]
    outside = is_outside(problem, assignment)
    found = [
        Violation("unassigned", f"checkpoint {j} is on no node")
        if assignment[j] == -1
        else Violation("range", f"checkpoint {j} is on node {assignment[j]}, nodes are 0 .. {problem.n_nodes - 1}")
        for j in np.flatnonzero(outside)[:MOST_LISTED].tolist()
    ]
    inside = np.where(outside, -1, assignment)
    found += _pair_violations(problem, inside)
    found += _load_violations(problem, inside)
    moves = problem.moves(assignment)
    if problem.max_moves is not None and moves > problem.max_moves:
        found.append(Violation("max_moves", f"{moves} checkpoints move, at most {problem.max_moves} may"))
    return found


def is_outside(problem: CheckpointAllocation, assignment: IntArray) -> BoolArray:
    """Return for each checkpoint (J,) whether its node is not one of the problem: below 0, or beyond the last one."""
    return (assignment < 0) | (assignment >= problem.n_nodes)


def _pair_violations(problem: CheckpointAllocation, assignment: IntArray) -> list[Violation]:
    j, n = problem.forbidden[:, 0], problem.forbidden[:, 1]
    wrong = np.unique(j[assignment[j] == n])[:MOST_LISTED].tolist()
    found = [Violation("forbidden", f"checkpoint {c} must not be on node {assignment[c]}") for c in wrong]
    a, b = problem.anti_affinity[:, 0], problem.anti_affinity[:, 1]
    together = np.flatnonzero((assignment[a] == assignment[b]) & (assignment[a] >= 0))[:MOST_LISTED]
    return found + [
        Violation("anti_affinity", f"checkpoints {a[k]} and {b[k]} are both on node {assignment[a[k]]}")
        for k in together
    ]


def _load_violations(problem: CheckpointAllocation, assignment: IntArray) -> list[Violation]:
    found = [
        Violation(
            "capacity",
            f"node {over.node} stores {display.number(over.load, 12)}, "
            f"its capacity is {display.number(over.capacity, 12)}",
        )
        for over in problem.overloads(assignment)[:MOST_LISTED]
    ]
    if problem.capacity_min is None:
        return found
    loads = problem.node_loads(assignment)
    return found + [
        Violation(
            "capacity_min",
            f"node {n} stores {display.number(loads[n], 12)}, "
            f"at least {display.number(problem.capacity_min[n], 12)} is asked",
        )
        for n in np.flatnonzero(loads < problem.lower)[:MOST_LISTED].tolist()
    ]
