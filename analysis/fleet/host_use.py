"""Find from the decisions of a run of `holdfast fleet` when each host is in use, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.fleet.fleet_summary import HostUse, UseOfHosts
from analysis.statistics import NS_PER_S
from models.fleet.records import FleetRecords
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
