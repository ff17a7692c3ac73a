"""The manager of a fleet: moves, splits, replicates and gives back, by thresholds on loads and importance.

It only asks (`sim.fleet.reconfiguration`); if a request is refused it tries the next one. In each check:

1. A host above `high` is relieved: an instance moves where it fits; else a spare host is taken; else the largest part
   is split; else a replica is given up.
2. With no host above `high`, spare room is used: replicas of the most important operators within the budget, and
   hosts below `low` given back; which of the two comes first is `spare`.

Which operators get replicas first follows Adaptive selective replication (VLDB PhD workshop 2013), "Importance".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from models import display
from models.checked_arrays import FloatArray
from models.fleet.description import ManagerSettings
from sim.draws import code_of, uniform
from sim.fleet.admitting import Admitting, HostLoads, importance, largest_load
from sim.fleet.placement import Add, Change, Move, Part, Remove, Split
from sim.fleet.reconfiguration import Admission, Reconfiguration

_TIE = 1e-9
_MOST_TARGETS = 8  # tried for one instance before the next one: each target costs an exact SLO check


class Manager:
    """Checks the loads and decides; it knows the placement, and which hosts are up.

    `rules`: thresholds (shares of capacity), budget (cores) and preferences of the file. The middle of the two
    thresholds is the limit for everything that is optional, replicas and emptied hosts, so that a small rise of the
    load does not undo it at the next check (hysteresis). Sums of loads are compared with a margin of 1e-9.
    """

    def __init__(
        self, rules: ManagerSettings, changes: Reconfiguration, admission: Admission, replication: int
    ) -> None:
        self.rules, self.changes, self.admission = rules, changes, admission
        self.placement, self.system = changes.placement, changes.placement.system
        self.capacity, self._hosts = self.system.capacity, HostLoads(changes)
        self._largest = 0.0
        self._stuck: set[int] = set()  # hosts whose row `stuck` was written; one row until they are relieved
        self._middle = (rules.low + rules.high) / 2
        self._draw = code_of(self.system.fleet.seed, replication, "dynamics", "importance")

    def check(self) -> None:
        """Take one round of decisions."""
        shares, self._largest = self._hosts.will_be(), largest_load(self.placement)
        over = [host for host in reversed(self._hosts.by_share(shares)) if shares[host] > self.rules.high + _TIE]
        self._stuck = {host for host in over if not self._relieve(host)}
        # Spare room is known only when nothing is overloaded or under way.
        if over or self.placement.pending:
            return
        # With `spare = "hosts"` replicas are added only when no host can be given back: they would keep it in use.
        if self.rules.spare == "replicas" or not self._scale_in():
            self._replicate()
        if self.rules.spare == "replicas":
            self._scale_in()

    def _is_over(self, host: int) -> bool:
        """Return True if the host will be above `high` once all that is under way is over."""
        return bool(self._hosts.will_be()[host] > self.rules.high + _TIE)

    def _targets(self, part: Part, load: float, limit: float) -> list[int]:
        """Return the hosts on which another instance of the part fits, least loaded first.

        `load` [cores] is what the instance needs; `limit` is the share of capacity up to which a host is filled.
        """
        shares = self._hosts.at_most()
        fits = shares + load / self.capacity <= limit + _TIE
        if not fits.any():
            return []
        return [host for host in self._hosts.by_share(shares) if fits[host] and host not in part.hosts]

    # -- a host is overloaded

    def _relieve(self, host: int) -> bool:
        """Move load off the host; return True if it will not be overloaded any more."""
        # A refused request is refused again while nothing else changes: without `tried` the loop might not end.
        tried: set[tuple[str, int]] = set()
        while self._is_over(host):
            why = f"{self.system.hosts[host]} at {display.share(self._hosts.will_be()[host])} of its CPU"
            why += f", above {display.share(self.rules.high)}"
            if not (
                self._move_one(host, why, tried)
                or self._acquire_for(host, why, tried)
                or self._split_one(host, why, tried)
                or self._give_up_replica(host, why, tried)
            ):
                if host not in self._stuck:
                    self.changes.note("stuck", self.system.hosts[host], "refused", f"{why}: nothing can leave it")
                return False
        return True

    def _movable(self, host: int) -> list[tuple[Part, int, float]]:
        """Return (part, slot, load) of the instances on the host whose parts have no change under way."""
        busy = self.placement.busy()
        on_it = [part for part in self.placement.parts.values() if host in part.hosts and part.number not in busy]
        slots = [(part, part.hosts.index(host)) for part in on_it]
        return [(part, slot, self.placement.instance_load(part, slot)) for part, slot in slots]

    def _move_one(self, host: int, why: str, tried: set[tuple[str, int]]) -> bool:
        """Move the smallest instance that is enough by itself, else the largest; return True if one moves."""
        excess = float(self._hosts.will_be()[host] - self.rules.high) * float(self.capacity[host])

        def preference(one: tuple[Part, int, float]) -> tuple[bool, float, int]:
            enough = one[2] >= excess - _TIE
            return (not enough, one[2] if enough else -one[2], one[0].number)

        for part, _, load in sorted(self._movable(host), key=preference):
            if load == 0 or ("move", part.number) in tried:
                continue
            for target in self._targets(part, load, self.rules.high)[:_MOST_TARGETS]:
                if self.changes.ask([Move(part.number, host, target)], why):
                    return True
            tried.add(("move", part.number))
        return False

    def _acquire_for(self, host: int, why: str, tried: set[tuple[str, int]]) -> bool:
        """Take a spare host on which something of this one fits, whole or as a half."""
        spare = [one for one, used in enumerate(self.placement.in_use) if not used and self.changes.service.up[one]]
        for one in spare:
            room = self.rules.high * float(self.capacity[one])
            for part, slot, load in self._movable(host):
                ways: list[tuple[Change, float]] = [(Move(part.number, host, one), load)]
                ways += [(Split(part.number, one), load / 2)] if slot == 0 and self.placement.can_split(part) else []
                # Acquire a host only if a change would be accepted there, or it might stay empty.
                if any(0 < needs <= room + _TIE and self.changes.would_do(change) for change, needs in ways):
                    self.changes.acquire(one, why)
                    tried.clear()  # there is a new target for all of them
                    return True
        return False

    def _split_one(self, host: int, why: str, tried: set[tuple[str, int]]) -> bool:
        """Split the largest primary that can be; return True if one is."""
        here = [one for one in self._movable(host) if one[1] == 0 and one[2] > 0 and self.placement.can_split(one[0])]
        for part, _, load in sorted(here, key=lambda one: (-one[2], one[0].number)):
            if ("split", part.number) in tried:
                continue
            for target in self._targets(part, load / 2, self.rules.high)[:_MOST_TARGETS]:
                if self.changes.ask([Split(part.number, target)], why):
                    return True
            tried.add(("split", part.number))
        return False

    def _give_up_replica(self, host: int, why: str, tried: set[tuple[str, int]]) -> bool:
        """Give up the least important replica on the host that no objective needs; return True if there is one."""
        here = [part for part, slot, load in self._movable(host) if slot and load > 0]
        for part in sorted(here, key=lambda one: (self._worth(one), -one.number)):
            if ("remove", part.number) not in tried:
                tried.add(("remove", part.number))
                if self.changes.ask([Remove(part.number, host)], why):
                    return True
        return False

    # -- spare room

    def _worth(self, part: Part) -> float:
        """Return the importance of the part's operator as the file defines it, without trying placements."""
        kind = "product" if self.rules.importance == "gain" else self.rules.importance
        return importance(kind, self.placement, part, self._largest, uniform(code_of(part.op), self._draw))

    def _replicate(self) -> None:
        """Add replicas within the budget, most important operators first; give some up where it is too small."""
        self._shrink()
        left = self.rules.budget - self.placement.replicas_load() + _TIE
        wanted: list[tuple[float, int, int]] = []
        for part in self.placement.parts.values():
            load = self.placement.instance_load(part, 1)
            if load <= left and len(part.hosts) <= self.rules.replicas and part.number not in self.placement.busy():
                target = self._near(part, load)
                if target is not None:
                    wanted.append((self._value(part, target), part.number, target))
        for value, number, _ in sorted(wanted, key=lambda one: (-one[0], one[1])):
            part = self.placement.parts[number]
            load = self.placement.instance_load(part, 1)
            # Loads and budget have changed since the candidates were valued.
            again = self._near(part, load)
            if again is not None and self.placement.replicas_load() + load <= self.rules.budget + _TIE:
                budget = display.number(self.rules.budget, 6)
                reason = f"{self.rules.importance} {display.number(value)}, within the budget of {budget} cores"
                self.changes.ask([Add(number, again)], reason)

    def _shrink(self) -> None:
        """Give up replicas while they need more than the budget, the least important first."""
        if self.placement.replicas_load() <= self.rules.budget + _TIE:
            return
        parts = [part for part in self.placement.parts.values() if len(part.hosts) > 1]
        for part in sorted(parts, key=lambda one: (self._worth(one), -one.number)):
            if self.placement.replicas_load() <= self.rules.budget + _TIE:
                return
            if self.placement.instance_load(part, 1) > 0:
                self.changes.ask([Remove(part.number, part.hosts[-1])], "replicas need more than the budget")

    def _value(self, part: Part, target: int) -> float:
        """Return the importance of another replica on the target: by the file, or the exact gain, weighted by query."""
        unavailability = self.system.unavailability
        if self.rules.importance != "gain" or unavailability is None:
            return self._worth(part)
        change: list[Change] = [Add(part.number, target)]
        gain = 0.0
        for query in sorted(self.placement.users[part.op]):
            before = unavailability.broken(self.placement.instances(query))
            gain += float(self.system.weights[query]) * (
                before - unavailability.broken(self.placement.changed(query, change))
            )
        return gain

    def _near(self, part: Part, load: float) -> int | None:
        """Return the host with most instances of the same queries that a replica does not fill above the middle.

        Ties go to the least loaded one. Room between the middle and `high` is reserved for rising rates.
        """
        targets = self._targets(part, load, self._middle)
        if not targets:
            return None
        near = self._neighbours(part.op)
        return max(targets, key=lambda host: (near[host], -targets.index(host)))

    def _neighbours(self, op: int) -> np.ndarray:
        """Return how many instances of operators of the same queries each host has, (n_hosts,)."""
        found = np.zeros(len(self.capacity), dtype=int)
        ops = {other for query in self.placement.users.get(op, ()) for other in self.system.needs[query] if other != op}
        for other in ops:
            for number in self.placement.of_op[other]:
                found[self.placement.parts[number].hosts] += 1
        return found

    def _scale_in(self) -> bool:
        """Give back the least loaded host below `low` that can be emptied without filling another above the middle."""
        if self.placement.pending or sum(self.placement.in_use) < 2:
            return False
        shares = self._hosts.will_be()
        for host in self._hosts.by_share(shares):
            if shares[host] >= self.rules.low:
                break
            plan = self._emptied(host)
            if plan is not None:
                why = f"at {display.share(shares[host])} of its CPU, below {display.share(self.rules.low)}"
                if self.changes.drain(host, plan, why):
                    return True
        return False

    def _emptied(self, host: int) -> list[Change] | None:
        """Return changes that empty the host, or None: replicas are given up if `spare` is hosts, all else moves."""
        placement, plan, shares = self.placement, list[Change](), self._hosts.at_most()
        limit = self._middle
        instances = self._movable(host)
        for part, slot, load in sorted(instances, key=lambda one: (-one[2], one[0].number)):
            for change in self._ways_off(part, slot, host, shares, limit, load):
                # Together with the changes before it: an objective may allow each of them and not all.
                if self.changes.would_do(*plan, change):
                    break
            else:
                return None
            plan.append(change)
            if isinstance(change, Move):
                shares[change.target] += load / self.capacity[change.target]
        # Parts with a change under way are not in the plan, and keep the host.
        on_it = sum(host in part.hosts for part in placement.parts.values())
        return plan if len(plan) == on_it else None

    def _ways_off(
        self, part: Part, slot: int, host: int, shares: FloatArray, limit: float, load: float
    ) -> Iterator[Change]:
        """Yield changes that take one instance off the host, the cheapest first: give up a replica, else move."""
        if slot and self.rules.spare == "hosts":
            yield Remove(part.number, host)
        near = self._neighbours(part.op)
        fits = shares + load / self.capacity <= limit + _TIE
        hosts = [one for one in self._hosts.by_share(shares) if fits[one] and one != host and one not in part.hosts]
        for target in sorted(hosts, key=lambda one: (-near[one], one))[:_MOST_TARGETS]:
            yield Move(part.number, host, target)

    def admit(self, query: int, missing: list[int]) -> bool:
        """Admit the query that arrives; return True if it is there now."""
        return Admitting(query, self.rules, self._hosts, self.changes, self.admission).admit(missing)
