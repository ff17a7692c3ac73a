"""A few nodes packed again: is there a better packing of what is on them, and which?

First the multipliers are corrected for the group. When its bound reaches what the present packing costs, there is none,
and that was cheap to see. Else every pair gets a bound of its own,

    L(u) + (K_n - K_n with j in) + sum_{m != n} (K_m - K_m without j),

for the allocations that use it; pairs whose bound reaches the present cost are in no better packing. HiGHS packs what
remains. Its answer is checked by whoever takes it, so its tolerances decide nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.column_generation.knapsack import penalties
from optimizer.checkpoint_allocation.column_generation.multipliers import Part, Sets, evaluated, raised
from optimizer.checkpoint_allocation.mixed_integer import rules_of_pairs
from optimizer.common.solvers import mixed_integer_program


@dataclass(frozen=True)
class TrueLoads:
    """Loads (N, J) as shares of `room` (N,): whole numbers with half a unit to spare, or true loads and capacities."""

    load: FloatArray
    room: FloatArray


def pair_bounds(part: Part, u: FloatArray, target: float, work: Budget) -> tuple[float, FloatArray]:
    """L(u), and a lower bound (n, j) of every allocation that uses the pair, correct up to `target`."""
    total = evaluated(part, u, work)[0]
    margin = max(target - total, 0.0)
    found = [
        penalties(u - cost, load, int(room), margin, work, part.parameters)
        for cost, load, room in zip(part.cost, part.load, part.room, strict=True)
    ]
    within, without = np.array([one[1] for one in found]), np.array([one[2] for one in found])
    return total, total + within + (without.sum(axis=0) - without)


def pack(
    part: Part, u: FloatArray, true: TrueLoads, work: Budget, *, target: float, delta: float, pairs: int, nodes: int
) -> IntArray | None:
    """The node (position) of each checkpoint, below `target`, that HiGHS finds among so many pairs, or None."""
    better = raised(
        part, u, steps=part.parameters.proof_steps, delta=delta, patience=6, sets=Sets(), enough=target, work=work
    )
    if better.bound >= target:
        return None
    limit = min(target, better.bound + 200 * max(delta, 1.0))
    _, least = pair_bounds(part, better.u, limit, work)
    kept = least < limit if np.isfinite(target) else np.isfinite(least)
    if kept.sum() > pairs:
        kept &= least <= np.partition(least[kept], pairs - 1)[pairs - 1]
    if not kept.any(axis=0).all():
        return None
    return _program(part, kept, true, nodes, work)


def _program(part: Part, kept: BoolArray, true: TrueLoads, nodes: int, work: Budget) -> IntArray | None:
    j, n = np.nonzero(kept.T)
    share = true.load[part.nodes[n], part.items[j]] / true.room[part.nodes[n]]
    cost = part.cost[n, j] - part.cost[n, j].min()
    largest = max(float(cost.max()), 1.0)
    rules = rules_of_pairs(j, n, share, np.ones(len(part.nodes)))
    answer = mixed_integer_program(cost * (min(2.0**20, largest) / largest), rules, nodes=nodes, limit_s=work.left_s)
    work.program(len(j), answer.nodes + 1)
    if answer.x is None:
        return None
    chosen = answer.x > 0.5
    at = np.full(len(part.items), -1, dtype=np.int64)
    at[j[chosen]] = n[chosen]
    return at if (at >= 0).all() else None
