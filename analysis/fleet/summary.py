"""Summarise runs of hosts and queries: shares of time, breaks, budgets, decisions, hosts in use and their cost.

Simulated shares stand beside the exact availability of each placement, weighted by how long it was there. Read
`fleet_summary` first; `use_of_hosts` follows the decisions that acquire and release hosts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.fleet.fleet_summary import (
    DecisionCount,
    FleetSummary,
    HostUse,
    QuerySummary,
    RefusalCount,
    Running,
    UseOfHosts,
)
from analysis.statistics import NS_PER_S, Mean, mean_of, ratio_mean
from models.checked_arrays import FloatArray, IntArray
from models.fleet.records import FleetRecords, Row
from models.fleet.system import System
from models.units import cost_of, to_ns

Stretch = tuple[int, int]  # from and to [ns]


def used_hosts(system: System, one: FleetRecords, from_ns: int = 0) -> dict[str, list[Stretch]]:
    """Return from when to when each host is in use [ns]: all but spare ones at the start, then as they come and go.

    A host that is being emptied is in use until it is empty; one that is down stays in use.
    """
    since: dict[str, int | None] = {name: None if system.fleet.host(name).spare else 0 for name in system.hosts}
    found: dict[str, list[Stretch]] = {name: [] for name in system.hosts}
    for at_ns, action, subject, _, _, verdict, _ in one.rows["decisions"]:
        # A decision to release only empties the host: it costs until that is done.
        if verdict != "done" or action not in ("acquire", "release"):
            continue
        begun = since[subject]
        if action == "acquire" and begun is None:
            since[subject] = at_ns
        elif action == "release" and begun is not None:
            found[subject].append((begun, at_ns))
            since[subject] = None
    for name, begun in since.items():
        if begun is not None:
            found[name].append((begun, one.end_ns))
    return {
        # Cut at the warm-up, like all other figures.
        name: [(max(begin, from_ns), end) for begin, end in intervals if end > max(begin, from_ns)]
        for name, intervals in found.items()
    }


def use_of_hosts(system: System, records: Sequence[FleetRecords]) -> UseOfHosts:
    """Return how long hosts were in use together, how many at a time, and what they cost; means over replications.

    After the warm-up. `cost_usd` is None where no host has a price; hosts without one then cost nothing.
    """
    from_ns = to_ns(system.fleet.warmup_s)
    length_s = (system.end_ns - from_ns) / NS_PER_S
    prices = [system.fleet.price_of(name) for name in system.hosts]
    rows: list[HostUse] = []
    for name, price in zip(system.hosts, prices, strict=True):
        used = sum(end - begin for one in records for begin, end in used_hosts(system, one, from_ns)[name])
        used_s = used / NS_PER_S / len(records)
        rows.append(HostUse(name, used_s, None if price is None else cost_of([(price, used_s)])))
    used_s = sum(row.used_s for row in rows)
    costs = [(price, row.used_s) for price, row in zip(prices, rows, strict=True) if price is not None]
    return UseOfHosts(used_s, used_s / length_s, cost_of(costs) if costs else None, tuple(rows))


DAY_S = 86_400.0
Intervals = IntArray  # (n, 2) begins and ends [ns]


def fleet_summary(system: System, records: Sequence[FleetRecords]) -> FleetSummary:
    """Return shares over all replications with 95 % intervals, a row for each query, worst first.

    Shares are pooled over replications as ratio estimates (`analysis.statistics.ratio_mean`), so a replication in which
    a query was there for longer weighs more. Everything before the warm-up is left out.
    """
    from_ns = to_ns(system.fleet.warmup_s)
    seen = [_Seen(system, one, from_ns) for one in records]
    queries = [_query(system, seen, query) for query in range(len(system.queries))]
    order = sorted(range(len(queries)), key=lambda k: (-(queries[k].broken_share or 0.0), k))
    return FleetSummary(
        name=system.fleet.name,
        duration_s=system.fleet.duration_s,
        warmup_s=system.fleet.warmup_s,
        replications=len(records),
        hosts=len(system.hosts),
        method=records[0].method,
        running=Running(
            time_average=_mean([one.time_average() for one in seen]),
            end_of_day=_mean([one.end_of_day() for one in seen]),
            exact=_expected(system, seen),
        ),
        exact_refused=system.exact_refused,
        queries=tuple(queries[k] for k in order),
        take_overs=sum(len(one.rows["take_overs"]) for one in records),
        longest_gap_s=max((row[4] for one in records for row in one.rows["take_overs"]), default=0) / NS_PER_S,
        host_failures=sum(len(one.rows["host_downtimes"]) for one in records),
        overloaded_host_s=sum(_length(_intervals(one.rows["overloads"], 1)) for one in records) / NS_PER_S,
        hosts_in_use=use_of_hosts(system, records),
        decisions=_decisions(records),
        refused_for=_refused(records),
    )


class _Seen:
    """One replication from an instant on: spans of each query."""

    def __init__(self, system: System, records: FleetRecords, from_ns: int) -> None:
        self.system, self.end_ns, self.from_ns = system, records.end_ns, from_ns
        self.present = _by_name(records.rows["presence"], from_ns)
        self.broken = _by_name(records.rows["outages"], from_ns)
        self.standing = _standing(records.rows["standing"], from_ns)

    def time_average(self) -> float | None:
        """Return share of running queries by weight, over the time that queries are there."""
        there = self._weighted(self.present)
        return None if not there else 1.0 - self._weighted(self.broken) / there

    def _weighted(self, intervals: dict[str, Intervals]) -> float:
        pairs = zip(self.system.queries, self.system.weights.tolist(), strict=True)
        return float(sum(weight * _length(intervals[name]) for name, weight in pairs if name in intervals))

    def end_of_day(self) -> float | None:
        """Return the same at the ends of days, just before: the mean over days with a query."""
        day_ns = to_ns(self.system.fleet.times.day_s or DAY_S)
        # The first whole day after the warm-up ends at this multiple.
        first = self.from_ns // day_ns + 1
        ends = np.arange(first, self.end_ns // day_ns + 1) * day_ns
        there, broken = (self._at(intervals, ends) for intervals in (self.present, self.broken))
        some = there > 0
        return None if not some.any() else float(np.mean(1.0 - broken[some] / there[some]))

    def _at(self, intervals: dict[str, Intervals], at_ns: IntArray) -> FloatArray:
        """Return the weight of the queries that are in one of their spans just before each instant."""
        found = np.zeros(len(at_ns))
        for name, weight in zip(self.system.queries, self.system.weights.tolist(), strict=True):
            if name in intervals:
                # Begins and ends alternate: an odd number of them before the instant means that it is within a span.
                found += weight * (np.searchsorted(intervals[name].ravel(), at_ns, side="left") % 2 == 1)
        return found


def _intervals(rows: Sequence[Row], first: int, from_ns: int = 0) -> Intervals:
    """Return begins and ends [ns], (n, 2), from two columns of rows, cut at `from_ns`."""
    pairs = np.array([row[first : first + 2] for row in rows], dtype=np.int64).reshape(-1, 2)
    pairs = np.maximum(pairs, from_ns)
    # Spans that end within the warm-up have become empty.
    found: Intervals = pairs[pairs[:, 0] < pairs[:, 1]]
    return found


@dataclass
class _Standing:
    """The time for which a query was placed, the integral of its exact P(broken), and the worst of it."""

    length_ns: float = 0.0
    broken_ns: float = 0.0
    worst: float = 0.0


def _standing(rows: Sequence[Row], from_ns: int) -> dict[str, _Standing]:
    """Return query -> time placed and its exact unavailability, integrated from `from_ns` on."""
    found: dict[str, _Standing] = {}
    for name, begin, end, broken in rows:
        length = max(0, end - max(begin, from_ns))
        one = found.setdefault(name, _Standing())
        one.length_ns += length
        one.broken_ns += length * broken
        one.worst = max(one.worst, broken)
    return found


def _by_name(rows: Sequence[Row], from_ns: int) -> dict[str, Intervals]:
    """Return name -> its intervals (n, 2) [ns] from `from_ns` on."""
    of: dict[str, list[Row]] = {}
    for row in rows:
        of.setdefault(row[0], []).append(row)
    return {name: _intervals(found, 1, from_ns) for name, found in of.items()}


def _length(intervals: Intervals) -> int:
    return int((intervals[:, 1] - intervals[:, 0]).sum())


def _query(system: System, seen: Sequence[_Seen], query: int) -> QuerySummary:
    """Return what became of a query over all replications; shares are of the time that it was there."""
    name, slo = system.queries[query], system.slos[query]
    none = np.zeros((0, 2), dtype=np.int64)
    present = [_length(one.present.get(name, none)) for one in seen]
    outages = [one.broken.get(name, none) for one in seen]
    broken = [_length(one) for one in outages]
    # Pooled: a replication in which the query was there for a minute must not weigh like one of a year.
    share = ratio_mean([float(x) for x in broken], present) if sum(present) else None
    standing = [one.standing.get(name, _Standing()) for one in seen]
    length = sum(one.length_ns for one in standing)
    # Over the time that the query was there: its budget grows with it.
    allowed_s = None if slo is None else (1 - slo) * sum(present) / NS_PER_S
    return QuerySummary(
        query=name,
        present_s=sum(present) / NS_PER_S,
        broken_s=sum(broken) / NS_PER_S,
        broken_share=None if share is None else share.mean,
        ci95=None if share is None else share.ci95,
        exact=sum(one.broken_ns for one in standing) / length if length else None,
        exact_worst=max(one.worst for one in standing) if length else None,
        breaks=sum(map(len, outages)),
        longest_s=max((int((one[:, 1] - one[:, 0]).max()) for one in outages if len(one)), default=0) / NS_PER_S,
        slo=slo,
        allowed_s=allowed_s,
        budget_used=None if not allowed_s else sum(broken) / NS_PER_S / allowed_s,
    )


def _mean(values: Sequence[float | None]) -> Mean:
    """Return the mean of shares over replications with its interval cut to [0, 1]."""
    known = [value for value in values if value is not None]
    found = mean_of(known) if known else Mean(None, None)
    # Student's interval knows nothing of shares, and may go beyond 0 or 1.
    clipped = None if found.ci95 is None else (max(0.0, found.ci95[0]), min(1.0, found.ci95[1]))
    return Mean(found.mean, clipped)


def _expected(system: System, seen: Sequence[_Seen]) -> float | None:
    """Return the share that runs by the exact availability of each placement, weighted by its time; perhaps None."""
    broken = length = 0.0
    for name, weight in zip(system.queries, system.weights.tolist(), strict=True):
        for one in seen:
            standing = one.standing.get(name, _Standing())
            broken += weight * standing.broken_ns
            length += weight * standing.length_ns
    return 1.0 - broken / length if length else None


def _decisions(records: Sequence[FleetRecords]) -> tuple[DecisionCount, ...]:
    """Return how many decisions there were of each action and verdict."""
    found = Counter((row[1], row[5]) for one in records for row in one.rows["decisions"])
    return tuple(DecisionCount(*key, count) for key, count in sorted(found.items()))


def _refused(records: Sequence[FleetRecords]) -> tuple[RefusalCount, ...]:
    """Return for which query's sake what was refused, and how often."""
    found = Counter((row[3], row[1]) for one in records for row in one.rows["refusals"])
    return tuple(RefusalCount(*key, n) for key, n in sorted(found.items(), key=lambda one: (-one[1], one[0])))
