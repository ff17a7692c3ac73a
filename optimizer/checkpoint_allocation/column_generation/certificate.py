"""The bound that the multipliers of a plan prove: what a verifier asks, without any solver."""

from __future__ import annotations

from models.checked_arrays import FloatArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.column_generation.bound import column_generation_bound

LARGEST_CHECKED = 2_000_000  # J * N above which tables of all loads would take too long; no plan has multipliers there


def multiplier_bound(problem: CheckpointAllocation, multipliers: FloatArray | None) -> float | None:
    """The bound of multipliers (J,), one knapsack problem per node; None for any that cannot be used."""
    if multipliers is None or multipliers.shape != (problem.n_checkpoints,) or problem.cost.size > LARGEST_CHECKED:
        return None
    return float(column_generation_bound(problem, multipliers))
