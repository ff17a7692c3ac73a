"""Admission of a query: hosts for its operators, and the replicas that it needs for its objective.

A host takes a part if its load, with changes under way, leaves room for it. Which part gets the next replica follows
from the importance of its operator, without trying hosts for it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from models import display
from models.checked_arrays import FloatArray
from models.fleet.description import ManagerSettings
from models.fleet.system import keeps
from sim.fleet.placement import FleetPlacement, Part
from sim.fleet.reconfiguration import Admission, Deployment, Reconfiguration


def largest_load(placement: FleetPlacement) -> float:
    """Return the load of the largest part [cores]."""
    return max((float(placement.load[one.op]) * one.share for one in placement.parts.values()), default=0.0)


def importance(kind: str, placement: FleetPlacement, part: Part, largest: float, draw: float) -> float:
    """Return the importance of a part, the larger the sooner it gets a replica.

    `kind`: "degree" is the share of present queries that need it, "utilisation" the rest of its load to the largest
    part's, "product" both multiplied, "random" the `draw` (0 to 1), anything else the value of the file. `largest`:
    load of the largest part [cores]. All are 0 to 1.

    Source: Adaptive selective replication (VLDB PhD workshop 2013), "Importance".
    """
    degree = len(placement.users[part.op]) / max(1, len(placement.present))
    low = 1.0 - (float(placement.load[part.op]) * part.share / largest if largest else 0.0)
    if kind == "degree":
        return degree
    if kind == "utilisation":
        return low
    if kind == "product":
        return degree * low
    if kind == "random":
        return draw
    return placement.system.fleet.operator(placement.system.operators[part.op]).importance or 0.0


class HostLoads:
    """Loads of the hosts of a system whose placement changes, and the hosts that may take more.

    Nothing is cached: each question reads the placement as it is now.
    """

    def __init__(self, changes: Reconfiguration) -> None:
        self.changes, self.placement = changes, changes.placement
        self.capacity = changes.placement.system.capacity

    def is_up(self, host: int) -> bool:
        """Return True if instances can come to the host now."""
        return self.changes.service.up[host] and self.placement.in_use[host] and host not in self.placement.draining

    def will_be(self) -> FloatArray:
        """Return shares of capacity once everything under way is over, (n_hosts,)."""
        found: FloatArray = (self.placement.expected() - self.placement.leaving()) / self.capacity
        return found

    def at_most(self) -> FloatArray:
        """Return shares of capacity at the worst moment of the changes under way, (n_hosts,)."""
        # A move counts at both hosts: until it is live its load is still at the old one, and room is reserved.
        found: FloatArray = self.placement.expected() / self.capacity
        return found

    def by_share(self, shares: FloatArray) -> list[int]:
        """Return the hosts that are up, least loaded first, of equal ones by number."""
        up = np.array(self.changes.service.up) & np.array(self.placement.in_use)
        up[list(self.placement.draining)] = False
        # Rounded: sums of the same loads in another order must not decide a tie.
        order = np.argsort(np.round(shares, 9), kind="stable")
        found: list[int] = order[up[order]].tolist()
        return found


_TIE = 1e-9
_TRIED = 4  # hosts nearest to the query that are tried for a replica, and as many of the least loaded


class Admitting:
    """The arrival of one query: made for it, asked once (`admit`), then dropped.

    `shares` (n_hosts,) are the loads with the plan so far; `taken` are spare hosts that the plan needs, each with the
    reason. Both are drafts: neither the placement nor a host changes before the admission succeeds.
    """

    def __init__(
        self, query: int, rules: ManagerSettings, hosts: HostLoads, changes: Reconfiguration, admission: Admission
    ) -> None:
        self.query, self.rules, self.placement = query, rules, changes.placement
        self.system, self.capacity = changes.placement.system, hosts.capacity
        self.admission, self.changes = admission, changes
        self.hosts, self.shares, self.plan = hosts, hosts.at_most(), Deployment()
        self.taken: dict[int, str] = {}  # hosts that are not in use yet, and why they will be

    def admit(self, missing: list[int]) -> bool:
        """Admit the query and return True, or refuse it. New operators go where the file says, else near each other.

        `missing`: operators of the query that are not deployed. A query with an objective gets replicas until the
        objective is met; it is refused if that needs more room than there is.
        """
        for op in missing:
            self.plan.hosts[op] = list(self.system.placed[op]) or [self._home(op)]
            for slot, host in enumerate(self.plan.hosts[op]):
                self._takes(op, 1.0, host, slot)
                if not self.placement.in_use[host]:
                    self.taken.setdefault(host, f"the file has {self.system.operators[op]} there")
        slo = self.system.slos[self.query]
        if slo is not None and self.changes.enforce_slos:
            self._strengthen(slo)
        # Hosts are acquired after the admission: a query that is refused leaves nothing behind.
        if not self.admission.arrive(self.query, self.plan, ", with all replicas that there is room for"):
            return False
        for host, why in self.taken.items():
            self.changes.acquire(host, why)
        self._write_down("" if slo is None else f"it keeps {display.number(slo, 6)}")
        return True

    def _write_down(self, why: str) -> None:
        """Write the decisions about the query, its operators and its replicas."""
        names = self.system.hosts
        self.changes.note("admit", self.system.queries[self.query], "done", why)
        for op, placed in self.plan.hosts.items():
            told = self.system.placed[op]
            reason = "where the file says" if told == tuple(placed) else "near its query, where it fits"
            if len(placed) > len(told or placed[:1]):
                reason += "; replicas for its objective on " + ", ".join(names[one] for one in placed[1:])
            self.changes.note("place", self.system.operators[op], "done", reason, target=names[placed[0]])
        for number, host in self.plan.added:
            name, query = self.placement.parts[number].name, self.system.queries[self.query]
            self.changes.note("add", name, "done", f"for the objective of {query}", target=names[host])

    def _takes(self, op: int, share: float, host: int, slot: int) -> None:
        """Count the load of an instance at a host."""
        self.shares[host] += self._load(op, share, slot) / self.capacity[host]

    def _load(self, op: int, share: float, slot: int) -> float:
        """Return the load of an instance [cores], `slot` 0 being the primary."""
        return float(self.placement.load[op]) * share * (self.placement.replica_load if slot else 1.0)

    def _fits(self, load: float) -> np.ndarray:
        """Return the hosts that so much more load [cores] does not fill above `high`, (n_hosts,) bool."""
        found: np.ndarray = self.shares + load / self.capacity <= self.rules.high + _TIE
        return found

    def _near(self) -> np.ndarray:
        """Return how many instances of the query each host has, (n_hosts,)."""
        found = np.zeros(len(self.capacity), dtype=int)
        for placed in self.admission.would_be(self.query, self.plan):
            found[list(placed)] += 1
        return found

    def _home(self, op: int) -> int:
        """Return the host with room that has most of the query; else a spare one; else the least loaded."""
        load = self._load(op, 1.0, 0)
        fits = self._fits(load)
        up = [host for host in range(len(self.capacity)) if self.hosts.is_up(host) or host in self.taken]
        near = self._near()
        room = [host for host in up if fits[host]]
        if room:
            return max(room, key=lambda host: (near[host], -host))
        for host, used in enumerate(self.placement.in_use):
            if not used and fits[host] and self.changes.service.up[host]:
                self.taken[host] = f"room for {self.system.operators[op]}"
                return host
        used_ones = [host for host, used in enumerate(self.placement.in_use) if used]
        return min(up or used_ones, key=lambda host: (self.shares[host], host))

    def _strengthen(self, slo: float) -> None:
        """Add replicas until the objective is met, or no room is left: each time the best one.

        A single replica often does not change P(broken), for instance if it shares a host with another operator. Ties
        go to the least sum over operators, which such a replica lowers: the next one then gains.
        """
        unavailability = self.system.unavailability
        assert unavailability is not None
        while not keeps(slo, unavailability.broken(self.admission.would_be(self.query, self.plan))):
            # Spare hosts only where hosts in use have no room.
            best = self._best(self._rooms) or self._best(self._spare_rooms)
            if best is None:
                return
            what, host = best
            if not self.placement.in_use[host]:
                self.taken.setdefault(host, f"room for the objective of {self.system.queries[self.query]}")
            self.plan = self._with(what, host)
            op, share = self._part_of(what)
            self._takes(op, share, host, 1)

    def _best(self, hosts: Callable[[tuple[int, ...], float], list[int]]) -> tuple[tuple[int, int], int] | None:
        """Return (what, host) of the best replica on these hosts.

        Best is the least P(broken) of the query, then the least sum over its operators, then the first candidate.
        """
        unavailability = self.system.unavailability
        assert unavailability is not None
        best: tuple[float, float, tuple[int, int], int] | None = None
        for what, placed, load in self._candidates():
            for host in hosts(placed, load):
                with_it = self.admission.would_be(self.query, self._with(what, host))
                found = (
                    unavailability.broken(with_it),
                    sum(unavailability.broken([one]) for one in with_it),
                    what,
                    host,
                )
                best = found if best is None or found < best else best
        return None if best is None else best[2:]

    def _part_of(self, what: tuple[int, int]) -> tuple[int, float]:
        """Return (operator, share) of a new operator (0, op), or of a part that is there (1, number)."""
        kind, number = what
        return (number, 1.0) if kind == 0 else (self.placement.parts[number].op, self.placement.parts[number].share)

    def _candidates(self) -> list[tuple[tuple[int, int], tuple[int, ...], float]]:
        """Return candidates for a replica within the budget: (what, hosts, load of the replica)."""
        ops, placement, plan = self.system.needs[self.query], self.placement, self.plan
        found = [((0, op), tuple(plan.hosts[op])) for op in ops if op in plan.hosts]
        busy = placement.busy()
        there = [number for op in ops if op not in plan.hosts for number in placement.of_op[op] if number not in busy]
        for number in there:
            more = (host for one, host in plan.added if one == number)
            found.append(((1, number), (*placement.parts[number].hosts, *more)))
        left = self.rules.budget - placement.replicas_load() - self._spent() + _TIE
        loads = [(what, placed, self._load(*self._part_of(what), 1)) for what, placed in found]
        return [one for one in loads if one[2] <= left and len(one[1]) <= self.rules.replicas]

    def _spent(self) -> float:
        """Return the load of the replicas in the plan."""
        new = sum(self._load(op, 1.0, 1) * (len(placed) - 1) for op, placed in self.plan.hosts.items())
        return new + sum(self._load(*self._part_of((1, number)), 1) for number, _ in self.plan.added)

    def _spare_rooms(self, placed: tuple[int, ...], load: float) -> list[int]:
        """Return hosts that are not in use where a replica fits."""
        fits = self._fits(load)
        spare = [host for host, used in enumerate(self.placement.in_use) if not used and self.changes.service.up[host]]
        return [host for host in spare if fits[host] and host not in placed][:_TRIED]

    def _rooms(self, placed: tuple[int, ...], load: float) -> list[int]:
        """Return hosts where a replica fits: those with most of the query, and the least loaded ones."""
        fits = self._fits(load)
        near = self._near()
        hosts = [*self.hosts.by_share(self.shares), *self.taken]
        room = [host for host in dict.fromkeys(hosts) if fits[host] and host not in placed]
        nearest = sorted(room, key=lambda host: (-near[host], host))[:_TRIED]
        return list(dict.fromkeys([*nearest, *room[:_TRIED]]))

    def _with(self, what: tuple[int, int], host: int) -> Deployment:
        """Return the plan with one more replica."""
        kind, number = what
        if kind == 0:
            return Deployment({**self.plan.hosts, number: [*self.plan.hosts[number], host]}, list(self.plan.added))
        return Deployment(dict(self.plan.hosts), [*self.plan.added, (number, host)])
