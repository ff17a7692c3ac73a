"""With what the actions of protocols are not simulated yet; both data planes ask before they act."""

from __future__ import annotations

from collections.abc import Iterator

from models.job import WindowState
from sim.cluster import RunPlan


class ActionLimits:
    """Whether a run may use actions."""

    def __init__(self, plan: RunPlan) -> None:
        self._reason = next(_against_actions(plan), None)

    def act(self) -> None:
        """An action comes; raises ValueError if the run has something that no action was tried with."""
        if self._reason is not None:
            raise ValueError(f"not simulated yet: pauses, messages and other actions of protocols {self._reason}")


def check_counts(plan: RunPlan) -> None:
    """Raises ValueError if the load of key groups is not counted in the run."""
    if not plan.counts:
        raise ValueError("the load of key groups is counted only with recording.statistics, or elasticity")


def _against_actions(plan: RunPlan) -> Iterator[str]:
    for operator in plan.operators:
        if operator.windows is not None or operator.timer_ns or isinstance(operator.description.state, WindowState):
            yield "beside windows and timers"
