"""Why each checkpoint is where it is: the chosen node against the two cheapest others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models import display
from models.checked_arrays import FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan

_BY_CHANCE = ("baseline", "even")


@dataclass(frozen=True)
class Alternative:
    """A node that was not chosen: its cost, how much more that is than the chosen node's, and why not."""

    node: int
    cost: float
    costs_more: float
    why_not: str


@dataclass(frozen=True)
class Reason:
    """One checkpoint's choice: node, cost, and the cheapest other nodes with why not, at most two."""

    checkpoint: int
    node: int
    cost: float
    alternatives: tuple[Alternative, ...]


def reasons(problem: CheckpointAllocation, plan: CheckpointPlan, *, others: int = 2) -> list[Reason]:
    """One row per placed checkpoint, in checkpoint order; empty without an assignment.

    The reasons compare single moves: what would happen if this checkpoint alone went to the other node.
    """
    if plan.assignment is None:
        return []
    assignment = plan.assignment
    loads = problem.node_loads(assignment)
    rows = []
    for j in np.flatnonzero(assignment >= 0).tolist():
        node, cost = int(assignment[j]), float(problem.cost[j, assignment[j]])
        cheapest = [n for n in np.argsort(problem.cost[j], kind="stable")[: others + 1].tolist() if n != node]
        found = tuple(
            Alternative(
                n,
                float(problem.cost[j, n]),
                float(problem.cost[j, n]) - cost,
                _why_not(problem, plan, loads, j, n),
            )
            for n in cheapest[:others]
        )
        rows.append(Reason(j, node, cost, found))
    return rows


def _why_not(problem: CheckpointAllocation, plan: CheckpointPlan, loads: FloatArray, j: int, n: int) -> str:
    assert plan.assignment is not None
    impossible = _rule_against(problem, plan.assignment, loads, j, n)
    if impossible:
        return impossible
    if plan.method in _BY_CHANCE:
        return "chosen by chance"
    more = float(problem.cost[j, n]) - float(problem.cost[j, plan.assignment[j]])
    if more > 0:
        return f"costs more by {display.number(more, 6)}"
    if more == 0:
        return "costs the same"
    return f"cheaper by {display.number(-more, 6)}, not found by {plan.method or 'the method'}"


def _rule_against(problem: CheckpointAllocation, assignment: IntArray, loads: FloatArray, j: int, n: int) -> str:
    here = int(assignment[j])
    if not problem.allowed[j, n]:
        return "forbidden"
    for other in problem.neighbours.get(j, ()):
        if assignment[other] == n:
            return f"anti-affinity with checkpoint {other}, which is there"
    with_it = float(loads[n] + problem.weights[j, n])
    if problem.capacity is not None and with_it > problem.upper[n]:
        return f"would overload: {display.number(with_it, 6)} of capacity {display.number(problem.capacity[n], 6)}"
    left = float(loads[here] - problem.weights[j, here])
    if problem.capacity_min is not None and left < problem.lower[here]:
        least = display.number(problem.capacity_min[here], 6)
        return f"node {here} would fall to {display.number(left, 6)}, below its minimum {least}"
    stays = problem.current is not None and here == problem.current[j]
    if stays and problem.max_moves is not None and problem.moves(assignment) >= problem.max_moves:
        return f"all {problem.max_moves} moves are used"
    return ""
