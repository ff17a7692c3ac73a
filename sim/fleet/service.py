"""Up and down hosts, serving instances and broken queries of a fleet; checked once an instant.

A part is served by its first instance whose host is up. While the host of its primary is down and nobody has taken
over, nobody serves. Checks come at the end of an instant, after all its failures, repairs and changes: causes that
cancel out within an instant leave no row.

Up and down times of an element are a function of its name and of the seed, never of the order of events.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from models.distributions import TimeDistribution
from models.fleet.records import TABLES, Row
from models.fleet.system import Renewal, System
from models.units import to_ns
from sim.clock import END_OF_INSTANT, Clock
from sim.draws import code_of, delays_ns, numbered, uniforms
from sim.fleet.placement import NOBODY, FleetPlacement, Part

_BLOCK = 64


class RenewalTimes:
    """The 0th, 1st, ... time [ns] of one kind that one element takes; drawn in blocks, asked for one by one.

    `name` identifies element and kind, as in ("host", "a", "up"). A time is at least 1 ns.
    """

    def __init__(self, law: TimeDistribution, seed: int, replication: int, *name: object) -> None:
        self._law, self._code = law, code_of(seed, replication, "dynamics", *name)
        self._known: list[int] = []

    def __getitem__(self, number: int) -> int:
        """Return the time with this number [ns]; the same whenever it is asked for."""
        # By number, not by order: the size of a block and the order of questions change no time.
        while number >= len(self._known):
            first = len(self._known)
            of = uniforms(numbered(self._code, np.arange(first, first + _BLOCK)), 0)
            self._known += delays_ns(self._law, of).tolist()
        return self._known[number]


class Coverage:
    """Draws whether the k-th failure of a host is detected: True with probability `share`, independently."""

    def __init__(self, share: float, seed: int, replication: int, host: str) -> None:
        self._share, self._code = share, code_of(seed, replication, "dynamics", host, "coverage")
        self._known: list[bool] = []

    def __getitem__(self, number: int) -> bool:
        """Return True if the failure with this number, from 0, is detected."""
        while number >= len(self._known):
            first = len(self._known)
            of = uniforms(numbered(self._code, np.arange(first, first + _BLOCK)), 0)
            self._known += (of < self._share).tolist()  # always below one
        return self._known[number]


def up_and_down_times_of(
    law: Renewal, seed: int, replication: int, *name: object
) -> tuple[RenewalTimes | None, RenewalTimes | None]:
    """Return the up and the down times of a named element; None where it has none of that kind."""
    up = None if law.up is None else RenewalTimes(law.up, seed, replication, *name, "up")
    return up, None if law.down is None else RenewalTimes(law.down, seed, replication, *name, "down")


class Service:
    """The state of hosts, parts and queries, and the rows that it leaves.

    `up` (n_hosts): whether each host is up at the end of the last instant. `rows`: table -> rows so far.
    `host_changed`: functions that are called with a host when it went down or came back. Methods without underscore
    only mark what may have changed; one check at the end of the instant compares it with the state before.
    """

    def __init__(self, clock: Clock, placement: FleetPlacement, replication: int) -> None:
        self.clock, self.placement, self.system = clock, placement, placement.system
        n = len(self.system.hosts)
        self.up = [True] * n
        self.rows: dict[str, list[Row]] = {name: [] for name in TABLES}
        self.host_changed: list[Callable[[int], None]] = []
        self._causes = [0] * n  # how many elements of each host are down: itself, and its groups
        self._outage = [0] * n  # how many there were
        self._down_at = [0] * n
        self._late = [False] * n
        self._standby = _take_over(self.system, replication)
        self._hosts: set[int] = set()  # to check
        self._parts: set[int] = set()
        self._queries: set[int] = set()
        self._broken: dict[int, int] = {}  # query -> since when
        self._overloaded: dict[int, int] = {}
        self._placed: set[int] = set()  # queries that are placed otherwise now
        self._standing: dict[int, tuple[int, float]] = {}  # query -> (since when, P(broken))
        self._loads = True  # to check
        self._check_scheduled = False

    # -- events

    def down(self, host: int) -> None:
        """Count one more reason for the host to be down."""
        self._causes[host] += 1
        self._check_later(self._hosts, host)

    def back(self, host: int) -> None:
        """Count one reason less for the host to be down."""
        self._causes[host] -= 1
        self._check_later(self._hosts, host)

    def changed(self, part: Part) -> None:
        """Check the part again: its instances have changed."""
        self._check_later(self._parts, part.number)
        self._placed.update(self.placement.users.get(part.op, ()))
        self.loads_changed()

    def query_changed(self, query: int) -> None:
        """Check the query again: it has come, or its parts have changed."""
        self._placed.add(query)
        self._check_later(self._queries, query)

    def loads_changed(self) -> None:
        """Check loads again: they have changed."""
        self._loads = True
        self._schedule_check()

    def query_left(self, query: int) -> None:
        """Forget the query: it has gone."""
        self._close_standing(query)
        self._end_outage(query)

    def _end_outage(self, query: int) -> None:
        """End the outage of a query, if there is one; an outage of no length leaves no row."""
        since, now = self._broken.pop(query, None), self.clock.now_ns()
        if since is not None and since < now:
            self.rows["outages"].append((self.system.queries[query], since, now))

    def _check_later(self, marked: set[int], number: int) -> None:
        """Mark a host, part or query for the check at the end of the instant."""
        marked.add(number)
        self._schedule_check()

    def _schedule_check(self) -> None:
        """Set one check for the end of this instant, whatever number of causes there is."""
        if not self._check_scheduled:
            self._check_scheduled = True
            self.clock.at(self.clock.now_ns(), END_OF_INSTANT, self._settle)

    # -- the check at the end of an instant

    def _settle(self, _: object) -> None:
        """Check everything that was marked at this instant."""
        self._check_scheduled = False
        # In this order: hosts mark parts, and parts mark queries, which are checked in the same pass. Sorted, so that
        # rows do not depend on the order of the causes.
        for host in sorted(self._hosts):
            self._settle_host(host)
        for number in sorted(self._parts):
            if number in self.placement.parts:
                self._settle_part(self.placement.parts[number])
        for query in sorted(self._queries):
            if query in self.placement.present:
                self._settle_query(query)
        for query in sorted(self._placed):
            self._settle_standing(query)
        for marked in (self._hosts, self._parts, self._queries, self._placed):
            marked.clear()
        if self._loads:
            self._settle_loads()

    def _settle_host(self, host: int) -> None:
        """Note that a host went down or came back, if it is so at the end of the instant."""
        up, now = self._causes[host] == 0, self.clock.now_ns()
        if up == self.up[host]:
            return
        self.up[host] = up
        if up:
            self._late[host] = False
            self.rows["host_downtimes"].append((self.system.hosts[host], self._down_at[host], now))
        else:
            self._down_at[host] = now
            self._wait_for_take_over(host)  # before the count, which numbers the outages from 0
            self._outage[host] += 1
        self._parts.update(number for number, part in self.placement.parts.items() if host in part.hosts)
        for call in self.host_changed:
            call(host)

    def _wait_for_take_over(self, host: int) -> None:
        """Let nobody serve in place of the host until the take-over, or at all if the failure is not covered."""
        if self._standby is None:
            return
        late, covered = self._standby
        # The coverage of an outage is drawn by its number, so that all designs draw the same.
        number = self._outage[host]
        detected = covered[host][number]
        self._late[host] = late > 0 or not detected
        if detected and late > 0:
            self.clock.at(self.clock.now_ns() + late, 1, lambda _: self._taken_over(host, number + 1))

    def _taken_over(self, host: int, outage: int) -> None:
        """Let others serve from now on in place of the host, if that is still down."""
        if not self.up[host] and self._outage[host] == outage:
            self._late[host] = False
            for number, part in self.placement.parts.items():
                if part.hosts[0] == host:
                    self._check_later(self._parts, number)

    def _settle_part(self, part: Part) -> None:
        """Note which instance serves the part now, and the take-over if that is another host."""
        now, primary = self.clock.now_ns(), part.hosts[0]
        able = part.hosts[:1] if self._late[primary] else part.hosts
        serves = next((host for host in able if self.up[host]), NOBODY)
        if serves == part.serving:
            return
        if serves == NOBODY:
            part.silent_since = now
        else:
            if serves != part.served_last:
                gap = now - part.silent_since if part.serving == NOBODY else 0
                names = self.system.hosts
                row = (part.name, now, names[part.served_last], names[serves], gap)
                self.rows["take_overs"].append(row)
            part.served_last = serves
        part.serving = serves
        self._queries.update(self.placement.users[part.op])

    def _settle_query(self, query: int) -> None:
        """Begin or end the outage of a query: it is broken if nobody serves one of its parts."""
        placement, now = self.placement, self.clock.now_ns()
        parts = (placement.parts[number] for op in self.system.needs[query] for number in placement.of_op[op])
        broken = any(part.serving == NOBODY for part in parts)
        if broken and query not in self._broken:
            self._broken[query] = now
        elif not broken and query in self._broken:
            self._end_outage(query)

    def _settle_standing(self, query: int) -> None:
        """Record the exact unavailability of the placement from now on."""
        if self.system.unavailability is None or query not in self.placement.present:
            return
        broken = self.system.unavailability.broken(self.placement.instances(query))
        if self._standing.get(query, (0, None))[1] != broken:
            self._close_standing(query)
            self._standing[query] = self.clock.now_ns(), broken

    def _close_standing(self, query: int) -> None:
        """End the row of the unavailability of a query's placement."""
        now, (since, broken) = self.clock.now_ns(), self._standing.pop(query, (self.clock.now_ns(), 0.0))
        if since < now:
            self.rows["standing"].append((self.system.queries[query], since, now, broken))

    def _settle_loads(self) -> None:
        """Begin and end overloads of hosts."""
        self._loads = False
        now = self.clock.now_ns()
        over = self.placement.demand() > self.system.capacity * (1 + 1e-9)
        for host, is_over in enumerate(over.tolist()):
            if is_over:
                self._overloaded.setdefault(host, now)
            elif host in self._overloaded:
                self.rows["overloads"].append((self.system.hosts[host], self._overloaded.pop(host), now))

    def close(self, now: int) -> None:
        """Write the rows of all that lasts until the end."""
        for host, up in enumerate(self.up):
            if not up:
                self.rows["host_downtimes"].append((self.system.hosts[host], self._down_at[host], now))
        for query, (since, broken) in self._standing.items():
            self.rows["standing"].append((self.system.queries[query], since, now, broken))
        for query, since in self._broken.items():
            self.rows["outages"].append((self.system.queries[query], since, now))
        for host, since in self._overloaded.items():
            self.rows["overloads"].append((self.system.hosts[host], since, now))
        for query, since in self.placement.present.items():
            self.rows["presence"].append((self.system.queries[query], since, now))


def _take_over(system: System, replication: int) -> tuple[int, list[Coverage]] | None:
    """Return the time of a take-over [ns], and per host which failures are detected; None without standbys."""
    standby = system.fleet.standby
    if standby is None:
        return None
    seed = system.fleet.seed
    return to_ns(standby.take_over_s), [Coverage(standby.coverage, seed, replication, name) for name in system.hosts]
