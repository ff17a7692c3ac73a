"""What a sizing problem is answered with: a verdict on each plan that was looked at, the chosen one, and a curve."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from models.sizing.problem import SystemPlan
from models.solution import Solution


class Verdict(StrEnum):
    """What is known of a plan beside the target."""

    MEETS = "meets"
    FAILS = "fails"
    OPEN = "open"


@dataclass(frozen=True, kw_only=True)
class PlanFigures:
    """A plan at one interval: shares of the time, and times [s].

    Of one failure in a whole system, by a checkpoint: the worst, the mean, and the one that is promised (the share of
    the target; None where take-overs are enough). utilisation counts what checkpoints take.
    """

    interval_s: float
    unavailability: float
    standing: float
    recovering: float
    switching: float
    utilisation: float
    worst_recovery_s: float
    mean_recovery_s: float
    promised_recovery_s: float | None
    mean_between_recoveries_s: float | None
    at_least: float | None = None  # beside units, whose figures are bounds: the unavailability is not below this


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A plan with its cost, verdict, and why; `least` bounds its unavailability from below for every interval.

    `best` is at the interval of the least unavailability that was found; None where the plan cannot be at all.
    """

    plan: SystemPlan
    cost: float
    verdict: Verdict
    why: str = ""
    least: float | None = None
    best: PlanFigures | None = None
    worst_recovery_s: float | None = None  # the shortest that any interval has, where that is too long


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """The cheapest plan for an unavailability; `bound` is a proven lower bound of the cost, None: nothing can."""

    unavailability: float
    plan: SystemPlan | None
    cost: float | None
    bound: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class SizingPlan(Solution):
    """The cheapest system: `objective` is its cost, `bound` that of the first plan that was not shown to fail.

    `chosen` is judged at the interval that is to be used. `next_cheaper` say why one unit less fails. When infeasible,
    `possible` is the best that there is: least unavailability, or shortest recovery where no plan recovers in time.
    """

    chosen: Judged | None = None
    figures: PlanFigures | None = None
    next_cheaper: tuple[Judged, ...] = ()
    judged: tuple[Judged, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    possible: Judged | None = None
    interval_note: str = ""
