"""Down times of hosts, all of a run at once: for systems in which nothing else is decided.

A timeline is a flat array [down, up, down, up, ...] of instants [ns], rising; a time down is [down, up).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

import numpy as np

from models.checked_arrays import IntArray
from models.fleet.system import Renewal, System
from models.units import to_ns
from sim.fleet.up_and_down_times import Coverage, RenewalTimes, late_ns

Pair = tuple[int, int]


def flat(pairs: Iterable[Pair], end_ns: int) -> IntArray:
    """Return the timeline of pairs in rising order of their begins; those that meet or overlap become one."""
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
    """Return the timeline that is down when one of these is."""
    some = [one for one in timelines if len(one)]
    if len(some) < 2:
        return some[0] if some else np.zeros(0, dtype=np.int64)
    begins, ends = (np.sort(np.concatenate([one[k::2] for one in some])) for k in (0, 1))
    # Begins and ends sorted apart: a gap is where as many have ended as have begun, before the next begin.
    first = np.concatenate([[True], begins[1:] > ends[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([begins[first], ends[last]], axis=1).ravel()


def inside(timeline: IntArray, at_ns: IntArray) -> np.ndarray:
    """Return True for the instants at which it is down, (n,) bool."""
    down: np.ndarray = np.searchsorted(timeline, at_ns, side="right") % 2 == 1
    return down


def host_downtimes(system: System, replication: int) -> list[IntArray]:
    """Return the timeline of each host: down by itself, or with one of its groups."""
    end_ns = system.end_ns
    if system.downtimes is not None:
        return _downtimes(system, end_ns)
    seed, times = system.fleet.seed, system.fleet.times
    up_and_down_times = [
        _up_and_down_times(law, seed, replication, "host", name)
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
        shock = flat(_renewals(*_up_and_down_times(law, seed, replication, "domain", index), end_ns), end_ns)
        for host in group:
            parts[host].append(shock)
    return [union(one) for one in parts]


def late_timeline(system: System, replication: int, host: int, down: IntArray) -> IntArray:
    """Return when the host is down and nobody has taken over."""
    standby = system.fleet.standby
    if standby is None:
        return np.zeros(0, dtype=np.int64)
    covered = Coverage(standby.coverage, system.fleet.seed, replication, system.hosts[host])
    late = late_ns(standby.take_over_s)
    pairs = zip(down[::2].tolist(), down[1::2].tolist(), strict=True)
    ends = [(a, min(b, a + late) if covered[k] else b) for k, (a, b) in enumerate(pairs)]
    return flat(ends, system.end_ns)


def _downtimes(system: System, end_ns: int) -> list[IntArray]:
    """Return the recorded down times of each host."""
    rows: list[list[Pair]] = [[] for _ in system.hosts]
    for host, down, up in system.downtimes or ():
        rows[host].append((down, up))
    return [flat(sorted(pairs), end_ns) for pairs in rows]


def _up_and_down_times(
    law: Renewal, seed: int, replication: int, *name: object
) -> tuple[RenewalTimes | None, RenewalTimes | None]:
    up = None if law.up is None else RenewalTimes(law.up, seed, replication, *name, "up")
    down = None if law.down is None else RenewalTimes(law.down, seed, replication, *name, "down")
    return up, down


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
    """Return the down times with few crews, which take the host that failed first, ties by number."""
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
