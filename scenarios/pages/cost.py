"""What a report shows of money and of hosts that come and go."""

from __future__ import annotations

import numpy as np

from analysis.report.content import Lines
from analysis.report.parts import Cost, CostRow
from analysis.runs.run_summary import RunSummary
from models.records.tables import RunRecords
from models.scenario.scenario import Scenario
from models.topology import layout

_NS, _HOUR = 1e9, 3600.0


def cost(scenario: Scenario, summary: RunSummary, replications: int) -> Cost | None:
    """What the hosts cost, those of one description together; None where none has a price."""
    total = summary.hosts.cost_usd
    if total is None:
        return None
    used = summary.hosts.seconds
    rows = []
    for name, group in scenario.hosts.items():
        seconds = sum(used[layout.host_name(name, k)] for k in range(group.count))
        price = group.price_per_s
        rows.append(
            CostRow(
                name,
                group.count,
                seconds,
                None if price is None else price * _HOUR,
                None if price is None else price * seconds,
            )
        )
    per_s = total / summary.duration_s
    window_s = summary.duration_s - summary.warmup_s
    tuples = summary.latency_s.count / replications
    return Cost(tuple(rows), total, per_s * _HOUR, 1e6 * per_s * window_s / tuples if tuples else None)


def hosts_used(one: RunRecords) -> Lines | None:
    """How many hosts are in use from each instant to the next; None where that never changes."""
    table = one.tables["hosts_in_use"]
    begins, ends = (table[name].astype(np.int64) for name in ("from_ns", "until_ns"))
    changes = np.unique(np.concatenate((begins, ends)))
    changes = changes[(changes > 0) & (changes < one.duration_ns)]
    if not changes.size:
        return None
    at = np.concatenate(([0], changes))
    count = [int(((begins <= when) & (when < ends)).sum()) for when in at.tolist()]
    # Both ends of each stretch, so that the line has steps.
    edges = np.stack([at, np.append(changes, one.duration_ns)], axis=1).ravel()
    return Lines(edges / _NS, ("hosts",), np.repeat(np.array(count, float), 2)[None, :], one.replication)
