"""The answer to a sizing problem: a verdict on each plan that was examined, the chosen plan, and a curve."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from models.planning.sizing.problem import SystemPlan
from models.planning.solution import Solution
from models.reliability.times import downtime_s


class Verdict(StrEnum):
    """Whether a plan meets the target: proven, disproven, or undecided."""

    MEETS = "meets"
    FAILS = "fails"
    OPEN = "open"


@dataclass(frozen=True, kw_only=True)
class PlanFigures:
    """A plan at one checkpoint interval: shares of the time, and times [s].

    `unavailability` is the share of the time in which the system does not serve: the sum of `standing` (too few hosts
    for the work, and catching up after that), `recovering` (from a checkpoint) and `switching` (take-overs).
    Recoveries follow the loss of all copies of a task in a system that was whole: their mean, the time that the share
    of the target does not exceed, and the longest; infinite where the work has to wait for a repair.
    `utilisation` includes checkpoints. Beside units all are upper bounds, and `unavailability_at_least` holds for every
    interval; else that is None.
    """

    interval_s: float
    unavailability: float
    standing: float
    recovering: float
    switching: float
    utilisation: float
    worst_recovery_s: float
    mean_recovery_s: float
    quantile_recovery_s: float
    mean_between_recoveries_s: float | None
    unavailability_at_least: float | None = None

    @property
    def down_s(self) -> float:
        """Return the time down in a month [s]."""
        return downtime_s(self.unavailability)

    @property
    def down_at_least_s(self) -> float | None:
        """Return the time down in a month [s] that no interval is below, where `down_s` is an upper bound."""
        return None if self.unavailability_at_least is None else downtime_s(self.unavailability_at_least)

    @property
    def availability(self) -> float:
        """Return the share of the time in which the system serves."""
        return 1 - self.unavailability


@dataclass(frozen=True, kw_only=True)
class EvaluatedPlan:
    """A plan with its cost, verdict, and the reason; `least` bounds its unavailability from below for every interval.

    `at` has the interval that is to be used if the plan is chosen, else that of the least unavailability found. It is
    None where the plan cannot be evaluated at any interval.
    """

    plan: SystemPlan
    cost: float
    verdict: Verdict
    why: str = ""
    least: float | None = None
    at: PlanFigures | None = None
    shortest_recovery_s: float | None = None  # the shortest of any interval, where that is too long

    @property
    def least_down_s(self) -> float | None:
        """Return the time down in a month [s] that no interval is below."""
        return None if self.least is None else downtime_s(self.least)


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """The cheapest plan that keeps the unavailability below `allowed`, at the interval that is then to be used.

    `bound` is a proven lower bound of the cost; None: no plan can.
    """

    allowed: float
    plan: SystemPlan | None
    cost: float | None
    bound: float | None
    at: PlanFigures | None = None

    @property
    def allowed_down_s(self) -> float:
        """Return the time of a month [s] that the system may be down."""
        return downtime_s(self.allowed)


@dataclass(frozen=True, kw_only=True, eq=False)
class SizingPlan(Solution):
    """The cheapest system: `objective` is its cost, `bound` that of the first plan that was not shown to fail.

    `chosen` is evaluated at the interval that is to be used. `next_cheaper` say why one unit less fails. When
    infeasible, `possible` is the best that there is: least unavailability, or shortest recovery where no plan recovers
    in time.
    """

    chosen: EvaluatedPlan | None = None
    next_cheaper: tuple[EvaluatedPlan, ...] = ()
    evaluated: tuple[EvaluatedPlan, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    possible: EvaluatedPlan | None = None
    interval_note: str = ""

    @property
    def figures(self) -> PlanFigures | None:
        """Return the chosen plan at the interval that is to be used."""
        return None if self.chosen is None else self.chosen.at
