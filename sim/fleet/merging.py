"""Runs of static systems: timelines of hosts are merged into those of operators and queries.

The rows equal those of the run of events (`sim.fleet.engine`), which needs far more time.
"""

from __future__ import annotations

import numpy as np

from models.checked_arrays import IntArray
from models.fleet.records import TABLES, FleetRecords, Row
from models.fleet.system import System
from sim.fleet.outages import host_downtimes, inside, late_timeline, union

NOBODY = -1


def merged(system: System, replication: int) -> FleetRecords:
    """Return the rows of one replication of a static system."""
    end_ns = system.end_ns
    down = host_downtimes(system, replication)
    firsts = {hosts[0] for hosts in system.placed}
    late = {host: late_timeline(system, replication, host, down[host]) for host in sorted(firsts)}
    rows: dict[str, list[Row]] = {name: [] for name in TABLES}
    rows["host_downtimes"] = [
        (name, a, b) for name, one in zip(system.hosts, down, strict=True) for a, b in _pairs(one)
    ]
    broken, used = [], {op for needs in system.needs for op in needs}
    for op, (name, hosts) in enumerate(zip(system.operators, system.placed, strict=True)):
        # An operator that no query needs is not deployed, as in the run of events.
        if op not in used:
            broken.append(np.zeros(0, dtype=np.int64))
            continue
        at, serves = _serving([down[host] for host in hosts], late[hosts[0]])
        gaps, changes = _changes(at, serves, end_ns)
        broken.append(gaps)
        rows["take_overs"] += [
            (name, t, system.hosts[hosts[a]], system.hosts[hosts[b]], gap) for t, a, b, gap in changes
        ]
        rows["instances"] += [
            (name, system.hosts[host], "replica" if k else "primary", 1.0, 0, end_ns) for k, host in enumerate(hosts)
        ]
    for query, needs in zip(system.queries, system.needs, strict=True):
        rows["presence"].append((query, 0, end_ns))
        if system.unavailability is not None:
            rows["standing"].append(
                (query, 0, end_ns, system.unavailability.broken([system.placed[op] for op in needs]))
            )
        rows["outages"] += [(query, a, b) for a, b in _pairs(union([broken[op] for op in needs]))]
    return FleetRecords(replication, end_ns, "merged", in_order(rows))


def in_order(rows: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return the rows by time; those of one instant by subject, decisions as they came."""
    key = {
        "host_downtimes": lambda row: (row[1], row[0]),
        "presence": lambda row: (row[1], row[0]),
        "outages": lambda row: (row[1], row[0]),
        "standing": lambda row: (row[1], row[0]),
        "take_overs": lambda row: (row[1], row[0]),
        "instances": lambda row: (row[4], row[0], row[2], row[1]),
        "overloads": lambda row: (row[1], row[0]),
        "decisions": lambda row: row[0],
        "refusals": lambda row: row[0],
    }
    return {name: sorted(found, key=key[name]) for name, found in rows.items()}


def _serving(down: list[IntArray], late: IntArray) -> tuple[IntArray, IntArray]:
    """Return (instants, who serves from each on): the first instance that is up, nobody before a take-over."""
    at = np.unique(np.concatenate([[0], *down, late]))
    up = np.array([~inside(one, at) for one in down])
    # Before the take-over only the primary could serve, which is down.
    if len(late):
        up[1:] &= ~inside(late, at)
    serves = np.where(up.any(axis=0), up.argmax(axis=0), NOBODY)
    changes = np.concatenate([[True], serves[1:] != serves[:-1]])
    return at[changes], serves[changes]


def _changes(at: IntArray, serves: IntArray, end_ns: int) -> tuple[IntArray, list[tuple[int, int, int, int]]]:
    """Return when nobody serves, and (instant, from, to, gap) of each take-over; the first instance is at home."""
    ends = np.append(at[1:], end_ns)
    nobody = (serves == NOBODY) & (at < end_ns)
    gaps = np.stack([at[nobody], ends[nobody]], axis=1).ravel()
    some = np.flatnonzero(~(serves == NOBODY) & (at < end_ns))
    last = np.concatenate([[0], serves[some[:-1]]]) if len(some) else serves[:0]
    since = np.concatenate([[0], ends[some[:-1]]]) if len(some) else at[:0]
    new = last != serves[some]
    columns = (at[some][new], last[new], serves[some][new], (at[some] - since)[new])
    return gaps, list(zip(*(one.tolist() for one in columns), strict=True))


def _pairs(timeline: IntArray) -> list[tuple[int, int]]:
    return list(zip(timeline[::2].tolist(), timeline[1::2].tolist(), strict=True))
