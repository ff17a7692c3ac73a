"""The summary of a run of hosts and queries as values, with order and names of the document that `--json` prints.

Shares are of the time; intervals are (low, high) with 95 %. None stands for an unknown value.
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.statistics import Mean


@dataclass(frozen=True)
class Running:
    """The share of queries that run: over time, at the ends of days, and by the exact availability of placements.

    All three are shares in [0, 1], weighted by the queries' weights. `exact` is None where some placement has no exact
    method.
    """

    time_average: Mean
    end_of_day: Mean
    exact: float | None


@dataclass(frozen=True)
class QuerySummary:
    """A query in all replications; `exact` is its P(broken) as placed, mean and worst.

    `budget_used` is the time broken by the time that its availability objective (SLO) allows in as long a run.
    """

    query: str
    present_s: float
    broken_s: float
    broken_share: float | None
    ci95: tuple[float, float] | None
    exact: float | None
    exact_worst: float | None
    breaks: int
    longest_s: float
    slo: float | None
    allowed_s: float | None
    budget_used: float | None


@dataclass(frozen=True)
class HostUse:
    """The time for which a host was in use, and its cost; means over replications."""

    host: str
    used_s: float
    cost_usd: float | None


@dataclass(frozen=True)
class UseOfHosts:
    """The same of all hosts, `mean` of them at a time; no cost where no host has a price.

    `used_s` is the sum over hosts; `mean` is that sum by the length of the run after the warm-up.
    """

    used_s: float
    mean: float
    cost_usd: float | None
    by_host: tuple[HostUse, ...]


@dataclass(frozen=True)
class DecisionCount:
    """The number of decisions of an action with a verdict."""

    action: str
    verdict: str
    count: int


@dataclass(frozen=True)
class RefusalCount:
    """The number of times that an action was refused for a query's sake."""

    query: str
    action: str
    count: int


@dataclass(frozen=True)
class FleetSummary:
    """All replications of a run; queries come worst first.

    Lengths are in s. `longest_gap_s` is the longest time in which nobody served an operator before another instance
    took over; `overloaded_host_s` sums over hosts and replications.
    """

    name: str
    duration_s: float
    warmup_s: float
    replications: int
    hosts: int
    method: str
    running: Running
    exact_refused: str | None
    queries: tuple[QuerySummary, ...]
    take_overs: int
    longest_gap_s: float
    host_failures: int
    overloaded_host_s: float
    hosts_in_use: UseOfHosts
    decisions: tuple[DecisionCount, ...]
    refused_for: tuple[RefusalCount, ...]
