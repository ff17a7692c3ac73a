"""The process that gives operators other tasks as their load changes; `operator_policy` decides."""

from __future__ import annotations

from collections.abc import Mapping

from models.scenario.events import ADJUSTMENT
from models.units import to_ns
from sim.control.run_state import RunState
from sim.control.statistics import Statistics
from sim.migration.adjustments import Adjustments
from sim.scaling.operator_policy import POLICIES, OperatorPolicy, Report, Thresholds
from sim.scaling.spare_hosts import Rescaling


class OperatorScaling:
    """Reports the CPU of each operator at the end of each period, asks the policy, and requests adjustments.

    While an operator is adjusted nothing is reported of it, and after that reports count anew.
    """

    def __init__(self, state: RunState, statistics: Statistics, adjustments: Adjustments, rescaling: Rescaling) -> None:
        self.state, self.statistics = state, statistics
        self.adjustments, self.rescaling = adjustments, rescaling
        self.rules = state.plan.scenario.elasticity
        self.reports: dict[int, list[Report]] = {
            number: []
            for number, one in enumerate(state.plan.operators)
            if one.description.movable and (not self.rules.operators or one.name in self.rules.operators)
        }

    def check(self) -> None:
        """Note the reports of the period that is over, and adjust operators where the policy says so."""
        policy, used = self._policy(), self._used()
        for operator, reports in self.reports.items():
            if self.adjustments.is_adjusting(operator):
                reports.clear()
                continue
            tasks = self.adjustments.tasks_of(operator)
            reports.append(Report(tasks, used[operator] / tasks))
            if self.state.clock.now_ns() < to_ns(self.rules.begin_s):
                continue
            decided = policy.decide(reports, self._most(operator))
            if decided is not None:
                reports.clear()
                self.rescaling.rescale(operator, decided.tasks, ADJUSTMENT, decided.why)

    def _policy(self) -> OperatorPolicy:
        rules = self.rules
        limits = Thresholds(rules.high, rules.low, rules.reports, rules.grow, rules.shrink)
        return POLICIES[rules.policy](limits)

    def _used(self) -> Mapping[int, float]:
        """Return by operator how many of its tasks were busy on average in the last period."""
        length_ns = max(1, self.statistics.sampled_ns - self.statistics.since_ns)
        found = dict.fromkeys(self.reports, 0.0)
        for partition, _, did in self.statistics.periods:
            operator = self.state.cluster.partition_operator[partition]
            if operator in found:
                threads = self.state.plan.operators[operator].description.threads
                found[operator] += did.cpu_ns / (length_ns * threads)
        return found

    def _most(self, operator: int) -> int:
        """Return how many tasks the operator can have: as many as key groups, and hosts that take work."""
        cluster, groups = self.state.cluster, self.state.plan.operators[operator].description.groups
        return min(groups, sum(map(cluster.accepts_work, range(len(cluster.host_alive)))))
