"""When an operator gets more tasks, or fewer: pure functions from reports of its load to a number of tasks.

Nothing here knows of time, of a data plane or of names. A further policy is a class that decides from the same reports,
and a line in `POLICIES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import NamedTuple

_TIE = 1e-9  # a utilisation exactly at a threshold is neither above nor below it


class Report(NamedTuple):
    """The load of an operator in one period: its tasks, and the mean share of their CPU that they used, 0 to 1."""

    tasks: int
    utilisation: float


class Decision(NamedTuple):
    """How many tasks an operator is to have, and why."""

    tasks: int
    why: str


@dataclass(frozen=True)
class Thresholds:
    """Settings of a policy: thresholds, reports that count, and by how much the number of tasks changes."""

    high: float
    low: float
    reports: int = 2
    grow: float = 2.0
    shrink: float = 0.5


class OperatorPolicy(ABC):
    """Decides how many tasks an operator is to have."""

    def __init__(self, rules: Thresholds) -> None:
        self.rules = rules

    @abstractmethod
    def decide(self, reports: Sequence[Report], most: int) -> Decision | None:
        """Return the number of tasks, from 1 to `most`, or None if it stays.

        `reports` are those since the operator has had its tasks, the newest last.
        """


class ReportsInARow(OperatorPolicy):
    """Scale an operator up after so many reports in a row above the upper threshold, down after those below the lower.

    Source: SPATE, Cluster Computing 2019, which takes two reports of 5 s each; the thresholds are not printed, nor by
    how much the number of tasks changes.

    >>> policy = ReportsInARow(Thresholds(high=0.7, low=0.2))
    >>> policy.decide([Report(10, 0.96)], most=40) is None  # one report is not enough
    True
    >>> policy.decide([Report(10, 0.96), Report(10, 0.95)], most=40).tasks
    20
    >>> policy.decide([Report(20, 0.16), Report(20, 0.16)], most=40).tasks
    10
    """

    def decide(self, reports: Sequence[Report], most: int) -> Decision | None:
        """Return the number of tasks."""
        rules, last = self.rules, reports[-self.rules.reports :]
        if len(last) < rules.reports:
            return None
        tasks = last[-1].tasks
        if all(report.utilisation > rules.high + _TIE for report in last):
            wanted, what = max(tasks + 1, ceil(tasks * rules.grow - _TIE)), f"above {_percent(rules.high)}"
        elif all(report.utilisation < rules.low - _TIE for report in last):
            wanted, what = min(tasks - 1, floor(tasks * rules.shrink + _TIE)), f"below {_percent(rules.low)}"
        else:
            return None
        wanted = max(1, min(wanted, most))
        shares = ", ".join(_percent(report.utilisation) for report in last)
        return None if wanted == tasks else Decision(wanted, f"its tasks use {shares} of their CPU, {what}")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


POLICIES: Mapping[str, type[OperatorPolicy]] = {"operators": ReportsInARow}
"""The policies for `elasticity.policy` that give operators other tasks."""
