"""Allocations from sets: fix the set that the average holds most of, correct the multipliers, and so on; a dive.

As a node gets its set for good, the program shrinks by the node and the checkpoints, and a few steps make the
multipliers right for the rest. Whole sets fill their nodes as well as any, which no rounding of single pairs does. The
last nodes are packed together (`groups`). Source: Sadykov, Vanderbeck, Pessoa, Tahiri and Uchoa 2019, pure diving.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.column_generation.multipliers import Part, Sets, members, raised


@dataclass
class Dive:
    """The rest of the program with its multipliers, and what is fixed: nodes in order, their sets, and their cost."""

    part: Part
    u: FloatArray
    nodes: list[int] = field(default_factory=list)
    sets: list[IntArray] = field(default_factory=list)
    cost: float = 0.0


@dataclass(frozen=True)
class Depth:
    """The depth of a dive: steps after each fixing, the level of a step, nodes left at the end, nodes fixed at once."""

    steps: int
    delta: float
    left: int
    at_once: int = 1
    noise: float = 0.0


def dive(
    part: Part,
    u: FloatArray,
    sets: Sets,
    depth: Depth,
    *,
    target: float,
    fits: Callable[[int, IntArray], bool],
    random: np.random.Generator,
    work: Budget,
) -> Dive | None:
    """Fix the sets of all nodes but a few; None when that cannot end below `target`. `sets` are used up.

    `fits` says whether true loads of a set keep the capacity of a node.
    """
    state = Dive(part, u)
    count = failed = 0
    while len(state.part.nodes) > depth.left and len(state.part.items):
        if count:
            left = target - state.cost
            better = raised(
                state.part, state.u, steps=depth.steps, delta=depth.delta, patience=8, sets=sets, enough=left, work=work
            )
            state.u = better.u
            if better.bound >= left or work.over:
                return None
        many = len(state.part.nodes) > depth.left + 4 * depth.at_once
        before = count
        for _ in range(depth.at_once if many else 1):
            if not _fix_one(state, sets, depth.noise, fits, random):
                break
            count += 1
        failed = 0 if count > before else failed + 1
        if failed and (not count or failed > part.parameters.dive_failures):
            return None  # no set keeps the true capacities, and further steps bring none
    return state


def _fix_one(
    state: Dive, sets: Sets, noise: float, fits: Callable[[int, IntArray], bool], random: np.random.Generator
) -> bool:
    """Return whether there was a set to fix."""
    found = [
        (weight * float(random.uniform(1 - noise, 1)), node, key)
        for node in state.part.nodes.tolist()
        for key, weight in sets.weights.get(node, {}).items()
    ]
    for _, node, key in sorted(found, reverse=True):
        chosen = members(key)
        if fits(node, chosen):
            _fix(state, node, chosen)
            sets.taken(node, chosen)
            return True
    return False


def _fix(state: Dive, node: int, chosen: IntArray) -> None:
    at = int(np.flatnonzero(state.part.nodes == node)[0])
    gone = np.isin(state.part.items, chosen)
    state.cost += float(state.part.cost[at, gone].sum())
    state.nodes.append(node)
    state.sets.append(chosen)
    state.part = state.part.without(at, np.flatnonzero(gone))
    state.u = state.u[~gone]
