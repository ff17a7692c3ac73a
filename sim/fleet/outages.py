"""Down times of hosts, all of a run at once: for systems in which nothing else is decided.

A timeline is a flat array [down, up, down, up, ...] of instants [ns], rising; a time down is [down, up). Timelines of
hosts are merged into those of operators and queries. The rows equal those of the run of events (`sim.fleet.engine`),
which needs far more time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

import numpy as np

from models.checked_arrays import IntArray
from models.fleet.records import TABLES, FleetRecords, Row
from models.fleet.system import System
from models.units import to_ns
from sim.fleet.placement import NOBODY
from sim.fleet.service import Coverage, RenewalTimes, up_and_down_times_of

Pair = tuple[int, int]


def flat(pairs: Iterable[Pair], end_ns: int) -> IntArray:
    """Return the timeline of pairs in rising order of their begins; those that meet or overlap become one.

    Times after `end_ns` are cut off, and empty ones left out.

    >>> flat([(0, 5), (5, 7), (9, 20)], end_ns=10).tolist()
    [0, 7, 9, 10]
    """
    found: list[int] = []
    for down, up in pairs:
        up = min(up, end_ns)  # noqa: PLW2901 - the run ends
        if down >= up:
            continue
        if found and down <= found[-1]:
            found[-1] = max(found[-1], up)
        else:
            found += (down, up)
    return np.array(found, dtype=np.int64)


def union(timelines: Sequence[IntArray]) -> IntArray:
    """Return the timeline that is down when one of these is; O(n log n) in the number of down times.

    >>> union([np.array([0, 5, 8, 9]), np.array([3, 6])]).tolist()
    [0, 6, 8, 9]
    """
    some = [one for one in timelines if len(one)]
    if len(some) < 2:
        return some[0] if some else np.zeros(0, dtype=np.int64)
    begins, ends = (np.sort(np.concatenate([one[k::2] for one in some])) for k in (0, 1))
    # Begins and ends sorted apart: a gap is where as many have ended as have begun, before the next begin.
    first = np.concatenate([[True], begins[1:] > ends[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([begins[first], ends[last]], axis=1).ravel()


def inside(timeline: IntArray, at_ns: IntArray) -> np.ndarray:
    """Return True for the instants at which it is down, (n,) bool.

    `at_ns` (n,): instants in any order. A host is down at the instant of its failure, and up at that of its repair.
    """
    down: np.ndarray = np.searchsorted(timeline, at_ns, side="right") % 2 == 1
    return down


def host_downtimes(system: System, replication: int) -> list[IntArray]:
    """Return the timeline [ns] of each host: down by itself, or with one of its groups.

    Recorded downtimes take the place of draws. The times equal those of `HostFailures`, which draws the same numbers.
    """
    end_ns = system.end_ns
    if system.downtimes is not None:
        return _downtimes(system, end_ns)
    seed, times = system.fleet.seed, system.fleet.times
    up_and_down_times = [
        up_and_down_times_of(law, seed, replication, "host", name)
        for law, name in zip(system.own, system.hosts, strict=True)
    ]
    if times.day_s is not None:
        own = [flat(_by_day(up, to_ns(times.day_s), end_ns), end_ns) for up, _ in up_and_down_times]
    elif times.crews is not None:
        own = [flat(pairs, end_ns) for pairs in _with_crews(up_and_down_times, times.crews, end_ns)]
    else:
        own = [flat(_renewals(up, down, end_ns), end_ns) for up, down in up_and_down_times]
    parts = [[one] for one in own]
    for index, (group, law) in enumerate(zip(system.groups, system.shocks, strict=True)):
        shock = flat(_renewals(*up_and_down_times_of(law, seed, replication, "domain", index), end_ns), end_ns)
        for host in group:
            parts[host].append(shock)
    return [union(one) for one in parts]


def late_timeline(system: System, replication: int, host: int, down: IntArray) -> IntArray:
    """Return the timeline [ns] in which the host is down and nobody has taken over.

    `down`: the timeline of the host. After a failure that is detected it lasts for the time of a take-over, after one
    that is not for the whole outage; empty without standbys.
    """
    standby = system.fleet.standby
    if standby is None:
        return np.zeros(0, dtype=np.int64)
    covered = Coverage(standby.coverage, system.fleet.seed, replication, system.hosts[host])
    late = to_ns(standby.take_over_s)
    pairs = zip(down[::2].tolist(), down[1::2].tolist(), strict=True)
    ends = [(a, min(b, a + late) if covered[k] else b) for k, (a, b) in enumerate(pairs)]
    return flat(ends, system.end_ns)


def _downtimes(system: System, end_ns: int) -> list[IntArray]:
    """Return the recorded down times of each host."""
    rows: list[list[Pair]] = [[] for _ in system.hosts]
    for host, down, up in system.downtimes or ():
        rows[host].append((down, up))
    return [flat(sorted(pairs), end_ns) for pairs in rows]


def _renewals(up: RenewalTimes | None, down: RenewalTimes | None, end_ns: int) -> Iterable[Pair]:
    """Yield down times of an element with a crew of its own."""
    if up is None or down is None:
        if down is not None:
            yield 0, end_ns  # always down
        return
    now, number = 0, 0
    while True:
        failed = now + up[number]
        if failed >= end_ns:
            return
        now = failed + down[number]
        yield failed, now
        number += 1


def _by_day(up: RenewalTimes | None, day_ns: int, end_ns: int) -> Iterable[Pair]:
    """Return down times from a failure to the end of its day; the next day begins anew."""
    if up is None:
        return
    for day in range(-(-end_ns // day_ns)):
        after = up[day]
        if after < day_ns:
            yield day * day_ns + after, (day + 1) * day_ns


def _with_crews(
    up_and_down_times: Sequence[tuple[RenewalTimes | None, RenewalTimes | None]], crews: int, end_ns: int
) -> list[list[Pair]]:
    """Return the down times with few crews, which take the host that failed first, ties by number.

    A queue with `crews` servers, first come first served, and one finite source of failures for each host. Times down
    end at `end_ns` for hosts that still wait or are being repaired then.
    """
    found: list[list[Pair]] = [[] for _ in up_and_down_times]
    number = [0] * len(up_and_down_times)
    fails: list[Pair] = []  # (instant, host)
    ends: list[Pair] = []
    waiting: list[Pair] = []
    failed_at = [0] * len(up_and_down_times)
    free = crews

    def starts(host: int, now: int) -> None:
        up, down = up_and_down_times[host]
        if up is not None and down is not None:
            heapq.heappush(fails, (now + up[number[host]], host))
        elif down is not None:
            found[host].append((0, end_ns))

    for host in range(len(up_and_down_times)):
        starts(host, 0)
    while fails or ends:
        now = min(queue[0][0] for queue in (fails, ends) if queue)
        if now >= end_ns:
            break
        # Repairs that end come first, then failures, then crews: a crew that gets free may take a host that fails at
        # the same instant. It is the order of the run of events.
        while ends and ends[0][0] == now:
            _, host = heapq.heappop(ends)
            found[host].append((failed_at[host], now))
            number[host] += 1
            free += 1
            starts(host, now)
        while fails and fails[0][0] == now:
            _, host = heapq.heappop(fails)
            failed_at[host] = now
            heapq.heappush(waiting, (now, host))
        while free and waiting:
            _, host = heapq.heappop(waiting)
            down = up_and_down_times[host][1]
            assert down is not None
            heapq.heappush(ends, (now + down[number[host]], host))
            free -= 1
    for _, host in [*waiting, *ends]:
        found[host].append((failed_at[host], end_ns))
    return found


def merged(system: System, replication: int) -> FleetRecords:
    """Return the rows of one replication of a static system.

    Instances and queries never change, so each timeline is a function of those of the hosts: an operator is down when
    nobody serves it, a query when one of its operators is. Cost: a sort of the down times of each operator.
    """
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
    """Return (instants, who serves from each on): the first instance that is up, nobody before a take-over.

    `down`: timelines of the hosts of one operator, the primary first; `late`: that of the primary before a take-over.
    Who serves is a place in `down`, or NOBODY; neighbours differ.
    """
    at = np.unique(np.concatenate([[0], *down, late]))
    up = np.array([~inside(one, at) for one in down])
    # Before the take-over only the primary could serve, which is down.
    if len(late):
        up[1:] &= ~inside(late, at)
    serves = np.where(up.any(axis=0), up.argmax(axis=0), NOBODY)
    changes = np.concatenate([[True], serves[1:] != serves[:-1]])
    return at[changes], serves[changes]


def _changes(at: IntArray, serves: IntArray, end_ns: int) -> tuple[IntArray, list[tuple[int, int, int, int]]]:
    """Return when nobody serves, and (instant, from, to, gap) of each take-over; the first instance is at home.

    The gap [ns] is the time that nobody served before it. If the same instance serves again, that is no take-over.
    """
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
    """Return a timeline as (down, up) pairs of Python integers."""
    return list(zip(timeline[::2].tolist(), timeline[1::2].tolist(), strict=True))
