"""Reasons, cheap to find, why no allocation can keep all constraints."""

from __future__ import annotations

import math

import numpy as np

from models.checked_arrays import BoolArray, FloatArray
from models.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.prices import fitting
from optimizer.checkpoint_allocation.separable import cliques, is_clique

_SURE = 1 + 1e-12  # sums are compared with room for their rounding


def why_infeasible(problem: CheckpointAllocation) -> str:
    """The reason as a sentence; "" when none of the cheap ones applies (it may still be infeasible)."""
    fits = fitting(problem)
    for reason in (_nowhere, _too_much, _too_little, _crowded, _too_many_moves):
        text = reason(problem, fits)
        if text:
            return text
    return ""


def _nowhere(problem: CheckpointAllocation, fits: BoolArray) -> str:
    closed = np.flatnonzero(~problem.allowed.any(axis=1))
    if len(closed):
        return f"checkpoint {closed[0]} has no allowed node"
    stuck = np.flatnonzero(~fits.any(axis=1))
    if len(stuck):
        return f"the load of checkpoint {stuck[0]} exceeds the capacity of every node that may store it"
    return ""


def _too_much(problem: CheckpointAllocation, fits: BoolArray) -> str:
    if problem.capacity is None:
        return ""
    least = math.fsum(_lightest(problem, fits).tolist())
    total = math.fsum(problem.upper.tolist())
    return f"the total load {least:.6g} exceeds the total capacity {total:.6g}" if least > total * _SURE else ""


def _too_little(problem: CheckpointAllocation, fits: BoolArray) -> str:
    if problem.capacity_min is None:
        return ""
    weights = np.where(fits, problem.weights, 0.0)
    most = weights.sum(axis=0)
    short = np.flatnonzero(most * _SURE < problem.lower)
    if len(short):
        n = int(short[0])
        asked = problem.capacity_min[n]
        return f"node {n} asks for at least {asked:.6g}, all that may go there is {most[n]:.6g}"
    largest = math.fsum(weights.max(axis=1).tolist())
    asked = math.fsum(problem.lower.tolist())
    return f"the minimum loads sum to {asked:.6g}, the total load is {largest:.6g}" if largest * _SURE < asked else ""


def _crowded(problem: CheckpointAllocation, fits: BoolArray) -> str:
    for members in cliques(problem):
        nodes = int(fits[members].any(axis=0).sum())
        if is_clique(problem, members) and len(members) > nodes:
            return f"checkpoints {members.tolist()[:8]} must be apart, only {nodes} nodes may store them"
    return ""


def _too_many_moves(problem: CheckpointAllocation, fits: BoolArray) -> str:
    if problem.max_moves is None or problem.current is None:
        return ""
    must = int((~fits[np.arange(problem.n_checkpoints), problem.current]).sum())
    return f"{must} checkpoints cannot stay, only {problem.max_moves} may move" if must > problem.max_moves else ""


def _lightest(problem: CheckpointAllocation, fits: BoolArray) -> FloatArray:
    if problem.load.ndim == 1:
        return problem.load
    lightest: FloatArray = np.where(fits, problem.weights, np.inf).min(axis=1)
    return lightest
