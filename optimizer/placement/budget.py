"""Work that a search may do: deterministic amounts decide, the clock is a last resort."""

from __future__ import annotations

import time

from models.planning.placement import PlacementPlan
from models.planning.solution import Status
from optimizer.verify.placement_bounds import Bound

_WORK_PER_S = 4_000_000  # exchanges looked at in a second of the limit: half of what a quiet machine does
_GRACE = 0.1  # of the limit, beyond it
_MODEL_SHARE = 0.4  # of the limit, in deterministic seconds of CP-SAT
_STRUCK = "the time limit struck, so two runs may differ"


class Budget:
    """The remaining work and deterministic seconds of CP-SAT; `struck` once the clock ran out first.

    Work is in exchanges that were looked at. Both amounts follow from the time limit [s], so that the same problem
    gives the same plan on any machine that is quick enough.
    """

    def __init__(self, limit_s: float) -> None:
        self.began = time.monotonic()
        self.deadline = self.began + limit_s
        self.work = int(_WORK_PER_S * limit_s)
        self.model_s = _MODEL_SHARE * limit_s
        self.cut = False  # set where something had a part of the time, and that ran out

    def share(self, part: float) -> int:
        """Return a part of the work that is left."""
        return int(self.work * part)

    def spend(self, work: int) -> None:
        """Take work that was done."""
        self.work = max(0, self.work - work)

    def spend_model(self, seconds: float) -> None:
        """Take deterministic seconds that a model took."""
        self.model_s = max(0.0, self.model_s - seconds)

    def noted(self, *texts: str) -> str:
        """Return the texts as one note, which also says when the clock cut something short."""
        return "; ".join([*texts, *([_STRUCK] if self.cut or self.struck else [])])

    @property
    def grace(self) -> float:
        """Return the deadline of work without which there is no answer at all."""
        # A first answer may take a tenth of the limit more: without it there would be nothing to return.
        return max(self.deadline, time.monotonic()) + _GRACE * (self.deadline - self.began)

    @property
    def struck(self) -> bool:
        """Return whether the clock ran out."""
        return time.monotonic() > self.deadline

    @property
    def wall_s(self) -> float:
        """Return the seconds since the budget was made."""
        return time.monotonic() - self.began


def infeasible_plan(infeasible_set: Bound, budget: Budget) -> PlacementPlan:
    """Return the plan that says why nothing keeps the rules."""
    return PlacementPlan(
        status=Status.INFEASIBLE,
        reason=infeasible_set.reason,
        infeasible_set=infeasible_set.instances,
        wall_s=budget.wall_s,
        note=infeasible_set.reason,
    )
