"""Failures and repairs of hosts and of groups of hosts, as SimPy processes.

`sim.fleet.outages` computes the same down times without a clock; a test compares the two. A host may be down for
several reasons at once, its own and those of its groups: `Service` counts them.
"""

from __future__ import annotations

import heapq

from models.fleet.system import System
from models.units import to_ns
from sim.clock import ARRIVAL, Clock, Process
from sim.fleet.service import RenewalTimes, Service, up_and_down_times_of


class HostFailures:
    """The processes that take hosts down, and the crews that repair them.

    One process for each element: recorded downtimes, days, repairs by few crews, or an alternating renewal process.
    With few crews a repair begins when a crew is free, first failed first.
    """

    def __init__(self, clock: Clock, system: System, service: Service, replication: int) -> None:
        self.clock, self.system, self.service, self.replication = clock, system, service, replication
        self._free = system.fleet.times.crews
        self._waiting: list[tuple[int, int]] = []  # (failed at, host)
        self._crews_due = False
        self._starts = [clock.event() for _ in system.hosts]  # of a repair, where crews are few

    def start(self) -> None:
        """Start the processes: hosts in order, then groups; or those of recorded downtimes."""
        system, times, seed = self.system, self.system.fleet.times, self.system.fleet.seed
        if system.downtimes is not None:
            for host, down_ns, up_ns in sorted(system.downtimes, key=lambda row: row[1]):
                self.clock.process(self._once(host, down_ns, up_ns))
            return
        for host, law in enumerate(system.own):
            up, down = up_and_down_times_of(law, seed, self.replication, "host", system.hosts[host])
            if times.day_s is not None:
                self.clock.process(self._days(host, up, to_ns(times.day_s)))
            elif times.crews is not None:
                self.clock.process(self._repaired_by_crews(host, up, down))
            else:
                self.clock.process(self._in_turn((host,), up, down))
        for index, (group, law) in enumerate(zip(system.groups, system.shocks, strict=True)):
            up, down = up_and_down_times_of(law, seed, self.replication, "domain", index)
            self.clock.process(self._in_turn(group, up, down))

    def _once(self, host: int, down: int, up: int) -> Process:
        """Go down and come back at recorded instants."""
        yield self.clock.sleep(down)
        self.service.down(host)
        yield self.clock.sleep(up)
        self.service.back(host)

    def _in_turn(self, hosts: tuple[int, ...], up: RenewalTimes | None, down: RenewalTimes | None) -> Process:
        """Go down and up in turn, with a crew of its own."""
        yield self.clock.sleep(self.clock.now_ns())
        # Without up times it is always down; without down times it never fails.
        if up is None or down is None:
            if down is not None:
                self._all_down(hosts)
            return
        number = 0
        while True:
            yield self.clock.sleep(self.clock.now_ns() + up[number])
            self._all_down(hosts)
            yield self.clock.sleep(self.clock.now_ns() + down[number])
            for host in hosts:
                self.service.back(host)
            number += 1

    def _all_down(self, hosts: tuple[int, ...]) -> None:
        """Take all hosts of a group down at this instant."""
        for host in hosts:
            self.service.down(host)

    def _days(self, host: int, up: RenewalTimes | None, day_ns: int) -> Process:
        """Stay down from a failure to the end of the day."""
        yield self.clock.sleep(self.clock.now_ns())
        day = 0
        while up is not None:
            after = up[day]
            if after < day_ns:
                yield self.clock.sleep(day * day_ns + after)
                self.service.down(host)
            day += 1
            yield self.clock.sleep(day * day_ns)
            if after < day_ns:
                self.service.back(host)

    def _repaired_by_crews(self, host: int, up: RenewalTimes | None, down: RenewalTimes | None) -> Process:
        """Go down and up in turn, each repair beginning when a crew is free."""
        yield self.clock.sleep(self.clock.now_ns())
        if up is None or down is None:
            if down is not None:
                self.service.down(host)
            return
        number = 0
        while True:
            yield self.clock.sleep(self.clock.now_ns() + up[number])
            self.service.down(host)
            self._starts[host] = self.clock.event()
            heapq.heappush(self._waiting, (self.clock.now_ns(), host))
            self._send_crews()
            yield self._starts[host]
            yield self.clock.sleep(self.clock.now_ns() + down[number])
            self.service.back(host)
            assert self._free is not None
            self._free += 1
            self._send_crews()
            number += 1

    def _send_crews(self) -> None:
        """Send crews at the end of the instant, when all its failures and repairs are known.

        The host that failed first comes first, ties by number: no order of processes decides."""
        if not self._crews_due:
            self._crews_due = True
            self.clock.at(self.clock.now_ns(), ARRIVAL, self._sent)

    def _sent(self, _: object) -> None:
        """Give free crews to waiting hosts."""
        self._crews_due = False
        assert self._free is not None
        while self._free and self._waiting:
            _, host = heapq.heappop(self._waiting)
            self._free -= 1
            self._starts[host].succeed()
