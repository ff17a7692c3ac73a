"""A sizing problem in numbers: its plans, their costs, and their recovery times.

With f of N hosts down, the load of r copies of all work on N - f hosts is rho = load (1 + (r - 1) phi) / (N - f), with
phi the share that a copy takes. A checkpoint of pause delta every T leaves u = 1 - delta / T of the time for work. A
recovery from it takes, with D until work goes on and L = T / 2 + C rolled back on average,

    R = D + rho (L + D) / (u - rho)

(models.planning.checkpoint_interval). Where only the tasks of the lost host stand, as with Kafka Streams,
k = 1 / (n + 1) of the work is rolled back with n hosts left, and spread over these: k rho in place of the first
rho. As a function of T it falls until T_q and rises after it, where with a = 1 - rho

    a T^2 / 2 - delta T - delta (C + D) = 0

The last part of the module is the answer: a verdict on each plan that was examined, the chosen plan, and a curve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cached_property

import numpy as np

from models import display, units
from models.checked_arrays import FloatArray
from models.planning.sizing.description import Sizing
from models.planning.sizing.group_rebalances import GroupRebalances
from models.planning.sizing.query_restarts import QueryRestarts
from models.planning.sizing.restarts import EngineRestarts
from models.planning.solution import Solution
from models.reliability.times import downtime_s

_HOUR_S = 3600
_RESTARTS: dict[str, type[EngineRestarts] | type[GroupRebalances] | type[QueryRestarts]] = {
    "flink": EngineRestarts,
    "kafka-streams": GroupRebalances,
    "spark": QueryRestarts,
}
_FITS = 1 + 1e-12  # tolerance for loads that fill all hosts: rounding


@dataclass(frozen=True, order=True)
class SystemPlan:
    """A system to choose: hosts, copies of each task, and repair crews (0: one for each host)."""

    hosts: int
    copies: int
    crews: int = 0

    @property
    def text(self) -> str:
        """Return the plan in words; `SizingProblem.text` has those of the engine."""
        return f"{display.count(self.hosts, 'host')}, {display.count(self.copies, 'copy', 'copies')}{self.crews_text}"

    @property
    def crews_text(self) -> str:
        """Return the crews as the end of a list; nothing if each host has one."""
        return f", {display.count(self.crews, 'crew')}" if self.crews else ""


@dataclass(frozen=True)
class SizingProblem:
    """The question in SI units.

    `description`: the file. `mttf_s`, `mttr_s`: mean up time and repair time of a host [s], which may come from a log.
    """

    description: Sizing
    mttf_s: float
    mttr_s: float

    @property
    def allowed(self) -> float:
        """Return the unavailability that the target allows, as it is written: of 0.9999 it is 0.0001."""
        # Decimal: 1 - 0.9999 in binary is not 0.0001, and a plan that meets it exactly would fail.
        return float(1 - Decimal(repr(self.description.target.availability)))

    @property
    def allowed_down_s(self) -> float:
        """Return the time [s] of a month that the target allows the system to be down."""
        return downtime_s(self.allowed)

    @cached_property
    def restarts(self) -> EngineRestarts | GroupRebalances | QueryRestarts | None:
        """Return what decides D by the rules of an engine; None without one."""
        engine = self.description.engine
        if engine is None:
            return None
        return _RESTARTS[engine.name](self.description)

    def rolled_back(self, hosts: int) -> float:
        """Return k, the share of the work that stands after a failure that leaves so many hosts, and is repeated."""
        return 1.0 if self.restarts is None else self.restarts.rolled_back(hosts)

    def down_s(self, hosts: int) -> float:
        """Return D, the mean time from a failure that leaves so many hosts until work goes on [s]."""
        if self.restarts is not None:
            return self.restarts.mean_s(hosts)
        return self.description.checkpoints.detection_s + self.description.checkpoints.restart_s

    def latest_down_s(self, hosts: int) -> float:
        """Return D where it is longest [s]: with an engine, at the latest phase of its heartbeats."""
        return self.down_s(hosts) if self.restarts is None else self.restarts.latest_s(hosts)

    @property
    def host_word(self) -> str:
        """Return what the engine calls a host."""
        return "host" if self.restarts is None else self.restarts.host_word

    @property
    def save_word(self) -> str:
        """Return what the engine calls a checkpoint of a task."""
        return "checkpoint" if self.restarts is None else self.restarts.save_word

    def text(self, plan: SystemPlan) -> str:
        """Return a plan in the words of the engine, which has no copies of tasks."""
        if self.description.engine is None:
            return plan.text
        return display.count(plan.hosts, self.host_word) + plan.crews_text

    @property
    def complete_s(self) -> float:
        """Return C, the time from the beginning of a checkpoint until it can be used [s]."""
        points = self.description.checkpoints
        return points.pause_s if points.complete_s is None else points.complete_s

    def plans(self) -> list[SystemPlan]:
        """Return all plans by rising cost; of equal cost those with fewer copies, then fewer crews, first."""
        hosts, crews = self.description.hosts, self.description.crews
        every = [
            SystemPlan(n, r, min(c or 0, n))
            for n in range(hosts.least, hosts.most + 1)
            for r in self.description.levels
            for c in crews
            # Fewer hosts than copies: two copies of a task would share a host.
            if r <= n
        ]
        # The order is part of the answer: of plans of equal cost the first is chosen.
        return sorted(set(every), key=lambda plan: (self.cost(plan), plan.copies, plan.crews, plan.hosts))

    def cost(self, plan: SystemPlan) -> float:
        """Return the cost [USD/s], or the number of hosts if they have no price; rounded as a price in the file."""
        if self._prices is None:
            return plan.hosts + plan.crews * self.description.failures.crew_price_per_s
        host, crew = self._prices
        # Prices per hour as they are written: equal costs stay equal, which the order relies on.
        return float(plan.hosts * host + plan.crews * crew) / _HOUR_S

    @cached_property
    def _prices(self) -> tuple[Decimal, Decimal] | None:
        """Return the price of a host and of a crew [USD/h], as they are written."""
        price, crew = self.description.hosts.price_per_s, self.description.failures.crew_price_per_s
        return None if price is None else (_per_hour(price), _per_hour(crew))

    def load(self, plan: SystemPlan) -> float:
        """Return the hosts that the work and its copies keep busy."""
        return self.description.load * (1 + (plan.copies - 1) * self.description.copies.load)

    def busy(self, plan: SystemPlan, down: int) -> float:
        """Return rho, the load of a host, with so many hosts down; infinite if none is left."""
        left = plan.hosts - down
        return self.load(plan) * self.description.fullest(left) if left > 0 else math.inf

    def spare(self, plan: SystemPlan) -> int:
        """Return the most hosts that may be down while the work and its copies fit; -1 where they never do."""
        return max(-1, plan.hosts - self.fewest_hosts(plan.copies))

    def fewest_hosts(self, copies: int) -> int:
        """Return how many hosts are needed while none is down.

        Each copy of a task needs a host of its own, and the load of all must leave the hosts below `work.utilisation`.
        With an engine all tasks need slots.
        """
        load = self.load(SystemPlan(1, copies))
        tasks, slots = self.description.work.parallelism, self.description.hosts.slots or 1
        if tasks is not None:
            # With a host for each task it fits, as the description was checked.
            busy = ((n, load * self.description.fullest(n)) for n in range(math.ceil(tasks / slots), tasks))
            return next((n for n, one in busy if one <= self.description.work.utilisation * _FITS and one < 1), tasks)
        # A hair more than full still fits: the load is a sum of rounded numbers.
        found = max(copies, math.ceil(load / (self.description.work.utilisation * _FITS)))
        # At a load of 1 nothing could ever be caught up.
        return found + 1 if load / found >= 1 else found

    def recovery_s(self, plan: SystemPlan, interval_s: float, share: float) -> float:
        """Return the recovery [s] that this share of losses of a whole system's tasks does not exceed.

        A task is lost with the hosts of all its copies. The recovery is infinite where the work does not fit then: it
        waits for a repair. Losses strike at any instant alike, so that share T + C is rolled back. With an engine the
        share is of instants within an interval, at the latest phase of the heartbeats.
        """
        busy, pause = self._busy_after_loss(plan), self.description.checkpoints.pause_s
        left = 1 - pause / interval_s - busy
        if left <= 0:
            return math.inf
        down_s = self.latest_down_s(plan.hosts - plan.copies)
        back = share * interval_s + self.complete_s + down_s
        return down_s + self.rolled_back(plan.hosts - plan.copies) * busy * back / left

    def mean_recovery_s(self, plan: SystemPlan, interval_s: float) -> float:
        """Return the mean of the same recoveries [s]; where the work does not fit, with the time until it does."""
        at = np.array([interval_s])
        if self.survives_loss(plan):
            return float(self.recoveries(plan, at)[plan.copies, 0])
        standing_s = self.standing_s(plan)
        return standing_s + float(self.recoveries(plan, at, standing_s)[-1, 0])

    def survives_loss(self, plan: SystemPlan) -> bool:
        """Return whether the work fits on the hosts that are left when all copies of a task are lost."""
        return self.spare(plan) >= plan.copies

    def quickest_recovery_s(self, plan: SystemPlan) -> float:
        """Return the shortest recovery [s] that any interval gives to the share of losses in the target."""
        pause, free = self.description.checkpoints.pause_s, 1 - self._busy_after_loss(plan)
        share = self.description.target.recovery_share
        back = (self.complete_s + self.latest_down_s(plan.hosts - plan.copies)) / share
        # The root of the derivative of R with the share in place of 1/2.
        interval_s = (pause + math.sqrt(pause * pause + free * back * pause)) / free
        return self.recovery_s(plan, max(interval_s, self.complete_s), share)

    def intervals(self, plan: SystemPlan) -> tuple[float, float] | None:
        """Return the shortest and longest interval that are allowed [s]; None where no interval recovers in time.

        The shortest leaves time for the work of a system that is whole, and is no shorter than a checkpoint takes. With
        S = target - D and the share q the target asks q k rho T^2 + (k rho (C + D) - (1 - rho) S) T + delta S <= 0,
        with rho after the loss of all copies of a task.
        """
        pause, target = self.description.checkpoints.pause_s, self.description.target.recovery_s
        least = max(self.complete_s, pause / (1 - self.busy(plan, 0)) * (1 + 1e-9))
        if target is None:
            return least, math.inf
        if not self.survives_loss(plan):
            return None
        part, busy = self.description.target.recovery_share, self._busy_after_loss(plan)
        down_s = self.latest_down_s(plan.hosts - plan.copies)
        time, repeated = target - down_s, self.rolled_back(plan.hosts - plan.copies) * busy
        slope = (1 - busy) * time - repeated * (self.complete_s + down_s)
        under = slope * slope - 4 * part * repeated * pause * time
        if slope <= 0 or under < 0:
            return None
        # The smaller root from the product of both: the difference would lose its digits.
        longest = (slope + math.sqrt(under)) / (2 * part * repeated)
        shortest = max(least, pause * time / (part * repeated * longest))
        return (shortest, longest) if shortest <= longest else None

    def _busy_after_loss(self, plan: SystemPlan) -> float:
        """Return rho when as many hosts are down as hold all copies of a task; infinite where the work stands."""
        return self.busy(plan, plan.copies) if self.survives_loss(plan) else math.inf

    def recoveries(self, plan: SystemPlan, interval_s: FloatArray, more_s: float = 0.0) -> FloatArray:
        """Return the mean recovery [s], (spare + 1, n): 0 .. spare hosts down, intervals (n,) or (spare + 1, n).

        `more_s` of all work has piled up besides. Infinite where checkpoints leave too little time to catch up.
        """
        busy = self._all_busy(plan)[:, None]
        part = np.array([1.0 if more_s else self.rolled_back(plan.hosts - down) for down in range(len(busy))])[:, None]
        left = 1 - self.description.checkpoints.pause_s / interval_s - busy
        down_s = self._all_down_s(plan)[:, None]
        back = interval_s / 2 + self.complete_s + down_s + more_s
        # Infinite where nothing is left to catch up; the division there is of no meaning.
        with np.errstate(divide="ignore", invalid="ignore"):
            found: FloatArray = np.where(left > 0, down_s + part * busy * back / left, np.inf)
        return found

    def quickest(self, plan: SystemPlan, more_s: float = 0.0) -> FloatArray:
        """Return T_q [s], (spare + 1,): the interval of the shortest mean recovery, with so many hosts down."""
        pause = self.description.checkpoints.pause_s
        free = 1 - self._all_busy(plan)
        back = self.complete_s + self._all_down_s(plan) + more_s
        found: FloatArray = (pause + np.sqrt(pause * pause + 2 * free * back * pause)) / free
        return found

    def _all_busy(self, plan: SystemPlan) -> FloatArray:
        """Return rho, (spare + 1,), with so many hosts down."""
        return np.array([self.busy(plan, down) for down in range(self.spare(plan) + 1)])

    def _all_down_s(self, plan: SystemPlan) -> FloatArray:
        """Return the mean of D [s], (spare + 1,), with so many hosts down."""
        return np.array([self.down_s(plan.hosts - down) for down in range(self.spare(plan) + 1)])

    def standing_s(self, plan: SystemPlan) -> float:
        """Return the mean time [s] from too many hosts down to few enough: a passage time of the Markov chain."""
        crews = plan.crews or plan.hosts
        # From `down` to one less: a repair, or first a failure, a passage back, and another try.
        passage = 0.0
        for down in range(plan.hosts, self.spare(plan), -1):
            repair = min(down, crews) / self.mttr_s
            passage = (1 + (plan.hosts - down) / self.mttf_s * passage) / repair
        return passage


def _per_hour(price_per_s: float) -> Decimal:
    """Return a price [USD/h] with the digits that it has in the file."""
    return Decimal(repr(units.in_unit(price_per_s, "USD/s", "USD/h")))


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
