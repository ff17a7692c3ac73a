"""Proofs of a bound that need no solver: what a plan carries, and what follows from the problem alone.

Each value is at most what any assignment that keeps the constraints costs:

- the cheapest nodes that may store each checkpoint and have room for it alone;
- with a limit on moves, staying and the moves that save most, also at the prices of the plan;
- of copies with anti-affinity, as many different nodes as there are copies, each at its cheapest;
- prices of the nodes (`lagrangian_bound`), of either sign; where capacities only count, in numbers of checkpoints
  (`potential_bound`);
- multipliers of the checkpoints, with one knapsack problem per node (`multiplier_bound`);
- for small problems, that nothing is found below the bound when all is tried (`better_assignment`).

All is summed over all pairs, some rows at a time in float64, less what rounding may add.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from optimizer.common.enumeration import closed_by_granularity
from optimizer.verify.better_assignment import better_assignment, good_prices
from optimizer.verify.checkpoint_bounds import (
    cliques,
    counts,
    fits_in,
    fits_somewhere,
    is_clique,
    is_count_problem,
    lagrangian_bound,
    move_bound,
    multiplier_bound,
    potential_bound,
    reduced_minima,
)
from optimizer.verify.infeasibility import why_infeasible

_TRIED_PAIRS = 2_000
_ROUNDING = 1e-9  # of what the cheapest nodes cost
_LARGEST_PRICED = 1e290  # so that no sum of prices times loads overflows


@dataclass(frozen=True)
class Proof:
    """A value that no assignment that keeps the constraints is below, what proves it, and whether it is the bound.

    `example` is an assignment that is below the bound, where trying all found one.
    """

    value: float
    how: str
    enough: bool = False
    example: IntArray | None = None


def proof_of_bound(problem: CheckpointAllocation, plan: CheckpointPlan, tolerance: float) -> Proof | None:
    """Return the first proof of the plan's bound; else the best proof of less; None without a bound, or any proof.

    The tolerance is a share of the bound; less than a unit of all costs is no difference either.
    """
    if plan.bound is None or not math.isfinite(plan.bound) or not fits_somewhere(problem):
        return None
    minima, _ = reduced_minima(problem, np.zeros(problem.n_nodes))
    slack = tolerance * abs(plan.bound)
    best: Proof | None = None
    # Cheap proofs first: the generator computes the next one only where the last was not enough.
    for proof in _proofs(problem, plan, minima):
        if plan.bound <= proof.value + slack or _is_rounding(problem, proof.value, plan.bound, minima):
            return replace(proof, enough=True)
        best = proof if best is None or proof.value > best.value else best
    # Trying all is exact whatever the numbers are, but only small problems allow it.
    if problem.cost.size <= _TRIED_PAIRS:
        tried = better_assignment(problem, plan.bound - slack, prices=good_prices(problem, plan.bound))
        if tried.decided and tried.best is None:
            return Proof(plan.bound, "all assignments that may cost less", enough=True)
        best = replace(best or Proof(-math.inf, ""), example=tried.best)
    return best


def _is_rounding(problem: CheckpointAllocation, proven: float, bound: float, minima: FloatArray) -> bool:
    """Return whether a bound is above what is proven by a hair that no assignment can be in."""
    hair = _ROUNDING * math.fsum(np.abs(minima).tolist())
    return bound - proven <= hair and closed_by_granularity(problem, proven, bound)


def _proofs(problem: CheckpointAllocation, plan: CheckpointPlan, minima: FloatArray) -> Iterator[Proof]:

    yield Proof(math.fsum(minima.tolist()), "the cheapest allowed nodes")
    if problem.max_moves is not None:
        yield Proof(move_bound(problem, np.zeros(problem.n_nodes)), "the moves that save most")
    if problem.neighbours:
        yield Proof(_different_nodes(problem, minima), "different nodes for copies")
    packed = multiplier_bound(problem, plan.multipliers)
    if packed is not None:
        yield Proof(packed, "the multipliers of the plan")
    prices = plan.prices
    if prices is not None and prices.shape == (problem.n_nodes,) and _computable(problem, prices):
        yield Proof(lagrangian_bound(problem, prices), "the dual prices of the plan")
        if problem.max_moves is not None:
            yield Proof(move_bound(problem, prices), "the dual prices of the plan, and the moves that save most")
        yield from _counted(problem, prices)


def _computable(problem: CheckpointAllocation, prices: FloatArray) -> bool:
    """Return whether loads and capacities at these prices stay below what float64 holds: else a cost seems infinite."""
    amounts = [problem.load] if problem.capacity is None else [problem.load, problem.upper]
    dearest = float(np.abs(prices).max())
    return all(dearest * float(amount.max()) <= _LARGEST_PRICED for amount in amounts)


def _counted(problem: CheckpointAllocation, prices: FloatArray) -> Iterator[Proof]:
    """Yield the bound of prices for numbers of checkpoints, where all weigh the same on a node."""
    if is_count_problem(problem):
        value, rounding = potential_bound(problem, counts(problem), prices * problem.weights[0])
        yield Proof(value - rounding, "the dual prices of the plan")


def _different_nodes(problem: CheckpointAllocation, minima: FloatArray) -> float:
    """Return the cost of the cheapest nodes; for copies with pairwise anti-affinity, of that many different ones."""
    terms = minima.copy()
    for members in cliques(problem):
        if is_clique(problem, members) and len(members) <= problem.n_nodes:
            costs = np.where(fits_in(problem, members), problem.cost[members], np.inf).min(axis=0)
            different = np.sort(costs)[: len(members)]
            if different.sum() > minima[members].sum():
                terms[members] = different
    return math.fsum(terms.tolist())


def why_no_assignment(problem: CheckpointAllocation) -> str:
    """Return why nothing keeps the constraints, where sums, or trying all, prove it; else ""."""
    reason = why_infeasible(problem)
    if reason is not None or problem.cost.size > _TRIED_PAIRS:
        return "" if reason is None else reason.text
    tried = better_assignment(problem, math.inf)
    return "all assignments break something" if tried.decided and tried.best is None else ""
