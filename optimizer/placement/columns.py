from __future__ import annotations

from models.placement import Placement
from optimizer.placement.bounds import Bound
from optimizer.placement.budget import Budget


def column_bound(problem: Placement, most_colours: int | None, budget: Budget) -> Bound | None:
    return None
