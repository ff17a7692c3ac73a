"""Checking an answer without any solver: objective recomputed, broken constraints listed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, IntArray
from models.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from models.solution import OPTIMAL_GAP, Status

VALUE_TOLERANCE = 1e-9  # relative to the sum of the absolute costs: how far a claimed objective may be off
_MOST_LISTED = 20  # violations of one kind that are spelled out


@dataclass(frozen=True)
class Violation:
    """One rule that an answer breaks: which kind, and a sentence with the numbers."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True)
class Verdict:
    """The recomputed objective (None without a whole assignment) and every violation found."""

    objective: float | None
    violations: tuple[Violation, ...]

    @property
    def ok(self) -> bool:
        """True when nothing is violated."""
        return not self.violations


def verify_checkpoints(problem: CheckpointAllocation, plan: CheckpointPlan) -> Verdict:
    """The verdict on a plan: assignment against every constraint, status and bound against the objective."""
    found: list[Violation] = []
    objective = None
    if plan.assignment is not None:
        found += constraint_violations(problem, plan.assignment)
        if plan.assignment.shape == (problem.n_checkpoints,) and not _outside(problem, plan.assignment).any():
            objective = problem.objective(plan.assignment)
    found += _claim_violations(problem, plan, objective, broken=bool(found))
    return Verdict(objective, tuple(found))


def constraint_violations(problem: CheckpointAllocation, assignment: IntArray) -> list[Violation]:
    """Every constraint that an assignment breaks; the list is empty for a feasible one."""
    if assignment.shape != (problem.n_checkpoints,):
        text = f"has shape {assignment.shape}, must have one node for each checkpoint: {problem.n_checkpoints}"
        return [Violation("shape", text)]
    outside = _outside(problem, assignment)
    found = [
        Violation("unassigned", f"checkpoint {j} is on no node")
        if assignment[j] == -1
        else Violation("range", f"checkpoint {j} is on node {assignment[j]}, nodes are 0 .. {problem.n_nodes - 1}")
        for j in np.flatnonzero(outside)[:_MOST_LISTED].tolist()
    ]
    inside = np.where(outside, -1, assignment)
    found += _pair_violations(problem, inside)
    found += _load_violations(problem, inside)
    moves = problem.moves(assignment)
    if problem.max_moves is not None and moves > problem.max_moves:
        found.append(Violation("max_moves", f"{moves} checkpoints move, at most {problem.max_moves} may"))
    return found


def _outside(problem: CheckpointAllocation, assignment: IntArray) -> BoolArray:
    return (assignment < 0) | (assignment >= problem.n_nodes)


def _pair_violations(problem: CheckpointAllocation, assignment: IntArray) -> list[Violation]:
    j, n = problem.forbidden[:, 0], problem.forbidden[:, 1]
    wrong = np.unique(j[assignment[j] == n])[:_MOST_LISTED].tolist()
    found = [Violation("forbidden", f"checkpoint {c} must not be on node {assignment[c]}") for c in wrong]
    a, b = problem.apart[:, 0], problem.apart[:, 1]
    together = np.flatnonzero((assignment[a] == assignment[b]) & (assignment[a] >= 0))[:_MOST_LISTED]
    return found + [
        Violation("apart", f"checkpoints {a[k]} and {b[k]} are both on node {assignment[a[k]]}") for k in together
    ]


def _load_violations(problem: CheckpointAllocation, assignment: IntArray) -> list[Violation]:
    found = [
        Violation("capacity", f"node {over.node} stores {over.load:.12g}, its capacity is {over.capacity:.12g}")
        for over in problem.overloads(assignment)[:_MOST_LISTED]
    ]
    if problem.capacity_min is None:
        return found
    loads = problem.node_loads(assignment)
    return found + [
        Violation(
            "capacity_min",
            f"node {n} stores {loads[n]:.12g}, at least {problem.capacity_min[n]:.12g} is asked",
        )
        for n in np.flatnonzero(loads < problem.lower)[:_MOST_LISTED].tolist()
    ]


def _claim_violations(
    problem: CheckpointAllocation, plan: CheckpointPlan, objective: float | None, *, broken: bool
) -> list[Violation]:
    found: list[str] = []
    slack = VALUE_TOLERANCE * _magnitude(problem, plan.assignment if objective is not None else None)
    claims_an_answer = plan.status in (Status.OPTIMAL, Status.FEASIBLE)
    if claims_an_answer and plan.assignment is None:
        found.append(f"says {plan.status} without an assignment")
    if plan.status is Status.INFEASIBLE and plan.assignment is not None and not broken:
        found.append("says infeasible with an assignment that breaks nothing")
    if claims_an_answer and plan.objective is None:
        found.append(f"says {plan.status} without an objective")
    for name, value in (("objective", plan.objective), ("bound", plan.bound)):
        if value is not None and not math.isfinite(value):
            found.append(f"{name} is {value}")
    if plan.objective is not None and objective is not None and not abs(plan.objective - objective) <= slack:
        found.append(f"says objective {plan.objective!r}, recomputed {objective!r}")
    if not broken and objective is not None and plan.bound is not None and not plan.bound <= objective + slack:
        found.append(f"says bound {plan.bound!r}, above the recomputed objective {objective!r}")
    if plan.status is Status.OPTIMAL and (plan.gap is None or not plan.gap <= OPTIMAL_GAP):
        found.append(f"says optimal with gap {plan.gap}, at most {OPTIMAL_GAP:g} is a proof")
    return [Violation("claim", text) for text in found]


def _magnitude(problem: CheckpointAllocation, assignment: IntArray | None) -> float:
    if assignment is None:
        return 1.0
    return math.fsum(np.abs(problem.cost[np.arange(problem.n_checkpoints), assignment]).tolist())
