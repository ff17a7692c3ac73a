"""Summarise elasticity in a run: checks, moves, maintenance, hosts in use, and the placement before and after.

All of it follows from the rows of statistics, decisions and migrations; the first placement from the scenario.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from analysis.runs.run_summary import Elasticity, HostsInUse, Maintenance, MaintenanceRound, Rescale
from analysis.runs.timelines import Series
from analysis.statistics import seconds
from models import display
from models.records.decisions import Action, Verdict, decisions, sentence
from models.records.tables import NEVER, RunRecords
from models.scenario.scenario import Scenario
from models.topology import layout
from models.units import cost_of

_NS = 1e9


def elasticity(records: Sequence[RunRecords]) -> Elasticity | None:
    """Return what the adaptation manager did, all replications together; None where nobody checked.

    `usable_share`: of the key groups on overloaded hosts, how many would have fitted on the host that holds their
    checkpoint, over all checks; `assisted_share`: of the moves off overloaded hosts, how many went there. Both None
    where there was none.
    """
    names = ("overloaded", "groups", "usable", "assisted", "direct", "drained", "unplaced")
    rows = [one.tables["adaptations"] for one in records]
    checks = sum(len(table["at_ns"]) for table in rows)
    if not checks:
        return None
    total = {name: sum(int(table[name].sum()) for table in rows) for name in names}
    migrations = total["assisted"] + total["direct"]
    return Elasticity(
        checks=checks,
        **total,
        usable_share=total["usable"] / total["groups"] if total["groups"] else None,
        assisted_share=total["assisted"] / migrations if migrations else None,
    )


def maintenance(records: Sequence[RunRecords]) -> Maintenance | None:
    """Return how often the allocation of checkpoints was compared with a fresh one; None where it never was.

    `comparisons`, `moved`, `stored` and `bytes` are of all replications; `rounds` are those in which any moved.
    """
    rows = [(one.replication, row) for one in records for row in _rows(one.tables["maintenance"])]
    if not rows:
        return None
    total = {name: sum(int(row[name]) for _, row in rows) for name in ("moved", "stored", "bytes")}
    names = ("current", "fresh", "left", "moved", "stored", "bytes")
    rounds = tuple(
        MaintenanceRound(replication, seconds(row["at_ns"]), *(row[name] for name in names))
        for replication, row in rows
        if row["moved"]
    )
    return Maintenance(comparisons=len(rows), **total, rounds=rounds)


def _rows(table: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    return [dict(zip(table, row, strict=True)) for row in zip(*(table[name].tolist() for name in table), strict=True)]


def rescales(records: Sequence[RunRecords]) -> tuple[Rescale, ...]:
    """Return one entry for each change of an operator's number of tasks.

    A change is complete when the last of its key groups has moved; `completion_s` is from the request to that.
    """
    found = []
    for one in records:
        table = one.tables["rescales"]
        for row in zip(*(table[name].tolist() for name in table), strict=True):
            operator, at_ns, before, after, migrations, completed_ns, paused_ns, resumed_ns = row
            took_s = None if completed_ns == NEVER else seconds(completed_ns - at_ns)
            name = one.operators[operator]
            paused_s = None if NEVER in (paused_ns, resumed_ns) else seconds(resumed_ns - paused_ns)
            found.append(Rescale(one.replication, name, seconds(at_ns), before, after, migrations, took_s, paused_s))
    return tuple(found)


def not_rescaled(scenario: Scenario, records: Sequence[RunRecords]) -> list[str]:
    """Return a line for each rescaling of the job that an event asked for and that was refused, and why.

    None of a manager's, which asks again and again.
    """
    if not scenario.rescales_job:
        return []
    of = [f" of run {one.replication}" if len(records) > 1 else "" for one in records]
    return [
        f"Not rescaled: {row.subject}, at {display.instant(seconds(at))}{which}: {row.reason}."
        for one, which in zip(records, of, strict=True)
        for at, row in decisions(one.tables["decisions"])
        if row.action == Action.RESCALE and row.verdict == Verdict.REFUSED
    ]


def hosts_in_use(scenario: Scenario, records: Sequence[RunRecords]) -> HostsInUse:
    """Return the seconds for which hosts were in use, means over the replications, and what they cost.

    `cost_usd` is None where no host has a price.
    """
    used = dict.fromkeys(layout.hosts(scenario), 0.0)
    for one in records:
        table = one.tables["hosts_in_use"]
        for host, since, until in zip(table["host"], table["from_ns"], table["until_ns"], strict=True):
            used[one.hosts[host]] += float(until - since) / _NS / len(records)
    prices = {name: group.price_per_s for name, group in layout.hosts(scenario).items()}
    cost = cost_of((price, used[name]) for name, price in prices.items() if price is not None)
    priced = any(price is not None for price in prices.values())
    return HostsInUse(used, math.fsum(used.values()), cost if priced else None)


def host_utilisation(scenario: Scenario, one: RunRecords) -> Series:
    """Return the share of each host's CPU (n_hosts, n_checks) that services and others used before each check.

    Without the hosts on which nothing ever was done.
    """
    table = one.tables["statistics"]
    at_ns = np.unique(table["at_ns"])
    # The first period begins with the run.
    begins = np.concatenate(([0], at_ns[:-1])) if at_ns.size else at_ns
    used = np.zeros((len(one.hosts), at_ns.size))
    np.add.at(used, (table["host"], np.searchsorted(at_ns, table["at_ns"])), table["cpu_ns"].astype(float))
    groups = layout.hosts(scenario)
    for host, name in enumerate(one.hosts):
        used[host] /= np.maximum(1, at_ns - begins) * groups[name].cores
        load = groups[name].load
        if load is not None and used[host].any():
            # The share that others take is a function of time in the scenario, and not in the rows.
            used[host] += [load.mean_between(since / _NS, at / _NS) for since, at in zip(begins, at_ns, strict=True)]
    # Spare hosts that never came would be lines at zero.
    busy = np.flatnonzero(used.any(axis=1))
    return Series(tuple(one.hosts[host] for host in busy.tolist()), at_ns, used[busy])


def changes_of_hosts(records: Sequence[RunRecords]) -> list[tuple[str, str, str]]:
    """Return (when, decision, reason) of hosts that were acquired or released, in the first replication."""
    return [
        (display.instant(at_ns / _NS), sentence(one), one.reason)
        for at_ns, one in decisions(records[0].tables["decisions"])
        if one.action in (Action.ACQUIRE, Action.RELEASE)
    ]


Placement = dict[tuple[str, int], str]


def first_placement(scenario: Scenario) -> Placement:
    """Return (operator, key group) -> host at the start, of all operators with key groups, in file order."""
    hosts = layout.placement(scenario)
    return {
        (name, group): hosts[layout.task_name(name, operator.task_of(group))]
        for name, operator in scenario.operators.items()
        if operator.keyed
        for group in range(operator.groups)
    }


def last_placement(scenario: Scenario, one: RunRecords) -> Placement:
    """Return (operator, key group) -> host at the end: after all moves and recoveries that came to their new host."""
    placed = first_placement(scenario)
    events: list[tuple[int, int, int, int]] = []
    for table, instants in (("migrations", ("resumed_ns", "completed_ns")), ("recoveries", ("restored_ns",))):
        rows = one.tables[table]
        columns = (rows[name].tolist() for name in ("operator", "key_group", "target", *instants))
        for operator, group, target, *times in zip(*columns, strict=True):
            # A move counts from its resumption: aborted ones never resumed, and unfinished ones are where they resumed.
            at_ns = next((at for at in times if at != NEVER), NEVER)
            if at_ns != NEVER:
                events.append((at_ns, operator, group, target))
    for _, operator, group, target in sorted(events, key=lambda event: event[0]):
        who = (one.operators[operator], group)
        if who in placed:
            placed[who] = one.hosts[target]
    return placed
