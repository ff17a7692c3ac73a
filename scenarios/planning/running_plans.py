"""Problems that begin with what runs by an earlier plan, from which only so many may move."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from models.errors import NO_VALUE, InputError
from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from models.planning.placement import Placement, PlacementPlan
from scenarios.planning.plan_files import CHECKPOINTS, plan_document_in, read_checkpoint_plan, read_plan_file


def running_checkpoints(problem: CheckpointAllocation, path: Path) -> CheckpointPlan:
    """Return the plan of these checkpoints in a file; raises InputError for a plan of anything else."""
    kind, _ = plan_document_in(path)
    if kind != CHECKPOINTS:
        raise InputError.at("--from", str(path), f"must be a plan of checkpoints, and is one of {kind}")
    plan = read_checkpoint_plan(path)
    if plan.assignment is not None and len(plan.assignment) != problem.n_checkpoints:
        rule = f"must have a node for each of {problem.n_checkpoints} checkpoints"
        raise InputError.at("--from", str(path), rule, f"it has {len(plan.assignment)}")
    return plan


def with_few_moves(
    problem: CheckpointAllocation, running: CheckpointPlan | None, max_moves: int
) -> CheckpointAllocation:
    """Return the problem with at most so many moves away from the running plan, or else from its own `current`."""
    current = problem.current if running is None or running.assignment is None else running.assignment
    _refuse_moves(max_moves, current is not None, "allocation")
    return replace(problem, current=current, max_moves=max_moves)


def _refuse_moves(max_moves: int, runs: bool, what: str) -> None:
    if not 0 <= max_moves < 2**53:
        rule = "must be a whole number, at least 0 and below 2^53"
        raise InputError.at("--max-moves", max_moves, rule, "leave it out where all may move")
    if not runs:
        raise InputError.at("--max-moves", max_moves, f"counts moves from a running {what}", "name it with --from")


def placement_from(problem: Placement, running: Path | None, max_moves: int | None) -> Placement:
    """Return the problem with what runs by the plan in a file, and at most so many moves.

    Raises InputError for a file that has no placement of these instances, and for moves of nothing that runs.
    """
    if running is not None:
        plan: PlacementPlan = read_plan_file(running, "placement").plan()
        if plan.host is None:
            raise InputError.at("--from", str(running), "is a plan without a placement")
        problem = replace(problem, current=plan.host)
    if max_moves is not None:
        _refuse_moves(max_moves, problem.current is not None, "placement")
        problem = replace(problem, max_moves=max_moves)
    if problem.current is not None and len(problem.current) != problem.n_instances:
        raise InputError.at("current", NO_VALUE, f"must have a host for each of {problem.n_instances} instances")
    return problem
