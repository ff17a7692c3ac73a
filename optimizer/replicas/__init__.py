"""Replicas of operators: see `models.planning.replicas` for the program.

`heuristic.plan` does what the paper does: importance, then selection, then placement.
"""

from __future__ import annotations

from optimizer.replicas.heuristic import SELECTIONS, plan
from optimizer.replicas.placing import PLACEMENTS

__all__ = ["PLACEMENTS", "SELECTIONS", "plan"]
