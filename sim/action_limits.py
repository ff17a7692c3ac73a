"""With what the actions of protocols are not simulated yet; both data planes ask before they act."""

from __future__ import annotations

from collections.abc import Iterator

from models.job import WindowState
from sim.cluster import RunPlan
from sim.pace import FULL

_CHANGING = "on hosts whose pace changes"


class ActionLimits:
    """Whether a run may use actions, and what it has used so far."""

    def __init__(self, plan: RunPlan) -> None:
        self._reason = next(_against_actions(plan), None)
        self._acted = False

    def act(self) -> None:
        """An action comes; raises ValueError if the run has something that no action was tried with."""
        if self._reason is not None:
            raise ValueError(f"not simulated yet: pauses, messages and other actions of protocols {self._reason}")
        self._acted = True

    def change_pace(self, pace: int) -> None:
        """Others take a share of a CPU; raises ValueError if there was an action before."""
        if pace == FULL:
            return
        if self._acted:
            raise ValueError(f"not simulated yet: pauses, messages and other actions of protocols {_CHANGING}")
        self._reason = self._reason or _CHANGING


def _against_actions(plan: RunPlan) -> Iterator[str]:
    if plan.bounded:
        yield "beside bounded queues"
    if plan.fair:
        yield "beside links that are shared evenly"
    if any(group.cpu == "processor-sharing" for group in plan.host_groups):
        yield "on hosts with processor sharing"
    if any(group.load is not None for group in plan.host_groups):
        yield _CHANGING
    for operator in plan.operators:
        if operator.windows is not None or operator.timer_ns or isinstance(operator.description.state, WindowState):
            yield "beside windows and timers"
