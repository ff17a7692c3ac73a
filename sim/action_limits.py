"""With what the actions of protocols are not simulated yet; both data planes ask before they act."""

from __future__ import annotations

from collections.abc import Iterator

from sim.cluster import RunPlan


class ActionLimits:
    """Whether a run may stop tasks: by pauses, barriers and timed actions."""

    def __init__(self, plan: RunPlan) -> None:
        self._reason = next(_against_stops(plan), None)

    def stop(self) -> None:
        """Such an action comes; raises ValueError if the run has something that none was tried with."""
        if self._reason is not None:
            raise ValueError(f"not simulated yet: pauses, barriers and timed actions {self._reason}")


def check_counts(plan: RunPlan) -> None:
    """Raises ValueError if the load of key groups is not counted in the run."""
    if not plan.counts:
        raise ValueError("the load of key groups is counted only with recording.statistics, or elasticity")


def _against_stops(plan: RunPlan) -> Iterator[str]:
    for operator in plan.operators:
        if operator.windows is not None or operator.timer_ns:
            yield "beside windows and timers"
